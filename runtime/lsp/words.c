/* Hover and completion: what the words at a place mean, and which may stand there. */
#include <ctype.h>

#include "frontends/dl/vocabulary.h"
#include "runtime/lsp/answers.h"

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The word that contains byte `at` or ends there. */
static dl_span word_at(const dl_source *s, uint32_t at) {
    dl_span w = {at, at};
    while (w.begin > 0 && is_word(s->text[w.begin - 1])) w.begin--;
    while (w.end < s->n && is_word(s->text[w.end])) w.end++;
    return w;
}

static const char *text_of(dl_arena *arena, const dl_source *s, dl_span w) {
    return dl_strndup(arena, s->text + w.begin, w.end - w.begin);
}

/* ---- hover ---- */

enum { SHOWN = 8 };

/* A list of facts, each on a line, and how many more there are. */
static void put_facts(dl_buf *b, const char *before, const char **texts, int shown, int n) {
    for (int i = 0; i < shown; i++) dl_putf(b, "%s%s\n", before, texts[i]);
    if (n > shown) dl_putf(b, "%sand %d more\n", before, n - shown);
}

/* The facts of the first place of a name that has any: an argument's, which its definition lacks.
 */
static int facts_of_symbol(const dl_lsp_document *d, uint32_t at, const char **texts, int *n,
                           dl_span *where) {
    const dl_symbol_place *p = dl_symbols_at(d->symbols, at);
    for (int i = 0; p && i < d->symbols->places.n; i++) {
        const dl_symbol_place *q = &d->symbols->places.at[i];
        if (q->symbol != p->symbol) continue;
        int shown = dl_facts_values_at(d->facts, q->where.begin, SHOWN, texts, n, where);
        if (shown && where->begin == q->where.begin && where->end == q->where.end) return shown;
    }
    return 0;
}

void dl_lsp_hover(dl_buf *b, const dl_lsp_document *d, uint32_t at) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_span word = word_at(d->source, at), where = {0, 0};
    const char *texts[SHOWN], *name = text_of(arena, d->source, word), *usage;
    const dl_symbol_place *p = dl_symbols_at(d->symbols, at);
    int n = 0, shown;
    dl_buf text = {0};
    usage = p ? NULL : dl_vocabulary_usage(arena, name);
    if (usage) dl_putf(&text, "%s\n", usage);
    if (p) dl_putf(&text, "%s %s\n", dl_symbol_kinds[d->symbols->list.at[p->symbol].kind], name);
    shown = p ? facts_of_symbol(d, at, texts, &n, &where) : 0;
    if (!shown && word.end > word.begin)
        shown = dl_facts_values_at(d->facts, at, SHOWN, texts, &n, &where);
    bool told = shown > 0 || text.n > 0;
    put_facts(&text, "", texts, shown, n);
    if (shown && !p) {
        shown = dl_facts_parameters_in(d->facts, where, SHOWN, texts, &n);
        put_facts(&text, "  ", texts, shown, n);
    }
    if (told) {
        dl_puts(b, "{\"contents\": {\"kind\": \"plaintext\", \"value\": ");
        dlr_json_put_string(b, text.at);
        dl_puts(b, "}, \"range\": "), dl_lsp_put_range(b, d->source, word), dl_puts(b, "}");
    } else
        dl_puts(b, "null");
    dl_buf_free(&text);
    dl_arena_free(arena);
}

/* ---- completion ---- */

/* The protocol's kinds of items. */
enum { FUNCTION = 3, FIELD = 5, VARIABLE = 6, CLASS = 7, KEYWORD = 14 };

typedef struct {
    dl_buf *b;
    const char *prefix;
    int n;
} offers;

static void offer(offers *o, const char *word, int kind, const char *detail, const char *tail) {
    size_t n = strlen(o->prefix);
    if (strncmp(word, o->prefix, n) != 0) return;
    dl_puts(o->b, o->n++ ? ", {\"label\": " : "{\"label\": "), dlr_json_put_string(o->b, word);
    dl_putf(o->b, ", \"kind\": %d", kind);
    if (detail) dl_puts(o->b, ", \"detail\": "), dlr_json_put_string(o->b, detail);
    if (*tail) {
        dl_buf text = {0};
        dl_putf(&text, "%s%s", word, tail);
        dl_puts(o->b, ", \"insertText\": "), dlr_json_put_string(o->b, text.at);
        dl_buf_free(&text);
    }
    dl_puts(o->b, "}");
}

/* The last byte before `at` that is no blank, in its line or an earlier one; 0: there is none. */
static uint32_t before(const dl_source *s, uint32_t at) {
    while (at > 0 && isspace((unsigned char)s->text[at - 1])) at--;
    return at;
}

/* The name of the call whose brackets are open at byte `at`; "" outside of calls. */
static const char *open_call(dl_arena *arena, const dl_source *s, uint32_t at) {
    int closed = 0;
    for (uint32_t i = at; i > 0; i--) {
        char c = s->text[i - 1];
        if (c == '\n' && closed == 0 && i < s->n && !isspace((unsigned char)s->text[i])) break;
        closed += (c == ')' || c == ']') - (c == '(' || c == '[');
        if (closed < 0 && c != '(') return "";
        if (closed < 0) return text_of(arena, s, (dl_span){word_at(s, i - 1).begin, i - 1});
    }
    return "";
}

static void offer_arguments(offers *o, const dl_lsp_document *d, const char *call) {
    const char *name, *otherwise;
    for (int i = 0; (name = dl_vocabulary_argument(call, i, &otherwise)); i++)
        offer(o, name, FIELD, otherwise, "=");
    for (int i = 0; i < d->symbols->list.n; i++) {
        const dl_symbol *s = &d->symbols->list.at[i];
        if (s->outer >= 0 && strcmp(d->symbols->list.at[s->outer].name, call) == 0)
            offer(o, s->name, FIELD, "argument", "=");
    }
}

static bool is_callable(dl_symbol_kind kind) {
    return kind == DL_SYMBOL_MODULE || kind == DL_SYMBOL_FUNCTION;
}

void dl_lsp_complete(dl_buf *b, const dl_lsp_document *d, uint32_t at) {
    dl_arena *arena = dl_arena_new(NULL);
    const dl_source *s = d->source;
    uint32_t begin = word_at(s, at).begin, last = before(s, begin);
    offers o = {.b = b, .prefix = text_of(arena, s, (dl_span){begin, at})};
    bool piped = last > 1 && s->text[last - 1] == '>' && s->text[last - 2] == '|';
    dl_puts(b, "{\"isIncomplete\": false, \"items\": [");
    offer_arguments(&o, d, open_call(arena, s, begin));
    for (int i = 0; i < d->symbols->list.n; i++) {
        const dl_symbol *y = &d->symbols->list.at[i];
        bool seen = y->scope.begin <= at && at <= y->scope.end && y->kind != DL_SYMBOL_MODEL;
        if (seen && (!piped || is_callable(y->kind)))
            offer(&o, y->name, is_callable(y->kind) ? FUNCTION : VARIABLE, dl_symbol_kinds[y->kind],
                  "");
    }
    const char *name;
    bool makes;
    for (int i = 0; (name = dl_vocabulary_at(i, &makes)); i++)
        offer(&o, name, makes ? CLASS : FUNCTION, dl_vocabulary_usage(arena, name), "");
    int n, never;
    const char *const *words = dl_keywords(&n, &never);
    for (int i = 0; i < n && !piped; i++) offer(&o, words[i], KEYWORD, NULL, "");
    dl_puts(b, "]}");
    dl_arena_free(arena);
}

/* The text of statements, with the model's lines as comments. Repeated blocks are loops: statements
 * that differ by the index into one list of modules, and by the value that each block hands on to
 * the next. */
#include <ctype.h>
#include <stdlib.h>

#include "exports/pytorch/parts.h"

enum {
    LONGEST_BLOCK = 80, /* statements */
    FEWEST_SAVED = 4,
    LONGEST_LINE = 90 /* of the model, in a comment */
};

/* A run of equal blocks: `count` blocks of `length` statements from `first` on. */
typedef struct {
    const torch_export *t;
    int first, length, count;
    const char *list;    /* "self.blocks" */
    size_t list_n;       /* its length */
    long index;          /* of the first block's module */
    const char *carried; /* what the first block reads in the place of the last one's result */
} run;

static const char *made(const run *r, int block, int offset) {
    return r->t->statements.at[r->first + block * r->length + offset].name;
}

/* The statement of a block that makes a name, or -1. */
static int maker(const run *r, int block, const char *name, size_t n) {
    for (int i = 0; i < r->length; i++) {
        const char *s = made(r, block, i);
        if (strlen(s) == n && strncmp(s, name, n) == 0) return i;
    }
    return -1;
}

static size_t word(const char *s) {
    size_t n = 0;
    if (!isalpha((unsigned char)*s) && *s != '_') return 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
    return n;
}

/* Is it a name of its own, no attribute and no part of a number? */
static bool is_whole_word(const char *text, const char *s) {
    return s == text || (!isalnum((unsigned char)s[-1]) && s[-1] != '.' && s[-1] != '_');
}

static bool is(const char *name, const char *s, size_t n) {
    return name && strlen(name) == n && strncmp(name, s, n) == 0;
}

/* Do the names a and b mean the same in block 0 and block k? Finds what is carried. */
static bool same_name(run *r, int k, const char *a, size_t n, const char *b, size_t m) {
    int at = maker(r, 0, a, n);
    if (at >= 0) return maker(r, k, b, m) == at;
    if (is(made(r, k - 1, r->length - 1), b, m)) {
        if (!r->carried) r->carried = dl_intern_n(a, n);
        return is(r->carried, a, n);
    }
    return n == m && strncmp(a, b, n) == 0 && !is(r->carried, a, n) && maker(r, k, b, m) < 0;
}

/* Is [3] in the first block [3 + k] in block k, of one list? */
static bool same_index(run *r, int k, const char *text, const char *a, const char *b) {
    const char *from = a - 1;
    while (from > text && (isalnum((unsigned char)from[-1]) || strchr("._[]", from[-1]))) from--;
    size_t n = (size_t)(a - 1 - from);
    long i = strtol(a, NULL, 10), j = strtol(b, NULL, 10);
    bool ours = r->list && n == r->list_n && strncmp(from, r->list, n) == 0;
    if (i == j) return !ours;
    if (!r->list && strncmp(from, "self.", 5) == 0)
        r->list = from, r->list_n = n, r->index = i, ours = true;
    return ours && i == r->index && j == i + k;
}

static bool same_text(run *r, int k, const char *text, const char *other) {
    const char *a = text, *b = other;
    while (*a && *b) {
        size_t n = word(a), m = word(b);
        if (n && m && is_whole_word(text, a)) {
            if (!same_name(r, k, a, n, b, m)) return false;
            a += n, b += m;
        } else if (*a == '[' && *b == '[' && isdigit((unsigned char)a[1]) &&
                   isdigit((unsigned char)b[1]) && a > text && !strchr(" ([", a[-1])) {
            if (!same_index(r, k, text, a + 1, b + 1)) return false;
            for (a++; isdigit((unsigned char)*a); a++) continue;
            for (b++; isdigit((unsigned char)*b); b++) continue;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return *a == *b;
}

static bool same_block(run *r, int k) {
    for (int i = 0; i < r->length; i++) {
        const torch_statement *a = &r->t->statements.at[r->first + i],
                              *b = &r->t->statements.at[r->first + k * r->length + i];
        if (a->line != b->line || a->before || b->before || !same_text(r, k, a->text, b->text))
            return false;
    }
    return true;
}

/* Does a text read a name that the blocks make, other than the last? */
static bool reads_within(const run *r, const char *text) {
    for (const char *s = text; *s;) {
        size_t n = word(s);
        if (n && is_whole_word(text, s))
            for (int k = 0; k < r->count; k++) {
                int at = maker(r, k, s, n);
                if (at >= 0 && (k < r->count - 1 || at < r->length - 1)) return true;
            }
        s += n ? n : 1;
    }
    return false;
}

/* The run that begins at a statement with blocks of this length; count 0: none. */
static run run_of(const torch_export *t, int first, int length, const char *end) {
    run r = {.t = t, .first = first, .length = length, .count = 1};
    while (first + (r.count + 1) * length <= t->statements.n) {
        run more = r;
        if (!same_block(&more, r.count) || !more.list || !more.carried) break;
        int count = r.count + 1;
        r = more, r.count = count;
    }
    if (r.count < 2 || (r.count - 1) * length < FEWEST_SAVED) r.count = 0;
    for (int i = first + r.count * length; r.count && i < t->statements.n; i++) {
        const torch_statement *s = &t->statements.at[i];
        if (reads_within(&r, s->text) || (s->before && reads_within(&r, s->before))) r.count = 0;
    }
    if (r.count && reads_within(&r, end)) r.count = 0;
    return r;
}

/* The text of a block's statement within the loop. */
static const char *in_loop(torch_export *t, const run *r, const char *text, const char *block,
                           const char *result) {
    dl_buf b = {0};
    const char *index = dl_format(t->arena, "%.*s[%ld]", (int)r->list_n, r->list, r->index);
    for (const char *s = text; *s;) {
        size_t n = word(s), skip = strlen(index);
        if (is_whole_word(text, s) && strncmp(s, index, skip) == 0) {
            dl_puts(&b, block);
            s += skip;
        } else if (n && is_whole_word(text, s) && is(r->carried, s, n)) {
            dl_puts(&b, result);
            s += n;
        } else {
            dl_putn(&b, s, n ? n : 1);
            s += n ? n : 1;
        }
    }
    const char *made_text = dl_strdup(t->arena, b.at ? b.at : "");
    dl_buf_free(&b);
    return made_text;
}

/* The comment of a line of the model, if it is another one. */
static void put_line(torch_export *t, int line, int indent) {
    const dl_source *source = t->e->net->session->source;
    if (!line || line == t->line || line > source->lines.n) return;
    size_t n;
    const char *text = dl_source_line(source, line, &n);
    while (n && (*text == ' ' || *text == '\t')) text++, n--;
    t->line = line;
    bool cut = n > LONGEST_LINE;
    if (cut) n = LONGEST_LINE;
    while (cut && n && ((unsigned char)text[n] & 0xc0) == 0x80) n--; /* within a character */
    dl_putf(&t->body, "%*s# %d: ", indent, "", line);
    for (size_t i = 0; i < n; i++)
        dl_putn(&t->body, (unsigned char)text[i] < ' ' ? " " : text + i, 1);
    dl_puts(&t->body, cut ? "...\n" : "\n");
}

static void put_loop(torch_export *t, const run *r) {
    const char *block = dl_torch_name(t, "block"), *result = made(r, r->count - 1, r->length - 1),
               *list = dl_strndup(t->arena, r->list, r->list_n);
    bool whole = r->index == 0 && dl_torch_list_size(t, list) == r->count;
    if (!whole) list = dl_format(t->arena, "%s[%ld:%ld]", list, r->index, r->index + r->count);
    dl_torch_put(&t->body, t->indent, dl_format(t->arena, "%s = %s", result, r->carried));
    dl_torch_put(&t->body, t->indent, dl_format(t->arena, "for %s in %s:", block, list));
    for (int i = 0; i < r->length; i++) {
        const torch_statement *s = &t->statements.at[r->first + i];
        put_line(t, s->line, t->indent + 4);
        const char *name = i == r->length - 1 ? result : s->name;
        dl_torch_put(&t->body, t->indent + 4,
                     dl_format(t->arena, "%s = %s", name, in_loop(t, r, s->text, block, result)));
    }
}

/* The longest run from a statement on, by what it saves. */
static run best_run(const torch_export *t, int first, const char *end) {
    run best = {.count = 0};
    for (int length = 1; length <= LONGEST_BLOCK && first + 2 * length <= t->statements.n;
         length++) {
        run r = run_of(t, first, length, end);
        if (r.count && (!best.count || r.count * r.length > best.count * best.length)) best = r;
    }
    return best;
}

void dl_torch_put_statements(torch_export *t, const char *end) {
    for (int i = 0; i < t->statements.n;) {
        run r = best_run(t, i, end);
        if (r.count) {
            put_loop(t, &r);
            i += r.count * r.length;
            t->line = 0;
            continue;
        }
        const torch_statement *s = &t->statements.at[i++];
        put_line(t, s->line, t->indent);
        if (s->before) dl_puts(&t->body, s->before);
        dl_torch_put(&t->body, t->indent, dl_format(t->arena, "%s = %s", s->name, s->text));
    }
    dl_torch_put(&t->body, t->indent, end);
}

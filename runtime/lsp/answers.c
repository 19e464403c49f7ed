#include "runtime/lsp/answers.h"

#include "frontends/dl/format.h"
#include "frontends/dl/vocabulary.h"

static void put_place(dl_buf *b, const dl_lsp_document *d, dl_span where) {
    dl_puts(b, "{\"uri\": "), dlr_json_put_string(b, d->uri);
    dl_puts(b, ", \"range\": "), dl_lsp_put_range(b, d->source, where), dl_puts(b, "}");
}

void dl_lsp_define(dl_buf *b, const dl_lsp_document *d, uint32_t at) {
    const dl_symbol_place *p = dl_symbols_at(d->symbols, at);
    if (p)
        put_place(b, d, d->symbols->list.at[p->symbol].where);
    else
        dl_puts(b, "null");
}

void dl_lsp_refer(dl_buf *b, const dl_lsp_document *d, uint32_t at) {
    const dl_symbol_place *p = dl_symbols_at(d->symbols, at);
    int n = 0;
    dl_puts(b, "[");
    for (int i = 0; p && i < d->symbols->places.n; i++) {
        if (d->symbols->places.at[i].symbol != p->symbol) continue;
        if (n++) dl_puts(b, ", ");
        put_place(b, d, d->symbols->places.at[i].where);
    }
    dl_puts(b, "]");
}

/* ---- renaming ---- */

/* The name `loss` is what training takes. */
static bool is_fixed(const dl_symbol *s) { return strcmp(s->name, "loss") == 0; }

void dl_lsp_prepare_rename(dl_buf *b, const dl_lsp_document *d, uint32_t at) {
    const dl_symbol_place *p = dl_symbols_at(d->symbols, at);
    if (p && !is_fixed(&d->symbols->list.at[p->symbol]))
        dl_lsp_put_range(b, d->source, p->where);
    else
        dl_puts(b, "null");
}

/* Whether two names are seen by a common part of the text. */
static bool meet(const dl_symbol *a, const dl_symbol *b) {
    return a->scope.begin < b->scope.end && b->scope.begin < a->scope.end;
}

bool dl_lsp_rename(dl_buf *b, const dl_lsp_document *d, uint32_t at, const char *name,
                   dl_error *err) {
    const dl_symbol_place *p = dl_symbols_at(d->symbols, at);
    if (!p) return dl_fail(err, DL_INPUT, "no name of this file is here");
    const dl_symbol *s = &d->symbols->list.at[p->symbol];
    if (is_fixed(s)) return dl_fail(err, DL_INPUT, "'loss' is what training minimises");
    if (!dl_is_name(name)) return dl_fail(err, DL_INPUT, "'%.80s' is no name", name);
    for (int i = 0; i < d->symbols->list.n; i++) {
        const dl_symbol *other = &d->symbols->list.at[i];
        if (other != s && strcmp(other->name, name) == 0 && meet(s, other))
            return dl_fail(err, DL_INPUT, "'%.80s' is another name of this file: a %s, in line %d",
                           name, dl_symbol_kinds[other->kind],
                           dl_source_line_number(d->source, other->where.begin));
    }
    int n = 0;
    dl_puts(b, "{\"changes\": {"), dlr_json_put_string(b, d->uri), dl_puts(b, ": [");
    for (int i = 0; i < d->symbols->places.n; i++) {
        const dl_symbol_place *q = &d->symbols->places.at[i];
        if (q->symbol != p->symbol) continue;
        dl_puts(b, n++ ? ", {\"range\": " : "{\"range\": ");
        dl_lsp_put_range(b, d->source, q->where);
        dl_puts(b, ", \"newText\": "), dlr_json_put_string(b, name), dl_puts(b, "}");
    }
    dl_puts(b, "]}}");
    return true;
}

/* ---- the outline ---- */

/* The protocol's numbers of kinds. */
static int outline_kind(dl_symbol_kind kind) {
    static const int kinds[DL_N_SYMBOL_KINDS] = {
        [DL_SYMBOL_MODULE] = 5,    [DL_SYMBOL_MODEL] = 5,  [DL_SYMBOL_FUNCTION] = 12,
        [DL_SYMBOL_ARGUMENT] = 14, [DL_SYMBOL_INPUT] = 8,  [DL_SYMBOL_TARGET] = 8,
        [DL_SYMBOL_PARAMETER] = 8, [DL_SYMBOL_BUFFER] = 8, [DL_SYMBOL_VALUE] = 13};
    return kinds[kind];
}

static bool opens(const dl_symbol *s) {
    return s->kind == DL_SYMBOL_MODULE || s->kind == DL_SYMBOL_MODEL ||
           s->kind == DL_SYMBOL_FUNCTION;
}

static void put_symbol(dl_buf *b, const dl_lsp_document *d, const dl_symbol *s) {
    dl_puts(b, "{\"name\": "), dlr_json_put_string(b, s->name);
    dl_putf(b, ", \"detail\": \"%s\", \"kind\": %d, \"range\": ", dl_symbol_kinds[s->kind],
            outline_kind(s->kind));
    dl_lsp_put_range(b, d->source, s->whole);
    dl_puts(b, ", \"selectionRange\": "), dl_lsp_put_range(b, d->source, s->where);
}

void dl_lsp_outline(dl_buf *b, const dl_lsp_document *d) {
    int n = 0;
    dl_puts(b, "[");
    for (int i = 0; i < d->symbols->list.n; i++) {
        const dl_symbol *s = &d->symbols->list.at[i];
        if (!opens(s) || s->scope.begin != 0) continue;
        dl_puts(b, n++ ? ", " : ""), put_symbol(b, d, s);
        dl_puts(b, ", \"children\": [");
        for (int k = 0, children = 0; k < d->symbols->list.n; k++) {
            const dl_symbol *c = &d->symbols->list.at[k];
            if (c->scope.begin != s->whole.begin || c->scope.end != s->whole.end || c == s)
                continue;
            dl_puts(b, children++ ? ", " : ""), put_symbol(b, d, c), dl_puts(b, "}");
        }
        dl_puts(b, "]}");
    }
    dl_puts(b, "]");
}

/* ---- the form ---- */

void dl_lsp_format(dl_buf *b, const dl_lsp_document *d) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_buf text = {0};
    bool ok = dl_format_source(arena, d->source, &text, dl_diags_new(arena, d->source));
    if (ok && (text.n != d->source->n || memcmp(text.at, d->source->text, text.n) != 0)) {
        dl_puts(b, "[{\"range\": ");
        dl_lsp_put_range(b, d->source, (dl_span){0, (uint32_t)d->source->n});
        dl_puts(b, ", \"newText\": "), dlr_json_put_string(b, text.n ? text.at : "");
        dl_puts(b, "}]");
    } else
        dl_puts(b, "[]");
    dl_buf_free(&text);
    dl_arena_free(arena);
}

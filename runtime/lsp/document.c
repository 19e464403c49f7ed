#include "runtime/lsp/document.h"

#include <stdlib.h>

#include "compiler/arguments.h"
#include "compiler/check.h"

/* ---- the text ---- */

/* "file:///a%20b.dl" is /a b.dl; another scheme stays as it is. */
static const char *path_of(dl_arena *arena, const char *uri) {
    static const char file[] = "file://";
    if (strncmp(uri, file, sizeof file - 1) != 0) return uri;
    char *path = dl_strdup(arena, uri + sizeof file - 1), *to = path;
    for (const char *p = path; *p; p++) {
        char hex[3] = {0};
        if (*p == '%' && p[1] && p[2]) memcpy(hex, p + 1, 2);
        char *end = hex;
        long byte = hex[0] ? strtol(hex, &end, 16) : 0;
        bool escaped = end == hex + 2 && byte > 0;
        *to++ = escaped ? (char)byte : *p;
        if (escaped) p += 2;
    }
    *to = 0;
    return path;
}

dl_lsp_document *dl_lsp_document_open(const char *uri, const char *text, const dl_target *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_lsp_document *d = DL_NEW(arena, dl_lsp_document);
    d->arena = arena, d->uri = dl_strdup(arena, uri);
    d->source = dl_source_new(arena, path_of(arena, uri), text, strlen(text));
    d->diags = dl_diags_new(arena, d->source);
    d->symbols = dl_symbols_of(arena, d->source);
    d->facts = DL_NEW(arena, dl_facts);
    d->facts->arena = arena;
    dl_model *model = dl_model_parse(arena, d->source, d->diags);
    if (model) {
        bool whole;
        dl_model_record(model, d->facts);
        dl_arguments_check(model, d->diags);
        dl_model_check(arena, model, d->diags, &whole);
    }
    if (target && !d->diags->errors) {
        dl_error refused = {0};
        d->diags = dl_diags_new(arena, d->source);
        if (!dl_check_file(arena, d->source, target, d->diags, &refused))
            dl_report(d->diags, (dl_span){0, 1}, DL_DIAG_not_compiled, "%s", refused.message);
    }
    return d;
}

void dl_lsp_document_close(dl_lsp_document *d) {
    if (d) dl_arena_free(d->arena);
}

/* ---- positions ---- */

static int integer(const dlr_json *object, const char *key) {
    const dlr_json *v = dlr_json_get(object, key);
    return v && v->kind == DLR_JSON_INT && v->integer > 0 && v->integer < INT32_MAX
               ? (int)v->integer
               : 0;
}

/* Bytes of a character, by its first one, and its units in UTF-16. */
static size_t bytes_of(unsigned char first) {
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}
static int units_of(unsigned char first) { return first < 0xF0 ? 1 : 2; }

uint32_t dl_lsp_byte(const dl_source *s, const dlr_json *position) {
    int line = integer(position, "line"), units = integer(position, "character");
    if (line >= s->lines.n) return (uint32_t)s->n;
    size_t n, at = 0;
    const char *text = dl_source_line(s, line + 1, &n);
    while (at < n && units > 0) {
        units -= units_of((unsigned char)text[at]);
        at += bytes_of((unsigned char)text[at]);
    }
    return (uint32_t)((size_t)(text - s->text) + (at < n ? at : n));
}

static void put_position(dl_buf *b, const dl_source *s, uint32_t at) {
    if (at > s->n) at = (uint32_t)s->n;
    int line = dl_source_line_number(s, at), units = 0;
    size_t n;
    const char *text = dl_source_line(s, line, &n);
    for (size_t i = 0; i < n && text + i < s->text + at;) {
        units += units_of((unsigned char)text[i]);
        i += bytes_of((unsigned char)text[i]);
    }
    dl_putf(b, "{\"line\": %d, \"character\": %d}", line - 1, units);
}

void dl_lsp_put_range(dl_buf *b, const dl_source *s, dl_span where) {
    dl_puts(b, "{\"start\": "), put_position(b, s, where.begin);
    dl_puts(b, ", \"end\": "), put_position(b, s, where.end), dl_puts(b, "}");
}

/* ---- diagnostics ---- */

static void put_notes(dl_buf *b, const dl_lsp_document *d, const dl_diag *g) {
    dl_puts(b, ", \"relatedInformation\": [");
    for (int i = 0; i < g->notes.n; i++) {
        dl_puts(b, i ? ", {\"location\": {\"uri\": " : "{\"location\": {\"uri\": ");
        dlr_json_put_string(b, d->uri);
        dl_puts(b, ", \"range\": "), dl_lsp_put_range(b, d->source, g->notes.at[i].where);
        dl_puts(b, "}, \"message\": "), dlr_json_put_string(b, g->notes.at[i].text);
        dl_puts(b, "}");
    }
    dl_puts(b, "]");
}

void dl_lsp_put_diagnostics(dl_buf *b, const dl_lsp_document *d) {
    dl_arena *scratch = dl_arena_new(NULL);
    dl_puts(b, "[");
    for (int i = 0; i < d->diags->list.n; i++) {
        const dl_diag *g = d->diags->list.at[i];
        const char *help = g->help ? dl_format(scratch, "\nhelp: %s", g->help) : "";
        dl_puts(b, i ? ", {\"range\": " : "{\"range\": ");
        dl_lsp_put_range(b, d->source, g->where);
        dl_putf(b, ", \"severity\": %d, \"code\": \"%s\", \"source\": \"dlc\", \"message\": ",
                dl_diag_is_warning(g->id) ? 2 : 1, dl_diag_code(g->id));
        dlr_json_put_string(b, dl_format(scratch, "%s%s", g->message, help));
        put_notes(b, d, g);
        dl_puts(b, "}");
    }
    dl_puts(b, "]");
    dl_arena_free(scratch);
}

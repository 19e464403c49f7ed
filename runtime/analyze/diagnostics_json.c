#include "runtime/analyze/diagnostics_json.h"

#include "runtime/formats/json.h"

static void put_text(dl_buf *b, const char *key, const char *text) {
    dl_putf(b, "\"%s\": ", key);
    if (text)
        dlr_json_put_string(b, text);
    else
        dl_puts(b, "null");
}

static void put_span(dl_buf *b, const dl_source *s, dl_span where) {
    dl_loc from = dl_source_loc(s, where.begin), to = dl_source_loc(s, where.end);
    dl_putf(b, "\"line\": %d, \"column\": %d, \"end_line\": %d, \"end_column\": %d", from.line,
            from.column, to.line, to.column);
}

static void put_diag(dl_buf *b, const dl_source *s, const dl_diag *g) {
    dl_puts(b, "{"), put_text(b, "file", s->name), dl_puts(b, ", "), put_span(b, s, g->where);
    dl_puts(b, ", "), put_text(b, "severity", dl_diag_is_warning(g->id) ? "warning" : "error");
    dl_puts(b, ", "), put_text(b, "code", dl_diag_code(g->id));
    dl_puts(b, ", "), put_text(b, "message", g->message);
    dl_puts(b, ", "), put_text(b, "help", g->help), dl_puts(b, ", \"notes\": [");
    for (int i = 0; i < g->notes.n; i++) {
        dl_puts(b, i ? ", {" : "{"), put_span(b, s, g->notes.at[i].where);
        dl_puts(b, ", "), put_text(b, "message", g->notes.at[i].text), dl_puts(b, "}");
    }
    dl_puts(b, "]}");
}

void dl_put_diagnostics_json(dl_buf *b, const dl_diags *diags, int *n) {
    for (int i = 0; i < diags->list.n; i++) {
        if ((*n)++) dl_puts(b, ", ");
        put_diag(b, diags->source, diags->list.at[i]);
    }
}

void dl_put_error_json(dl_buf *b, const char *file, const dl_error *err, int *n) {
    if ((*n)++) dl_puts(b, ", ");
    dl_puts(b, "{"), put_text(b, "file", file);
    dl_puts(b, ", \"line\": null, \"severity\": \"error\", \"code\": null, ");
    put_text(b, "message", err->message), dl_puts(b, "}");
}

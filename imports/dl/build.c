/* Statements, from pieces. */
#include <stdio.h>

#include "imports/dl/parts.h"

static void push(dl_writer *w, dl_in_stmt *s, dl_in_piece p) { dl_push(w->arena, &s->pieces, p); }

static void put_text(dl_writer *w, dl_in_stmt *s, const char *text, size_t n) {
    if (!n) return;
    dl_in_piece *last = s->pieces.n ? &s->pieces.at[s->pieces.n - 1] : NULL;
    const char *t = dl_strndup(w->arena, text, n);
    if (last && last->kind == PIECE_TEXT)
        last->text = dl_format(w->arena, "%s%s", last->text, t);
    else
        push(w, s, (dl_in_piece){.kind = PIECE_TEXT, .text = t});
}

const char *dl_in_whole(dl_writer *w, int64_t v) {
    return dl_format(w->arena, "%lld", (long long)v);
}

const char *dl_in_number(dl_writer *w, double v) {
    dl_buf b = {0};
    if (v != v || v - v != 0) return v > 0 ? "1e38 * 10" : v < 0 ? "-1e38 * 10" : "0.0 / 0.0";
    dl_put_double(&b, v);
    const char *text = dl_strdup(w->arena, b.at);
    dl_buf_free(&b);
    return text;
}

const char *dl_in_real(dl_writer *w, double v) {
    const char *text = dl_in_number(w, v);
    bool whole = strspn(text, "-0123456789") == strlen(text);
    return whole ? dl_format(w->arena, "%s.0", text) : text;
}

static void put(dl_in_ctx *c, dl_in_stmt *s, const char *f, va_list args) {
    dl_writer *w = c->w;
    while (*f) {
        size_t n = strcspn(f, "%");
        put_text(w, s, f, n);
        f += n;
        if (!*f) return;
        char code = f[1];
        f += 2;
        if (code == 's') {
            const char *text = va_arg(args, const char *);
            put_text(w, s, text, strlen(text));
        } else if (code == 'l') {
            push(w, s, (dl_in_piece){.kind = PIECE_LABEL, .text = va_arg(args, const char *)});
        } else if (code == 'v' || code == 'p') {
            const dl_in_value *v = va_arg(args, const dl_in_value *);
            dl_in_prec prec = code == 'p' ? (dl_in_prec)va_arg(args, int) : P_PIPE;
            push(w, s, (dl_in_piece){.kind = PIECE_REF, .ref = v->stmt, .prec = prec});
        } else {
            const char *hint = va_arg(args, const char *);
            const char *text = code == 'i' ? dl_in_whole(w, va_arg(args, int64_t))
                                           : dl_in_number(w, va_arg(args, double));
            push(w, s, (dl_in_piece){.kind = PIECE_NUM, .text = text, .hint = hint});
        }
    }
}

int dl_say(dl_in_ctx *c, dl_in_style style, dl_in_prec prec, const char *format, ...) {
    dl_in_stmt s = {.style = style, .prec = prec};
    va_list args;
    va_start(args, format);
    put(c, &s, format, args);
    va_end(args);
    dl_push(c->w->arena, &c->b->stmts, s);
    return c->b->stmts.n - 1;
}

int dl_call_function(dl_in_ctx *c, const char *function, const dl_in_value *v, const char *format,
                     ...) {
    int at = dl_say(c, STMT_FUNCTION, P_POSTFIX, "%v", v);
    dl_in_stmt *s = &c->b->stmts.at[at];
    s->function = function;
    va_list args;
    va_start(args, format);
    put(c, s, format, args);
    va_end(args);
    return at;
}

void dl_say_more(dl_in_ctx *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    put(c, &c->b->stmts.at[c->b->stmts.n - 1], format, args);
    va_end(args);
}

void dl_say_option(dl_in_ctx *c, const char *name, const char *value, const char *standard) {
    dl_in_piece p = {.kind = PIECE_NUM, .text = value, .hint = name, .standard = standard};
    p.before = dl_format(c->w->arena, ", %s=", name);
    push(c->w, &c->b->stmts.at[c->b->stmts.n - 1], p);
}

void dl_say_window(dl_in_ctx *c, const char *hint, const char *before, int n, const int64_t *v) {
    bool equal = true;
    for (int i = 1; i < n; i++) equal = equal && v[i] == v[0];
    dl_say_more(c, "%s", before);
    if (equal) {
        dl_say_more(c, "%i", hint, v[0]);
        return;
    }
    for (int i = 0; i < n; i++) dl_say_more(c, "%s%i", i ? ", " : "[", hint, v[i]);
    dl_say_more(c, "]");
}

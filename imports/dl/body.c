/* Bodies: what a module or the model holds, their calls and their labels. */
#include "imports/dl/parts.h"

dl_in_body *dl_new_body(dl_writer *w, const char *class, const char *path) {
    dl_in_body *b = DL_NEW(w->arena, dl_in_body);
    *b = (dl_in_body){.class = class, .path = path};
    b->of = DL_NEWS(w->arena, dl_in_value *, w->graph->tensors.n + 1);
    b->same = b;
    dl_push(w->arena, &w->bodies, b);
    return b;
}

const char *dl_label_in(dl_writer *w, const dl_in_body *b, const char *path) {
    size_t n = strlen(b->path);
    (void)w;
    if (n == 0) return path;
    return strncmp(path, b->path, n) == 0 && path[n] == '.' ? path + n + 1 : NULL;
}

/* Signs that names of Python's dictionaries may hold stand in braces: @block1{"-"}0. */
void dl_put_label(dl_buf *out, const char *label) {
    for (const char *p = label; *p;) {
        size_t n = strcspn(p, "-/:+");
        dl_putn(out, p, n);
        p += n;
        if ((n = strspn(p, "-/:+")) > 0) dl_putf(out, "{\"%.*s\"}", (int)n, p);
        p += n;
    }
}

dl_in_value *dl_enter(dl_in_ctx *inner, const dl_in_value *outer, int i) {
    static const char *const names[] = {"x", "z", "u", "v", "p", "q"};
    dl_in_value *v = dl_copy_value(inner, outer);
    v->stmt = dl_say(inner, STMT_INPUT, P_POSTFIX, ""), v->param = -1, v->is_view = false;
    dl_in_stmt *s = &inner->b->stmts.at[v->stmt];
    s->name = names[i], s->rank = v->n;
    for (int a = 0; a < v->n; a++) {
        s->axis[a] = v->axis[a].name;
        if (dl_has_batch(v->axis[a].n, v->axis[a].atom))
            s->batch[a] = dl_axis_size_of(inner->w, &v->axis[a]) / inner->w->atoms.at[0];
    }
    dl_push(inner->w->arena, &inner->b->inputs, v->stmt);
    return v;
}

/* States the axes of an input, which binds their sizes. */
static void state_axes(dl_in_ctx *c, dl_in_stmt *s) {
    if (s->pieces.n) return;
    dl_buf type = {0};
    for (int k = 0; k < s->rank; k++) dl_putf(&type, "%s%s", k ? ", " : ": [", s->axis[k]);
    dl_puts(&type, "]");
    dl_push(c->w->arena, &s->pieces,
            (dl_in_piece){.kind = PIECE_TEXT, .text = dl_strdup(c->w->arena, type.at)});
    dl_buf_free(&type);
}

const char *dl_batch_count(dl_in_ctx *c) {
    dl_in_body *b = c->b;
    for (int i = 0; i < b->inputs.n; i++) {
        dl_in_stmt *s = &b->stmts.at[b->inputs.at[i]];
        for (int a = 0; a < s->rank; a++) {
            if (s->batch[a] < 1 || !strcmp(s->axis[a], "1")) continue;
            state_axes(c, s);
            /* another axis may have this name, and another size, next to N */
            const char *size = strcmp(s->axis[a], "N")
                                   ? dl_format(c->w->arena, "%s.%s", s->name, s->axis[a])
                                   : "N";
            return s->batch[a] == 1
                       ? size
                       : dl_format(c->w->arena, "%s / %lld", size, (long long)s->batch[a]);
        }
    }
    return b->inputs.n == 0 ? "N" : NULL; /* the model itself knows it */
}

bool dl_say_batch(dl_in_ctx *c) {
    const char *count = dl_batch_count(c);
    if (count) dl_say_more(c, strcmp(count, "N") ? ", N=%s" : ", over=N", count);
    return count;
}

void dl_say_call(dl_in_ctx *c, dl_in_body *b, int n, dl_in_value *const *v, const char *path) {
    int s = n == 1 ? dl_say(c, STMT_LAYER, P_PIPE, "%v |> ", v[0])
                   : dl_say(c, STMT_PLAIN, P_POSTFIX, "");
    dl_push(c->w->arena, &c->b->stmts.at[s].pieces, (dl_in_piece){.kind = PIECE_CALL, .call = b});
    if (n > 1) {
        dl_say_more(c, "(");
        for (int i = 0; i < n; i++) dl_say_more(c, i ? ", %v" : "%v", v[i]);
        dl_say_more(c, ")");
    }
    dl_say_more(c, " @%l", path);
    if (b->depth + 1 > c->b->depth) c->b->depth = b->depth + 1;
}

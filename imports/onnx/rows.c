/* Rearrangements of stored numbers. Exporters cut, join and reorder the weights of one layer; which
 * rows of which stored tensors a value consists of says what the weights were. */
#include "imports/onnx/parts.h"

enum { MOST_ROWS = 1 << 24, MOST_DEPTH = 32 };

typedef struct {
    dl_ox *r;
    int64_t width, left; /* left: rows that may still be looked at */
} tracing;

static dl_ox_row *trace(tracing *t, dl_ox_value *v, int depth);

/* How often the axes before `axis` repeat, and how many rows one step along it has; 0: a row does
 * not lie within one step. */
static int64_t step_of(const tracing *t, const dl_ox_value *v, int axis, int64_t *outer) {
    int64_t inner = 1;
    *outer = 1;
    for (int d = 0; d < v->t->rank; d++)
        *(d < axis ? outer : &inner) *= d == axis ? 1 : v->t->shape[d];
    return inner % t->width ? 0 : inner / t->width;
}

static dl_ox_row *joined(tracing *t, const dl_ox_node *n, const dl_ox_value *v, dl_ox_row *to,
                         int depth) {
    int axis = dl_ox_dim(dl_ox_int(n, "axis", 0), v->t->rank);
    int64_t outer, step = axis < 0 ? 0 : step_of(t, v, axis, &outer), before = 0;
    for (int i = 0; i < n->n_in && step; i++) {
        const dl_ox_row *part = trace(t, n->in[i], depth);
        if (!part || n->in[i]->t->rank != v->t->rank) return NULL;
        int64_t rows = step * n->in[i]->t->shape[axis], all = step * v->t->shape[axis];
        if (before + rows > all || dl_foreign_count(n->in[i]->t) != outer * rows * t->width)
            return NULL;
        for (int64_t o = 0; o < outer; o++)
            memcpy(to + o * all + before, part + o * rows, (size_t)rows * sizeof *to);
        before += rows;
    }
    return step && before == step * v->t->shape[axis] ? to : NULL;
}

/* A slice along one axis, with a step of 1. */
static dl_ox_row *cut(tracing *t, const dl_ox_node *n, const dl_ox_value *v, dl_ox_row *to,
                      int depth) {
    dl_ox_op o = {.r = t->r, .n = n};
    int64_t from, end, axis, stride, outer;
    dl_ox_value *x = n->in[0];
    if (dl_ox_ints(&o, 1, NULL, 1, &from) != 1 || dl_ox_ints(&o, 2, NULL, 1, &end) != 1)
        return NULL;
    int axes = dl_ox_ints(&o, 3, NULL, 1, &axis), steps = dl_ox_ints(&o, 4, NULL, 1, &stride);
    if (axes == -2 || steps == -2 || (steps == 1 && stride != 1) || !x || !x->t) return NULL;
    int d = dl_ox_dim(axes == 1 ? axis : 0, x->t->rank);
    const dl_ox_row *part = d < 0 || x->t->rank != v->t->rank ? NULL : trace(t, x, depth);
    if (!part) return NULL;
    int64_t size = x->t->shape[d], step = step_of(t, x, d, &outer), kept = v->t->shape[d];
    from = from < 0 ? from < -size ? 0 : from + size : from;
    end = end < 0 ? end + size : end > size ? size : end;
    if (!step || end - from != kept || from > size - kept ||
        dl_foreign_count(v->t) != outer * kept * step * t->width)
        return NULL;
    for (int64_t k = 0; k < outer; k++)
        memcpy(to + k * kept * step, part + (k * size + from) * step,
               (size_t)(kept * step) * sizeof *to);
    return to;
}

static dl_ox_row *trace(tracing *t, dl_ox_value *v, int depth) {
    static const char *const views[] = {"Unsqueeze", "Squeeze", "Reshape", "Flatten", "Identity"};
    if (!v || !v->t || v->t->class != DL_FOREIGN_FLOAT || v->other || depth == 0) return NULL;
    int64_t count = dl_foreign_count(v->t), rows = count / t->width;
    if (count % t->width || rows < 1 || rows > t->left) return NULL;
    t->left -= rows;
    const dl_ox_node *n = v->by >= 0 ? &t->r->nodes.at[v->by] : NULL;
    bool is_root = v->stored || v->known;
    for (size_t i = 0; !is_root && n && n->n_in && i < sizeof views / sizeof *views; i++)
        if (strcmp(n->op, views[i]) == 0)
            return n->in[0] && n->in[0]->t && dl_foreign_count(n->in[0]->t) == count
                       ? trace(t, n->in[0], depth - 1)
                       : NULL;
    dl_ox_row *to = DL_NEWS(t->r->arena, dl_ox_row, rows);
    for (int64_t i = 0; is_root && i < rows; i++) to[i] = (dl_ox_row){.of = v, .at = i};
    if (is_root) return to;
    if (n && !strcmp(n->op, "Concat")) return joined(t, n, v, to, depth - 1);
    return n && !strcmp(n->op, "Slice") ? cut(t, n, v, to, depth - 1) : NULL;
}

const dl_ox_row *dl_ox_rows(dl_ox *r, dl_ox_value *v, int64_t width) {
    tracing t = {.r = r, .width = width, .left = MOST_ROWS};
    return width > 0 ? trace(&t, v, MOST_DEPTH) : NULL;
}

dl_ox_value *dl_ox_whole_tensor(const dl_ox *r, const dl_ox_row *rows, const dl_ox_shape *s) {
    dl_ox_value *v = rows[0].of;
    int64_t width = s->rank > 1 ? s->size[1] : 1, n = dl_ox_count(s) / width;
    if (!dl_ox_is_parameter(r, v) || v->t->rank != s->rank) return NULL;
    for (int d = 0; d < s->rank; d++)
        if (v->t->shape[d] != s->size[d]) return NULL;
    for (int64_t i = 0; i < n; i++)
        if (rows[i].of->t != v->t || rows[i].at != i) return NULL;
    return v;
}

/* The numbers of a stored tensor. */
static const double *numbers_of(dl_ox *r, const dl_ox_value *v) {
    if (v->known) return v->known;
    double *to = DL_NEWS(r->arena, double, dl_foreign_count(v->t));
    return dl_foreign_numbers(&r->graph, v->t, to, r->err) ? to : NULL;
}

bool dl_ox_copy_rows(dl_ox *r, const dl_ox_row *rows, int64_t n, int64_t width, float *to) {
    const dl_ox_value *of = NULL;
    const double *from = NULL;
    for (int64_t i = 0; i < n; i++) {
        if (rows[i].of != of && !(from = numbers_of(r, of = rows[i].of))) return false;
        for (int64_t k = 0; k < width; k++) to[i * width + k] = (float)from[rows[i].at * width + k];
    }
    return true;
}

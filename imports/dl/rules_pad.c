/* Rule of padding: zeros, another number, edges; negative padding. */
#include "imports/dl/rules.h"

/* Negative padding cuts elements off: *before and *after are what remains to be done. */
static dl_in_value *cropped(dl_in_ctx *c, const dl_in_value *v, dl_foreign_tensor *t, int a,
                            int64_t *before, int64_t *after) {
    int64_t from = *before < 0 ? -*before : 0, cut = *after < 0 ? -*after : 0;
    int64_t end = t->shape[a] - cut;
    if (from >= end || dl_has_batch(v->axis[a].n, v->axis[a].atom)) return NULL;
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s=%i:%i]", v, P_POSTFIX, v->axis[a].name, "from",
                   from, "to", end);
    t->shape[a] = end - from;
    if (*before < 0) *before = 0;
    if (*after < 0) *after = 0;
    return dl_like(c, s, v, t);
}

/* v, padded with zeros along axis a, with a number in their place. */
static dl_in_value *filled(dl_in_ctx *c, dl_in_value *v, const dl_foreign_tensor *t, int a,
                           int64_t before, int64_t after, double value) {
    const char *name = v->axis[a].name;
    for (int side = 0; side < 2; side++) {
        if (!(side ? after : before)) continue;
        int64_t edge = side ? t->shape[a] - after : before;
        dl_foreign_tensor line = {.rank = v->rank, .class = DL_FOREIGN_BOOL};
        for (int d = 0; d < v->rank; d++) line.shape[d] = d == a ? t->shape[a] : 1;
        dl_in_value *where = dl_new_value(c, 0, &line);
        where->axis[0] = where->axis[a], where->axis[0].name = name, where->n = 1;
        for (int d = 0; d < v->rank; d++) where->dim[d].n = d == a;
        where->stmt = dl_say(c, STMT_PLAIN, P_COMPARE, "(range(%i) as [%s]) %s %i", "size",
                             t->shape[a], name, side ? ">=" : "<", "edge", edge);
        dl_in_value *made = dl_match(c, where, v);
        made->stmt =
            dl_say(c, STMT_PLAIN, P_POSTFIX, "where(%v, %r, %v)", where, "value", value, v);
        made->class = v->class, v = made;
        dl_ordered(c, v, true);
    }
    return v;
}

/* detail: the mode, where the op says it */
bool dl_in_pad(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    const dl_foreign_arg *pads = dl_foreign_find(c->n, *c->detail ? "padding" : "pad");
    const char *mode = *c->detail ? c->detail : dl_foreign_text(c->n, "mode", "constant");
    double value = dl_foreign_real(c->n, "value", 0);
    if (!x || !pads || pads->kind != DL_ARG_INTS || c->n->n_results != 1) return false;
    dl_ordered(c, x, true);
    int n = pads->n / 2, end = x->rank - x->pair, first = end - n;
    if (first < 0 || (value != 0 && (x->pair || x->class != DL_FOREIGN_FLOAT))) return false;
    bool equal = value == 0 && pads->ints[0] >= 0;
    for (int i = 1; i < pads->n; i++) equal = equal && pads->ints[i] == pads->ints[0];
    dl_in_value *v = x;
    const dl_foreign_tensor *t = c->n->results[0];
    const char *how = strcmp(mode, "constant") ? dl_format(c->w->arena, ", mode=\"%s\"", mode) : "";
    if (equal) {
        int s = dl_call_function(c, "pad", v, ", %i%s, over=[", "pad", pads->ints[0], how);
        for (int a = first; a < end; a++)
            dl_say_more(c, "%s%s", a > first ? ", " : "", x->axis[a].name);
        dl_say_more(c, "]");
        dl_set(c, 0, dl_like(c, s, v, t));
        return true;
    }
    dl_foreign_tensor step = *t;
    for (int d = 0; d < x->rank; d++) step.shape[d] = dl_axis_size_of(c->w, &x->axis[d]);
    for (int i = 0; i < n; i++) { /* PyTorch begins with the last axis */
        int64_t before = pads->ints[2 * i], after = pads->ints[2 * i + 1];
        int a = end - 1 - i;
        if (before < 0 || after < 0) v = cropped(c, v, &step, a, &before, &after);
        if (!v) return false;
        if (!before && !after) continue;
        int s = dl_call_function(c, "pad", v, ", [%i, %i]%s, over=%s", "before", before, "after",
                                 after, how, x->axis[a].name);
        step.shape[a] += before + after;
        v = dl_like(c, s, v, &step);
        if (value != 0) v = filled(c, v, &step, a, before, after, value);
    }
    dl_set(c, 0, v == x ? dl_copy_value(c, x) : v);
    return true;
}

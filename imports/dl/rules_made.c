/* Rules of tensors that are counted out or repeated. */
#include "imports/dl/rules.h"

/* A list of numbers as a tensor of one axis. */
static bool counted(dl_in_ctx *c, const char *list) {
    const dl_foreign_tensor *t = c->n->results[0];
    int s = dl_say(c, STMT_PLAIN, P_PIPE, "%s as [T]", list);
    dl_in_value *v = dl_new_value(c, s, t);
    v->axis[0].name = "T";
    dl_set(c, 0, v);
    return true;
}

/* The number of each sample, times `by`, from `from` on. */
static bool count_samples(dl_in_ctx *c, const dl_foreign_tensor *t, int64_t from, int64_t by) {
    const char *count = dl_batch_count(c);
    if (!count || t->class != DL_FOREIGN_INT || t->shape[0] != c->w->atoms.at[0]) return false;
    dl_in_value *v = dl_new_value(c, dl_say(c, STMT_PLAIN, P_PIPE, "range(%s) as [N]", count), t);
    v->axis[0].name = "N", v->axis[0].atom[0] = v->dim[0].atom[0] = 0;
    if (from != 0 || by != 1)
        v->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%i + %i * %p", "from", from, "by", by, v, P_UNARY);
    dl_set(c, 0, v);
    return true;
}

bool dl_in_arange(dl_in_ctx *c) {
    if (c->n->n_results != 1 || c->n->results[0]->rank != 1 || c->n->results[0]->shape[0] < 1)
        return false;
    const dl_foreign_tensor *t = c->n->results[0];
    double start = dl_foreign_real(c->n, "start", 0), step = dl_foreign_real(c->n, "step", 1);
    const char *first = dl_in_number(c->w, start);
    int64_t n = t->shape[0];
    if (t->class == DL_FOREIGN_INT) {
        int64_t by = (int64_t)step, from = (int64_t)start;
        if (t->open[0]) return count_samples(c, t, from, by);
        return counted(
            c, by == 1 && from == 0
                   ? dl_format(c->w->arena, "range(%lld)", (long long)n)
                   : dl_format(c->w->arena, "range(%lld, %lld%s)", (long long)from,
                               (long long)(from + n * by),
                               by == 1 ? "" : dl_format(c->w->arena, ", %lld", (long long)by)));
    }
    return counted(c, dl_format(c->w->arena, "linspace(%s, %s, %lld)", first,
                                dl_in_number(c->w, start + (double)(n - 1) * step), (long long)n));
}

bool dl_in_linspace(dl_in_ctx *c) {
    if (c->n->n_results != 1 || c->n->results[0]->rank != 1 || c->n->results[0]->shape[0] < 1 ||
        !dl_foreign_find(c->n, "end"))
        return false;
    return counted(c, dl_format(c->w->arena, "linspace(%s, %s, %lld)",
                                dl_in_number(c->w, dl_foreign_real(c->n, "start", 0)),
                                dl_in_number(c->w, dl_foreign_real(c->n, "end", 1)),
                                (long long)c->n->results[0]->shape[0]));
}

bool dl_in_meshgrid(dl_in_ctx *c) {
    const dl_foreign_arg *list = dl_foreign_find(c->n, "tensors");
    if (!list || list->n != c->n->n_results || list->n > DL_FOREIGN_RANK) return false;
    bool swapped = !strcmp(dl_foreign_text(c->n, "indexing", "ij"), "xy") && list->n > 1;
    for (int i = 0; i < list->n; i++) {
        const dl_foreign_tensor *t = c->n->results[i];
        if (!list->tensors[i] || list->tensors[i]->rank > 1 || t->rank != list->n) return false;
        dl_in_value *v = dl_copy_value(c, dl_value_of(c, list->tensors[i]));
        int at = swapped && i < 2 ? 1 - i : i;
        dl_in_value line = *v;
        v->rank = t->rank;
        for (int p = 0; p < t->rank; p++) v->dim[p].n = 0;
        if (line.rank) v->dim[at] = line.dim[0];
        if (!(v = dl_expanded(c, v, t->rank, t->shape, t->open))) return false;
        dl_set(c, i, v);
    }
    return true;
}

bool dl_in_broadcast(dl_in_ctx *c) {
    const dl_foreign_arg *list = dl_foreign_find(c->n, "tensors");
    if (!list || list->n != c->n->n_results) return false;
    for (int i = 0; i < list->n; i++) {
        const dl_foreign_tensor *t = c->n->results[i];
        if (!list->tensors[i]) return false;
        dl_in_value *v =
            dl_expanded(c, dl_value_of(c, list->tensors[i]), t->rank, t->shape, t->open);
        if (!v) return false;
        dl_set(c, i, v);
    }
    return true;
}

/* Dimension d of v becomes [times, d], or [d, times], and these become one. */
static bool repeat(dl_in_ctx *c, const dl_in_value *v, const int64_t *times, bool inner) {
    const dl_foreign_tensor *t = c->n->results[0];
    dl_in_value *wide = dl_copy_value(c, v);
    int new = t->rank - v->rank, n = 0;
    int64_t shape[DL_FOREIGN_RANK];
    if (new < 0 || v->pair) return false;
    for (int p = 0; p < t->rank; p++) {
        int d = p - new;
        bool own = d >= 0 && v->dim[d].n > 0;
        if (n + 2 > DL_FOREIGN_RANK && (times[p] != 1 || n == DL_FOREIGN_RANK)) return false;
        for (int k = 0; k < 2; k++) {
            if ((k == 0) == inner ? (own || times[p] == 1) : times[p] != 1) {
                bool source = (k == 0) == inner;
                if (source) wide->dim[n] = v->dim[d >= 0 ? d : 0];
                if (!source || !own) wide->dim[n].n = 0;
                shape[n++] = source ? (d >= 0 ? dl_dim_size(c->w, v, d) : 1) : times[p];
            }
        }
    }
    wide->rank = n;
    dl_in_value *made = dl_expanded(c, wide, n, shape, NULL);
    if (!made) return false;
    dl_reshape(c, made, t->rank, t->shape);
    made->is_view = false;
    dl_set(c, 0, made);
    return true;
}

bool dl_in_repeat(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    const dl_foreign_arg *times = dl_foreign_find(c->n, c->detail);
    if (!v || !times || times->kind != DL_ARG_INTS || c->n->n_results != 1) return false;
    int64_t all[DL_FOREIGN_RANK];
    int rank = c->n->results[0]->rank;
    if (times->n > rank) return false;
    for (int p = 0; p < rank; p++) /* tile gives the last ones alone */
        all[p] = p < rank - times->n ? 1 : times->ints[p - (rank - times->n)];
    return repeat(c, v, all, false);
}

bool dl_in_repeat_interleave(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    const dl_foreign_arg *times = dl_foreign_find(c->n, "repeats"),
                         *dim = dl_foreign_find(c->n, "dim");
    if (!v || !times || times->kind != DL_ARG_INT || !dim || c->n->n_results != 1) return false;
    int64_t all[DL_FOREIGN_RANK];
    int d = dl_dim(v, dim->ints[0]);
    if (d < 0 || d >= v->rank) return false;
    for (int p = 0; p < v->rank; p++) all[p] = p == d ? times->ints[0] : 1;
    return repeat(c, v, all, true);
}

/* The windows of an axis become a further dimension, the last one: a cat of slices. */
bool dl_in_unfold(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    int64_t size = dl_foreign_int(c->n, "size", 1), step = dl_foreign_int(c->n, "step", 1);
    if (!v || v->pair || size < 1 || size > 64 || c->n->n_results != 1) return false;
    const dl_foreign_tensor *t = c->n->results[0];
    int d = dl_dim(v, dl_foreign_int(c->n, "dimension", 0));
    if (d < 0 || d >= v->rank || v->rank == DL_FOREIGN_RANK) return false;
    int64_t count = t->shape[d];
    dl_in_value *x = dl_copy_value(c, v);
    dl_ordered(c, x, true);
    const char *axis = x->axis[d].name, *name = dl_fresh_name(x, x->rank, x->rank + 1);
    dl_in_value part[64];
    for (int64_t k = 0; k < size; k++) {
        part[k] = *x;
        part[k].stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s=%i:%i", x, P_POSTFIX, axis, "from",
                              k, "to", k + step * (count - 1) + 1);
        if (step != 1) dl_say_more(c, ":%i", "step", step);
        dl_say_more(c, "]");
        part[k].stmt = dl_call_function(c, "unsqueeze", &part[k], ", over=%s, at=%s", name,
                                        dl_in_whole(c->w, x->n));
    }
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(");
    for (int64_t k = 0; k < size; k++) dl_say_more(c, "%v, ", &part[k]);
    dl_say_more(c, "over=%s)", name);
    int atom = dl_new_atom(c->w, count), last = dl_new_atom(c->w, size);
    x->axis[d].n = x->dim[d].n = 1, x->axis[d].atom[0] = x->dim[d].atom[0] = atom;
    x->axis[x->n++] = (dl_in_axis){.name = name, .n = 1, .atom = {last}};
    x->dim[x->rank].n = 1, x->dim[x->rank++].atom[0] = last;
    x->stmt = s, x->param = -1, x->is_view = false;
    dl_set(c, 0, x);
    return true;
}

bool dl_in_diff(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c), *ends[] = {dl_operand(c, "prepend"), v, dl_operand(c, "append")};
    if (!v || v->class == DL_FOREIGN_BOOL || dl_foreign_int(c->n, "n", 1) != 1) return false;
    int d = dl_dim(v, dl_foreign_int(c->n, "dim", -1));
    if (d < 0 || d >= v->rank) return false;
    dl_in_value *x = dl_copy_value(c, v);
    dl_ordered(c, x, true);
    const char *names[DL_FOREIGN_RANK], *axis = x->axis[d].name;
    for (int a = 0; a < x->n; a++) names[a] = x->axis[a].name;
    int64_t size = dl_dim_size(c->w, v, d);
    if (ends[0] || ends[2]) {
        for (int i = 0; i < 3; i += 2) {
            if (!ends[i]) continue;
            if (ends[i]->rank != v->rank) return false;
            size += dl_dim_size(c->w, ends[i], d);
            ends[i] = dl_copy_value(c, ends[i]);
            dl_ordered(c, ends[i], true);
            dl_rename(c, ends[i], names);
        }
        ends[1] = dl_copy_value(c, x);
        x->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(");
        for (int i = 0; i < 3; i++)
            if (ends[i]) dl_say_more(c, "%v, ", ends[i]);
        dl_say_more(c, "over=%s)", axis);
        x->param = -1;
    }
    if (size < 2) return false;
    int s = dl_say(c, STMT_PLAIN, P_SUM, "%p[%s=1:] - %p[%s=:%i]", x, P_POSTFIX, axis, x, P_POSTFIX,
                   axis, "to", size - 1);
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

/* x where i <= j + diagonal, or i >= j + diagonal, of its last two axes, else 0 */
bool dl_in_triangle(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || v->rank < 2 || v->pair) return false;
    dl_in_value *x = dl_copy_value(c, v);
    dl_ordered(c, x, true);
    int64_t k = dl_foreign_int(c->n, "diagonal", 0);
    const char *row = x->axis[x->n - 2].name, *column = x->axis[x->n - 1].name;
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX,
                   "where((range(%i, %i) as [%s]) %s (range(%i) as [%s]), %v, ", "from", k, "to",
                   k + dl_axis_size_of(c->w, &x->axis[x->n - 2]), row, c->detail, "size",
                   dl_axis_size_of(c->w, &x->axis[x->n - 1]), column, x);
    dl_say_more(c, x->class == DL_FOREIGN_BOOL ? "false)" : "0)");
    dl_in_value *plane = dl_copy_value(c, x); /* the condition has the last two axes */
    plane->axis[0] = x->axis[x->n - 2], plane->axis[1] = x->axis[x->n - 1], plane->n = 2;
    plane->stmt = s, plane->param = -1;
    for (int d = 0; d < x->rank - 2; d++) plane->dim[d].n = 0;
    return dl_done(c, dl_match(c, plane, x), s);
}

/* The frequencies of n points: 0, 1/n, ...; "both": the upper half is negative. */
bool dl_in_frequencies(dl_in_ctx *c) {
    const dl_foreign_tensor *t = c->n->n_results == 1 ? c->n->results[0] : NULL;
    int64_t n = dl_foreign_int(c->n, "n", 0);
    double by = (double)n * dl_foreign_real(c->n, "d", 1);
    if (!t || t->rank != 1 || t->shape[0] < 1 || n < 1 || by == 0) return false;
    dl_in_value *v = dl_new_value(c, 0, t);
    v->axis[0].name = "T";
    v->stmt = dl_say(c, STMT_PLAIN, P_PIPE, "range(%i) as [T]", "size", t->shape[0]);
    dl_in_value i = *v;
    if (*c->detail)
        v->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "where(%p < %i, %v, %p - %i)", &i, P_SUM, "half",
                         (n + 1) / 2, &i, &i, P_SUM, "size", n);
    i.stmt = v->stmt;
    v->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p / %r", &i, P_PRODUCT, "by", by);
    dl_set(c, 0, v);
    return true;
}

/* The sum of means of neighbours. */
bool dl_in_trapezoid(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    int d = v ? dl_dim(v, dl_foreign_int(c->n, "dim", -1)) : -1;
    double dx = dl_foreign_real(c->n, "dx", 1);
    if (d < 0 || d >= v->rank || dl_foreign_find(c->n, "x") || v->class != DL_FOREIGN_FLOAT)
        return false;
    dl_in_value *x = dl_copy_value(c, v);
    dl_ordered(c, x, true);
    int64_t n = dl_dim_size(c->w, x, d);
    const char *axis = x->axis[d].name;
    if (n < 2) return false;
    x->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p[%s=1:] + %p[%s=:%i]", x, P_POSTFIX, axis, x,
                     P_POSTFIX, axis, "to", n - 1);
    return dl_reduce_by(c, x, "sum", 1, &d, dx / 2);
}

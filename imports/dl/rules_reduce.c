/* Rules of reductions and products. */
#include <math.h>

#include "imports/dl/rules.h"

/* The dimensions that an op works along: all of them where it names none. */
static int dims_of(dl_in_ctx *c, const dl_in_value *v, int *to) {
    const dl_foreign_arg *dim = dl_foreign_find(c->n, "dim");
    int n = 0;
    if (!dim || dim->n == 0) {
        for (int d = 0; d < v->rank - v->pair; d++) to[n++] = d;
        return n;
    }
    for (int i = 0; i < dim->n && n < DL_FOREIGN_RANK; i++) {
        to[n] = dl_dim(v, dim->ints[i]);
        if (to[n] < 0 || to[n] >= v->rank) return -1;
        n++;
    }
    return n;
}

static bool is_in(int d, int n, const int *list) {
    for (int i = 0; i < n; i++)
        if (list[i] == d) return true;
    return false;
}

dl_in_value *dl_reduced(dl_in_value *v, int n, const int *dims, bool keep) {
    dl_in_value old = *v;
    int left = 0, rank = 0;
    for (int a = 0; a < old.n; a++) {
        bool gone = false;
        for (int i = 0; i < n; i++) gone = gone || dl_axis_of(&old, dims[i]) == a;
        if (!gone) v->axis[left++] = old.axis[a];
    }
    v->n = left;
    for (int d = 0; d < old.rank; d++) {
        bool gone = is_in(d, n, dims);
        if (gone && !keep) continue;
        v->dim[rank] = old.dim[d];
        if (gone) v->dim[rank].n = 0;
        rank++;
    }
    v->rank = rank;
    return v;
}

bool dl_reduce_by(dl_in_ctx *c, dl_in_value *v, const char *function, int n, const int *dims,
                  double factor) {
    dl_whole(c, v);
    bool keep = dl_foreign_int(c->n, "keepdim", 0);
    for (int d = 0; d < v->rank; d++) dl_axis_name(c, v, d);
    int axes = 0;
    for (int i = 0; i < n; i++) axes += v->dim[dims[i]].n > 0;
    dl_in_value *made = dl_copy_value(c, v);
    made->is_view = false, made->param = -1;
    if (axes) {
        made->stmt = dl_call_function(c, function, v, "");
        if (axes < v->n) {
            bool first = true;
            dl_say_more(c, ", over=%s", axes > 1 ? "[" : "");
            for (int d = 0; d < v->rank; d++)
                if (is_in(d, n, dims) && v->dim[d].n) {
                    dl_say_more(c, "%s%s", first ? "" : ", ", dl_axis_name(c, v, d));
                    first = false;
                }
            if (axes > 1) dl_say_more(c, "]");
        }
    } else if (strcmp(function, "norm") == 0) {
        made->stmt = dl_call_function(c, "abs", v, "");
    } else if (strcmp(function, "var") == 0 || strcmp(function, "std") == 0 ||
               strcmp(function, "any") == 0 || strcmp(function, "all") == 0) {
        return false;
    }
    if (factor != 1)
        made->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * %r", made, P_PRODUCT, "factor", factor);
    dl_set(c, 0, dl_reduced(made, n, dims, keep));
    return true;
}

/* The sum of powers of the sizes, and its root; of the power infinity the largest one. */
static bool norm_of(dl_in_ctx *c, const dl_in_value *v, int n, const int *dims, double order) {
    dl_in_value *x = dl_copy_value(c, v);
    dl_whole(c, x);
    dl_name_all(c, x);
    x->stmt = dl_call_function(c, "abs", x, ""), x->param = -1;
    if (order == 1 || isinf(order))
        return dl_reduce_by(c, x, order == 1 ? "sum" : order > 0 ? "max" : "min", n, dims, 1);
    if (order <= 0) return false;
    x->stmt = dl_say(c, STMT_PLAIN, P_POWER, "%p**%r", x, P_POSTFIX, "p", order);
    if (!dl_reduce_by(c, x, "sum", n, dims, 1)) return false;
    dl_in_value *sum = c->b->of[c->n->results[0]->id];
    return dl_done(c, sum,
                   dl_say(c, STMT_PLAIN, P_POWER, "%p**(1 / %r)", sum, P_POSTFIX, "p", order));
}

bool dl_in_reduce(dl_in_ctx *c) {
    int dims[DL_FOREIGN_RANK];
    dl_in_value *v = dl_self(c);
    int n = v ? dims_of(c, v, dims) : -1;
    if (n < 0) return false;
    const char *function = c->detail;
    if (!strcmp(function, "norm")) {
        double order = dl_foreign_real(c->n, "ord", 2);
        if (dl_foreign_find(c->n, "p")) order = dl_foreign_real(c->n, "p", 2); /* aten.norm */
        if (order != 2) return norm_of(c, v, n, dims, order);
    }
    return dl_reduce_by(c, v, function, n, dims, 1);
}

/* y * n / (n - correction), or its root, for a number n of elements that is the batch's. */
static void correct(dl_in_ctx *c, const dl_in_value *v, int n, const int *dims, double correction) {
    dl_in_value *y = c->b->of[c->n->results[0]->id], of = *y, *from = dl_copy_value(c, v);
    const char *count = "";
    int64_t others = 1;
    for (int i = 0; i < n; i++)
        if (dl_has_batch(v->dim[dims[i]].n, v->dim[dims[i]].atom))
            count = dl_axis_name(c, from, dims[i]);
        else
            others *= dl_dim_size(c->w, v, dims[i]);
    const char *times = others == 1 ? "" : dl_format(c->w->arena, " * %lld", (long long)others);
    bool root = c->detail[0] == 's';
    int s = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * %s(%p.%s%s / (%p.%s%s - %s))", &of, P_PRODUCT,
                   root ? "sqrt" : "", from, P_POSTFIX, count, times, from, P_POSTFIX, count, times,
                   dl_in_number(c->w, correction));
    y = dl_copy_value(c, y);
    y->stmt = s, y->is_view = false;
    dl_set(c, 0, y);
}

/* detail "and mean": that is the second result */
bool dl_in_variance(dl_in_ctx *c) {
    int dims[DL_FOREIGN_RANK];
    dl_in_value *v = dl_self(c);
    int n = v ? dims_of(c, v, dims) : -1;
    if (n < 0) return false;
    bool batch = false, root = c->detail[0] == 's';
    double count = 1, correction = dl_foreign_find(c->n, "correction")
                                       ? dl_foreign_real(c->n, "correction", 1)
                                       : (double)dl_foreign_int(c->n, "unbiased", 1);
    for (int i = 0; i < n; i++) {
        batch = batch || dl_has_batch(v->dim[dims[i]].n, v->dim[dims[i]].atom);
        count *= (double)dl_dim_size(c->w, v, dims[i]);
    }
    const char *function = root ? "std" : "var";
    double factor = correction == 0 || batch ? 1 : count / (count - correction);
    if (strchr(c->detail, ' ') && c->n->n_results == 2) {
        if (!dl_reduce_by(c, v, "mean", n, dims, 1)) return false;
        dl_set(c, 1, c->b->of[c->n->results[0]->id]);
    }
    if (!dl_reduce_by(c, v, function, n, dims, root ? sqrt(factor) : factor)) return false;
    if (batch && correction != 0) correct(c, v, n, dims, correction);
    return true;
}

/* A number in order along one axis. detail: "median", whose places are not read; "quantile" */
bool dl_in_middle(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    const dl_foreign_arg *dim = dl_foreign_find(c->n, "dim");
    if (!v || !dim || dim->kind != DL_ARG_INT || v->pair) return false;
    int d = dl_dim(v, dim->ints[0]);
    if (d < 0 || d >= v->rank || !v->dim[d].n) return false;
    if (c->n->n_results > 1 && c->w->last_use[c->n->results[1]->id] >= 0) return false;
    if (c->detail[0] == 'm') return dl_reduce_by(c, v, c->detail, 1, &d, 1);
    const dl_foreign_arg *q = dl_foreign_find(c->n, "q");
    if (!q || (q->kind != DL_ARG_FLOAT && q->kind != DL_ARG_INT) ||
        strcmp(dl_foreign_text(c->n, "interpolation", "linear"), "linear") != 0)
        return false;
    dl_in_value *x = dl_copy_value(c, v);
    dl_ordered(c, x, true);
    x->stmt = dl_call_function(c, "quantile", x, ", %r, over=%s", "q",
                               dl_foreign_real(c->n, "q", 0.5), x->axis[d].name);
    x->param = -1, x->is_view = false;
    dl_set(c, 0, dl_reduced(x, 1, &d, dl_foreign_int(c->n, "keepdim", 0)));
    return true;
}

static dl_in_value *negative(dl_in_ctx *c, dl_in_value *v) {
    for (int k = 0; k < v->rank; k++) dl_axis_name(c, v, k);
    dl_in_value *made = dl_copy_value(c, v);
    made->stmt = dl_say(c, STMT_PLAIN, P_UNARY, "-%p", v, P_UNARY), made->param = -1;
    return made;
}

/* max and min: of two tensors, of all elements, or along a dimension with its places. */
bool dl_in_extreme(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    const dl_foreign_arg *dim = dl_foreign_find(c->n, "dim");
    if (!v) return false;
    if (dl_foreign_find(c->n, "other")) return dl_in_binary(c);
    if (!dim) return dl_in_reduce(c);
    int d = dl_dim(v, dim->ints[0]);
    if (dim->kind != DL_ARG_INT || d < 0 || d >= v->rank || c->n->n_results != 2) return false;
    dl_whole(c, v);
    if (!v->dim[d].n || !dl_reduce_by(c, v, c->detail, 1, &d, 1)) return false;
    if (c->w->last_use[c->n->results[1]->id] < 0) return true;
    dl_in_value *first = c->b->of[c->n->results[0]->id];
    if (!dl_reduce_by(c, c->detail[1] == 'i' ? negative(c, v) : v, "argmax", 1, &d, 1))
        return false;
    dl_in_value *places = c->b->of[c->n->results[0]->id];
    dl_set(c, 0, first), dl_set(c, 1, places);
    return true;
}

bool dl_in_along(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    const dl_foreign_arg *dim = dl_foreign_find(c->n, "dim");
    if (!v || !dim || dim->kind != DL_ARG_INT) return false;
    int d = dl_dim(v, dim->ints[0]);
    if (d < 0 || d >= v->rank) return false;
    if (!strncmp(c->detail, "arg", 3)) {
        dl_whole(c, v);
        if (c->detail[3] == 'm' && c->detail[4] == 'i') v = negative(c, v);
        return v->dim[d].n && dl_reduce_by(c, v, "argmax", 1, &d, 1);
    }
    dl_whole(c, v);
    if (!v->dim[d].n) dl_ordered(c, v, true);
    for (int k = 0; k < v->rank; k++) dl_axis_name(c, v, k);
    int s = dl_call_function(c, c->detail, v, ", over=%s", dl_axis_name(c, v, d));
    if (dl_foreign_int(c->n, "reverse", 0)) dl_say_more(c, ", reverse=true");
    if (dl_foreign_int(c->n, "exclusive", 0)) dl_say_more(c, ", exclusive=true");
    return dl_done(c, v, s);
}

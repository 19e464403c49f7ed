/* Rules of reductions and products. */
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

/* function(v, over=[...]), whose result lacks the axes; `factor` multiplies it unless it is 1. */
static bool reduce_by(dl_in_ctx *c, dl_in_value *v, const char *function, int n, const int *dims,
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
    int left = 0, rank = 0;
    for (int a = 0; a < v->n; a++) {
        bool gone = false;
        for (int i = 0; i < n; i++) gone = gone || dl_axis_of(v, dims[i]) == a;
        if (!gone) made->axis[left++] = v->axis[a];
    }
    made->n = left;
    for (int d = 0; d < v->rank; d++) {
        bool gone = is_in(d, n, dims);
        if (gone && !keep) continue;
        made->dim[rank] = v->dim[d];
        if (gone) made->dim[rank].n = 0;
        rank++;
    }
    made->rank = rank;
    dl_set(c, 0, made);
    return true;
}

static dl_in_value *self(dl_in_ctx *c) {
    return c->n->n_args && c->n->args[0].kind == DL_ARG_TENSOR
               ? dl_value_of(c, c->n->args[0].tensors[0])
               : NULL;
}

bool dl_in_reduce(dl_in_ctx *c) {
    int dims[DL_FOREIGN_RANK];
    dl_in_value *v = self(c);
    int n = v ? dims_of(c, v, dims) : -1;
    if (n < 0) return false;
    const char *function = c->detail;
    if (!strcmp(function, "norm")) {
        double order = dl_foreign_real(c->n, "ord", 2);
        if (order == 1) {
            dl_in_value *a = dl_copy_value(c, v);
            dl_whole(c, a);
            for (int d = 0; d < a->rank; d++) dl_axis_name(c, a, d);
            a->stmt = dl_call_function(c, "abs", a, "");
            return reduce_by(c, a, "sum", n, dims, 1);
        }
        if (order != 2) return false;
    }
    return reduce_by(c, v, function, n, dims, 1);
}

bool dl_in_variance(dl_in_ctx *c) {
    int dims[DL_FOREIGN_RANK];
    dl_in_value *v = self(c);
    int n = v ? dims_of(c, v, dims) : -1;
    if (n < 0) return false;
    double count = 1, correction = dl_foreign_find(c->n, "correction")
                                       ? dl_foreign_real(c->n, "correction", 1)
                                       : (double)dl_foreign_int(c->n, "unbiased", 1);
    for (int i = 0; i < n; i++) {
        if (v->dim[dims[i]].n && v->dim[dims[i]].atom[0] == 0 && correction != 0) return false;
        count *= (double)dl_dim_size(c->w, v, dims[i]);
    }
    double factor = correction == 0 ? 1 : count / (count - correction);
    if (c->detail[0] == 's' && factor != 1) return false;
    return reduce_by(c, v, c->detail, n, dims, factor);
}

static dl_in_value *negative(dl_in_ctx *c, dl_in_value *v) {
    for (int k = 0; k < v->rank; k++) dl_axis_name(c, v, k);
    dl_in_value *made = dl_copy_value(c, v);
    made->stmt = dl_say(c, STMT_PLAIN, P_UNARY, "-%p", v, P_UNARY), made->param = -1;
    return made;
}

/* max and min: of two tensors, of all elements, or along a dimension with its places. */
bool dl_in_extreme(dl_in_ctx *c) {
    dl_in_value *v = self(c);
    const dl_foreign_arg *dim = dl_foreign_find(c->n, "dim");
    if (!v) return false;
    if (dl_foreign_find(c->n, "other")) return dl_in_binary(c);
    if (!dim) return dl_in_reduce(c);
    int d = dl_dim(v, dim->ints[0]);
    if (dim->kind != DL_ARG_INT || d < 0 || d >= v->rank || c->n->n_results != 2) return false;
    dl_whole(c, v);
    if (!v->dim[d].n || !reduce_by(c, v, c->detail, 1, &d, 1)) return false;
    if (c->w->last_use[c->n->results[1]->id] < 0) return true;
    dl_in_value *first = c->b->of[c->n->results[0]->id];
    if (!reduce_by(c, c->detail[1] == 'i' ? negative(c, v) : v, "argmax", 1, &d, 1)) return false;
    dl_in_value *places = c->b->of[c->n->results[0]->id];
    dl_set(c, 0, first), dl_set(c, 1, places);
    return true;
}

bool dl_in_along(dl_in_ctx *c) {
    dl_in_value *v = self(c);
    const dl_foreign_arg *dim = dl_foreign_find(c->n, "dim");
    if (!v || !dim || dim->kind != DL_ARG_INT) return false;
    int d = dl_dim(v, dim->ints[0]);
    if (d < 0 || d >= v->rank) return false;
    if (!strncmp(c->detail, "arg", 3)) {
        dl_whole(c, v);
        if (c->detail[3] == 'm' && c->detail[4] == 'i') v = negative(c, v);
        return v->dim[d].n && reduce_by(c, v, "argmax", 1, &d, 1);
    }
    dl_whole(c, v);
    if (!v->dim[d].n) dl_ordered(c, v, true);
    for (int k = 0; k < v->rank; k++) dl_axis_name(c, v, k);
    return dl_done(c, v, dl_call_function(c, c->detail, v, ", over=%s", dl_axis_name(c, v, d)));
}

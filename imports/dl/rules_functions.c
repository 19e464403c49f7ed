/* Rules of functions that are formulas of the language's own, and of distances. */
#include "imports/dl/rules.h"

/* detail: a formula of @, the first operand, and #, the second. */
bool dl_in_formula(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c), *y = strchr(c->detail, '#') ? dl_operand(c, "other") : x;
    if (!x || !y || dl_foreign_find(c->n, "eps")) return false;
    dl_name_all(c, x);
    dl_in_value *made = x == y ? x : dl_match(c, x, y);
    size_t n = strcspn(c->detail, "(");
    bool call =
        strspn(c->detail, "abcdefghijklmnopqrstuvwxyz") == n && dl_ends_with(c->detail, ")");
    int s = dl_say(c, STMT_PLAIN, call ? P_POSTFIX : P_COMPARE, "");
    for (const char *at = c->detail; *at;) {
        n = strcspn(at, "@#");
        if (n) dl_say_more(c, "%s", dl_strndup(c->w->arena, at, n));
        at += n;
        if (*at) dl_say_more(c, "%p", *at++ == '@' ? x : y, P_POSTFIX);
    }
    return dl_done(c, made, s);
}

/* The language's random numbers in a shape. */
bool dl_in_drawn(dl_in_ctx *c) {
    const char *function = c->detail;
    c->detail = "0";
    if (!dl_in_constant(c)) return false;
    dl_in_value *v = c->b->of[c->n->results[0]->id];
    if (v->n == 0 || v->class != DL_FOREIGN_FLOAT) return false;
    return dl_done(c, v, dl_call_function(c, function, v, ""));
}

/* Channels in groups, [groups, each], become [each, groups]. */
bool dl_in_channel_shuffle(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    int64_t groups = dl_foreign_int(c->n, "groups", 1), shape[DL_FOREIGN_RANK];
    if (!v || v->rank < 2 || v->rank == DL_FOREIGN_RANK || groups < 1) return false;
    dl_in_value *x = dl_copy_value(c, v);
    for (int d = 0; d < v->rank; d++) shape[d + (d > 1)] = dl_dim_size(c->w, v, d);
    if (shape[1] % groups) return false;
    shape[2] = shape[1] / groups, shape[1] = groups;
    dl_reshape(c, x, v->rank + 1, shape);
    dl_in_value turned = *x;
    x->dim[1] = turned.dim[2], x->dim[2] = turned.dim[1];
    dl_reshape(c, x, v->rank, c->n->results[0]->shape);
    x->is_view = false;
    dl_set(c, 0, x);
    return true;
}

bool dl_in_threshold(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    if (!x) return false;
    dl_name_all(c, x);
    return dl_done(c, x,
                   dl_say(c, STMT_PLAIN, P_POSTFIX, "where(%p > %r, %v, %r)", x, P_SUM, "threshold",
                          dl_foreign_real(c->n, "threshold", 0), x, "value",
                          dl_foreign_real(c->n, "value", 0)));
}

bool dl_in_nan_to_num(dl_in_ctx *c) {
    static const char *const names[] = {"nan", "posinf", "neginf"};
    dl_in_value *x = dl_self(c);
    if (!x) return false;
    dl_name_all(c, x);
    int s = dl_call_function(c, "nan_to_num", x, "");
    for (int i = 0; i < 3; i++)
        if (dl_foreign_find(c->n, names[i]))
            dl_say_more(c, ", %s=%r", names[i], names[i], dl_foreign_real(c->n, names[i], 0));
    return dl_done(c, x, s);
}

/* Half of an axis times a function of its other half. */
bool dl_in_glu(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    int d = x ? dl_dim(x, dl_foreign_int(c->n, "dim", -1)) : -1;
    if (d < 0 || d >= x->rank || x->pair) return false;
    dl_ordered(c, x, true);
    int s = dl_call_function(c, "glu", x, ", over=%s", x->axis[d].name);
    dl_set(c, 0, dl_like(c, s, x, c->n->results[0]));
    return true;
}

/* ---- distances ---- */

/* Whether both have an axis at dimension d of what they match to, and its name. */
static const char *common_axis(dl_in_ctx *c, dl_in_value *made, int d, dl_in_value *a,
                               dl_in_value *b) {
    int x = d - (made->rank - a->rank), y = d - (made->rank - b->rank);
    if (d < 0 || x < 0 || y < 0 || !a->dim[x].n || !b->dim[y].n) return NULL;
    return dl_axis_name(c, made, d);
}

bool dl_in_cosine_similarity(dl_in_ctx *c) {
    dl_in_value *a = dl_operand(c, "x1"), *b = dl_operand(c, "x2");
    double eps = dl_foreign_real(c->n, "eps", 1e-8);
    if (!a || !b) return false;
    dl_in_value *made = dl_match(c, a, b);
    int d = dl_dim(made, dl_foreign_int(c->n, "dim", 1));
    const char *axis = common_axis(c, made, d, a, b);
    if (!axis) return false;
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "cosine_similarity(%v, %v, over=%s", a, b, axis);
    if (eps != 1e-8) dl_say_more(c, ", eps=%r", "eps", eps);
    dl_say_more(c, ")");
    made->stmt = s;
    dl_set(c, 0, dl_reduced(made, 1, &d, false));
    return true;
}

/* The vector product along a dimension of size 3: a of the next element times b of the one after
 * it, less the same the other way round. */
bool dl_in_cross(dl_in_ctx *c) {
    dl_in_value *a = dl_self(c), *b = dl_operand(c, "other");
    if (!a || !b || a->class != DL_FOREIGN_FLOAT || b->class != DL_FOREIGN_FLOAT) return false;
    dl_in_value *made = dl_match(c, a, b);
    int d = dl_dim(made, dl_foreign_int(c->n, "dim", -1));
    const char *axis = common_axis(c, made, d, a, b);
    if (!axis || dl_dim_size(c->w, made, d) != 3) return false;
    dl_in_value part[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        dl_in_value p = {
            .stmt = dl_call_function(c, "roll", a, ", %s, over=%s", i ? "-2" : "-1", axis)};
        dl_in_value q = {
            .stmt = dl_call_function(c, "roll", b, ", %s, over=%s", i ? "-1" : "-2", axis)};
        part[i].stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%v * %v", &p, &q);
    }
    return dl_done(c, made,
                   dl_say(c, STMT_PLAIN, P_SUM, "%p - %p", &part[0], P_SUM, &part[1], P_PRODUCT));
}

/* The distances along dimension d of two values that are matched. */
static bool distance(dl_in_ctx *c, dl_in_value *a, dl_in_value *b, double p, double eps) {
    if (p != 1 && p != 2) return false;
    dl_in_value *made = dl_match(c, a, b);
    int d = made->rank - 1;
    if (!common_axis(c, made, d, a, b)) return false;
    made->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p - %p", a, P_SUM, b, P_PRODUCT);
    if (eps != 0) made->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p + %r", made, P_SUM, "eps", eps);
    if (p == 1) made->stmt = dl_call_function(c, "abs", made, "");
    return dl_reduce_by(c, made, p == 1 ? "sum" : "norm", 1, &d, 1);
}

bool dl_in_pairwise_distance(dl_in_ctx *c) {
    dl_in_value *a = dl_operand(c, "x1"), *b = dl_operand(c, "x2");
    return a && b &&
           distance(c, a, b, dl_foreign_real(c->n, "p", 2), dl_foreign_real(c->n, "eps", 1e-6));
}

/* v with a dimension of size 1 in front of dimension `at`. */
static dl_in_value *with_dim(dl_in_ctx *c, const dl_in_value *v, int at) {
    dl_in_value *made = dl_copy_value(c, v);
    memmove(&made->dim[at + 1], &made->dim[at], (size_t)(v->rank - at) * sizeof *v->dim);
    made->dim[at].n = 0, made->rank++;
    return made;
}

/* From each row of the one to each row of the other. */
bool dl_in_cdist(dl_in_ctx *c) {
    dl_in_value *a = dl_operand(c, "x1"), *b = dl_operand(c, "x2");
    if (!a || !b || a->rank < 2 || b->rank < 2 || a->rank == DL_FOREIGN_RANK ||
        b->rank == DL_FOREIGN_RANK)
        return false;
    return distance(c, with_dim(c, a, a->rank - 1), with_dim(c, b, b->rank - 2),
                    dl_foreign_real(c->n, "p", 2), 0);
}

/* ---- matrices of a diagonal ---- */

/* Whether the number along one axis is that along the other, [rows, columns]. */
static dl_in_value *diagonal(dl_in_ctx *c, const int64_t *shape, const char *row,
                             const char *column) {
    dl_foreign_tensor t = {.rank = 2, .class = DL_FOREIGN_BOOL, .shape = {shape[0], shape[1]}};
    int s = dl_say(c, STMT_PLAIN, P_COMPARE, "(range(%i) as [%s]) == (range(%i) as [%s])", "size",
                   shape[0], row, "size", shape[1], column);
    dl_in_value *made = dl_new_value(c, s, &t);
    made->axis[0].name = row, made->axis[1].name = column;
    return made;
}

bool dl_in_eye(dl_in_ctx *c) {
    const dl_foreign_tensor *t = c->n->n_results == 1 ? c->n->results[0] : NULL;
    if (!t || t->rank != 2 || t->shape[0] < 1 || t->shape[1] < 1) return false;
    dl_in_value *made = diagonal(c, t->shape, "T", "S");
    if (t->class == DL_FOREIGN_BOOL) return dl_done(c, made, made->stmt);
    return dl_done(c, made,
                   dl_say(c, STMT_PLAIN, P_PIPE,
                          t->class == DL_FOREIGN_INT ? "%v as i64" : "%v as f32", made));
}

/* Vectors along the last dimension become matrices of the last two. */
bool dl_in_diag_embed(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || v->pair || v->rank < 1 || v->rank == DL_FOREIGN_RANK ||
        dl_foreign_int(c->n, "offset", 0) || dl_foreign_int(c->n, "dim1", -2) != -2 ||
        dl_foreign_int(c->n, "dim2", -1) != -1)
        return false;
    dl_in_value *x = dl_copy_value(c, v);
    dl_ordered(c, x, true);
    int64_t n = dl_dim_size(c->w, x, x->rank - 1), shape[] = {n, n};
    if (n < 1) return false;
    dl_in_value *where =
        diagonal(c, shape, x->axis[x->n - 1].name, dl_fresh_name(x, x->n, x->n + 1));
    x->dim[x->rank++].n = 0;
    dl_in_value *made = dl_match(c, where, x);
    made->class = x->class;
    return dl_done(c, made, dl_say(c, STMT_PLAIN, P_POSTFIX, "where(%v, %v, 0)", where, x));
}

/* The elements of two dimensions with one number: they become the last dimension. */
bool dl_in_diagonal(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || v->pair || dl_foreign_int(c->n, "offset", 0)) return false;
    int a = dl_dim(v, dl_foreign_int(c->n, "dim1", 0)),
        b = dl_dim(v, dl_foreign_int(c->n, "dim2", 1));
    if (a < 0 || b < 0 || a >= v->rank || b >= v->rank || a == b ||
        dl_dim_size(c->w, v, a) > dl_dim_size(c->w, v, b))
        return false;
    dl_in_value *x = dl_copy_value(c, v);
    dl_ordered(c, x, true);
    if (dl_has_batch(x->axis[a].n, x->axis[a].atom)) return false;
    int s = dl_say(c, STMT_PLAIN, P_PIPE, "range(%i) as [%s]", "size", dl_dim_size(c->w, x, a),
                   x->axis[a].name);
    dl_in_value number = {.stmt = s}, *made = dl_copy_value(c, x);
    made->stmt = dl_call_function(c, "gather", x, ", %v, over=%s", &number, x->axis[b].name);
    made->param = -1, made->is_view = false, made->n = made->rank = 0;
    made->axis[made->n++] = x->axis[a]; /* the numbers' axis comes first */
    for (int d = 0; d < x->rank; d++) {
        if (d == a || d == b) continue;
        made->axis[made->n++] = x->axis[d];
        made->dim[made->rank++] = x->dim[d];
    }
    made->dim[made->rank++] = x->dim[a];
    dl_set(c, 0, made);
    return true;
}

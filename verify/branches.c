/* Fixed branches. A loss of many elements has a kink near almost every point (|y - t| of a million
 * pixels), so that its central difference is not accurate. If each op with a kink stays on the
 * side that it has at the point itself, the function is smooth, and has the same gradient there: a
 * relu stays on or off, a maximum stays with its element, a comparison stays true. On a kink itself
 * the side is the one that docs/reference/functions.md has, "Gradients at kinks". Next to kinks,
 * the gradient of each such op is tested by rules.c, which fixes no branches there. */
#include <math.h>
#include <stdlib.h>

#include "verify/parts.h"

/* The side of a kink that one element is on; 0 for min and max is a tie. */
static double side_of(const dl_node *n, double a, double b) {
    const dl_attr *low = dl_node_attr(n, DL_ATTR_low), *high = dl_node_attr(n, DL_ATTR_high);
    switch (n->op) {
    case DL_OP_abs: return (a > 0) - (a < 0);
    case DL_OP_max: return (a > b) - (a < b);
    case DL_OP_min: return (a < b) - (a > b);
    case DL_OP_clamp: return high && a > high->f ? 1 : low && a < low->f ? -1 : 0;
    case DL_OP_softplus:
        return a * dl_node_float(n, DL_ATTR_beta) > dl_node_float(n, DL_ATTR_threshold);
    default: return a > 0;
    }
}

static double on_side(const dl_node *n, double a, double b, double side) {
    double beta;
    switch (n->op) {
    case DL_OP_abs: return a * side;
    case DL_OP_max:
    case DL_OP_min: return side > 0 ? a : side < 0 ? b : (a + b) / 2;
    case DL_OP_clamp:
        return side > 0   ? dl_node_attr(n, DL_ATTR_high)->f
               : side < 0 ? dl_node_attr(n, DL_ATTR_low)->f
                          : a;
    case DL_OP_softplus:
        beta = dl_node_float(n, DL_ATTR_beta);
        return side ? a : log1p(exp(beta * a)) / beta;
    case DL_OP_relu: return side ? a : 0;
    case DL_OP_leaky_relu: return side ? a : dl_node_float(n, DL_ATTR_slope) * a;
    case DL_OP_elu: return side ? a : dl_node_float(n, DL_ATTR_alpha) * expm1(a);
    default: return NAN; /* a kink without a case here, which the verdict shows */
    }
}

/* Has it no gradient, so that its result stays? */
static bool stays(const dl_node *n) {
    return (n->nin && dl_op_is_flat(n->op)) || !dl_dtype_is_float(n->out[0].type.dtype);
}

/* Memory of the node, allocated in the first run: *fresh. NULL: out of memory. */
static float *room(dl_written *w, const dl_node *n, int64_t count, bool *fresh) {
    float **held = &w->held[n->out[0].id];
    *fresh = !*held;
    if (*fresh) *held = malloc(sizeof **held * (size_t)(count + 1));
    return *held;
}

static bool hold_result(dl_written *w, const dl_node *n, double *const *data) {
    int64_t count = dl_type_count(&n->out[0].type);
    double **kept = &w->kept[n->out[0].id];
    if (*kept) {
        memcpy(data[n->nin], *kept, sizeof **kept * (size_t)count);
        return true;
    }
    if (!dl_reference_has(n->op)) return false; /* not an op that this file handles */
    dl_written_meaning(w, n, data);
    *kept = malloc(sizeof **kept * (size_t)(count + 1));
    if (*kept) memcpy(*kept, data[n->nin], sizeof **kept * (size_t)count);
    return true;
}

static bool hold_sides(dl_written *w, const dl_node *n, double *const *data) {
    const dl_type *t = &n->out[0].type;
    bool fresh;
    float *side = room(w, n, dl_type_count(t), &fresh);
    int64_t at[DL_MAX_RANK] = {0}, i = 0;
    if (!side) return false;
    if (dl_type_count(t)) do {
            double a = data[0][dl_ref_follow(&n->in[0]->type, t, at)];
            double b = n->nin > 1 ? data[1][dl_ref_follow(&n->in[1]->type, t, at)] : 0;
            if (fresh) side[i] = (float)side_of(n, a, b);
            data[n->nin][i] = on_side(n, a, b, (double)side[i]);
            i++;
        } while (dl_ref_next(t, at));
    return true;
}

/* For a maximum or minimum: the share of each element that attains it, also where several do. */
static bool hold_winners(dl_written *w, const dl_node *n, double *const *data) {
    const dl_type *t = &n->in[0]->type, *to = &n->out[0].type;
    bool fresh;
    int64_t count = dl_type_count(t), results = dl_type_count(to), at[DL_MAX_RANK] = {0}, i = 0;
    float *share = room(w, n, count, &fresh);
    double *y = data[n->nin];
    if (!share || !count) return false;
    float *ties = fresh ? calloc((size_t)results + 1, sizeof *ties) : NULL;
    if (fresh) {
        dl_written_meaning(w, n, data);
        do {
            int64_t r = dl_ref_follow(to, t, at);
            bool wins = data[0][i] == y[r] && (n->op != DL_OP_first_max || ties[r] == 0);
            share[i++] = wins, ties[r] += wins;
        } while (dl_ref_next(t, at));
        i = 0;
        do share[i++] /= fmaxf(ties[dl_ref_follow(to, t, at)], 1);
        while (dl_ref_next(t, at));
        free(ties), i = 0;
    }
    for (int64_t r = 0; r < results; r++) y[r] = 0;
    do {
        if (share[i] > 0) y[dl_ref_follow(to, t, at)] += (double)share[i] * data[0][i];
        i++;
    } while (dl_ref_next(t, at));
    return true;
}

/* For each window, the first element that attains the maximum, as an index of the operand. */
static bool hold_places(dl_written *w, const dl_node *n, double *const *data) {
    const dl_type *to = &n->out[0].type;
    int64_t count = dl_type_count(to);
    double **place = &w->kept[n->out[0].id];
    if (!*place) {
        *place = malloc(sizeof **place * (size_t)(count + 1));
        if (!*place) return false;
        dl_written_meaning(w, n, data);
        dl_ref_max_places(n, data[0], *place);
    }
    for (int64_t i = 0; i < count; i++)
        data[1][i] = (*place)[i] < 0 ? -INFINITY : data[0][(int64_t)(*place)[i]];
    return true;
}

bool dl_written_hold(dl_written *w, const dl_node *n, double *const *data) {
    if (stays(n)) return hold_result(w, n, data);
    if (dl_op_curve(n->op) == DL_CURVE_KINK) return hold_sides(w, n, data);
    if (n->op == DL_OP_max_pool) return hold_places(w, n, data);
    return dl_op_curve(n->op) == DL_CURVE_EXTREMUM && hold_winners(w, n, data);
}

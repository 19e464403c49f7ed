/* Tests each kind of node of a model as a small model of its own. The result of the pass `lower`
 * on a composite is compared with the op's reference. The result of autodiff is compared with
 * central differences of the reference, along directions in which all operands move at once. The
 * operands are those of the model's run. They are changed so that no two elements are equal, and a
 * kink (relu, a window's maximum) is hit only by chance. An op with kinks is tested at these, too:
 * on operands full of ties, next to central differences of the op on fixed branches (branches.c),
 * where each kink has the side of docs/reference/functions.md. */
#include <math.h>
#include <stdlib.h>

#include "ir/base/philox.h"
#include "ir/builder.h"
#include "verify/rules.h"

enum { MAX_OPERANDS = 64, DIRECTIONS = 3 };
static const double steps[] = {1e-5, 1e-6, 1e-4, 1e-7, 1e-3, 0}; /* step sizes of a difference */

/* ---- a small model of one node ---- */

typedef struct {
    dl_rules *r;
    dl_arena *arena;
    const dl_node *n;
    const char *what; /* "'gelu' (m.dl:3)" */
    int operands;     /* distinct ones that are not constants */
    int slot[MAX_OPERANDS];
    dl_type *type[MAX_OPERANDS];
    bool moves[MAX_OPERANDS]; /* its gradient is tested */
    bool tied;                /* the operands are at kinks, and each element moves */
    double *x[MAX_OPERANDS], *along[MAX_OPERANDS], *grad[MAX_OPERANDS];
    double *weight; /* weights of the result's elements in the small model's loss */
    dl_written *plain;
    dl_reference_draw draw;
} probe;

static const char *operand_name(int i) { return dl_internf("operand.%d", i); }

/* Finds the node's operands, each value once. */
static bool find_operands(probe *p) {
    const dl_node *n = p->n;
    const dl_rules *r = p->r;
    bool wanted = r->needed[n->out[0].id] && dl_dtype_is_float(n->out[0].type.dtype) &&
                  n->op != DL_OP_stop_gradient; /* by definition it has no gradient */
    if (n->nin > MAX_OPERANDS) return false;
    for (int k = 0; k < n->nin; k++) {
        int same = 0;
        const dl_value *v = n->in[k];
        while (n->in[same] != v) same++;
        if (v->def && v->def->op == DL_OP_const) {
            p->slot[k] = -1;
        } else if (same < k) {
            p->slot[k] = p->slot[same];
        } else {
            p->slot[k] = p->operands;
            p->moves[p->operands] = wanted && r->active[v->id] && dl_type_count(&v->type) > 0;
            p->type[p->operands] = DL_NEW(p->arena, dl_type);
            *p->type[p->operands++] = v->type;
        }
    }
    return true;
}

/* Shortens the longest axes of all tensors until the largest tensor is small enough. The first
 * elements along each axis stay in the operands' data. */
static void crop(probe *p) {
    dl_node *n = DL_NEW(p->arena, dl_node);
    dl_value *out = DL_NEW(p->arena, dl_value);
    dl_type *all[MAX_OPERANDS + 1], before[MAX_OPERANDS];
    if (!dl_rules_may_crop(p->n)) return;
    *n = *p->n, *out = n->out[0], n->out = out, p->n = n;
    for (int i = 0; i < p->operands; i++) all[i] = p->type[i], before[i] = *p->type[i];
    all[p->operands] = &out->type;
    for (;;) {
        dl_axis longest = {"", 3};
        int64_t most = 0;
        for (int i = 0; i <= p->operands; i++) {
            if (dl_type_count(all[i]) > most) most = dl_type_count(all[i]);
            for (int d = 0; d < all[i]->rank; d++)
                if (all[i]->axis[d].size > longest.size) longest = all[i]->axis[d];
        }
        if (most <= DL_RULES_CROP || longest.size <= 3) break;
        for (int i = 0; i <= p->operands; i++)
            for (int d = 0; d < all[i]->rank; d++)
                if (all[i]->axis[d].name == longest.name && all[i]->axis[d].size > 1)
                    all[i]->axis[d].size = longest.size / 2;
    }
    for (int i = 0; i < p->operands; i++) {
        int64_t at[DL_MAX_RANK] = {0}, k = 0, count = dl_type_count(p->type[i]);
        double *x = DL_NEWS(p->arena, double, count + 1);
        if (count) do
                x[k++] = p->x[i][dl_ref_place(&before[i], at)];
            while (dl_ref_next(p->type[i], at));
        p->x[i] = x;
    }
}

/* Copies the operands into memory of the probe, which is allocated once: `to`. */
static void copy_operands(probe *p, double *const *from, double **to) {
    for (int i = 0; i < p->operands; i++) {
        int64_t n = dl_type_count(p->type[i]);
        if (!to[i]) to[i] = DL_NEWS(p->arena, double, n + 1);
        memcpy(to[i], from[i], sizeof **from * (size_t)n);
    }
}

static bool moves_any(const probe *p) {
    for (int i = 0; i < p->operands; i++)
        if (p->moves[i]) return true;
    return false;
}

/* y with names for all its axes. */
static dl_value *named(dl_builder *b, dl_value *y) {
    dl_type t = y->type;
    bool changed = false;
    for (int i = 0; i < t.rank; i++)
        if (!*t.axis[i].name) t.axis[i].name = dl_type_fresh(&t, "unnamed"), changed = true;
    return changed ? dl_build_as(b, DL_OP_rename, 1, &y, 0, NULL, t) : y;
}

/* The node alone, with its operands as variables; with a loss, the weighted sum of its elements. */
static dl_module *build(probe *p, bool loss) {
    dl_module *m = dl_module_new(p->arena);
    dl_graph *g = dl_graph_new(m, dl_intern("train"));
    dl_builder b = {.graph = g, .loc = p->n->loc};
    dl_value *in[MAX_OPERANDS], *var[MAX_OPERANDS];
    for (int i = 0; i < p->operands; i++) {
        dl_type t = *p->type[i];
        t.layout = (dl_layout){0};
        dl_var_role role = loss && p->moves[i] ? DL_VAR_PARAM : DL_VAR_INPUT;
        var[i] = &dl_graph_var(g, role, operand_name(i), t, (dl_init){0}, b.loc)->value;
    }
    for (int k = 0; k < p->n->nin; k++)
        in[k] = p->slot[k] >= 0 ? var[p->slot[k]]
                                : dl_build_const(&b, p->n->in[k]->type.dtype,
                                                 dl_node_float(p->n->in[k]->def, DL_ATTR_value));
    dl_type t = p->n->out[0].type;
    dl_node *n = dl_node_append(g, p->n->op, p->n->nin, in, 1, &t, b.loc);
    for (int i = 0; i < p->n->nattrs; i++) dl_node_set(g, n, p->n->attrs[i]);
    dl_graph_result(g, DL_RESULT_OUTPUT, dl_intern("y"), &n->out[0], NULL);
    if (!loss) return m;
    dl_value *y = named(&b, &n->out[0]);
    dl_value *w =
        &dl_graph_var(g, DL_VAR_INPUT, dl_intern("weights"), y->type, (dl_init){0}, b.loc)->value;
    dl_value *sum = dl_build_reduce(&b, DL_OP_sum, dl_build2(&b, DL_OP_mul, y, w), 0, NULL);
    dl_graph_result(g, DL_RESULT_LOSS, dl_intern("loss"), sum, NULL);
    return m;
}

static bool fill(probe *p, dl_interp *in, const dl_graph *g, double *const *x, dl_error *err) {
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        double *to = dl_interp_data(in, &v->value);
        size_t bytes = sizeof *to * (size_t)dl_type_count(&v->value.type);
        if (!to)
            return dl_fail(err, DL_RESOURCE,
                           "no memory for the interpreter; verify a smaller --data_size");
        for (int k = 0; k < p->operands; k++)
            if (v->name == operand_name(k)) memcpy(to, x[k], bytes);
        if (strcmp(v->name, "weights") == 0) memcpy(to, p->weight, bytes);
        if (strcmp(v->name, DL_RANDOM_SEED) == 0) *to = (double)p->draw.seed;
        if (strcmp(v->name, DL_RANDOM_STEP) == 0) *to = (double)p->draw.step;
    }
    return true;
}

/* The node's result by its reference; valid until the next such run. */
static const double *own_result(probe *p, double *const *x, dl_error *err) {
    const dl_graph *g = p->plain->g;
    if (!fill(p, p->plain->in, g, x, err) || !dl_written_run(p->plain, err)) return NULL;
    for (int i = 0; i < g->vars.n; i++) dl_interp_drop(p->plain->in, &g->vars.at[i]->value);
    return dl_interp_data(p->plain->in, g->results.at[0].value);
}

static void say(probe *p, char *text) { dl_push(p->r->arena, &p->r->v->faults, text); }

/* ---- the result of lower ---- */

/* The change of the result when its operands change by four roundings of double. */
static double moved_by_rounding(probe *p, const double *y, int64_t count, dl_error *err) {
    double *x[MAX_OPERANDS], moved = 0;
    for (int i = 0; i < p->operands; i++) {
        int64_t n = dl_type_count(p->type[i]);
        x[i] = DL_NEWS(p->arena, double, n + 1);
        for (int64_t k = 0; k < n; k++) {
            double by = dl_verify_uniform(7 + (uint64_t)i, (uint64_t)k) < 0 ? -0x1p-50 : 0x1p-50;
            x[i][k] = dl_dtype_is_float(p->type[i]->dtype) ? p->x[i][k] * (1 + by) : p->x[i][k];
        }
    }
    const double *z = own_result(p, x, err);
    if (z) moved = dl_verify_distance(y, z, count);
    return isfinite(moved) ? moved : INFINITY;
}

/* Compares the reference with the derived graph's result, on the same operands. */
static bool judge_result(probe *p, const double *got, dl_error *err) {
    const dl_type *t = &p->n->out[0].type;
    int64_t count = dl_type_count(t);
    const double *own = own_result(p, p->x, err);
    if (!own) return false;
    double *want = DL_NEWS(p->arena, double, count + 1);
    memcpy(want, own, sizeof *want * (size_t)count);
    double off = dl_verify_distance(got, want, count), size = dl_verify_norm(want, count);
    double allowed = dl_dtype_is_float(t->dtype) ? 1e-11 * size : 0;
    if (off > allowed && dl_dtype_is_float(t->dtype))
        allowed += 64 * moved_by_rounding(p, want, count, err);
    p->r->v->judged.composites++;
    if (!(off > allowed)) return true;
    say(p,
        dl_format(p->r->arena, "%s is not what the op means: %.2e off in double precision, of %.2e",
                  p->what, off, size));
    return true;
}

/* ---- the result of autodiff ---- */

/* Makes all elements of the operands different and nonzero, with unchanged signs. */
static void spread_out(probe *p, double by) {
    for (int i = 0; i < p->operands; i++) {
        int64_t n = dl_type_count(p->type[i]);
        double rms = n ? dl_verify_norm(p->x[i], n) / sqrt((double)n) : 0;
        for (int64_t k = 0; k < n && dl_dtype_is_float(p->type[i]->dtype); k++) {
            double u = dl_verify_uniform(11 + (uint64_t)i, (uint64_t)k), *x = &p->x[i][k];
            *x = *x != 0 ? *x * (1 + by * u) : by * (rms > 0 ? rms : 1) * (fabs(u) + 1e-3);
        }
    }
}

typedef struct {
    probe *p;
    double *y; /* at +h */
} line;

static bool along_line(void *user, double h, double *difference, dl_error *err) {
    line *l = user;
    probe *p = l->p;
    int64_t count = dl_type_count(&p->n->out[0].type);
    double *x[MAX_OPERANDS];
    *difference = 0;
    for (int side = 1; side >= -1; side -= 2) {
        for (int i = 0; i < p->operands; i++) {
            int64_t n = dl_type_count(p->type[i]);
            x[i] = p->x[i];
            if (!p->moves[i]) continue;
            x[i] = malloc(sizeof *x[i] * (size_t)(n + 1));
            if (!x[i]) return dl_fail(err, DL_RESOURCE, "no memory; verify a smaller --data_size");
            for (int64_t k = 0; k < n; k++) x[i][k] = p->x[i][k] + side * h * p->along[i][k];
        }
        const double *y = own_result(p, x, err);
        for (int i = 0; i < p->operands; i++)
            if (p->moves[i]) free(x[i]);
        if (!y) return false;
        for (int64_t k = 0; k < count && side > 0; k++) l->y[k] = y[k];
        for (int64_t k = 0; k < count && side < 0; k++)
            if (p->weight[k] != 0) *difference += p->weight[k] * (l->y[k] - y[k]);
    }
    return true;
}

/* The derivative along a direction by the gradient rule; *size: the sum of its terms' magnitudes.
 * Elements whose gradient is not finite do not move. */
static double rule_slope(probe *p, uint64_t seed, double *size) {
    double sum = 0, squares = 0;
    for (int i = 0; i < p->operands; i++)
        for (int64_t k = 0; p->moves[i] && k < dl_type_count(p->type[i]); k++) {
            double g = p->grad[i][k];
            double d = dl_verify_normal(seed + (uint64_t)i, (uint64_t)k);
            if (!p->tied) d *= fabs(p->x[i][k]);
            p->along[i][k] = d = isfinite(g) && isfinite(d) ? d : 0;
            sum += d != 0 ? g * d : 0, squares += d != 0 ? g * d * (g * d) : 0;
        }
    *size = sqrt(squares);
    return sum;
}

static bool judge_gradient(probe *p, dl_error *err) {
    int64_t count = dl_type_count(&p->n->out[0].type);
    line l = {p, DL_NEWS(p->arena, double, count + 1)};
    for (int i = 0; i < p->operands; i++)
        p->along[i] = DL_NEWS(p->arena, double, dl_type_count(p->type[i]) + 1);
    for (uint64_t d = 0; d < DIRECTIONS; d++) {
        double size, slope, claimed = rule_slope(p, 1000 * (d + 1), &size);
        bool smooth;
        if (!dl_verify_slope(along_line, &l, size, steps, &slope, &smooth, err)) return false;
        if (!smooth) continue;
        p->r->v->judged.gradients++;
        if (fabs(slope - claimed) <= dl_verify_slope_off * fmax(size, fabs(slope))) return true;
        say(p, dl_format(p->r->arena,
                         "the gradient of %s%s is not its derivative: %.9g along a direction, "
                         "where central differences give %.9g",
                         p->what, p->tied ? " at its kinks" : "", claimed, slope));
        return true;
    }
    char *why =
        dl_format(p->r->arena, "the gradient of %s: no direction in which it is smooth", p->what);
    dl_push(p->r->arena, &p->r->v->skipped, why);
    return true;
}

/* ---- one node ---- */

/* Runs the small model after the compiler's passes on p->x: result and gradients. */
static bool run_derived(probe *p, dl_graph *g, double *y, dl_error *err) {
    dl_interp *in = dl_interp_new(g, false);
    dl_interp_release(in);
    bool ok = fill(p, in, g, p->x, err) && dl_interp_run(in, err);
    const dl_result *out = dl_graph_find_result(g, DL_RESULT_OUTPUT, NULL);
    int64_t count = dl_type_count(&out->value->type);
    if (ok && y) memcpy(y, dl_interp_data(in, out->value), sizeof *y * (size_t)count);
    for (int i = 0; ok && i < p->operands; i++) {
        const dl_result *r = dl_graph_find_result(g, DL_RESULT_GRAD, operand_name(i));
        int64_t n = dl_type_count(p->type[i]);
        p->grad[i] = p->grad[i] ? p->grad[i] : DL_NEWS(p->arena, double, n + 1);
        if (r) memcpy(p->grad[i], dl_interp_data(in, r->value), sizeof(double) * (size_t)n);
    }
    dl_interp_free(in);
    return ok;
}

static bool is_finite(const double *y, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(y[i])) return false;
    return true;
}

/* Chooses weights of the result's elements: 0 where the result is not finite although the operands
 * are. */
static void weigh(probe *p, const double *y, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        p->weight[i] = isfinite(y[i]) ? 0.5 + dl_verify_uniform(5, (uint64_t)i) : 0;
}

/* ---- at kinks ---- */

static bool has_kinks(const dl_node *n) {
    dl_curve curve = dl_op_curve(n->op);
    return curve == DL_CURVE_KINK || curve == DL_CURVE_EXTREMUM || n->op == DL_OP_max_pool;
}

/* Numbers at which the node has kinks, where its operands have a choice of them: those of its
 * attributes and constants, 0, and numbers to either side. Their count. */
static int find_kinks(const probe *p, double at[MAX_OPERANDS + 8]) {
    const dl_attr *low = dl_node_attr(p->n, DL_ATTR_low), *high = dl_node_attr(p->n, DL_ATTR_high);
    int n = 0;
    for (int k = 0; k < p->n->nin; k++)
        if (p->slot[k] < 0) at[n++] = dl_node_float(p->n->in[k]->def, DL_ATTR_value);
    if (low) at[n++] = low->f;
    if (high) at[n++] = high->f;
    if (p->n->op == DL_OP_softplus)
        at[n++] = dl_node_float(p->n, DL_ATTR_threshold) / dl_node_float(p->n, DL_ATTR_beta);
    at[n++] = 0, at[n++] = -0.75, at[n++] = 0.75;
    return n;
}

/* Gives the operands these numbers alone: the first elements of all operands are the same, the
 * others are drawn. */
static void tie(probe *p) {
    double at[MAX_OPERANDS + 8];
    int kinks = find_kinks(p, at);
    for (int i = 0; i < p->operands; i++) {
        if (!dl_dtype_is_float(p->type[i]->dtype)) continue;
        int64_t n = dl_type_count(p->type[i]);
        p->x[i] = DL_NEWS(p->arena, double, n + 1);
        for (int64_t k = 0; k < n; k++) {
            double u = (dl_verify_uniform(31 + (uint64_t)i, (uint64_t)k) + 1) / 2;
            p->x[i][k] = at[k < kinks ? k : (int)(u * kinks)];
        }
    }
    p->tied = true;
}

static bool judge_kinks(probe *p, dl_graph *derived, dl_error *err) {
    if (!has_kinks(p->n)) return true;
    tie(p);
    p->plain->holds = true;
    const double *own = own_result(p, p->x, err); /* fixes the branches */
    if (!own) return false;
    weigh(p, own, dl_type_count(&p->n->out[0].type));
    return run_derived(p, derived, NULL, err) && judge_gradient(p, err);
}

static bool judge_node(probe *p, dl_error *err) {
    int64_t count = dl_type_count(&p->n->out[0].type);
    dl_module *plain = build(p, false), *derived = build(p, moves_any(p));
    const char *passes = moves_any(p) ? "lower,autodiff" : "lower";
    p->plain = dl_written_new(p->arena, plain->graphs.at[0], &p->draw);
    p->weight = DL_NEWS(p->arena, double, count + 1);
    double *y = DL_NEWS(p->arena, double, count + 1);
    if (!p->r->run->passes(derived, passes, p->r->run->user, err)) return false;
    const dl_op_class class = dl_ops[p->n->op].class;
    if (dl_reference_has(p->n->op) || class == DL_CLASS_HIGH)
        if (!run_derived(p, derived->graphs.at[0], y, err) || !judge_result(p, y, err))
            return false;
    if (!moves_any(p)) return true;
    bool finite = is_finite(own_result(p, p->x, err), count);
    const double *own = NULL;
    double *as_are[MAX_OPERANDS], *room[MAX_OPERANDS] = {0};
    memcpy(as_are, p->x, sizeof as_are);
    for (double by = 0.1; by > 1e-5; by *= 0.01) { /* finite results should stay finite */
        copy_operands(p, as_are, room);
        memcpy(p->x, room, sizeof room);
        spread_out(p, by);
        if (!(own = own_result(p, p->x, err))) return false;
        if (!finite || is_finite(own, count)) break;
        memcpy(p->x, as_are, sizeof as_are);
    }
    weigh(p, own, count);
    return run_derived(p, derived->graphs.at[0], NULL, err) && judge_gradient(p, err) &&
           judge_kinks(p, derived->graphs.at[0], err);
}

void dl_rules_look(void *rules, const dl_node *n, double *const *data) {
    dl_rules *r = rules;
    dl_error err = {0};
    if (!r->chosen[n->out[0].id]) return;
    dl_arena *arena = dl_arena_new(r->arena);
    probe p = {.r = r, .arena = arena, .n = n, .draw = {3, 2, 0}};
    p.what = n->loc.file
                 ? dl_format(arena, "'%s' (%s:%d)", dl_ops[n->op].name, n->loc.file, n->loc.line)
                 : dl_format(arena, "'%s'", dl_ops[n->op].name);
    bool ok = find_operands(&p);
    for (int k = 0; ok && k < n->nin; k++)
        if (p.slot[k] >= 0) p.x[p.slot[k]] = data[k];
    if (ok) crop(&p);
    if (!ok || !judge_node(&p, &err)) {
        char *why = dl_format(r->arena, "%s: %s", p.what,
                              ok ? err.message : "it has more operands than are looked at");
        dl_push(r->arena, &r->v->skipped, why);
    }
    dl_written_free(p.plain);
    dl_arena_free(arena);
}

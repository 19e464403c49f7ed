/* The parts that verify judges in addition to kernels: ops by their own meaning, gradients,
 * updates, memory. Models of all layers are in order under the compiler's own rules; and where the
 * passes' results are tampered with, each time in one place, that is found and named. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "frontends/dl/front.h"
#include "ir/base/input.h"
#include "ir/builder.h"
#include "runtime/base/rng.h"
#include "runtime/exec/state.h"
#include "tests/cache.h"
#include "tests/unit/judged.h"
#include "verify/reference.h"

enum { BATCH = 3 };

/* ---- models ---- */

static dl_module *build(dl_arena *arena, const char *name) {
    dl_error err = {0};
    char *path = dl_format(arena, "tests/data/verify/%s.dl", name);
    size_t n;
    char *text = dl_read_file(arena, path, 1 << 20, &n, &err);
    const dl_source *s = dl_source_new(arena, path, text ? text : "", n);
    dl_diags *d = dl_diags_new(arena, s);
    static const dl_axis_size sizes[] = {{"N", BATCH}};
    dl_model_config config = {.sizes = sizes, .nsizes = 1};
    dl_model *m = text ? dl_model_parse(arena, s, d) : NULL;
    dl_module *module = m ? dl_model_build(arena, m, &config, d) : NULL;
    CHECK(module != NULL, "%s: %s", path, d->list.n ? d->list.at[0]->message : err.message);
    return module;
}

static dl_plan *compile(dl_arena *arena, dl_module *m, const dl_step_options *step_options) {
    dl_error err = {0};
    dl_compile_options opt = {.target = dl_target_find(NULL, NULL, &err),
                              .step_options = *step_options,
                              .model = "M",
                              .batch = BATCH,
                              .link = true};
    dl_compile_times times = {0};
    dl_plan *p = opt.target ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(p != NULL, "%s", err.message);
    return p;
}

/* Parameters by their rules and moved, classes whole numbers from 0 to 3, moments of either kind.
 */
static bool fill(dlr_exec *exec, void *user, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    (void)user;
    if (!dlr_state_init(exec, 1, err)) return false;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        bool fed = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET,
             kept = v->role == DL_VAR_STATE && v->of;
        if (!fed && !kept && v->role != DL_VAR_PARAM) continue;
        int64_t n = dl_type_count(&v->type);
        double *x = calloc((size_t)n + 1, sizeof *x);
        dlr_view view = dlr_exec_variable(exec, v->name);
        dlr_state_read(exec, view, DL_F64, x);
        for (int64_t k = 0; k < n; k++) {
            double z = dl_verify_normal((uint64_t)i, (uint64_t)k);
            if (v->role == DL_VAR_PARAM)
                x[k] += 0.1 * z;
            else
                x[k] = fed && !dl_dtype_is_float(v->type.dtype)
                           ? floor(fabs(2 * z)) - 4 * floor(fabs(z) / 2)
                       : fed ? z
                             : 1e-3 * (1 + z * z);
            if (fed && !dl_dtype_is_float(v->type.dtype)) x[k] = fmin(fmax(x[k], 0), 3);
        }
        dlr_state_write(exec, view, DL_F64, x);
        free(x);
    }
    double steps = 5, decay = 0.03;
    dlr_view step = dlr_exec_variable(exec, "optimizer.step"),
             weight_decay = dlr_exec_variable(exec, "optimizer.weight_decay"),
             rate = dlr_exec_variable(exec, "optimizer.lr.init");
    if (step.type) dlr_state_write(exec, step, DL_F64, &steps);
    if (weight_decay.type) dlr_state_write(exec, weight_decay, DL_F64, &decay);
    if (rate.type) dlr_state_write(exec, rate, DL_F64, &decay);
    return true;
}

/* ---- passes ---- */

/* The first number of a hyperparameter or a state, a little more: of variable `skip` that has
 * one. */
static void alter_start(dl_graph *g, way *w) {
    for (int i = 0; i < g->vars.n && !w->applied; i++) {
        dl_var *v = g->vars.at[i];
        if ((v->role != DL_VAR_HYPER && v->role != DL_VAR_STATE) || w->skip-- != 0) continue;
        const double first = v->init.kind == DL_INIT_CONST ? v->init.a : 0;
        v->init = (dl_init){.kind = DL_INIT_CONST, .a = first * 1.01 + 0.001};
        w->applied = true, w->altered = v->name;
    }
}

/* All readers of hyperparameter `skip` have it a little larger; an epoch is two later. */
static void shift_reads(dl_graph *g, way *w) {
    const int n = g->nodes.n;
    dl_var *v = NULL;
    for (int i = 0; i < g->vars.n && !v; i++)
        if (g->vars.at[i]->role == DL_VAR_HYPER && w->skip-- == 0) v = g->vars.at[i];
    if (!v) return;
    dl_builder b = {.graph = g};
    const bool whole = strstr(v->name, "lr.range.") || strstr(v->name, ".start"); /* epochs */
    dl_value *more =
        dl_build_k(&b, DL_OP_add, dl_build_k(&b, DL_OP_mul, &v->value, 1.01), whole ? 2 : 0.001);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < g->nodes.at[i]->nin; k++)
            if (g->nodes.at[i]->in[k] == &v->value) g->nodes.at[i]->in[k] = more;
    CHECK(dl_graph_sort(g), "'%s'", v->name);
    w->applied = true, w->altered = v->name;
}

bool judged_passes(dl_module *m, const char *names, void *user, dl_error *err) {
    way *w = user;
    dl_pass_ctx ctx = {.arena = m->arena, .err = err};
    if (strstr(names, "optimizer")) ctx.step_options = *w->step_options;
    if (!dl_run_passes(m, names, &ctx, (dl_pass_options){0})) return false;
    if ((!w->with && !w->starts && !w->shifts) || strcmp(names, w->after) != 0) return true;
    dl_graph *g = m->graphs.at[0];
    if (w->starts) alter_start(g, w);
    if (w->shifts) shift_reads(g, w);
    for (int i = 0; i < g->nodes.n && !w->applied && w->with; i++)
        if (w->with(g, g->nodes.at[i], true) && w->skip-- == 0)
            w->applied = w->with(g, g->nodes.at[i], false);
    return true;
}

/* Everything of a model but its kernels. */
typedef struct {
    dl_module *written, *derived, *made;
    dl_plan *plan;
} model;

static bool open_model(dl_arena *arena, const char *name, const dl_step_options *step_options,
                       model *m) {
    dl_error err = {0};
    way plain = {.step_options = step_options};
    *m = (model){build(arena, name), build(arena, name), build(arena, name), NULL};
    if (!m->written || !m->derived || !m->made) return false;
    bool ok = judged_passes(m->derived, "lower,simplify,autodiff", &plain, &err);
    CHECK(ok, "%s", err.message);
    m->plan = compile(arena, m->made, step_options);
    return ok && m->plan;
}

static dl_verdict judge(dl_arena *arena, const model *m, const dl_step_options *step_options,
                        way *w) {
    static const char *const names[] = {"train", "eval"};
    dl_verdict v = {0};
    dl_error err = {0};
    dl_verify_run run = {{.threads = 1}, fill, judged_passes, w};
    for (int i = 0; i < 2; i++) {
        dl_verify_graphs g = {dl_module_graph(m->written, names[i]), NULL,
                              dl_module_graph(m->made, names[i])};
        if (i == 0) g.derived = dl_module_graph(m->derived, names[i]);
        double *float32 = DL_NEWS(arena, double, g.written->results.n + 1);
        CHECK(dl_verify_meaning(arena, &g, m->plan, &run, step_options, &v, float32, &err), "%s",
              err.message);
    }
    return v;
}

static const dl_step_options adam = {.optimizer = DL_OPT_adam, .decay = true};

/* ---- what is in order ---- */

static void test_table(void) {
    static const bool lowered[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr)                    \
    [DL_OP_##id] = #lower[0] != 'n',
#include "ir/ops.def"
#undef OP
    };
    for (int op = 0; op < DL_NOPS; op++) {
        dl_op_class class = dl_ops[op].class;
        if (op == DL_OP_grad) continue; /* judged by differences: verify/derivatives.c */
        bool wanted = lowered[op] || class == DL_CLASS_HIGH || class == DL_CLASS_ELEM ||
                      class == DL_CLASS_REDUCE;
        CHECK(!wanted || dl_reference_has((dl_op)op), "'%s' has no meaning of its own",
              dl_ops[op].name);
    }
}

static void test_models(void) {
    static const struct {
        const char *name;
        int composites, gradients, updates;
    } models[] = {{"pointwise", 60, 50, 7}, {"layers", 45, 50, 40}, {"classes", 25, 20, 7}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        model m;
        way plain = {.step_options = &adam};
        if (open_model(arena, models[i].name, &adam, &m)) {
            dl_verdict v = judge(arena, &m, &adam, &plain);
            for (int k = 0; k < v.faults.n; k++)
                CHECK(false, "%s: %s", models[i].name, v.faults.at[k]);
            for (int k = 0; k < v.skipped.n; k++)
                CHECK(false, "%s: %s", models[i].name, v.skipped.at[k]);
            CHECK(v.judged.composites >= models[i].composites &&
                      v.judged.gradients >= models[i].gradients &&
                      v.judged.updates >= models[i].updates,
                  "%s: %d composites, %d gradients, %d updates", models[i].name,
                  v.judged.composites, v.judged.gradients, v.judged.updates);
        }
        dl_arena_free(arena);
    }
}

/* ---- what is not ---- */

static int found_all;
void judged_found(const dl_verdict *v, const char *what, const char *named) {
    bool found = false;
    for (int i = 0; i < v->faults.n; i++) found = found || strstr(v->faults.at[i], named);
    found_all += found;
    CHECK(found, "%s: '%s' is not named among %d faults: %s", what, named, v->faults.n,
          v->faults.n ? v->faults.at[0] : "");
}

/* The model's own step, next to the definition of another one: the parameters are named, and what
 * is kept of them is in order. */
static void test_model_step(void) {
    static const dl_step_options adamw = {.optimizer = DL_OPT_adamw, .decay = true},
                                 clipped = {.optimizer = DL_OPT_adam, .decay = true, .clip = true};
    dl_arena *arena = dl_arena_new(NULL);
    model m;
    way plain = {.step_options = &adam};
    if (open_model(arena, "classes", &adam, &m)) {
        dl_verdict v = judge(arena, &m, &adamw, &plain);
        judged_found(&v, "decay of the model's step",
                     "weight' is not what the optimiser makes of the gradients");
        int parts = v.judged.updates;
        v = judge(arena, &m, &clipped, &plain);
        judged_found(&v, "clipping of the model's step", "'exp_avg_sq.");
        CHECK(v.judged.updates == parts && parts > 6, "%d and %d updates", v.judged.updates, parts);
    }
    dl_arena_free(arena);
}

/* A constant that is a thousandth off; but 0, 1 and powers of 2, which are there for their own
 * sake. */
static bool tamper_constant(dl_graph *g, dl_node *n, bool dry) {
    int exponent;
    if (n->op != DL_OP_const || frexp(fabs(dl_node_float(n, DL_ATTR_value)), &exponent) == 0.5)
        return false;
    if (dl_node_float(n, DL_ATTR_value) == 0) return false;
    if (!dry)
        dl_node_set(g, n, dl_attr_float(DL_ATTR_value, dl_node_float(n, DL_ATTR_value) * 1.001));
    return true;
}
static bool tamper_sub(dl_graph *g, dl_node *n, bool dry) {
    (void)g;
    if (n->op != DL_OP_sub || n->in[0] == n->in[1]) return false;
    if (!dry) n->op = DL_OP_add;
    return true;
}
static bool tamper_select(dl_graph *g, dl_node *n, bool dry) {
    (void)g;
    dl_value *v = n->nin > 1 ? n->in[1] : NULL;
    if (n->op == DL_OP_select && !dry) n->in[1] = n->in[2], n->in[2] = v;
    return n->op == DL_OP_select;
}

static bool tamper_product(dl_graph *g, dl_node *n, bool dry) {
    (void)g;
    bool is = n->op == DL_OP_mul && n->in[0] != n->in[1];
    if (is && !dry) n->op = DL_OP_add;
    return is;
}

/* The n-th such place of the small models, lowered or with gradients, and of the step. */
static void test_tampered(void) {
    static const struct {
        const char *what, *after, *named;
        tamper *with;
        int most;
    } kinds[] = {
        {"a constant of a gradient", "lower,autodiff", "'", tamper_constant, 6},
        {"a difference of a gradient", "lower,autodiff", "'", tamper_sub, 4},
        {"sides of a gradient", "lower,autodiff", "'", tamper_select, 3},
    };
    dl_arena *arena = dl_arena_new(NULL);
    model m;
    if (open_model(arena, "pointwise", &adam, &m))
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            for (int skip = 0; skip < kinds[i].most; skip++) {
                way w = {.step_options = &adam,
                         .with = kinds[i].with,
                         .after = kinds[i].after,
                         .skip = skip};
                dl_verdict v = judge(arena, &m, &adam, &w);
                if (w.applied) judged_found(&v, kinds[i].what, kinds[i].named);
                CHECK(w.applied || skip, "%s: there is none", kinds[i].what);
            }
    dl_arena_free(arena);
}

/* Equal operands and equal extremes each get the whole gradient; a comparison decides the other way
 * where both are equal. */
static bool tamper_tie(dl_graph *g, dl_node *n, bool dry) {
    (void)g;
    bool pair = n->op == DL_OP_select && dl_made_by(n->in[0], DL_OP_eq);
    const dl_node *mask = n->op == DL_OP_sum ? dl_made_by(n->in[0], DL_OP_cast) : NULL;
    bool several = mask && dl_made_by(mask->in[0], DL_OP_eq);
    if (pair && !dry) n->in[1] = n->in[2];
    if (several && !dry) n->op = DL_OP_reduce_max;
    return pair || several;
}
/* The larger or the smaller of two numbers, by their comparison: which of two equal ones is the
 * same. */
static bool chooses_compared(const dl_graph *g, const dl_node *n) {
    for (int i = 0; i < g->nodes.n; i++) {
        dl_value *const *in = g->nodes.at[i]->in;
        if (g->nodes.at[i]->op == DL_OP_select && in[0]->def == n &&
            ((in[1] == n->in[0] && in[2] == n->in[1]) || (in[1] == n->in[1] && in[2] == n->in[0])))
            return true;
    }
    return false;
}
static bool tamper_edge(dl_graph *g, dl_node *n, bool dry) {
    static const dl_op other[DL_NOPS] = {
        [DL_OP_lt] = DL_OP_le, [DL_OP_le] = DL_OP_lt, [DL_OP_gt] = DL_OP_ge, [DL_OP_ge] = DL_OP_gt};
    bool compares =
        n->op == DL_OP_lt || n->op == DL_OP_le || n->op == DL_OP_gt || n->op == DL_OP_ge;
    if (!compares || chooses_compared(g, n)) return false;
    if (!dry) n->op = other[n->op];
    return true;
}

/* Kinks: the model has each op that has one. */
static void test_kinks(void) {
    static const struct {
        const char *what;
        tamper *with;
        int least; /* places */
    } kinds[] = {{"a tie", tamper_tie, 4}, {"an edge", tamper_edge, 8}};
    dl_arena *arena = dl_arena_new(NULL);
    model m;
    if (open_model(arena, "edges", &adam, &m))
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            int skip = 0;
            for (bool more = true; more; skip += more) {
                way w = {.step_options = &adam,
                         .with = kinds[i].with,
                         .after = "lower,autodiff",
                         .skip = skip};
                dl_verdict v = judge(arena, &m, &adam, &w);
                more = w.applied;
                if (more) judged_found(&v, kinds[i].what, "at its kinks");
            }
            CHECK(skip >= kinds[i].least, "%s: %d places", kinds[i].what, skip);
        }
    dl_arena_free(arena);
}

/* By node: is a gradient made of it, but not the loss? */
static bool *find_makers(dl_arena *arena, const dl_graph *g) {
    bool *value[2], *node = DL_NEWS(arena, bool, g->nodes.n + 1);
    for (int of = 0; of < 2; of++) {
        value[of] = DL_NEWS(arena, bool, g->next_id + 1);
        for (int i = 0; i < g->results.n; i++)
            if ((g->results.at[i].role == DL_RESULT_GRAD) == (of == 0))
                value[of][g->results.at[i].value->id] = true;
        for (int i = g->nodes.n - 1; i >= 0; i--)
            for (int k = 0; k < g->nodes.at[i]->nin; k++)
                if (value[of][g->nodes.at[i]->out[0].id])
                    value[of][g->nodes.at[i]->in[k]->id] = true;
    }
    for (int i = 0; i < g->nodes.n; i++)
        node[i] = value[0][g->nodes.at[i]->out[0].id] && !value[1][g->nodes.at[i]->out[0].id];
    return node;
}

/* The gradients of the model as a whole: one place is off in them alone. */
static void test_whole(void) {
    static tamper *const ways[] = {tamper_product, tamper_select};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        model m;
        way plain = {.step_options = &adam};
        bool done = false;
        if (open_model(arena, "classes", &adam, &m)) {
            dl_graph *g = dl_module_graph(m.derived, "train");
            bool *makes = find_makers(arena, g);
            for (int k = g->nodes.n - 1; k >= 0 && !done; k--)
                done = makes[k] && ways[i](g, g->nodes.at[k], false);
            dl_verdict v = judge(arena, &m, &adam, &plain);
            CHECK(done, "way %zu has no place", i);
            for (int k = 0; k < v.skipped.n; k++) CHECK(false, "way %zu: %s", i, v.skipped.at[k]);
            judged_found(&v, "a gradient of the whole model", "the gradient of 'fc");
        }
        dl_arena_free(arena);
    }
}

/* A kernel that takes more workspace, or scratch, than the plan says is named. */
static void test_guards(void) {
    dl_arena *arena = dl_arena_new(NULL);
    model m;
    dl_error err = {0};
    way plain = {.step_options = &adam};
    dl_verify_run run = {{.threads = 2}, fill, judged_passes, &plain};
    int found[2] = {0};
    if (!open_model(arena, "wide", &adam, &m)) return;
    const dl_graph *g = dl_module_graph(m.made, "train");
    dl_verdict sound = {0};
    CHECK(dl_verify_kernels(arena, g, m.plan, &run, &sound, &err), "%s", err.message);
    CHECK(sound.faults.n == 0 && sound.judged.guards > 3 * sound.judged.kernels &&
          sound.judged.kernels == g->nodes.n);
    for (int i = 0; i < m.plan->kernels.n; i++)
        for (int which = 0; which < 2; which++) {
            dl_plan_kernel *k = &m.plan->kernels.at[i];
            int64_t *bytes = which ? &k->scratch : &k->workspace, kept = *bytes;
            bool runs =
                dl_plan_program_find(m.plan, "train")->launches.at[0].kernel <= i && i < g->nodes.n;
            if (kept < 128 || !runs || found[which] > 1) continue;
            *bytes = 64;
            dl_verdict v = {0};
            CHECK(dl_verify_kernels(arena, g, m.plan, &run, &v, &err), "%s", err.message);
            *bytes = kept;
            if (!v.faults.n && which) continue; /* it may not need all of its scratch */
            judged_found(&v, k->name, which ? "its scratch" : "its workspace");
            judged_found(&v, k->name, k->name);
            found[which]++;
        }
    CHECK(found[0] > 0, "no kernel has a workspace");
    printf("%d workspaces and %d scratches overrun\n", found[0], found[1]);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_judged_XXXXXX";
    if (!test_cache(dir)) return 1;
    test_table();
    test_models();
    test_judged_steps();
    test_model_step();
    test_tampered();
    test_kinks();
    test_whole();
    test_guards();
    printf("%d faults found\n", found_all);
    return dl_test_end();
}

/* The manager, simplify against the interpreter, the schedule, and the memory plan. */
#include <unistd.h>

#include "ir/interp/interp.h"
#include "ir/kernel/contraction_rules.h"
#include "ir/kernel/kernel.h"
#include "ir/text/text.h"
#include "ir/validate/validate.h"
#include "passes/memory/memory.h"
#include "passes/pass.h"
#include "tests/check.h"
#include "tests/unit/random_graph.h"

static dl_pass_ctx context(dl_module *m, dl_error *err) {
    return (dl_pass_ctx){.arena = m->arena, .weights = {.kind = DL_PANEL, .width = 16}, .err = err};
}

/* ---- the manager ---- */
typedef struct {
    int numbers[8], n;
    const char *last;
} log_book;

static void observe(void *user, int number, const dl_pass *pass, const dl_module *m) {
    log_book *l = user;
    (void)m;
    l->numbers[l->n++] = number;
    l->last = pass ? pass->name : "before";
}

static int warnings;
static void warn(const char *text) { warnings += strstr(text, "' is called '") != NULL; }

static void test_manager(void) {
    dl_module *m = dl_module_new(NULL);
    dl_graph_new(m, "train");
    dl_error err = {0};
    dl_pass_ctx ctx = context(m, &err);
    CHECK(dl_run_passes(m, "", &ctx, (dl_pass_options){0}), "%s", err.message);
    CHECK(dl_run_passes(m, NULL, &ctx, (dl_pass_options){0}), "%s", err.message);
    CHECK(!dl_run_passes(m, "simplify,nosuchpass", &ctx, (dl_pass_options){0}) &&
              err.code == DL_USAGE,
          "code");
    CHECK(strstr(err.message, "no pass 'nosuchpass'") && strstr(err.message, "plan_memory"), "%s",
          err.message);
    err = (dl_error){0};
    CHECK(!dl_run_passes(m, "simplfy", &ctx, (dl_pass_options){0}) &&
              strstr(err.message, "mean 'simplify'"),
          "%s", err.message);
    err = (dl_error){0};
    CHECK(!dl_run_passes(m, "simplify", &ctx, (dl_pass_options){.skip = "shedule"}) &&
              err.code == DL_USAGE,
          "skip");
    err = (dl_error){0};
    log_book l = {0};
    dl_pass_options opt = {
        .skip = "autodiff", .observe = observe, .user = &l, .validate = DL_VALIDATE_PASSES};
    CHECK(dl_run_passes(m, "simplify, autodiff,optimizer", &ctx, opt), "%s", err.message);
    CHECK(l.n == 3 && l.numbers[0] == 0 && l.numbers[1] == 1 && l.numbers[2] == 3, "%d calls", l.n);
    CHECK_STR(l.last, "optimizer");
    CHECK(dl_pass_find("amp") == &dl_passes[0] && !dl_pass_find("simpl"), "find");
    CHECK(dl_pass_find("ranks") == dl_pass_find("data_parallel"), "a former name");
    CHECK(dl_run_passes(m, "ranks", &ctx, (dl_pass_options){.skip = "moments", .warn = warn}), "%s",
          err.message);
    CHECK(warnings == 2, "%d warnings", warnings);
    dl_arena_free(m->arena);
}

/* ---- after which passes the module is validated ---- */

/* After the named pass the graph is no longer legal. */
static void spoil(void *user, int number, const dl_pass *pass, const dl_module *m) {
    (void)number;
    if (pass && strcmp(pass->name, user) == 0) m->graphs.at[0]->next_id = 0;
}

static void test_validation(void) {
    static const struct {
        char pass[8];
        dl_validation validate;
        bool passes;
    } of[] = {{"lower", DL_VALIDATE_NONE, true},
              {"lower", DL_VALIDATE_STAGES, true},
              {"lower", DL_VALIDATE_PASSES, false},
              {"layout", DL_VALIDATE_NONE, true},
              {"layout", DL_VALIDATE_STAGES, false}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        dl_module *m = dl_module_new(NULL);
        dl_error err = {0};
        random_counts counts = {0};
        char pass[sizeof of->pass];
        random_graph(m, "train", 1, 30, DL_F64, &counts);
        dl_pass_ctx ctx = context(m, &err);
        memcpy(pass, of[i].pass, sizeof pass);
        dl_pass_options opt = {.observe = spoil, .user = pass, .validate = of[i].validate};
        CHECK(dl_run_passes(m, pass, &ctx, opt) == of[i].passes, "%d: %s", (int)i, err.message);
        CHECK(of[i].passes || strstr(err.message, "after pass '"), "%d: %s", (int)i, err.message);
        dl_arena_free(m->arena);
    }
}

/* ---- simplify comes to an end, with less; that it keeps the meaning is tools/pass_fuzz.c's to say
 * ---- */
static void test_simplify(const char *before, int seeds) {
    int fewer = 0;
    for (int seed = 1; seed <= seeds; seed++) {
        dl_module *m = dl_module_new(NULL);
        dl_error err = {0};
        random_counts counts = {0};
        dl_graph *g = random_graph(m, "train", (uint64_t)seed, 30, DL_F64, &counts);
        dl_pass_ctx ctx = context(m, &err);
        ctx.step_options.optimizer = DL_OPT_NONE;
        CHECK(dl_run_passes(m, "lower", &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}) &&
                  dl_run_passes(m, before, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
              "seed %d: %s", seed, err.message);
        int nodes = g->nodes.n;
        CHECK(dl_run_passes(m, "simplify", &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
              "seed %d: %s", seed, err.message);
        CHECK(!dl_pass_simplify(g, &ctx), "seed %d: not simple yet", seed);
        fewer += g->nodes.n < nodes;
        dl_arena_free(m->arena);
    }
    CHECK(fewer > seeds / 2, "only %d of %d became smaller", fewer, seeds);
}

static void set_scalar(dl_interp *run, const dl_graph *g, const char *name, double v) {
    const dl_var *var = dl_graph_find_var(g, name);
    CHECK(var, "no variable %s", name);
    if (var) *dl_interp_data(run, &var->value) = v;
}

/* ---- schedule and memory, on a U-Net-like training step ---- */
enum { LEVELS = 4 };

static dl_value *conv3(dl_builder *b, dl_op op, dl_value *x, const char *name, int64_t o,
                       int64_t c) {
    dl_type wt = parse_type("", DL_F32);
    dl_type_push(&wt, "O", o), dl_type_push(&wt, "C", c);
    for (int i = 0; i < 3; i++) dl_type_push(&wt, dl_internf("k%s", x->type.axis[i + 2].name), 4);
    dl_value *w = &dl_graph_var(b->graph, DL_VAR_PARAM, name, wt, (dl_init){0}, b->loc)->value,
             *in[] = {x, w};
    int64_t stride[] = {2, 2, 2}, pad[] = {1, 1, 1}, size[3];
    for (int i = 0; i < 3; i++) size[i] = 2 * x->type.axis[i + 2].size;
    dl_attr at[] = {dl_attr_ints(DL_ATTR_stride, 3, stride), dl_attr_ints(DL_ATTR_pad_lo, 3, pad),
                    dl_attr_ints(DL_ATTR_pad_hi, 3, pad), dl_attr_ints(DL_ATTR_size, 3, size)};
    return dl_build(b, op, 2, in, op == DL_OP_conv ? 3 : 4, at);
}

/* The U-Net of language.md in small, for `size`^3 voxels. */
static dl_graph *build_unet(dl_module *m, const char *name, int size) {
    static const int64_t width[] = {8, 16, 32, 64};
    dl_graph *g = dl_graph_new(m, name);
    dl_builder b = {.graph = g};
    char text[80];
    snprintf(text, sizeof text, "N=1 C=4 D=%d H=%d W=%d", size, size, size);
    dl_value *x =
        &dl_graph_var(g, DL_VAR_INPUT, "x", parse_type(text, DL_F32), (dl_init){0}, b.loc)->value;
    text[6] = '5';
    dl_value *t =
        &dl_graph_var(g, DL_VAR_TARGET, "t", parse_type(text, DL_F32), (dl_init){0}, b.loc)->value;
    dl_attr slope = dl_attr_float(DL_ATTR_slope, 0.01), axis = dl_attr_name(DL_ATTR_axis, "C");
    dl_value *h[LEVELS], *y = x;
    for (int i = 0; i < LEVELS; i++) {
        y = conv3(&b, DL_OP_conv, y, dl_internf("down%d", i), width[i], y->type.axis[1].size);
        h[i] = y = dl_build(&b, DL_OP_leaky_relu, 1, &y, 1, &slope);
    }
    for (int i = LEVELS - 1; i >= 0; i--) {
        dl_value *both[] = {y, h[i]};
        if (i < LEVELS - 1) y = dl_build(&b, DL_OP_cat, 2, both, 1, &axis);
        y = conv3(&b, DL_OP_conv_grad_input, y, dl_internf("up%d", i), y->type.axis[1].size,
                  i ? width[i - 1] : 5);
        y = dl_build1(&b, i ? DL_OP_relu : DL_OP_tanh, y);
    }
    dl_value *error = dl_build1(&b, DL_OP_abs, dl_build2(&b, DL_OP_sub, y, t));
    dl_graph_result(g, DL_RESULT_LOSS, "loss", dl_build_reduce(&b, DL_OP_mean, error, 0, NULL),
                    NULL);
    if (strcmp(name, "eval") == 0) dl_graph_result(g, DL_RESULT_OUTPUT, "y", y, NULL);
    return g;
}

static int position(const dl_graph *g, const dl_node *n) {
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i] == n) return i;
    return -1;
}

/* Last position that reads v; nodes.n when the host does. */
static int last_read(const dl_graph *g, const dl_value *v) {
    int last = v->def ? position(g, v->def) : g->nodes.n;
    for (int i = 0; v->def && i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nin; k++)
            if (g->nodes.at[i]->in[k] == v) last = i > last ? i : last;
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].value == v) last = g->nodes.n;
    return last;
}

/* No two values alive at once overlap, but for an update and its variable. Plainly, pair by pair.
 */
static int count_overlaps(const dl_graph *g) {
    enum { MOST = 2000 };
    static const dl_value *v[MOST];
    static int first[MOST], last[MOST];
    int n = 0, overlaps = 0;
    for (int i = 0; i < g->vars.n; i++)
        v[n] = &g->vars.at[i]->value, first[n] = -1, last[n++] = g->nodes.n;
    for (int i = 0; i < g->nodes.n && n < MOST; i++)
        v[n] = &g->nodes.at[i]->out[0], first[n] = i, last[n] = last_read(g, v[n]), n++;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            bool apart = v[i]->offset + dl_type_bytes(&v[i]->type) <= v[k]->offset ||
                         v[k]->offset + dl_type_bytes(&v[k]->type) <= v[i]->offset;
            if (apart || first[i] > last[k] || first[k] > last[i]) continue;
            bool in_place = false;
            for (int r = 0; r < g->results.n; r++)
                in_place = in_place ||
                           (g->results.at[r].role == DL_RESULT_UPDATE &&
                            g->results.at[r].value == v[i] && &g->results.at[r].var->value == v[k]);
            overlaps += !in_place;
        }
    return overlaps;
}

/* Operands come before readers, and the old value of a variable is read before the new one is
 * written. */
static int count_disorder(const dl_graph *g) {
    int wrong = 0;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nin; k++) {
            const dl_value *v = g->nodes.at[i]->in[k];
            wrong += v->def && position(g, v->def) >= i;
            for (int r = 0; v->var && r < g->results.n; r++) {
                const dl_result *res = &g->results.at[r];
                wrong += res->role == DL_RESULT_UPDATE && res->var == v->var &&
                         position(g, res->value->def) < i;
            }
        }
    return wrong;
}

/* Bytes of variables, aligned as they are placed. */
static int64_t variable_bytes(const dl_module *m) {
    int64_t end = 0;
    for (int i = 0; i < m->graphs.n; i++)
        for (int k = 0; k < m->graphs.at[i]->vars.n; k++) {
            const dl_value *v = &m->graphs.at[i]->vars.at[k]->value;
            int64_t after = v->offset + dl_type_bytes(&v->type);
            if (after > end) end = after;
        }
    return end;
}

static void test_memory(int size, const char *passes) {
    dl_module *m = dl_module_new(NULL);
    dl_error err = {0};
    dl_pass_ctx ctx = context(m, &err);
    dl_graph *train = build_unet(m, "train", size), *eval = build_unet(m, "eval", size);
    dl_buf report = {0};
    CHECK(!dl_memory_report(train, &report, &err) && err.code == DL_USAGE, "not planned yet");
    err = (dl_error){0};
    CHECK(dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}), "%s",
          err.message);
    dl_liveness before, live;
    CHECK(dl_find_liveness(train, m->arena, &before, &err), "%s", err.message);
    /* Without fusion the graph is not of the stages that the manager would check: run the passes
     * plainly. */
    for (int i = 0; i < 2; i++) dl_pass_schedule(m->graphs.at[i], &ctx);
    for (int i = 0; i < 2; i++) dl_pass_plan_memory(m->graphs.at[i], &ctx);
    CHECK(err.code == DL_OK, "%s", err.message);
    int64_t base = variable_bytes(m);
    for (int i = 0; i < 2; i++) {
        const dl_graph *g = m->graphs.at[i];
        CHECK(count_disorder(g) == 0, "%s", g->name);
        CHECK(count_overlaps(g) == 0, "%s", g->name);
        CHECK(dl_validate(g, DL_STAGE_TENSOR, &err), "%s", err.message);
        CHECK(dl_find_liveness(g, m->arena, &live, &err), "%s", err.message);
        int64_t packed = g->arena_bytes - base;
        CHECK((double)packed <= 1.1 * (double)live.peak, "%s: %lld bytes for %lld alive", g->name,
              (long long)packed, (long long)live.peak);
        if (i == 0)
            CHECK(live.peak <= before.peak, "%lld > %lld", (long long)live.peak,
                  (long long)before.peak);
    }
    for (int i = 0; i < eval->vars.n; i++) {
        const dl_var *v = eval->vars.at[i], *twin = dl_graph_find_var(train, v->name);
        CHECK(twin && twin->value.offset == v->value.offset, "%s", v->name);
    }
    CHECK(dl_module_arena_bytes(m) == train->arena_bytes && train->arena_bytes >= eval->arena_bytes,
          "arena");
    CHECK(dl_memory_report(train, &report, &err) && strstr(report.at, "param variables"), "%s",
          err.message);
    dl_buf_free(&report);
    dl_arena_free(m->arena);
}

/* Elements of two values that differ, where each is looked at in its own run. */
static int64_t count_different(dl_interp *ra, const dl_value *a, dl_interp *rb, const dl_value *b) {
    int64_t n = dl_type_count(&a->type), different = 0;
    for (int64_t k = 0; k < n; k++) {
        double x = dl_interp_data(ra, a)[k], y = dl_interp_data(rb, b)[k];
        different += !(fabs(x - y) <= 1e-9 + 1e-5 * fabs(x));
    }
    return different;
}

/* A few numbers for one training step: small data and weights, a learning rate, no moments yet. */
static void fill_step(dl_interp *run, const dl_graph *g) {
    rng r = {42};
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        for (int64_t k = 0; v->var->role <= DL_VAR_PARAM && k < dl_type_count(&v->type); k++)
            dl_interp_data(run, v)[k] = uniform(&r, -0.2, 0.2);
        if (v->var->role == DL_VAR_HYPER) *dl_interp_data(run, v) = v->var->init.a;
    }
    set_scalar(run, g, "optimizer.lr.init", 1e-3), set_scalar(run, g, "optimizer.lr.total", 100);
}

/* The whole way from a model's graphs to a planned module, validated at every stage. The step
 * computes what the graph did before it was simplified and fused, and leaves the same variables. */
static void test_pipeline(void) {
    dl_module *m[2] = {dl_module_new(NULL), dl_module_new(NULL)};
    const dl_graph *g[2];
    dl_interp *run[2];
    dl_error err = {0};
    for (int i = 0; i < 2; i++) {
        dl_pass_ctx ctx = context(m[i], &err);
        g[i] = build_unet(m[i], "train", 16), build_unet(m[i], "eval", 16);
        CHECK(dl_run_passes(m[i], i ? dl_pipeline : "autodiff,optimizer", &ctx,
                            (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
              "%s", err.message);
        run[i] = dl_interp_new(g[i], false);
        fill_step(run[i], g[i]);
        CHECK(dl_interp_run(run[i], &err), "%s", err.message);
    }
    for (int i = 0; i < g[0]->vars.n; i++) {
        const dl_var *v = g[0]->vars.at[i], *twin = dl_graph_find_var(g[1], v->name);
        CHECK(count_different(run[0], &v->value, run[1], &twin->value) == 0, "%s", v->name);
    }
    for (int i = 0; i < g[0]->results.n; i++)
        if (g[0]->results.at[i].role == DL_RESULT_LOSS ||
            g[0]->results.at[i].role == DL_RESULT_METRIC)
            CHECK(count_different(run[0], g[0]->results.at[i].value, run[1],
                                  g[1]->results.at[i].value) == 0,
                  "%s", g[0]->results.at[i].name);

    dl_liveness live;
    int64_t packed = g[1]->arena_bytes - variable_bytes(m[1]);
    CHECK(dl_find_liveness(g[1], m[1]->arena, &live, &err), "%s", err.message);
    CHECK((double)packed <= 1.1 * (double)live.peak, "%lld bytes for %lld alive", (long long)packed,
          (long long)live.peak);
    for (int i = 0; i < 2; i++) dl_interp_free(run[i]), dl_arena_free(m[i]->arena);
}

/* The same module gives the same bytes. */
static char *plan_text(void) {
    dl_module *m = dl_module_new(NULL);
    dl_error err = {0};
    dl_pass_ctx ctx = context(m, &err);
    dl_graph *g = build_unet(m, "train", 16);
    dl_run_passes(m, "simplify,autodiff,optimizer,simplify", &ctx, (dl_pass_options){0});
    dl_pass_schedule(g, &ctx), dl_pass_plan_memory(g, &ctx);
    dl_buf b = {0};
    dl_print_module(&b, m, (dl_print_options){0});
    dl_arena_free(m->arena);
    return b.at;
}

static void test_determinism(void) {
    char *a = plan_text(), *b = plan_text();
    CHECK(a && b && strcmp(a, b) == 0, "two plans differ");
    free(a), free(b);
}

/* ---- what passes ask of a backend's contractions ---- */

static bool takes_nothing(dl_op contraction, dl_op reduction, dl_dtype type, unsigned kept) {
    (void)contraction, (void)reduction, (void)type, (void)kept;
    return false;
}
static dl_layout_need needs_strides(dl_op contraction, int place) {
    (void)contraction, (void)place;
    return DL_LAYOUT_STRIDED;
}

/* How many kernels that layout and fuse make by these rules have a contraction and a sum of its
 * results; *laid: how many tensors are channels last. */
static int count_epilogues(const dl_contraction_rules *rules, int *laid) {
    static const char text[] = "graph @train {\n"
                               "  input $x = %0 : f32[N=2, C=8, H=6, W=6]\n"
                               "  param $w = %1 : f32[O=4, C=8, kH=3, kW=3] init zero\n"
                               "  %2 = conv $x, $w {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : "
                               "f32[N=2, C=4, H=6, W=6]\n"
                               "  %3 = relu %2 : f32[N=2, C=4, H=6, W=6]\n"
                               "  %4 = sum %3 {over=[N, C, H, W]} : f32[]\n"
                               "  output \"y\" = %3\n"
                               "  output \"s\" = %4\n"
                               "}\n";
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_module *m = dl_parse_module(arena, text, strlen(text), "rules.dlir", &err);
    dl_pass_ctx ctx = {.arena = arena, .contractions = rules, .err = &err};
    CHECK(m && dl_run_passes(m, "layout,fuse", &ctx, (dl_pass_options){0}), "%s", err.message);
    int both = 0;
    *laid = 0;
    for (int i = 0; m && i < m->graphs.at[0]->nodes.n; i++) {
        const dl_kernel *k = m->graphs.at[0]->nodes.at[i]->kernel;
        bool contracts = false, sums = false;
        for (int p = 0; k && p < k->params.n; p++)
            *laid += k->params.at[p].type.layout.kind == DL_CL;
        for (int j = 0; k && j < k->instrs.n; j++) {
            contracts |= k->instrs.at[j].kind == DL_K_CONTRACT;
            sums |= k->instrs.at[j].kind == DL_K_REDUCE;
        }
        both += contracts && sums;
    }
    dl_arena_free(arena);
    return both;
}

static void test_contraction_rules(void) {
    dl_contraction_rules own = dl_common_contraction_rules;
    int laid;
    CHECK(count_epilogues(NULL, &laid) == 1 && laid > 0, "without a target: %d", laid);
    CHECK(count_epilogues(&own, &laid) == 1 && laid > 0, "the same rules of a target: %d", laid);
    own.epilogue_takes = takes_nothing;
    CHECK(count_epilogues(&own, &laid) == 0 && laid > 0, "no sums in epilogues: %d", laid);
    own = dl_common_contraction_rules, own.layout_needs = needs_strides;
    CHECK(count_epilogues(&own, &laid) == 1 && laid == 0, "no layouts: %d", laid);
}

int main(void) {
    test_manager();
    test_contraction_rules();
    test_validation();
    test_simplify("", 200);
    test_simplify("autodiff", 100);
    test_memory(16, "simplify,autodiff,optimizer,simplify");
    test_memory(32, "simplify,autodiff,optimizer,simplify");
    test_determinism();
    test_pipeline();
    return dl_test_end();
}

/* Updates in place: small models whose parameters need each other's old values. Compiled training
 * steps against the interpreter, which applies all updates at once; and whether a copy was made
 * exactly where no order exists. */
#include "tests/cache.h"
#include "tests/check.h"

#include <stdlib.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "frontends/dl/front.h"
#include "ir/interp/interp.h"
#include "runtime/exec/exec.h"

static const struct {
    const char *name, *body;
    int copies; /* at least; 0: exactly none. For --save_grads what lies before the slash of `shown`
                 */
    int shown;  /* the same where gradients are results */
} models[] = {
    {"one weight, whose penalty is added to a loss that its update's kernel sums",
     "    param w: [C=4] = 0.7\n    y = x * w\n    loss = mean((y - t)**2) + 0.1*mean(w**2)\n", 1,
     1},
    {"one weight, read by itself alone",
     "    param w: [C=4] = 0.7\n    y = x * w\n    loss = mean((y - t)**2)\n", 0, 0},
    {"convolutions in a chain: an order exists",
     "    y = x |> conv(6, 3, pad=1) @a |> relu |> conv(4, 3, pad=1) @b\n    loss = mean((y - "
     "t)**2)\n",
     0, 0},
    {"a scale in front of a convolution, by which its bias's gradient is multiplied in the same "
     "kernel",
     "    param a: [] = 0.7\n    y = a * (x |> conv(4, 1) @c)\n    loss = mean((y - t)**2)\n", 1,
     1},
    {"the same without a bias",
     "    param a: [] = 0.7\n    y = a * (x |> conv(4, 1, bias=false) @c)\n    loss = mean((y - "
     "t)**2)\n",
     0, 0},
    {"a scale after it, with its penalty",
     "    param a: [] = 0.7\n    y = x |> conv(4, 1) @c\n    y = a * y\n"
     "    loss = mean((y - t)**2) + 0.1*mean(abs(y)) + 0.1*a**2\n",
     1, 1},
    {"a product of low rank",
     "    param p: [C=4, R=2] ~ normal(0, 0.3)\n    param q: [R=2, D=4] ~ normal(0, 0.3)\n    w = "
     "sum(p*q, "
     "over=R)\n"
     "    y = sum((x as [N, D, H, W]) * w, over=D)\n    loss = mean((y - t)**2)\n",
     1, 1},
    {"one element of a vector, read by all",
     "    param p: [K=3] = 0.7\n    y = x |> conv(4, 3, pad=1) @c\n"
     "    loss = mean((y - t)**2) + mean(p[K=2] / (abs(p) + 0.5))\n",
     1, 1},
    {"gradients that are the other parameter",
     "    param a: [] = 0.7\n    param b: [] = 0.4\n    y = x * a\n    loss = mean((y - t)**2) + "
     "a*b\n",
     0, 1},
    {"three in a circle",
     "    param a: [C=4] = 0.7\n    param b: [C=4] = 0.6\n    param c: [C=4] = 0.5\n"
     "    y = x * a * b * c\n    loss = mean((y - t)**2) + mean(a * sum(b, over=C)) + mean(b * "
     "sum(c, "
     "over=C))"
     " + mean(c * sum(a, over=C))\n",
     0, 0},
    {"a convolution's weight scaled by another parameter",
     "    param s: [] = 0.7\n    param w: [O=4, C=4, kH=3, kW=3] ~ normal(0, 0.3)\n    y = x |> "
     "conv(4, 3, "
     "pad=1) @c\n"
     "    y = y * s * mean(w)\n    loss = mean((y - t)**2) + s*mean(w**2)\n",
     0, 0},
    {"many scales in a chain",
     "    param a: [] = 0.9\n    param b: [] = 0.8\n    param c: [] = 0.7\n    param d: [] = 0.6\n"
     "    y = d * tanh(c * tanh(b * tanh(a * x)))\n    loss = mean((y - t)**2)\n",
     0, 0},
    {"matrices, one after the other",
     "    param a: [C=4, E=5] ~ normal(0, 0.5)\n    param b: [E=5, D=4] ~ normal(0, 0.5)\n"
     "    y = sum(tanh(sum(x * a, over=C)) * b, over=E) as [N, H, W, C]\n"
     "    loss = mean((y - t)**2) + 0.1*mean(a**2) + 0.1*mean(b**2)\n",
     0, 0},
    {"a softmax of a parameter, of which each element needs all",
     "    param p: [C=4] = 0.3\n    e = exp(p - max(p, over=C))\n    y = x * e / sum(e, over=C)\n"
     "    loss = mean((y - t)**2)\n",
     0, 0},
};
enum { NMODELS = sizeof models / sizeof *models };

/* An exact count is asked for where it is 0; elsewhere fusion decides how many circles there are.
 */
static bool is_as_many(int copies, int want) { return want ? copies >= want : copies == 0; }

static dl_module *build(dl_arena *arena, int i) {
    const char *head =
        "model M():\n    input x: f32[N, C=4, H=6, W=6]\n    target t: f32[N, C=4, H=6, W=6]\n";
    const char *text = dl_format(arena, "%s%s    output y\n", head, models[i].body);
    dl_source *s = dl_source_new(arena, "m.dl", text, strlen(text));
    dl_diags *d = dl_diags_new(arena, s);
    dl_model *m = dl_model_parse(arena, s, d);
    dl_axis_size sizes[] = {{"N", 3}};
    dl_module *ir =
        m ? dl_model_build(arena, m, &(dl_model_config){.sizes = sizes, .nsizes = 1}, d) : NULL;
    dl_buf b = {0};
    if (!ir) dl_diags_print(&b, d, false);
    CHECK(ir, "%s: %s", models[i].name, b.at ? b.at : "");
    dl_buf_free(&b);
    return ir;
}

/* The graph as one step computes it, unfused. */
static const dl_graph *write_step(dl_module *m, bool keep, dl_error *err) {
    dl_pass_ctx ctx = {.arena = m->arena, .keep_gradients = keep, .err = err};
    return dl_run_passes(m, "autodiff,optimizer", &ctx,
                         (dl_pass_options){.validate = DL_VALIDATE_PASSES})
               ? dl_module_graph(m, "train")
               : NULL;
}

static double start_value(const dl_var *v, int64_t i, unsigned *seed) {
    static const struct {
        const char *name;
        double value;
    } rates[] = {{"optimizer.lr.init", 0.1},
                 {"optimizer.lr.end", 0.01},
                 {"optimizer.lr.warmup", 0},
                 {"optimizer.lr.total", 10}};
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++)
        if (strcmp(v->name, rates[k].name) == 0) return rates[k].value;
    if (v->role == DL_VAR_HYPER || v->value.type.dtype == DL_I64) return v->init.a;
    *seed = *seed * 1664525 + 1013904223 + (unsigned)i;
    double x = (double)(float)((double)(*seed >> 8) / (1 << 24) - 0.5);
    return strncmp(v->name, "exp_avg_sq.", 11) == 0 ? (double)(float)(0.1 + x * x) : x;
}

static void *place(const dlr_exec *exec, dlr_view v, int64_t i) {
    int64_t at[DL_MAX_RANK] = {0};
    for (int a = v.type->rank - 1; a >= 0; a--)
        at[a] = i % v.type->axis[a].size, i /= v.type->axis[a].size;
    return (char *)dlr_exec_data(exec, v) +
           dl_type_offset(v.type, at) * dl_dtype_bytes(v.type->dtype);
}

static double get(const dlr_exec *exec, dlr_view v, int64_t i) {
    const void *p = place(exec, v, i);
    return v.type->dtype == DL_F64   ? *(const double *)p
           : v.type->dtype == DL_I64 ? (double)*(const int64_t *)p
                                     : (double)*(const float *)p;
}

static void put(const dlr_exec *exec, dlr_view v, int64_t i, double x) {
    void *p = place(exec, v, i);
    if (v.type->dtype == DL_F64)
        *(double *)p = x;
    else if (v.type->dtype == DL_I64)
        *(int64_t *)p = (int64_t)x;
    else
        *(float *)p = (float)x;
}

static double farthest(const dlr_exec *exec, dlr_view got, const double *want) {
    double worst = 0;
    for (int64_t i = 0; i < dl_type_count(got.type); i++) {
        double off = fabs(get(exec, got, i) - want[i]) / (1e-2 + fabs(want[i]));
        worst = dl_test_worse(worst, off);
    }
    return worst;
}

static int count_copies(const dl_plan *p) {
    const dl_plan_program *train = dl_plan_program_find(p, "train");
    int n = 0;
    for (int i = 0; i < train->launches.n; i++)
        n += strstr(p->kernels.at[train->launches.at[i].kernel].name, "_copy") != NULL;
    return n;
}

static void run_steps(const char *name, const dl_graph *g, dlr_exec *exec, int program) {
    dl_error err = {0};
    dl_interp *in = dl_interp_new(g, true);
    unsigned seed = 7;
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        dlr_view view = dlr_exec_variable(exec, v->name);
        for (int64_t k = 0; k < dl_type_count(&v->value.type); k++) {
            double x = start_value(v, k, &seed);
            dl_interp_data(in, &v->value)[k] = x;
            if (view.type) put(exec, view, k, x);
        }
    }
    for (int step = 0; step < 3; step++) {
        CHECK(dl_interp_run(in, &err), "%s", err.message);
        dlr_exec_run(exec, program, NULL);
        for (int i = 0; i < g->vars.n; i++) {
            dlr_view view = dlr_exec_variable(exec, g->vars.at[i]->name);
            double off =
                view.type ? farthest(exec, view, dl_interp_data(in, &g->vars.at[i]->value)) : 0;
            CHECK(off < 2e-4, "%s: step %d, $%s: %.2e", name, step, g->vars.at[i]->name, off);
        }
        for (int i = 0; i < g->results.n; i++) {
            const dl_result *r = &g->results.at[i];
            if (r->role == DL_RESULT_UPDATE) continue;
            dlr_view view = dlr_exec_result(exec, program, r->role, r->name);
            if (r->value->var) continue; /* the interpreter has written it already */
            double off = view.type ? farthest(exec, view, dl_interp_data(in, r->value)) : INFINITY;
            CHECK(off < 2e-4, "%s: step %d, result %s: %.2e", name, step, r->name, off);
        }
    }
    dl_interp_free(in);
}

static void test_model(int i, bool keep, const char *skip) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_module *written = build(arena, i), *m = build(arena, i);
    if (!written || !m) {
        dl_arena_free(arena);
        return;
    }
    const dl_graph *g = write_step(written, keep, &err);
    dl_compile_options opt = {.target = dl_target_find(NULL, NULL, &err),
                              .keep_gradients = keep,
                              .model = "M",
                              .batch = 3,
                              .skip = skip,
                              .validate = DL_VALIDATE_PASSES,
                              .link = true};
    dl_compile_times times = {0};
    dl_plan *p = g ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(p, "%s%s: %s", models[i].name, keep ? ", gradients kept" : "", err.message);
    if (p && !skip)
        CHECK(is_as_many(count_copies(p), keep ? models[i].shown : models[i].copies),
              "%s%s: %d copies", models[i].name, keep ? ", gradients kept" : "", count_copies(p));
    dlr_exec *exec = p ? dlr_exec_open(p, (dlr_exec_options){.threads = 2}, &err) : NULL;
    CHECK(exec, "%s", err.message);
    if (exec) run_steps(models[i].name, g, exec, dlr_exec_program(exec, "train"));
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_updates_XXXXXX";
    if (!test_cache(dir)) return 1;
    for (int i = 0; i < NMODELS; i++) {
        /* of a share two, in turn: a plan as it is, or with its gradients, and one without a pass
         */
        bool all = dl_test_share() == 1, turn = (dl_test_draw() + (unsigned)i) % 2;
        if (all || turn) test_model(i, false, NULL);
        if (all || !turn) test_model(i, true, NULL);
        if (all || turn) test_model(i, false, "fuse");
        if (all || !turn) test_model(i, false, "schedule");
    }
    return dl_test_end();
}

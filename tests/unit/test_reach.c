/* Receptive fields compared with what the interpreter sees when one input element after the other
 * is moved; and the graph of prediction. */
#include "frontends/dl/front.h"
#include "ir/interp/interp.h"
#include "passes/core/prediction.h"
#include "passes/pass.h"
#include "tests/check.h"

enum { LENGTH = 48 };

static dl_module *build(dl_arena *arena, const char *body) {
    const char *text = dl_format(
        arena,
        "model M():\n    input x: f32[N, C=2, L=%d]\n    target t: f32[N, C=2]\n%s    output "
        "y\n    loss = mean((mean(y, over=L) - t)**2)\n",
        LENGTH, body);
    dl_source *source = dl_source_new(arena, "m.dl", text, strlen(text));
    dl_diags *diags = dl_diags_new(arena, source);
    dl_model *model = dl_model_parse(arena, source, diags);
    dl_axis_size batch = {"N", 1};
    dl_model_config config = {.sizes = &batch, .nsizes = 1};
    dl_module *m = model ? dl_model_build(arena, model, &config, diags) : NULL;
    CHECK(m, "%s: %s", body, diags->list.n ? diags->list.at[0]->message : "");
    return m;
}

static dl_graph *lowered(dl_arena *arena, const char *body) {
    dl_error err = {0};
    dl_module *m = build(arena, body);
    dl_pass_ctx ctx = {.arena = arena, .err = &err};
    if (!m || !dl_keep_prediction(m, &err) ||
        !dl_run_passes(m, "lower", &ctx, (dl_pass_options){0})) {
        CHECK(!m, "%s", err.message);
        return NULL;
    }
    return m->graphs.at[0];
}

static double number(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return 0.25 + (double)(*state >> 8) / 0x1p25;
}

/* Every parameter and input above 0, so that nothing cancels and no relu is shut. */
static void fill(dl_interp *in, const dl_graph *g) {
    uint32_t state = 7;
    for (int i = 0; i < g->vars.n; i++) {
        double *v = dl_interp_data(in, &g->vars.at[i]->value);
        for (int64_t k = 0; k < dl_type_count(&g->vars.at[i]->value.type); k++)
            v[k] = number(&state);
    }
}

/* Whether output position o (any channel) changes with input position p: [o][p]. */
static bool *find_changes(dl_arena *arena, const dl_graph *g, int64_t outputs) {
    dl_error err = {0};
    const dl_value *x = &dl_graph_find_var(g, "x")->value, *y = g->results.at[0].value;
    int64_t n = dl_type_count(&y->type);
    double *before = DL_NEWS(arena, double, n);
    bool *changes = DL_NEWS(arena, bool, outputs *LENGTH);
    for (int p = -1; p < LENGTH; p++) {
        dl_interp *in = dl_interp_new(g, false);
        fill(in, g);
        if (p >= 0) dl_interp_data(in, x)[p] += 1000, dl_interp_data(in, x)[LENGTH + p] += 1000;
        CHECK(dl_interp_run(in, &err), "%s", err.message);
        const double *now = dl_interp_data(in, y);
        for (int64_t i = 0; i < n; i++) {
            if (p < 0) before[i] = now[i];
            if (p >= 0 && now[i] != before[i]) changes[i % outputs * LENGTH + p] = true;
        }
        dl_interp_free(in);
    }
    return changes;
}

static dl_reach reach_of(const dl_graph *g) {
    if (!g) return (dl_reach){.why = "no graph"};
    return dl_find_reach(g, dl_graph_find_var(g, "x")->value.type.axis[2].name,
                         g->results.at[0].value);
}

/* An output's receptive field lies within what is said of it, and somewhere fills it but for
 * `slack` positions. */
static void test_bounded(const char *body, int64_t num, int64_t den, int64_t step, int slack) {
    dl_arena *arena = dl_arena_new(NULL);
    const dl_graph *g = lowered(arena, body);
    dl_reach r = reach_of(g);
    CHECK(r.bounded && r.num == num && r.den == den && r.step == step,
          "%s: %s, %lld / %lld, step %lld, %g to %g", body, r.why ? r.why : "bounded",
          (long long)r.num, (long long)r.den, (long long)r.step, r.lo, r.hi);
    if (!r.bounded) return;
    int64_t outputs = LENGTH * den / num;
    const bool *changes = find_changes(arena, g, outputs);
    int widest = 0;
    bool inside = true;
    for (int64_t o = 0; r.bounded && o < outputs; o++) {
        int first = LENGTH, last = -1;
        for (int p = 0; p < LENGTH; p++)
            if (changes[o * LENGTH + p]) first = p < first ? p : first, last = p;
        double at = (double)(o * num) / (double)den;
        inside &=
            last < 0 || ((double)first >= at + r.lo - 1e-9 && (double)last <= at + r.hi + 1e-9);
        if (last - first + 1 > widest) widest = last - first + 1;
    }
    CHECK(inside, "%s: an output sees more than %g to %g", body, r.lo, r.hi);
    CHECK(widest + slack >= (int)(r.hi - r.lo + 1), "%s: %g to %g, but no output sees more than %d",
          body, r.lo, r.hi, widest);
    dl_arena_free(arena);
}

static void test_unbounded(const char *body, const char *why) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_reach r = reach_of(lowered(arena, body));
    CHECK(!r.bounded && r.why && strcmp(r.why, why) == 0, "%s: %s", body,
          r.why ? r.why : "bounded");
    dl_arena_free(arena);
}

static void test_reach(void) {
    test_bounded("    y = x |> relu\n", 1, 1, 1, 0);
    test_bounded("    y = x |> conv(2, 3, pad=1)\n", 1, 1, 1, 0);
    test_bounded("    y = x |> conv(2, 3, pad=2, dilation=2) @a |> conv(2, 5, pad=2)\n", 1, 1, 1,
                 0);
    test_bounded("    y = x |> conv(2, 4, stride=2, pad=1)\n", 2, 1, 2, 0);
    test_bounded("    y = x |> conv(3, 4, stride=2, pad=1) @a |> relu |> conv_transpose(2, 4, "
                 "stride=2, pad=1)\n",
                 1, 1, 2, 2);
    test_bounded(
        "    y = x |> conv(3, 5, stride=3, pad=1) @a |> conv_transpose(2, 5, stride=3, pad=1)\n", 1,
        1, 3, 3);
    test_bounded("    y = x |> conv_transpose(2, 2, stride=2)\n", 1, 2, 1, 1);
    test_bounded(
        "    a = x |> conv(3, 4, stride=2, pad=1)\n    b = a |> conv(3, 4, stride=2, pad=1)\n"
        "    c = b |> conv_transpose(3, 4, stride=2, pad=1)\n    y = cat(a, c, over=C) |> "
        "conv_transpose(2, 4, "
        "stride=2, pad=1)\n",
        1, 1, 4, 6);
    test_bounded("    y = x |> max_pool(2) |> upsample(scale_factor=2)\n", 1, 1, 2, 1);
    test_bounded("    y = x |> avg_pool(3, stride=1, pad=1)\n", 1, 1, 1, 0);
}

static void test_everything(void) {
    test_unbounded("    y = x - mean(x, over=L)\n", "reduces it");
    test_unbounded("    y = x |> roll(1, over=L)\n", "goes round it");
    test_unbounded("    y = x |> flip(over=L)\n", "reverses it");
    test_unbounded("    param p: [L=x.L] ~ normal(0, 1)\n    y = x * p\n",
                   "differs from place to place");
    test_unbounded("    y = x |> conv(2, 3)\n", "does not cover it");
    test_unbounded("    y = x |> upsample(scale_factor=2, mode=\"linear\") |> max_pool(2)\n",
                   "differs from place to place");
    test_unbounded("    y = cat(x[L=1:], x[L=0:1], over=L)\n", "takes or joins parts of it");
    test_unbounded("    y = attention(x, x, x, 1)\n", "mixes all positions");
}

/* The graph of prediction: running statistics, no dropout, no target; all parameters and state. */
static void test_graph(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_module *m =
        build(arena,
              "    a = x |> conv(2, 3, pad=1) @a |> batch_norm @norm |> dropout(0.5)\n    y = a\n");
    int models = 0;
    const dl_graph *train = m->graphs.at[0];
    for (int i = 0; i < train->vars.n; i++)
        models +=
            train->vars.at[i]->role == DL_VAR_PARAM || train->vars.at[i]->role == DL_VAR_STATE;
    CHECK(dl_keep_prediction(m, &err), "%s", err.message);
    const dl_graph *g = m->graphs.at[0];
    CHECK(m->graphs.n == 1 && strcmp(g->name, "predict") == 0 && g->results.n == 1);
    CHECK(g->vars.n == models + 1 && !dl_graph_find_var(g, "t") &&
              dl_graph_find_var(g, "norm.running_mean"),
          "%d variables of %d", g->vars.n, models);
    for (int i = 0; i < g->nodes.n; i++)
        CHECK(g->nodes.at[i]->op != DL_OP_dropout && g->nodes.at[i]->op != DL_OP_mean);
    CHECK(dl_validate_module(m, DL_STAGE_TENSOR, &err), "%s", err.message);
    m = build(arena, "    y = (x |> conv(2, 3, pad=1) @a) + t\n");
    CHECK(!dl_keep_prediction(m, &err) && err.code == DL_INPUT &&
              strstr(err.message, "its target 't'"),
          "%s", err.message);
    err = (dl_error){0};
    m = build(arena, "    y = x + randn(x)\n");
    CHECK(!dl_keep_prediction(m, &err) && err.code == DL_INPUT &&
              strstr(err.message, "draws random numbers"),
          "%s", err.message);
    m = build(arena, "    y = x + randn(x) if train else x\n");
    CHECK(dl_keep_prediction(m, &err), "%s", err.message);
    dl_arena_free(arena);
}

int main(void) {
    test_reach();
    test_everything();
    test_graph();
    return dl_test_end();
}

/* From the model's text to mixed precision: what `as f32` pins, that it is nothing without, and the
 * type of each function of the language. Further casts of the pass are in golden/passes. */
#include "frontends/dl/front.h"
#include "passes/pass.h"
#include "tests/check.h"
#include "tests/unit/amp_functions.h"

/* The graph of this model, after the passes. NULL: a failed check. */
static dl_graph *build_text(dl_arena *arena, const char *text, const char *graph,
                            const char *passes, dl_dtype low) {
    dl_source *source = dl_source_new(arena, "m.dl", text, strlen(text));
    dl_diags *diags = dl_diags_new(arena, source);
    dl_model *model = dl_model_parse(arena, source, diags);
    dl_module *m = model ? dl_model_build(arena, model, &(dl_model_config){0}, diags) : NULL;
    if (!m) {
        CHECK(m, "%s: %s", text, diags->list.n ? diags->list.at[0]->message : "");
        return NULL;
    }
    dl_error err = {0};
    dl_pass_ctx ctx = {.arena = arena,
                       .weights = {.kind = DL_PANEL, .width = 16},
                       .step_options = {.low = low},
                       .err = &err};
    bool ok = dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES});
    CHECK(ok, "%s", err.message);
    return ok ? dl_module_graph(m, graph) : NULL;
}

/* The eval graph of a model of [N=2, E=4] with these lines. */
static dl_graph *build(dl_arena *arena, const char *body, const char *passes, dl_dtype low) {
    const char *text = dl_format(
        arena, "model M():\n    input x: f32[N=2, E=4]\n%s    output y\n    loss = mean(y)\n",
        body);
    return build_text(arena, text, "eval", passes, low);
}

static int count(const dl_graph *g, dl_op op, dl_dtype dtype) {
    int n = 0;
    for (int i = 0; g && i < g->nodes.n; i++)
        n += g->nodes.at[i]->op == op && g->nodes.at[i]->out[0].type.dtype == dtype;
    return n;
}

/* The k-th op of its kind makes this type. */
static void check_type(const dl_graph *g, dl_op op, int k, dl_dtype dtype, const char *what) {
    for (int i = 0; g && i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == op && k-- == 0) {
            CHECK_STR(dl_dtype_name(g->nodes.at[i]->out[0].type.dtype), dl_dtype_name(dtype));
            return;
        }
    CHECK(false, "%s: there is no such op", what);
}

/* The number of casts from f32 to f32 that the text's `as f32` make. */
static int pins(dl_arena *arena, const char *body) {
    const dl_graph *g = build(arena, body, "", DL_F32);
    int n = 0;
    for (int i = 0; g && i < g->nodes.n; i++) {
        const dl_node *node = g->nodes.at[i];
        n += node->op == DL_OP_cast && node->in[0]->type.dtype == DL_F32 &&
             node->out[0].type.dtype == DL_F32;
    }
    return n;
}

static void test_text(dl_arena *arena) {
    CHECK(pins(arena, "    y = x |> linear(3) @a as f32\n") == 1, "after a layer");
    CHECK(pins(arena, "    h = x |> linear(3) @a\n    y = (h as f32) + (h as f32 as [N, E])\n") ==
              2,
          "two");
    CHECK(pins(arena, "    y = (x |> linear(3) @a) * 2 + 1\n") == 0, "none is written");
    CHECK(pins(arena, "    y = where(x > 0, x, 0) + mean(x > 1)\n") == 0,
          "casts that no one wrote");
    CHECK(pins(arena, "    y = x * ((x > 0) as f32)\n") == 0, "a cast of another type");
}

static void test_pass(dl_arena *arena) {
    const char *low = "    h = x |> linear(4) @a\n    y = h |> linear(4) @b\n";
    const dl_graph *g = build(arena, low, "amp", DL_BF16);
    check_type(g, DL_OP_linear, 1, DL_BF16, "not pinned");
    g = build(arena, "    h = x |> linear(4) @a\n    y = h as f32 |> linear(4) @b\n", "amp",
              DL_BF16);
    check_type(g, DL_OP_linear, 0, DL_BF16, "in front of the pin");
    check_type(g, DL_OP_linear, 1, DL_F32, "after the pin");
    g = build(arena, "    y = x as f32 |> linear(4) @a\n", "amp", DL_F16);
    check_type(g, DL_OP_linear, 0, DL_F32, "an input that is pinned");
    g = build(arena, "    h = x |> linear(4) @a\n    y = tanh(h) * (h as f32)\n", "amp", DL_F16);
    check_type(g, DL_OP_tanh, 0, DL_F16, "what follows");
    check_type(g, DL_OP_mul, 0, DL_F32, "what is promoted");
    g = build(arena, "    y = x |> linear(4) @a |> batch_norm @norm |> relu\n", "amp", DL_BF16);
    check_type(g, DL_OP_relu, 0, DL_BF16,
               "after a norm by running statistics, as after one by the batch's");
}

static void test_without(dl_arena *arena) {
    const char *passes = "amp,lower,simplify";
    const dl_graph *g =
        build(arena, "    y = x |> linear(4) @a |> tanh as f32 |> linear(4) @b\n", passes, DL_F32);
    CHECK(g && count(g, DL_OP_cast, DL_F32) == 0 && count(g, DL_OP_contract, DL_F32) == 2,
          "float32: nothing is left of it");
}

static dl_graph *build_function(dl_arena *arena, int i, const char *passes, dl_dtype low) {
    const char *tokens = "(h |> rearrange(\"n c h w -> n (h w) c\") as [N, T, E])",
               *text = amp_functions[i].text;
    if (strcmp(text, "attention") == 0)
        text = dl_format(arena, "attention(%s, %s, %s, 2)", tokens, tokens, tokens);
    text = dl_format(arena,
                     "model M():\n    input x: f32[N=2, C=4, H=6, W=6]\n    input k: i32[N=2]\n"
                     "    h = x |> conv(4, 1) @a\n    z = x |> conv(4, 1) @b\n    r = %s\n"
                     "    output h\n    loss = mean(r) + mean(h)\n",
                     text);
    return build_text(arena, text, "train", passes, low);
}

/* Nodes that compute in 16 bits and round what they make to them; products, moves and casts apart.
 */
static int count_half(const dl_graph *g) {
    int n = 0;
    for (int i = 0; g && i < g->nodes.n; i++) {
        const dl_node *node = g->nodes.at[i];
        dl_op_class class = dl_ops[node->op].class;
        bool computes =
            class == DL_CLASS_REDUCE || (class == DL_CLASS_ELEM && node->op != DL_OP_cast);
        n += computes && dl_dtype_is_half(node->out[0].type.dtype);
    }
    return n;
}

/* The type of what the loss is the mean of. */
static dl_dtype type_of_function(const dl_graph *g) {
    const dl_result *loss = g ? dl_graph_find_result(g, DL_RESULT_LOSS, NULL) : NULL;
    const dl_value *v = loss ? loss->value : NULL;
    while (v && v->def && v->def->op != DL_OP_mean) v = v->def->in[0];
    if (!v || !v->def) return DL_BOOL;
    v = v->def->in[0];
    bool cast = v->def && v->def->op == DL_OP_cast && dl_dtype_is_half(v->def->in[0]->type.dtype);
    return cast ? v->def->in[0]->type.dtype : v->type.dtype;
}

static void test_functions(dl_arena *arena, dl_dtype low) {
    for (int i = 0; i < amp_nfunctions; i++) {
        amp_makes makes = amp_functions[i].makes;
        if (makes == NUMBERS) continue;
        dl_dtype want = makes == LISTED || makes == OURS ? DL_F32 : low;
        dl_dtype got = type_of_function(build_function(arena, i, "amp", low));
        CHECK(got == want, "%s makes %s, not %s", amp_functions[i].text, dl_dtype_name(got),
              dl_dtype_name(want));
        if (makes == HALF) continue;
        int inside = count_half(build_function(arena, i, "amp,lower", low));
        CHECK(inside == 0, "%s computes %d values in 16 bits", amp_functions[i].text, inside);
    }
}

/* Types of 16 bits that the model's text asks for are no exception, be they the mode's or the
 * others. */
static void test_explicit(dl_arena *arena, dl_dtype low) {
    const char *text =
        "model M():\n    input x: f32[N=2, E=4]\n    h = x |> linear(4) @a\n"
        "    g = h as %s\n    output h\n"
        "    loss = mean(exp(g)) + mean(tanh(g) * h) + mse_loss(g, 1.0) + max(g * g + g**2)\n";
    for (int i = 0; i < 2; i++) {
        const char *own = i ? "f16" : "bf16", *passes = "amp,lower";
        const dl_graph *g = build_text(arena, dl_format(arena, text, own), "train", passes, low);
        CHECK(g && count(g, DL_OP_exp, DL_F32) == 1 && count(g, DL_OP_tanh, low) == 1, "%s", own);
        CHECK(g && count(g, DL_OP_mul, low) == 1 && count(g, DL_OP_mul, DL_F32) == 3, "%s: squares",
              own);
    }
}

int main(void) {
    dl_arena *arena = dl_arena_new(NULL);
    for (int i = 0; i < 2; i++) {
        test_functions(arena, i ? DL_F16 : DL_BF16);
        test_explicit(arena, i ? DL_F16 : DL_BF16);
    }
    test_text(arena);
    test_pass(arena);
    test_without(arena);
    dl_arena_free(arena);
    return dl_test_end();
}

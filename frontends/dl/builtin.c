/* The built-in layers and functions: each one row. docs/language.md has the table for people. */
#include "frontends/dl/builtin.h"

#include <math.h>

#define X                                                                                                    \
    { "x", DL_P_TENSOR, NULL }
#define XA                                                                                                   \
    { "x", DL_P_ANY, NULL }
#define OVER                                                                                                 \
    { "over", DL_P_AXES, "none" }
#define NO_OP DL_OP_const
#define ELEM(name, op, fold)                                                                                 \
    {                                                                                                        \
        name, NULL, op, fold, dl_fn_elementwise, { XA }                                                      \
    }
#define REDUCE(name, op)                                                                                     \
    {                                                                                                        \
        name, NULL, op, NULL, dl_fn_reduce, { XA, OVER }                                                     \
    }

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double relu(double x) { return x > 0 ? x : 0; }
static double sign(double x) { return (x > 0) - (x < 0); }
static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }

static const dl_builtin table[] = {
    /* layers with parameters */
    {"conv",
     "weight, bias",
     NO_OP,
     NULL,
     dl_layer_conv,
     {X,
      {"channels", DL_P_INT, NULL},
      {"kernel", DL_P_WINDOW, NULL},
      {"stride", DL_P_WINDOW, "1"},
      {"pad", DL_P_PAD, "0"},
      {"bias", DL_P_BOOL, "true"},
      {"dilation", DL_P_WINDOW, "1"},
      {"groups", DL_P_INT, "1"}}},
    {"conv_transpose",
     "weight, bias",
     NO_OP,
     NULL,
     dl_layer_conv_transpose,
     {X,
      {"channels", DL_P_INT, NULL},
      {"kernel", DL_P_WINDOW, NULL},
      {"stride", DL_P_WINDOW, "1"},
      {"pad", DL_P_WINDOW, "0"},
      {"out_pad", DL_P_WINDOW, "0"},
      {"bias", DL_P_BOOL, "true"},
      {"dilation", DL_P_WINDOW, "1"},
      {"groups", DL_P_INT, "1"}}},
    {"linear",
     "weight, bias",
     DL_OP_linear,
     NULL,
     dl_layer_linear,
     {X, {"features", DL_P_INT, NULL}, {"bias", DL_P_BOOL, "true"}}},
    {"batch_norm",
     "weight, bias",
     DL_OP_batch_norm,
     NULL,
     dl_layer_batch_norm,
     {X, {"momentum", DL_P_NUMBER, "0.9"}, {"eps", DL_P_NUMBER, "1e-05"}}},
    {"layer_norm",
     "weight, bias",
     DL_OP_layer_norm,
     NULL,
     dl_layer_layer_norm,
     {X, {"eps", DL_P_NUMBER, "1e-05"}, {"over", DL_P_AXIS, "none"}}},
    {"group_norm",
     "weight, bias",
     DL_OP_group_norm,
     NULL,
     dl_layer_group_norm,
     {X, {"num_groups", DL_P_INT, NULL}, {"eps", DL_P_NUMBER, "1e-05"}, {"affine", DL_P_BOOL, "true"}}},
    {"instance_norm",
     "weight, bias",
     DL_OP_group_norm,
     NULL,
     dl_layer_instance_norm,
     {X, {"eps", DL_P_NUMBER, "1e-05"}, {"affine", DL_P_BOOL, "false"}}},
    /* layers without */
    {"max_pool",
     NULL,
     DL_OP_max_pool,
     NULL,
     dl_layer_max_pool,
     {X,
      {"kernel", DL_P_WINDOW, NULL},
      {"stride", DL_P_WINDOW, "none"},
      {"pad", DL_P_PAD, "0"},
      {"dilation", DL_P_WINDOW, "1"}}},
    {"avg_pool",
     NULL,
     DL_OP_avg_pool,
     NULL,
     dl_layer_avg_pool,
     {X,
      {"kernel", DL_P_WINDOW, NULL},
      {"stride", DL_P_WINDOW, "none"},
      {"pad", DL_P_PAD, "0"},
      {"count_include_pad", DL_P_BOOL, "true"}}},
    {"adaptive_avg_pool",
     NULL,
     DL_OP_adaptive_avg_pool,
     NULL,
     dl_layer_adaptive_avg_pool,
     {X, {"output_size", DL_P_WINDOW, NULL}}},
    {"upsample",
     NULL,
     DL_OP_upsample,
     NULL,
     dl_layer_upsample,
     {X,
      {"size", DL_P_WINDOW, "none"},
      {"scale_factor", DL_P_WINDOW, "none"},
      {"mode", DL_P_STR, "none"},
      {"align_corners", DL_P_BOOL, "false"}}},
    {"dropout", NULL, DL_OP_dropout, NULL, dl_layer_dropout, {X, {"rate", DL_P_NUMBER, NULL}}},
    {"drop_path", NULL, DL_OP_drop_path, NULL, dl_layer_dropout, {X, {"rate", DL_P_NUMBER, NULL}}},
    {"attention",
     NULL,
     DL_OP_attention,
     NULL,
     dl_layer_attention,
     {{"q", DL_P_TENSOR, NULL},
      {"k", DL_P_TENSOR, NULL},
      {"v", DL_P_TENSOR, NULL},
      {"heads", DL_P_INT, NULL},
      {"dropout", DL_P_NUMBER, "0.0"},
      {"causal", DL_P_BOOL, "false"}}},
    {"rearrange", NULL, DL_OP_rearrange, NULL, dl_fn_rearrange, {X, {"pattern", DL_P_STR, NULL}}},
    /* activations */
    ELEM("relu", DL_OP_relu, relu),
    {"leaky_relu", NULL, DL_OP_leaky_relu, NULL, dl_fn_leaky_relu, {XA, {"slope", DL_P_NUMBER, "0.01"}}},
    ELEM("gelu", DL_OP_gelu, gelu),
    ELEM("sigmoid", DL_OP_sigmoid, sigmoid),
    ELEM("tanh", DL_OP_tanh, tanh),
    {"silu", NULL, NO_OP, NULL, dl_fn_silu, {X}},
    {"softmax", NULL, DL_OP_softmax, NULL, dl_fn_softmax, {X, {"over", DL_P_AXIS, NULL}}},
    /* mathematics */
    ELEM("exp", DL_OP_exp, exp),
    ELEM("log", DL_OP_log, log),
    ELEM("sqrt", DL_OP_sqrt, sqrt),
    ELEM("abs", DL_OP_abs, fabs),
    ELEM("sin", DL_OP_sin, sin),
    ELEM("cos", DL_OP_cos, cos),
    ELEM("erf", DL_OP_erf, erf),
    ELEM("floor", DL_OP_floor, floor),
    ELEM("sign", DL_OP_sign, sign),
    {"square", NULL, NO_OP, NULL, dl_fn_square, {XA}},
    {"where",
     NULL,
     DL_OP_select,
     NULL,
     dl_fn_where,
     {{"condition", DL_P_TENSOR, NULL}, {"a", DL_P_ANY, NULL}, {"b", DL_P_ANY, NULL}}},
    {"max", NULL, DL_OP_max, NULL, dl_fn_extreme, {XA, {"other", DL_P_ANY, "none"}, OVER}},
    {"min", NULL, DL_OP_min, NULL, dl_fn_extreme, {XA, {"other", DL_P_ANY, "none"}, OVER}},
    /* reductions */
    REDUCE("sum", DL_OP_sum),
    REDUCE("mean", DL_OP_mean),
    {"var", NULL, NO_OP, NULL, dl_fn_var, {X, OVER}},
    {"std", NULL, NO_OP, NULL, dl_fn_std, {X, OVER}},
    {"norm", NULL, NO_OP, NULL, dl_fn_norm, {X, OVER}},
    {"sum_squares", NULL, NO_OP, NULL, dl_fn_sum_squares, {{"tensors", DL_P_REST, NULL}}},
    {"argmax", NULL, DL_OP_argmax, NULL, dl_fn_argmax, {X, {"over", DL_P_AXIS, NULL}}},
    /* losses and scores */
    {"cross_entropy",
     NULL,
     DL_OP_cross_entropy,
     NULL,
     dl_fn_cross_entropy,
     {{"scores", DL_P_TENSOR, NULL}, {"classes", DL_P_TENSOR, NULL}}},
    {"in_top_k",
     NULL,
     DL_OP_in_top_k,
     NULL,
     dl_fn_in_top_k,
     {{"scores", DL_P_TENSOR, NULL}, {"classes", DL_P_TENSOR, NULL}, {"k", DL_P_INT, NULL}}},
    /* structure */
    {"cat", NULL, DL_OP_cat, NULL, dl_fn_cat, {{"tensors", DL_P_REST, NULL}, {"over", DL_P_AXIS, NULL}}},
    {"pad",
     NULL,
     DL_OP_affine,
     NULL,
     dl_fn_pad,
     {X, {"pad", DL_P_WINDOW, NULL}, {"mode", DL_P_STR, "none"}, {"over", DL_P_AXES, NULL}}},
    {"roll",
     NULL,
     DL_OP_affine,
     NULL,
     dl_fn_roll,
     {X, {"shifts", DL_P_NUMBER, NULL}, {"over", DL_P_AXIS, NULL}}},
    {"flip", NULL, DL_OP_affine, NULL, dl_fn_flip, {X, {"over", DL_P_AXES, NULL}}},
    /* values known when compiling */
    {"range", NULL, NO_OP, NULL, dl_fn_range, {{"bounds", DL_P_REST, NULL}}},
    {"linspace",
     NULL,
     NO_OP,
     NULL,
     dl_fn_linspace,
     {{"start", DL_P_NUMBER, NULL},
      {"stop", DL_P_NUMBER, NULL},
      {"n", DL_P_INT, "none"},
      {"over", DL_P_AXIS, "none"}}},
    {"expand",
     NULL,
     DL_OP_broadcast,
     NULL,
     dl_fn_expand,
     {{"x", DL_P_TENSOR, NULL}, {"over", DL_P_AXES, NULL}}},
    {"len", NULL, NO_OP, NULL, dl_fn_len, {{"list", DL_P_ANY, NULL}}},
    {"int", NULL, NO_OP, NULL, dl_fn_int, {{"number", DL_P_NUMBER, NULL}}},
};

int dl_builtin_count(void) { return (int)(sizeof table / sizeof *table); }
const dl_builtin *dl_builtin_at(int i) { return &table[i]; }

const dl_builtin *dl_builtin_find(const char *name) {
    for (int i = 0; i < dl_builtin_count(); i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

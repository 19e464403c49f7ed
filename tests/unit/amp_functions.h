/* Each function of the language, and the type of its result in mixed precision (test_amp.c);
 * test_front.c holds the table to be complete. */
#ifndef DL_TEST_AMP_FUNCTIONS_H
#define DL_TEST_AMP_FUNCTIONS_H
#include <stddef.h>

/* What a function of 16-bit images makes in mixed precision. */
typedef enum {
    LISTED, /* f32, as torch.autocast's list of CUDA ops in float32 has it (torch.amp's
               documentation) */
    OURS, /* f32, which that list does not name: more digits than it promises, or its weights' type
           */
    KEPT, /* 16 bits, of arithmetic in f32 */
    HALF, /* 16 bits, of one op that rounds once, of a product, or of elements that are moved */
    NUMBERS /* no floats at all */
} amp_makes;

/* In terms of h and z, 16-bit images [N=2, C=4, H=6, W=6], and k: i32[N=2]. */
static const struct {
    const char *name, *text;
    amp_makes makes;
} amp_functions[] = {
    {"conv", "h |> conv(3, 1) @c", HALF},
    {"conv_transpose", "h |> conv_transpose(3, 2, stride=2) @c", HALF},
    {"linear", "h |> linear(3) @c", HALF},
    {"attention", "attention", HALF},
    {"embedding", "k |> embedding(5, 4) @c", OURS},
    {"batch_norm", "h |> batch_norm @c", KEPT},
    {"layer_norm", "h |> layer_norm @c", LISTED},
    {"group_norm", "h |> group_norm(2) @c", LISTED},
    {"instance_norm", "h |> instance_norm", OURS},
    {"max_pool", "h |> max_pool(2)", HALF},
    {"avg_pool", "h |> avg_pool(3, stride=2, pad=1, count_include_pad=false)", KEPT},
    {"adaptive_avg_pool", "h |> adaptive_avg_pool(4)", KEPT},
    {"upsample", "h |> upsample(scale_factor=3, mode=\"linear\")", KEPT},
    {"dropout", "h |> dropout(0.1)", KEPT},
    {"drop_path", "h |> drop_path(0.1)", KEPT},
    {"rearrange", "h |> rearrange(\"n c h w -> n (h w) c\") as [N, T, E]", HALF},
    {"relu", "relu(h)", HALF},
    {"leaky_relu", "leaky_relu(h)", HALF},
    {"elu", "elu(h)", HALF},
    {"gelu", "gelu(h)", KEPT},
    {"gelu", "gelu(h, approximate=\"tanh\")", KEPT},
    {"silu", "silu(h)", KEPT},
    {"softplus", "softplus(h)", LISTED},
    {"clamp", "clamp(h, min=-1, max=1)", HALF},
    {"sigmoid", "sigmoid(h)", HALF},
    {"tanh", "tanh(h)", HALF},
    {"softmax", "softmax(h, over=C)", LISTED},
    {"log_softmax", "log_softmax(h, over=C)", LISTED},
    {"cumsum", "cumsum(h, over=H)", LISTED},
    {"exp", "exp(h)", LISTED},
    {"log", "log(h)", LISTED},
    {"expm1", "expm1(h)", LISTED},
    {"log1p", "log1p(h)", LISTED},
    {"rsqrt", "rsqrt(h)", LISTED},
    {"sqrt", "sqrt(h)", OURS},
    {"abs", "abs(h)", HALF},
    {"sin", "sin(h)", OURS},
    {"cos", "cos(h)", OURS},
    {"erf", "erf(h)", OURS},
    {"floor", "floor(h)", HALF},
    {"sign", "sign(h)", HALF},
    {"square", "square(h)", LISTED},
    {"square", "h**2", LISTED},
    {"square", "h**1", LISTED},
    {"square", "h**3", LISTED},
    {"square", "h**z", LISTED},
    {"square", "2**h", LISTED},
    {"sqrt", "h**0.5", LISTED},
    {"rsqrt", "1/h", LISTED},
    {"rsqrt", "h/z", HALF},
    {"square", "h*h", HALF},
    {"where", "where(h > 0, h, 0)", HALF},
    {"max", "max(h, z)", HALF},
    {"max", "max(h, over=C)", HALF},
    {"min", "min(h, 1)", HALF},
    {"min", "min(h, over=C)", HALF},
    {"sum", "sum(h, over=C)", LISTED},
    {"sum", "sum(h)", LISTED},
    {"mean", "mean(h, over=C)", OURS},
    {"prod", "prod(h, over=C)", LISTED},
    {"var", "var(h, over=C)", OURS},
    {"std", "std(h)", OURS},
    {"norm", "norm(h, over=C)", LISTED},
    {"norm", "norm(h)", LISTED},
    {"sum_squares", "sum_squares(h, z)", LISTED},
    {"cross_entropy", "cross_entropy(h, z)", LISTED},
    {"cross_entropy",
     "cross_entropy(h, softmax(z, over=C), weight=z[N=0][H=0][W=0], label_smoothing=0.1)", LISTED},
    {"cross_entropy", "cross_entropy(h[H=0][W=0], k, weight=z[N=0][H=0][W=0], label_smoothing=0.1)",
     LISTED},
    {"bce_with_logits", "bce_with_logits(h, z, weight=z, pos_weight=z, reduction=\"none\")",
     LISTED},
    {"bce_with_logits", "bce_with_logits(h, 1.0, reduction=\"none\")", LISTED},
    {"mse_loss", "mse_loss(h, z, reduction=\"none\")", LISTED},
    {"mse_loss", "mse_loss(h, 0.5)", LISTED},
    {"l1_loss", "l1_loss(h, z, reduction=\"none\")", LISTED},
    {"smooth_l1_loss", "smooth_l1_loss(h, z, beta=2.0, reduction=\"none\")", LISTED},
    {"smooth_l1_loss", "smooth_l1_loss(h, z, beta=0.0, reduction=\"none\")", LISTED},
    {"huber_loss", "huber_loss(h, z, delta=2.0, reduction=\"none\")", LISTED},
    {"relative_l2_loss", "relative_l2_loss(h, z, over=C, reduction=\"none\")", LISTED},
    {"cat", "cat(h, z, over=C)", HALF},
    {"einsum", "einsum(\"nchw,mchw->nm\", h, z)", HALF},
    {"gather", "gather(h, k, over=C)", HALF},
    {"pad", "pad(h, [1, 1], over=[H, W])", HALF},
    {"roll", "roll(h, 1, over=H)", HALF},
    {"flip", "flip(h, over=H)", HALF},
    {"expand", "expand(h, Q=3)", HALF},
    {"unsqueeze", "unsqueeze(h, over=Q)", HALF},
    {"stop_gradient", "h + stop_gradient(z)", HALF},
    /* scalars: a constant says nothing of the type, two numbers meet in the wider one */
    {"max", "h[N=0][C=0][H=0][W=0] + 0.5", HALF},
    {"max", "h[N=0][C=0][H=0][W=0] + sum(z)", LISTED},
    {"max", "h + sum(z)", HALF},
    {"any", NULL, NUMBERS},
    {"all", NULL, NUMBERS},
    {"argmax", NULL, NUMBERS},
    {"top_k", NULL, NUMBERS},
    {"in_top_k", NULL, NUMBERS},
    {"one_hot", NULL, NUMBERS},
    {"range", NULL, NUMBERS},
    {"linspace", NULL, NUMBERS},
    {"len", NULL, NUMBERS},
    {"int", NULL, NUMBERS},
    {"fail", NULL, NUMBERS},
};
static const int amp_nfunctions = (int)(sizeof amp_functions / sizeof *amp_functions);
#endif

/* The cases of test_calls.c: texts of graphs, and the calls that each of their kernels can be. */
#ifndef DL_CALL_CASES_H
#define DL_CALL_CASES_H
#include "ir/call.h"

/* A bit by what is called for, and the form. */
#define BIT(what, form) (1 << ((what)*DL_NFORMS + (form)))
enum {
    W = BIT(DL_CALLED_MATMUL, DL_FORM_WHOLE),
    S = BIT(DL_CALLED_MATMUL, DL_FORM_SUMS),
    CW = BIT(DL_CALLED_CONVOLUTION, DL_FORM_WHOLE),
    CS = BIT(DL_CALLED_CONVOLUTION, DL_FORM_SUMS)
};

/* Forms by kernel, in the order of the graph: those with a contraction. */
static const struct {
    const char *what, *text;
    int forms[4];
    int64_t batch, rows, columns, terms; /* of the first: a matmul; or samples, groups, c and o */
    int offered; /* algorithms of the first: cuBLASLt's are two for each form that it knows */
} cases[] = {
    {"linear, bias, relu",
     "input $x = %0 : f32[B=3, T=47, E=40]\n  input $w = %1 : f32[O=24, E=40]\n  input $b = %2 : "
     "f32[O=24]\n"
     "  %3 = contract $x, $w {over=[E]} : f32[B=3, T=47, O=24]\n  %4 = add %3, $b : f32[B=3, T=47, "
     "O=24]\n"
     "  %5 = relu %4 : f32[B=3, T=47, O=24]\n  output \"y\" = %5\n",
     {W | S},
     1,
     141,
     24,
     40,
     4},
    {"relu alone, terms across",
     "input $a = %0 : f32[K=64, M=40]\n  input $b = %1 : f32[K=64, N=24]\n"
     "  %2 = contract $a, $b {over=[K]} : f32[M=40, N=24]\n  %3 = relu %2 : f32[M=40, N=24]\n"
     "  output \"y\" = %3\n",
     {W | S},
     1,
     40,
     24,
     64,
     4},
    {"another activation",
     "input $a = %0 : f32[M=40, K=37]\n  input $b = %1 : f32[N=29, K=37]\n"
     "  %2 = contract $a, $b {over=[K]} : f32[M=40, N=29]\n  %3 = leaky_relu %2 {slope=0.5} : "
     "f32[M=40, "
     "N=29]\n"
     "  output \"y\" = %3\n",
     {S},
     1,
     40,
     29,
     37,
     2},
    {"bf16",
     "input $a = %0 : bf16[M=40, K=64]\n  input $b = %1 : bf16[K=64, N=24]\n"
     "  %2 = contract $a, $b {over=[K]} : bf16[M=40, N=24]\n  output \"y\" = %2\n",
     {W},
     1,
     40,
     24,
     64,
     2},
    {"f16 in a batch",
     "input $a = %0 : f16[B=3, M=16, K=24]\n  input $b = %1 : f16[B=3, N=40, K=24]\n"
     "  %2 = contract $a, $b {over=[K]} : f16[B=3, M=16, N=40]\n  output \"y\" = %2\n",
     {W},
     3,
     16,
     40,
     24,
     2},
    {"heads, of which no step is one",
     "input $a = %0 : f32[B=2, S=19, H=3, E=32]\n  input $b = %1 : f32[B=2, T=21, H=3, E=32]\n"
     "  %2 = contract $a, $b {over=[E]} : f32[B=2, S=19, H=3, T=21]\n  output \"y\" = %2\n",
     {0},
     0,
     0,
     0,
     0,
     0},
    {"a convolution of 1 x 1, and of 3 x 3",
     "input $x = %0 : f32[N=2, C=16, H=5, W=7]\n  input $v = %1 : f32[O=24, C=16, kH=1, kW=1]\n"
     "  input $w = %2 : f32[O=8, C=24, kH=3, kW=3]\n"
     "  %3 = conv $x, $v {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0]} : f32[N=2, C=24, H=5, W=7]\n"
     "  %4 = leaky_relu %3 {slope=0.1} : f32[N=2, C=24, H=5, W=7]\n"
     "  %5 = conv %4, $w {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : f32[N=2, C=8, H=5, W=7]\n"
     "  output \"y\" = %5\n",
     {S | CS, CW},
     1,
     70,
     24,
     16,
     3},
    {"a convolution of 1 x 1 with strides",
     "input $x = %0 : f32[N=2, C=16, H=6, W=8]\n  input $v = %1 : f32[O=24, C=16, kH=1, kW=1]\n"
     "  %3 = conv $x, $v {stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0]} : f32[N=2, C=24, H=3, W=4]\n"
     "  output \"y\" = %3\n",
     {CW},
     2,
     1,
     16,
     24,
     1},
    {"gradients of a linear layer",
     "param $x = %0 : f32[B=3, T=16, E=40]\n  param $w = %1 : f32[O=24, E=40]\n  param $b = %9 : "
     "f32[O=24]\n"
     "  %2 = contract $x, $w {over=[E]} : f32[B=3, T=16, O=24]\n  %3 = add %2, $b : f32[B=3, T=16, "
     "O=24]\n"
     "  %4 = mul %3, %3 : f32[B=3, T=16, O=24]\n  %6 = mean %4 {over=[B, T, O]} : f32[]\n  loss "
     "\"loss\" = "
     "%6\n",
     {W, W, W},
     1,
     48,
     24,
     40,
     2},
    {"gradients of a convolution of 1 x 1",
     "param $x = %0 : f32[N=2, C=16, H=5, W=7]\n  param $w = %1 : f32[O=24, C=16, kH=1, kW=1]\n"
     "  %2 = conv $x, $w {stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0]} : f32[N=2, C=24, H=5, W=7]\n"
     "  %3 = tanh %2 : f32[N=2, C=24, H=5, W=7]\n  %4 = mul %3, %3 : f32[N=2, C=24, H=5, W=7]\n"
     "  %6 = mean %4 {over=[N, C, H, W]} : f32[]\n  loss \"loss\" = %6\n",
     {S | CS, W | CW, S | CW},
     1,
     70,
     24,
     16,
     3},
    {"strides, bias and sums by channel",
     "input $x = %0 : f32[N=2, C=12, H=9, W=11]\n  input $w = %1 : f32[O=20, C=12, kH=4, kW=4]\n"
     "  input $b = %2 : f32[C=20]\n"
     "  %3 = conv $x, $w {stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1]} : f32[N=2, C=20, H=4, W=5]\n"
     "  %4 = add %3, $b : f32[N=2, C=20, H=4, W=5]\n"
     "  %5 = leaky_relu %4 {slope=0.1} : f32[N=2, C=20, H=4, W=5]\n"
     "  %6 = sum %5 {over=[N, H, W]} : f32[C=20]\n  output \"y\" = %5\n  output \"s\" = %6\n",
     {CS},
     2,
     1,
     12,
     20,
     1},
    {"three axes in bf16, dilated, padded unlike at both ends",
     "input $x = %0 : bf16[N=2, C=5, D=6, H=7, W=5]\n  input $w = %1 : bf16[O=9, C=5, kD=2, kH=3, "
     "kW=2]\n"
     "  %3 = conv $x, $w {stride=[1, 2, 1], pad_lo=[1, 0, 2], pad_hi=[0, 2, 1], dilation=[2, 1, "
     "3]} : "
     "bf16[N=2, C=9, D=5, H=4, W=5]\n  output \"y\" = %3\n",
     {CW},
     2,
     1,
     5,
     9,
     3},
    {"one axis in f16, of which cuDNN makes no sums in f32",
     "input $x = %0 : f16[N=3, C=8, W=21]\n  input $w = %1 : f16[O=8, C=8, kW=5]\n"
     "  %3 = conv $x, $w {stride=[3], pad_lo=[2], pad_hi=[2]} : f16[N=3, C=8, W=7]\n"
     "  %4 = abs %3 : f16[N=3, C=8, W=7]\n  output \"y\" = %4\n",
     {CS},
     3,
     1,
     8,
     8,
     0},
    {"two parts side by side, which are no tensor",
     "input $x = %0 : f32[N=2, C=8, H=5, W=5]\n  input $z = %1 : f32[N=2, C=8, H=5, W=5]\n"
     "  input $w = %2 : f32[O=8, C=16, kH=3, kW=3]\n  %3 = cat $x, $z {axis=C} : f32[N=2, C=16, "
     "H=5, W=5]\n"
     "  %4 = conv %3, $w {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : f32[N=2, C=8, H=5, W=5]\n"
     "  output \"y\" = %4\n",
     {0},
     0,
     0,
     0,
     0,
     0},
    {"some of a weight's rows",
     "input $x = %0 : f32[N=2, C=8, H=5, W=5]\n  input $w = %1 : f32[O=24, C=8, kH=3, kW=3]\n"
     "  %2 = slice $w {axis=O, start=8, stop=16} : f32[O=8, C=8, kH=3, kW=3]\n"
     "  %3 = conv $x, %2 {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1]} : f32[N=2, C=8, H=5, W=5]\n"
     "  output \"y\" = %3\n",
     {CW},
     2,
     1,
     8,
     8,
     1},
    {"gradients of a convolution with strides in three axes",
     "param $x = %0 : f32[N=2, C=6, D=5, H=6, W=7]\n  param $w = %1 : f32[O=10, C=6, kD=3, kH=4, "
     "kW=2]\n"
     "  %2 = conv $x, $w {stride=[2, 2, 3], pad_lo=[1, 1, 0], pad_hi=[1, 1, 1]} : "
     "f32[N=2, C=10, D=3, H=3, W=3]\n  %3 = tanh %2 : f32[N=2, C=10, D=3, H=3, W=3]\n"
     "  %4 = mul %3, %3 : f32[N=2, C=10, D=3, H=3, W=3]\n  %6 = mean %4 {over=[N, C, D, H, W]} : "
     "f32[]\n"
     "  loss \"loss\" = %6\n",
     {CS, CW, CW},
     2,
     1,
     6,
     10,
     1},
    {"a transposed convolution with bias",
     "input $x = %0 : f32[N=2, C=10, H=4, W=5]\n  input $w = %1 : f32[O=10, C=12, kH=4, kW=4]\n"
     "  input $b = %2 : f32[C=12]\n"
     "  %3 = conv_grad_input $x, $w {stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], size=[8, 10]} : "
     "f32[N=2, C=12, H=8, W=10]\n  %4 = add %3, $b : f32[N=2, C=12, H=8, W=10]\n"
     "  %5 = relu %4 : f32[N=2, C=12, H=8, W=10]\n  output \"y\" = %5\n",
     {CS},
     2,
     1,
     12,
     10,
     1},
    {"gradients in groups",
     "param $x = %0 : f32[N=2, C=16, H=5, W=6]\n  param $w = %1 : f32[O=24, C=8, kH=3, kW=3]\n"
     "  %2 = conv $x, $w {stride=[2, 1], pad_lo=[1, 1], pad_hi=[1, 1], groups=2} : "
     "f32[N=2, C=24, H=3, W=6]\n  %3 = tanh %2 : f32[N=2, C=24, H=3, W=6]\n"
     "  %4 = mul %3, %3 : f32[N=2, C=24, H=3, W=6]\n  %6 = mean %4 {over=[N, C, H, W]} : f32[]\n"
     "  loss \"loss\" = %6\n",
     {CS, CW, CW},
     2,
     2,
     8,
     12,
     1},
    {"gradients, channel by channel",
     "param $x = %0 : f32[N=2, C=12, H=5, W=6]\n  param $w = %1 : f32[O=12, C=1, kH=3, kW=3]\n"
     "  param $s = %9 : f32[C=12]\n"
     "  %2 = conv $x, $w {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], groups=12} : "
     "f32[N=2, C=12, H=5, W=6]\n  %3 = mul %2, $s : f32[N=2, C=12, H=5, W=6]\n"
     "  %4 = mul %3, %3 : f32[N=2, C=12, H=5, W=6]\n  %6 = mean %4 {over=[N, C, H, W]} : f32[]\n"
     "  loss \"loss\" = %6\n",
     {CS, CW, CW},
     2,
     12,
     1,
     1,
     1},
};
enum { NCASES = sizeof cases / sizeof *cases };
#endif

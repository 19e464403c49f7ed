/* The estimated time of a kernel on a GPU: the larger of arithmetic and traffic, each at the
 * share of its peak rate that kernels of this kind reach, plus a launch within a graph. Arithmetic
 * depends on the variant that the kernel's schedule names. */
#include <math.h>
#include <string.h>

#include "compiler/cuda/emit_cuda.h"
#include "ir/attention.h"

/* Shares of the peak rates. An H200 reached 0.80 and 0.90 in a large GEMM and a copy (790
 * TFLOP/s in bf16, 4.3 TB/s); other kernels are estimated below. */
static const double share_of_products = 0.7, share_of_points = 0.4, share_of_traffic = 0.8,
                    launch_us = 1.5;

static bool has(const dl_kernel *k, dl_dtype d) {
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i].type.dtype == d) return true;
    return false;
}

/* Products that attention multiplies for each counted one: backward recomputes the scores and
 * their gradients (kernels/attention.cu). In f32 each operand is split into several numbers, and
 * the product of the lowest parts is left out. */
static double products_of(const dl_node *call, bool half) {
    enum { PARTS = DL_ATTENTION_PARTS, BOTH = PARTS * (PARTS + 1) / 2 };
    return (half ? 1 : BOTH) * (call->op == DL_OP_flash_attention ? 1 : 7 / 5.0);
}

/* Picoseconds of an H200 for a score of attention in 16 bits and for each feature of its head,
 * there and back: by mma.sync and by wgmma. Measured with 968 and 4,050 tokens, 128 heads of 32, 48
 * and 64 features; what few tokens take longer is within 10%. A draw of dropout is an estimate. */
static const struct {
    double score, feature;
} attention_ps[2][2] = {{{0.2, 0.0145}, {0.2, 0.056}}, {{0.35, 0.0046}, {0.75, 0.0197}}};
static const double draw_ps = 0.8;

static double attention_us(const dl_kernel *k, const dl_node *call, const dl_target *t) {
    enum { BLOCK = 64 /* tokens, in whole ones */, TIMED = 132 /* an H200's multiprocessors */ };
    const dl_attention a = dl_attention_of(call);
    bool back = call->op != DL_OP_flash_attention, wgmma = dl_cuda_attention_by_wgmma(k, t);
    double scores = (double)a.batch * (double)a.heads * (double)dl_ceil_div(a.queries, BLOCK) *
                    (double)dl_round_up(a.keys, BLOCK) * BLOCK;
    double ps = attention_ps[wgmma][back].score +
                attention_ps[wgmma][back].feature * (double)a.size +
                (a.rate > 0 ? draw_ps * (back ? 2 : 1) : 0);
    return scores * ps * 1e-6 * TIMED / t->multiprocessors;
}

/* The time of the contraction's variant compared with the first's. 1: it is the first, or a
 * library's, of which nothing is known. */
static double slowdown_of(const dl_kernel *k, const dl_target *t) {
    dl_cuda_variant all[DL_MOST_VARIANTS];
    const char *own = k->schedule.variant;
    for (int i = own ? dl_cuda_near(k, t, INFINITY, all) - 1 : 0; i > 0; i--)
        if (strcmp(all[i].name, own) == 0) return all[i].time / all[0].time;
    return 1;
}

double dl_cuda_predict(const dl_kernel *k, const dl_target *t) {
    int anchor = dl_kernel_anchor(k);
    const dl_node *call = dl_kernel_call(k);
    bool tiles = call && dl_attention_is(call->op);
    bool half = has(k, DL_BF16) || has(k, DL_F16), wide = has(k, DL_F64);
    double peak = (wide ? t->f64 : t->f32) * (anchor >= 0 ? share_of_products : share_of_points);
    double flops = (double)k->flops;
    if (tiles || (anchor >= 0 && !wide && (half || k->instrs.at[anchor].tf32)))
        peak = (half ? t->half : t->tf32) * t->sync * share_of_products;
    if (tiles) flops *= products_of(call, half);
    double arithmetic = flops / peak * 1e-6 * slowdown_of(k, t);
    if (tiles && half && t->timed) arithmetic = attention_us(k, call, t);
    double traffic = (double)k->bytes / (t->tbytes * share_of_traffic) * 1e-6;
    return (arithmetic > traffic ? arithmetic : traffic) + launch_us;
}

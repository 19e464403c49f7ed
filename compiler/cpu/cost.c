#include "compiler/cpu/operands.h"
#include "ir/base/cpus.h"
#include "ir/kernel/winograd.h"

/* One thread's rates on a Zen 3 with two at work (`dlc bench` measures peak rates). */
static const double gflops_a_lane = 12.5, gbytes = 22, launch_us = 5;
static const double least_gain = 0.8; /* the time of a variant that is taken for another one's */

/* The arithmetic of Winograd's variant next to that of the direct one: products, and the transforms
 * in multiply-adds that take as long. Those of images are by tile and channel, that of the weight
 * is by pairs of channels, and done once where it is kept. Each block of tiles, whole or not, reads
 * the transformed weight once, which takes as long as some products where a core's own cache does
 * not hold it. */
static double image_share(const dl_kernel *k, const dl_target *t, dl_conv_sizes s) {
    const double inputs = 80, outputs = 60, own_cache = 1 << 20, shared_cache = 8 << 20;
    const int64_t positions = s.samples * s.out[0] * s.out[1] * s.out[2],
                  tiles = dl_winograd_tiles(k);
    double terms = (double)(s.c * s.tap[0]), made = (double)dl_round_up(s.o, t->lanes),
           direct = (double)dl_round_up(positions, t->rows) * DL_WINOGRAD_TAPS * terms * made,
           bytes = DL_WINOGRAD_POINTS * terms * made * 4;
    double multiply = (double)dl_round_up(tiles, t->rows) * DL_WINOGRAD_POINTS,
           read_a_tile = bytes > shared_cache ? 10
                         : bytes > own_cache  ? 5
                                              : 0,
           read = (double)dl_round_up(tiles, dl_cpu_winograd_block(t)) * read_a_tile,
           transform = k->keeps_weight        ? 0
                       : bytes > shared_cache ? 800
                                              : 200;
    double all = (multiply + read + transform) * terms * made +
                 (double)tiles * (inputs * terms + outputs * made);
    return direct > 0 ? all / direct : 1;
}

int64_t dl_cpu_weight_splits(int64_t blocks, int64_t positions) {
    enum { ITEMS = 16 }; /* work items that are enough for all threads */
    int64_t splits = dl_ceil_div(ITEMS, dl_at_least(1, blocks));
    return dl_at_least(1, dl_at_most(splits, positions / DL_M_BLOCK));
}

/* The same of a weight's gradient, by tile and pair of channels. A block transforms its channels of
 * x and of dy; where that is not all, others read the same again, some channels of each position.
 * Each split of the tiles has sums of its own, which are cleared, made taps and added. */
static double weight_share(const dl_kernel *k, const dl_target *t, dl_conv_sizes s) {
    const double product = 1.36, transform = 30, read_again = 100, make_taps = 70;
    const int64_t rows = dl_at_most(s.c, DL_WINOGRAD_ROWS), all = dl_round_up(s.o, t->panel),
                  lanes = dl_at_most(all, DL_WINOGRAD_LANES), tiles = dl_winograd_tiles(k),
                  positions = s.samples * s.out[0] * s.out[1] * s.out[2],
                  parts = dl_ceil_div(s.c, rows) * dl_ceil_div(all, lanes);
    double vector = transform + (parts > 1 ? read_again : 0),
           tile = product * DL_WINOGRAD_POINTS + vector / (double)lanes + vector / (double)rows,
           sums = make_taps * (double)dl_cpu_weight_splits(parts * s.tap[0], positions);
    return positions > 0 ? ((double)tiles * tile + sums) / (double)(positions * DL_WINOGRAD_TAPS)
                         : 1;
}

static double winograd_share(const dl_kernel *k, const dl_target *t) {
    const dl_kinstr *c = &k->instrs.at[dl_kernel_anchor(k)];
    const dl_relation r = dl_kernel_relation(k, c);
    const dl_conv_sizes s = dl_winograd_sizes(&r);
    return (dl_op_makes_weight(c->op) ? weight_share : image_share)(k, t, s);
}

/* Contractions with fewer channels than vectors have lanes take other ways (emit_contract.c). */
static bool can_transform(const dl_kernel *k, const dl_target *t) {
    if (!t->winograd || k->schedule.kind != DL_BY_TILES || !dl_winograd_suits(k)) return false;
    const dl_relation r = dl_kernel_relation(k, &k->instrs.at[dl_kernel_anchor(k)]);
    const dl_conv_sizes s = dl_winograd_sizes(&r);
    return s.c >= DL_PACK_BELOW && s.o > DL_SMALL_N;
}

/* One thread's time; `share`: of the arithmetic's peak rate. */
static double time_of(const dl_kernel *k, const dl_target *t, double share) {
    /* attention by AMX tiles still waits for its exponentials */
    bool tiles = t->tiles && !dl_kernel_call(k);
    double lane = gflops_a_lane * (!dl_cpu_pairs(k, t) ? 1 : tiles ? 16 : 2);
    double arithmetic = (double)k->flops / (lane * t->lanes * share) * 1e-3;
    if (can_transform(k, t) && dl_cpu_by_winograd(k, t)) arithmetic *= winograd_share(k, t);
    double traffic = (double)k->bytes / (gbytes * 0.7) * 1e-3;
    return arithmetic > traffic ? arithmetic : traffic;
}

/* The shares of the peak rates that kernels reach: convolutions of 64 or more channels 0.70 to
 * 0.81, kernels that stream weights and optimiser state 0.68 to 0.75. */
static double share_of(const dl_kernel *k) {
    const dl_node *call = dl_kernel_call(k);
    if (call && call->op == DL_OP_fourier) return 0.2; /* few fused multiply-adds, many loads */
    return dl_kernel_anchor(k) >= 0 || call ? 0.75 : 0.15;
}

int dl_cpu_variants(const dl_kernel *k, const dl_target *t, const char **names) {
    names[0] = dl_intern(dl_direct_name);
    if (!can_transform(k, t)) return 1;
    bool better = winograd_share(k, t) < least_gain;
    names[better] = names[0], names[!better] = dl_intern(dl_winograd_name);
    return 2;
}

bool dl_cpu_by_winograd(const dl_kernel *k, const dl_target *t) {
    if (k->schedule.variant) return dl_winograd_named(k);
    return can_transform(k, t) && winograd_share(k, t) < least_gain;
}

double dl_cpu_predict(const dl_kernel *k, const dl_target *t) {
    return time_of(k, t, share_of(k)) / dl_cpus_allowed() + launch_us;
}

/* A small reduction may go element by element, at 1 to 4 operations a nanosecond. */
double dl_cpu_serial(const dl_kernel *k, const dl_target *t) {
    bool reduces = dl_kernel_anchor(k) < 0 && !dl_kernel_call(k) && dl_kernel_reductions(k) > 0;
    return time_of(k, t, reduces ? 1 / (gflops_a_lane * t->lanes) : share_of(k));
}

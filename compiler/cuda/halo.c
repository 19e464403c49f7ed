/* Halo kernels, tiles of positions: halo.h. */
#include "compiler/cuda/halo.h"

enum {
    PITCH = 48,      /* bytes: CT_PITCH */
    MOST_SUMS = 128, /* accumulators of a thread */
    MOST_READS = 256 /* weight fragments by taps, all unrolled in one loop */
};

static int64_t positions_of(const dl_gemm_problem *p, int i) {
    return p->mode[DL_MODE_M].at[1 + i].size;
}
static bool is_point(const dl_gemm_problem *p, int i) {
    return p->mode[DL_MODE_M].at[1 + i].name[0] == '0';
}

/* Is it a convolution in one 16-bit type, with channels in multiples of eight, and without
 * groups? */
static bool is_plain(const dl_gemm_problem *p) {
    const dl_operand *image = &p->operand[0];
    dl_tensor made =
        dl_op_slides(p->c->op) ? dl_op_tensor(p->c->op, DL_RESULT_PLACE) : DL_TENSOR_NONE;
    if (p->direct || p->word != 2 || (made != DL_TENSOR_X && made != DL_TENSOR_Y)) return false;
    for (int i = 0; i < DL_MODES; i++)
        if (p->mode[i].size < 1) return false;
    return p->mode[DL_MODE_BATCH].size == 1 && image->along_k && image->bytes == 16 &&
           p->operand[1].nparts == 1;
}

/* Where x is computed: the offset of the phase's first position at a tap from its own. */
static int64_t shift_of(const dl_gemm_problem *p, int i, int64_t tap) {
    int64_t n = p->stride_phases[i], at = p->r.window[i].pad - tap * p->r.window[i].dilation;
    return (at + (-at % n + n) % n) / n;
}

/* The distance between the first and the last pixel that one position reads along an axis, over
 * all stride phases. */
static int64_t reach_of(const dl_gemm_problem *p, int i) {
    const dl_relation_window *v = &p->r.window[i];
    int64_t last = p->r.axis[v->tap].size - 1;
    return dl_halo_makes_image(p) ? shift_of(p, i, 0) - shift_of(p, i, last) : last * v->dilation;
}

/* Bytes of a chunk; of the whole, where sums may replace two of them. */
static void find_bytes(const dl_gemm_problem *p, int rows, dl_halo *h) {
    int64_t pixels = 1;
    for (int i = 0; i < 3; i++) pixels *= h->halo[i];
    h->stage = pixels * PITCH + h->taps * h->columns / 8 * DL_HALO_FRAGMENT;
    h->shared =
        dl_at_least(2 * h->stage, rows * h->stride_phases * h->columns * 4) +
        dl_round_up(p->operand[0].nparts * pixels * (*dl_cuda_dialect(p->k, 0)->whole ? 8 : 4), 16);
}

bool dl_gemm_halo(const dl_gemm_problem *p, int rows, dl_halo *h) {
    int64_t least = 0;
    if (!is_plain(p)) return false;
    *h = (dl_halo){
        .columns = (int)dl_round_up(p->tile_columns.size, 8), .stride_phases = 1, .taps = 1};
    for (int i = 0; i < 3; i++)
        h->stride_phases *= p->stride_phases[i], h->taps *= p->r.axis[p->r.window[i].tap].size;
    if (h->taps == 1 ||
        h->stride_phases * h->columns * rows > MOST_SUMS * DL_WARP * DL_HALO_WARPS ||
        h->taps * h->columns / 8 > MOST_READS)
        return false;
    for (int a = 1; a <= rows; a *= 2)
        for (int b = 1; a * b <= rows; b *= 2) {
            const int tile[3] = {a, b, rows / a / b};
            dl_halo one = *h;
            int64_t blocks = 1;
            bool fits = true;
            for (int i = 0; i < 3; i++) {
                int64_t stride = dl_halo_makes_image(p) ? 1 : p->r.window[i].stride;
                one.tile[i] = tile[i], one.halo[i] = (tile[i] - 1) * stride + reach_of(p, i) + 1;
                one.tiles[i] = dl_ceil_div(positions_of(p, i), tile[i]);
                blocks *= one.tiles[i], fits = fits && (tile[i] == 1 || !is_point(p, i));
            }
            find_bytes(p, rows, &one);
            /* bytes that CTAs load; of equals, the tile longest along contiguous memory */
            int64_t bytes = blocks * one.stage;
            if (!fits || one.shared > p->room || (h->found && bytes > least) ||
                (h->found && bytes == least && tile[2] <= h->tile[2]))
                continue;
            least = bytes, *h = one, h->found = true;
        }
    return h->found;
}

/* ---- in C ---- */

void dl_halo_put_row(dl_emitter *e, const dl_gemm_problem *p) {
    const dl_mode *n = &p->mode[DL_MODE_M];
    const dl_halo *h = &p->tiling.halo;
    int64_t inner = 1;
    for (int i = 2; i >= 0; i--) {
        int64_t q = p->stride_phases[i], out = h->tile[i] * q;
        if (out > 1) {
            dl_putf(e->out, "        const int made%d = row / $/%lld$ %% $/%lld$;\n", i,
                    (long long)inner, (long long)out);
            if (q > 1)
                dl_putf(e->out, "        const int q%d = made%d %% $/%lld$;\n", i, i, (long long)q);
            dl_putf(e->out, "        const int %s = first%d + made%d / $/%lld$;\n",
                    n->at[1 + i].variable, i, i, (long long)q);
        } else {
            dl_putf(e->out, "        const int %s = first%d;\n", n->at[1 + i].variable, i);
        }
        inner *= out;
    }
}

void dl_halo_put_test(dl_emitter *e, const dl_gemm_problem *p) {
    for (int i = 0; i < 3; i++) {
        int axis = dl_conv_axis(&p->c->windows, i);
        if (axis >= 0 && e->k->space[axis].size % (p->tiling.halo.tile[i] * p->stride_phases[i]))
            dl_putf(e->out, "        if ($x%d$ >= $%lld$) continue;\n", axis,
                    (long long)e->k->space[axis].size);
    }
}

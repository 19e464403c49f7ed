/* Contractions as GEMMs: gemm.h. */
#include "ir/kernel/gemm.h"

#include "ir/base/counts.h"

/* ---- by names ---- */

static void find_size(dl_gemm *g, dl_gemm_mode *m) {
    m->size = 1;
    for (int i = 0; i < m->n; i++) m->size *= g->r.axis[m->axis[i]].size;
}

static void insert(dl_gemm *g, dl_gemm_mode *m, int axis) {
    int at = m->n++;
    for (; at > 0 && m->axis[at - 1] > axis; at--) m->axis[at] = m->axis[at - 1];
    m->axis[at] = axis;
    find_size(g, m);
}

static void take_out(dl_gemm *g, dl_gemm_mode *m, int axis) {
    int at = 0;
    while (m->axis[at] != axis) at++;
    for (m->n--; at < m->n; at++) m->axis[at] = m->axis[at + 1];
    find_size(g, m);
}

static dl_mode_kind mode_of(const dl_relation_axis *a, bool swap) {
    bool result = a->at[DL_RESULT_PLACE] >= 0, own = a->at[0] >= 0 || a->at[1] >= 0;
    if (result && !own) return DL_MODE_BATCH;
    if (a->role != DL_MODE_M && a->role != DL_MODE_N) return a->role;
    return (a->role == DL_MODE_M) != swap ? DL_MODE_M : DL_MODE_N;
}

dl_gemm dl_gemm_by_names(const dl_kernel *k, const dl_kinstr *c, bool swap) {
    dl_gemm g = {.r = dl_kernel_relation(k, c), .side = {swap, !swap}};
    for (int i = 0; i < DL_MODES; i++) g.mode[i].size = 1;
    for (int i = 0; i < g.r.n; i++) insert(&g, &g.mode[mode_of(&g.r.axis[i], swap)], i);
    for (int s = 0; s < 2; s++) {
        int64_t step[DL_MAX_RANK];
        dl_type_strides(&k->params.at[c->parts[g.side[s]][0]].type, step);
        for (int i = 0; i < g.r.n; i++) {
            int at = g.r.axis[i].at[g.side[s]];
            g.stride[s][i] = at >= 0 ? step[at] : 0;
        }
    }
    return g;
}

void dl_gemm_move(dl_gemm *g, int axis, dl_mode_kind from, dl_mode_kind to) {
    take_out(g, &g->mode[from], axis);
    insert(g, &g->mode[to], axis);
}

void dl_gemm_move_inwards(dl_gemm *g, int axis, dl_mode_kind of) {
    dl_gemm_mode *m = &g->mode[of];
    take_out(g, m, axis);
    m->axis[m->n++] = axis;
    find_size(g, m);
}

int64_t dl_linear_stride(int n, const int64_t *size, const int64_t *step) {
    int64_t first = 0, reach = -1;
    for (int i = n - 1; i >= 0; i--) {
        if (size[i] == 1) continue;
        if (reach < 0) first = step[i];
        if (step[i] < 0 || (reach >= 0 && step[i] != reach)) return -1;
        reach = step[i] * size[i];
    }
    return first;
}

int64_t dl_gemm_stride(const dl_gemm *g, int side, dl_mode_kind mode) {
    const dl_gemm_mode *m = &g->mode[mode];
    int64_t size[DL_MAX_RELATION], step[DL_MAX_RELATION];
    for (int i = 0; i < m->n; i++)
        size[i] = g->r.axis[m->axis[i]].size, step[i] = g->stride[side][m->axis[i]];
    return dl_linear_stride(m->n, size, step);
}

/* ---- by windows ---- */

int dl_conv_axis(const dl_windows *w, int i) {
    int own = i - (3 - w->n);
    return own < 0 ? -1 : 2 + own;
}

int dl_conv_spatial(const dl_windows *w, int axis) { return axis - 2 + (3 - w->n); }

/* Position q of x has the taps t for which q + pad - t * dilation is a multiple of the stride:
 * every (stride / gcd)-th from the first on, or none. */
dl_stride_phase dl_conv_stride_phase(const dl_conv_sizes *s, int axis, int64_t q) {
    int64_t stride = s->stride[axis], dilation = s->dilation[axis], at = q + s->pad_lo[axis];
    int64_t step = stride / dl_gcd(stride, dilation), rest = at % stride, first = 0;
    for (; rest && first < step; first++) rest = (rest + stride - dilation % stride) % stride;
    dl_stride_phase p = {
        .shift = q, .first = rest ? 0 : first, .step = step, .fall = step * dilation / stride};
    if (!rest) p.base = (at - first * dilation) / stride;
    p.count = s->in[axis] > q ? dl_ceil_div(s->in[axis] - q, stride) : 0;
    p.taps = !rest && s->tap[axis] > first ? dl_ceil_div(s->tap[axis] - first, step) : 0;
    return p;
}

void dl_conv_stride_phases(const dl_conv_sizes *s, int64_t q, dl_stride_phase p[3]) {
    for (int i = 2; i >= 0; q /= s->stride[i--])
        p[i] = dl_conv_stride_phase(s, i, q % s->stride[i]);
}

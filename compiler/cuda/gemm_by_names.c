/* GEMM problems (gemm_problem.h): contractions by axis names; and, for all, the operands' access
 * patterns. */
#include "compiler/cuda/operands.h"

/* ---- by names ---- */

static void add_axis(dl_emitter *e, dl_gemm_problem *p, const dl_gemm *g, dl_mode_kind kind,
                     int axis) {
    int mode_axis = p->mode[kind].n;
    dl_gemm_add_axis(p, e, kind, g->r.axis[axis].size, NULL);
    for (int i = 0; i < 2; i++) p->operand[i].step[0][kind][mode_axis] = g->stride[i][axis];
    const dl_mode_axis *c = &p->mode[kind].at[mode_axis];
    if (axis < p->k->nspace)
        dl_gemm_place(p, axis, kind, c->name, c->size == 1 ? NULL : c->variable);
}

/* N has the axes of the operand with the result's last axis, so that columns are contiguous in
 * the result. The innermost coordinate of K is one that is contiguous in an operand. */
static dl_gemm choose_modes(const dl_gemm_problem *p) {
    int last = -1, inner = -1;
    for (int i = 0; i < p->k->nspace; i++)
        if (p->r.axis[i].role != DL_MODE_BATCH && p->r.axis[i].size != 1) last = i;
    dl_gemm g = dl_gemm_by_names(p->k, p->c, last >= 0 && p->r.axis[last].role == DL_MODE_M);
    for (int i = p->k->nspace; i < p->r.n; i++)
        for (int o = 1; o >= 0; o--)
            if (p->r.axis[i].size > 1 && g.stride[o][i] == 1) inner = i;
    if (inner >= 0) dl_gemm_move_inwards(&g, inner, DL_MODE_K);
    return g;
}

static void find_names(dl_emitter *e, dl_gemm_problem *p) {
    const dl_gemm g = choose_modes(p);
    for (int i = 0; i < 2; i++) p->operand[i] = dl_operand_new(p, g.side[i], i == 0);
    for (dl_mode_kind kind = 0; kind < DL_MODES; kind++)
        for (int i = 0; i < g.mode[kind].n; i++) add_axis(e, p, &g, kind, g.mode[kind].axis[i]);
    for (int i = 0; i < g.mode[DL_MODE_N].n; i++) {
        int axis = g.mode[DL_MODE_N].axis[i];
        if (p->inner < 0 || p->r.axis[axis].size != 1) p->inner = axis;
    }
}

/* ---- access patterns ---- */

static int innermost(const dl_mode *n) {
    int at = n->n - 1;
    while (at > 0 && n->at[at].size == 1 && !n->at[at].text) at--;
    return at;
}

/* The outermost of the coordinates, from the innermost on, that are contiguous with each other
 * in memory; and their total extent. */
static int outermost(const dl_mode *n, const dl_operand *o, dl_mode_kind kind, int inner,
                     int64_t *size) {
    int at = inner;
    *size = n->at[inner].size;
    for (bool dense = true; at > 0; at--, *size *= n->at[at].size) {
        dense = !n->at[at - 1].text;
        for (int i = 0; i < o->nparts; i++) dense &= o->step[i][kind][at - 1] == *size;
        for (int a = 0; a < 3; a++) dense &= !o->scale[a][kind][at - 1];
        if (!dense) break;
    }
    return at;
}

/* Are runs of so many elements along the mode's innermost coordinates contiguous, and aligned to
 * their size? */
static bool in_pieces(const dl_gemm_problem *p, const dl_operand *o, dl_mode_kind kind,
                      int64_t piece) {
    const dl_mode *n = &p->mode[kind];
    int inner = innermost(n);
    if (inner < 0 || n->at[inner].text) return false;
    int64_t size;
    int outer = outermost(n, o, kind, inner, &size);
    if (size % piece) return false;
    for (int i = 0; i < o->nparts; i++) {
        if (o->step[i][kind][inner] != 1 || o->base[i] % piece || o->start[i] % piece) return false;
        for (int k = 0; k < DL_MODES; k++)
            for (int c = 0; c < p->mode[k].n; c++)
                if (!((int)kind == k && c >= outer && c <= inner) && o->step[i][k][c] % piece)
                    return false;
        for (int a = 0; a < 3; a++)
            if (o->along[i][a] % piece || o->scale[a][kind][inner]) return false;
    }
    return o->nparts == 1 || o->start[o->nparts] % piece == 0;
}

static void find_reading(const dl_gemm_problem *p, dl_operand *o) {
    bool same = true;
    dl_mode_kind rows = o->is_left ? DL_MODE_M : DL_MODE_N;
    for (int i = 0; i < o->nparts; i++) same = same && dl_operand_part(p, o, i)->dtype == o->dtype;
    int word = dl_dtype_bytes(o->dtype);
    o->along_k = in_pieces(p, o, DL_MODE_K, 1) || !in_pieces(p, o, rows, 1);
    for (int bytes = 16; same && bytes >= 4 && bytes >= word; bytes /= 2)
        for (int along = 1; along >= 0; along--)
            if (in_pieces(p, o, along ? DL_MODE_K : rows, bytes / word)) {
                o->along_k = along, o->bytes = bytes;
                return;
            }
    o->bytes = same && word == 4 ? 4 : 0;
}

/* Operands of one 16-bit type are multiplied in it, others as floats. */
static void find_arithmetic(const dl_emitter *e, dl_gemm_problem *p) {
    dl_dtype type = dl_operand_part(p, &p->operand[0], 0)->dtype;
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < p->operand[o].nparts; i++)
            if (dl_operand_part(p, &p->operand[o], i)->dtype != type || p->direct) type = DL_F32;
    p->arithmetic = type == DL_BF16  ? "CT_BF16"
                    : type == DL_F16 ? "CT_F16"
                    : p->c->tf32     ? "CT_TF32"
                                     : "CT_F32";
    p->word = dl_dtype_bytes(type);
    p->has_maps = e->t->has_maps, p->multiprocessors = e->t->multiprocessors;
    p->room = dl_cuda_tile_room(e->t), p->shared = dl_cuda_dynamic_most(e->t);
    p->shared_of_sm = e->t->shared_of_sm * (int64_t)1024;
    p->has_wgmma = e->t->has_wgmma && (p->word == 2 || p->c->tf32);
    for (int o = 0; o < 2; o++) p->operand[o].dtype = type;
}

dl_gemm_problem dl_gemm_find(dl_emitter *e, const dl_kinstr *c) {
    dl_gemm_problem p = {.k = e->k,
                         .c = c,
                         .r = dl_kernel_relation(e->k, c),
                         .stride_phases = {1, 1, 1},
                         .inner = -1};
    for (int i = 0; i < DL_MODES; i++) p.mode[i].size = 1;
    for (int i = 0; i < e->k->nspace; i++) p.coordinate[i] = "0";
    if (dl_op_slides(c->op)) {
        dl_gemm_windows(e, &p);
    } else {
        find_names(e, &p);
    }
    if (!p.direct) p.tile_columns = p.mode[DL_MODE_N];
    find_arithmetic(e, &p);
    for (int o = 0; o < 2 && !p.direct; o++) find_reading(&p, &p.operand[o]);
    return p;
}

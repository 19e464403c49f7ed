/* The epilogue of a contraction: the rest of the kernel at each point of a block of sums, and
 * epilogue reductions that keep no axis or the channels. A thread stays in one column, or one
 * vector of columns, and loops over its rows; each CTA stores partial results in the workspace. */
#include "compiler/cuda/gemm_coordinates.h"
#include "compiler/cuda/halo.h"

#include <string.h>

#include "compiler/cuda/emit_loops.h"

enum {
    BANKS = 32 /* of shared memory, 4 bytes each */
};
/* Points of a thread whose loads are in flight together; more only enlarge the code. */
enum {
    PREFETCH_OF_BOX = 4, /* of a halo kernel's box, one point at a time */
    PREFETCH_OF_TILE = 2 /* of a tile, in rows */
};

/* ---- reductions ---- */

static bool is_reduction(const dl_emitter *e, int number) {
    return e->steps[number].kind == DL_K_REDUCE;
}
static bool keeps(const dl_emitter *e, int number) { return e->steps[number].axes != 0; }

bool dl_epilogue_reduces(const dl_emitter *e) {
    for (int i = 0; i < e->now->run.n; i++)
        if (is_reduction(e, e->now->run.at[i])) return true;
    return false;
}

/* The epilogue being written. Threads after the last whole group have no rows. */
typedef struct {
    const dl_epilogue *f;
    dl_vectors vectors;
    int lanes, groups;
    int ncolumns, *columns; /* reductions by column, which go through shared memory */
    const dl_expr *sums;    /* by instruction: a thread's accumulators */
} epilogue;

static bool has_rest(const epilogue *s) { return s->lanes * s->groups < s->f->threads; }

static void put_starts(dl_emitter *e, epilogue *s) {
    dl_expr *sums = DL_NEWS(e->arena, dl_expr, e->k->instrs.n + 1);
    dl_loops l = dl_loop_begin(e);
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        const dl_kinstr *in = &e->k->instrs.at[number];
        if (!is_reduction(e, number)) continue;
        dl_loop_type type = dl_cuda_accumulator_type(in, dl_ceil_div(s->f->rows, s->groups));
        sums[number] = dl_loop_vars(&l, type, dl_format(e->arena, "$s%d$", number),
                                    keeps(e, number) ? s->vectors.width : 1, dl_loop_start(&l, in));
    }
    dl_loop_print_part(&l);
    s->sums = sums;
}

/* ---- points ---- */

static void put_coordinates(dl_emitter *e, const dl_gemm_problem *p, dl_mode_kind kind) {
    for (int i = 0; i < e->k->nspace; i++)
        if (p->of[i] == kind)
            dl_putf(e->out, "    const %s $x%d$ = %s;\n    (void)$x%d$;\n", e->dialect->index, i,
                    p->coordinate[i], i);
}

static unsigned axes_of_rows(const dl_emitter *e, const dl_gemm_problem *p) {
    unsigned axes = 0;
    for (int i = 0; i < e->k->nspace; i++) axes |= p->of[i] == DL_MODE_M ? 1u << i : 0;
    return axes;
}

static epilogue plan(dl_emitter *e, const dl_epilogue *f) {
    const dl_gemm_problem *p = f->p;
    const dl_mode *n = &p->tile_columns;
    epilogue s = {.f = f};
    dl_axis_list along = {.points = 1};
    unsigned rows = axes_of_rows(e, p);
    int inner = n->n - 1;
    while (inner > 0 && n->at[inner].size == 1) inner--;
    if (p->inner >= 0) along = (dl_axis_list){1, {p->inner}, e->k->space[p->inner].size};
    s.vectors = dl_cuda_find_vectors(e, &along, rows);
    if (inner < 0 || n->at[inner].size % s.vectors.width || p->tiling.bn % s.vectors.width) {
        along.n = 0;
        s.vectors = dl_cuda_find_vectors(e, &along, rows);
    }
    int64_t columns = p->tiling.halo.found ? p->tile_columns.size : p->tiling.bn;
    s.lanes = (int)dl_ceil_div(columns, s.vectors.width), s.groups = f->threads / s.lanes;
    s.columns = DL_NEWS(e->arena, int, e->now->run.n + 1);
    for (int i = 0; i < e->now->run.n; i++)
        if (is_reduction(e, e->now->run.at[i]) && keeps(e, e->now->run.at[i]))
            s.columns[s.ncolumns++] = e->now->run.at[i];
    return s;
}

/* Is a coordinate of M a space axis by itself? With a strided phase it is computed from several. */
static bool is_counter(const dl_gemm_problem *p, int axis) {
    const dl_mode *rows = &p->mode[DL_MODE_M];
    bool is = false;
    for (int i = 0; i < rows->n; i++)
        is |= !rows->at[i].text && strcmp(p->coordinate[axis], rows->at[i].variable) == 0;
    return is;
}

/* The coordinates of a row of the block; axes that are contiguous for all accesses are
 * collapsed. */
static void put_row(dl_emitter *e, const dl_epilogue *f) {
    const dl_gemm_problem *p = f->p;
    const dl_mode *rows = &p->mode[DL_MODE_M];
    dl_axis_list axes = {.points = 1};
    const unsigned asked = dl_gemm_used(p, rows);
    bool plain = !f->by_point;
    for (int i = 0; i < e->k->nspace; i++)
        plain = plain && (p->of[i] != DL_MODE_M || is_counter(p, i));
    for (int i = 0; i < rows->n && plain; i++) {
        if (!(asked >> i & 1)) continue;
        int axis = 0;
        while (axis < e->k->nspace &&
               (p->of[axis] != DL_MODE_M || strcmp(p->coordinate[axis], rows->at[i].variable) != 0))
            axis++;
        plain = !rows->at[i].text && axis < e->k->nspace;
        if (plain) axes.axis[axes.n++] = axis, axes.points *= rows->at[i].size;
    }
    if (!plain) {
        dl_gemm_delinearize_used(e, p, rows, false, "m + row");
        put_coordinates(e, p, DL_MODE_M);
        return;
    }
    dl_loop_put_coordinates(e, "(m + row)", &axes);
    for (int i = 0; i < e->k->nspace; i++) {
        bool counted = false;
        for (int k = 0; k < axes.n; k++) counted |= axes.axis[k] == i;
        if (p->of[i] == DL_MODE_M && !counted)
            dl_putf(e->out, "    const %s $x%d$ = 0;\n", e->dialect->index, i);
        if (p->of[i] == DL_MODE_M) dl_putf(e->out, "    (void)$x%d$;\n", i);
    }
}

/* Prefetch distance in rows: several where loads are waited for, and sums in shared memory leave
 * few CTAs per SM to hide the latency. */
static int prefetched_rows(const dl_emitter *e, const epilogue *s) {
    if (!s->f->room || !dl_cuda_load_axes(e, axes_of_rows(e, s->f->p))) return 1;
    return s->f->p->tiling.halo.found ? (int)dl_at_least(1, PREFETCH_OF_BOX / s->vectors.width)
                                      : PREFETCH_OF_TILE;
}

/* A loop over a thread's rows. With prefetched vectors, the next few rows' are loaded, and an
 * inner loop takes row by row. So the code of a row exists once, which saves most of an
 * epilogue's compile time. After the last row, the first row's vectors are loaded again. */
static void open_rows(dl_emitter *e, const epilogue *s, const bool *runs) {
    const char *rows =
        s->f->p->tiling.halo.found ? dl_format(e->arena, "$%d$", s->f->rows) : "rows";
    int step = s->groups, most = s->vectors.prefetch * step;
    if (!s->vectors.prefetch) {
        dl_putf(
            e->out,
            "#pragma unroll %d\n    for (int row = kd_thread() / $/%d$; row < %s; row += $%d$) {\n",
            prefetched_rows(e, s), s->lanes, rows, step);
        return;
    }
    dl_putf(e->out,
            "#pragma unroll 1\n    for (int first = kd_thread() / $/%d$; first < rows; first += "
            "$%d$) {\n",
            s->lanes, most);
    dl_cuda_declare_prefetched(e, &s->vectors, runs);
    dl_putf(e->out,
            "#pragma unroll\n    for (int k = 0; k < %d; k++) {\n"
            "    const int next = first + k * $%d$, row = next < rows ? next : first;\n",
            s->vectors.prefetch, step);
    put_row(e, s->f);
    dl_cuda_load_prefetched(e, &s->vectors, runs);
    dl_putf(e->out,
            "    }\n#pragma unroll 1\n"
            "    for (int row = first; row < rows && row < first + $%d$; row += $%d$) {\n",
            most, step);
}

static void close_rows(dl_emitter *e, const epilogue *s, const bool *runs) {
    if (s->vectors.prefetch)
        dl_cuda_shift_prefetched(e, &s->vectors, runs), dl_puts(e->out, "    }\n");
    dl_puts(e->out, "    }\n");
}

static void put_rows(dl_emitter *e, epilogue *s) {
    const dl_epilogue *f = s->f;
    const bool *runs = dl_cuda_find_runs(e), halo = f->p->tiling.halo.found;
    dl_loops before = dl_loop_begin(e);
    dl_cuda_load_vectors(&before, &s->vectors, runs, DL_HOISTED);
    dl_loop_print_part(&before);
    if (!halo) /* one condition, so that loops can be unrolled */
        dl_putf(e->out,
                "    const %s rest = u.rows() - m;\n    const int rows = rest < $%d$ ? (int)rest : "
                "$%d$;\n",
                e->dialect->index, f->rows, f->rows);
    if (!halo && prefetched_rows(e, s) > 1 &&
        dl_cuda_are_vectors(e, &s->vectors, axes_of_rows(e, f->p)))
        s->vectors.prefetch = prefetched_rows(e, s);
    open_rows(e, s, runs);
    if (halo)
        dl_halo_put_row(e, f->p), put_coordinates(e, f->p, DL_MODE_M), dl_halo_put_test(e, f->p);
    else
        put_row(e, f);
    dl_putf(e->out, "    float own[%d];\n    %s", s->vectors.width, f->sum);
    dl_loops l = dl_loop_begin(e);
    dl_cuda_put_points(&l, &s->vectors, s->sums, NULL);
    dl_loop_print_part(&l);
    close_rows(e, s, runs);
}

/* A thread's column sums are in shared memory by their index in the vector, next to its
 * neighbours'. The distance between indices avoids bank conflicts between a warp's columns. */
static int pitch_of(const epilogue *s) { return s->f->threads + BANKS / s->vectors.width; }

static int64_t bytes_of(const epilogue *s, int number) {
    int each = dl_loop_expr_type(s->sums[number]) == DL_LOOP_FLOAT ? 4 : 8;
    return (int64_t)s->vectors.width * pitch_of(s) * each;
}

/* Their place: over the CTA's tile of sums, where there is room, else after everything else;
 * each launch sizes its own. */
static void put_column_places(dl_emitter *e, const epilogue *s, dl_emitted *code) {
    int64_t bytes = 0, at = 0;
    int *shared = &code->shared[code->phases - 1];
    for (int i = 0; i < s->ncolumns; i++) bytes += bytes_of(s, s->columns[i]);
    if (bytes > s->f->room) at = dl_plan_round(*shared);
    if (!*shared) dl_puts(e->out, "    KD_SHARED(unsigned char, shared);\n");
    for (int i = 0; i < s->ncolumns; i++) {
        int number = s->columns[i];
        const char *type = dl_loop_type_name(e, dl_loop_expr_type(s->sums[number]));
        dl_putf(e->out, "    %s *const $sums%d$ = (%s *)(shared + $%lld$);\n", type, number, type,
                (long long)at);
        at += bytes_of(s, number);
    }
    if (at > *shared) *shared = (int)at;
}

static void put_column_sums(dl_emitter *e, const epilogue *s) {
    if (s->f->room) dl_puts(e->out, "    __syncthreads();\n"); /* the CTA's sums have been read */
    for (int i = 0; i < s->ncolumns; i++) {
        int number = s->columns[i];
        bool vectors = s->vectors.width > 1;
        if (vectors)
            dl_putf(e->out, "#pragma unroll\n    for (int j = 0; j < %d; j++) ", s->vectors.width);
        dl_putf(e->out, "    $sums%d$[%skd_thread()] = $s%d$%s;\n", number,
                vectors ? dl_format(e->arena, "j * $%d$ + ", pitch_of(s)) : "", number,
                vectors ? "[j]" : "");
    }
    dl_puts(e->out, "    __syncthreads();\n");
}

/* Stores "t3" as a partial result. */
static void put_partial(dl_emitter *e, int number, const char *at) {
    const char *type = dl_emit_partial_type(&e->k->instrs.at[number]);
    dl_putf(e->out, "((%s *)(workspace + $%lldL$))[%s] = $t%d$;\n", type,
            (long long)e->partial[number].base, at, number);
}

/* By channel: combines the values of the CTA's threads in one column, in fixed order. */
static void put_channels(dl_emitter *e, const epilogue *s, dl_emitted *code) {
    const dl_epilogue *f = s->f;
    int bn = f->p->tiling.bn, width = s->vectors.width;
    dl_putf(e->out,
            "    CT_LOOP for (int by = kd_thread(); by < $%d$ && n + by < $%lld$; by += $%d$) {\n",
            bn, (long long)f->p->tile_columns.size, f->threads);
    dl_gemm_delinearize_used(e, f->p, &f->p->tile_columns, true, "n + by");
    put_coordinates(e, f->p, DL_MODE_N);
    for (int i = 0; i < s->ncolumns; i++) {
        int number = s->columns[i];
        const dl_kinstr *in = &e->k->instrs.at[number];
        dl_putf(e->out,
                "    const %s $t%d$ = ct_join<%s, %s, %d, %d>($sums%d$ + by %% $/%d$ * $%d$ + by / "
                "$/%d$);\n",
                dl_emit_partial_type(in), number, dl_cuda_operator(in), dl_emit_partial_type(in),
                s->groups, s->lanes, number, width, pitch_of(s), width);
    }
    for (int i = 0; i < s->ncolumns; i++) {
        int number = s->columns[i];
        dl_axis_list channels = {1, {1}, e->k->space[1].size};
        dl_cuda_add_partial(e, number, &channels, f->items, code);
        dl_puts(e->out, "    ");
        put_partial(e, number,
                    dl_format(e->arena, "(long)(%s) * $%lldL$ + $x1$", f->item,
                              (long long)channels.points));
    }
    dl_puts(e->out, "    }\n");
}

/* Over all: one result for each CTA. */
static void put_block_sums(dl_emitter *e, const epilogue *s, int64_t blocks, dl_emitted *code) {
    static const dl_axis_list nothing = {.points = 1};
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        const dl_kinstr *in = &e->k->instrs.at[number];
        if (!is_reduction(e, number) || keeps(e, number)) continue;
        dl_cuda_add_partial(e, number, &nothing, blocks, code);
        dl_putf(
            e->out,
            "    const %s $t%d$ = block_reduce_one<%s, %d>((%s)$s%d$);\n    if (threadIdx.x == 0) ",
            dl_emit_partial_type(in), number, dl_cuda_operator(in), s->f->threads,
            dl_emit_partial_type(in), number);
        put_partial(e, number, "blockIdx.x");
    }
}

void dl_epilogue_put(dl_emitter *e, const dl_epilogue *f, int64_t blocks, dl_emitted *code) {
    epilogue s = plan(e, f);
    const dl_mode *b = &f->p->mode[DL_MODE_BATCH];
    for (int i = 0; i < 3; i++)
        if (f->p->stride_phases[i] > 1 && !f->p->tiling.halo.found)
            dl_putf(e->out, "    const int q%d = u.q%d;\n    (void)q%d;\n", i, i, i);
    for (int i = 0; i < b->n && !f->p->direct; i++)
        if (b->at[i].size != 1)
            dl_putf(e->out, "    const %s b%d = u.b%d;\n    (void)b%d;\n", e->dialect->index, i, i,
                    i);
    if (!f->p->direct) put_coordinates(e, f->p, DL_MODE_BATCH);
    put_starts(e, &s);
    if (s.ncolumns) put_column_places(e, &s, code);
    dl_putf(e->out,
            "    const int column = kd_thread() %% $/%d$ * $%d$;\n    if (n + column < $%lld$",
            s.lanes, s.vectors.width, (long long)f->p->tile_columns.size);
    if (has_rest(&s)) dl_putf(e->out, " && kd_thread() < $%d$", s.lanes * s.groups);
    dl_puts(e->out, ") {\n");
    dl_gemm_delinearize_used(e, f->p, &f->p->tile_columns, true, "n + column");
    put_coordinates(e, f->p, DL_MODE_N);
    put_rows(e, &s);
    dl_puts(e->out, "    }\n");
    if (s.ncolumns) put_column_sums(e, &s), put_channels(e, &s, code);
    put_block_sums(e, &s, blocks, code);
}

/* Kernels around a contraction by axis names (GEMM). Finds the modes of its axes (batch, M, N,
 * K) and the operands' strides, and writes the rest of the kernel as an epilogue of one row of a
 * panel. The loops are in compiler/cpu/kernels/gemm.c. */
#include "compiler/cpu/emit_windows.h"
#include "compiler/cpu/operands.h"
#include "compiler/cpu/partials.h"
#include "ir/kernel/gemm.h"

typedef struct {
    const dl_kinstr *c;
    const dl_kernel *k;
    dl_gemm g;
    int64_t batch, rows, columns, terms; /* sizes of the modes */
} gemm_problem;

/* The element type of the left operand (0) or the right one (1). */
static dl_dtype side_type(const gemm_problem *p, int side) {
    return p->k->params.at[p->c->parts[p->g.side[side]][0]].type.dtype;
}

static int64_t axis_size(const gemm_problem *p, int axis) { return p->g.r.axis[axis].size; }

/* Lanes lie along one axis that only the right operand has, the last of such; its others count
 * as batch. If the second operand has no such axis, the operands are swapped. */
static gemm_problem find_gemm(const dl_kernel *k, const dl_kinstr *c) {
    gemm_problem p = {.c = c, .k = k, .g = dl_gemm_by_names(k, c, false)};
    const dl_gemm_mode *n = &p.g.mode[DL_MODE_N];
    if (!n->n && p.g.mode[DL_MODE_M].n) p.g = dl_gemm_by_names(k, c, true);
    while (n->n > 1) dl_gemm_move(&p.g, n->axis[0], DL_MODE_N, DL_MODE_BATCH);
    p.batch = p.g.mode[DL_MODE_BATCH].size, p.rows = p.g.mode[DL_MODE_M].size;
    p.columns = n->size, p.terms = p.g.mode[DL_MODE_K].size;
    return p;
}

/* The stride of an operand over a mode's linear index where it is constant, else 0; 1 for a single
 * element. */
static int64_t even_step(const gemm_problem *p, int operand, dl_mode_kind mode) {
    const dl_gemm_mode *m = &p->g.mode[mode];
    int64_t step = dl_gemm_stride(&p->g, operand, mode);
    for (int i = 0; i < m->n; i++)
        if (axis_size(p, m->axis[i]) != 1) return step < 0 ? 0 : step;
    return 1;
}

/* Writes " + number / rest % size * stride" for each axis of a mode. */
static void put_offset(dl_emitter *e, const gemm_problem *p, int operand, dl_mode_kind mode,
                       const char *number) {
    const dl_gemm_mode *g = &p->g.mode[mode];
    int64_t rest = g->size;
    for (int i = 0; i < g->n && g->size; i++) { /* without K elements there is no address */
        int64_t size = axis_size(p, g->axis[i]), stride = p->g.stride[operand][g->axis[i]];
        rest /= size ? size : 1;
        if (!stride || size == 1) continue;
        dl_putf(e->out, " + %s", number);
        if (rest != 1) dl_putf(e->out, " / %lldL", (long long)rest);
        if (i > 0) dl_putf(e->out, " %% %lldL", (long long)size);
        dl_putf(e->out, " * %lldL", (long long)stride);
    }
}

static void put_at(dl_emitter *e, const gemm_problem *p, int operand) {
    dl_putf(e->out,
            "UNUSED long %s_%s(long batch, long row, long term) {\n    (void)batch, (void)row, "
            "(void)term;\n "
            "   return 0",
            DL_OWN_NAME, operand ? "right" : "left");
    put_offset(e, p, operand, DL_MODE_BATCH, "batch");
    put_offset(e, p, operand, operand ? DL_MODE_N : DL_MODE_M, "row");
    put_offset(e, p, operand, DL_MODE_K, "term");
    dl_puts(e->out, ";\n}\n");
}

/* Writes "const long x2 = row / 4 % 3;" for the axes of a mode. */
static void put_coordinates(dl_emitter *e, const gemm_problem *p, dl_mode_kind mode,
                            const char *number) {
    const dl_gemm_mode *g = &p->g.mode[mode];
    int64_t rest = g->size;
    for (int i = 0; i < g->n; i++) {
        int64_t size = axis_size(p, g->axis[i]);
        rest /= size ? size : 1;
        dl_putf(e->out, "    const long x%d = %s / %lldL %% %lldL;\n", g->axis[i], number,
                (long long)rest, (long long)(size ? size : 1));
    }
}

/* <kernel>_<name>: calls <kernel>_<vector> for each vector of some rows of a panel, and for the
 * remainder of a row. `sums`: it may accumulate; `line`: call it for so many elements at a time. */
static void put_rows(dl_emitter *e, const gemm_problem *p, const char *name, const char *vector,
                     int line) {
    const dl_kernel *k = e->k;
    dl_putf(
        e->out,
        "static %svoid %s_%s(char *const *arg, const float *acc, long batch, long row, long rows, "
        "long column, long n, long step, double *sums) {\n"
        "    (void)batch, (void)column, (void)n, (void)step, (void)sums;\n",
        line ? "" : dl_emit_warmth(e), DL_OWN_NAME, name);
    const char *sums = line ? "sums" : dl_emit_take_sums(e);
    dl_puts(e->out, "    for (long end = row + rows; row < end; row++, acc += PANEL) {\n");
    put_coordinates(e, p, DL_MODE_BATCH, "batch");
    put_coordinates(e, p, DL_MODE_M, "row");
    dl_buf call = {0};
    dl_putf(&call, "%s_%s(arg, ", DL_OWN_NAME, vector);
    for (int i = 0; i < k->nspace; i++)
        dl_putf(&call, i == e->lane_axis ? "column + i, " : "x%d, ", i);
    if (e->lane_axis < 0) {
        dl_putf(e->out, "    %s1, acc, %s);\n", call.at, sums);
    } else {
        const char *at = "acc + i / PANEL * step + i % PANEL";
        if (line)
            dl_putf(e->out, "    for (long i = 0; i < n; i += %d) %sLANES, %s, %s);\n", line,
                    call.at, at, sums);
        else
            dl_putf(e->out,
                    "    long i = 0;\n    for (; i + LANES <= n; i += LANES) %sLANES, %s, %s);\n",
                    call.at, at, sums);
        if (!line && p->columns % e->t->lanes)
            dl_putf(e->out, "    if (i < n) %sn - i, %s, %s);\n", call.at, at, sums);
    }
    dl_puts(e->out, "    }\n");
    if (!line) dl_emit_give_sums(e);
    dl_puts(e->out, "}\n");
    dl_buf_free(&call);
}

/* Writes the epilogue: the rest of the kernel after the sum. */
static void put_epilogue(dl_emitter *e, const gemm_problem *p) {
    dl_emit_body(e);
    put_rows(e, p, "rows", "body", 0);
}

/* Writes the prefetch of all memory that the epilogue accesses. Returns its name, or "0": there
 * is none. */
static const char *put_prefetch(dl_emitter *e, const gemm_problem *p) {
    int line = dl_emit_prefetch_lines(e);
    if (!line) return "0";
    put_rows(e, p, "fetch", "lines", line);
    return dl_format(e->arena, "%s_fetch", DL_OWN_NAME);
}

/* Is it a sum over the first axis of two matrices, as for a linear layer's weight? Then it is a
 * weight gradient of one tap. */
static bool is_gradient(const gemm_problem *p) {
    return p->batch == 1 && p->g.mode[DL_MODE_N].n && p->columns > 0 && p->rows > 1 &&
           p->terms > 1 && p->columns <= DL_MOST_PLACES && p->rows <= DL_MOST_PLACES &&
           p->terms <= DL_MOST_PLACES && even_step(p, 0, DL_MODE_M) == 1 &&
           even_step(p, 0, DL_MODE_K) == p->rows && even_step(p, 1, DL_MODE_N) == 1 &&
           even_step(p, 1, DL_MODE_K) == p->columns;
}

static void put_gradient(dl_emitter *e, const gemm_problem *p, dl_emitted *code) {
    const char *name = DL_OWN_NAME;
    dl_wgrad_problem g = {.batch = 1, .nx = 1, .ny = 1, .channels = p->rows, .lanes = p->columns};
    g.packs = side_type(p, 0) != DL_F32, g.pairs = dl_cpu_pairs(e->k, e->t);
    for (int i = 0; i < 3; i++) g.in[i] = g.out[i] = g.scale[i] = g.dilation[i] = g.kernel[i] = 1;
    g.in[2] = g.out[2] = p->terms;
    for (int i = 0; i < 2; i++)
        dl_putf(e->out, "static const struct part %s_%s[] = {{%d, %lld, %s}};\n", name,
                i ? "y" : "x", p->c->parts[p->g.side[i]][0], (long long)(i ? p->columns : p->rows),
                dl_emit_element(side_type(p, i)));
    dl_putf(e->out,
            "static void %s_block(char *const *arg, long group, long panel, long panels, long row, "
            "long rows, "
            "const float *sum, long step, double *sums) {\n    (void)group;\n"
            "    long column = panel * PANEL, n = %lldL - column, most = panels * PANEL;\n"
            "    %s_rows(arg, sum, 0, row, rows, column, n < most ? n : most, step, sums);\n}\n",
            name, (long long)p->columns, name);
    g.k_ranges = dl_find_k_ranges(e->arena, e->t, g.lanes, 1, g.channels);
    dl_emit_k_ranges(e, &g.k_ranges);
    dl_emit_wgrad(e, &g, code);
}

/* Are K elements taken as bf16 pairs (kernels/gemm.c)? */
static bool is_paired(const dl_emitter *e, const gemm_problem *p) {
    return dl_cpu_pairs(e->k, e->t) && p->terms > 1 && even_step(p, 0, DL_MODE_K) == 1 &&
           (even_step(p, 1, DL_MODE_K) == 1 || even_step(p, 1, DL_MODE_N) == 1);
}

/* Is it a weight gradient whose operands are packed once for all work items, in the order of AMX
 * tiles (kernels/amx.c)? Blocks of positions would give each tile few products, and write and
 * reread its sums. With many positions, packed operands would need more memory than the
 * operands. */
static bool is_amx_packed(const dl_emitter *e, const gemm_problem *p) {
    enum { MOST_PACKED = 32 << 20 };
    return e->t->tiles && dl_cpu_pairs(e->k, e->t) && is_gradient(p) &&
           p->terms * (p->rows + p->columns) * 2 <= MOST_PACKED;
}

/* Phase 0 packs the right operand; it also packs a 16-bit left one where many work items would
 * convert the same rows, or whose rows are contiguous. Phase 1 multiplies. */
static void put_gemm(dl_emitter *e, const gemm_problem *p, dl_emitted *code) {
    code->needs[DL_NEED_LOOPS] |= DL_LOOPS_GEMM;
    enum {
        FEW = 2,               /* few work items */
        ITEMS = 32,            /* enough work items for all threads */
        PANELS_STAY = 1 << 20, /* bytes of packed operands that stay in cache */
        TILES_STAY = 3 << 19   /* the same together with AMX sums */
    };
    const char *name = DL_OWN_NAME;
    bool by_amx_packed = is_amx_packed(e, p), pairs = by_amx_packed || is_paired(e, p),
         tiles = pairs && e->t->tiles;
    put_at(e, p, 0);
    put_at(e, p, 1);
    int64_t panels = dl_ceil_div(p->columns, e->t->panel),
            item_rows = tiles ? DL_AMX_ROWS : e->t->row_block,
            blocks = dl_ceil_div(p->rows, item_rows), groups = 1;
    while (groups < panels &&
           (tiles ? dl_ceil_div(panels, groups) * e->t->panel * (p->terms * 2 + DL_AMX_ROWS * 4) >
                        TILES_STAY
                  : p->batch * blocks * groups < ITEMS))
        groups++;
    int64_t item_panels = dl_ceil_div(panels ? panels : 1, groups),
            left_step = even_step(p, 0, DL_MODE_K);
    bool direct = pairs ? tiles || p->terms % 2 == 0 : left_step == 1 && side_type(p, 0) == DL_F32;
    const char *prefetch = tiles ? "0" : put_prefetch(e, p); /* AMX strips prefetch nothing */
    bool packed_before = !direct && side_type(p, 0) != DL_F32 && groups > FEW;
    int64_t terms = by_amx_packed ? dl_ceil_div(p->terms, DL_AMX_ROWS) * (DL_AMX_ROWS / 2)
                                  : dl_ceil_div(p->terms, pairs ? 2 : 1),
            left_floats = p->batch * (by_amx_packed   ? blocks * DL_AMX_ROWS * terms
                                      : packed_before ? p->rows * terms
                                                      : 0),
            panel_floats = panels * terms * e->t->panel, right_floats = p->batch * panel_floats;
    dl_putf(e->out,
            "static const struct gemm_problem %s_shape = {.batch = %lld, .rows = %lld, .columns = "
            "%lld, "
            ".terms = "
            "%lld, .pairs = %d, .elements = %lld, .whole_rows = %d, .left = {%d, 0, %s}, "
            ".right = {%d, 0, %s}, .direct = %d, .left_packed = %lld, .left_step = %lld, "
            ".right_step = %lld, "
            ".row_step = %lld, "
            ".column_step = %lld, "
            ".left_at = %s_left, "
            ".right_at = %s_right, .prefetch = %s, "
            ".item_rows = %lld, .item_panels = %lld, .by_rows = %d};\n",
            name, (long long)p->batch, (long long)p->rows, (long long)p->columns, (long long)terms,
            pairs, (long long)p->terms, by_amx_packed, p->c->parts[p->g.side[0]][0],
            dl_emit_element(side_type(p, 0)), p->c->parts[p->g.side[1]][0],
            dl_emit_element(side_type(p, 1)), direct, (long long)(left_floats ? right_floats : 0),
            (long long)left_step, (long long)even_step(p, 1, DL_MODE_K),
            (long long)even_step(p, 0, DL_MODE_M), (long long)even_step(p, 1, DL_MODE_N), name,
            name, prefetch, (long long)item_rows, (long long)item_panels,
            panel_floats * 4 <= PANELS_STAY);
    code->phases = 2;
    code->prepares = !by_amx_packed && !packed_before; /* phase 0 reads the right operand alone */
    code->prepared = p->c->parts[p->g.side[1]][0];
    code->items[0] = by_amx_packed ? p->batch * terms / (DL_AMX_ROWS / 2)
                                   : p->batch * (panels + (packed_before ? blocks : 0));
    code->items[1] = p->batch * blocks * dl_ceil_div(panels, item_panels);
    code->workspace = dl_plan_round((right_floats + left_floats) * 4);
    code->scratch =
        (e->t->rows * e->t->panel + (direct || packed_before ? 0 : e->t->row_block * terms)) * 4;
    if (tiles) code->scratch = DL_AMX_ROWS * (DL_CHAIN + item_panels * e->t->panel) * 4;
    dl_emit_head(e, 0);
    if (packed_before)
        dl_putf(e->out,
                "    if (item >= %lldL) {\n        pack_left_block(&%s_shape, arg, item - %lldL, "
                "(float "
                "*)workspace);\n"
                "        return;\n    }\n",
                (long long)(p->batch * panels), name, (long long)(p->batch * panels));
    dl_putf(e->out, "    pack_%s(&%s_shape, arg, item, (float *)workspace);\n}\n",
            by_amx_packed ? "terms" : "right", name);
    dl_emit_head(e, 1);
    dl_emit_item_sums(e, code->items[1], code);
    dl_putf(e->out,
            "    gemm_item(&%s_shape, arg, (const float *)workspace, item, scratch, %s_rows, "
            "sums);\n}\n",
            name, name);
}

bool dl_emit_gemm(dl_emitter *e, dl_emitted *code, dl_error *err) {
    const dl_kernel *k = e->k;
    gemm_problem p = find_gemm(k, &k->instrs.at[dl_kernel_anchor(k)]);
    const dl_gemm_mode *n = &p.g.mode[DL_MODE_N];
    e->lane_axis = n->n ? n->axis[0] : -1, e->flat = false;
    e->mode = n->n ? DL_LANES : DL_SINGLE;
    dl_emit_find_partial(e, &(dl_axis_list){.points = 1}); /* of sums that keep no axis */
    bool gradient = is_gradient(&p);
    /* the next row of a weight and of its optimiser state */
    e->prefetch = gradient && !is_amx_packed(e, &p) ? p.columns : 0;
    put_epilogue(e, &p);
    e->prefetch = 0;
    (gradient && !is_amx_packed(e, &p) ? put_gradient : put_gemm)(e, &p, code);
    return dl_emit_loop_nests(e, 1, code, err);
}

/* Kernels around a contraction by axis names (GEMM). Finds the modes of its axes (batch, M, N,
 * K) and the operands' strides, and writes the rest of the kernel as an epilogue of one row of a
 * panel. The loops are in compiler/cpu/kernels/gemm.c. */
#include "compiler/cpu/emit_windows.h"
#include "compiler/cpu/operands.h"
#include "compiler/cpu/partials.h"

/* A GEMM mode: the axes of the relation that one linear index counts, outermost first. Space
 * axes come first, in their order. */
typedef struct {
    int n, axis[DL_MAX_RELATION];
    int64_t size;
} mode;

typedef struct {
    const dl_kinstr *c;
    const dl_kernel *k;
    dl_relation r;
    int side[2]; /* the operand that is the left one (M), and the right one (N) */
    mode batch, rows, column, terms;
    int64_t stride[2][DL_MAX_RELATION]; /* strides of left and right by axis; 0 where it does not
                                           have the axis */
} gemm_problem;

/* The element type of the left operand (0) or the right one (1). */
static dl_dtype side_type(const gemm_problem *p, int side) {
    return p->k->params.at[p->c->parts[p->side[side]][0]].type.dtype;
}

static int64_t axis_size(const gemm_problem *p, int axis) { return p->r.axis[axis].size; }

/* Does only the left operand (0) or the right one (1) have the axis? */
static bool is_own(const gemm_problem *p, int side, int axis) {
    return p->r.axis[axis].role == (p->side[side] ? DL_ROLE_N : DL_ROLE_M) &&
           p->r.axis[axis].at[p->side[side]] >= 0;
}

static void add(const gemm_problem *p, mode *g, int axis) {
    g->axis[g->n++] = axis;
    g->size *= axis_size(p, axis);
}

/* Lanes lie along one axis that only the right operand has, the last of such; its others count
 * as batch. If the second operand has no such axis, the operands are swapped. */
static gemm_problem find_gemm(const dl_kernel *k, const dl_kinstr *c) {
    gemm_problem p = {.c = c,
                      .k = k,
                      .r = dl_kernel_relation(k, c),
                      .side = {0, 1},
                      .batch.size = 1,
                      .rows.size = 1,
                      .column.size = 1,
                      .terms.size = 1};
    int own[2] = {0}, lanes = -1;
    for (int i = 0; i < k->nspace; i++)
        for (int s = 0; s < 2; s++) own[s] += is_own(&p, s, i);
    if (!own[1] && own[0]) p.side[0] = 1, p.side[1] = 0;
    for (int s = 0; s < 2; s++) {
        int64_t step[DL_MAX_RANK];
        dl_type_strides(&k->params.at[c->parts[p.side[s]][0]].type, step);
        for (int i = 0; i < p.r.n; i++)
            p.stride[s][i] = p.r.axis[i].at[p.side[s]] >= 0 ? step[p.r.axis[i].at[p.side[s]]] : 0;
    }
    for (int i = 0; i < k->nspace; i++)
        if (is_own(&p, 1, i)) lanes = i;
    for (int i = 0; i < k->nspace; i++)
        if (i == lanes)
            add(&p, &p.column, i);
        else
            add(&p, is_own(&p, 0, i) ? &p.rows : &p.batch, i);
    for (int i = k->nspace; i < p.r.n; i++) add(&p, &p.terms, i);
    return p;
}

/* The stride of an operand over a mode's linear index where it is constant, else 0. */
static int64_t even_step(const gemm_problem *p, int operand, const mode *g) {
    int64_t step = 0, size = 1;
    for (int i = g->n - 1; i >= 0; i--) {
        int64_t n = axis_size(p, g->axis[i]), own = p->stride[operand][g->axis[i]];
        if (n == 1) continue;
        if (size == 1)
            step = own;
        else if (own != step * size)
            return 0;
        size *= n;
    }
    return size == 1 ? 1 : step;
}

/* Writes " + number / rest % size * stride" for each axis of a mode. */
static void put_offset(dl_emitter *e, const gemm_problem *p, int operand, const mode *g,
                       const char *number) {
    int64_t rest = g->size;
    for (int i = 0; i < g->n && g->size; i++) { /* without K elements there is no address */
        int64_t size = axis_size(p, g->axis[i]), stride = p->stride[operand][g->axis[i]];
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
            e->k->name, operand ? "right" : "left");
    put_offset(e, p, operand, &p->batch, "batch");
    put_offset(e, p, operand, operand ? &p->column : &p->rows, "row");
    put_offset(e, p, operand, &p->terms, "term");
    dl_puts(e->out, ";\n}\n");
}

/* Writes "const long x2 = row / 4 % 3;" for the axes of a mode. */
static void put_coordinates(dl_emitter *e, const gemm_problem *p, const mode *g,
                            const char *number) {
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
        line ? "" : dl_emit_warmth(e), k->name, name);
    const char *sums = line ? "sums" : dl_emit_take_sums(e);
    dl_puts(e->out, "    for (long end = row + rows; row < end; row++, acc += PANEL) {\n");
    put_coordinates(e, p, &p->batch, "batch");
    put_coordinates(e, p, &p->rows, "row");
    dl_buf call = {0};
    dl_putf(&call, "%s_%s(arg, ", k->name, vector);
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
        if (!line && p->column.size % e->t->lanes)
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
    return dl_format(e->arena, "%s_fetch", e->k->name);
}

/* Is it a sum over the first axis of two matrices, as for a linear layer's weight? Then it is a
 * weight gradient of one tap. */
static bool is_gradient(const gemm_problem *p) {
    return p->batch.size == 1 && p->column.n && p->column.size > 0 && p->rows.size > 1 &&
           p->terms.size > 1 && p->column.size <= DL_MOST_PLACES &&
           p->rows.size <= DL_MOST_PLACES && p->terms.size <= DL_MOST_PLACES &&
           even_step(p, 0, &p->rows) == 1 && even_step(p, 0, &p->terms) == p->rows.size &&
           even_step(p, 1, &p->column) == 1 && even_step(p, 1, &p->terms) == p->column.size;
}

static void put_gradient(dl_emitter *e, const gemm_problem *p, dl_emitted *code) {
    const char *name = e->k->name;
    dl_wgrad_problem g = {
        .batch = 1, .nx = 1, .ny = 1, .channels = p->rows.size, .lanes = p->column.size};
    g.packs = side_type(p, 0) != DL_F32, g.pairs = dl_cpu_pairs(e->k, e->t);
    for (int i = 0; i < 3; i++) g.in[i] = g.out[i] = g.scale[i] = g.dilation[i] = g.kernel[i] = 1;
    g.in[2] = g.out[2] = p->terms.size;
    for (int i = 0; i < 2; i++)
        dl_putf(e->out, "static const struct part %s_%s[] = {{%d, %lld, %s}};\n", name,
                i ? "y" : "x", p->c->parts[p->side[i]][0],
                (long long)(i ? p->column.size : p->rows.size), dl_emit_element(side_type(p, i)));
    dl_putf(e->out,
            "static void %s_block(char *const *arg, long group, long panel, long panels, long row, "
            "long rows, "
            "const float *sum, long step, double *sums) {\n    (void)group;\n"
            "    long column = panel * PANEL, n = %lldL - column, most = panels * PANEL;\n"
            "    %s_rows(arg, sum, 0, row, rows, column, n < most ? n : most, step, sums);\n}\n",
            name, (long long)p->column.size, name);
    g.k_ranges = dl_find_k_ranges(e->arena, e->t, g.lanes, 1, g.channels);
    dl_emit_k_ranges(e, &g.k_ranges);
    dl_emit_wgrad(e, &g, code);
}

/* Are K elements taken as bf16 pairs (kernels/gemm.c)? */
static bool is_paired(const dl_emitter *e, const gemm_problem *p) {
    return dl_cpu_pairs(e->k, e->t) && p->terms.size > 1 && even_step(p, 0, &p->terms) == 1 &&
           (even_step(p, 1, &p->terms) == 1 || even_step(p, 1, &p->column) == 1);
}

/* Is it a weight gradient whose operands are packed once for all work items, in the order of AMX
 * tiles (kernels/amx.c)? Blocks of positions would give each tile few products, and write and
 * reread its sums. With many positions, packed operands would need more memory than the
 * operands. */
static bool is_amx_packed(const dl_emitter *e, const gemm_problem *p) {
    enum { MOST_PACKED = 32 << 20 };
    return e->t->tiles && dl_cpu_pairs(e->k, e->t) && is_gradient(p) &&
           p->terms.size * (p->rows.size + p->column.size) * 2 <= MOST_PACKED;
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
    const char *name = e->k->name;
    bool by_amx_packed = is_amx_packed(e, p), pairs = by_amx_packed || is_paired(e, p),
         tiles = pairs && e->t->tiles;
    put_at(e, p, 0);
    put_at(e, p, 1);
    int64_t panels = dl_ceil_div(p->column.size, e->t->panel),
            item_rows = tiles ? DL_AMX_ROWS : e->t->row_block,
            blocks = dl_ceil_div(p->rows.size, item_rows), groups = 1;
    while (groups < panels && (tiles ? dl_ceil_div(panels, groups) * e->t->panel *
                                               (p->terms.size * 2 + DL_AMX_ROWS * 4) >
                                           TILES_STAY
                                     : p->batch.size * blocks * groups < ITEMS))
        groups++;
    int64_t item_panels = dl_ceil_div(panels ? panels : 1, groups),
            left_step = even_step(p, 0, &p->terms);
    bool direct =
        pairs ? tiles || p->terms.size % 2 == 0 : left_step == 1 && side_type(p, 0) == DL_F32;
    const char *prefetch = tiles ? "0" : put_prefetch(e, p); /* AMX strips prefetch nothing */
    bool packed_before = !direct && side_type(p, 0) != DL_F32 && groups > FEW;
    int64_t terms = by_amx_packed ? dl_ceil_div(p->terms.size, DL_AMX_ROWS) * (DL_AMX_ROWS / 2)
                                  : dl_ceil_div(p->terms.size, pairs ? 2 : 1),
            left_floats = p->batch.size * (by_amx_packed   ? blocks * DL_AMX_ROWS * terms
                                           : packed_before ? p->rows.size * terms
                                                           : 0),
            panel_floats = panels * terms * e->t->panel,
            right_floats = p->batch.size * panel_floats;
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
            name, (long long)p->batch.size, (long long)p->rows.size, (long long)p->column.size,
            (long long)terms, pairs, (long long)p->terms.size, by_amx_packed,
            p->c->parts[p->side[0]][0], dl_emit_element(side_type(p, 0)),
            p->c->parts[p->side[1]][0], dl_emit_element(side_type(p, 1)), direct,
            (long long)(left_floats ? right_floats : 0), (long long)left_step,
            (long long)even_step(p, 1, &p->terms), (long long)even_step(p, 0, &p->rows),
            (long long)even_step(p, 1, &p->column), name, name, prefetch, (long long)item_rows,
            (long long)item_panels, panel_floats * 4 <= PANELS_STAY);
    code->phases = 2;
    code->items[0] = by_amx_packed ? p->batch.size * terms / (DL_AMX_ROWS / 2)
                                   : p->batch.size * (panels + (packed_before ? blocks : 0));
    code->items[1] = p->batch.size * blocks * dl_ceil_div(panels, item_panels);
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
                (long long)(p->batch.size * panels), name, (long long)(p->batch.size * panels));
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
    e->lane_axis = p.column.n ? p.column.axis[0] : -1, e->flat = false;
    e->mode = p.column.n ? DL_LANES : DL_SINGLE;
    dl_emit_find_partial(e, 0, NULL); /* of sums that keep no axis */
    bool gradient = is_gradient(&p);
    /* the next row of a weight and of its optimiser state */
    e->prefetch = gradient && !is_amx_packed(e, &p) ? p.column.size : 0;
    put_epilogue(e, &p);
    e->prefetch = 0;
    (gradient && !is_amx_packed(e, &p) ? put_gradient : put_gemm)(e, &p, code);
    return dl_emit_loop_nests(e, 1, code, err);
}

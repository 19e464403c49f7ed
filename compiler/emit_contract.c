/* Kernels around a contraction by windows: constant tables for the loops of compiler/kernels/contract.c,
 * weight.c and fold.c, and the rest of the kernel as the function that finishes one output position. */
#include "compiler/emit_windows.h"

static void put_conv(dl_emitter *e, const dl_shape *s, dl_emitted *code) {
    const char *name = e->k->name;
    dl_tables t = dl_emit_tables(e, s);
    dl_emit_image_shape(e, s, t.positions);
    dl_emit_point(e);
    bool gathered = s->c->nparts[s->image] == 1 && s->summed < DL_PACK_BELOW && s->taps > 1;
    int64_t rows = s->batch * s->y[0] * s->y[1] * s->y[2];
    code->units[0] = gathered ? dl_ceil_div(rows, DL_PACK_ROWS) : t.units;
    code->scratch = dl_emit_rows_scratch(e->t);
    if (gathered)
        code->scratch = DL_ROW_BLOCK * DL_ROW_BYTES +
                        (DL_PACK_ROWS * (e->t->panel + s->taps * s->summed) + e->t->lanes) * 4;
    dl_emit_head(e, 0);
    dl_emit_sums(e, code->units[0], code);
    dl_putf(e->out, "    const float *w = (const float *)arg[%d];\n", s->c->parts[s->weight][0]);
    if (gathered)
        dl_putf(e->out, "    gathered_unit(&%s_shape, arg, w, %lldL, unit, scratch, %s_point, sums);\n}\n",
                name, (long long)(s->dilation[2] == 1 ? s->kernel[2] : 1), name);
    else
        dl_putf(e->out, "    rows_unit(&%s_shape, arg, w, 0, unit, scratch, %s_point, sums);\n}\n", name,
                name);
}

static void put_by_parity(dl_emitter *e, const dl_shape *s, dl_emitted *code) {
    const char *name = e->k->name;
    dl_tables t = dl_emit_tables(e, s);
    dl_emit_image_shape(e, s, t.positions);
    dl_emit_point(e);
    code->units[0] = t.units;
    code->scratch = dl_emit_rows_scratch(e->t);
    dl_emit_head(e, 0);
    dl_emit_sums(e, code->units[0], code);
    dl_putf(e->out,
            "    rows_unit(&%s_shape, arg, (const float *)arg[%d], 1, unit, scratch, %s_point, sums);\n}\n",
            name, s->c->parts[s->weight][0], name);
}

/* A transposed convolution into few channels: parities become columns. */
static bool is_folded(const dl_emitter *e, const dl_shape *s) {
    int64_t parities = s->stride[0] * s->stride[1] * s->stride[2];
    bool spread = s->dilation[0] > 1 || s->dilation[1] > 1 || s->dilation[2] > 1;
    return !spread && parities > 1 && parities <= 64 && 2 * e->k->space[1].size <= e->t->panel;
}

static void put_folded(dl_emitter *e, const dl_shape *s, dl_emitted *code) {
    const char *name = e->k->name;
    int64_t one[3] = {1, 1, 1}, channels = e->k->space[1].size,
            parities = s->stride[0] * s->stride[1] * s->stride[2];
    int64_t columns = dl_ceil_div(parities * channels, e->t->panel), low[3], count[3], most[3], taps;
    for (int a = 0; a < 3;
         a++) { /* rows low + j, such that every parity reads the inputs at row, row - 1, ... */
        int64_t lo = INT64_MAX, hi = INT64_MIN;
        most[a] = 0;
        for (int64_t q = 0; q < s->stride[a]; q++) {
            dl_parity p = dl_shape_parity(s, a, q);
            if (p.base < lo) lo = p.base;
            if (p.count && p.base + p.count > hi) hi = p.base + p.count;
            if (p.taps > most[a]) most[a] = p.taps;
        }
        low[a] = lo, count[a] = hi > lo ? hi - lo : 0;
    }
    taps = most[0] * most[1] * most[2];
    dl_emit_parts(e, s->c, s->image, "parts");
    dl_putf(e->out, "static const struct tap %s_taps[] = {", name);
    for (int64_t i = 0; i < taps; i++)
        dl_putf(e->out, "{0, {%lld, %lld, %lld}}, ", (long long)(low[0] - i / (most[1] * most[2])),
                (long long)(low[1] - i / most[2] % most[1]), (long long)(low[2] - i % most[2]));
    dl_putf(e->out, "};\nstatic const struct positions %s_positions[] = {{", name);
    dl_emit_three(e->out, "count", count), dl_emit_three(e->out, "step", one),
        dl_emit_three(e->out, "shift", low);
    dl_putf(e->out, ".taps = %lld}};\nstatic const struct positions %s_parities[] = {\n", (long long)taps,
            name);
    dl_buf map = {0};
    for (int64_t q = 0; q < parities; q++) {
        dl_parity p[3] = {dl_shape_parity(s, 0, q / (s->stride[1] * s->stride[2])),
                          dl_shape_parity(s, 1, q / s->stride[2] % s->stride[1]),
                          dl_shape_parity(s, 2, q % s->stride[2])};
        int64_t shift[3];
        for (int a = 0; a < 3; a++) shift[a] = p[a].shift - s->stride[a] * p[a].base;
        dl_puts(e->out, "{");
        dl_emit_three(e->out, "step", s->stride), dl_emit_three(e->out, "shift", shift);
        dl_puts(e->out, "},\n");
        for (int64_t i = 0; i < taps; i++) {
            int64_t t[3] = {i / (most[1] * most[2]), i / most[2] % most[1], i % most[2]}, w = 0;
            bool has = true;
            for (int a = 0; a < 3; a++)
                has &= t[a] < p[a].taps, w = w * s->kernel[a] + p[a].first + t[a] * p[a].step;
            dl_putf(&map, "%lld, ", has ? (long long)w : -1LL);
        }
    }
    dl_putf(e->out, "};\nstatic const int %s_tap_of[] = {%s};\n", name, map.at);
    dl_buf_free(&map);
    int64_t reduced = s->summed, panels = dl_ceil_div(reduced, e->t->panel),
            rows = s->batch * count[0] * count[1] * count[2];
    dl_emit_shape(e, s, s->y, s->x, one, columns * e->t->panel, columns, 1);
    dl_emit_point(e);
    dl_putf(e->out,
            "static const struct fold %s_fold = {&%s_shape, %lld, %lld, %lld, %s_parities, %s_tap_of};\n",
            name, name, (long long)parities, (long long)channels, (long long)panels, name, name);
    dl_emit_head(e, 0);
    dl_putf(e->out, "    fold_weight(&%s_fold, (const float *)arg[%d], unit, (float *)workspace);\n}\n", name,
            s->c->parts[s->weight][0]);
    code->workspace = columns * taps * reduced * e->t->panel * 4;
    code->phases = 2;
    code->units[0] = panels, code->units[1] = dl_ceil_div(rows, DL_ROW_BLOCK);
    dl_emit_head(e, 1);
    dl_emit_sums(e, code->units[1], code);
    dl_putf(e->out,
            "    fold_unit(&%s_fold, arg, (const float *)workspace, unit, scratch, %s_point, sums);\n}\n",
            name, name);
    code->scratch = (columns * DL_ROW_BLOCK + columns + 1) * e->t->panel * 4 + DL_ROW_BLOCK * DL_ROW_BYTES;
}

enum { GRAD_INTS = 8 }; /* of struct grad_scratch, a position */

/* Units of a weight gradient: either groups and panels, together as much as the accumulators may hold, but
 * enough units to share; or, where the accumulators hold all of them, shares of the positions, so that the
 * operands are read and packed once. */
typedef struct {
    int64_t run, rows, groups, panels, unit_groups, unit_panels, shares;
} grad_units;

static grad_units find_grad_units(const dl_target *t, const dl_shape *s) {
    enum { UNITS = 32 };
    bool runs = s->weight_c < DL_RUN_BELOW && s->dilation[2] == 1;
    grad_units u = {.run = runs ? s->kernel[2] : 1, .shares = 1};
    u.groups = s->taps / u.run, u.rows = u.run * s->weight_c, u.panels = dl_ceil_div(s->weight_o, t->panel);
    int64_t most = DL_GRAD_ACC / (u.rows * t->panel * 4), lines = s->batch * s->y[0] * s->y[1];
    u.unit_groups = u.run > 1 ? s->kernel[1] : s->kernel[2], u.unit_panels = u.panels;
    if (u.groups * u.panels <= most && lines >= UNITS) {
        u.unit_groups = u.groups, u.shares = UNITS;
        return u;
    }
    while (u.unit_panels > 1 && (u.unit_groups * u.unit_panels > most ||
                                 u.groups / u.unit_groups * dl_ceil_div(u.panels, u.unit_panels) < UNITS))
        u.unit_panels = dl_ceil_div(u.unit_panels, 2);
    if (u.unit_groups > most) u.unit_groups = 1;
    return u;
}

/* Phase 0: a share of the positions each; phase 1: their sums, a group each. */
static void put_grad_shares(dl_emitter *e, const dl_shape *s, const grad_units *u, dl_emitted *code) {
    const char *name = e->k->name;
    int64_t block = u->rows * e->t->panel, size = u->groups * u->panels * block,
            lines = s->batch * s->y[0] * s->y[1];
    dl_emit_head(e, 0);
    dl_putf(
        e->out,
        "    gradient_unit(&%s_shape, arg, 0, 0, %lldL, unit * %lldL / %lldL, (unit + 1) * %lldL / %lldL, "
        "scratch, (float *)workspace + unit * %lldL);\n}\n",
        name, (long long)u->panels, (long long)lines, (long long)u->shares, (long long)lines,
        (long long)u->shares, (long long)size);
    dl_emit_head(e, 1);
    dl_putf(e->out,
            "    float acc[LANES];\n    double *sums = 0;\n"
            "    for (long p = 0; p < %lldL; p++)\n"
            "        for (long i = 0; i < %lldL; i += LANES) {\n"
            "            st(acc, add_shares((float *)workspace + (unit * %lldL + p) * %lldL + i, %lldL, "
            "%lldL));\n"
            "            %s_body(arg, (p * %lldL + unit) * %lldL + i, LANES, acc, sums);\n        }\n}\n",
            (long long)u->panels, (long long)block, (long long)u->panels, (long long)block, (long long)size,
            (long long)u->shares, name, (long long)u->groups, (long long)block);
    code->phases = 2, code->units[0] = u->shares, code->units[1] = u->groups;
    code->workspace = u->shares * size * 4;
}

static void put_grad_weight(dl_emitter *e, const dl_shape *s, dl_emitted *code) {
    const char *name = e->k->name;
    grad_units u = find_grad_units(e->t, s);
    int64_t block = u.rows * e->t->panel;
    int x = dl_op_place(s->c->op, DL_TENSOR_X), y = dl_op_place(s->c->op, DL_TENSOR_Y);
    dl_emit_parts(e, s->c, x, "x");
    dl_emit_parts(e, s->c, y, "y");
    dl_putf(e->out, "static const struct weight_gradient %s_shape = {.batch = %lld, ", name,
            (long long)s->batch);
    dl_emit_three(e->out, "in", s->x), dl_emit_three(e->out, "out", s->y),
        dl_emit_three(e->out, "scale", s->stride);
    dl_emit_three(e->out, "dilation", s->dilation), dl_emit_three(e->out, "pad", s->pad);
    dl_emit_three(e->out, "kernel", s->kernel);
    dl_putf(e->out, ".nx = %d, .ny = %d, .x = %s_x, .y = %s_y, .channels = %lld, .run = %lld, .rows = %lld, ",
            s->c->nparts[x], s->c->nparts[y], name, name, (long long)s->weight_c, (long long)u.run,
            (long long)u.rows);
    dl_putf(e->out, ".unit_groups = %lld, .panels = %lld, .unit_panels = %lld};\n", (long long)u.unit_groups,
            (long long)u.panels, (long long)u.unit_panels);
    code->grad_rows =
        (u.rows >= e->t->rows ? 1u << e->t->rows : 0) | (u.rows % e->t->rows ? 1u << u.rows % e->t->rows : 0);
    int64_t packed = DL_M_BLOCK * GRAD_INTS + dl_ceil_div(u.rows, e->t->rows) * e->t->rows * DL_M_BLOCK +
                     u.unit_panels * DL_M_BLOCK * e->t->panel;
    e->flat = true;
    dl_emit_body(e);
    dl_putf(e->out, "_Static_assert(sizeof(struct grad_scratch) == %d, \"scratch\");\n",
            DL_M_BLOCK * GRAD_INTS * 4);
    if (u.shares > 1) {
        code->scratch = packed * 4;
        put_grad_shares(e, s, &u, code);
        return;
    }
    dl_emit_head(e, 0);
    int64_t group_units = u.groups / u.unit_groups;
    dl_putf(e->out,
            "    long group = unit %% %lldL * %lldL, panel = unit / %lldL * %lldL, panels = %lldL - panel < "
            "%lldL ? %lldL - panel : %lldL;\n"
            "    const struct weight_gradient *s = &%s_shape;\n"
            "    float *acc = unit_sums(s, (struct grad_scratch *)scratch);\n"
            "    gradient_unit(s, arg, group, panel, panels, 0, %lldL, scratch, acc);\n"
            "    double *sums = 0;\n"
            "    for (long p = 0; p < panels; p++)\n"
            "        for (long g = 0; g < %lldL; g++)\n"
            "            for (long i = 0; i < %lldL; i += LANES)\n"
            "                %s_body(arg, ((panel + p) * %lldL + group + g) * %lldL + i, LANES, acc + (g * "
            "%lldL + p) * %lldL + i, sums);\n}\n",
            (long long)group_units, (long long)u.unit_groups, (long long)group_units,
            (long long)u.unit_panels, (long long)u.panels, (long long)u.unit_panels, (long long)u.panels,
            (long long)u.unit_panels, name, (long long)(s->batch * s->y[0] * s->y[1]),
            (long long)u.unit_groups, (long long)block, name, (long long)u.groups, (long long)block,
            (long long)u.unit_panels, (long long)block);
    code->units[0] = group_units * dl_ceil_div(u.panels, u.unit_panels);
    code->scratch = (packed + u.unit_groups * u.unit_panels * block) * 4;
}

static void put_grad_input(dl_emitter *e, const dl_shape *s, dl_emitted *code) {
    (is_folded(e, s) ? put_folded : put_by_parity)(e, s, code);
}

typedef void put_family(dl_emitter *e, const dl_shape *s, dl_emitted *code);
static put_family *const families[DL_NTENSORS] = {/* by what is made */
                                                  [DL_TENSOR_X] = put_grad_input,
                                                  [DL_TENSOR_W] = put_grad_weight,
                                                  [DL_TENSOR_Y] = put_conv};

bool dl_emit_contraction(dl_emitter *e, dl_emitted *code, dl_error *err) {
    const dl_kinstr *c = &e->k->instrs.at[dl_kernel_anchor(e->k)];
    dl_shape s = dl_shape_find(e->k, c);
    e->mode = DL_LANES, e->lane_axis = 1, e->flat = false;
    int order[DL_MAX_RANK];
    for (int i = 0; i < e->k->nspace; i++)
        order[i] = i == 0 ? 0 : i + 1 < e->k->nspace ? i + 1 : 1; /* channels last */
    dl_emit_find_partial(e, e->k->nspace, order);
    code->phases = 1, code->contracts = true;
    (c->windows.groups > 1 ? dl_emit_groups : families[dl_op_tensor(c->op, DL_RESULT_PLACE)])(e, &s, code);
    return dl_emit_sweeps(e, 1, code, err);
}

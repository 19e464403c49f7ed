/* Kernels around a contraction: constant tables for the loops of compiler/kernels/contract.c and fold.c, and
 * the rest of the kernel as the function that finishes one output position. */
#include "compiler/emit_cpu.h"

/* A contraction with its spatial axes as three (missing ones of size 1 in front). */
typedef struct {
    const dl_kinstr *c;
    const dl_kernel *k;
    int64_t stride[3], pad[3], kernel[3];
    int64_t x[3], y[3]; /* spatial sizes on the input's and on the output's side of the convolution */
    int64_t batch, weight_o, weight_c, taps;
} shape3;

typedef struct {
    int64_t count, shift, first, taps,
        base; /* of one axis: positions q + step * j; their taps first, first + step, ... */
} parity;

static const dl_type *part_type(const dl_kernel *k, const dl_kinstr *c, int operand, int part) {
    return &k->params.at[c->parts[operand][part]].type;
}

static shape3 find_shape(const dl_kernel *k, const dl_kinstr *c) {
    shape3 s = {.c = c, .k = k};
    int lead = 3 - c->spatial;
    for (int i = 0; i < 3; i++) {
        bool real = i >= lead;
        int a = i - lead, t = 2 + a; /* spatial axis; its place in a type */
        s.stride[i] = real ? c->stride[a] : 1, s.pad[i] = real ? c->pad_lo[a] : 0;
        s.x[i] = s.y[i] = s.kernel[i] = 1;
        if (!real) continue;
        if (c->op == DL_OP_conv_grad_weight) {
            s.x[i] = part_type(k, c, 0, 0)->axis[t].size;
            s.y[i] = part_type(k, c, 1, 0)->axis[t].size;
            s.kernel[i] = k->space[t].size;
        } else {
            bool forward = c->op == DL_OP_conv;
            s.kernel[i] = part_type(k, c, 1, 0)->axis[t].size;
            s.x[i] = forward ? part_type(k, c, 0, 0)->axis[t].size : k->space[t].size;
            s.y[i] = forward ? k->space[t].size : part_type(k, c, 0, 0)->axis[t].size;
        }
    }
    s.batch = part_type(k, c, 0, 0)->axis[0].size;
    s.taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
    if (c->op == DL_OP_conv_grad_weight)
        s.weight_o = k->space[0].size, s.weight_c = k->space[1].size;
    else
        s.weight_o = part_type(k, c, 1, 0)->axis[0].size, s.weight_c = part_type(k, c, 1, 0)->axis[1].size;
    return s;
}

static parity find_parity(const shape3 *s, int axis, int64_t q) {
    int64_t step = s->stride[axis], first = (q + s->pad[axis]) % step;
    parity p = {.shift = q, .first = first, .base = (q + s->pad[axis] - first) / step};
    p.count = s->x[axis] > q ? dl_ceil_div(s->x[axis] - q, step) : 0;
    p.taps = s->kernel[axis] > first ? dl_ceil_div(s->kernel[axis] - first, step) : 0;
    return p;
}

static void put3(dl_buf *out, const char *name, const int64_t *v) {
    dl_putf(out, ".%s = {%lld, %lld, %lld}, ", name, (long long)v[0], (long long)v[1], (long long)v[2]);
}

static void put_parts(dl_emitter *e, const dl_kinstr *c, int operand, const char *name) {
    dl_putf(e->out, "static const struct part %s_%s[] = {", e->k->name, name);
    for (int i = 0; i < c->nparts[operand]; i++)
        dl_putf(e->out, "{%d, %lld}, ", c->parts[operand][i],
                (long long)part_type(e->k, c, operand, i)->axis[1].size);
    dl_puts(e->out, "};\n");
}

static int64_t summed_channels(const dl_kernel *k, const dl_kinstr *c) {
    int64_t n = 0;
    for (int i = 0; i < c->nparts[0]; i++) n += part_type(k, c, 0, i)->axis[1].size;
    return n;
}

/* ---- what stands behind the sum ---- */

static void put_body(dl_emitter *e, const char *head) {
    const dl_kernel *k = e->k;
    dl_putf(e->out, "INLINE void %s_body(char *const *arg, ", k->name);
    for (int i = 0; i < (e->flat ? 1 : k->nspace); i++) dl_putf(e->out, "long x%d, ", i);
    dl_puts(e->out, "long n, const float *acc, double *sums) {\n    (void)arg, (void)n, (void)sums");
    for (int i = 0; i < (e->flat ? 1 : k->nspace); i++) dl_putf(e->out, ", (void)x%d", i);
    dl_puts(e->out, ";\n");
    int end = dl_kernel_first_reduction(k);
    while (end < k->instrs.n && k->instrs.at[end].kind == DL_K_REDUCE) end++;
    dl_emit_program(e, 0, end);
    dl_puts(e->out, "}\n");
    dl_puts(e->out, head);
}

static void put_point(dl_emitter *e) {
    const dl_kernel *k = e->k;
    dl_buf call = {0};
    dl_putf(&call, "%s_body(arg, at[0], channel + i, ", k->name);
    for (int i = 2; i < k->nspace; i++) dl_putf(&call, "at[%d], ", i + 4 - k->nspace);
    put_body(e, "");
    dl_putf(e->out,
            "static void %s_point(char *const *arg, const float *acc, const long at[4], long channel, long "
            "n, double *sums) {\n"
            "    long i = 0;\n    for (; i + LANES <= n; i += LANES) %sLANES, acc + i, sums);\n",
            k->name, call.at);
    if (k->space[1].size % e->t->lanes) dl_putf(e->out, "    if (i < n) %sn - i, acc + i, sums);\n", call.at);
    dl_puts(e->out, "}\n");
    dl_buf_free(&call);
}

static void put_head(dl_emitter *e, int phase) {
    dl_putf(e->out,
            "void %s_%d(char *const *arg, long unit, char *scratch, char *workspace) {\n    (void)scratch, "
            "(void)workspace;\n",
            e->k->name, phase);
}

/* Partial sums lie behind what else the kernel keeps in the workspace. */
static void put_sums(dl_emitter *e, int64_t at) {
    dl_putf(e->out, "    double *sums = (double *)(workspace + %lldL) + unit * %lldL;\n    (void)sums;\n",
            (long long)at, (long long)dl_emit_partial(e));
    if (dl_emit_partial(e)) dl_emit_clear_sums(e);
}

static void finish(dl_emitter *e, dl_emitted *code) {
    int64_t units = code->units[code->phases - 1], at = code->workspace;
    code->workspace += dl_emit_partial(e) * units * (int64_t)sizeof(double);
    if (dl_kernel_reduced(e->k)) dl_emit_reduced_phase(e, units, at, code);
}

/* ---- the three families ---- */

enum { ROW_BYTES = 8 * 4 }; /* of struct rows, a row */

static int64_t rows_scratch(const dl_target *t) {
    return (2 * DL_ROW_BLOCK + DL_K_BLOCK) * t->panel * 4 + DL_ROW_BLOCK * ROW_BYTES;
}

static void put_contraction(dl_emitter *e, const shape3 *s, const int64_t *in, const int64_t *out,
                            const int64_t *scale, int64_t channels, int64_t columns, int positions) {
    const char *name = e->k->name;
    dl_putf(e->out, "static const struct contraction %s_shape = {.batch = %lld, ", name, (long long)s->batch);
    put3(e->out, "in", in), put3(e->out, "out", out), put3(e->out, "scale", scale);
    dl_putf(e->out,
            ".channels = %lld, .reduced = %lld, .columns = %lld, .weight = %d, .weight_taps = %lld, "
            ".weight_start = %lld, .weight_channels = %lld, ",
            (long long)channels, (long long)summed_channels(e->k, s->c), (long long)columns,
            s->c->parts[1][0], (long long)s->taps, (long long)(s->c->w_start / e->t->panel),
            (long long)s->weight_c);
    dl_putf(
        e->out,
        ".nparts = %d, .npositions = %d, .part = %s_parts, .positions = %s_positions, .taps = %s_taps};\n",
        s->c->nparts[0], positions, name, name, name);
}

static void put_conv(dl_emitter *e, const shape3 *s, dl_emitted *code) {
    const char *name = e->k->name;
    int64_t one[3] = {1, 1, 1};
    put_parts(e, s->c, 0, "parts");
    dl_putf(e->out, "static const struct tap %s_taps[] = {\n", name);
    for (int64_t i = 0; i < s->taps; i++) {
        int64_t at[3] = {i / (s->kernel[1] * s->kernel[2]), i / s->kernel[2] % s->kernel[1],
                         i % s->kernel[2]};
        dl_putf(e->out, "{%lld, {%lld, %lld, %lld}},%s", (long long)i, (long long)(at[0] - s->pad[0]),
                (long long)(at[1] - s->pad[1]), (long long)(at[2] - s->pad[2]), i % 4 == 3 ? "\n" : " ");
    }
    dl_putf(e->out, "};\nstatic const struct positions %s_positions[] = {{", name);
    put3(e->out, "count", s->y), put3(e->out, "step", one);
    dl_putf(e->out, ".taps = %lld}};\n", (long long)s->taps);
    int64_t channels = e->k->space[1].size, columns = dl_ceil_div(channels, e->t->panel),
            rows = s->batch * s->y[0] * s->y[1] * s->y[2];
    put_contraction(e, s, s->x, s->y, s->stride, channels, columns, 1);
    put_point(e);
    bool gathered = s->c->nparts[0] == 1 && summed_channels(e->k, s->c) < DL_PACK_BELOW && s->taps > 1;
    code->units[0] = gathered ? dl_ceil_div(rows, DL_PACK_ROWS) : dl_ceil_div(rows, DL_ROW_BLOCK) * columns;
    code->scratch = rows_scratch(e->t);
    if (gathered)
        code->scratch =
            DL_ROW_BLOCK * ROW_BYTES +
            (DL_PACK_ROWS * (e->t->panel + s->taps * summed_channels(e->k, s->c)) + e->t->lanes) * 4;
    put_head(e, 0);
    put_sums(e, 0);
    dl_putf(e->out, "    const float *w = (const float *)arg[%d];\n", s->c->parts[1][0]);
    if (gathered)
        dl_putf(e->out, "    gathered_unit(&%s_shape, arg, w, %lldL, unit, scratch, %s_point, sums);\n}\n",
                name, (long long)s->kernel[2], name);
    else
        dl_putf(e->out, "    rows_unit(&%s_shape, arg, w, 0, unit, scratch, %s_point, sums);\n}\n", name,
                name);
    finish(e, code);
}

static void put_grad_input(dl_emitter *e, const shape3 *s, dl_emitted *code) {
    const char *name = e->k->name;
    int64_t one[3] = {1, 1, 1}, channels = e->k->space[1].size, columns = dl_ceil_div(channels, e->t->panel),
            units = 0;
    dl_buf positions = {0};
    int npositions = 0, first = 0;
    put_parts(e, s->c, 0, "parts");
    dl_putf(e->out, "static const struct tap %s_taps[] = {\n", name);
    for (int64_t q = 0; q < s->stride[0] * s->stride[1] * s->stride[2]; q++) {
        parity p[3] = {find_parity(s, 0, q / (s->stride[1] * s->stride[2])),
                       find_parity(s, 1, q / s->stride[2] % s->stride[1]),
                       find_parity(s, 2, q % s->stride[2])};
        int64_t count[3] = {p[0].count, p[1].count, p[2].count},
                shift[3] = {p[0].shift, p[1].shift, p[2].shift};
        int64_t taps = p[0].taps * p[1].taps * p[2].taps;
        for (int64_t i = 0; i < taps; i++) {
            int64_t t[3] = {i / (p[1].taps * p[2].taps), i / p[2].taps % p[1].taps, i % p[2].taps}, w = 0;
            for (int a = 0; a < 3; a++) w = w * s->kernel[a] + p[a].first + t[a] * s->stride[a];
            dl_putf(e->out, "{%lld, {%lld, %lld, %lld}},%s", (long long)w, (long long)(p[0].base - t[0]),
                    (long long)(p[1].base - t[1]), (long long)(p[2].base - t[2]), i % 4 == 3 ? "\n" : " ");
        }
        dl_puts(&positions, "{");
        put3(&positions, "count", count), put3(&positions, "step", s->stride),
            put3(&positions, "shift", shift);
        dl_putf(&positions, ".first_tap = %d, .taps = %lld},\n", first, (long long)taps);
        units += dl_ceil_div(s->batch * count[0] * count[1] * count[2], DL_ROW_BLOCK) * columns;
        first += (int)taps, npositions++;
    }
    if (!first) dl_puts(e->out, "{0, {0, 0, 0}}");
    dl_putf(e->out, "};\nstatic const struct positions %s_positions[] = {\n%s};\n", name, positions.at);
    dl_buf_free(&positions);
    put_contraction(e, s, s->y, s->x, one, channels, columns, npositions);
    put_point(e);
    code->units[0] = units;
    code->scratch = rows_scratch(e->t);
    put_head(e, 0);
    put_sums(e, 0);
    dl_putf(e->out,
            "    rows_unit(&%s_shape, arg, (const float *)arg[%d], 1, unit, scratch, %s_point, sums);\n}\n",
            name, s->c->parts[1][0], name);
    finish(e, code);
}

/* A transposed convolution into few channels: parities become columns. */
static bool is_folded(const dl_emitter *e, const shape3 *s) {
    int64_t parities = s->stride[0] * s->stride[1] * s->stride[2];
    return s->c->op == DL_OP_conv_grad_input && parities > 1 && parities <= 64 &&
           2 * e->k->space[1].size <= e->t->panel;
}

static void put_folded(dl_emitter *e, const shape3 *s, dl_emitted *code) {
    const char *name = e->k->name;
    int64_t one[3] = {1, 1, 1}, channels = e->k->space[1].size,
            parities = s->stride[0] * s->stride[1] * s->stride[2];
    int64_t columns = dl_ceil_div(parities * channels, e->t->panel), low[3], count[3], most[3], taps;
    for (int a = 0; a < 3;
         a++) { /* rows low + j, such that every parity reads the inputs at row, row - 1, ... */
        int64_t lo = INT64_MAX, hi = INT64_MIN;
        most[a] = 0;
        for (int64_t q = 0; q < s->stride[a]; q++) {
            parity p = find_parity(s, a, q);
            if (p.base < lo) lo = p.base;
            if (p.count && p.base + p.count > hi) hi = p.base + p.count;
            if (p.taps > most[a]) most[a] = p.taps;
        }
        low[a] = lo, count[a] = hi > lo ? hi - lo : 0;
    }
    taps = most[0] * most[1] * most[2];
    put_parts(e, s->c, 0, "parts");
    dl_putf(e->out, "static const struct tap %s_taps[] = {", name);
    for (int64_t i = 0; i < taps; i++)
        dl_putf(e->out, "{0, {%lld, %lld, %lld}}, ", (long long)(low[0] - i / (most[1] * most[2])),
                (long long)(low[1] - i / most[2] % most[1]), (long long)(low[2] - i % most[2]));
    dl_putf(e->out, "};\nstatic const struct positions %s_positions[] = {{", name);
    put3(e->out, "count", count), put3(e->out, "step", one), put3(e->out, "shift", low);
    dl_putf(e->out, ".taps = %lld}};\nstatic const struct positions %s_parities[] = {\n", (long long)taps,
            name);
    dl_buf map = {0};
    for (int64_t q = 0; q < parities; q++) {
        parity p[3] = {find_parity(s, 0, q / (s->stride[1] * s->stride[2])),
                       find_parity(s, 1, q / s->stride[2] % s->stride[1]),
                       find_parity(s, 2, q % s->stride[2])};
        int64_t shift[3];
        for (int a = 0; a < 3; a++) shift[a] = p[a].shift - s->stride[a] * p[a].base;
        dl_puts(e->out, "{");
        put3(e->out, "step", s->stride), put3(e->out, "shift", shift);
        dl_puts(e->out, "},\n");
        for (int64_t i = 0; i < taps; i++) {
            int64_t t[3] = {i / (most[1] * most[2]), i / most[2] % most[1], i % most[2]}, w = 0;
            bool has = true;
            for (int a = 0; a < 3; a++)
                has &= t[a] < p[a].taps, w = w * s->kernel[a] + p[a].first + t[a] * s->stride[a];
            dl_putf(&map, "%lld, ", has ? (long long)w : -1LL);
        }
    }
    dl_putf(e->out, "};\nstatic const int %s_tap_of[] = {%s};\n", name, map.at);
    dl_buf_free(&map);
    int64_t reduced = summed_channels(e->k, s->c), panels = dl_ceil_div(reduced, e->t->panel),
            rows = s->batch * count[0] * count[1] * count[2];
    put_contraction(e, s, s->y, s->x, one, columns * e->t->panel, columns, 1);
    put_point(e);
    dl_putf(e->out,
            "static const struct fold %s_fold = {&%s_shape, %lld, %lld, %lld, %s_parities, %s_tap_of};\n",
            name, name, (long long)parities, (long long)channels, (long long)panels, name, name);
    put_head(e, 0);
    dl_putf(e->out, "    fold_weight(&%s_fold, (const float *)arg[%d], unit, (float *)workspace);\n}\n", name,
            s->c->parts[1][0]);
    code->workspace = columns * taps * reduced * e->t->panel * 4;
    put_head(e, 1);
    put_sums(e, code->workspace);
    dl_putf(e->out,
            "    fold_unit(&%s_fold, arg, (const float *)workspace, unit, scratch, %s_point, sums);\n}\n",
            name, name);
    code->phases = 2;
    code->units[0] = panels, code->units[1] = dl_ceil_div(rows, DL_ROW_BLOCK);
    code->scratch = (columns * DL_ROW_BLOCK + columns + 1) * e->t->panel * 4 + DL_ROW_BLOCK * ROW_BYTES;
    finish(e, code);
}

/* Groups and panels of a unit: together as much as the accumulators may hold, but enough units to share. */
static void put_grad_weight(dl_emitter *e, const shape3 *s, dl_emitted *code) {
    enum { UNITS = 32 };
    const char *name = e->k->name;
    int64_t run = s->weight_c < DL_RUN_BELOW ? s->kernel[2] : 1, groups = s->taps / run,
            rows = run * s->weight_c;
    int64_t panels = dl_ceil_div(s->weight_o, e->t->panel), block = rows * e->t->panel,
            most = DL_GRAD_ACC / (block * 4);
    int64_t unit_groups = run > 1 ? s->kernel[1] : s->kernel[2], unit_panels = panels;
    while (unit_panels > 1 && (unit_groups * unit_panels > most ||
                               groups / unit_groups * dl_ceil_div(panels, unit_panels) < UNITS))
        unit_panels = dl_ceil_div(unit_panels, 2);
    if (unit_groups > most) unit_groups = 1;
    put_parts(e, s->c, 0, "x");
    put_parts(e, s->c, 1, "y");
    dl_putf(e->out, "static const struct weight_gradient %s_shape = {.batch = %lld, ", name,
            (long long)s->batch);
    put3(e->out, "in", s->x), put3(e->out, "out", s->y), put3(e->out, "scale", s->stride);
    put3(e->out, "pad", s->pad), put3(e->out, "kernel", s->kernel);
    dl_putf(e->out, ".nx = %d, .ny = %d, .x = %s_x, .y = %s_y, .channels = %lld, .run = %lld, .rows = %lld, ",
            s->c->nparts[0], s->c->nparts[1], name, name, (long long)s->weight_c, (long long)run,
            (long long)rows);
    dl_putf(e->out, ".unit_groups = %lld, .panels = %lld, .unit_panels = %lld};\n", (long long)unit_groups,
            (long long)panels, (long long)unit_panels);
    e->flat = true;
    put_body(e, "");
    put_head(e, 0);
    int64_t group_units = groups / unit_groups;
    dl_putf(e->out,
            "    long group = unit %% %lldL * %lldL, panel = unit / %lldL * %lldL, panels = %lldL - panel < "
            "%lldL ? %lldL - panel : %lldL;\n"
            "    const struct weight_gradient *s = &%s_shape;\n"
            "    gradient_unit(s, arg, group, panel, panels, scratch);\n"
            "    float *acc = unit_sums(s, (struct grad_scratch *)scratch);\n"
            "    double *sums = 0;\n"
            "    for (long p = 0; p < panels; p++)\n"
            "        for (long g = 0; g < %lldL; g++)\n"
            "            for (long i = 0; i < %lldL; i += LANES)\n"
            "                %s_body(arg, ((panel + p) * %lldL + group + g) * %lldL + i, LANES, acc + (g * "
            "%lldL + p) * %lldL + i, sums);\n}\n",
            (long long)group_units, (long long)unit_groups, (long long)group_units, (long long)unit_panels,
            (long long)panels, (long long)unit_panels, (long long)panels, (long long)unit_panels, name,
            (long long)unit_groups, (long long)block, name, (long long)groups, (long long)block,
            (long long)unit_panels, (long long)block);
    code->grad_rows =
        (rows >= e->t->rows ? 1u << e->t->rows : 0) | (rows % e->t->rows ? 1u << rows % e->t->rows : 0);
    code->units[0] = group_units * dl_ceil_div(panels, unit_panels);
    code->scratch = (DL_M_BLOCK * 7 + dl_ceil_div(rows, e->t->rows) * e->t->rows * DL_M_BLOCK +
                     unit_panels * DL_M_BLOCK * e->t->panel + unit_groups * unit_panels * block) *
                    4;
}

bool dl_emit_contraction(dl_emitter *e, dl_emitted *code, dl_error *err) {
    (void)err;
    const dl_kinstr *c = &e->k->instrs.at[dl_kernel_anchor(e->k)];
    shape3 s = find_shape(e->k, c);
    e->mode = DL_LANES, e->lane_axis = 1, e->flat = false;
    int order[DL_MAX_RANK];
    for (int i = 0; i < e->k->nspace; i++)
        order[i] = i == 0 ? 0 : i + 1 < e->k->nspace ? i + 1 : 1; /* channels last */
    dl_emit_find_kept(e, order);
    code->phases = 1, code->contracts = true;
    if (c->op == DL_OP_conv_grad_weight)
        put_grad_weight(e, &s, code);
    else if (is_folded(e, &s))
        put_folded(e, &s, code);
    else if (c->op == DL_OP_conv)
        put_conv(e, &s, code);
    else
        put_grad_input(e, &s, code);
    return true;
}

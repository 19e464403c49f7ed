/* Geometry and tables of windowed contractions; see emit_windows.h. */
#include "compiler/cpu/emit_windows.h"
#include "compiler/cpu/operands.h"
#include "compiler/cpu/partials.h"

const dl_type *dl_conv_part(const dl_kernel *k, const dl_kinstr *c, int operand, int part) {
    return &k->params.at[c->parts[operand][part]].type;
}

/* Merges non-overlapping windows that are adjacent along W, as in patch embeddings: their pixels
 * are contiguous in x and in w, and become channels of one pixel. Not for the gradient of x,
 * where the kernel goes on with x's channels. */
static void join_places(dl_conv_problem *s) {
    int x = dl_op_place(s->c->op, DL_TENSOR_X);
    int64_t width = s->size.tap[2];
    if (x == DL_RESULT_PLACE || s->c->nparts[x] != 1 || s->c->windows.groups > 1 ||
        s->size.stride[2] != width || s->size.dilation[2] != 1 || s->size.pad_lo[2] ||
        s->size.in[2] != s->size.out[2] * width || width < 1)
        return;
    s->merged = width;
    s->size.tap[2] = s->size.stride[2] = 1, s->size.in[2] = s->size.out[2], s->taps /= width;
    s->summed *= width, s->weight_c *= width;
}

dl_conv_problem dl_conv_find(const dl_kernel *k, const dl_kinstr *c) {
    const dl_relation r = dl_kernel_relation(k, c);
    dl_conv_problem s = {.c = c,
                         .k = k,
                         .size = dl_relation_sizes(&r),
                         .weight = dl_op_place(c->op, DL_TENSOR_W),
                         .merged = 1};
    s.image = 1 - s.weight;
    const dl_axis *w =
        s.weight == DL_RESULT_PLACE ? k->space : dl_conv_part(k, c, s.weight, 0)->axis;
    s.taps = s.size.tap[0] * s.size.tap[1] * s.size.tap[2];
    s.weight_o = w[0].size, s.weight_c = w[1].size;
    s.summed = dl_relation_size(&r, DL_MODE_K);
    join_places(&s);
    return s;
}

/* Each part has bf16 pairs of its own; an odd last element is paired with a zero. */
int64_t dl_conv_pairs(const dl_conv_problem *s) {
    int64_t words = 0, groups = s->c->windows.groups;
    for (int i = 0; s->pairs && i < s->c->nparts[s->image]; i++)
        words += dl_ceil_div(
            dl_conv_part(s->k, s->c, s->image, i)->axis[1].size / groups * s->merged, 2);
    return s->pairs ? words : s->summed;
}

void dl_emit_three(dl_buf *out, const char *name, const int64_t *v) {
    dl_putf(out, ".%s = {%lld, %lld, %lld}, ", name, (long long)v[0], (long long)v[1],
            (long long)v[2]);
}

void dl_emit_parts(dl_emitter *e, const dl_conv_problem *s, int operand, const char *name) {
    int64_t places = operand == dl_op_place(s->c->op, DL_TENSOR_X) ? s->merged : 1;
    bool words = s->pairs && !s->im2col;
    dl_putf(e->out, "static const struct part %s_%s[] = {", DL_OWN_NAME, name);
    for (int i = 0; i < s->c->nparts[operand]; i++) {
        const dl_type *t = dl_conv_part(e->k, s->c, operand, i);
        dl_putf(e->out, "{%d, %lld, %s}, ", s->c->parts[operand][i],
                (long long)(t->axis[1].size * places), words ? "PAIR" : dl_emit_element(t->dtype));
    }
    dl_puts(e->out, "};\n");
}

/* ---- tables ---- */

static void put_forward_tables(dl_emitter *e, const dl_conv_problem *s) {
    const char *name = DL_OWN_NAME;
    int64_t one[3] = {1, 1, 1};
    dl_putf(e->out, "static const struct tap %s_taps[] = {\n", name);
    for (int64_t i = 0; i < s->taps; i++) {
        int64_t at[3] = {i / (s->size.tap[1] * s->size.tap[2]), i / s->size.tap[2] % s->size.tap[1],
                         i % s->size.tap[2]};
        dl_putf(e->out, "{%lld, {%lld, %lld, %lld}},%s", (long long)i,
                (long long)(at[0] * s->size.dilation[0] - s->size.pad_lo[0]),
                (long long)(at[1] * s->size.dilation[1] - s->size.pad_lo[1]),
                (long long)(at[2] * s->size.dilation[2] - s->size.pad_lo[2]),
                i % 4 == 3 ? "\n" : " ");
    }
    dl_putf(e->out, "};\nstatic const struct positions %s_positions[] = {{", name);
    dl_emit_three(e->out, "count", s->size.out), dl_emit_three(e->out, "step", one);
    dl_putf(e->out, ".taps = %lld}};\n", (long long)s->taps);
}

/* Positions of x by stride phase, along all axes. */
static dl_tables put_stride_phase_tables(dl_emitter *e, const dl_conv_problem *s, int64_t groups) {
    dl_tables made = {0};
    dl_buf positions = {0};
    int first = 0;
    dl_putf(e->out, "static const struct tap %s_taps[] = {\n", DL_OWN_NAME);
    for (int64_t q = 0; q < s->size.stride[0] * s->size.stride[1] * s->size.stride[2]; q++) {
        dl_stride_phase p[3];
        dl_conv_stride_phases(&s->size, q, p);
        int64_t count[3] = {p[0].count, p[1].count, p[2].count},
                shift[3] = {p[0].shift, p[1].shift, p[2].shift};
        int64_t taps = p[0].taps * p[1].taps * p[2].taps;
        for (int64_t i = 0; i < taps; i++) { /* in the order of y's positions */
            int64_t at = taps - 1 - i, w = 0,
                    t[3] = {at / (p[1].taps * p[2].taps), at / p[2].taps % p[1].taps,
                            at % p[2].taps};
            for (int a = 0; a < 3; a++) w = w * s->size.tap[a] + p[a].first + t[a] * p[a].step;
            dl_putf(e->out, "{%lld, {%lld, %lld, %lld}},%s", (long long)(s->taps - 1 - w),
                    (long long)(p[0].base - t[0] * p[0].fall),
                    (long long)(p[1].base - t[1] * p[1].fall),
                    (long long)(p[2].base - t[2] * p[2].fall), i % 4 == 3 ? "\n" : " ");
        }
        dl_puts(&positions, "{");
        dl_emit_three(&positions, "count", count),
            dl_emit_three(&positions, "step", s->size.stride),
            dl_emit_three(&positions, "shift", shift);
        dl_putf(&positions, ".first_tap = %d, .taps = %lld},\n", first, (long long)taps);
        made.items +=
            dl_ceil_div(s->size.samples * count[0] * count[1] * count[2], e->t->row_block) * groups;
        first += (int)taps, made.positions++;
    }
    if (!first) dl_puts(e->out, "{0, {0, 0, 0}}");
    dl_putf(e->out, "};\nstatic const struct positions %s_positions[] = {\n%s};\n", DL_OWN_NAME,
            positions.at);
    dl_buf_free(&positions);
    return made;
}

static dl_tables put_tables(dl_emitter *e, const dl_conv_problem *s, int64_t item_columns) {
    int64_t groups = dl_ceil_div(dl_ceil_div(e->k->space[1].size, e->t->panel), item_columns);
    dl_emit_parts(e, s, s->image, "parts");
    if (dl_op_tensor(s->c->op, DL_RESULT_PLACE) == DL_TENSOR_X)
        return put_stride_phase_tables(e, s, groups);
    put_forward_tables(e, s);
    int64_t rows = s->size.samples * s->size.out[0] * s->size.out[1] * s->size.out[2];
    return (dl_tables){1, dl_ceil_div(rows, e->t->row_block) * groups, groups, item_columns};
}

bool dl_emit_by_amx(const dl_emitter *e, const dl_conv_problem *s) {
    return s->pairs && e->t->tiles;
}

/* The larger operand stays in cache, and the other one streams: a block's rows, or an N panel's
 * weights. */
bool dl_items_by_rows(const dl_target *t, const dl_conv_problem *s) {
    return s->taps * t->panel < t->row_block;
}

void dl_emit_shape(dl_emitter *e, const dl_conv_problem *s, const int64_t *in, const int64_t *out,
                   const int64_t *scale, int64_t channels, int64_t columns, int64_t item_columns,
                   int positions) {
    const char *name = DL_OWN_NAME;
    bool by_rows = dl_items_by_rows(e->t, s);
    dl_emit_k_ranges(e, &s->k_ranges);
    dl_putf(e->out, "static const struct contraction %s_shape = {.batch = %lld, ", name,
            (long long)s->size.samples);
    dl_emit_three(e->out, "in", in), dl_emit_three(e->out, "out", out),
        dl_emit_three(e->out, "scale", scale);
    dl_putf(
        e->out,
        ".channels = %lld, .summed = %lld, .reduced = %lld, .columns = %lld, .item_columns = %lld, "
        ".panels_a_range = %lld, .k_ranges = %s_k_ranges, .own = %lld, .depth = %lld, "
        ".by_rows = %d, "
        ".weight_taps = %lld, "
        ".weight_start = %lld, .weight_channels = %lld, .pairs = %d, ",
        (long long)channels, (long long)s->summed, (long long)dl_conv_pairs(s), (long long)columns,
        (long long)item_columns, (long long)s->k_ranges.panels_a_range, name,
        (long long)(channels / s->c->windows.groups), (long long)s->k_ranges.terms, by_rows,
        (long long)s->taps, (long long)(s->c->w_start / e->t->panel), (long long)s->weight_c,
        s->pairs);
    dl_putf(e->out,
            ".nparts = %d, .npositions = %d, .part = %s_parts, .positions = %s_positions, .taps = "
            "%s_taps};\n",
            s->c->nparts[s->image], positions, name, name, name);
}

static void put_image_shape(dl_emitter *e, const dl_conv_problem *s, int64_t item_columns,
                            int positions) {
    bool back = dl_op_tensor(s->c->op, DL_RESULT_PLACE) == DL_TENSOR_X;
    int64_t one[3] = {1, 1, 1}, channels = e->k->space[1].size;
    dl_emit_shape(e, s, back ? s->size.out : s->size.in, back ? s->size.in : s->size.out,
                  back ? one : s->size.stride, channels, dl_ceil_div(channels, e->t->panel),
                  item_columns, positions);
}

dl_tables dl_emit_image_by(dl_emitter *e, const dl_conv_problem *s, int64_t columns) {
    dl_tables t = put_tables(e, s, columns);
    put_image_shape(e, s, columns, t.positions);
    return t;
}

dl_tables dl_emit_image(dl_emitter *e, const dl_conv_problem *s, int64_t most) {
    enum { ITEMS = 32, WEIGHTS = 256 << 10 }; /* at least; bytes that stay in cache */
    bool moves = s->pairs || dl_conv_part(e->k, s->c, s->image, 0)->dtype == DL_F32;
    const int64_t *size =
        dl_op_tensor(s->c->op, DL_RESULT_PLACE) == DL_TENSOR_X ? s->size.in : s->size.out;
    int64_t blocks = dl_ceil_div(s->size.samples * size[0] * size[1] * size[2], e->t->row_block);
    int64_t columns = dl_ceil_div(e->k->space[1].size, e->t->panel), item = 1,
            terms = s->taps * s->k_ranges.terms;
    for (int64_t n = 2; n <= columns && n <= most; n++) {
        if ((terms > DL_CHAIN && !dl_emit_by_amx(e, s)) || n * terms * e->t->panel * 4 > WEIGHTS ||
            blocks * dl_ceil_div(columns, n) < ITEMS)
            break;
        if (dl_k_ranges_can_share(&s->k_ranges, columns, n, moves)) item = n;
    }
    return dl_emit_image_by(e, s, item);
}

/* Are there epilogue reductions, all of which keep the contraction's channels? */
static bool keep_channels(const dl_emitter *e) {
    bool any = false;
    for (int i = 0; i < e->now->run.n; i++) {
        const dl_partial *p = &e->partial[e->now->run.at[i]];
        if (p->count && !(p->by.n == 1 && p->by.axis[0] == 1)) return false;
        any |= p->count > 0;
    }
    return any;
}

/* Work items of the same rows reduce different channels: they share one set of partial results. */
static void put_shared_sums(dl_emitter *e, const dl_conv_problem *s, dl_tables t,
                            dl_emitted *code) {
    bool by_rows = dl_items_by_rows(e->t, s);
    int64_t blocks = t.items / t.groups, by = by_rows ? t.groups : blocks,
            channels = e->k->space[1].size, width = t.columns * e->t->panel;
    const char *block = by_rows ? "/" : "%", *group = by_rows ? "%" : "/";
    dl_putf(e->out, "    const long block = item %s %lldL, from = item %s %lldL * %lldL;\n", block,
            (long long)by, group, (long long)by, (long long)width);
    dl_putf(e->out, "    const long to = from + %lldL < %lldL ? from + %lldL : %lldL;\n",
            (long long)width, (long long)channels, (long long)width, (long long)channels);
    dl_emit_sums(e, &(dl_sharing){blocks, "block", "from", "to"}, code);
}

void dl_emit_panel_sums(dl_emitter *e, const dl_conv_problem *s, dl_tables t, dl_emitted *code) {
    if (t.groups > 1 && keep_channels(e))
        put_shared_sums(e, s, t, code);
    else
        dl_emit_item_sums(e, t.items, code);
}

int64_t dl_emit_rows_scratch(const dl_target *t) {
    return t->row_block * (t->panel * 4 + DL_ROW_BYTES);
}

/* ---- epilogue ---- */

void dl_emit_vector_head(dl_emitter *e, const char *name) {
    const dl_kernel *k = e->k;
    dl_putf(e->out, "INLINE void %s_%s(char *const *arg, ", DL_OWN_NAME, name);
    for (int i = 0; i < (e->flat ? 1 : k->nspace); i++) dl_putf(e->out, "long x%d, ", i);
    dl_puts(
        e->out,
        "long n, const float *acc, double *sums) {\n    (void)arg, (void)n, (void)acc, (void)sums");
    for (int i = 0; i < (e->flat ? 1 : k->nspace); i++) dl_putf(e->out, ", (void)x%d", i);
    dl_puts(e->out, ";\n");
}

int dl_emit_prefetch_lines(dl_emitter *e) {
    enum { LINE = 64 };
    size_t mark = e->out->n;
    dl_emit_vector_head(e, "lines");
    int bytes = e->mode == DL_LANES ? dl_emit_prefetch(e) : 0;
    if (bytes)
        dl_puts(e->out, "}\n");
    else
        e->out->n = mark, e->out->at[mark] = 0;
    return bytes ? LINE / bytes : 0;
}

void dl_emit_body(dl_emitter *e) {
    dl_emit_vector_head(e, "body");
    dl_emit_run(e);
    dl_puts(e->out, "}\n");
}

const char *dl_emit_warmth(const dl_emitter *e) { return dl_emit_count_sums(e) ? "WARM " : ""; }

const char *dl_emit_take_sums(dl_emitter *e) {
    long long n = dl_emit_count_sums(e);
    if (!n) return "sums";
    dl_putf(e->out,
            "    double own[%lld];\n    for (long i = 0; i < %lldL; i++) own[i] = sums[i];\n", n,
            n);
    return "own";
}

void dl_emit_give_sums(dl_emitter *e) {
    long long n = dl_emit_count_sums(e);
    if (n) dl_putf(e->out, "    for (long i = 0; i < %lldL; i++) sums[i] = own[i];\n", n);
}

/* Runs <kernel>_<vector> over m channels of one position, whose coordinates are `at`, by axis.
 * `line`: channels per prefetch; 0: it is no prefetch, and takes vectors. */
static void put_channels(dl_emitter *e, const char *vector, int line, const char *at,
                         const char *indent) {
    const dl_kernel *k = e->k;
    dl_buf call = {0};
    dl_putf(&call, "%s_%s(arg, ", DL_OWN_NAME, vector);
    for (int i = 0; i < k->nspace; i++) {
        if (i == 1)
            dl_puts(&call, "channel + i, ");
        else
            dl_putf(&call, at, i ? i + 4 - k->nspace : 0);
    }
    if (line) {
        dl_putf(e->out, "%sfor (long i = 0; i < m; i += %d) %sLANES, acc + i, sums);\n", indent,
                line, call.at);
        dl_buf_free(&call);
        return;
    }
    dl_putf(e->out,
            "%slong i = 0;\n%sfor (; i + LANES <= m; i += LANES) %sLANES, acc + i, sums);\n",
            indent, indent, call.at);
    if (k->space[1].size % e->t->lanes)
        dl_putf(e->out, "%sif (i < m) %sm - i, acc + i, sums);\n", indent, call.at);
    dl_buf_free(&call);
}

void dl_emit_point(dl_emitter *e) {
    dl_emit_body(e);
    dl_putf(e->out,
            "static void %s_point(char *const *arg, const float *acc, const long at[4], long "
            "channel, long "
            "m, double *sums) {\n",
            DL_OWN_NAME);
    put_channels(e, "body", 0, "at[%d], ", "    ");
    dl_puts(e->out, "}\n");
}

/* <kernel>_<name>: <kernel>_<vector> over some rows of a block. A row's index is a local
 * variable, since the compiler then knows that no store changes it. */
static void put_rows(dl_emitter *e, const char *name, const char *vector, int line) {
    dl_putf(e->out,
            "static void %s_%s(char *const *arg, const float *acc, const struct rows *row, long "
            "from, long "
            "n, long channel, long m, double *sums) {\n"
            "    for (long r = from; r < from + n; r++, acc += PANEL) {\n"
            "        const long at[4] = {row->out[0][r], row->out[1][r], row->out[2][r], "
            "row->out[3][r]};\n",
            DL_OWN_NAME, name);
    put_channels(e, vector, line, "at[%d], ", "        ");
    dl_puts(e->out, "    }\n}\n");
}

void dl_emit_rows_epilogue(dl_emitter *e) {
    dl_emit_body(e);
    put_rows(e, "rows", "body", 0);
}

const char *dl_emit_prefetch_rows(dl_emitter *e) {
    int line = dl_emit_prefetch_lines(e);
    if (!line) return "0";
    put_rows(e, "fetch", "lines", line);
    return dl_format(e->arena, "%s_fetch", DL_OWN_NAME);
}

/* In one source with the hand-written loops their attributes, so that the compiler can inline those
 * that no other kernel calls. Between sources there is nothing to optimise, and each function with
 * options of its own takes the compiler a millisecond. */
void dl_emit_head(dl_emitter *e, int phase) {
    dl_emit_function(e, "HEAD ", dl_format(e->arena, "%s_%d", DL_OWN_NAME, phase));
}

/* The TMA tile loader: operands described by tensor maps (ir/kernel/tensor_map.h), one for each
 * part, whose boxes are tiles in the layout of wgmma (kernels/contract_wgmma.cu). Operands must
 * be matrices in memory, of the multiplied type, contiguous along K or, for 16 bits, along their
 * rows. It also loads the weight of an image's gradient, whose taps are such matrices. */
#include "compiler/cuda/gather_loader.h"
#include "compiler/cuda/gemm_matrix.h"

#include <string.h>

/* Bytes of a row of a box. */
static int line_of(const dl_operand *o) { return o->along_k ? DL_LINE : DL_LINE_BLOCK; }
static dl_mode_kind own_of(const dl_operand *o) { return o->is_left ? DL_MODE_M : DL_MODE_N; }

/* The map of one part. A box must not cross parts: it lies along the channels, and a part must
 * begin where a box does. */
static bool find_part(const dl_gemm_problem *p, const dl_operand *o, int part, int rows,
                      dl_tensor_map *map) {
    dl_matrix m;
    bool ok = dl_gemm_matrix_of(p, o, part, &m) && m.dtype == o->dtype && m.across != o->along_k;
    if (!ok) return false;
    int64_t own = p->mode[own_of(o)].size, terms = p->mode[DL_MODE_K].size,
            batch = p->mode[DL_MODE_BATCH].size;
    if (o->nparts > 1) {
        ok = o->channels == (m.across ? own_of(o) : DL_MODE_K) &&
             o->start[part] % (line_of(o) / p->word) == 0;
        if (!ok) return false;
        *(m.across ? &own : &terms) = o->start[part + 1] - o->start[part];
    }
    int64_t lines = m.across ? terms : own;
    *map =
        (dl_tensor_map){.param = m.param,
                        .dtype = m.dtype,
                        .swizzle = line_of(o),
                        .box = {line_of(o) / p->word, m.across ? DL_LINE / p->word : rows, 1},
                        .offset = m.offset,
                        .size = {m.across ? own : terms, lines, m.next ? batch : 1},
                        .step = {m.line * p->word, (m.next ? m.next : m.line * lines) * p->word}};
    return dl_tensor_map_fits(map, dl_type_bytes(dl_operand_part(p, o, part)));
}

/* Is it the weight of an image's gradient? Its K is taps, with their axes in order, then O. */
static bool is_weight(const dl_gemm_problem *p, const dl_operand *o) {
    return dl_op_slides(p->c->op) && dl_op_tensor(p->c->op, DL_RESULT_PLACE) == DL_TENSOR_X &&
           dl_op_tensor(p->c->op, o->place) == DL_TENSOR_W;
}

/* The weight's rows are its C, contiguous over all taps; its matrices are its O. All K elements
 * of a tile must have one tap. */
static bool find_taps(const dl_gemm_problem *p, const dl_operand *o, dl_tensor_map *map) {
    if (!is_weight(p, o) || !dl_gemm_is_uniform(p) || o->along_k) return false;
    const dl_type *t = dl_operand_part(p, o, 0);
    int terms = DL_LINE / p->word;
    int64_t stride[DL_MAX_RANK], taps = 1;
    dl_type_strides(t, stride);
    for (int i = t->rank - 1; i >= 2; i--) {
        if (stride[i] != taps * stride[t->rank - 1]) return false;
        taps *= t->axis[i].size;
    }
    if (t->dtype != o->dtype || stride[1] != 1 || p->mode[DL_MODE_K].at[3].size % terms)
        return false;
    *map = (dl_tensor_map){.param = o->param[0],
                           .dtype = t->dtype,
                           .swizzle = DL_LINE_BLOCK,
                           .box = {DL_LINE_BLOCK / p->word, 1, terms},
                           .offset = o->base[0] * p->word,
                           .size = {t->axis[1].size, taps,
                                    p->mode[DL_MODE_BATCH].size * p->mode[DL_MODE_K].at[3].size},
                           .step = {stride[t->rank - 1] * p->word, stride[0] * p->word}};
    return dl_tensor_map_fits(map, dl_type_bytes(t));
}

/* An operand that could have several parts gets at least two maps; the second one may load
 * nothing. So kernels that read a concatenation and kernels that read one tensor have equal
 * texts except for numbers (merge.c). */
static int pad_maps(const dl_gemm_problem *p, dl_operand *o, dl_tensor_map *maps) {
    bool may = dl_op_slides(p->c->op) && dl_op_tensor(p->c->op, o->place) != DL_TENSOR_W;
    if (o->nparts > 1 || !may) return o->nparts;
    maps[1] = maps[0], o->param[1] = o->param[0], o->base[1] = o->base[0];
    memcpy(o->step[1], o->step[0], sizeof o->step[0]),
        memcpy(o->along[1], o->along[0], sizeof o->along[0]);
    return 2;
}

void dl_gemm_take_maps(const dl_gemm_problem *p, dl_operand *o, dl_emitted *code) {
    o->map = code->nmaps, o->nmaps = pad_maps(p, o, &code->maps[code->nmaps]);
    code->nmaps += o->nmaps;
}

bool dl_gemm_tma_tiles(const dl_gemm_problem *p, const dl_operand *o, int rows,
                       dl_tensor_map *maps) {
    if (!p->has_maps || (!o->along_k && p->word != 2)) return false;
    if (find_taps(p, o, &maps[0])) return true;
    bool parts = true;
    for (int i = 0; parts && i < o->nparts; i++) parts = find_part(p, o, i, rows, &maps[i]);
    return parts;
}

/* ---- in C ---- */

const char *dl_operand_part_of(dl_emitter *e, const dl_operand *o, const char *channel) {
    const char *text = dl_format(e->arena, "$%d$", o->nmaps - 1);
    for (int i = o->nmaps - 1; i > 0; i--)
        text = dl_format(e->arena, "%s < $%lld$ ? $%d$ : %s", channel, (long long)o->start[i],
                         i - 1, text);
    return text;
}

const char *dl_operand_start_of(dl_emitter *e, const dl_operand *o, const char *part) {
    const char *text = dl_format(e->arena, "$%lld$", (long long)o->start[o->nmaps - 1]);
    for (int i = o->nmaps - 1; i > 0; i--)
        text = dl_format(e->arena, "%s == $%d$ ? $%lld$ : %s", part, i - 1,
                         (long long)o->start[i - 1], text);
    return text;
}

void dl_gemm_put_map_reader(dl_emitter *e, const dl_operand *o, const char *which) {
    dl_putf(e->out, "    $$_%s %s;\n    ($$_item &)%s = u;\n", which, which, which);
    for (int i = 0; i < o->nmaps; i++)
        dl_putf(e->out, "    %s.map[%d] = KD_MAP_OF(map%d);\n", which, i, o->map + i);
}

void dl_gemm_put_maps(dl_emitter *e, const dl_operand *o) {
    dl_gemm_put_head(e, o, dl_operand_side(o));
    dl_putf(e->out,
            "    enum { ALONG_K = %d };\n    const kd_map *map[%d];\n"
            "    INLINE const kd_map *map_of(int part) const { return ",
            o->along_k, o->nmaps);
    for (int i = 0; i + 1 < o->nmaps; i++) dl_putf(e->out, "part == $%d$ ? map[%d] : ", i, i);
    dl_putf(e->out, "map[%d]; }\n", o->nmaps - 1);
}

/* "b0 * 12 + b1": the CTA's index in the batch; 0 where the operand is broadcast over the batch. */
static void put_matrix(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    const dl_mode *b = &p->mode[DL_MODE_BATCH];
    dl_matrix m;
    int64_t step = b->size;
    bool any = false;
    for (int i = 0; i < b->n && dl_gemm_matrix_of(p, o, 0, &m) && m.next; i++) {
        step /= b->at[i].size;
        if (b->at[i].size == 1) continue;
        dl_putf(e->out, "%s%s", any ? " + " : "", b->at[i].name);
        if (step != 1) dl_putf(e->out, " * $%lld%s$", (long long)step, e->dialect->whole);
        any = true;
    }
    if (!any) dl_puts(e->out, "0");
}

static void put_part(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    dl_putf(e->out, "        const int part = %s;\n        c.map = map_of(part);\n",
            dl_operand_part_of(e, o, o->along_k ? "k" : "row"));
    dl_putf(e->out, "        c.x = %s - (%s);\n        c.y = %s;\n        c.z = (int)(",
            o->along_k ? "k" : "row", dl_operand_start_of(e, o, "part"), o->along_k ? "row" : "k");
    put_matrix(e, p, o);
    dl_puts(e->out, ");\n");
}

/* The tap of a K element, among all of the weight's, and its O. */
static void put_taps(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    const dl_mode *n = &p->mode[DL_MODE_K], *groups = &p->mode[DL_MODE_BATCH];
    const dl_type *t = dl_operand_part(p, o, 0);
    int64_t stride[DL_MAX_RANK];
    dl_type_strides(t, stride);
    int64_t line = stride[t->rank - 1];
    dl_gemm_delinearize_all(e, n, "k");
    dl_puts(e->out, "        c.map = map_of(0);\n        c.x = row;\n        c.y = (int)(0");
    for (int i = 0; i < 3; i++) {
        if (o->step[0][DL_MODE_K][i])
            dl_putf(e->out, " + %s * $%lld$", n->at[i].variable,
                    (long long)(o->step[0][DL_MODE_K][i] / line));
        if (o->origin[i])
            dl_putf(e->out, " + %s * $%lld$", o->origin[i], (long long)(o->along[0][i] / line));
    }
    dl_putf(e->out, ");\n        c.z = (int)(%s", n->at[3].variable);
    if (groups->size > 1) dl_putf(e->out, " + b0 * $%lld$", (long long)n->at[3].size);
    dl_puts(e->out, ");\n");
}

static void put(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    dl_tensor_map map;
    dl_gemm_put_maps(e, o);
    dl_puts(e->out, "    enum { BYTES = CT_TMA_TILE };\n"
                    "    INLINE ct_tma_coordinate coordinate(int row, int k) const {\n        "
                    "ct_tma_coordinate c;\n");
    (find_taps(p, o, &map) ? put_taps : put_part)(e, p, o);
    dl_puts(e->out, "        return c;\n    }\n};\n");
}

/* ---- the loader ---- */

static const dl_tile_size sizes[] = {{128, 256, 8, 1, 5, 1, 2.01},
                                     {128, 128, 8, 1, 5, 2, 1.60},
                                     {128, 64, 8, 1, 6, 2, 1.22},
                                     {256, 128, 8, 1, 5, 1, 1.85},
                                     {256, 64, 8, 1, 5, 2, 1.30}};
enum { NSIZES = sizeof sizes / sizeof *sizes };

/* Loads all operands that it can, at least one. */
static bool serves(const dl_gemm_problem *p, dl_tiling *t) {
    dl_tensor_map maps[DL_MAP_MOST];
    bool any = false;
    for (int o = 0; o < 2; o++)
        if (dl_gemm_tma_tiles(p, &p->operand[o], dl_tiling_rows(t, o), maps))
            t->loader[o] = &dl_loader_tma_tile, any = true;
    return any;
}

static void use(dl_gemm_problem *p, dl_operand *o, int rows, dl_emitted *code) {
    bool can = dl_gemm_tma_tiles(p, o, rows, &code->maps[code->nmaps]);
    DL_CHECK(can);
    dl_gemm_take_maps(p, o, code);
}

static const dl_loading loadings[] = {
    {.how = " by TMA and wgmma", .wgmma = true, .n = NSIZES, .sizes = sizes, .serves = serves}};
const dl_loader dl_loader_tma_tile = {.name = "TMA tiles",
                                      .barriers = true,
                                      .comparable = true,
                                      .words = &dl_loader_gather,
                                      .cost = dl_operand_read_cost,
                                      .use = use,
                                      .put = put,
                                      .put_reader = dl_gemm_put_map_reader,
                                      .n = 1,
                                      .loadings = loadings};

/* The TMA im2col loader: images under windows, with a tensor map for each part
 * (ir/kernel/tensor_map.h: windows), whose boxes are tiles in the layout of wgmma. A box has
 * pixels of one tap, along K for a convolution, or along the rows for a weight's gradient. All
 * channels of a tile or of its rows must have one tap and one part, so the channels of a group,
 * and the first channel of a part, must be multiples of the box's. */
#include "compiler/cuda/gather_loader.h"
#include "compiler/cuda/gemm_matrix.h"

/* The product's spatial axis (of three) for axis i of the driver's order (W first). */
static int axis_of(int i) { return 2 - i; }

/* The tap that reads the lowest pixel of its window, and the signed distance between taps. */
static int64_t taps_of(const dl_gemm_problem *p, const dl_operand *o, int axis) {
    return p->mode[o->taps].at[axis].size;
}
static int64_t lower_corner_of(const dl_gemm_problem *p, const dl_operand *o, int axis) {
    const dl_window_axis *s = &o->window_axis[axis];
    return s->begin + (s->tap_step < 0 ? s->tap_step * (taps_of(p, o, axis) - 1) : 0);
}

/* Is it an image with equally many positions and taps for each stride phase? */
static bool is_plain(const dl_gemm_problem *p, const dl_operand *o) {
    return dl_gemm_is_uniform(p) && o->is_image &&
           (o->along_k ? o->taps : o->positions) == DL_MODE_K;
}

/* The corners that bound the positions exactly, and the traversal strides between them. */
static bool find_windows(const dl_gemm_problem *p, const dl_operand *o, dl_tensor_map *map) {
    for (int i = 0; i < map->windows; i++) {
        int axis = axis_of(i);
        const dl_window_axis *s = &o->window_axis[axis];
        int64_t lower = lower_corner_of(p, o, axis), size = o->limit[axis],
                last = lower + (p->mode[o->positions].at[1 + axis].size - 1) * s->position_step,
                far = s->stride_phases +
                      (s->tap_step < 0 ? -s->tap_step : s->tap_step) * (taps_of(p, o, axis) - 1);
        if (lower < INT16_MIN || lower > INT16_MAX || last - (size - 1) < INT16_MIN ||
            last - (size - 1) > INT16_MAX || s->position_step > INT16_MAX ||
            far > dl_tensor_map_far(map->windows))
            return false;
        map->lower[i] = (int)lower, map->upper[i] = (int)(last - (size - 1)),
        map->traversal[i] = (int)s->position_step;
    }
    return true;
}

/* The map of one part, whose channels are whole boxes. */
static bool find_part(const dl_gemm_problem *p, const dl_operand *o, int part, int rows,
                      dl_tensor_map *map) {
    const dl_type *t = dl_operand_part(p, o, part);
    int line = o->along_k ? DL_LINE : DL_LINE_BLOCK;
    int64_t stride[DL_MAX_RANK];
    dl_type_strides(t, stride);
    if (t->dtype != o->dtype || stride[1] != 1 || o->start[part] % (line / p->word)) return false;
    *map = (dl_tensor_map){.param = o->param[part],
                           .dtype = o->dtype,
                           .swizzle = line,
                           .windows = p->c->windows.n,
                           .box = {line / p->word, o->along_k ? rows : DL_LINE / p->word, 1},
                           .offset = dl_operand_base(o, part) * p->word};
    map->size[0] = t->axis[1].size, map->size[map->windows + 1] = t->axis[0].size;
    map->step[map->windows] = stride[0] * p->word;
    for (int i = 0; i < map->windows; i++) {
        int axis = map->windows + 1 - i; /* of the tensor */
        map->size[1 + i] = t->axis[axis].size, map->step[i] = stride[axis] * p->word;
    }
    return find_windows(p, o, map) && dl_tensor_map_fits(map, dl_type_bytes(t));
}

bool dl_gemm_tma_im2col(const dl_gemm_problem *p, const dl_operand *o, int rows,
                        dl_tensor_map *maps) {
    if (!p->has_maps || (!o->along_k && p->word != 2) || !is_plain(p, o)) return false;
    int piece = (o->along_k ? DL_LINE : DL_LINE_BLOCK) / p->word;
    bool ok = p->mode[o->channels].at[o->channel].size % piece == 0;
    for (int i = 0; ok && i < o->nparts; i++) ok = find_part(p, o, i, rows, &maps[i]);
    return ok;
}

static void put_head(dl_emitter *e, const char *name, const dl_mode *n, const char *at) {
    dl_putf(e->out, "    INLINE ct_window %s(%s i) const {\n        ct_window w;\n", name,
            e->dialect->index);
    dl_gemm_delinearize_all(e, n, "i");
    dl_putf(e->out, "        w.at = (int)%s;\n", at);
}

/* "w.x[0] = m3 * 2 + -1": along axis i of the driver's order. */
static void put_line(dl_emitter *e, int i, const dl_mode_axis *c, int64_t step, int64_t from) {
    dl_putf(e->out, "        w.x[%d] = (int)%s * $%lld$ + $%lld$", i, c->variable, (long long)step,
            (long long)from);
}
static void put_nothing(dl_emitter *e, const dl_gemm_problem *p) {
    for (int i = p->c->windows.n; i < 3; i++) dl_putf(e->out, "        w.x[%d] = 0;\n", i);
    dl_puts(e->out, "        return w;\n    }\n");
}

static void put_position(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    const dl_mode *n = &p->mode[o->positions];
    put_head(e, "position", n, n->at[0].variable);
    dl_puts(e->out, "        w.part = 0;\n");
    for (int i = 0; i < p->c->windows.n; i++) {
        int axis = axis_of(i);
        put_line(e, i, &n->at[1 + axis], o->window_axis[axis].position_step,
                 lower_corner_of(p, o, axis)),
            dl_puts(e->out, ";\n");
    }
    put_nothing(e, p);
}

/* Taps in descending order count from the last one; each stride phase has its own. */
static void put_tap(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    const dl_mode *n = &p->mode[o->taps], *groups = &p->mode[DL_MODE_BATCH];
    const char *channel = n->at[o->channel].variable;
    put_head(e, "tap", n,
             groups->size == 1
                 ? channel
                 : dl_format(e->arena, "(%s + %s * $%lld$)", channel, groups->at[o->group].name,
                             (long long)o->step[0][DL_MODE_BATCH][o->group]));
    dl_putf(e->out, "        w.part = %s;\n        w.at -= %s;\n", dl_operand_part_of(e, o, "w.at"),
            dl_operand_start_of(e, o, "w.part"));
    for (int i = 0; i < p->c->windows.n; i++) {
        int axis = axis_of(i);
        const dl_window_axis *s = &o->window_axis[axis];
        int64_t last = taps_of(p, o, axis) - 1;
        put_line(e, i, &n->at[axis], s->tap_step, s->tap_step < 0 ? -s->tap_step * last : 0);
        if (s->stride_phases)
            dl_putf(e->out, " + %s - ($%lld$)", o->origin[axis], (long long)s->begin);
        dl_puts(e->out, ";\n");
    }
    put_nothing(e, p);
}

static void put(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    dl_gemm_put_maps(e, o);
    dl_putf(e->out,
            "    enum { BYTES = CT_TMA_IM2COL, WINDOWS = %d };\n"
            "    INLINE %s count() const { return %s(); }\n",
            p->c->windows.n, e->dialect->index, o->is_left ? "rows" : "columns");
    put_position(e, p, o);
    put_tap(e, p, o);
    dl_puts(e->out, "};\n");
}

/* ---- the loader ---- */

static const dl_tile_size sizes[] = {{128, 256, 8, 1, 5, 1, 2.35}, {128, 128, 8, 1, 5, 2, 1.71},
                                     {128, 64, 8, 1, 6, 2, 1.23},  {256, 128, 8, 1, 5, 1, 2.10},
                                     {256, 64, 8, 1, 5, 2, 1.40},  {64, 192, 4, 1, 5, 2, 1.50},
                                     {64, 256, 4, 1, 5, 2, 1.55}};
enum { NSIZES = sizeof sizes / sizeof *sizes };

/* The rate that applies where all images are matrices, which are as fast as those. */
static double reach_of_matrices(const dl_tiling *t) {
    for (int i = 0; i < dl_loader_tma_tile.n; i++)
        for (int k = 0; k < dl_loader_tma_tile.loadings[i].n; k++) {
            const dl_tile_size *s = &dl_loader_tma_tile.loadings[i].sizes[k];
            if (s->bm == t->bm && s->bn == t->bn) return s->reach;
        }
    return t->reach;
}

/* Loads the images, at least one, and TMA tiles are loaded of other operands that allow it. An
 * image with one tap is a matrix, too. */
static bool serves(const dl_gemm_problem *p, dl_tiling *t) {
    dl_tensor_map maps[DL_MAP_MOST];
    bool any = false, any_image = false;
    for (int o = 0; o < 2; o++) {
        int rows = dl_tiling_rows(t, o);
        bool image = dl_gemm_tma_im2col(p, &p->operand[o], rows, maps),
             matrix = dl_gemm_tma_tiles(p, &p->operand[o], rows, maps);
        if (image)
            t->loader[o] = &dl_loader_tma_im2col;
        else if (matrix)
            t->loader[o] = &dl_loader_tma_tile;
        any |= image, any_image |= image && !matrix;
    }
    if (!any_image) t->reach = reach_of_matrices(t);
    return any && (p->word == 2 || t->bm > DL_ROWS_OF_GROUP);
}

static void use(dl_gemm_problem *p, dl_operand *o, int rows, dl_emitted *code) {
    bool can = dl_gemm_tma_im2col(p, o, rows, &code->maps[code->nmaps]);
    DL_CHECK(can);
    dl_operand_use_coordinates(o), p->fixes_nans |= dl_op_makes_weight(p->c->op);
    dl_gemm_take_maps(p, o, code);
}

static const dl_loading loadings[] = {{.how = " by TMA (im2col) and wgmma",
                                       .wgmma = true,
                                       .n = NSIZES,
                                       .sizes = sizes,
                                       .serves = serves}};
const dl_loader dl_loader_tma_im2col = {.name = "TMA im2col",
                                        .barriers = true,
                                        .comparable = true,
                                        .words = &dl_loader_gather,
                                        .cost = dl_operand_read_cost,
                                        .use = use,
                                        .put = put,
                                        .put_reader = dl_gemm_put_map_reader,
                                        .n = 1,
                                        .loadings = loadings};

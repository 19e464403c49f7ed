/* Contractions of few columns whose rows are an image's positions, box by box with their halos
 * (kernels/contract_halo.cu): which there are, their boxes, the image and the weight as structs, both phases.
 */
#include "compiler/cuda/gather_loader.h"

enum {
    DEEP = 16,      /* CT_DEEP, CT_PITCH, CT_FRAGMENT, CT_HALO_WARPS */
    PITCH = 48,     /* bytes */
    FRAGMENT = 256, /* bytes */
    WARPS = 4,
    RESIDENT = 2,    /* blocks of a multiprocessor, at least */
    MOST_SUMS = 128, /* of a thread, in registers */
    MOST_READS = 256 /* of fragments of the weight by taps, all in the text of one loop */
};

/* Axis i of three, of an image: the tensor's, or -1. */
static int axis_of(const dl_product *p, int i) {
    int own = i - (3 - p->c->windows.n);
    return own < 0 ? -1 : 2 + own;
}

static bool makes_image(const dl_product *p) { /* x; else y */
    return dl_op_tensor(p->c->op, DL_RESULT_PLACE) == DL_TENSOR_X;
}
static int64_t positions_of(const dl_product *p, int i) { return p->number[DL_ROWS].at[1 + i].size; }
static bool is_point(const dl_product *p, int i) { return p->number[DL_ROWS].at[1 + i].name[0] == '0'; }
static int64_t channels_of(const dl_product *p) {
    const dl_operand *o = &p->operand[0];
    return p->number[DL_TERMS].at[o->channel].size;
}

/* Of one type of 16 bits, eight channels side by side, of a convolution without groups. */
static bool is_plain(const dl_product *p) {
    const dl_operand *image = &p->operand[0];
    dl_tensor made = dl_op_slides(p->c->op) ? dl_op_tensor(p->c->op, DL_RESULT_PLACE) : DL_TENSOR_NONE;
    if (p->alone || p->word != 2 || (made != DL_TENSOR_X && made != DL_TENSOR_Y)) return false;
    for (int i = 0; i < DL_NUMBERS; i++)
        if (p->number[i].size < 1) return false;
    return p->number[DL_BATCH].size == 1 && image->along_k && image->bytes == 16 && p->operand[1].nparts == 1;
}

/* How far the first position of the parity that a tap is for reads behind that position, where x is made. */
static int64_t shift_of(const dl_product *p, int i, int64_t tap) {
    int64_t n = p->parities[i], at = p->r.window[i].pad - tap * p->r.window[i].dilation;
    return (at + (-at % n + n) % n) / n;
}

/* How far apart the first and the last pixel are that one position reads along an axis, over all parities. */
static int64_t reach_of(const dl_product *p, int i) {
    const dl_relation_window *v = &p->r.window[i];
    int64_t last = p->r.axis[v->tap].size - 1;
    return makes_image(p) ? shift_of(p, i, 0) - shift_of(p, i, last) : last * v->dilation;
}

/* Bytes of a chunk; of the whole, where there is room for sums in place of two. */
static void find_bytes(const dl_product *p, int rows, dl_halo *h) {
    int64_t pixels = 1;
    for (int i = 0; i < 3; i++) pixels *= h->halo[i];
    h->stage = pixels * PITCH + h->taps * h->columns / 8 * FRAGMENT;
    h->shared =
        dl_at_least(2 * h->stage, rows * h->parities * h->columns * 4) +
        dl_ceil_div(p->operand[0].nparts * pixels * (*dl_cuda_dialect(p->k, 0)->whole ? 8 : 4), 16) * 16;
}

bool dl_product_halo(const dl_product *p, int rows, dl_halo *h) {
    int64_t least = 0;
    if (!is_plain(p)) return false;
    *h = (dl_halo){.columns = (int)(dl_ceil_div(p->across.size, 8) * 8), .parities = 1, .taps = 1};
    for (int i = 0; i < 3; i++) h->parities *= p->parities[i], h->taps *= p->r.axis[p->r.window[i].tap].size;
    if (h->taps == 1 || h->parities * h->columns * rows > MOST_SUMS * DL_WARP * WARPS ||
        h->taps * h->columns / 8 > MOST_READS)
        return false;
    for (int a = 1; a <= rows; a *= 2)
        for (int b = 1; a * b <= rows; b *= 2) {
            const int box[3] = {a, b, rows / a / b};
            dl_halo one = *h;
            int64_t blocks = 1;
            bool fits = true;
            for (int i = 0; i < 3; i++) {
                int64_t hop = makes_image(p) ? 1 : p->r.window[i].stride;
                one.box[i] = box[i], one.halo[i] = (box[i] - 1) * hop + reach_of(p, i) + 1;
                one.boxes[i] = dl_ceil_div(positions_of(p, i), box[i]);
                blocks *= one.boxes[i], fits = fits && (box[i] == 1 || !is_point(p, i));
            }
            find_bytes(p, rows, &one);
            /* what blocks bring; among equals rows of memory's neighbours */
            int64_t bytes = blocks * one.stage;
            if (!fits || one.shared > DL_SHARED_MOST || (h->found && bytes > least) ||
                (h->found && bytes == least && box[2] <= h->box[2]))
                continue;
            least = bytes, *h = one, h->found = true;
        }
    return h->found;
}

/* ---- operands ---- */

/* "x1 * 2048 + ": what coordinates add. */
static void put_steps(dl_emitter *e, const dl_product *p, const int64_t *stride, const char *of) {
    for (int i = 0; i < 3; i++)
        if (axis_of(p, i) >= 0)
            dl_putf(e->out, " + %s%d * %lld%s", of, i, (long long)stride[axis_of(p, i)], e->dialect->whole);
}

/* Behind "return ": a choice of the part by `test`, all but the last. */
static void put_choice(dl_emitter *e, const dl_operand *o, int part, bool by_channel) {
    if (part + 1 == o->nparts) return;
    if (by_channel)
        dl_putf(e->out, "channel < %lld ? ", (long long)o->start[part + 1]);
    else
        dl_putf(e->out, "part == %d ? ", part);
}
static void put_else(dl_emitter *e, const dl_operand *o, int part) {
    dl_puts(e->out, part + 1 < o->nparts ? " : " : ";\n    }\n");
}

static void put_params(dl_emitter *e, const dl_operand *o) {
    for (int i = 0; i < o->nparts; i++)
        dl_putf(e->out, "    const %s *of%d;\n", dl_emit_element_type(o->dtype), i);
}

static void put_axes(dl_emitter *e, const dl_product *p, const dl_halo *h) {
    int sign = makes_image(p) ? 1 : -1;
    for (int i = 0; i < 3; i++) {
        const dl_relation_window *v = &p->r.window[i];
        dl_putf(e->out, "    typedef ct_axis<%d, %lld, %lld, %lld, %lld, %lld> axis%d;\n", h->box[i],
                (long long)(sign > 0 ? 1 : v->stride), (long long)p->parities[i],
                (long long)p->r.axis[v->tap].size, (long long)(sign * v->pad),
                (long long)(sign * v->dilation), i);
    }
}

static void put_image(dl_emitter *e, const dl_product *p, const dl_halo *h) {
    const dl_operand *o = &p->operand[0];
    dl_product_put_head(e, o, "image");
    put_axes(e, p, h);
    dl_putf(e->out, "    enum { CHANNELS = %lld, PARTS = %d };\n", (long long)channels_of(p), o->nparts);
    put_params(e, o);
    dl_putf(e->out, "    INLINE %s at(int part, int image, int x0, int x1, int x2) const {\n",
            e->dialect->index);
    for (int i = 0; i < 3; i++)
        if (axis_of(p, i) >= 0)
            dl_putf(e->out, "        if ((unsigned)x%d >= %lldU) return -1;\n", i, (long long)o->limit[i]);
    dl_puts(e->out, "        return ");
    for (int part = 0; part < o->nparts; part++) {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(dl_operand_part(p, o, part), stride);
        put_choice(e, o, part, false);
        dl_putf(e->out, "image * %lld%s", (long long)stride[0], e->dialect->whole);
        put_steps(e, p, stride, "x");
        put_else(e, o, part);
    }
    dl_puts(e->out, "    INLINE int part(int channel) const {\n        return ");
    for (int part = 0; part < o->nparts; part++) {
        put_choice(e, o, part, true);
        dl_putf(e->out, "%d", part);
        put_else(e, o, part);
    }
    dl_puts(e->out, "    INLINE const word *from(int channel) const {\n        return ");
    for (int part = 0; part < o->nparts; part++) {
        put_choice(e, o, part, true);
        dl_putf(e->out, "of%d + (channel - %lld)", part, (long long)o->start[part]);
        put_else(e, o, part);
    }
    dl_puts(e->out, "};\n");
}

static void put_weight(dl_emitter *e, const dl_product *p) {
    const dl_operand *o = &p->operand[1];
    int64_t stride[DL_MAX_RANK], taps = 1;
    int column = makes_image(p) ? 1 : 0;
    dl_type_strides(dl_operand_part(p, o, 0), stride);
    dl_product_put_head(e, o, "weight");
    put_params(e, o);
    dl_puts(e->out, "    INLINE word load(int column, int channel, int tap) const {\n");
    for (int i = 2; i >= 0; i--) {
        int64_t n = p->r.axis[p->r.window[i].tap].size;
        if (axis_of(p, i) >= 0)
            dl_putf(e->out, "        const int t%d = tap / %lld %% %lld;\n", i, (long long)taps,
                    (long long)n);
        taps *= n;
    }
    dl_putf(e->out, "        return of0[%lld%s + column * %lld%s + channel * %lld%s",
            (long long)(p->c->w_start * stride[0]), e->dialect->whole, (long long)stride[column],
            e->dialect->whole, (long long)stride[1 - column], e->dialect->whole);
    put_steps(e, p, stride, "t");
    dl_puts(e->out, "];\n    }\n};\n");
}

/* ---- phases ---- */

/* Leaves the weight in the workspace. */
static bool put_first(dl_emitter *e, const dl_product *p, const dl_halo *h, dl_emitted *code, dl_error *err) {
    int64_t lanes = dl_ceil_div(channels_of(p), DEEP) * h->taps * h->columns / 8 * DL_WARP;
    if (!dl_cuda_head(e, code, dl_ceil_div(lanes, DL_BLOCK), DL_BLOCK, 0, err)) return false;
    dl_putf(e->out, "    %s_unit u;\n", e->k->name);
    dl_operand_put_reader(e, &p->operand[1], "weight");
    dl_putf(e->out,
            "    ct_halo_weight<%d, %lld>(weight, %lld, %lld, (%s_weight::word *)(workspace + %lldL));\n",
            h->columns / 8, (long long)h->taps, (long long)p->across.size, (long long)channels_of(p),
            e->k->name, (long long)code->workspace);
    dl_cuda_foot(e);
    return true;
}

void dl_halo_put_row(dl_emitter *e, const dl_product *p) {
    const dl_number *n = &p->number[DL_ROWS];
    const dl_halo *h = &p->tiling.halo;
    int64_t inner = 1;
    for (int i = 2; i >= 0; i--) {
        int64_t q = p->parities[i], out = h->box[i] * q;
        if (out > 1) {
            dl_putf(e->out, "        const int made%d = row / %lld %% %lld;\n", i, (long long)inner,
                    (long long)out);
            if (q > 1) dl_putf(e->out, "        const int q%d = made%d %% %lld;\n", i, i, (long long)q);
            dl_putf(e->out, "        const int %s = first%d + made%d / %lld;\n", n->at[1 + i].variable, i, i,
                    (long long)q);
        } else {
            dl_putf(e->out, "        const int %s = first%d;\n", n->at[1 + i].variable, i);
        }
        inner *= out;
    }
}

void dl_halo_put_test(dl_emitter *e, const dl_product *p) {
    for (int i = 0; i < 3; i++) {
        int axis = axis_of(p, i);
        if (axis >= 0 && e->k->space[axis].size % (p->tiling.halo.box[i] * p->parities[i]))
            dl_putf(e->out, "        if (x%d >= %lld) continue;\n", axis, (long long)e->k->space[axis].size);
    }
}

static bool put_second(dl_emitter *e, const dl_product *p, const dl_halo *h, int64_t weight, dl_emitted *code,
                       dl_error *err) {
    const dl_number *rows = &p->number[DL_ROWS];
    int threads = dl_tiling_threads(&p->tiling);
    e->resident = RESIDENT; /* the sums decide how many registers there are, not a guess of ptxas */
    bool ok = dl_cuda_head(e, code, p->tiling.mt, threads, h->shared, err);
    e->resident = 0;
    if (!ok) return false;
    dl_puts(e->out, "    KD_SHARED(unsigned char, shared);\n    unsigned unit = blockIdx.x;\n");
    dl_putf(e->out, "    const %s n = 0;\n", e->dialect->index);
    for (int i = 2; i >= 0; i--)
        dl_putf(
            e->out,
            "    const int first%d = (int)(unit %% %lldU) * %d;\n    unit /= %lldU;\n    (void)first%d;\n", i,
            (long long)h->boxes[i], h->box[i], (long long)h->boxes[i], i);
    dl_putf(e->out, "    const int %s = (int)unit;\n    (void)%s;\n", rows->at[0].variable,
            rows->at[0].variable);
    dl_putf(e->out, "    %s_unit u;\n", e->k->name);
    dl_operand_put_reader(e, &p->operand[0], "image");
    dl_putf(e->out,
            "    const float *sums = ct_tile_halo<%s, %d, %d>(image, workspace + %lldL, (int)unit, first0, "
            "first1, first2, shared);\n",
            p->arithmetic, p->tiling.bm / 16 / WARPS, h->columns / 8, (long long)weight);
    dl_finish f = {.p = p,
                   .threads = threads,
                   .rows = (int)(p->tiling.bm * h->parities),
                   .unit = "blockIdx.x",
                   .units = p->tiling.mt};
    f.room = (int64_t)f.rows * h->columns * (int64_t)sizeof(float);
    f.sum = dl_format(e->arena, "ct_take(own, sums + row * %d + column);\n", h->columns);
    dl_finish_put(e, &f, code->units[code->phases - 1], code);
    dl_cuda_foot(e);
    return true;
}

bool dl_halo_put(dl_emitter *e, const dl_product *p, dl_emitted *code, dl_error *err) {
    const dl_halo *h = &p->tiling.halo;
    int64_t weight = code->workspace,
            bytes = dl_ceil_div(channels_of(p), DEEP) * h->taps * h->columns / 8 * FRAGMENT;
    code->needs[DL_NEED_HALO] = 1;
    dl_product_put_unit(e, p);
    put_image(e, p, h);
    put_weight(e, p);
    if (!put_first(e, p, h, code, err)) return false;
    code->workspace += dl_plan_round(bytes);
    return put_second(e, p, h, weight, code, err);
}

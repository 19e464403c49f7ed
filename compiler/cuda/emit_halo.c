/* Halo kernels: contractions of few columns whose M is an image's positions, tile by tile
 * (halo.h). Writes the image and the weight as structs, and both phases. */
#include "compiler/cuda/gather_loader.h"
#include "compiler/cuda/halo.h"

enum { DEEP = 16 /* CT_DEEP */, RESIDENT = 2 /* minimum CTAs per SM */ };

static int64_t channels_of(const dl_gemm_problem *p) {
    const dl_operand *o = &p->operand[0];
    return p->mode[DL_MODE_K].at[o->channel].size;
}

/* ---- operands ---- */

/* "x1 * 2048 + ": the contributions of coordinates. */
static void put_steps(dl_emitter *e, const dl_gemm_problem *p, const int64_t *stride,
                      const char *of) {
    for (int i = 0; i < 3; i++)
        if (dl_conv_axis(&p->c->windows, i) >= 0)
            dl_putf(e->out, " + $%s%d$ * $%lld%s$", of, i,
                    (long long)stride[dl_conv_axis(&p->c->windows, i)], e->dialect->whole);
}

/* After "return ": chooses the part by `test`, for all parts but the last. */
static void put_choice(dl_emitter *e, const dl_operand *o, int part, bool by_channel) {
    if (part + 1 == o->nparts) return;
    if (by_channel)
        dl_putf(e->out, "channel < $%lld$ ? ", (long long)o->start[part + 1]);
    else
        dl_putf(e->out, "part == $%d$ ? ", part);
}
static void put_else(dl_emitter *e, const dl_operand *o, int part) {
    dl_puts(e->out, part + 1 < o->nparts ? " : " : ";\n    }\n");
}

static void put_params(dl_emitter *e, const dl_operand *o) {
    for (int i = 0; i < o->nparts; i++)
        dl_putf(e->out, "    const %s *of%d;\n", dl_emit_element_type(o->dtype), i);
}

static void put_axes(dl_emitter *e, const dl_gemm_problem *p, const dl_halo *h) {
    int sign = dl_halo_makes_image(p) ? 1 : -1;
    for (int i = 0; i < 3; i++) {
        const dl_relation_window *v = &p->r.window[i];
        dl_putf(e->out, "    typedef ct_axis<%d, %lld, %lld, %lld, %lld, %lld> axis%d;\n",
                h->tile[i], (long long)(sign > 0 ? 1 : v->stride), (long long)p->stride_phases[i],
                (long long)p->r.axis[v->tap].size, (long long)(sign * v->pad),
                (long long)(sign * v->dilation), i);
    }
}

static void put_image(dl_emitter *e, const dl_gemm_problem *p, const dl_halo *h) {
    const dl_operand *o = &p->operand[0];
    dl_gemm_put_head(e, o, "image");
    put_axes(e, p, h);
    dl_putf(e->out, "    enum { CHANNELS = %lld, PARTS = %d };\n", (long long)channels_of(p),
            o->nparts);
    put_params(e, o);
    dl_putf(e->out, "    INLINE %s at(int part, int image, int $x0$, int $x1$, int $x2$) const {\n",
            e->dialect->index);
    for (int i = 0; i < 3; i++)
        if (dl_conv_axis(&p->c->windows, i) >= 0)
            dl_putf(e->out, "        if ((unsigned)$x%d$ >= $%lldU$) return -1;\n", i,
                    (long long)o->limit[i]);
    dl_puts(e->out, "        return ");
    for (int part = 0; part < o->nparts; part++) {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(dl_operand_part(p, o, part), stride);
        put_choice(e, o, part, false);
        dl_putf(e->out, "image * $%lld%s$", (long long)stride[0], e->dialect->whole);
        put_steps(e, p, stride, "x");
        put_else(e, o, part);
    }
    dl_puts(e->out, "    INLINE int part(int channel) const {\n        return ");
    for (int part = 0; part < o->nparts; part++) {
        put_choice(e, o, part, true);
        dl_putf(e->out, "$%d$", part);
        put_else(e, o, part);
    }
    dl_puts(e->out, "    INLINE const word *from(int channel) const {\n        return ");
    for (int part = 0; part < o->nparts; part++) {
        put_choice(e, o, part, true);
        dl_putf(e->out, "of%d + (channel - $%lld$)", part, (long long)o->start[part]);
        put_else(e, o, part);
    }
    dl_puts(e->out, "};\n");
}

static void put_weight(dl_emitter *e, const dl_gemm_problem *p) {
    const dl_operand *o = &p->operand[1];
    int64_t stride[DL_MAX_RANK], taps = 1;
    int column = dl_halo_makes_image(p) ? 1 : 0;
    dl_type_strides(dl_operand_part(p, o, 0), stride);
    dl_gemm_put_head(e, o, "weight");
    put_params(e, o);
    dl_puts(e->out, "    INLINE word load(int column, int channel, int tap) const {\n");
    for (int i = 2; i >= 0; i--) {
        int64_t n = p->r.axis[p->r.window[i].tap].size;
        if (dl_conv_axis(&p->c->windows, i) >= 0)
            dl_putf(e->out, "        const int $t%d$ = tap / $/%lld$ %% $/%lld$;\n", i,
                    (long long)taps, (long long)n);
        taps *= n;
    }
    dl_putf(e->out, "        return of0[$%lld%s$ + column * $%lld%s$ + channel * $%lld%s$",
            (long long)(p->c->w_start * stride[0]), e->dialect->whole, (long long)stride[column],
            e->dialect->whole, (long long)stride[1 - column], e->dialect->whole);
    put_steps(e, p, stride, "t");
    dl_puts(e->out, "];\n    }\n};\n");
}

/* ---- phases ---- */

/* Stores the packed weight in the workspace. */
static bool put_first(dl_emitter *e, const dl_gemm_problem *p, const dl_halo *h, dl_emitted *code,
                      dl_error *err) {
    int64_t lanes = dl_ceil_div(channels_of(p), DEEP) * h->taps * h->columns / 8 * DL_WARP;
    if (!dl_cuda_head(e, code, dl_ceil_div(lanes, DL_BLOCK), DL_BLOCK, 0, err)) return false;
    dl_puts(e->out, "    $$_item u;\n$values$");
    dl_operand_put_reader(e, &p->operand[1], "weight");
    dl_putf(e->out,
            "    ct_halo_weight<%d, %lld>(weight, $%lld$, $%lld$, ($$_weight::word *)(workspace + "
            "$%lldL$));\n",
            h->columns / 8, (long long)h->taps, (long long)p->tile_columns.size,
            (long long)channels_of(p), (long long)code->workspace);
    dl_cuda_foot(e, code, 1);
    return true;
}

static bool put_second(dl_emitter *e, const dl_gemm_problem *p, const dl_halo *h, int64_t weight,
                       dl_emitted *code, dl_error *err) {
    const dl_mode *rows = &p->mode[DL_MODE_M];
    int threads = dl_tiling_threads(&p->tiling);
    /* the accumulators determine the number of registers, not a guess of ptxas */
    e->resident = RESIDENT;
    if (!dl_cuda_head(e, code, p->tiling.mt, threads, h->shared, err)) return false;
    dl_puts(e->out, "    KD_SHARED(unsigned char, shared);\n    unsigned item = blockIdx.x;\n");
    dl_putf(e->out, "    const %s n = 0;\n", e->dialect->index);
    for (int i = 2; i >= 0; i--)
        dl_putf(
            e->out,
            "    const int first%d = (int)(item %% $:%lldU$) * $%d$;\n    item /= $:%lldU$;\n    "
            "(void)first%d;\n",
            i, (long long)h->tiles[i], h->tile[i], (long long)h->tiles[i], i);
    dl_putf(e->out, "    const int %s = (int)item;\n    (void)%s;\n", rows->at[0].variable,
            rows->at[0].variable);
    dl_puts(e->out, "    $$_item u;\n$values$");
    dl_operand_put_reader(e, &p->operand[0], "image");
    dl_putf(
        e->out,
        "    const float *sums = ct_tile_halo<%s, %d, %d>(image, workspace + $%lldL$, (int)item, "
        "first0, "
        "first1, first2, shared);\n",
        p->arithmetic, p->tiling.bm / 16 / DL_HALO_WARPS, h->columns / 8, (long long)weight);
    dl_cuda_begin_epilogue(e);
    dl_epilogue f = {.p = p,
                     .threads = threads,
                     .rows = (int)(p->tiling.bm * h->stride_phases),
                     .item = "blockIdx.x",
                     .items = p->tiling.mt};
    f.room = (int64_t)f.rows * h->columns * (int64_t)sizeof(float);
    f.sum = dl_format(e->arena, "ct_take(own, sums + row * $%d$ + column);\n", h->columns);
    dl_epilogue_put(e, &f, code->items[code->phases - 1], code);
    dl_cuda_foot(e, code, DL_CUDA_HALO);
    e->resident = 0;
    return true;
}

bool dl_halo_put(dl_emitter *e, const dl_gemm_problem *p, dl_emitted *code, dl_error *err) {
    const dl_halo *h = &p->tiling.halo;
    int64_t weight = code->workspace,
            bytes = dl_ceil_div(channels_of(p), DEEP) * h->taps * h->columns / 8 * DL_HALO_FRAGMENT;
    code->needs[DL_NEED_HALO] = 1;
    dl_gemm_put_item(e, p);
    put_image(e, p, h);
    put_weight(e, p);
    if (!put_first(e, p, h, code, err)) return false;
    code->workspace += dl_plan_round(bytes);
    return put_second(e, p, h, weight, code, err);
}

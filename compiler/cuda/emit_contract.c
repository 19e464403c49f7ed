/* Kernels around a contraction: CTAs compute its tiles, followed by the epilogue. Where there
 * are few tiles and K is long, several CTAs split a tile's K (split-K); the next phase sums
 * their results. */
#include "compiler/cuda/gemm_coordinates.h"
#include "compiler/cuda/gemm_matrix.h"
#include "compiler/cuda/loader.h"
#include "ir/base/hash.h"

#include "compiler/cuda/emit_loops.h"

enum { FINISHED = 2048 /* points of a CTA that sums the results of split-K */ };

static void put_number(dl_emitter *e, const char *name, int64_t n) {
    dl_putf(e->out, "    const int %s = (int)(item %% $:%lldU$);\n    item /= $:%lldU$;\n", name,
            (long long)dl_at_least(n, 1), (long long)dl_at_least(n, 1));
}

/* The coordinates of a phase's CTA in the tiling; `inner`: the work below tiles that its item
 * counts. */
static void put_place(dl_emitter *e, const dl_gemm_problem *p, const char *inner, int64_t count) {
    const dl_tiling *t = &p->tiling;
    const char *index = e->dialect->index;
    dl_puts(e->out, "    unsigned item = blockIdx.x;\n");
    put_number(e, inner, count);
    dl_puts(e->out, "    const unsigned tile = item;\n    (void)tile;\n");
    put_number(e, "column_tile", t->nt);
    put_number(e, "row_tile", t->mt);
    dl_putf(e->out, "    const %s n = column_tile * (%s)$%d$;\n", index, index, t->bn);
    dl_gemm_item(e, p);
}

static const char *item_text(dl_emitter *e, const dl_gemm_problem *p, int64_t slices) {
    return dl_format(
        e->arena, "(((u.q0 * $%lld$ + u.q1) * $%lld$ + u.q2) * $%lld$ + row_tile) * $%lld$ + slice",
        (long long)p->stride_phases[1], (long long)p->stride_phases[2], (long long)p->tiling.mt,
        (long long)slices);
}

static int64_t items_of(const dl_gemm_problem *p, int64_t slices) {
    return p->stride_phases[0] * p->stride_phases[1] * p->stride_phases[2] * p->tiling.mt * slices;
}

static bool put_tiles(dl_emitter *e, const dl_gemm_problem *p, dl_emitted *code, dl_error *err) {
    const dl_tiling *t = &p->tiling;
    const char *index = e->dialect->index;
    int threads = dl_tiling_threads(t);
    int64_t tiles = dl_gemm_batch(p) * t->mt * t->nt;
    if (!dl_cuda_head(e, code, tiles * t->splits, threads, dl_tiling_shared(t), err)) return false;
    dl_puts(e->out, "    KD_SHARED(unsigned char, shared);\n");
    put_place(e, p, "split", t->splits);
    dl_putf(e->out, "    const %s m = row_tile * (%s)$%d$;\n", index, index, t->bm);
    dl_gemm_put_readers(e, p);
    bool sums = dl_epilogue_reduces(e);
    if (p->mode[DL_MODE_M].varies && !sums) dl_puts(e->out, "    if (m >= u.rows()) return;\n");
    dl_putf(
        e->out,
        "    const %s from = split * (%s)$%lld$, all = u.terms(), end = from + $%lld$ < all ? from "
        "+ $%lld$ : "
        "all;\n",
        index, index, (long long)t->depth, (long long)t->depth, (long long)t->depth);
    if (p->direct)
        dl_putf(
            e->out,
            "    const float *sums = ct_direct<%d, %d, %d>(left, right, m, n, from, end, $%lld$, "
            "shared);\n",
            t->bm, t->bn, threads, (long long)p->tile_columns.size);
    else
        dl_putf(e->out,
                "    const float *sums = ct_tile<%s%s, %d, %d, %d, %d, %d>(left, right, m, n, "
                "from, end, "
                "shared);\n",
                p->arithmetic, t->wgmma ? "_WGMMA" : "", t->bm, t->bn, t->wm, t->wn, t->stages);
    if (p->fixes_nans)
        dl_putf(e->out, "    ct_fix_nans<%s, %d, %d, %d>(%s, %s, $%d$, m, n, from, end, shared);\n",
                p->arithmetic, t->bm, t->bn, threads, dl_operand_words(&p->operand[0]),
                dl_operand_words(&p->operand[1]), p->padded);
    if (!p->direct) dl_cuda_begin_epilogue(e);
    if (t->splits > 1) {
        dl_putf(
            e->out,
            "    ct_leave<%d, %d, %d>(sums, (float *)(workspace + $%lldL$) + ((long)tile * $%lld$ "
            "+ split) * "
            "$%d$);\n",
            t->bm, t->bn, threads, (long long)code->workspace, (long long)t->splits, t->bm * t->bn);
    } else {
        dl_puts(e->out, "    const int slice = 0;\n    (void)slice;\n");
        dl_epilogue f = {.p = p,
                         .threads = threads,
                         .rows = t->bm,
                         .item = item_text(e, p, 1),
                         .items = items_of(p, 1)};
        f.room = dl_tiling_sums(t);
        f.sum = dl_format(e->arena, "ct_take_near(own, sums + row * $%d$ + column);\n", t->bn + 8);
        dl_epilogue_put(e, &f, code->items[code->phases - 1], code);
    }
    dl_cuda_foot(e, code, p->direct ? 1 : DL_CUDA_TEMPLATE);
    return true;
}

/* Rows of a tile whose epilogue one CTA runs, where other CTAs computed its sums: a power of two,
 * as the tile's. */
static int rows_of(const dl_tiling *t) {
    int rows = 1;
    while (2 * rows * t->bn <= FINISHED && t->bm % (2 * rows) == 0) rows *= 2;
    return rows;
}

/* The epilogue for sums in the workspace, from `base` on. `first`: where a CTA's sums begin, in
 * C; `sum` and `by_point` as in dl_epilogue. */
static bool put_rest(dl_emitter *e, const dl_gemm_problem *p, int64_t base, const char *first,
                     const char *sum, bool by_point, dl_emitted *code, dl_error *err) {
    const dl_tiling *t = &p->tiling;
    const char *index = e->dialect->index;
    int64_t tiles = dl_gemm_batch(p) * t->mt * t->nt;
    int rows = rows_of(t), slices = t->bm / rows;
    if (!dl_cuda_head(e, code, tiles * slices, DL_BLOCK, 0, err)) return false;
    put_place(e, p, "slice", slices);
    dl_putf(e->out,
            "    const %s m = row_tile * (%s)$%d$ + slice * $%d$;\n"
            "    const float *sums = (const float *)(workspace + $%lldL$) + %s;\n",
            index, index, t->bm, rows, (long long)base, first);
    dl_epilogue f = {.p = p, .threads = DL_BLOCK, .rows = rows, .sum = sum, .by_point = by_point};
    f.item = item_text(e, p, slices), f.items = items_of(p, slices);
    dl_epilogue_put(e, &f, code->items[code->phases - 1], code);
    dl_cuda_foot(e, code, 1);
    return true;
}

/* The phase after split-K. */
static bool put_totals(dl_emitter *e, const dl_gemm_problem *p, dl_emitted *code, dl_error *err) {
    const dl_tiling *t = &p->tiling;
    int64_t all = t->splits * t->bm * t->bn, base = code->workspace;
    code->workspace += dl_gemm_batch(p) * t->mt * t->nt * all * 4;
    return put_rest(e, p, base,
                    dl_format(e->arena, "(long)tile * $%lldL$ + slice * $%d$", (long long)all,
                              rows_of(t) * t->bn),
                    dl_format(e->arena,
                              "ct_total(own, sums + row * $%d$ + column, $%lld$, $%d$);\n", t->bn,
                              (long long)t->splits, t->bm * t->bn),
                    false, code, err);
}

/* Finds the GEMM that the first loop nest contains. */
static bool prepare(dl_emitter *e, dl_gemm_problem *p, dl_error *err) {
    const dl_kernel *k = e->k;
    const dl_kinstr *c = &k->instrs.at[dl_kernel_anchor(k)];
    e->now = &e->nests.at[0];
    if (!dl_emit_check_contraction(e, c, "GPUs' kernels", err)) return false;
    *p = dl_gemm_find(e, c);
    return true;
}

int dl_cuda_tilings(dl_emitter *e, const char **names) {
    dl_gemm_problem p;
    dl_error refused = {0}; /* dl_cuda_contraction reports it */
    dl_tiling of[DL_MOST_VARIANTS];
    if (!prepare(e, &p, &refused)) return 1;
    int n = dl_gemm_tilings(&p, of);
    for (int i = 0; i < n; i++) names[i] = dl_tiling_name(&of[i]);
    return n;
}

/* Sets the operands up for the tiling's loaders. */
static void use_loaders(dl_gemm_problem *p, dl_emitted *code) {
    for (int i = 0; i < 2; i++) {
        dl_operand *o = &p->operand[i];
        o->loader = p->tiling.loader[i];
        if (o->loader->use) o->loader->use(p, o, dl_tiling_rows(&p->tiling, i), code);
    }
}

/* Orders K by chunks as deep as a tile, for an image with several taps. Not with TMA, whose
 * boxes need the order of memory. */
static void use_chunks(dl_gemm_problem *p) {
    const dl_operand *image = &p->operand[0];
    const dl_mode *terms = &p->mode[DL_MODE_K];
    int chunk = DL_LINE / p->word;
    bool mapped = image->map >= 0 || p->operand[1].map >= 0;
    if (p->direct || mapped || !image->is_image || image->channels != DL_MODE_K) return;
    int64_t channels = terms->at[image->channel].size;
    if (dl_operand_taps(p, image) > 1 && channels > chunk && channels % chunk == 0)
        p->chunk = chunk;
}

/* A hash of everything but numbers that determines a loop over tiles: the tiling, and the
 * operands' loaders. */
static uint64_t function_of(const dl_gemm_problem *of, const dl_tiling *t) {
    dl_gemm_problem p = *of;
    dl_emitted code = {0};
    p.tiling = *t;
    use_loaders(&p, &code);
    use_chunks(&p);
    int at[] = {t->bm,       t->bn,        t->wgmma,   t->halo.found,        p.word,
                p.chunk > 0, p.fixes_nans, code.nmaps, dl_gemm_batch(&p) > 1};
    uint64_t h = dl_hash(at, sizeof at, 0);
    bool all = p.operand[0].map >= 0 && p.operand[1].map >= 0;
    for (int i = 0; i < DL_MODES; i++)
        for (int k = 0; k < p.mode[i].n;
             k++) { /* coordinates of extent 1 rarely occur in the text */
            int counts[] = {i, all || p.mode[i].at[k].size > 1};
            h = dl_hash(counts, sizeof counts, h);
        }
    for (int i = 0; i < 2; i++) {
        const dl_operand *o = &p.operand[i];
        int kind[] = {o->map >= 0 ? o->nmaps : o->nparts, o->along_k, o->bytes, o->is_image};
        h = dl_hash_str(o->loader->name, dl_hash(kind, sizeof kind, h));
    }
    return h;
}

static const dl_loader *kind_of(const dl_loader *l) { return l->comparable ? NULL : l; }

/* Do both tilings use the same kinds of loaders? The cost model compares sizes better than
 * loaders. */
static bool use_same_loaders(const dl_tiling *a, const dl_tiling *b) {
    return a->wgmma == b->wgmma && a->barriers == b->barriers && a->halo.found == b->halo.found &&
           kind_of(a->loader[0]) == kind_of(b->loader[0]) &&
           kind_of(a->loader[1]) == kind_of(b->loader[1]);
}

int dl_cuda_near_tilings(dl_emitter *e, double near, dl_cuda_variant *variants) {
    dl_gemm_problem p;
    dl_error refused = {0}; /* dl_cuda_contraction reports it */
    dl_tiling of[DL_MOST_VARIANTS];
    if (!prepare(e, &p, &refused)) return 0;
    int n = dl_gemm_tilings(&p, of), found = 0;
    for (; found < n && of[found].time <= near * of[0].time; found++) {
        bool alike = use_same_loaders(&of[0], &of[found]);
        variants[found] = (dl_cuda_variant){
            dl_tiling_name(&of[found]), alike ? function_of(&p, &of[found]) : variants[0].function,
            of[found].time};
    }
    return found;
}

bool dl_cuda_contraction(dl_emitter *e, int variant, dl_emitted *code, dl_error *err) {
    dl_gemm_problem p;
    dl_tiling of[DL_MOST_VARIANTS];
    if (!prepare(e, &p, err)) return false;
    int n = dl_gemm_tilings(&p, of);
    DL_CHECK(variant < n);
    p.tiling = of[variant];
    code->needs[DL_NEED_TILES] = code->needs[DL_NEED_LOOPS] = 1;
    code->needs[DL_NEED_WGMMA] = p.tiling.wgmma;
    dl_emit_find_kept(e, code);
    if (p.tiling.halo.found)
        return dl_halo_put(e, &p, code, err) && dl_cuda_phases(e, 1, code, err);
    use_loaders(&p, code);
    use_chunks(&p);
    dl_gemm_put_item(e, &p);
    const char *item = dl_strdup(e->texts, e->out->at); /* later phases need no operands */
    dl_gemm_put(e, &p);
    if (!put_tiles(e, &p, code, err)) return false;
    e->structs = item;
    return (p.tiling.splits == 1 || put_totals(e, &p, code, err)) &&
           dl_cuda_phases(e, 1, code, err);
}

/* ---- by a library ---- */

int dl_cuda_find_calls(dl_emitter *e, dl_call *forms) {
    dl_gemm_problem p;
    dl_error refused = {0}; /* dl_cuda_contraction reports it */
    return prepare(e, &p, &refused) ? dl_gemm_calls(&p, forms) : 0;
}

/* Reserves workspace: for sums, and after them for the algorithm. */
static void reserve(dl_emitted *code) {
    dl_call *c = &code->call;
    code->workspace += dl_plan_round(dl_call_sums(c));
    c->workspace = code->workspace;
    if (c->algorithm.workspace)
        code->workspace += dl_plan_round(c->algorithm.workspace) + DL_CALL_ALIGN;
}

bool dl_cuda_around_call(dl_emitter *e, const dl_algorithm *by, dl_emitted *code, dl_error *err) {
    dl_gemm_problem p;
    dl_call forms[DL_MOST_CALLS];
    if (!prepare(e, &p, err)) return false;
    int n = dl_gemm_calls(&p, forms);
    for (int i = 0; i < n; i++)
        if (dl_call_is_for(&forms[i], by)) code->call = forms[i], code->calls = 1;
    if (!code->calls)
        return dl_fail(err, DL_INPUT, "kernel @%s: it is nothing that %s makes in that form",
                       e->k->name, dl_library_names[by->library]);
    code->call.algorithm = *by;
    reserve(code);
    if (by->form == DL_FORM_WHOLE) return true;
    p.tiling = (dl_tiling){.bm = 32, .bn = 64, .splits = 1};
    p.tiling.mt = dl_ceil_div(p.mode[DL_MODE_M].size, p.tiling.bm);
    p.tiling.nt = dl_ceil_div(p.tile_columns.size, p.tiling.bn);
    code->needs[DL_NEED_TILES] = code->needs[DL_NEED_LOOPS] = 1;
    dl_emit_find_kept(e, code);
    dl_gemm_put_item(e, &p);
    dl_sums_place sums = dl_gemm_sums(e, &p, &code->call);
    return put_rest(e, &p, 0, sums.first,
                    dl_format(e->arena, "ct_take(own, sums + %s);\n", sums.at), true, code, err) &&
           dl_cuda_phases(e, 1, code, err);
}

/* Kernel IR -> CUDA C++: the head of a source, and the choice of a kernel's emitter. */
#include "compiler/cuda/emit_cuda.h"

#include <string.h>

#include "ir/base/foreign.h"

extern const char dl_cuda_kernels_attention[], dl_cuda_kernels_attention_wgmma[],
    dl_cuda_kernels_contract[], dl_cuda_kernels_contract_wgmma[], dl_cuda_kernels_contract_halo[],
    dl_cuda_kernels_device[], dl_cuda_kernels_emulated[], dl_cuda_kernels_emulated_wgmma[],
    dl_cuda_kernels_complex[], dl_cuda_kernels_elements[], dl_cuda_kernels_feed[],
    dl_cuda_kernels_fourier[], dl_cuda_kernels_prelude[], dl_cuda_kernels_recurrence[],
    dl_cuda_kernels_scan[], dl_cuda_kernels_sort[], dl_cuda_kernels_loops[],
    dl_cuda_kernels_warpgroup[];

void dl_cuda_open(dl_buf *out, const dl_target *t, const dl_emitted *needs) {
    dl_puts(out, t->emulated ? dl_cuda_kernels_emulated : dl_cuda_kernels_device);
    dl_puts(out, dl_cuda_kernels_prelude);
    if (needs->needs[DL_NEED_LOOPS]) dl_puts(out, dl_cuda_kernels_loops);
    if (needs->needs[DL_NEED_TILES]) dl_puts(out, dl_cuda_kernels_contract);
    if (needs->needs[DL_NEED_HALO]) dl_puts(out, dl_cuda_kernels_contract_halo);
    bool wgmma = needs->needs[DL_NEED_WGMMA];
    if (wgmma)
        dl_puts(out, t->emulated ? dl_cuda_kernels_emulated_wgmma : dl_cuda_kernels_warpgroup);
    if (wgmma && needs->needs[DL_NEED_TILES]) dl_puts(out, dl_cuda_kernels_contract_wgmma);
    if (needs->needs[DL_NEED_ATTENTION]) dl_puts(out, dl_cuda_kernels_attention);
    if (wgmma && needs->needs[DL_NEED_ATTENTION]) dl_puts(out, dl_cuda_kernels_attention_wgmma);
    if (needs->needs[DL_NEED_FOURIER] & 1) dl_puts(out, dl_cuda_kernels_fourier);
    if (needs->needs[DL_NEED_FOURIER] & 2) dl_puts(out, dl_cuda_kernels_complex);
    if (needs->needs[DL_NEED_RECURRENCE] || needs->needs[DL_NEED_SCAN] ||
        needs->needs[DL_NEED_SORT])
        dl_puts(out, dl_cuda_kernels_elements);
    if (needs->needs[DL_NEED_RECURRENCE]) dl_puts(out, dl_cuda_kernels_recurrence);
    if (needs->needs[DL_NEED_SCAN]) dl_puts(out, dl_cuda_kernels_scan);
    if (needs->needs[DL_NEED_SORT]) dl_puts(out, dl_cuda_kernels_sort);
}

void dl_cuda_feed(dl_buf *out, const dl_target *t) {
    dl_cuda_open(out, t, &(dl_emitted){0});
    dl_puts(out, dl_cuda_kernels_feed);
}

static dl_emitter emitter_of(dl_buf *out, const dl_kernel *k, const dl_target *t) {
    dl_emitter e = {.out = out,
                    .k = k,
                    .t = t,
                    .arena = dl_arena_new(NULL),
                    .name = k->name,
                    .mode = DL_SINGLE,
                    .dialect = dl_cuda_dialect(k, 0),
                    .lane_axis = -1};
    if (dl_kernel_call(k)) return e;
    dl_emit_by_schedule(&e, k);
    e.per_thread = k->schedule.kind == DL_BY_THREAD ? k->schedule.axes : 0;
    e.dialect = dl_cuda_dialect(k, e.per_thread);
    return e;
}

static bool runs_rows(const dl_kernel *k) {
    dl_emitter e = emitter_of(NULL, k, NULL);
    bool runs = dl_cuda_runs_loop_nests(&e, &(dl_emitted){0});
    dl_arena_free(e.arena);
    return runs;
}

/* Long rows are a lane group's; strided ones are a thread's alone. 2^13 points fill a GPU. */
const dl_loop_rules dl_cuda_loops = {.contiguous_terms = 1 << 14,
                                     .strided_terms = 512,
                                     .thread_terms = 32,
                                     .thread_points = 1 << 13,
                                     .runs_rows = runs_rows};

/* Is the kernel a tiled contraction? */
static bool is_tiled(const dl_kernel *k) { return k->schedule.kind == DL_BY_TILES; }

int dl_cuda_one_variants(dl_emitter *e, const char **names) {
    (void)e;
    names[0] = "";
    return 1;
}

/* By op: the emitter of a template, and its variants. */
#define DL_TEMPLATE(id, ...) [DL_OP_##id] = __VA_ARGS__,
#define CALL(results, family, variants, shard)                                                     \
    { dl_cuda_##family, dl_cuda_##variants##_variants }
#define OP DL_TEMPLATE_ROW
static const struct {
    dl_cuda_call *emit;
    dl_cuda_call_variants *variants;
} calls[DL_NOPS] = {
#include "ir/ops.def"
};
#undef OP

int dl_cuda_variants(const dl_kernel *k, const dl_target *t, const char **names) {
    const dl_node *call = dl_kernel_call(k);
    names[0] = "";
    if (!call && !is_tiled(k)) return 1;
    dl_emitter e = emitter_of(NULL, k, t);
    int n = call ? calls[call->op].variants(&e, names) : dl_cuda_tilings(&e, names);
    dl_arena_free(e.arena);
    return n;
}

int dl_cuda_near(const dl_kernel *k, const dl_target *t, double near, dl_cuda_variant *variants) {
    if (!is_tiled(k)) return 0;
    dl_emitter e = emitter_of(NULL, k, t);
    int n = dl_cuda_near_tilings(&e, near, variants);
    dl_arena_free(e.arena);
    return n;
}

int dl_cuda_calls(const dl_kernel *k, const dl_target *t, dl_call *forms) {
    if (!is_tiled(k)) return 0;
    dl_emitter e = emitter_of(NULL, k, t);
    int n = dl_cuda_find_calls(&e, forms);
    dl_arena_free(e.arena);
    return n;
}

/* The number of the variant that the kernel's schedule names; -1: there is none. */
static int find_variant(const dl_kernel *k, const dl_target *t) {
    const char *names[DL_MOST_VARIANTS], *own = k->schedule.variant;
    int n = own ? dl_cuda_variants(k, t, names) : 0;
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], own) == 0) return i;
    return own ? -1 : 0;
}

static bool emit(dl_emitter *e, dl_emitted *code, dl_error *err) {
    const dl_kernel *k = e->k;
    const char *own = k->schedule.variant;
    dl_algorithm by;
    if (!dl_is_c_name(k->name))
        return dl_fail(err, DL_INPUT, "kernel @%s: not a name of C", k->name);
    if (is_tiled(k) && own && dl_algorithm_parse(own, strlen(own), &by))
        return dl_cuda_around_call(e, &by, code, err);
    int variant = find_variant(k, e->t);
    if (variant < 0) return dl_emit_refuse_variant(k, e->t, err);
    switch (k->schedule.kind) {
    case DL_BY_TILES: return dl_cuda_contraction(e, variant, code, err);
    case DL_BY_CALL: return calls[dl_kernel_call(k)->op].emit(e, variant, code, err);
    case DL_BY_SCATTER: return dl_cuda_scatter(e, code, err);
    case DL_BY_POINTS:
    case DL_BY_ROWS:
    case DL_BY_THREAD: return dl_cuda_fused_parts(e, code, err);
    default: return dl_emit_refuse_schedule(k, err);
    }
}

/* Whether each phase, with what its epilogue has added, fits into shared memory. */
static bool fits_shared(const dl_kernel *k, const dl_target *t, const dl_emitted *code,
                        dl_error *err) {
    for (int i = 0; i < code->phases; i++)
        if (code->shared[i] > t->shared * 1024)
            return dl_emit_refuse(k, &k->instrs.at[0], err,
                                  "a kernel of %d bytes of shared memory, and %s has %d KiB of it "
                                  "for a block [DL-E0804]",
                                  code->shared[i], t->name, t->shared);
    return true;
}

bool dl_cuda_emit(dl_arena *arena, dl_buf *out, const dl_kernel *k, const dl_target *t,
                  dl_emitted *code, dl_error *err) {
    dl_buf text = {0};
    dl_emitter e = emitter_of(&text, k, t);
    (void)out;
    e.texts = arena;
    *code = (dl_emitted){0};
    bool ok = dl_check_constants(k, err) && emit(&e, code, err) && fits_shared(k, t, code, err);
    dl_buf_free(&text);
    dl_arena_free(e.arena);
    return ok;
}

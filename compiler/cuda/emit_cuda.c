/* Kernel IR -> CUDA C++: the sources' head, the kernels' heads, and which emitter serves a kernel. */
#include "compiler/cuda/emit_cuda.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/foreign.h"

static const dl_dialect narrow = {"int", "unsigned", "", "U", "x", true},
                        wide = {"long", "unsigned long", "L", "UL", "x", true};

extern const char dl_cuda_kernels_attention[], dl_cuda_kernels_attention_groups[], dl_cuda_kernels_contract[],
    dl_cuda_kernels_contract_groups[], dl_cuda_kernels_contract_halo[], dl_cuda_kernels_device[],
    dl_cuda_kernels_emulated[], dl_cuda_kernels_emulated_groups[], dl_cuda_kernels_feed[],
    dl_cuda_kernels_prelude[], dl_cuda_kernels_sweeps[], dl_cuda_kernels_warpgroup[];

void dl_cuda_open(dl_buf *out, const dl_target *t, const dl_emitted *needs) {
    dl_puts(out, t->emulated ? dl_cuda_kernels_emulated : dl_cuda_kernels_device);
    dl_puts(out, dl_cuda_kernels_prelude);
    if (needs->needs[DL_NEED_SWEEPS]) dl_puts(out, dl_cuda_kernels_sweeps);
    if (needs->needs[DL_NEED_TILES]) dl_puts(out, dl_cuda_kernels_contract);
    if (needs->needs[DL_NEED_HALO]) dl_puts(out, dl_cuda_kernels_contract_halo);
    bool groups = needs->needs[DL_NEED_GROUPS];
    if (groups) dl_puts(out, t->emulated ? dl_cuda_kernels_emulated_groups : dl_cuda_kernels_warpgroup);
    if (groups && needs->needs[DL_NEED_TILES]) dl_puts(out, dl_cuda_kernels_contract_groups);
    if (needs->needs[DL_NEED_ATTENTION]) dl_puts(out, dl_cuda_kernels_attention);
    if (groups && needs->needs[DL_NEED_ATTENTION]) dl_puts(out, dl_cuda_kernels_attention_groups);
}

void dl_cuda_feed(dl_buf *out, const dl_target *t) {
    dl_cuda_open(out, t, &(dl_emitted){0});
    dl_puts(out, dl_cuda_kernels_feed);
}

/* Are all of a kernel's coordinates and places in its parameters counted by ints, and its points, those along
 * `within` together? */
static bool is_narrow(const dl_kernel *k, unsigned within) {
    int64_t points = 1;
    for (int i = 0; i < k->nspace; i++)
        if (!(within >> i & 1) &&
            __builtin_mul_overflow(points, k->space[i].size ? k->space[i].size : 1, &points))
            return false;
    bool ok = points < INT32_MAX / 2;
    for (int i = 0; i < k->params.n; i++) ok = ok && dl_type_stored(&k->params.at[i].type) < INT32_MAX / 2;
    /* a window's or a pad's reach beyond an axis' ends is small beside these halves */
    for (int i = 0; ok && i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind != DL_K_LOAD && in->kind != DL_K_STORE) continue;
        for (int a = 0; a < k->params.at[in->param].type.rank; a++) {
            ok = ok && in->index[a].offset < INT32_MAX / 4 && in->index[a].offset > -INT32_MAX / 4;
            for (int t = 0; t < in->index[a].nterms; t++) {
                int64_t reach = in->index[a].term[t].mul, size = k->space[in->index[a].term[t].axis].size;
                ok = ok && !__builtin_mul_overflow(reach, size, &reach) && reach < INT32_MAX / 8 &&
                     reach > -INT32_MAX / 8;
            }
        }
    }
    return ok;
}

const dl_dialect *dl_cuda_dialect(const dl_kernel *k, unsigned within) {
    return is_narrow(k, within) ? &narrow : &wide;
}

bool dl_cuda_is_shared(const dl_kernel *k, int param) {
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i].alias == param || (i == param && k->params.at[i].alias >= 0)) return true;
    return false;
}

bool dl_cuda_head(dl_emitter *e, dl_emitted *code, int64_t units, int threads, int64_t shared,
                  dl_error *err) {
    const dl_kernel *k = e->k;
    if (!dl_emit_has_phase(e, code, err)) return false;
    if (units > DL_GRID_MOST)
        return dl_emit_refuse(
            k, &k->instrs.at[0], err,
            "a kernel of %lld blocks, more than a GPU launches: use a smaller batch or crop "
            "[DL-E0804]",
            (long long)units);
    int phase = code->phases++;
    if (phase) dl_emit_title(e);
    code->units[phase] = units, code->threads[phase] = threads, code->shared[phase] = (int)shared;
    e->name = dl_format(e->arena, "%s_%d", k->name, phase);
    dl_putf(e->out, DL_CUDA_HEAD "%d", threads);
    if (e->resident) dl_putf(e->out, ", %d", e->resident);
    dl_putf(e->out, ") %s(", e->name);
    for (int i = 0; i < code->nmaps && phase == 0; i++) dl_putf(e->out, "KD_MAP(map%d), ", i);
    for (int i = 0; i < k->params.n; i++)
        dl_putf(e->out, "%s%s *%sp%d, ", i < k->nin ? "const " : "",
                dl_emit_element_type(k->params.at[i].type.dtype),
                dl_cuda_is_shared(k, i) ? "" : "__restrict__ ", i);
    dl_puts(e->out, "char *workspace) {\n");
    return true;
}

void dl_cuda_foot(dl_emitter *e) { dl_puts(e->out, "}\n"); }

/* Does a text have "x2"? */
static bool names(const dl_buf *text, int axis) {
    char name[16];
    size_t n = (size_t)snprintf(name, sizeof name, "x%d", axis);
    for (const char *at = text->at, *end = at + text->n; (at = memmem(at, (size_t)(end - at), name, n));
         at += n)
        if (!isalnum((unsigned char)at[-1]) && at[-1] != '_' && !isdigit((unsigned char)at[n])) return true;
    return false;
}

void dl_cuda_still_axes(dl_emitter *e, unsigned axes, const dl_buf *body) {
    for (int i = 0; i < e->k->nspace; i++)
        if (!(axes >> i & 1) && names(body, i))
            dl_putf(e->out, "    const %s x%d = 0;\n", e->dialect->index, i);
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
    e.steps = dl_kernel_steps(k, e.arena);
    e.partial = DL_NEWS(e.arena, dl_partial, k->instrs.n + 1);
    e.kept = DL_NEWS(e.arena, dl_kept, k->instrs.n + 1);
    return e;
}

static bool scatters(const dl_kernel *k) {
    bool any = false;
    for (int i = 0; i < k->instrs.n; i++)
        any |= k->instrs.at[i].kind == DL_K_STORE && dl_kinstr_by(k, &k->instrs.at[i]) >= 0;
    return any;
}

/* Is the kernel made of tiles around a contraction? */
static bool is_tiled(const dl_kernel *k) {
    return !dl_kernel_call(k) && !scatters(k) && dl_kernel_anchor(k) >= 0;
}

int dl_cuda_variants(const dl_kernel *k, const dl_target *t, const char **names) {
    names[0] = "";
    bool call = dl_kernel_call(k);
    if (!call && !is_tiled(k)) return 1;
    dl_emitter e = emitter_of(NULL, k, t);
    int n = call ? dl_cuda_attention_ways(&e, names) : dl_cuda_tilings(&e, names);
    dl_arena_free(e.arena);
    return n;
}

int dl_cuda_near(const dl_kernel *k, const dl_target *t, double near, dl_cuda_way *ways) {
    if (!is_tiled(k)) return 0;
    dl_emitter e = emitter_of(NULL, k, t);
    int n = dl_cuda_near_tilings(&e, near, ways);
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

static bool emit(dl_emitter *e, dl_way way, dl_emitted *code, dl_error *err) {
    const dl_kernel *k = e->k;
    if (!dl_is_c_name(k->name)) return dl_fail(err, DL_INPUT, "kernel @%s: not a name of C", k->name);
    dl_puts(e->out, "\n");
    dl_emit_title(e);
    if (way.by) return dl_cuda_around_call(e, way.by, code, err);
    if (is_tiled(k)) return dl_cuda_contraction(e, way.variant, code, err);
    if (dl_kernel_call(k)) return dl_cuda_attention(e, way.variant, code, err);
    DL_CHECK(way.variant == 0);
    return scatters(k) ? dl_cuda_scatter(e, code, err) : dl_cuda_strands(e, code, err);
}

bool dl_cuda_emit(dl_buf *out, const dl_kernel *k, const dl_target *t, dl_way way, dl_emitted *code,
                  dl_error *err) {
    dl_emitter e = emitter_of(out, k, t);
    *code = (dl_emitted){0};
    bool ok = dl_check_constants(k, err) && emit(&e, way, code, err);
    dl_arena_free(e.arena);
    return ok;
}

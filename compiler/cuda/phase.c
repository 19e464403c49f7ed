/* The head and the end of a phase of a CUDA kernel: phase.h. */
#include "compiler/cuda/phase.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const dl_dialect narrow = {"int", "unsigned", "", "U", "x", true},
                        wide = {"long", "unsigned long", "L", "UL", "x", true};

/* Do all of a kernel's coordinates, indices and points fit int, with those along `within`
 * included? */
static bool fits_int(const dl_kernel *k, unsigned per_thread) {
    int64_t points = 1;
    for (int i = 0; i < k->nspace; i++)
        if (!(per_thread >> i & 1) &&
            __builtin_mul_overflow(points, k->space[i].size ? k->space[i].size : 1, &points))
            return false;
    bool ok = points < INT32_MAX / 2;
    for (int i = 0; i < k->params.n; i++)
        ok = ok && dl_type_stored(&k->params.at[i].type) < INT32_MAX / 2;
    /* a window's or a pad's reach beyond an axis is small compared with this margin */
    for (int i = 0; ok && i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind != DL_K_LOAD && in->kind != DL_K_STORE) continue;
        for (int a = 0; a < k->params.at[in->param].type.rank; a++) {
            ok = ok && in->index[a].offset < INT32_MAX / 4 && in->index[a].offset > -INT32_MAX / 4;
            for (int t = 0; t < in->index[a].nterms; t++) {
                int64_t reach = in->index[a].term[t].mul,
                        size = k->space[in->index[a].term[t].axis].size;
                ok = ok && !__builtin_mul_overflow(reach, size, &reach) && reach < INT32_MAX / 8 &&
                     reach > -INT32_MAX / 8;
            }
        }
    }
    return ok;
}

const dl_dialect *dl_cuda_dialect(const dl_kernel *k, unsigned per_thread) {
    return fits_int(k, per_thread) ? &narrow : &wide;
}

bool dl_cuda_is_shared(const dl_kernel *k, int param) {
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i].alias == param || (i == param && k->params.at[i].alias >= 0))
            return true;
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

/* Does a text contain "x2"? */
static bool names(const dl_buf *text, int axis) {
    char name[16];
    size_t n = (size_t)snprintf(name, sizeof name, "x%d", axis);
    for (const char *at = text->at, *end = at + text->n;
         (at = memmem(at, (size_t)(end - at), name, n)); at += n)
        if (!isalnum((unsigned char)at[-1]) && at[-1] != '_' && !isdigit((unsigned char)at[n]))
            return true;
    return false;
}

void dl_cuda_put_point_axes(dl_emitter *e, unsigned axes, const dl_buf *body) {
    for (int i = 0; i < e->k->nspace; i++)
        if (!(axes >> i & 1) && names(body, i))
            dl_putf(e->out, "    const %s x%d = 0;\n", e->dialect->index, i);
}

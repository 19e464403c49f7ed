/* A CUDA kernel's phases as C++ by themselves, before functions are merged: each takes all of the
 * kernel's parameters. `variant`: its name, or NULL. */
#ifndef DL_TEST_CUDA_TEXT_H
#define DL_TEST_CUDA_TEXT_H
#include "compiler/codegen/holes.h"
#include "compiler/cuda/cuda.h"

static bool emit_cuda_text(dl_buf *out, const dl_kernel *k, const dl_target *t, const char *variant,
                           dl_emitted *code, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_kernel own = *k;
    own.schedule.variant = variant;
    bool ok = dl_cuda_emit(arena, out, &own, t, code, err);
    for (int i = 0; ok && i < code->texts.n; i++) {
        const dl_phase *p = code->texts.at[i];
        dl_putf(out, "\n%s", p->title);
        if (i == 0) dl_fill_holes(out, p->structs, k->name);
        dl_putf(out, DL_CUDA_HEAD "%s) %s_%d(%s", p->bounds, k->name, i, p->maps);
        for (int a = 0; a < p->params.n; a++)
            dl_putf(out, "%s%sp%d, ", p->params.at[a].type, p->params.at[a].qualifier, a);
        dl_puts(out, "char *workspace) {\n");
        dl_fill_holes(out, p->body, k->name);
    }
    dl_arena_free(arena);
    return ok;
}
#endif

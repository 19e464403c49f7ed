/* Scatter-add on GPUs: a CTA searches for the points of one destination; where there are few
 * points, each thread has one element of the result. */
#include "compiler/codegen/scatter.h"
#include "compiler/cuda/emit_loops.h"

enum { FEW_POINTS = 32 /* that each thread searches alone */ };

bool dl_cuda_scatter(dl_emitter *e, dl_emitted *code, dl_error *err) {
    dl_scatter s;
    if (!dl_scatter_find(e, &s, err)) return false;
    dl_buf body = {0}, *out = e->out;
    e->out = &body, code->needs[DL_NEED_LOOPS] = 1;
    int64_t items = s.added.points <= FEW_POINTS ? dl_scatter_elements(&s, DL_BLOCK)
                                                 : dl_scatter_places(&s, DL_BLOCK);
    e->out = out;
    return dl_cuda_put_phase(e, code, &body, items, 0, false, err);
}

/* Calls of a recurrent layer's steps and of their gradient: the sizes of kernels/recurrence.cu. */
#include <stdio.h>

#include "compiler/cuda/emit_cuda.h"
#include "ir/recurrence.h"

static void put_shape(dl_emitter *e, const dl_recurrence *r) {
    dl_putf(e->out,
            "    const recurrence_shape s = {$%lldL$, $%lldL$, $%lld$, $%d$, $%d$, %d, %d, %s};\n",
            (long long)r->batch, (long long)r->steps, (long long)r->size, r->gates, r->saved,
            r->states, (int)r->ends, r->reverse ? "true" : "false");
}

bool dl_cuda_recurrence(dl_emitter *e, int variant, dl_emitted *code, dl_error *err) {
    /* LINES sequences of a CTA read the weight once; MANY: then they still fill a GPU. */
    enum { LINES = 4, MANY = 512, SIZE_MOST = INT32_MAX / 64 };
    (void)variant;
    const dl_node *n = dl_kernel_call(e->k);
    const dl_recurrence r = dl_recurrence_of(n);
    bool back = n->op == DL_OP_recurrent_grad;
    dl_dtype type = e->k->params.at[0].type.dtype;
    const char *elements = dl_cuda_elements(type), *number = type == DL_F64 ? "double" : "float";
    int64_t bytes = type == DL_F64 ? 8 : 4, lines = r.batch >= MANY ? LINES : 1;
    int64_t columns = (back ? 1 : r.gates) * r.size;
    int64_t memory = dl_round_up(lines * (2 + r.gates) * r.size * bytes, 16);
    int64_t ctas = dl_ceil_div(r.batch, lines), packed = 0;
    int64_t threads = columns < DL_BLOCK ? dl_round_up(columns ? columns : 1, DL_WARP) : DL_BLOCK;
    bool shared = memory <= dl_cuda_tile_room(e->t);
    if (r.size > SIZE_MOST)
        return dl_emit_refuse(e->k, &e->k->instrs.at[0], err,
                              "'%s' has %lld units, and kernels have at most %d [DL-E0804]",
                              dl_ops[n->op].name, (long long)r.size, (int)SIZE_MOST);
    if (!back) {
        int64_t count = r.gates * r.size * r.size;
        packed = dl_round_up(count * bytes, 16);
        if (!dl_cuda_head(e, code, dl_ceil_div(count, DL_BLOCK), DL_BLOCK, 0, err)) return false;
        put_shape(e, &r);
        dl_putf(e->out, "    recurrent_pack<%s>(s, $p1$, (%s *)workspace);\n", elements, number);
        dl_cuda_foot(e, code, 1);
    }
    if (!dl_cuda_head(e, code, ctas, (int)threads, shared ? memory : 0, err)) return false;
    put_shape(e, &r);
    if (shared)
        dl_puts(e->out, "    KD_SHARED(char, memory);\n");
    else
        dl_putf(e->out, "    char *memory = workspace + $%lldL$ + (long)blockIdx.x * $%lldL$;\n",
                (long long)packed, (long long)memory);
    int in = back ? DL_STEPS_GRAD_IN : DL_STEPS_IN, out = in + r.started;
    char start[16] = "nullptr";
    if (r.started) snprintf(start, sizeof start, "$p%d$", in);
    if (back)
        dl_putf(e->out,
                "    recurrent_steps_back<%s, %s, %d>(s, $p0$, $p1$, $p2$, $p3$, %s, $p%d$, "
                "$p%d$, (%s *)memory);\n",
                elements, dl_cells[r.cell].symbol, (int)lines, start, out, out + 1, number);
    else
        dl_putf(e->out,
                "    recurrent_steps<%s, %s, %d>(s, $p0$, $p2$, %s, $p%d$, $p%d$, (const %s "
                "*)workspace, (%s *)memory);\n",
                elements, dl_cells[r.cell].symbol, (int)lines, start, out, out + 1, number, number);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    code->workspace = packed + (shared ? 0 : ctas * memory);
    code->needs[DL_NEED_RECURRENCE] = 1;
    return true;
}

/* Calls of templates: the table of their meanings, and results that are judged. */
#include "ir/interp/interp_parts.h"

#define DL_TEMPLATE(id, ...) [DL_OP_##id] = dl_interp_##id,
#define OP                   DL_TEMPLATE_ROW
dl_interp_call *const dl_interp_calls[DL_NOPS] = {
#include "ir/ops.def"
};
#undef OP

void dl_interp_run_call(const dl_node *call, double *const *data, bool round,
                        const dl_interp_ranges *ranges) {
    if (!ranges) {
        dl_interp_calls[call->op](call, data, round, NULL);
        return;
    }
    dl_arena *scratch = dl_arena_new(NULL);
    double **own = DL_NEWS(scratch, double *, call->nin + call->nout);
    double **low = DL_NEWS(scratch, double *, call->nout),
           **high = DL_NEWS(scratch, double *, call->nout);
    memcpy(own, data, sizeof *own * (size_t)(call->nin + call->nout));
    for (int k = 0; k < call->nout; k++) {
        int64_t count = dl_type_count(&call->out[k].type);
        own[call->nin + k] = DL_NEWS(scratch, double, count + 1);
        low[k] = DL_NEWS(scratch, double, count + 1), high[k] = DL_NEWS(scratch, double, count + 1);
    }
    dl_interp_calls[call->op](call, own, round, &(dl_interp_ends){low, high});
    for (int k = 0; k < call->nout; k++) {
        const dl_type *t = &call->out[k].type;
        for (int64_t e = 0; e < dl_type_count(t); e++)
            ranges->judge(ranges->user, k, e,
                          dl_interp_convert(t->dtype, own[call->nin + k][e], round), low[k][e],
                          high[k][e]);
    }
    dl_arena_free(scratch);
}

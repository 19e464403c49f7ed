/* The cost of a kernel: its operations, and the bytes that its loops move. */
#include "ir/base/counts.h"
#include "ir/kernel/schedule.h"
#include "ir/templates.h"

/* Counts every tap of every output, on the padding too: the convention of the literature and of
 * PyTorch's counter. */
static int64_t contraction_flops(const dl_kernel *k, const dl_kinstr *in) {
    dl_relation r = dl_kernel_relation(k, in);
    return dl_count_times(2, dl_relation_products(&r));
}

typedef int64_t flops_of(const dl_node *call);
#define DL_TEMPLATE(id, ...)                   __VA_ARGS__
#define CALL(results, family, variants, shard) flops_of dl_##family##_flops;
#define OP                                     DL_TEMPLATE_ROW
#include "ir/ops.def"
#undef DL_TEMPLATE
#undef CALL
#define DL_TEMPLATE(id, ...)                   [DL_OP_##id] = __VA_ARGS__,
#define CALL(results, family, variants, shard) dl_##family##_flops
static flops_of *const call_flops[DL_NOPS] = {
#include "ir/ops.def"
};
#undef OP

/* How often parameter p goes through memory: once, or once in each loop nest over points that
 * accesses it. */
static int64_t count_passes(const dl_kernel *k, const dl_loop_nests *nests, int p) {
    int64_t n = 0;
    for (int i = 0; i < nests->n; i++) {
        bool touches = false;
        for (int j = 0; j < nests->at[i].run.n; j++) {
            const dl_kinstr *in = &k->instrs.at[nests->at[i].run.at[j]];
            touches |= (in->kind == DL_K_LOAD || in->kind == DL_K_STORE) && in->param == p;
        }
        n += touches && !nests->at[i].finalize;
    }
    return n ? n : 1;
}

void dl_kernel_count_scheduled(dl_kernel *k, const dl_scheduled *runs) {
    dl_arena *arena = dl_arena_new(NULL);
    const unsigned *axes = dl_kernel_axes(k, arena);
    k->flops = k->bytes = 0;
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind == DL_K_CALL)
            k->flops = dl_count_plus(k->flops, call_flops[in->call->op](in->call));
        if (in->kind == DL_K_CONTRACT) k->flops = dl_count_plus(k->flops, contraction_flops(k, in));
        if (in->kind == DL_K_ELEM || in->kind == DL_K_RANDOM)
            k->flops = dl_count_plus(k->flops, dl_axes_points(k->nspace, k->space, axes[i]));
        if (in->kind == DL_K_REDUCE)
            k->flops = dl_count_plus(
                k->flops, dl_axes_points(k->nspace, k->space, axes[in->args[0]] | in->over));
    }
    for (int i = 0; i < k->params.n; i++)
        k->bytes = dl_count_plus(k->bytes, dl_count_times(dl_type_bytes(&k->params.at[i].type),
                                                          count_passes(runs->k, &runs->nests, i)));
    dl_arena_free(arena);
}

void dl_kernel_count(dl_kernel *k) {
    dl_arena *arena = dl_arena_new(NULL);
    const dl_scheduled runs = dl_kernel_scheduled(arena, k);
    dl_kernel_count_scheduled(k, &runs);
    dl_arena_free(arena);
}

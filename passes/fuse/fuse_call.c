/* Fusion: a template becomes a kernel without changes. */
#include "ir/kernel/schedule.h"
#include "passes/fuse/fuse.h"

dl_node *dl_fuse_call(dl_fusion *f, dl_node *n, const char *name) {
    dl_arena *arena = f->graph->module->arena;
    dl_kernel *k = DL_NEW(arena, dl_kernel);
    dl_type *types = DL_NEWS(f->ctx->arena, dl_type, n->nin + n->nout);
    k->name = name, k->nin = n->nin;
    for (int i = 0; i < n->nin + n->nout; i++) {
        bool out = i >= n->nin;
        types[i] = out ? n->out[i - n->nin].type : n->in[i]->type;
        dl_kparam p = {.name = dl_internf(out ? "o%d" : "i%d", out ? i - n->nin : i),
                       .type = types[i],
                       .is_out = out,
                       .alias = -1};
        dl_push(arena, &k->params, p);
        k->bytes_unfused += dl_type_bytes(&types[i]);
    }
    dl_kinstr call = {.kind = DL_K_CALL, .op = n->op, .type = types[n->nin].dtype, .loc = n->loc};
    call.call = dl_call_node(arena, n->op, n->nin, n->nout, types, n->nattrs, n->attrs, n->loc);
    dl_push(arena, &k->instrs, call);
    if (n->loc.line) dl_push(arena, &k->locs, n->loc);
    dl_kernel_schedule(k, f->ctx->loops);

    uint32_t next = f->graph->next_id;
    dl_node *fused =
        dl_node_new(f->graph, DL_OP_fused, n->nin, n->in, n->nout, types + n->nin, n->loc);
    f->graph->next_id = next;
    for (int i = 0; i < n->nout; i++) fused->out[i].id = n->out[i].id; /* values keep their ids */
    fused->kernel = k;
    return fused;
}

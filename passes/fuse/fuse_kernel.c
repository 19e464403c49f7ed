/* Fusion, second half: the kernel of a cluster of nodes. See ir/kernel/kernel.h for kernels.
 *
 * In: a cluster of fuse.h with sorted members. Out: a kernel with its instructions, stores and
 * parameters, and the fused node that runs it. */
#include "ir/kernel/schedule.h"
#include "passes/fuse/fuse_maker.h"

static const dl_node *member(const dl_maker *m, int i) {
    return m->f->graph->nodes.at[m->cluster->members.at[i]];
}

static bool is_reduction(const dl_node *n) { return dl_ops[n->op].class == DL_CLASS_REDUCE; }

/* Fills the level of each member; returns the highest. A value with fewer axes than the space is
 * computed at the level of its first reader. */
static int find_levels(dl_maker *m) {
    int most = 0;
    m->level = DL_NEWS(m->scratch, int, m->cluster->members.n + 1);
    for (int i = 0; i < m->cluster->members.n; i++) {
        const dl_node *n = member(m, i);
        for (int k = 0; k < n->nin; k++) {
            int of = dl_fuse_member(m->f, m->cluster, n->in[k]);
            if (of < 0) continue;
            int level = m->level[of] + is_reduction(member(m, of));
            if (level > m->level[i]) m->level[i] = level;
        }
        int value = m->level[i] + is_reduction(n);
        if (value > most) most = value;
    }
    int *latest =
        DL_NEWS(m->scratch, int, m->cluster->members.n + 1); /* the last level that needs it */
    for (int i = m->cluster->members.n - 1; i >= 0; i--) {
        const dl_node *n = member(m, i);
        bool early = is_reduction(n) || n->out[0].type.rank >= m->k->nspace;
        if (!early) m->level[i] = most - latest[i];
        for (int k = 0; k < n->nin; k++) {
            int of = dl_fuse_member(m->f, m->cluster, n->in[k]);
            if (of >= 0 && most - m->level[i] > latest[of]) latest[of] = most - m->level[i];
        }
    }
    return most;
}

static void store(dl_maker *m, dl_value *v) {
    dl_kinstr s = {.kind = DL_K_STORE,
                   .type = v->type.dtype,
                   .nargs = 1,
                   .args = {m->f->instr[m->f->position[v->id]]},
                   .index = DL_NEWS(m->f->graph->module->arena, dl_index, v->type.rank),
                   .loc = v->def->loc};
    if (dl_op_move(v->def->op) == DL_MOVE_SCATTER)
        dl_maker_by_number(m, v->def, &v->type, dl_maker_read(m, v->def->in[1]), DL_OUT_ZERO,
                           s.index);
    else
        dl_maker_identity(m, &v->type, s.index);
    if (v->def->op == DL_OP_scatter_max) s.op = DL_OP_reduce_max;
    s.param = -1 - (int)v->id; /* outputs are numbered after the inputs, at the end */
    dl_maker_emit(m, s);
}

/* Emits the members of one level: pointwise nodes, of which a contraction is the first; the
 * operands of reductions; the stores that are possible now; the reductions. */
static void compute_level(dl_maker *m, int level, int nouts, dl_value *const *outs) {
    for (int first = 1; first >= 0; first--)
        for (int i = 0; i < m->cluster->members.n; i++) {
            const dl_node *n = member(m, i);
            if (m->level[i] == level && !is_reduction(n) &&
                (dl_ops[n->op].class == DL_CLASS_CONTRACT) == first)
                m->f->instr[m->cluster->members.at[i]] = dl_maker_compute(m, n);
        }
    for (int i = 0; i < m->cluster->members.n; i++)
        if (m->level[i] == level && is_reduction(member(m, i)))
            dl_maker_read(m, member(m, i)->in[0]);
    for (int i = 0; i < nouts; i++) {
        int at = dl_fuse_member(m->f, m->cluster, outs[i]);
        if (m->level[at] + is_reduction(outs[i]->def) == level) store(m, outs[i]);
    }
    for (int i = 0; i < m->cluster->members.n; i++)
        if (m->level[i] == level && is_reduction(member(m, i)))
            m->f->instr[m->cluster->members.at[i]] = dl_maker_compute(m, member(m, i));
}

/* The input whose memory output `v` may take, or -1: the variable whose next value it is. */
static int find_old(const dl_maker *m, const dl_value *v) {
    const dl_var *var = m->f->next_of[v->id];
    for (int p = 0; var && p < m->operands.n; p++)
        if (m->operands.at[p] == &var->value) return p;
    return -1;
}

/* Chooses the schedule of a kernel whose outputs take the memory of old values. An output that
 * the schedule writes too early takes its own memory, and the choice is repeated without it. By
 * points, and by the schedule of no target, it must not be too early, either: memory is then the
 * same for all targets. */
static void schedule(dl_maker *m) {
    dl_kernel *k = m->k;
    bool shares = false;
    for (int i = k->nin; i < k->params.n; i++) shares |= k->params.at[i].alias >= 0;
    if (shares) {
        dl_kernel_schedule(k, NULL);
        dl_schedule_unshare(m->scratch, k, k->schedule);
        dl_schedule_unshare(m->scratch, k, (dl_loop_schedule){.kind = DL_BY_POINTS});
    }
    do dl_kernel_schedule(k, m->f->ctx->loops);
    while (k->schedule.kind != DL_BY_POINTS && k->schedule.kind != DL_BY_TILES &&
           dl_schedule_unshare(m->scratch, k, k->schedule));
}

static void add_location(dl_maker *m, dl_loc loc) {
    if (!loc.line) return;
    for (int i = 0; i < m->k->locs.n; i++)
        if (m->k->locs.at[i].line == loc.line && m->k->locs.at[i].file == loc.file) return;
    dl_push(m->f->graph->module->arena, &m->k->locs, loc);
}

dl_node *dl_fuse_build(dl_fusion *f, dl_cluster *cluster, int nouts, dl_value *const *outs,
                       const char *name) {
    dl_arena *arena = f->graph->module->arena;
    dl_kernel *k = DL_NEW(arena, dl_kernel);
    k->name = name;
    k->nspace = cluster->space.rank;
    for (int i = 0; i < k->nspace; i++) k->space[i] = cluster->space.axis[i];
    dl_maker m = {.f = f, .scratch = dl_arena_new(NULL), .cluster = cluster, .k = k};
    m.reads_back = dl_fuse_passes(f, (int)(cluster - f->clusters.at), 0, NULL) > 1;
    for (int level = 0, most = find_levels(&m); level <= most; level++)
        compute_level(&m, level, nouts, outs);

    k->nin = m.operands.n;
    dl_type *types = DL_NEWS(m.scratch, dl_type, nouts + 1);
    for (int i = 0; i < nouts; i++) {
        types[i] = outs[i]->type;
        dl_kparam p = {
            .name = dl_internf("o%d", i), .type = outs[i]->type, .is_out = true, .alias = -1};
        dl_push(arena, &k->params, p);
        for (int j = 0; j < k->instrs.n; j++)
            if (k->instrs.at[j].kind == DL_K_STORE &&
                k->instrs.at[j].param == -1 - (int)outs[i]->id)
                k->instrs.at[j].param = k->nin + i;
    }
    for (int i = 0; i < nouts; i++) k->params.at[k->nin + i].alias = find_old(&m, outs[i]);
    for (int i = 0; i < cluster->members.n; i++) {
        const dl_node *n = f->graph->nodes.at[cluster->members.at[i]];
        add_location(&m, n->loc);
        if (&f->clusters.at[f->cluster[cluster->members.at[i]]] != cluster)
            continue; /* a rematerialized node */
        k->bytes_unfused += dl_type_bytes(&n->out[0].type);
        for (int j = 0; j < n->nin; j++) k->bytes_unfused += dl_type_bytes(&n->in[j]->type);
    }
    for (int i = 0; i < k->instrs.n && !k->locs.n;
         i++) /* the operand of a stored view that belongs to no cluster */
        add_location(&m, k->instrs.at[i].loc);
    dl_kinstr *kept = DL_NEWS(arena, dl_kinstr, k->instrs.n + 1);
    memcpy(kept, k->instrs.at, sizeof *kept * (size_t)k->instrs.n);
    k->instrs.at = kept, k->instrs.cap = k->instrs.n + 1;
    schedule(&m);
    for (int i = 0; i < cluster->members.n; i++) f->instr[cluster->members.at[i]] = -1;

    dl_loc loc = f->graph->nodes.at[cluster->members.at[cluster->members.n - 1]]->loc;
    uint32_t next = f->graph->next_id;
    dl_node *fused = dl_node_new(f->graph, DL_OP_fused, k->nin, m.operands.at, nouts, types, loc);
    f->graph->next_id = next;
    for (int i = 0; i < nouts; i++) fused->out[i].id = outs[i]->id; /* values keep their ids */
    fused->kernel = k;
    dl_arena_free(m.scratch);
    return fused;
}

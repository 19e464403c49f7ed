/* recompute: recomputes operands of backward contractions shortly before their use, where this
 * takes little time, so that memory need not keep them from the forward pass on.
 *
 * A contraction's weight gradient reads the contraction's operand. Often that operand is a few
 * scalar ops away from values that the backward pass reads anyway: gelu's result from its
 * argument, a norm's from the normalised values. A kernel of these ops alone, right before the
 * gradient, frees the operand's memory between its last forward reader and the gradient. PyTorch
 * calls this selective activation checkpointing (Korthikanti et al., Reducing activation
 * recomputation in large transformer models, 2022). Rematerialization within kernels
 * (rematerialize.c) is decided earlier. */
#include "ir/kernel/contraction_rules.h"
#include "ir/kernel/schedule.h"
#include "ir/walk.h"
#include "passes/pass.h"

enum {
    MOST_OPS = 24, /* the most ops of such a kernel */
    SMALL = 16,    /* a value this many times smaller than the operand may be kept for it */
    FUSED_TIMES =
        16, /* an added result of an existing kernel pays if the readers' flops a byte are this many
               times the target's balance: then one more write is a sixteenth of their time; */
    UNFUSED_TIMES = 40 /* a kernel of its own, which loads its operands, too: a twentieth */
};

typedef struct {
    dl_graph *g;
    dl_arena *scratch;
    dl_uses *uses; /* of values with ids below `known`, before any change */
    uint32_t known;
    int64_t balance; /* the target's flops in the time of one byte */
    const dl_loop_rules *loops;
    const dl_contraction_rules *contractions;
    bool *early;   /* by node: the loss or an output depends on it */
    int *position; /* by value id: the position of its node, or -1 */
    bool *gone;    /* by value id: recomputed, so the backward pass no longer reads the original */
    int *writer;   /* by value id of a variable: the node that overwrites it, or -1 */
    int number;    /* the number of the next kernel */
    bool changed;
} remaker;

/* A value, and the kernel that recomputes it. */
typedef struct {
    remaker *r;
    const dl_node *from;
    dl_value *value;
    dl_kernel *made;
    DL_ARRAY(dl_value *) operands;
    int *place; /* by instruction of the original kernel: its number here, or -1 */
} remade;

static bool is_late(const remaker *r, const dl_node *n) {
    return !r->early[r->position[n->out[0].id]];
}

/* Does the backward pass read the value anyway? */
static bool is_kept(const remaker *r, const dl_value *v) {
    const dl_uses *u = &r->uses[v->id];
    if (v->var || u->results) return true;
    for (int i = 0; i < u->n && !r->gone[v->id]; i++)
        if (is_late(r, u->readers[i])) return true;
    return false;
}

static bool may_keep(const remade *m, const dl_value *v) {
    return is_kept(m->r, v) || dl_type_bytes(&v->type) * SMALL <= dl_type_bytes(&m->value->type);
}

static int emit(remade *m, dl_kinstr in) {
    dl_push(m->r->g->module->arena, &m->made->instrs, in);
    return m->made->instrs.n - 1;
}

static int load(remade *m, dl_value *v, dl_index *index, dl_loc loc) {
    dl_kinstr in = {
        .kind = DL_K_LOAD, .type = dl_kernel_type(v->type.dtype), .index = index, .loc = loc};
    while (in.param < m->operands.n && m->operands.at[in.param] != v) in.param++;
    if (in.param == m->operands.n) {
        dl_push(m->r->scratch, &m->operands, v);
        dl_push(m->r->g->module->arena, &m->made->params,
                (dl_kparam){.name = dl_internf("i%d", in.param), .type = v->type, .alias = -1});
    }
    return emit(m, in);
}

/* A kept result of the original kernel that holds the value of instruction `i`: returns the
 * store that writes it. */
static const dl_kinstr *find_stored(const remade *m, int i) {
    const dl_kernel *k = m->from->kernel;
    for (int s = 0; s < k->instrs.n; s++) {
        const dl_kinstr *in = &k->instrs.at[s];
        if (in->kind != DL_K_STORE || in->args[0] != i || dl_kinstr_indirect(k, in) >= 0) continue;
        const dl_value *v = &m->from->out[in->param - k->nin];
        if (v != m->value && dl_kernel_type(v->type.dtype) == k->instrs.at[i].type &&
            may_keep(m, v))
            return in;
    }
    return NULL;
}

/* Copies instruction `i` of the original kernel into the new one. Returns its number there, or
 * -1 where it cannot be copied. */
static int take(remade *m, int i) {
    const dl_kernel *k = m->from->kernel;
    dl_kinstr in = k->instrs.at[i];
    if (m->place[i] >= 0) return m->place[i];
    const dl_kinstr *stored = find_stored(m, i);
    if (stored)
        return m->place[i] = load(m, &m->from->out[stored->param - k->nin], stored->index, in.loc);
    switch (in.kind) {
    case DL_K_LOAD:
        if (dl_kinstr_indirect(k, &in) >= 0 || !may_keep(m, m->from->in[in.param])) return -1;
        return m->place[i] = load(m, m->from->in[in.param], in.index, in.loc);
    case DL_K_ELEM:
        if (dl_op_is_transcendental(in.op)) return -1;
        for (int a = 0; a < in.nargs; a++)
            if ((in.args[a] = take(m, in.args[a])) < 0) return -1;
        break;
    case DL_K_CONST:
    case DL_K_COORD: break;
    default: return -1;
    }
    if (m->made->instrs.n >= MOST_OPS) return -1;
    return m->place[i] = emit(m, in);
}

/* The position of the new node: before `first`, and before nodes that overwrite variables that
 * it reads. */
static int find_front(const remaker *r, const dl_node *made, int first) {
    for (int k = 0; k < made->nin; k++) {
        int writer = made->in[k]->var ? r->writer[made->in[k]->id] : -1;
        if (writer >= 0 && writer < first) first = writer;
    }
    return first;
}

/* Do the readers have so many flops that the time of the recomputation is negligible? */
static bool pays(const remaker *r, const dl_value *v, int64_t flops, int times) {
    return flops / (times * r->balance) >= dl_type_bytes(&v->type);
}

/* The backward readers of a value, which must all be contractions: returns the position of the
 * first one, and the sum of their flops in *flops. -1: there is none, or one is no contraction. */
static int find_late(const remaker *r, const dl_value *v, int64_t *flops) {
    const dl_uses *u = &r->uses[v->id];
    int first = -1;
    bool early = false;
    *flops = 0;
    for (int i = 0; i < u->n; i++) {
        const dl_node *n = u->readers[i];
        early |= !is_late(r, n);
        if (!is_late(r, n) || (i && n == u->readers[i - 1])) continue;
        int anchor = n->op == DL_OP_fused ? dl_kernel_anchor(n->kernel) : -1;
        if (anchor < 0) return -1;
        for (int k = 0; k < n->kernel->instrs.n; k++) {
            const dl_kinstr *in = &n->kernel->instrs.at[k];
            if (in->kind == DL_K_LOAD && n->in[in->param] == v) return -1;
        }
        if (first < 0) first = r->position[n->out[0].id];
        *flops += n->kernel->flops;
    }
    return early && !u->results && pays(r, v, *flops, FUSED_TIMES) ? first : -1;
}

/* ---- an existing backward kernel that has the operands computes the value, too ---- */

static bool is_same(const dl_kinstr *a, const dl_kinstr *b) {
    return a->kind == b->kind && a->op == b->op && a->type == b->type && a->nargs == b->nargs &&
           !memcmp(a->args, b->args, sizeof *a->args * (size_t)a->nargs) && a->p == b->p &&
           a->axis == b->axis && a->param == b->param;
}

/* The host's instruction that equals instruction `i` of the new kernel, or -1. of: the same for
 * the instructions before it. */
static int find_same(const remade *m, const dl_node *host, const int *of, int i) {
    const dl_kernel *k = host->kernel;
    dl_kinstr in = m->made->instrs.at[i];
    bool loads = in.kind == DL_K_LOAD;
    int rank = loads ? m->made->params.at[in.param].type.rank : 0;
    for (int a = 0; a < in.nargs; a++)
        if ((in.args[a] = of[in.args[a]]) < 0) return -1;
    for (int j = 0; j < k->instrs.n; j++) {
        dl_kinstr other = k->instrs.at[j];
        if (loads && other.kind == DL_K_LOAD) {
            if (host->in[other.param] != m->operands.at[in.param]) continue;
            other.param = in.param;
        }
        if (is_same(&in, &other) && (!loads || dl_index_same(in.index, other.index, rank)))
            return j;
    }
    return -1;
}

static bool has_operands(const remade *m, const dl_node *n, int *of) {
    if (n->op != DL_OP_fused || dl_kernel_call(n->kernel)) return false;
    const dl_kernel *k = n->kernel;
    int anchor = dl_kernel_anchor(k);
    bool in_order = anchor >= 0 && m->r->contractions->in_memory_order(k->instrs.at[anchor].op);
    if (in_order || k->nspace != m->made->nspace) return false;
    for (int a = 0; a < k->nspace; a++)
        if (k->space[a].name != m->made->space[a].name ||
            k->space[a].size != m->made->space[a].size)
            return false;
    for (int i = 0; i < m->made->instrs.n; i++) {
        dl_kinstr_kind kind = m->made->instrs.at[i].kind;
        of[i] = kind == DL_K_STORE ? -1 : find_same(m, n, of, i);
        if (of[i] < 0 && kind == DL_K_LOAD) return false;
    }
    return true;
}

static void move_value(const remaker *r, dl_value *from, dl_value *to) {
    dl_graph *g = r->g;
    if (from->id >= r->known) {
        dl_replace_value(g, from, to);
        return;
    }
    const dl_uses *u = &r->uses[from->id];
    for (int i = 0; i < u->n; i++)
        for (int k = 0; k < u->readers[i]->nin; k++)
            if (u->readers[i]->in[k] == from) u->readers[i]->in[k] = to;
    for (int i = 0; i < g->results.n && u->results; i++)
        if (g->results.at[i].value == from) g->results.at[i].value = to;
}

/* Adds a result to a node; its old results move in memory. */
static dl_value *add_result(const remaker *r, dl_node *n, const dl_type *type) {
    dl_graph *g = r->g;
    dl_value *out = DL_NEWS(g->module->arena, dl_value, n->nout + 1);
    for (int k = 0; k < n->nout; k++) {
        out[k] = n->out[k];
        move_value(r, &n->out[k], &out[k]);
    }
    out[n->nout] =
        (dl_value){.id = g->next_id++, .def = n, .index = n->nout, .type = *type, .offset = -1};
    n->out = out;
    return &out[n->nout++];
}

/* Adds the computation to an existing node before position `first`; returns the value, or NULL.
 * A weight gradient is no candidate: it runs through panels. */
static dl_value *join_existing(const remade *m, int first) {
    const remaker *r = m->r;
    const dl_kernel *made = m->made;
    dl_node *host = NULL;
    int *of = DL_NEWS(r->scratch, int, made->instrs.n + 1);
    const dl_uses *u = m->operands.n ? &r->uses[m->operands.at[0]->id] : &(dl_uses){0};
    for (int i = u->n - 1; i >= 0 && !host; i--) {
        dl_node *n = u->readers[i];
        if (r->position[n->out[0].id] < first && is_late(r, n) && has_operands(m, n, of)) host = n;
    }
    if (!host) return NULL;
    dl_kernel *k = host->kernel, before = *k;
    for (int i = 0; i < made->instrs.n; i++) {
        dl_kinstr in = made->instrs.at[i];
        if (of[i] >= 0) continue;
        for (int a = 0; a < in.nargs; a++) in.args[a] = of[in.args[a]];
        if (in.kind == DL_K_STORE) in.param = k->params.n;
        of[i] = k->instrs.n;
        dl_push(r->g->module->arena, &k->instrs, in);
    }
    dl_push(r->g->module->arena, &k->params,
            (dl_kparam){.name = dl_internf("o%d", host->nout),
                        .type = m->value->type,
                        .is_out = true,
                        .alias = -1});
    k->bytes_unfused += dl_type_bytes(&m->value->type);
    dl_kernel_schedule(k, r->loops);
    if (dl_schedule_fault(k, r->scratch)) { /* it would overwrite what the new loops still read */
        *k = before;
        return NULL;
    }
    return add_result(r, host, &m->value->type);
}

/* The recomputed value, before position `first`: computed by a node that has its operands, or by
 * a new node, which is in no list yet. NULL where neither is possible. */
static dl_value *recompute_value(remaker *r, const dl_node *n, dl_value *v, int first,
                                 int64_t flops, dl_node **node) {
    dl_arena *arena = r->g->module->arena;
    const dl_kernel *k = n->kernel;
    remade m = {.r = r, .from = n, .value = v, .made = DL_NEW(arena, dl_kernel)};
    *node = NULL;
    const dl_kinstr *store = NULL;
    for (int i = 0; i < k->instrs.n; i++)
        if (k->instrs.at[i].kind == DL_K_STORE && k->instrs.at[i].param == k->nin + (int)v->index)
            store = &k->instrs.at[i];
    if (!store || dl_kinstr_indirect(k, store) >= 0 || k->params.at[store->param].alias >= 0 ||
        dl_axes_points(k->nspace, k->space, ~0u) != dl_type_count(&v->type))
        return NULL;
    m.place = DL_NEWS(r->scratch, int, k->instrs.n);
    for (int i = 0; i < k->instrs.n; i++) m.place[i] = -1;
    m.made->nspace = k->nspace;
    memcpy(m.made->space, k->space, sizeof k->space);
    dl_kinstr last = *store;
    last.args[0] = take(&m, store->args[0]);
    if (last.args[0] < 0 || m.made->instrs.at[last.args[0]].kind != DL_K_ELEM)
        return NULL; /* a copy saves nothing */
    last.param = m.made->nin = m.operands.n;
    emit(&m, last);
    dl_value *joined = join_existing(&m, first);
    if (!joined && !pays(r, v, flops, UNFUSED_TIMES)) return NULL;
    r->changed = true;
    if (joined) return joined;
    dl_push(arena, &m.made->params,
            (dl_kparam){.name = dl_intern("o0"), .type = v->type, .is_out = true, .alias = -1});
    m.made->name = dl_internf("%s_again%d", r->g->name, r->number++);
    for (int i = 0; i < k->locs.n; i++) dl_push(arena, &m.made->locs, k->locs.at[i]);
    dl_kernel_schedule(m.made, r->loops);
    m.made->bytes_unfused = m.made->bytes;
    dl_push(arena, &r->g->kernels, m.made);
    *node = dl_node_new(r->g, DL_OP_fused, m.operands.n, m.operands.at, 1, &v->type, n->loc);
    (*node)->kernel = m.made;
    return &(*node)->out[0];
}

static void give(const remaker *r, const dl_value *from, dl_value *to) {
    const dl_uses *u = &r->uses[from->id];
    for (int i = 0; i < u->n; i++) {
        dl_node *n = u->readers[i];
        for (int k = 0; k < n->nin && is_late(r, n); k++)
            if (n->in[k] == from) n->in[k] = to;
    }
}

static void find_early(remaker *r) {
    const dl_graph *g = r->g;
    for (uint32_t id = 0; id < g->next_id; id++) r->writer[id] = -1;
    bool *wanted = DL_NEWS(r->scratch, bool, g->next_id);
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_LOSS || g->results.at[i].role == DL_RESULT_OUTPUT)
            wanted[g->results.at[i].value->id] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nout; k++)
            r->position[n->out[k].id] = i, r->early[i] |= wanted[n->out[k].id];
        for (int k = 0; k < n->nin; k++) wanted[n->in[k]->id] |= r->early[i];
    }
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *res = &g->results.at[i];
        if (res->role == DL_RESULT_UPDATE && res->value->def)
            r->writer[res->var->value.id] = r->position[res->value->id];
    }
}

bool dl_pass_recompute(dl_graph *g, dl_pass_ctx *ctx) {
    dl_arena *scratch = dl_arena_new(ctx->arena);
    remaker r = {.g = g,
                 .scratch = scratch,
                 .uses = dl_graph_uses(g, scratch),
                 .known = g->next_id,
                 .balance = ctx->balance ? ctx->balance : DL_CORE_BALANCE,
                 .loops = ctx->loops,
                 .contractions = dl_contraction_rules_of(ctx->contractions)};
    typedef DL_ARRAY(dl_node *) nodes;
    int count = g->nodes.n;
    nodes *before = DL_NEWS(scratch, nodes, count); /* by node: the new nodes before it */
    r.early = DL_NEWS(scratch, bool, count), r.gone = DL_NEWS(scratch, bool, g->next_id);
    r.position = DL_NEWS(scratch, int, g->next_id);
    r.writer = DL_NEWS(scratch, int, g->next_id);
    find_early(&r);
    for (int i = 0; i < count; i++) {
        dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nout && n->op == DL_OP_fused && r.early[i]; k++) {
            int64_t flops;
            int first = find_late(&r, &n->out[k], &flops);
            dl_node *node;
            dl_value *value =
                first < 0 ? NULL : recompute_value(&r, n, &n->out[k], first, flops, &node);
            if (!value) continue;
            give(&r, &n->out[k], value);
            r.gone[n->out[k].id] = true;
            if (node) dl_push(scratch, &before[find_front(&r, node, first)], node);
        }
    }
    dl_node **old = DL_NEWS(scratch, dl_node *, count);
    if (count > 0) memcpy(old, g->nodes.at, sizeof *old * (size_t)count);
    g->nodes.n = 0;
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < before[i].n; k++) dl_push(g->module->arena, &g->nodes, before[i].at[k]);
        dl_push(g->module->arena, &g->nodes, old[i]);
    }
    dl_arena_free(scratch);
    return r.changed;
}

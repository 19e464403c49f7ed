/* fit_memory: runs kernels of the forward pass again before the backward pass reads what they have
 * made, so that a step fits into a budget of memory (Chen et al., Training deep nets with sublinear
 * memory cost, 2016).
 *
 * Between its last reader in the forward pass and its first one in the backward pass a value only
 * takes memory. A copy of its kernel, shortly before that reader, frees it meanwhile; the copy may
 * in turn read what other copies make. Kernels are chosen one at a time: the one which frees the
 * most bytes beyond the budget, over all positions of the schedule, in the time that it takes.
 * A copy computes the same bits, since it reads the same values. */
#include "ir/base/counts.h"
#include "ir/kernel/kernel.h"
#include "ir/walk.h"
#include "passes/memory/memory.h"

enum { LAUNCH = 32 << 10 }; /* the bytes that a kernel could move while it is launched */

/* A range of positions in the present order, both included. */
typedef struct {
    int first, last;
} range;

typedef struct {
    dl_graph *g;
    dl_arena *scratch, *step; /* of one order alone */
    int64_t room, balance;    /* for values, in bytes; the target's flops in the time of one byte */
    uint32_t known;           /* ids below are those of values before any change */
    int n, boundary;          /* nodes of the schedule; the first one after the forward pass */
    dl_node **node;
    dl_value ***operands;   /* by node: as they were */
    int *position;          /* by known id: the node that makes it, or -1 */
    int *writer;            /* by known id of a variable: the node that overwrites it, or n */
    bool *by_host;          /* by known id: the host reads it, or it is a variable's next value */
    dl_node **again;        /* by node: its copy, or NULL */
    bool *refused;          /* by node: a copy gains nothing */
    int *late;              /* by node: the first that reads it after the forward pass, or n */
    int *now;               /* by node: its position in the present order */
    int *again_at;          /* the same of its copy */
    int64_t *alive, *limit; /* by position: bytes, and how many shall be alive at most */
    dl_liveness live;
} fitter;

static dl_node *maker(const fitter *f, const dl_value *v, int *at) {
    *at = v->id < f->known ? f->position[v->id] : -1;
    return *at < 0 ? NULL : f->again[*at];
}

/* ---- the order with the copies ---- */

static void place_copy(fitter *f, const dl_value *v) {
    int at;
    dl_node *copy = maker(f, v, &at);
    if (!copy || f->again_at[at] >= 0) return;
    f->again_at[at] = 0; /* it is on its way */
    for (int k = 0; k < copy->nin; k++) place_copy(f, f->operands[at][k]);
    f->again_at[at] = f->g->nodes.n;
    dl_push(f->g->module->arena, &f->g->nodes, copy);
}

/* Gives a node after the forward pass its operands: the copies' results where there are copies. */
static void read_copies(fitter *f, dl_node *n, dl_value *const *operands) {
    for (int k = 0; k < n->nin; k++) {
        int at;
        dl_node *copy = maker(f, operands[k], &at);
        n->in[k] = copy ? &copy->out[operands[k]->index] : operands[k];
    }
}

/* Orders the graph: each copy right before the first of its readers. */
static bool order(fitter *f, dl_error *err) {
    f->g->nodes.n = 0;
    for (int i = 0; i < f->n; i++) f->again_at[i] = -1;
    for (int i = 0; i < f->n; i++) {
        for (int k = 0; k < f->node[i]->nin && i >= f->boundary; k++)
            place_copy(f, f->operands[i][k]);
        f->now[i] = f->g->nodes.n;
        dl_push(f->g->module->arena, &f->g->nodes, f->node[i]);
        if (i >= f->boundary) read_copies(f, f->node[i], f->operands[i]);
        if (f->again[i]) read_copies(f, f->again[i], f->operands[i]);
    }
    if (f->step) dl_arena_free(f->step);
    f->step = dl_arena_new(f->scratch);
    return dl_find_liveness(f->g, f->step, &f->live, err);
}

static int64_t excess(int64_t bytes) { return bytes > 0 ? bytes : 0; }

/* Counts the bytes alive at each position, and returns those beyond its limit, of all positions.
 * The limit is the budget; at a copy, a position that there was not before, what is alive at its
 * reader where that is more. */
static int64_t count_alive(fitter *f) {
    const int positions = f->g->nodes.n + 1;
    int64_t beyond = 0;
    memset(f->alive, 0, sizeof *f->alive * (size_t)(2 * f->n + 2));
    for (int s = 0; s < f->live.n; s++) {
        f->alive[f->live.at[s].first] += f->live.at[s].bytes;
        f->alive[f->live.at[s].last + 1] -= f->live.at[s].bytes;
    }
    for (int i = 1; i < positions; i++) f->alive[i] += f->alive[i - 1];
    int64_t reader = 0; /* what is alive at the next node that is no copy */
    for (int i = positions - 1; i >= 0; i--) {
        const dl_node *n = i < positions - 1 ? f->g->nodes.at[i] : NULL;
        const bool copy = n && n->op == DL_OP_fused && n->kernel->repeats;
        f->limit[i] = copy ? dl_at_least(f->room, reader) : f->room;
        if (!copy) reader = f->alive[i];
        beyond += excess(f->alive[i] - f->limit[i]);
    }
    return beyond;
}

/* ---- the choice ---- */

/* The bytes beyond the limits that go when so many more or, where negative, fewer are alive. */
static int64_t saved(const fitter *f, range r, int64_t more) {
    int64_t bytes = 0;
    for (int i = r.first < 0 ? 0 : r.first; i <= r.last; i++)
        bytes += excess(f->alive[i] - f->limit[i]) - excess(f->alive[i] + more - f->limit[i]);
    return bytes;
}

/* By node, in the order of the schedule: its first reader after the forward pass, with those of
 * copies. */
static void find_late(fitter *f, const dl_uses *uses) {
    for (int i = f->boundary - 1; i >= 0; i--) {
        f->late[i] = f->n;
        for (int k = 0; k < f->node[i]->nout; k++) {
            const dl_uses *u = &uses[f->node[i]->out[k].id];
            for (int r = 0; r < u->n; r++) {
                const int reader = f->position[u->readers[r]->out[0].id];
                const int at = reader >= f->boundary ? reader
                               : f->again[reader]    ? f->late[reader]
                                                     : f->n;
                if (at < f->late[i]) f->late[i] = at;
            }
        }
    }
}

/* From the last reader in the forward pass to the copy, before position `at`. */
static range idle(const fitter *f, const dl_uses *u, int i, int at) {
    range r = {f->now[i] + 1, f->now[at] - 1};
    for (int k = 0; k < u->n; k++) {
        const int reader = f->position[u->readers[k]->out[0].id];
        if (reader < f->boundary && f->now[reader] >= r.first) r.first = f->now[reader] + 1;
    }
    return r;
}

/* The bytes beyond the limits that come where operand v has to live for a copy at `at`. */
static int64_t lost(const fitter *f, const dl_value *v, int at) {
    int made;
    const dl_node *copy = maker(f, v, &made);
    if (made < 0) return 0;
    const dl_storage *s = &f->live.at[f->live.of[copy ? copy->out[v->index].id : v->id]];
    const int64_t bytes = dl_type_bytes(&v->type);
    const range before = {f->now[at], s->first - 1}, after = {s->last + 1, f->now[at]};
    return -saved(f, copy && before.first <= before.last ? before : (range){0, -1}, bytes) -
           saved(f, after, bytes);
}

static bool may_copy(const fitter *f, int i, int at) {
    const dl_node *n = f->node[i];
    if (n->op != DL_OP_fused || i >= f->boundary || f->again[i] || f->refused[i] || at == f->n)
        return false;
    for (int k = 0; k < n->nout; k++)
        if (f->live.var_of[n->out[k].id] || f->live.of[n->out[k].id] < 0) return false;
    for (int k = 0; k < n->nin; k++)
        if (f->operands[i][k]->var && f->writer[f->operands[i][k]->id] < at) return false;
    return true;
}

/* The node whose copy frees the most bytes beyond the budget in its time; -1: none frees any. */
static int choose(fitter *f, const dl_uses *uses) {
    double best = 0;
    int chosen = -1;
    find_late(f, uses);
    for (int i = 0; i < f->boundary; i++) {
        const dl_node *n = f->node[i];
        const int at = f->late[i];
        if (!may_copy(f, i, at)) continue;
        int64_t gain = 0;
        for (int k = 0; k < n->nout; k++)
            if (!f->by_host[n->out[k].id])
                gain +=
                    saved(f, idle(f, &uses[n->out[k].id], i, at), -dl_type_bytes(&n->out[k].type));
        for (int k = 0; k < n->nin && gain > 0; k++) gain -= lost(f, f->operands[i][k], at);
        const int64_t compute = n->kernel->flops / f->balance, bytes = n->kernel->bytes;
        const double rate = (double)gain / (double)(LAUNCH + (compute > bytes ? compute : bytes));
        if (rate > best) best = rate, chosen = i;
    }
    return chosen;
}

/* ---- copies ---- */

static dl_node *copy_of(const fitter *f, int i) {
    const dl_node *n = f->node[i];
    dl_arena *arena = f->g->module->arena;
    dl_type *types = DL_NEWS(f->scratch, dl_type, n->nout);
    for (int k = 0; k < n->nout; k++) types[k] = n->out[k].type;
    dl_node *copy = dl_node_new(f->g, n->op, n->nin, f->operands[i], n->nout, types, n->loc);
    copy->kernel = DL_NEW(arena, dl_kernel);
    *copy->kernel = *n->kernel;
    copy->kernel->name = dl_internf("%s_again", n->kernel->name);
    copy->kernel->repeats = n->kernel;
    return copy;
}

/* Takes the copies of an earlier run out of the graph. */
static void forget_copies(dl_graph *g) {
    int kept = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *n = g->nodes.at[i];
        const dl_kernel *of = n->op == DL_OP_fused ? n->kernel->repeats : NULL;
        int at = 0;
        while (of && g->nodes.at[at]->kernel != of) at++;
        for (int k = 0; k < n->nout && of; k++)
            dl_replace_value(g, &n->out[k], &g->nodes.at[at]->out[k]);
        if (!of) g->nodes.at[kept++] = n;
    }
    g->nodes.n = kept, kept = 0;
    for (int i = 0; i < g->kernels.n; i++)
        if (!g->kernels.at[i]->repeats) g->kernels.at[kept++] = g->kernels.at[i];
    g->kernels.n = kept;
}

/* ---- the pass ---- */

static bool makes_tensor(const dl_node *n) {
    for (int k = 0; k < n->nout; k++)
        if (n->out[k].type.rank) return true;
    return false;
}

/* The position after the last node that makes a tensor on which the loss or an output depends. The
 * loss's mean over ranks is a scalar, which may wait, and be in one bucket with gradients. */
static int find_boundary(const fitter *f) {
    const dl_graph *g = f->g;
    bool *wanted = DL_NEWS(f->scratch, bool, g->next_id + 1);
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        wanted[r->value->id] |= r->role == DL_RESULT_LOSS || r->role == DL_RESULT_OUTPUT;
    }
    int last = -1;
    for (int i = f->n - 1; i >= 0; i--) {
        const dl_node *n = f->node[i];
        const bool apart = dl_op_is_collective(n->op) && n->nin == n->nout; /* a bucket */
        bool forward = false;
        for (int k = 0; k < n->nout; k++) forward |= wanted[n->out[k].id];
        for (int k = 0; k < n->nin && forward; k++)
            wanted[n->in[k]->id] |= !apart || wanted[n->out[k].id];
        if (forward && last < 0 && !apart && makes_tensor(n)) last = i;
    }
    return last + 1;
}

static void open_graph(fitter *f) {
    dl_graph *g = f->g;
    dl_arena *arena = f->scratch;
    f->n = g->nodes.n, f->known = g->next_id;
    f->node = DL_NEWS(arena, dl_node *, f->n + 1), f->again = DL_NEWS(arena, dl_node *, f->n + 1);
    f->operands = DL_NEWS(arena, dl_value **, f->n + 1);
    f->refused = DL_NEWS(arena, bool, f->n + 1);
    f->late = DL_NEWS(arena, int, f->n + 1);
    f->now = DL_NEWS(arena, int, f->n + 1), f->again_at = DL_NEWS(arena, int, f->n + 1);
    f->alive = DL_NEWS(arena, int64_t, 2 * f->n + 2);
    f->limit = DL_NEWS(arena, int64_t, 2 * f->n + 2);
    f->position = DL_NEWS(arena, int, g->next_id + 1);
    f->writer = DL_NEWS(arena, int, g->next_id + 1);
    f->by_host = DL_NEWS(arena, bool, g->next_id + 1);
    for (uint32_t id = 0; id < g->next_id; id++) f->position[id] = -1, f->writer[id] = f->n;
    for (int i = 0; i < f->n; i++) {
        dl_node *n = f->node[i] = g->nodes.at[i];
        f->operands[i] = DL_NEWS(arena, dl_value *, n->nin + 1);
        for (int k = 0; k < n->nin; k++) f->operands[i][k] = n->in[k];
        for (int k = 0; k < n->nout; k++) f->position[n->out[k].id] = i;
    }
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        f->by_host[r->value->id] = true;
        if (r->role == DL_RESULT_UPDATE && r->value->def)
            f->writer[r->var->value.id] = f->position[r->value->id];
    }
    f->boundary = find_boundary(f);
}

/* The budget without the variables, which are there all the time. */
static int64_t room_of(const dl_graph *g, int64_t budget) {
    for (int i = 0; i < g->vars.n; i++) {
        const int64_t bytes = dl_type_bytes(&g->vars.at[i]->value.type);
        budget -= dl_memory_align(bytes, bytes);
    }
    return budget;
}

static bool fit(fitter *f, const dl_uses *uses, dl_error *err) {
    bool changed = false;
    if (!order(f, err)) return false;
    for (int64_t beyond = count_alive(f), then; beyond > 0; beyond = then) {
        const int i = choose(f, uses);
        if (i < 0) break;
        f->again[i] = copy_of(f, i);
        if (!order(f, err)) return false;
        then = count_alive(f);
        if (then < beyond) {
            changed = true;
            continue;
        }
        f->again[i] = NULL, f->refused[i] = true; /* its memory was another value's, too */
        if (!order(f, err)) return false;
        then = count_alive(f);
    }
    for (int i = 0; i < f->n; i++)
        if (f->again[i]) dl_push(f->g->module->arena, &f->g->kernels, f->again[i]->kernel);
    return changed;
}

bool dl_pass_fit_memory(dl_graph *g, dl_pass_ctx *ctx) {
    if (!ctx->memory || !g->nodes.n) return false;
    dl_arena *scratch = dl_arena_new(ctx->arena);
    forget_copies(g);
    fitter f = {.g = g,
                .scratch = scratch,
                .room = room_of(g, ctx->memory),
                .balance = ctx->balance ? ctx->balance : DL_CORE_BALANCE};
    open_graph(&f);
    const bool changed = fit(&f, dl_graph_uses(g, scratch), ctx->err);
    dl_arena_free(scratch);
    return changed;
}

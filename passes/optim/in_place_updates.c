/* in_place_updates: ensures that every next value of a variable can be written over the old one.
 *
 * The node that writes it must run after all other readers of the old value. In three cases the
 * old value is copied first, by a kernel that is scheduled and planned like all others: where
 * updates wait for each other in a circle (two parameters, each of whose gradients needs the
 * other), where the node itself reads the old value at other points than it writes, and where the
 * host reads the old value. Where a valid order exists, nothing is copied. */
#include "ir/base/heap.h"
#include "ir/kernel/schedule.h"
#include "passes/memory/memory.h"
#include "passes/parallel/waits.h"

typedef struct {
    dl_graph *g;
    dl_arena *scratch;
    dl_value **copy; /* by variable's value id: the copy of its old value, or NULL */
    int numbered;    /* the number of kernels created here */
    const dl_loop_rules *loops;
} updater;

/* ---- copies ---- */

static bool is_taken(const dl_module *m, const char *name) {
    for (int i = 0; i < m->graphs.n; i++)
        for (int k = 0; k < m->graphs.at[i]->kernels.n; k++)
            if (m->graphs.at[i]->kernels.at[k]->name == name) return true;
    return false;
}

static dl_kernel *new_copy_kernel(updater *u, const dl_type *t, dl_loc loc) {
    dl_arena *arena = u->g->module->arena;
    dl_kernel *k = DL_NEW(arena, dl_kernel);
    do k->name = dl_internf("%s_copy%d", u->g->name, u->numbered++);
    while (is_taken(u->g->module, k->name));
    dl_push(arena, &k->params, (dl_kparam){.name = dl_intern("i0"), .type = *t, .alias = -1});
    dl_push(arena, &k->params,
            (dl_kparam){.name = dl_intern("o0"), .type = *t, .is_out = true, .alias = -1});
    k->nin = 1, k->nspace = t->rank;
    dl_kinstr load = {.kind = DL_K_LOAD,
                      .type = dl_kernel_type(t->dtype),
                      .index = DL_NEWS(arena, dl_index, t->rank),
                      .loc = loc};
    for (int i = 0; i < t->rank; i++)
        k->space[i] = t->axis[i], load.index[i] = (dl_index){.axis = i};
    dl_kinstr store = load; /* at the same index */
    store.kind = DL_K_STORE, store.nargs = 1, store.param = 1;
    dl_push(arena, &k->instrs, load);
    dl_push(arena, &k->instrs, store);
    if (loc.line) dl_push(arena, &k->locs, loc);
    dl_kernel_schedule(k, u->loops);
    k->bytes_unfused = k->bytes;
    dl_push(arena, &u->g->kernels, k);
    return k;
}

/* A new node, in no list yet, that copies v. */
static dl_node *new_copy(updater *u, dl_value *v) {
    dl_loc loc = v->var ? v->var->loc : v->def->loc;
    dl_node *n = dl_node_new(u->g, DL_OP_fused, 1, &v, 1, &v->type, loc);
    n->kernel = new_copy_kernel(u, &v->type, loc);
    return n;
}

/* The copy of a variable's old value; if there is none, a new one before all other nodes. */
static dl_value *old_value(updater *u, dl_var *var, dl_node **made) {
    dl_value **copy = &u->copy[var->value.id];
    *made = NULL;
    if (!*copy) *made = new_copy(u, &var->value), *copy = &(*made)->out[0];
    return *copy;
}

static void replace_operand(dl_node *n, const dl_value *from, dl_value *to) {
    for (int k = 0; k < n->nin; k++)
        if (n->in[k] == from) n->in[k] = to;
}

/* ---- conflicts that no order resolves ---- */

typedef struct {
    updater *u;
    DL_ARRAY(dl_node *) front; /* copies of old values */
    DL_ARRAY(dl_node *) back;  /* copies of values that are the next of several variables */
} copying;

static dl_value *copy_old(copying *m, dl_var *var) {
    dl_node *made;
    dl_value *copy = old_value(m->u, var, &made);
    if (made) dl_push(m->u->scratch, &m->front, made);
    return copy;
}

/* Copies a value that is the next value of several variables, so that each update writes its own.
 */
static void part_shared_values(copying *m) {
    dl_graph *g = m->u->g;
    bool *taken = DL_NEWS(m->u->scratch, bool, g->next_id);
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        if (r->role != DL_RESULT_UPDATE || r->value == &r->var->value) continue;
        if (!r->value->var && !taken[r->value->id]) {
            taken[r->value->id] = true;
            continue;
        }
        dl_node *copy = new_copy(m->u, r->value);
        r->value = &copy->out[0];
        dl_push(m->u->scratch, &m->back, copy);
    }
}

/* Copies old values that the node that writes the new one reads at other points, or that the host
 * reads. */
static void part_readers(copying *m) {
    dl_graph *g = m->u->g;
    dl_var **written = DL_NEWS(m->u->scratch, dl_var *,
                               g->next_id); /* by value id: the variable that the step updates */
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role != DL_RESULT_UPDATE || r->value == &r->var->value) continue;
        written[r->var->value.id] = r->var;
        if (!dl_memory_overwrites(r->value->def, r->value, &r->var->value))
            replace_operand(r->value->def, &r->var->value, copy_old(m, r->var));
    }
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        if (r->role != DL_RESULT_UPDATE && written[r->value->id])
            r->value = copy_old(m, written[r->value->id]);
    }
}

static void insert_copies(updater *u) {
    dl_graph *g = u->g;
    copying m = {.u = u};
    part_shared_values(&m);
    part_readers(&m);
    int n = g->nodes.n;
    for (int i = 0; i < m.front.n + m.back.n; i++) dl_push(g->module->arena, &g->nodes, NULL);
    if (n) memmove(g->nodes.at + m.front.n, g->nodes.at, sizeof *g->nodes.at * (size_t)n);
    for (int i = 0; i < m.front.n; i++) g->nodes.at[i] = m.front.at[i];
    for (int i = 0; i < m.back.n; i++) g->nodes.at[m.front.n + n + i] = m.back.at[i];
}

/* ---- the order ---- */

typedef struct {
    updater *u;
    dl_waits w;
    int *writer;  /* by variable's value id: the node that computes its next value */
    bool *parted; /* by variable's value id: readers that had not run when the circle was broken
                     read the copy */
    int *open;    /* dependences that are still open; -1: placed */
    int *look;    /* by node: how many of its dependences are known to be resolved */
    int *path;    /* of a depth-first search for a circle */
    int *step;    /* by node: its position in `path`, or -1 */
    dl_heap ready;
    DL_ARRAY(dl_node *) order;
} sorter;

static void let_go(sorter *s, int node) {
    if (--s->open[node] == 0) dl_heap_put(s->u->scratch, &s->ready, node, node);
}

static void run_ready(sorter *s) {
    while (s->ready.n) {
        int i = dl_heap_take(&s->ready);
        dl_push(s->u->scratch, &s->order, s->w.node[i]);
        s->open[i] = -1;
        for (int k = 0; k < s->w.nafter[i]; k++) {
            dl_wait then = s->w.after[i][k];
            if (!then.read || !s->parted[then.read->value.id]) let_go(s, then.node);
        }
    }
}

/* An open dependence of node i. Resolved dependences stay resolved. */
static dl_wait find_reason(sorter *s, int i) {
    for (;; s->look[i]++) {
        dl_wait w = s->w.before[i][s->look[i]];
        if (s->open[w.node] >= 0 && (!w.read || !s->parted[w.read->value.id])) return w;
    }
}

/* No node can run, so from any node on there is a circle. Returns, among the variables in the
 * circle whose copy breaks it, the smallest. */
static dl_var *find_breaker(sorter *s, int from) {
    int n = 0, at = from;
    for (; s->step[at] < 0; at = find_reason(s, at).node) s->step[at] = n, s->path[n++] = at;
    dl_var *best = NULL;
    for (int i = s->step[at]; i < n; i++) {
        dl_var *var = find_reason(s, s->path[i]).read;
        if (var && (!best || dl_type_bytes(&var->value.type) < dl_type_bytes(&best->value.type)))
            best = var;
    }
    while (n) s->step[s->path[--n]] = -1;
    return best;
}

/* Copies the variable here; nodes that have not run yet read the copy. */
static void break_circle(sorter *s, dl_var *var) {
    dl_node *made;
    dl_value *copy = old_value(s->u, var, &made);
    const dl_uses *u = &s->w.uses[var->value.id];
    int writer = s->writer[var->value.id];
    if (made) dl_push(s->u->scratch, &s->order, made);
    s->parted[var->value.id] = true;
    for (int k = 0; k < u->n; k++) {
        int reader = s->w.position[u->readers[k]->out[0].id];
        if (reader == writer || s->open[reader] < 0) continue;
        replace_operand(u->readers[k], &var->value, copy);
        let_go(s, writer);
    }
}

static void sort(updater *u) {
    dl_graph *g = u->g;
    int n = g->nodes.n, from = 0;
    sorter s = {.u = u, .w = dl_find_waits(g, u->scratch)};
    s.open = DL_NEWS(u->scratch, int, n), s.look = DL_NEWS(u->scratch, int, n);
    s.path = DL_NEWS(u->scratch, int, n), s.step = DL_NEWS(u->scratch, int, n);
    s.writer = DL_NEWS(u->scratch, int, g->next_id),
    s.parted = DL_NEWS(u->scratch, bool, g->next_id);
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role == DL_RESULT_UPDATE && r->value->def)
            s.writer[r->var->value.id] = s.w.position[r->value->id];
    }
    for (int i = 0; i < n; i++) {
        s.step[i] = -1;
        s.open[i] = s.w.nbefore[i];
        if (!s.open[i]) dl_heap_put(u->scratch, &s.ready, i, i);
    }
    for (run_ready(&s);; run_ready(&s)) {
        while (from < n && s.open[from] < 0) from++;
        if (from == n) break;
        break_circle(&s, find_breaker(&s, from));
    }
    g->nodes.n = 0;
    for (int i = 0; i < s.order.n; i++) dl_push(g->module->arena, &g->nodes, s.order.at[i]);
}

bool dl_pass_in_place_updates(dl_graph *g, dl_pass_ctx *ctx) {
    if (!dl_graph_updates(g)) return false;
    dl_arena *scratch = dl_arena_new(ctx->arena);
    updater u = {.g = g,
                 .scratch = scratch,
                 .copy = DL_NEWS(scratch, dl_value *, g->next_id),
                 .loops = ctx->loops};
    int before = g->nodes.n;
    dl_node **old = DL_NEWS(scratch, dl_node *, before);
    if (before) memcpy(old, g->nodes.at, sizeof *old * (size_t)before);
    insert_copies(&u);
    sort(&u);
    bool changed =
        g->nodes.n != before || memcmp(old, g->nodes.at, sizeof *old * (size_t)before) != 0;
    dl_arena_free(scratch);
    return changed;
}

/* Calls of modules in the graph: what they read and compute, and which compute the same. */
#include "imports/dl/calls.h"

size_t dl_op_length(const char *op) {
    size_t dots = strcspn(op, ".");
    return op[dots] ? dots + 1 + strcspn(op + dots + 1, ".") : dots;
}

bool dl_is_in_place(const char *op) {
    size_t n = dl_op_length(op);
    return n > 1 && op[n - 1] == '_' && op[n - 2] != '_'; /* not __and__ */
}

bool dl_is_number_text(const dl_foreign_tensor *t) {
    return t->origin != DL_FOREIGN_PARAMETER && dl_foreign_count(t) == 1 && !t->pair &&
           t->class != DL_FOREIGN_UNKNOWN;
}

bool dl_counts_batches(const dl_writer *w, const dl_foreign_node *n) {
    static const char end[] = "num_batches_tracked";
    for (int depth = 0; depth < 64; depth++) {
        const dl_foreign_arg *self = n->n_args ? &n->args[0] : NULL;
        if (!self || self->kind != DL_ARG_TENSOR || n->n_results != 1) return false;
        const dl_foreign_tensor *t = self->tensors[0];
        if (t->origin == DL_FOREIGN_BUFFER) return dl_ends_with(t->path, end);
        /* another call of the layer has counted before */
        int by = dl_is_in_place(n->op) ? w->defined_by[t->id] : -1;
        if (by < 0) return false;
        n = &w->graph->nodes.at[by];
    }
    return false;
}

static bool has_tensors(const dl_foreign_arg *a) {
    return a->kind == DL_ARG_TENSOR || a->kind == DL_ARG_TENSORS;
}

static bool is_computed(const dl_foreign_tensor *t) {
    return t->origin == DL_FOREIGN_RESULT || t->origin == DL_FOREIGN_INPUT;
}

/* Equal in all but tensors. */
static bool same_argument(const dl_foreign_arg *a, const dl_foreign_arg *b) {
    if (strcmp(a->name, b->name) != 0 || a->kind != b->kind || a->n != b->n) return false;
    size_t n = (size_t)a->n;
    switch (a->kind) {
    case DL_ARG_INT:
    case DL_ARG_INTS: return memcmp(a->ints, b->ints, n * sizeof *a->ints) == 0;
    case DL_ARG_FLOAT:
    case DL_ARG_FLOATS: return memcmp(a->reals, b->reals, n * sizeof *a->reals) == 0;
    case DL_ARG_COMPLEX: return memcmp(a->reals, b->reals, 2 * sizeof *a->reals) == 0;
    case DL_ARG_STRING: return strcmp(a->text, b->text) == 0;
    default: return true;
    }
}

static bool same_form(const dl_foreign_node *x, const dl_foreign_node *y) {
    if (strcmp(x->op, y->op) != 0 || x->n_args != y->n_args || x->n_results != y->n_results)
        return false;
    for (int a = 0; a < x->n_args; a++)
        if (!same_argument(&x->args[a], &y->args[a])) return false;
    return true;
}

/* The modules around both nodes have equal names, down to `depth`. */
static bool same_place(const dl_foreign_node *x, const dl_foreign_node *y, int depth) {
    if (x->depth < depth || y->depth < depth) return false;
    for (int d = 0; d < depth; d++)
        if (x->stack[d].path != y->stack[d].path) return false;
    return true;
}

/* ---- layers ---- */

static bool is_among(const dl_foreign_tensor *t, int n, const dl_foreign_tensor *const *list) {
    for (int i = 0; i < n; i++)
        if (list[i] == t) return true;
    return false;
}

static bool reads_one(const dl_foreign_node *node, int n, const dl_foreign_tensor *const *list) {
    for (int a = 0; a < node->n_args; a++)
        for (int k = 0; has_tensors(&node->args[a]) && k < node->args[a].n; k++) {
            const dl_foreign_tensor *t = node->args[a].tensors[k];
            if (t && is_among(t, n, list)) return true;
        }
    return false;
}

/* Equal stored tensors, and other computed ones in places of computed ones. */
static bool same_weights(const dl_foreign_node *x, const dl_foreign_node *y) {
    for (int a = 0; a < x->n_args; a++)
        for (int k = 0; has_tensors(&x->args[a]) && k < x->args[a].n; k++) {
            const dl_foreign_tensor *t = x->args[a].tensors[k], *u = y->args[a].tensors[k];
            if (t != u && (!t || !u || !is_computed(t) || !is_computed(u))) return false;
        }
    return true;
}

bool dl_is_one_layer(const dl_writer *w, int n, const dl_foreign_tensor *const *t) {
    const dl_foreign_node *first = NULL;
    for (int i = 0; i < w->graph->nodes.n; i++) {
        const dl_foreign_node *node = &w->graph->nodes.at[i];
        if (!reads_one(node, n, t)) continue;
        if (!first) first = node;
        if (node->depth != first->depth || !same_place(first, node, first->depth) ||
            !same_form(first, node) || !same_weights(first, node))
            return false;
    }
    return first;
}

/* ---- modules ---- */

static bool is_below(const char *path, const char *module) {
    size_t n = strlen(module);
    return strncmp(path, module, n) == 0 && path[n] == '.';
}

/* Whether the module itself is a layer: its weight's label is that of the module. */
static bool is_layer(const char *path, const char *module) {
    const char *role = is_below(path, module) ? path + strlen(module) : "";
    return strcmp(role, ".weight") == 0 || strncmp(role, ".weight_ih_l", 12) == 0;
}

static const dl_foreign_tensor *tensor_of(const dl_foreign_arg *a, int k) {
    return (a->kind == DL_ARG_TENSOR || a->kind == DL_ARG_TENSORS) && k < a->n ? a->tensors[k]
                                                                               : NULL;
}

static void add(dl_writer *w, dl_in_tensors *list, const dl_foreign_tensor *t) {
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == t) return;
    dl_push(w->arena, list, t);
}

/* Whether nodes of calls of the module alone read t. */
static bool is_read_inside(const dl_writer *w, const dl_in_call *call, const char *path,
                           const dl_foreign_tensor *t) {
    for (int i = w->first_use[t->id]; i >= 0 && i <= w->last_use[t->id]; i++) {
        if (i >= w->graph->nodes.n) return false; /* an output */
        const dl_foreign_node *n = &w->graph->nodes.at[i];
        bool inside = n->depth > call->depth && n->stack[call->depth].path == path;
        for (int a = 0; a < n->n_args && !inside; a++)
            for (int k = 0; k < n->args[a].n; k++)
                if (tensor_of(&n->args[a], k) == t) return false;
    }
    return true;
}

bool dl_find_ends(dl_in_ctx *c, dl_in_call *call, bool several) {
    dl_writer *w = c->w;
    const dl_foreign_module *m = &w->graph->nodes.at[call->from].stack[call->depth];
    for (int i = call->from; i < call->to; i++) {
        const dl_foreign_node *n = &w->graph->nodes.at[i];
        bool in_place = dl_is_in_place(n->op);
        if (dl_counts_batches(w, n)) continue;
        for (int a = 0; a < n->n_args; a++)
            for (int k = 0; k < n->args[a].n; k++) {
                const dl_foreign_tensor *t = tensor_of(&n->args[a], k);
                if (!t || dl_foreign_count(t) == 0) continue;
                int by = w->defined_by[t->id];
                bool computed = t->origin == DL_FOREIGN_RESULT || t->origin == DL_FOREIGN_INPUT;
                if (!computed && is_layer(t->path, m->path)) return false;
                bool own = dl_is_number_text(t) || w->reads[t->id] == 0;
                if (!own && is_below(t->path, m->path))
                    own = several
                              ? !c->b->of[t->id] && is_read_inside(w, call, m->path, t)
                              : w->first_use[t->id] >= call->from && w->last_use[t->id] < call->to;
                if (computed ? by >= call->from : own) continue;
                if (in_place && a == 0) return false;
                add(w, &call->in, t);
            }
        for (int k = 0; k < n->n_results; k++)
            if (w->last_use[n->results[k]->id] >= call->to) add(w, &call->out, n->results[k]);
    }
    return call->in.n >= 1 && call->in.n <= 6 && call->out.n >= 1 && call->out.n <= 4;
}

static int index_of(const dl_in_tensors *list, const dl_foreign_tensor *t) {
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == t) return i;
    return -1;
}

static bool is_inside(const dl_writer *w, const dl_foreign_tensor *t, int from, int to) {
    int by = is_computed(t) ? w->defined_by[t->id] : -1;
    return by >= from && by < to;
}

const dl_foreign_tensor *dl_counterpart(const dl_writer *w, const dl_in_call *first, int from,
                                        const dl_foreign_tensor *const *in,
                                        const dl_foreign_tensor *t) {
    int at = index_of(&first->in, t);
    if (at >= 0) return in[at];
    if (!is_inside(w, t, first->from, first->to)) return t;
    int by = w->defined_by[t->id];
    const dl_foreign_node *x = &w->graph->nodes.at[by],
                          *y = &w->graph->nodes.at[by - first->from + from];
    for (int k = 0; k < x->n_results; k++)
        if (x->results[k] == t) return y->results[k];
    return NULL;
}

static bool same_shape(const dl_foreign_tensor *t, const dl_foreign_tensor *u) {
    if (t->rank != u->rank || t->class != u->class || t->pair != u->pair) return false;
    return memcmp(t->shape, u->shape, (size_t)t->rank * sizeof *t->shape) == 0;
}

/* Numbers of the archive that stand in the text. */
static bool same_number(const dl_writer *w, const dl_foreign_tensor *t,
                        const dl_foreign_tensor *u) {
    double a, b;
    dl_error ignored = {0};
    return dl_is_number_text(t) && dl_is_number_text(u) && t->class == u->class &&
           dl_foreign_numbers(w->graph, t, &a, &ignored) &&
           dl_foreign_numbers(w->graph, u, &b, &ignored) && a == b;
}

/* Operand u stands where t does; sets what it says of the call's inputs. */
static bool same_operand(const dl_writer *w, const dl_in_call *first, int from,
                         const dl_foreign_tensor **in, const dl_foreign_tensor *t,
                         const dl_foreign_tensor *u) {
    if (!t || !u) return t == u;
    int at = index_of(&first->in, t);
    if (at >= 0 && !in[at] && same_shape(t, u)) in[at] = u;
    return dl_counterpart(w, first, from, in, t) == u || same_number(w, t, u);
}

bool dl_is_same_call(const dl_writer *w, const dl_in_call *first, int from,
                     const dl_foreign_tensor **in) {
    for (int i = first->from; i < first->to; i++) {
        const dl_foreign_node *x = &w->graph->nodes.at[i],
                              *y = &w->graph->nodes.at[i - first->from + from];
        if (!same_form(x, y) || x->depth != y->depth || !same_place(x, y, x->depth)) return false;
        if (dl_counts_batches(w, x) && dl_counts_batches(w, y)) continue;
        for (int a = 0; a < x->n_args; a++)
            for (int k = 0; has_tensors(&x->args[a]) && k < x->args[a].n; k++)
                if (!same_operand(w, first, from, in, x->args[a].tensors[k], y->args[a].tensors[k]))
                    return false;
        for (int k = 0; k < x->n_results; k++)
            if (!same_shape(x->results[k], y->results[k])) return false;
    }
    return true;
}

/* The end of a call that begins with this node. */
static int end_of(const dl_foreign_graph *g, int from, int depth) {
    const dl_foreign_module *m = &g->nodes.at[from].stack[depth];
    int to = from + 1;
    while (to < g->nodes.n && g->nodes.at[to].depth > depth &&
           g->nodes.at[to].stack[depth].path == m->path &&
           g->nodes.at[to].stack[depth].call == m->call)
        to++;
    return to;
}

static bool has_own(const dl_writer *w, const dl_in_call *call) {
    for (int i = call->from; i < call->to; i++) {
        const dl_foreign_node *n = &w->graph->nodes.at[i];
        for (int a = 0; a < n->n_args; a++)
            for (int k = 0; has_tensors(&n->args[a]) && k < n->args[a].n; k++) {
                const dl_foreign_tensor *t = n->args[a].tensors[k];
                if (t && t->origin == DL_FOREIGN_PARAMETER && index_of(&call->in, t) < 0)
                    return true;
            }
    }
    return false;
}

/* Whether all calls of the module are of one place and compute the same. What any of them computes
 * for outside is a result of the module. */
static bool all_same(dl_writer *w, dl_in_call *first) {
    const dl_foreign_graph *g = w->graph;
    const dl_foreign_node *n = &g->nodes.at[first->from];
    const char *path = n->stack[first->depth].path;
    for (int i = 0, end; i < g->nodes.n; i = end) {
        const dl_foreign_node *o = &g->nodes.at[i];
        int depth = 0;
        while (depth < o->depth && o->stack[depth].path != path) depth++;
        end = i + 1;
        if (depth == o->depth) continue;
        end = end_of(g, i, depth);
        const dl_foreign_tensor **in =
            DL_NEWS(w->arena, const dl_foreign_tensor *, first->in.n + 1);
        if (depth != first->depth || !same_place(n, o, depth) ||
            end - i != first->to - first->from || !dl_is_same_call(w, first, i, in))
            return false;
        for (int k = i; k < end; k++)
            for (int r = 0; r < g->nodes.at[k].n_results; r++) {
                const dl_foreign_tensor *t = g->nodes.at[k - i + first->from].results[r];
                bool used = w->last_use[g->nodes.at[k].results[r]->id] >= end &&
                            !dl_counts_batches(w, &g->nodes.at[k]);
                if (used && index_of(&first->out, t) < 0) dl_push(w->arena, &first->out, t);
            }
    }
    return first->out.n <= 4;
}

bool dl_find_shared_ends(dl_in_ctx *c, dl_in_call *first) {
    return dl_find_ends(c, first, true) && has_own(c->w, first) && all_same(c->w, first);
}

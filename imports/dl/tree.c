/* The module stack: which modules of the archive become modules in the text. */
#include <ctype.h>

#include "imports/dl/calls.h"

static bool same_module(const dl_foreign_module *a, const dl_foreign_module *b) {
    return a->path == b->path && a->call == b->call;
}

static bool is_users(const char *class) {
    return strncmp(class, "torch.nn.", 9) != 0 || strstr(class, ".transformer.") ||
           strstr(class, "MultiheadAttention");
}

/* A recurrent cell of PyTorch: formulas with parameters. */
static bool is_cell(const char *class) {
    return strncmp(class, "torch.nn.", 9) == 0 && dl_ends_with(class, "Cell");
}

/* In how many places the class stands, and whether the module is called more than once. */
static int count_places(const dl_writer *w, const dl_foreign_module *m, bool *again) {
    const dl_foreign_graph *g = w->graph;
    const char *last = NULL;
    int n = 0;
    *again = false;
    for (int i = 0; i < g->nodes.n; i++)
        for (int d = 0; d < g->nodes.at[i].depth; d++) {
            const dl_foreign_module *o = &g->nodes.at[i].stack[d];
            if (o->path == m->path && o->call != m->call) *again = true;
            if (o->class == m->class && o->path != last) n++, last = o->path;
        }
    return n;
}

static const char *short_name(dl_writer *w, const char *class) {
    const char *dot = strrchr(class, '.');
    char *name = dl_strdup(w->arena, dot ? dot + 1 : class);
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_') *p = '_';
    return isalpha((unsigned char)*name) && dl_in_is_name(name) ? name : "Block";
}

/* Says an application of body `of`, which `first` was written as, to the values v. Its results are
 * those tensors. */
static void say_module(dl_in_ctx *c, dl_in_body *of, const dl_in_call *first, dl_in_value *const *v,
                       const dl_foreign_tensor *const *results) {
    dl_say_call(c, of, first->in.n, v, of->path);
    int call = c->b->stmts.n - 1, n = first->out.n;
    for (int i = 0; i < n; i++) {
        dl_in_value *y = dl_copy_value(c, of->of[first->out.at[i]->id]);
        y->stmt = call, y->param = -1, y->is_view = false;
        if (n > 1)
            y->stmt =
                dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s]", y, P_POSTFIX, dl_in_whole(c->w, i));
        c->b->of[results[i]->id] = y;
    }
}

/* Writes a call as a module: its body, and a statement that applies it. */
static dl_in_body *write_module(dl_in_ctx *c, const dl_in_call *call) {
    const dl_foreign_module *m = &c->w->graph->nodes.at[call->from].stack[call->depth];
    dl_in_body *b = dl_new_body(c->w, short_name(c->w, m->class), m->path);
    dl_in_ctx inner = {.w = c->w, .b = b};
    dl_in_value *v[8];
    for (int i = 0; i < call->in.n; i++) {
        v[i] = dl_value_of(c, call->in.at[i]);
        dl_ordered(c, v[i], false);
        b->of[call->in.at[i]->id] = dl_enter(&inner, v[i], i);
    }
    dl_write_nodes(&inner, call->from, call->to, call->depth + 1);
    for (int i = 0; i < call->out.n; i++) {
        dl_in_value *y = dl_value_of(&inner, call->out.at[i]);
        dl_ordered(&inner, y, false);
        dl_push(c->w->arena, &b->returns, y->stmt);
    }
    say_module(c, b, call, v, call->out.at);
    return b;
}

/* The operand of a later call in the form of the module's input. NULL: it has another one. */
static dl_in_value *like_first(dl_in_ctx *c, const dl_foreign_tensor *t, const dl_in_stmt *input) {
    dl_in_value *v = dl_copy_value(c, dl_value_of(c, t));
    dl_ordered(c, v, false);
    dl_name_all(c, v);
    if (v->n != input->rank) return NULL;
    for (int a = 0; a < v->n; a++)
        if (dl_has_batch(v->axis[a].n, v->axis[a].atom) != (input->batch[a] > 0)) return NULL;
    dl_rename(c, v, input->axis);
    return v;
}

/* A later call: its statement, and the values of its results. */
static bool say_again(dl_in_ctx *c, const dl_in_call *first, dl_in_body *of, int from) {
    dl_writer *w = c->w;
    const dl_foreign_tensor **in = DL_NEWS(w->arena, const dl_foreign_tensor *, first->in.n + 1);
    dl_in_value *v[8];
    if (!dl_is_same_call(w, first, from, in)) return false;
    for (int i = 0; i < first->in.n; i++)
        if (!in[i] || !(v[i] = like_first(c, in[i], &of->stmts.at[of->inputs.at[i]]))) return false;
    const dl_foreign_tensor *results[4];
    for (int i = 0; i < first->out.n; i++)
        results[i] = dl_counterpart(w, first, from, in, first->out.at[i]);
    say_module(c, of, first, v, results);
    for (int i = first->from; i < first->to; i++) {
        const dl_foreign_node *x = &w->graph->nodes.at[i];
        for (int k = 0; k < x->n_results; k++) {
            int whole = w->view_of[x->results[k]->id];
            const dl_foreign_tensor *t = dl_counterpart(w, first, from, in, x->results[k]);
            if (whole >= 0)
                w->view_of[t->id] =
                    dl_counterpart(w, first, from, in, w->graph->tensors.at[whole])->id;
        }
    }
    w->report->nodes += first->to - first->from;
    return true;
}

/* Writes nodes [from, to), a call of the module at `depth`, as an application of one module with
 * the module's other calls. False, and nothing is written: they read or compute other things, or it
 * has no parameters of its own. */
static bool write_again(dl_in_ctx *c, int from, int to, int depth) {
    const dl_foreign_node *nodes = c->w->graph->nodes.at;
    for (int i = 0; i < c->b->called.n; i++) {
        const dl_in_call *first = &c->b->called.at[i].call;
        if (nodes[first->from].stack[first->depth].path == nodes[from].stack[depth].path)
            return say_again(c, first, c->b->called.at[i].of, from);
    }
    dl_in_call first = {.from = from, .to = to, .depth = depth};
    if (!dl_find_shared_ends(c, &first)) return false;
    dl_in_body *of = write_module(c, &first);
    dl_push(c->w->arena, &c->b->called, ((dl_in_called){.call = first, .of = of}));
    return true;
}

/* Writes nodes [from, to), a call of the module at `depth`, as a module. False: they stand where
 * they are. */
static bool write_apart(dl_in_ctx *c, int from, int to, int depth) {
    const dl_foreign_module *m = &c->w->graph->nodes.at[from].stack[depth];
    const char *label = dl_label_in(c->w, c->b, m->path);
    bool again = false, cell = is_cell(m->class);
    if (!label || !dl_in_is_label(label)) return false;
    int places = cell || (is_users(m->class) && to - from >= 2) ? count_places(c->w, m, &again) : 0;
    if (again && places) return write_again(c, from, to, depth);
    dl_in_call call = {.from = from, .to = to, .depth = depth};
    if (!places || cell || (places < 2 && to - from < 12) || !dl_find_ends(c, &call, false))
        return false;
    write_module(c, &call);
    return true;
}

bool dl_write_nodes(dl_in_ctx *c, int from, int to, int depth) {
    const dl_foreign_graph *g = c->w->graph;
    for (int i = from, end; i < to; i = end) {
        const dl_foreign_node *n = &g->nodes.at[i];
        end = i + 1;
        if (n->depth <= depth) {
            c->n = n, c->index = i;
            dl_apply_rule(c);
            continue;
        }
        const dl_foreign_module *m = &n->stack[depth];
        while (end < to && g->nodes.at[end].depth > depth &&
               same_module(&g->nodes.at[end].stack[depth], m))
            end++;
        if (!write_apart(c, i, end, depth)) dl_write_nodes(c, i, end, depth + 1);
    }
    return true;
}

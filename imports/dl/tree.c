/* The module stack: which modules of the archive become modules in the text. */
#include <ctype.h>

#include "imports/dl/parts.h"

static bool same_module(const dl_foreign_module *a, const dl_foreign_module *b) {
    return a->path == b->path && a->call == b->call;
}

static bool is_inside(const char *path, const char *module) {
    size_t n = strlen(module);
    return strncmp(path, module, n) == 0 && path[n] == '.';
}

/* Whether the module itself is a layer: its weight's label is that of the module. */
static bool is_layer(const char *path, const char *module) {
    const char *role = is_inside(path, module) ? path + strlen(module) : "";
    return strcmp(role, ".weight") == 0 || strncmp(role, ".weight_ih_l", 12) == 0;
}

static bool is_users(const char *class) {
    return strncmp(class, "torch.nn.", 9) != 0 || strstr(class, ".transformer.") ||
           strstr(class, "MultiheadAttention");
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

static const dl_foreign_tensor *tensor_of(const dl_foreign_arg *a, int k) {
    return (a->kind == DL_ARG_TENSOR || a->kind == DL_ARG_TENSORS) && k < a->n ? a->tensors[k]
                                                                               : NULL;
}

typedef DL_ARRAY(const dl_foreign_tensor *) tensors;

static void add(dl_writer *w, tensors *list, const dl_foreign_tensor *t) {
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == t) return;
    dl_push(w->arena, list, t);
}

/* Finds the values that nodes [from, to) read from outside and compute for outside. False: they
 * cannot be a module of their own. */
static bool find_ends(dl_writer *w, int from, int to, const dl_foreign_module *m, tensors *in,
                      tensors *out) {
    for (int i = from; i < to; i++) {
        const dl_foreign_node *n = &w->graph->nodes.at[i];
        bool in_place = dl_is_in_place(n->op);
        for (int a = 0; a < n->n_args; a++)
            for (int k = 0; k < n->args[a].n; k++) {
                const dl_foreign_tensor *t = tensor_of(&n->args[a], k);
                if (!t || dl_foreign_count(t) == 0) continue;
                int by = w->defined_by[t->id];
                bool computed = t->origin == DL_FOREIGN_RESULT || t->origin == DL_FOREIGN_INPUT;
                if (!computed && is_layer(t->path, m->path)) return false;
                bool own = dl_is_number_text(t) || w->reads[t->id] == 0 ||
                           (is_inside(t->path, m->path) && w->first_use[t->id] >= from &&
                            w->last_use[t->id] < to);
                if (computed ? by >= from : own) continue;
                if (in_place && a == 0) return false;
                add(w, in, t);
            }
        for (int k = 0; k < n->n_results; k++)
            if (w->last_use[n->results[k]->id] >= to) add(w, out, n->results[k]);
    }
    return in->n >= 1 && in->n <= 6 && out->n >= 1 && out->n <= 4;
}

static const char *short_name(dl_writer *w, const char *class) {
    const char *dot = strrchr(class, '.');
    char *name = dl_strdup(w->arena, dot ? dot + 1 : class);
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_') *p = '_';
    return isalpha((unsigned char)*name) ? name : "Block";
}

static void write_module(dl_in_ctx *c, int from, int to, int depth, const tensors *in,
                         const tensors *out) {
    const dl_foreign_module *m = &c->w->graph->nodes.at[from].stack[depth];
    dl_in_body *b = dl_new_body(c->w, short_name(c->w, m->class), m->path);
    dl_in_ctx inner = {.w = c->w, .b = b};
    dl_in_value *v[8];
    for (int i = 0; i < in->n; i++) {
        v[i] = dl_value_of(c, in->at[i]);
        dl_ordered(c, v[i], false);
        b->of[in->at[i]->id] = dl_enter(&inner, v[i], i);
    }
    dl_write_nodes(&inner, from, to, depth + 1);
    for (int i = 0; i < out->n; i++) {
        dl_in_value *y = dl_value_of(&inner, out->at[i]);
        dl_ordered(&inner, y, false);
        dl_push(c->w->arena, &b->returns, y->stmt);
    }
    dl_say_call(c, b, in->n, v, m->path);
    int call = c->b->stmts.n - 1;
    for (int i = 0; i < out->n; i++) {
        dl_in_value *y = dl_copy_value(c, b->of[out->at[i]->id]);
        y->stmt = call, y->param = -1, y->is_view = false;
        if (out->n > 1)
            y->stmt =
                dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s]", y, P_POSTFIX, dl_in_whole(c->w, i));
        c->b->of[out->at[i]->id] = y;
    }
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
        tensors in = {0}, out = {0};
        bool again = false;
        int places = is_users(m->class) && end - i >= 2 ? count_places(c->w, m, &again) : 0;
        bool apart = (places >= 2 || end - i >= 12) && places && !again &&
                     find_ends(c->w, i, end, m, &in, &out);
        if (apart)
            write_module(c, i, end, depth, &in, &out);
        else
            dl_write_nodes(c, i, end, depth + 1);
    }
    return true;
}

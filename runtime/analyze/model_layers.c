#include "runtime/analyze/model_layers.h"

#include <ctype.h>

#include "ir/base/counts.h"
#include "ir/kernel/kernel.h"

typedef struct {
    const dl_session *session;
    dl_arena *arena;
    dl_model_layers *m;
    int *layer_of; /* by value id: its layer; NONE: a parameter, a constant or computed of them */
    int *of_node;  /* by index of a node: the layer that has its work, or NONE */
    bool *is_counted; /* by index of a variable */
} finder;

enum { NONE = -1 };

/* ---- paths ---- */

static bool is_kept(const dl_var *v) {
    return v->role == DL_VAR_PARAM || v->role == DL_VAR_STATE || v->role == DL_VAR_TABLE;
}

/* The first parameter (or running statistic) that a value without operands of data is made of. */
static const dl_var *parameter_of(const finder *f, const dl_value *v) {
    if (v->var) return v->var->role == DL_VAR_TABLE || !is_kept(v->var) ? NULL : v->var;
    for (int i = 0; f->layer_of[v->id] == NONE && i < v->def->nin; i++) {
        const dl_var *var = parameter_of(f, v->def->in[i]);
        if (var) return var;
    }
    return NULL;
}

static const char *path_of(const finder *f, const dl_node *n) {
    for (int i = 0; i < n->nin; i++) {
        const dl_var *var = f->layer_of[n->in[i]->id] == NONE ? parameter_of(f, n->in[i]) : NULL;
        const char *dot = var ? strrchr(var->name, '.') : NULL;
        if (var) return dot ? dl_intern_n(var->name, (size_t)(dot - var->name)) : var->name;
    }
    return "";
}

/* The word of the model's text by which a node was written, or else its op. */
static const char *kind_of(const finder *f, const dl_node *n) {
    const dl_source *s = f->session->source;
    dl_span w = dl_source_word(s, n->loc);
    if (w.end <= s->n && (isalpha((unsigned char)s->text[w.begin]) || s->text[w.begin] == '_'))
        return dl_intern_n(s->text + w.begin, w.end - w.begin);
    return dl_ops[n->op].name;
}

/* ---- from nodes to layers ---- */

static int add_layer(finder *f, const char *path, const char *kind, int line) {
    dl_push(f->arena, &f->m->list, (dl_model_layer){.path = path, .kind = kind, .line = line});
    return f->m->list.n - 1;
}

static void add_operand(dl_arena *arena, dl_model_layer *to, int from, const dl_type *type) {
    for (int i = 0; i < to->operands.n; i++)
        if (to->operands.at[i].from == from && dl_type_same(to->operands.at[i].type, type)) return;
    dl_push(arena, &to->operands, (dl_layer_operand){from, type});
}

/* The layer of all the node's operands of data, if it is one and no input. */
static int only_operand(const finder *f, const dl_node *n) {
    int only = NONE;
    for (int i = 0; i < n->nin; i++) {
        int l = f->layer_of[n->in[i]->id];
        if (l == NONE) continue;
        if (only != NONE && only != l) return NONE;
        only = l;
    }
    return only == NONE || f->m->list.at[only].is_input ? NONE : only;
}

/* Whether the node reads a result of the layer. */
static bool reads(const finder *f, const dl_node *n, int layer) {
    for (int i = 0; i < n->nin; i++)
        if (f->layer_of[n->in[i]->id] == layer) return true;
    return false;
}

static bool follows(const dl_node *n) {
    dl_op_class c = dl_ops[n->op].class;
    return c == DL_CLASS_ELEM || c == DL_CLASS_MOVE || c == DL_CLASS_HIGH;
}

/* The layer that a node with operands of data belongs to: that of its path, which its operands
 * belong to, or the one that its operands come from. */
static int layer_of_node(finder *f, const dl_node *n) {
    const char *path = path_of(f, n);
    int only = only_operand(f, n);
    if (!*path) return only != NONE && follows(n) ? only : NONE;
    for (int i = f->m->list.n - 1; i >= 0; i--)
        if (f->m->list.at[i].path == path && !f->m->list.at[i].is_input)
            return reads(f, n, i) ? i : NONE;
    return NONE;
}

static bool has_data(const finder *f, const dl_node *n) {
    for (int i = 0; i < n->nin; i++)
        if (f->layer_of[n->in[i]->id] != NONE) return true;
    return false;
}

/* Work on parameters alone, and their number, belong to the first layer that reads them. */
static void take_parameters(finder *f, const dl_graph *g, const dl_value *v, int layer) {
    if (f->layer_of[v->id] != NONE) return;
    for (int i = 0; v->var && i < g->vars.n; i++)
        if (g->vars.at[i] == v->var && !f->is_counted[i]) {
            f->is_counted[i] = true;
            if (v->var->role == DL_VAR_PARAM)
                f->m->list.at[layer].parameters += dl_type_count(&v->type);
        }
    if (!v->def) return;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i] == v->def) {
            if (f->of_node[i] != NONE) return;
            f->of_node[i] = layer;
        }
    for (int i = 0; i < v->def->nin; i++) take_parameters(f, g, v->def->in[i], layer);
}

static void take_node(finder *f, const dl_graph *g, int index) {
    const dl_node *n = g->nodes.at[index];
    if (!has_data(f, n)) return;
    int layer = layer_of_node(f, n);
    if (layer == NONE) layer = add_layer(f, path_of(f, n), kind_of(f, n), n->loc.line);
    f->of_node[index] = layer;
    for (int i = 0; i < n->nin; i++) {
        int from = f->layer_of[n->in[i]->id];
        if (from == NONE)
            take_parameters(f, g, n->in[i], layer);
        else if (from != layer)
            add_operand(f->arena, &f->m->list.at[layer], from, &n->in[i]->type);
    }
    f->m->list.at[layer].type = n->out[0].type;
    for (int i = 0; i < n->nout; i++) f->layer_of[n->out[i].id] = layer;
}

static void take_inputs(finder *f, const dl_graph *g) {
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (is_kept(v) || v->role == DL_VAR_HYPER) continue;
        int l = add_layer(f, v->name, dl_intern(dl_var_roles[v->role]), v->loc.line);
        f->m->list.at[l].type = v->value.type, f->m->list.at[l].is_input = true;
        f->layer_of[v->value.id] = l;
    }
}

/* ---- cost ---- */

/* Flops by layer: each node's place becomes its number, which the lowered nodes that replace it
 * inherit, and every one of them is a kernel of its own. */
static bool count_flops(finder *f, dl_graph *g, dl_error *err) {
    for (int i = 0; i < g->nodes.n; i++) g->nodes.at[i]->loc.line = i + 1;
    dl_pass_ctx ctx = {.arena = f->arena, .err = err};
    dl_pass_lower(g, &ctx);
    if (err->code) return false;
    dl_skip_fuse(g, &ctx);
    if (err->code) return false;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        if (!n->kernel) continue;
        dl_kernel_count(n->kernel);
        int layer = n->loc.line > 0 ? f->of_node[n->loc.line - 1] : NONE;
        f->m->flops = dl_count_plus(f->m->flops, n->kernel->flops);
        if (layer != NONE)
            f->m->list.at[layer].flops =
                dl_count_plus(f->m->list.at[layer].flops, n->kernel->flops);
    }
    return true;
}

const dl_model_layers *dl_find_model_layers(dl_session *s, dl_error *err) {
    /* An op that cannot be lowered is reported here, with its place in the model. */
    if (!dl_session_predict(s, 0, NULL, err) || !dl_session_seen(s, err)) return NULL;
    dl_graph *g = dl_module_graph(s->module, "predict");
    finder f = {.session = s, .arena = s->arena, .m = DL_NEW(s->arena, dl_model_layers)};
    f.layer_of = DL_NEWS(s->arena, int, (int)g->next_id + 1);
    f.of_node = DL_NEWS(s->arena, int, g->nodes.n + 1);
    f.is_counted = DL_NEWS(s->arena, bool, g->vars.n + 1);
    for (uint32_t i = 0; i <= g->next_id; i++) f.layer_of[i] = NONE;
    for (int i = 0; i < g->nodes.n; i++) f.of_node[i] = NONE;
    take_inputs(&f, g);
    for (int i = 0; i < g->nodes.n; i++) take_node(&f, g, i);
    for (int i = 0; i < g->results.n; i++) {
        const dl_value *v = g->results.at[i].value;
        if (g->results.at[i].role == DL_RESULT_OUTPUT && f.layer_of[v->id] != NONE)
            dl_push(s->arena, &f.m->outputs, (dl_layer_operand){f.layer_of[v->id], &v->type});
    }
    f.m->parameters = s->parameters;
    return count_flops(&f, g, err) ? f.m : NULL;
}

const char *dl_axes_text(dl_arena *arena, const dl_type *t) {
    dl_buf b = {0};
    for (int i = 0; i < t->rank; i++)
        dl_putf(&b, "%s%s%s%lld", i ? ", " : "", t->axis[i].name, *t->axis[i].name ? "=" : "",
                (long long)t->axis[i].size);
    const char *text = b.at ? dl_strdup(arena, b.at) : "";
    dl_buf_free(&b);
    return text;
}

/* ---- groups ---- */

/* The first `depth` names of a path. */
static const char *prefix_of(const char *path, int depth) {
    const char *p = path;
    for (; *p; p++)
        if (*p == '.' && !--depth) break;
    return dl_intern_n(path, (size_t)(p - path));
}

/* The group of a layer: that of its path; without one, the last group that it has an operand of. */
static int group_of(const dl_model_layers *all, dl_model_layers *out, const int *group, int l,
                    const char *prefix) {
    const dl_model_layer *layer = &all->list.at[l];
    int last = NONE;
    for (int i = 0; i < out->list.n && *layer->path; i++)
        if (out->list.at[i].path == prefix && !out->list.at[i].is_input) return i;
    if (layer->is_input || *layer->path) return NONE;
    for (int i = 0; i < layer->operands.n; i++) {
        int of = group[layer->operands.at[i].from];
        if (of > last && !out->list.at[of].is_input) last = of;
    }
    return last;
}

const dl_model_layers *dl_group_model_layers(dl_arena *arena, const dl_model_layers *m, int depth) {
    if (depth <= 0) return m;
    dl_model_layers *out = DL_NEW(arena, dl_model_layers);
    int *group = DL_NEWS(arena, int, m->list.n + 1);
    out->parameters = m->parameters, out->flops = m->flops;
    for (int l = 0; l < m->list.n; l++) {
        const dl_model_layer *from = &m->list.at[l];
        const char *prefix = prefix_of(from->path, depth);
        int to = group[l] = group_of(m, out, group, l, prefix);
        if (to == NONE) {
            dl_model_layer fresh = *from;
            fresh.path = prefix, fresh.parameters = fresh.flops = 0, fresh.operands.n = 0;
            fresh.operands.at = NULL, fresh.operands.cap = 0;
            dl_push(arena, &out->list, fresh);
            to = group[l] = out->list.n - 1;
        } else if (!from->is_input && out->list.at[to].kind != from->kind)
            out->list.at[to].kind = "";
        dl_model_layer *into = &out->list.at[to];
        into->parameters += from->parameters, into->flops += from->flops, into->type = from->type;
        for (int i = 0; i < from->operands.n; i++)
            if (group[from->operands.at[i].from] != to)
                add_operand(arena, into, group[from->operands.at[i].from],
                            from->operands.at[i].type);
    }
    for (int i = 0; i < m->outputs.n; i++)
        dl_push(arena, &out->outputs,
                (dl_layer_operand){group[m->outputs.at[i].from], m->outputs.at[i].type});
    return out;
}

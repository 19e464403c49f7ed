/* layout: chooses the memory layout of every value.
 *
 * The backend says which layouts contractions need (ir/kernel/contraction_rules.h): channels last
 * for activations of windows, weight panels for weights. Templates read and write row-major
 * tensors. Elementwise ops take the layout of their neighbours, so that no kernel mixes layouts
 * without need: a weight's gradient, moments and update have the weight's panels. Inputs and
 * targets come from the host in PyTorch's layout. A `relayout` converts each of them once.
 *
 * The body of a scan comes before the graph around it, and decides how its states, and the slices
 * of its inputs and outputs, lie. The graph around it converts the scan's operands. */
#include "ir/body.h"
#include "ir/builder.h"
#include "ir/kernel/contraction_rules.h"
#include "ir/walk.h"
#include "passes/fuse/fuse.h"

static bool is_activation(const dl_type *t) { return t->rank >= 3 && t->rank <= 5; }

static bool is_contraction(const dl_node *n) { return dl_ops[n->op].class == DL_CLASS_CONTRACT; }

/* Does the contraction need this layout at a place? */
static bool needs(const dl_contraction_rules *r, const dl_node *n, int place, dl_layout_need what) {
    return is_contraction(n) && r->layout_needs(n->op, place) == what;
}

/* Does the contraction demand layouts? */
static bool demands(const dl_contraction_rules *r, const dl_node *n) {
    return is_contraction(n) && !needs(r, n, DL_RESULT_PLACE, DL_LAYOUT_STRIDED);
}

/* The value at a place of a contraction. */
static dl_value *value_at(const dl_node *n, int place) {
    return place == DL_RESULT_PLACE ? &n->out[0] : n->in[place];
}

static bool set_layout(dl_value *v, dl_layout want) {
    if (dl_layout_same(v->type.layout, want)) return false;
    v->type.layout = want;
    return true;
}

/* The values of a graph that must be panels. */
typedef struct {
    dl_graph *g;
    const dl_uses *uses;
    const dl_contraction_rules *rules;
    dl_layout as;      /* the layout of panels */
    unsigned char *is; /* by value id; not 0: panels */
    DL_ARRAY(const dl_value *) todo;
} panels;

/* A convolution's result over activations is an activation, for all readers. */
static bool makes_activation(const dl_contraction_rules *r, const dl_node *n) {
    return n && is_contraction(n) && !needs(r, n, DL_RESULT_PLACE, DL_LAYOUT_WEIGHTS);
}

static void mark_panel(panels *p, const dl_value *v, dl_arena *arena) {
    if (p->is[v->id] || makes_activation(p->rules, v->def)) return;
    p->is[v->id] = 1;
    dl_push(arena, &p->todo, v);
}

/* Is the node a part of a panel tensor (a slice, an operand of a cat), or made of such? A rank's
 * shard that ends within a panel is not. */
static bool makes_part(const panels *p, const dl_node *n) {
    if (!dl_op_is_partitioned(n->op)) return n->op == DL_OP_slice;
    dl_type whole = n->op == DL_OP_all_gather ? n->out[0].type : n->in[0]->type;
    whole.layout = p->as;
    return dl_type_shares(&whole, dl_type_axis(&whole, dl_node_name(n, DL_ATTR_axis)),
                          dl_node_int(n, DL_ATTR_ranks));
}

/* The same axes and sizes, with any element types. */
static bool same_points(const dl_type *a, const dl_type *b) {
    dl_type of = *a;
    of.dtype = b->dtype;
    return dl_type_same(&of, b);
}

/* Elementwise operands and results of a panel tensor are panels, and so are its parts. */
static void mark_elementwise(panels *p, const dl_node *n, dl_arena *arena) {
    bool part = makes_part(p, n), any = p->is[n->out[0].id];
    bool elementwise = dl_ops[n->op].class == DL_CLASS_ELEM || n->op == DL_OP_all_reduce;
    if (!elementwise && !part) return;
    for (int k = 0; k < n->nin; k++)
        any |= p->is[n->in[k]->id] && (part || same_points(&n->in[k]->type, &n->out[0].type));
    if (!any) return;
    for (int k = -1; k < n->nin; k++) {
        const dl_value *v = k < 0 ? &n->out[0] : n->in[k];
        if (v->type.rank == n->out[0].type.rank) mark_panel(p, v, arena);
    }
}

static void mark_neighbours(panels *p, dl_arena *arena) {
    for (bool more = true; more;) {
        while (p->todo.n) {
            const dl_value *v = p->todo.at[--p->todo.n];
            if (v->def) mark_elementwise(p, v->def, arena);
            for (int i = 0; i < p->uses[v->id].n; i++)
                mark_elementwise(p, p->uses[v->id].readers[i], arena);
        }
        for (int i = 0; i < p->g->results.n;
             i++) { /* a variable and its next value have the same layout */
            const dl_result *r = &p->g->results.at[i];
            if (!r->var || !p->is[r->value->id] == !p->is[r->var->value.id]) continue;
            mark_panel(p, p->is[r->value->id] ? &r->var->value : r->value, arena);
        }
        more = p->todo.n > 0;
    }
}

/* By value id of the graph: the weights of windows, read or computed, and their elementwise
 * neighbours. A variable has panels in all graphs or in none. */
static const unsigned char *find_panels(dl_graph *of, dl_layout as,
                                        const dl_contraction_rules *rules, dl_arena *arena) {
    dl_graph *const *graphs = of->is_body ? &of : of->module->graphs.at;
    const int n = of->is_body ? 1 : of->module->graphs.n;
    panels *all = DL_NEWS(arena, panels, n);
    DL_ARRAY(const dl_var *) found = {0}; /* variables to mark in the other graphs */
    int own = 0;
    for (int i = 0; i < n; i++) {
        dl_graph *g = graphs[i];
        panels *p = &all[i];
        if (g == of) own = i;
        *p = (panels){.g = g, .uses = dl_graph_uses(g, arena), .rules = rules, .as = as};
        p->is = DL_NEWS(arena, unsigned char, g->next_id + 1);
        for (int k = 0; k < g->nodes.n; k++) {
            dl_node *node = g->nodes.at[k];
            for (int at = 0; at < DL_PLACES; at++)
                if (needs(rules, node, at, DL_LAYOUT_WEIGHTS))
                    mark_panel(p, value_at(node, at), arena);
        }
    }
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < n; i++) {
            mark_neighbours(&all[i], arena);
            for (int k = 0; k < graphs[i]->vars.n; k++) {
                const dl_var *v = graphs[i]->vars.at[k];
                if (all[i].is[v->value.id] != 1) continue;
                all[i].is[v->value.id] = 2; /* found and marked */
                dl_push(arena, &found, v);
            }
        }
        for (int i = 0; i < n && found.n && n > 1; i++) {
            const dl_graph *g = graphs[i];
            dl_var_set named = dl_var_set_new(g, arena);
            for (int k = 0; k < found.n; k++) {
                const dl_var *v = dl_var_set_find(&named, found.at[k]->name);
                if (v && !all[i].is[v->value.id])
                    mark_panel(&all[i], &v->value, arena), more = true;
            }
        }
        found.n = 0;
    }
    return all[own].is;
}

/* Are its operands and results row-major? */
static bool in_rows(const dl_node *n, const unsigned char *panel) {
    return dl_op_wants_rows(n->op) || (dl_op_is_partitioned(n->op) && !panel[n->out[0].id]);
}

static bool follows(const dl_node *n) {
    dl_op_class c = dl_ops[n->op].class;
    return n->op == DL_OP_all_reduce || c == DL_CLASS_ELEM || c == DL_CLASS_MOVE ||
           c == DL_CLASS_REDUCE;
}

/* May v have the layout of the node's result? Yes, with the same samples and channels, as a
 * pool's windows and their results have. No, where axes change places ([N, C, H, W] to [N, H, W,
 * C]): there the other side has its channels last already. */
static bool alike(const dl_node *n, const dl_value *v) {
    const dl_type *t = &n->out[0].type, *u = &v->type;
    if (u->rank < 2 || t->rank < 2) return u->rank == t->rank;
    bool channels = u->axis[1].name == t->axis[1].name;
    if (u->rank == t->rank) return channels || n->op == DL_OP_rename;
    return channels && u->rank > 2 && t->rank > 2 && u->axis[0].name == t->axis[0].name;
}

/* The results of scans lie as their bodies have it. */
static bool lay_scans(dl_graph *g) {
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nout && n->body; k++)
            any |= set_layout(&n->out[k], dl_scan_result_type(n, k).layout);
        for (int k = 0; k < n->nin && n->body; k++) any |= dl_scan_layout(n, k).kind != DL_ROW;
    }
    return any;
}

/* Values that are channels last: operands and results of contractions by windows, of scans with
 * such a state, and their elementwise neighbours and parts. A state and its next value are alike.
 */
static void mark_channels_last(dl_graph *g, const dl_contraction_rules *r, unsigned char *cl) {
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *n = g->nodes.at[i];
        for (int at = 0; at < DL_PLACES && demands(r, n); at++)
            cl[value_at(n, at)->id] |= needs(r, n, at, DL_LAYOUT_CL);
        for (int k = 0; k < n->nin && n->body; k++)
            cl[n->in[k]->id] |= dl_layout_same(dl_scan_layout(n, k), (dl_layout){.kind = DL_CL});
        for (int k = 0; k < n->nout && n->body; k++)
            cl[n->out[k].id] |= dl_layout_same(n->out[k].type.layout, (dl_layout){.kind = DL_CL});
    }
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < g->nodes.n; i++) {
            dl_node *n = g->nodes.at[i];
            bool any = cl[n->out[0].id];
            for (int k = 0; k < n->nin; k++) any |= alike(n, n->in[k]) && cl[n->in[k]->id];
            if (!any || !follows(n)) continue;
            for (int k = -1; k < n->nin; k++) {
                dl_value *v = k < 0 ? &n->out[0] : n->in[k];
                if (alike(n, v) && !cl[v->id]) cl[v->id] = 1, more = true;
            }
        }
        for (int i = 0; i < g->results.n && g->is_body; i++) {
            const dl_result *res = &g->results.at[i];
            if (!res->var || cl[res->value->id] == cl[res->var->value.id]) continue;
            cl[res->value->id] = cl[res->var->value.id] = 1, more = true;
        }
    }
}

/* Has the tensor channels and points over which they lie? */
static bool has_points(const dl_type *t) {
    return is_activation(t) && t->axis[1].size > 1 &&
           dl_type_count(t) > t->axis[0].size * t->axis[1].size;
}

/* Parameters, and what belongs to them, that elementwise ops of any graph read next to values with
 * their channels last have them last, too. They lie alike in all graphs. */
static bool lay_parameters(dl_graph *of, const dl_contraction_rules *rules,
                           const unsigned char *panel, dl_arena *arena) {
    const dl_var_set own = dl_var_set_new(of, arena);
    bool any = false;
    for (int i = 0; i < of->module->graphs.n; i++) {
        dl_graph *g = of->module->graphs.at[i];
        unsigned char *cl = DL_NEWS(arena, unsigned char, g->next_id);
        mark_channels_last(g, rules, cl);
        for (int k = 0; k < g->vars.n; k++) {
            dl_var *v = dl_var_set_find(&own, g->vars.at[k]->name);
            if (!v || !cl[g->vars.at[k]->value.id] || panel[v->value.id]) continue;
            if (v->role != DL_VAR_INPUT && v->role != DL_VAR_TARGET && has_points(&v->value.type))
                any |= set_layout(&v->value, (dl_layout){.kind = DL_CL});
        }
    }
    return any;
}

/* `v` in the layout that a contraction needs: itself, or a relayout inserted before node `at`. */
static dl_value *in_layout(dl_graph *g, dl_value *v, dl_layout want, int *at, dl_value **known) {
    if (dl_layout_same(v->type.layout, want)) return v;
    if (known[v->id] && dl_layout_same(known[v->id]->type.layout, want)) return known[v->id];
    dl_type t = v->type;
    t.layout = want;
    dl_loc loc = v->def ? v->def->loc : v->var->loc;
    dl_node *n = dl_node_append(g, DL_OP_relayout, 1, &v, 1, &t, loc);
    memmove(&g->nodes.at[*at + 1], &g->nodes.at[*at], sizeof n * (size_t)(g->nodes.n - 1 - *at));
    g->nodes.at[(*at)++] = n;
    return known[v->id] = &n->out[0];
}

static bool any_demands(const dl_contraction_rules *rules, const dl_graph *g) {
    bool any = false;
    for (int i = 0; i < g->nodes.n; i++) any |= demands(rules, g->nodes.at[i]);
    return any;
}

/* The layout of a body's variable. Operands that are the same at each step lie row by row: a
 * conversion in the body is hoisted. */
static dl_layout of_body_var(const dl_var *v, bool panel, bool cl, dl_layout in_panels) {
    if (v->role == DL_VAR_STATE && panel) return in_panels;
    const bool last = cl && !panel && is_activation(&v->value.type);
    return (dl_layout){.kind = last && v->role != DL_VAR_PARAM ? DL_CL : DL_ROW};
}

/* The layout that a result must have: that of its variable; in a body any but panels, as a tensor
 * of all steps has none; for the host, that of one tensor. */
static dl_layout of_result(const dl_graph *g, const dl_result *r) {
    if (r->var) return r->var->value.type.layout;
    const dl_layout own = r->value->type.layout;
    const bool keeps = g->is_body ? own.kind != DL_PANEL : !own.steps;
    return keeps ? own : (dl_layout){0};
}

/* Does the value that a result names take the layout of the result's variable? Else it lies as its
 * maker has it, and is converted. */
static bool takes(const dl_graph *g, const dl_result *r, const unsigned char *panel) {
    return r->var && !g->is_body && !(r->value->def && in_rows(r->value->def, panel));
}

static bool convert_results(dl_graph *g, const unsigned char *panel, dl_value **known) {
    bool any = false;
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        if (takes(g, r, panel)) continue;
        int end = g->nodes.n;
        dl_value *converted = in_layout(g, r->value, of_result(g, r), &end, known);
        any |= converted != r->value;
        r->value = converted;
    }
    return any;
}

static bool lay_out(dl_graph *g, dl_pass_ctx *ctx) {
    const dl_contraction_rules *rules = dl_contraction_rules_of(ctx->contractions);
    bool contracts = false, changed = false;
    for (int k = 0; k < g->module->graphs.n; k++)
        contracts |= any_demands(rules, g->module->graphs.at[k]);
    if (g->is_body) contracts = any_demands(rules, g);
    if (!lay_scans(g) && !contracts) return false;
    const dl_layout rows = {0}, cl = {.kind = DL_CL}, in_panels = ctx->weights;

    const unsigned char *panel = find_panels(g, in_panels, rules, ctx->arena);
    unsigned char *cl_wanted = DL_NEWS(ctx->arena, unsigned char, g->next_id);
    mark_channels_last(g, rules, cl_wanted);
    for (int i = 0; i < g->vars.n; i++) {
        dl_var *v = g->vars.at[i];
        const bool is_panel = panel[v->value.id];
        if (g->is_body)
            changed |=
                set_layout(&v->value, of_body_var(v, is_panel, cl_wanted[v->value.id], in_panels));
        else if (is_panel)
            changed |= set_layout(&v->value, in_panels);
    }
    if (!g->is_body) changed |= lay_parameters(g, rules, panel, ctx->arena);
    for (int i = 0; i < g->nodes.n; i++) {
        dl_value *v = &g->nodes.at[i]->out[0];
        if (in_rows(g->nodes.at[i], panel)) continue;
        if (panel[v->id])
            changed |= set_layout(v, in_panels);
        else if (cl_wanted[v->id] && is_activation(&v->type))
            changed |= set_layout(v, cl);
    }

    for (int i = 0; i < g->results.n; i++) { /* a variable's gradient lies as the variable does */
        const dl_result *r = &g->results.at[i];
        if (takes(g, r, panel)) changed |= set_layout(r->value, r->var->value.type.layout);
    }

    /* Each input is converted at most once, before its first reader. A value and a node add at
     * most one relayout. */
    dl_value **known = DL_NEWS(ctx->arena, dl_value *, 2 * g->next_id + 16);
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *n = g->nodes.at[i];
        if (n->op == DL_OP_relayout) continue;
        bool called = in_rows(n, panel);
        for (int k = 0; k < n->nin; k++) {
            dl_value *v = n->in[k];
            bool fed = v->var && (v->var->role == DL_VAR_INPUT || v->var->role == DL_VAR_TARGET);
            dl_value *to = v;
            if (n->body)
                to = in_layout(g, v, dl_scan_layout(n, k), &i, known);
            else if (called)
                to = in_layout(g, v, (dl_layout){0}, &i, known);
            else if (needs(rules, n, k, DL_LAYOUT_WEIGHTS))
                to = in_layout(g, v, in_panels, &i, known);
            else if (needs(rules, n, k, DL_LAYOUT_STRIDED) &&
                     (v->type.layout.kind == DL_PANEL || v->type.layout.steps))
                to = in_layout(g, v, rows, &i,
                               known); /* a contraction by names reads it element by element */
            else if (needs(rules, n, k, DL_LAYOUT_CL) ||
                     (fed && is_activation(&v->type) && n->out[0].type.layout.kind == DL_CL))
                to = in_layout(g, v, cl, &i, known);
            if (to != v) n->in[k] = to, changed = true;
        }
    }
    return convert_results(g, panel, known) || changed;
}

/* A tensor of a body that is the same at each step is laid out once. */
bool dl_pass_layout(dl_graph *g, dl_pass_ctx *ctx) {
    bool changed = lay_out(g, ctx);
    return dl_fuse_hoist(g, ctx->arena) || changed;
}

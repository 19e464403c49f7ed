/* Chooses how every value lies in memory.
 *
 * Contractions ask: activations channels-last, weights in panels. What is computed element by element follows
 * its neighbours (a weight's gradient, moments and update take the weight's panels), so that no kernel mixes
 * layouts without need. Inputs and targets come from the host in PyTorch's layout and are turned once, by a
 * `relayout`. */
#include "ir/builder.h"
#include "ir/walk.h"
#include "passes/pass.h"

static bool is_activation(const dl_type *t) { return t->rank >= 3 && t->rank <= 5; }

/* A contraction by windows: the one kind that asks for layouts. Products by names take operands as they lie.
 */
static bool has_windows(const dl_node *n) {
    return dl_ops[n->op].class == DL_CLASS_CONTRACT && n->op != DL_OP_contract;
}

/* Which operand of a contraction is a weight [O, C, k...]; -1: none (conv_grad_weight makes one). */
static int weight_operand(dl_op op) { return op == DL_OP_conv || op == DL_OP_conv_grad_input ? 1 : -1; }

static bool set_layout(dl_value *v, dl_layout want) {
    if (dl_layout_same(v->type.layout, want)) return false;
    v->type.layout = want;
    return true;
}

/* Values that must be panels: weights, results of conv_grad_weight, and whatever is element by element beside
 * them. */
static void spread_panels(dl_graph *g, unsigned char *panel) {
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *n = g->nodes.at[i];
        int w = weight_operand(n->op);
        if (w >= 0) panel[n->in[w]->id] = 1;
        if (n->op == DL_OP_conv_grad_weight) panel[n->out[0].id] = 1;
    }
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < g->nodes.n; i++) {
            dl_node *n = g->nodes.at[i];
            bool slice = n->op == DL_OP_slice;
            if (dl_ops[n->op].class != DL_CLASS_ELEM && !slice) continue;
            bool any = panel[n->out[0].id];
            for (int k = 0; k < n->nin; k++)
                any |= panel[n->in[k]->id] && (slice || dl_type_same(&n->in[k]->type, &n->out[0].type));
            if (!any) continue;
            for (int k = -1; k < n->nin; k++) {
                dl_value *v = k < 0 ? &n->out[0] : n->in[k];
                if (v->type.rank != n->out[0].type.rank || panel[v->id]) continue;
                panel[v->id] = 1, more = true;
            }
        }
        for (int i = 0; i < g->results.n; i++) { /* a variable and its next value agree */
            dl_result *r = &g->results.at[i];
            if (!r->var) continue;
            unsigned char *a = &panel[r->value->id], *b = &panel[r->var->value.id];
            if (*a != *b) *a = *b = 1, more = true;
        }
    }
}

static bool follows(const dl_node *n) {
    return dl_ops[n->op].class == DL_CLASS_ELEM || dl_ops[n->op].class == DL_CLASS_MOVE;
}

/* Values that lie channels last: what contractions by windows read and make, and whatever of their rank is
 * element by element or piece by piece beside them. */
static void spread_channels_last(dl_graph *g, unsigned char *cl) {
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *n = g->nodes.at[i];
        if (!has_windows(n)) continue;
        for (int k = 0; k < n->nin; k++) cl[n->in[k]->id] = k != weight_operand(n->op);
        cl[n->out[0].id] = n->op != DL_OP_conv_grad_weight;
    }
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < g->nodes.n; i++) {
            dl_node *n = g->nodes.at[i];
            int rank = n->out[0].type.rank;
            bool any = cl[n->out[0].id];
            for (int k = 0; k < n->nin; k++) any |= n->in[k]->type.rank == rank && cl[n->in[k]->id];
            if (!any || !follows(n)) continue;
            for (int k = -1; k < n->nin; k++) {
                dl_value *v = k < 0 ? &n->out[0] : n->in[k];
                if (v->type.rank == rank && !cl[v->id]) cl[v->id] = 1, more = true;
            }
        }
    }
}

/* `v` as a contraction needs it: itself, or a relayout inserted in front of node `at`. */
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

bool dl_pass_layout(dl_graph *g, dl_pass_ctx *ctx) {
    bool contracts = false, changed = false;
    for (int i = 0; i < g->nodes.n; i++) contracts |= has_windows(g->nodes.at[i]);
    if (!contracts) return false;
    const dl_layout cl = {.kind = DL_CL}, panels = {.kind = DL_PANEL, .width = ctx->panel};

    unsigned char *panel = DL_NEWS(ctx->arena, unsigned char, g->next_id);
    spread_panels(g, panel);
    unsigned char *cl_wanted = DL_NEWS(ctx->arena, unsigned char, g->next_id);
    spread_channels_last(g, cl_wanted);
    for (int i = 0; i < g->vars.n; i++)
        if (panel[g->vars.at[i]->value.id]) changed |= set_layout(&g->vars.at[i]->value, panels);
    for (int i = 0; i < g->nodes.n; i++) {
        dl_value *v = &g->nodes.at[i]->out[0];
        if (panel[v->id])
            changed |= set_layout(v, panels);
        else if (cl_wanted[v->id] && is_activation(&v->type))
            changed |= set_layout(v, cl);
    }

    for (int i = 0; i < g->results.n; i++) { /* a variable and its next value lie alike */
        const dl_result *r = &g->results.at[i];
        if (r->var) changed |= set_layout(r->value, r->var->value.type.layout);
    }

    /* Each input is turned at most once, in front of its first reader. At most one relayout a value and node
     * is new. */
    dl_value **known = DL_NEWS(ctx->arena, dl_value *, 2 * g->next_id + 16);
    for (int i = 0; i < g->nodes.n; i++) {
        dl_node *n = g->nodes.at[i];
        if (n->op == DL_OP_relayout) continue;
        int w = has_windows(n) ? weight_operand(n->op) : -2;
        for (int k = 0; k < n->nin; k++) {
            dl_value *v = n->in[k];
            bool fed = v->var && (v->var->role == DL_VAR_INPUT || v->var->role == DL_VAR_TARGET);
            dl_value *to = v;
            if (w == k)
                to = in_layout(g, v, panels, &i, known);
            else if (w != -2 || (fed && is_activation(&v->type) && n->out[0].type.layout.kind == DL_CL))
                to = in_layout(g, v, cl, &i, known);
            if (to != v) n->in[k] = to, changed = true;
        }
    }
    return changed;
}

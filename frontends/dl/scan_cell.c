/* scan(cell, x, start, over=T): a module or layer, applied to the slices of x along an axis, one
 * after the other, with states (ir/body.h).
 *
 * The cell is applied once, in the model's graph, to stand-ins for a step's slices and states. The
 * nodes that this makes become the scan's body, and what they read from before is the same at
 * each step. So a cell is elaborated as any module: its parameters are the model's. */
#include "frontends/dl/builtin.h"
#include "ir/body.h"

enum { P_CELL, P_X, P_START, P_OVER, P_REVERSE, P_STEPS, P_RECOMPUTE };
enum { MOST = 64 }; /* scanned tensors, and states, and results of a cell */

typedef struct {
    dl_call *c;
    const char *axis;
    int64_t steps;
    int at;              /* the position of the axis in the first scanned tensor */
    int nx, nh, nout;    /* scanned tensors, states, results that are stacked */
    dl_val stack[MOST];  /* of each scanned tensor: [T, ...] */
    dl_val start[MOST];  /* of each state */
    dl_val in[2 * MOST]; /* stand-ins for the slices, then for the states */
    dl_val out[MOST], next[MOST];
    int first, begin; /* nodes of the graph: the first stand-in, and the first of the cell */
    dl_graph *body;
    DL_ARRAY(dl_value *) operands;
    dl_value **now; /* by value id: the body's value */
} scan;

static dl_span at_argument(const dl_call *c, int i) {
    return c->ast[i] ? c->ast[i]->span : c->where;
}

static bool bad(const scan *s, int i, const char *why) {
    dl_bad(s->c->E, at_argument(s->c, i), DL_DIAG_bad_argument, "scan: %s", why);
    return false;
}

/* Reads argument i, a tensor or a list of tensors. False: reported. */
static bool read_tensors(const scan *s, int i, dl_val *to, int *n) {
    dl_call *c = s->c;
    const dl_val v = c->arg[i];
    const dl_val *items = v.kind == DL_V_LIST ? v.list->items.at : &v;
    *n = v.kind == DL_V_LIST ? v.list->items.n : v.kind != DL_V_NONE;
    if (*n > MOST) return bad(s, i, "a list of at most 64 tensors");
    for (int k = 0; k < *n; k++) {
        to[k] = items[k];
        if (to[k].kind == DL_V_POISON) return false;
        if (to[k].kind == DL_V_TENSOR) continue;
        if (dl_refuse_layer(c->E, at_argument(c, i), to[k])) return false;
        bad(s, i,
            dl_format(c->E->arena, "'%s' must be a tensor, or a list of tensors, not %s",
                      c->what->params[i].name, dl_val_describe(c->E, to[k])));
        if (i == P_START)
            dl_help(c->E, "a state of zeros has its axes, too: expand(0.0, N=N, H=5)");
        return false;
    }
    return true;
}

/* The scanned tensors with their steps first, and the number of steps. */
static bool take_inputs(scan *s) {
    dl_call *c = s->c;
    int n;
    const char *names[DL_MAX_RANK];
    dl_val x[MOST];
    if (!read_tensors(s, P_X, x, &s->nx) || !read_tensors(s, P_START, s->start, &s->nh) ||
        !dl_call_axes(c, P_OVER, &n, names))
        return false;
    s->axis = names[0];
    s->steps = c->given[P_STEPS] ? c->arg[P_STEPS].i : -1;
    for (int k = 0; k < s->nx; k++) {
        if (!dl_call_axes_of(c, P_OVER, x[k], &n, names)) return false;
        dl_type t = x[k].t->type;
        int at = dl_type_axis(&t, s->axis);
        dl_axis steps = t.axis[at];
        if (!k) s->at = at;
        if (s->steps >= 0 && steps.size != s->steps) {
            bad(s, P_X,
                dl_format(c->E->arena, "%s has %lld elements here, and there are %lld steps",
                          s->axis, (long long)steps.size, (long long)s->steps));
            dl_note_tensor(c->E, x[k]);
            return false;
        }
        s->steps = steps.size;
        memmove(t.axis + 1, t.axis, sizeof *t.axis * (size_t)at);
        t.axis[0] = steps;
        s->stack[k] = dl_tensor_ordered(c->E, c->where, x[k], &t);
        if (s->stack[k].kind != DL_V_TENSOR) return false;
    }
    if (s->steps < 0)
        return bad(s, P_X, "without a tensor to scan, 'steps' says how many there are");
    if (s->steps < 1) return bad(s, P_X, dl_format(c->E->arena, "%s has no steps", s->axis));
    return s->nx + s->nh > 0 || bad(s, P_START, "there is neither a tensor to scan nor a state");
}

/* ---- the cell, applied once ---- */

static bool stand_in(scan *s) {
    dl_call *c = s->c;
    dl_graph *g = c->E->b.graph;
    s->first = g->nodes.n;
    for (int k = 0; k < s->nx; k++) {
        s->in[k] = dl_tensor_at(c->E, c->where, s->stack[k], s->axis, 0);
        if (s->in[k].kind != DL_V_TENSOR) return false;
        s->in[k].mixed = s->stack[k].mixed;
    }
    for (int k = 0; k < s->nh; k++) {
        dl_value *start = s->start[k].t;
        if (dl_type_axis(&start->type, s->axis) >= 0) {
            bad(s, P_START,
                dl_format(c->E->arena, "a state has the axis of the steps, %s", s->axis));
            dl_note_tensor(c->E, s->start[k]);
            return false;
        }
        s->in[s->nx + k] = s->start[k];
        s->in[s->nx + k].t =
            dl_build_as(&c->E->b, DL_OP_broadcast, 1, &start, 0, NULL, start->type);
    }
    s->begin = g->nodes.n;
    return true;
}

/* A result of the cell that is stacked, or the next value of state k (k < 0: none). */
static bool take_result(const scan *s, dl_val v, int k, dl_val *to) {
    dl_call *c = s->c;
    if (v.kind == DL_V_POISON) return false;
    if (v.kind != DL_V_TENSOR)
        return bad(s, P_CELL,
                   dl_format(c->E->arena, "the cell returns %s, and not a tensor",
                             dl_val_describe(c->E, v)));
    const dl_type *t = &v.t->type, *want = k < 0 ? t : &s->start[k].t->type;
    bool same = t->rank == want->rank && t->dtype == want->dtype;
    for (int i = 0; i < t->rank && same; i++) {
        int at = dl_type_axis(want, t->axis[i].name);
        same = *t->axis[i].name ? at >= 0 && want->axis[at].size == t->axis[i].size
                                : t->rank == want->rank;
    }
    if (!same)
        return bad(s, P_CELL,
                   dl_format(c->E->arena,
                             "the cell makes %s of a state that is %s: a state keeps its axes and "
                             "its type",
                             dl_type_text(t), dl_type_text(want)));
    if (k < 0 && (dl_type_axis(t, s->axis) >= 0 || t->rank == DL_MAX_RANK))
        return bad(s, P_CELL,
                   dl_format(c->E->arena, "the cell returns %s, which %s", dl_type_text(t),
                             t->rank == DL_MAX_RANK ? "has no room for the axis of the steps"
                                                    : "has the axis of the steps"));
    *to = k < 0 ? v : dl_tensor_ordered(c->E, c->where, v, want);
    return to->kind == DL_V_TENSOR;
}

/* The cell returns what is stacked, and then the next states; the next states alone stack the
 * first of them. */
static bool take_results(scan *s, dl_val v) {
    dl_call *c = s->c;
    const dl_val *items = v.kind == DL_V_LIST ? v.list->items.at : &v;
    const int n = v.kind == DL_V_LIST ? v.list->items.n : 1;
    if (v.kind == DL_V_POISON) return false;
    if (n < s->nh || n > MOST || !n)
        return bad(s, P_CELL,
                   dl_format(c->E->arena,
                             "the cell returns %d value%s for %d state%s: it returns what is "
                             "stacked, and then the next value of each state",
                             n, n == 1 ? "" : "s", s->nh, s->nh == 1 ? "" : "s"));
    for (int k = 0; k < s->nh; k++)
        if (!take_result(s, items[n - s->nh + k], k, &s->next[k])) return false;
    s->nout = n > s->nh ? n - s->nh : 1;
    for (int k = 0; k < s->nout; k++)
        if (!take_result(s, n > s->nh ? items[k] : s->next[0], -1, &s->out[k])) return false;
    return true;
}

static bool apply_cell(scan *s) {
    dl_call *c = s->c;
    if (c->arg[P_CELL].kind == DL_V_POISON) return false;
    if (c->arg[P_CELL].kind != DL_V_LAYER) {
        bad(s, P_CELL,
            dl_format(c->E->arena,
                      "'cell' must be a module or a layer that is not "
                      "applied yet, not %s",
                      dl_val_describe(c->E, c->arg[P_CELL])));
        dl_help(c->E, "write scan(Cell(5) @cell, x, h0, over=%s)", s->axis);
        return false;
    }
    if (!stand_in(s)) return false;
    dl_val v = c->apply(c->E, c->arg[P_CELL].layer, c->ast[P_CELL], s->nx + s->nh, s->in);
    return take_results(s, v);
}

/* ---- the body ---- */

static dl_var *add_var(scan *s, dl_var_role role, const char *name, dl_value *of, dl_value *operand,
                       dl_type type) {
    while (dl_graph_find_var(s->body, name)) name = dl_internf("%s'", name);
    dl_var *v = dl_graph_var(s->body, role, name, type, (dl_init){0}, s->c->E->b.loc);
    s->now[of->id] = &v->value;
    dl_push(s->c->E->arena, &s->operands, operand);
    return v;
}

/* The body's value of one of the graph around it, which is the same at each step. */
static dl_value *body_value(scan *s, dl_value *v) {
    if (!s->now[v->id])
        add_var(s, DL_VAR_PARAM, v->var ? v->var->name : dl_internf("value%u", v->id), v, v,
                v->type);
    return s->now[v->id];
}

/* A step cannot have ops that differ between training and evaluation: they draw random numbers, or
 * update variables of the model. Such ops have a rate, or say which of both it is. */
static bool check_ops(const scan *s) {
    dl_call *c = s->c;
    const dl_graph *g = c->E->b.graph;
    for (int i = s->begin; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        if (!dl_node_attr(n, DL_ATTR_rate) && !dl_node_attr(n, DL_ATTR_training)) continue;
        return bad(
            s, P_CELL,
            dl_format(c->E->arena,
                      "the cell has %s (line %d), which %s: apply it before or after the scan",
                      dl_ops[n->op].name, n->loc.line,
                      n->op == DL_OP_batch_norm
                          ? "updates its statistics once a step of training"
                          : "draws random numbers, and all steps would draw the same"));
    }
    return true;
}

/* Moves the cell's nodes into a body. */
static void make_body(scan *s) {
    dl_elab *E = s->c->E;
    dl_graph *g = E->b.graph, cell = *g;
    s->now = DL_NEWS(E->arena, dl_value *, g->next_id + 1);
    s->body = dl_body_new(g);
    for (int k = 0; k < s->nx; k++)
        add_var(s, DL_VAR_INPUT, dl_internf("x%d", k), s->in[k].t, s->stack[k].t, s->in[k].t->type);
    dl_var *states[MOST];
    for (int k = 0; k < s->nh; k++)
        states[k] = add_var(s, DL_VAR_STATE, dl_internf("h%d", k), s->in[s->nx + k].t,
                            s->start[k].t, s->in[s->nx + k].t->type);
    cell.nodes.at += s->begin, cell.nodes.n -= s->begin;
    bool *own = DL_NEWS(E->arena, bool, g->next_id + 1);
    for (int i = 0; i < cell.nodes.n; i++) {
        const dl_node *n = cell.nodes.at[i];
        for (int k = 0; k < n->nin; k++)
            if (!own[n->in[k]->id]) body_value(s, n->in[k]);
        for (int k = 0; k < n->nout; k++) own[n->out[k].id] = true;
    }
    dl_graph_copy_nodes(s->body, &cell, s->now);
    for (int k = 0; k < s->nout; k++)
        dl_graph_result(s->body, DL_RESULT_OUTPUT, dl_internf("y%d", k), body_value(s, s->out[k].t),
                        NULL);
    for (int k = 0; k < s->nh; k++)
        dl_graph_result(s->body, DL_RESULT_UPDATE, states[k]->name, body_value(s, s->next[k].t),
                        states[k]);
    g->nodes.n = s->first;
}

/* [y, ..., h, ...]: the stacked results with the steps' axis where the first scanned tensor has
 * it, and the last states. */
static dl_val finish(const scan *s) {
    dl_call *c = s->c;
    c->E->b.loc =
        dl_source_loc(c->E->source, c->where.begin); /* not that of the cell's last line */
    const dl_steps by = {s->axis, s->steps, c->arg[P_REVERSE].b, c->arg[P_RECOMPUTE].b};
    const dl_node *n = dl_build_scan(&c->E->b, s->body, s->operands.at, by);
    dl_val all = dl_val_new_list(c->E, c->where);
    for (int k = 0; k < n->nout; k++) {
        dl_val v = dl_val_tensor(&n->out[k], c->where);
        dl_type t = v.t->type;
        int at = s->at < t.rank - 1 ? s->at : t.rank - 1;
        dl_axis steps = t.axis[0];
        if (k < s->nout) {
            memmove(t.axis, t.axis + 1, sizeof *t.axis * (size_t)at);
            t.axis[at] = steps;
            v = dl_tensor_ordered(c->E, c->where, v, &t);
        }
        if (!dl_val_append(c->E, all, v, c->where)) return dl_poison();
    }
    return all;
}

dl_val dl_fn_scan(dl_call *c) {
    scan *s = DL_NEW(c->E->arena, scan);
    s->c = c;
    if (!take_inputs(s) || !apply_cell(s) || !check_ops(s)) return dl_poison();
    make_body(s);
    return finish(s);
}

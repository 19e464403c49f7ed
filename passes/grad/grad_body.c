/* The gradient of a scan (ir/body.h): a scan in the other direction. Its body computes the step
 * again, from what the forward scan read there and from the states before the step, of which the
 * forward scan then makes an output; and after it the gradient of the step. Contractions with long
 * sums, and templates, are not computed again: the forward scan makes an output of them, too,
 * unless it is to be recomputed. Its states are the gradients of the states, and the sums over the
 * steps of the gradients of what is the same at each. */
#include "ir/body.h"
#include "ir/relation.h"
#include "passes/grad/grad.h"

enum { LONG_SUM = 32 }; /* terms, from which on reading a sum is faster than computing it again */

typedef struct {
    dl_grad *g;     /* of the graph around the scan */
    dl_node *n;     /* the forward scan, */
    dl_graph *from; /* and its body */
    dl_builder b;   /* of the gradient's body */
    dl_value **now; /* by value id of `from`: the copy in the gradient's body */
    DL_ARRAY(dl_value *)
    in; /* by variable of the gradient's body: the operand; NULL: no result yet, but */
    DL_ARRAY(dl_value *) stored; /* a value of the forward step, or a state before it */
    DL_ARRAY(int) of; /* by result of the gradient's body: the operand whose gradient it is */
    dl_var **seeds;   /* by result of `from`: the variable of its gradient, or NULL */
    dl_grad step;     /* the gradients of a step */
} scan_grad;

static dl_var *add_var(scan_grad *s, dl_var_role role, const char *prefix, const char *name,
                       dl_type type, dl_value *operand, dl_value *stored) {
    dl_graph *body = s->b.graph;
    name = dl_internf("%s%s", prefix, name);
    while (dl_graph_find_var(body, name)) name = dl_internf("%s'", name);
    dl_push(s->g->arena, &s->in, operand);
    dl_push(s->g->arena, &s->stored, stored);
    return dl_graph_var(body, role, name, type, (dl_init){0}, s->b.loc);
}

static dl_value *zeros(dl_builder *b, dl_type type) {
    return dl_build_broadcast(b, dl_build_const(b, type.dtype, 0), type);
}

/* The forward step, in the gradient's body. */
static void copy_step(scan_grad *s) {
    s->now = DL_NEWS(s->g->arena, dl_value *, s->from->next_id + 1);
    for (int k = 0; k < s->from->vars.n; k++) {
        dl_var *v = s->from->vars.at[k];
        bool state = v->role == DL_VAR_STATE;
        s->now[v->value.id] =
            &add_var(s, state ? DL_VAR_INPUT : v->role, "", v->name, v->value.type,
                     state ? NULL : s->n->in[k], state ? &v->value : NULL)
                 ->value;
    }
    dl_graph_copy_nodes(s->b.graph, s->from, s->now);
}

/* Variables for the gradients of the step's results: of a state from the step after it, at the
 * last step from the scan's result. */
static void add_seeds(scan_grad *s) {
    s->seeds = DL_NEWS(s->g->arena, dl_var *, s->from->results.n);
    for (int k = 0; k < s->from->results.n; k++) {
        const dl_result *r = &s->from->results.at[k];
        const dl_value *y = &s->n->out[k];
        if (!dl_dtype_is_float(y->type.dtype)) continue;
        dl_value *dy = dl_grad_of(s->g, y);
        bool state = r->role == DL_RESULT_UPDATE;
        if (!dy && !state) continue;
        if (!dy) dy = zeros(s->g->b, y->type);
        s->seeds[k] = add_var(s, state ? DL_VAR_STATE : DL_VAR_INPUT, state ? "next." : "grad.",
                              r->name, r->value->type, dy, NULL);
    }
}

/* Is the gradient by this operand wanted? That of a state is, for the step before. */
static bool is_wanted(const scan_grad *s, int k) {
    const dl_var *v = s->from->vars.at[k];
    return dl_dtype_is_float(v->value.type.dtype) &&
           (v->role == DL_VAR_STATE || dl_grad_wanted(s->g, k));
}

/* Differentiates the step. False: reported. */
static bool walk_step(scan_grad *s) {
    const int forward = s->b.graph->nodes.n;
    bool *active = DL_NEWS(s->g->arena, bool, s->b.graph->next_id);
    for (int k = 0; k < s->from->vars.n; k++)
        active[s->now[s->from->vars.at[k]->value.id]->id] = is_wanted(s, k);
    s->g->walker->find_active(s->b.graph, active);
    s->step = s->g->walker->begin(&s->b, active, s->g->again, s->g->arena, s->g->err);
    for (int k = 0; k < s->from->results.n; k++)
        if (s->seeds[k])
            dl_grad_give_to(&s->step, s->now[s->from->results.at[k].value->id],
                            &s->seeds[k]->value);
    return s->g->walker->walk(&s->step, forward, NULL);
}

static void add_result(scan_grad *s, int operand, dl_result_role role, const char *name,
                       dl_value *v, dl_var *var) {
    dl_graph_result(s->b.graph, role, name, v, var);
    dl_push(s->g->arena, &s->of, operand);
}

/* Adds up the gradients of what is the same at each step, with 16 bits in f32. */
static void add_sum(scan_grad *s, int k, dl_value *dv) {
    dl_type type = dv->type;
    if (dl_dtype_is_half(type.dtype)) type.dtype = DL_F32;
    dl_var *sum = add_var(s, DL_VAR_STATE, "sum.", s->from->vars.at[k]->name, type,
                          zeros(s->g->b, type), NULL);
    dl_value *next = dl_build2(&s->b, DL_OP_add, &sum->value, dl_build_cast(&s->b, dv, type.dtype));
    add_result(s, k, DL_RESULT_UPDATE, sum->name, dl_build_broadcast(&s->b, next, type), sum);
}

static dl_var *seed_of(const scan_grad *s, const dl_var *state) {
    int k = 0;
    while (s->from->results.at[k].var != state) k++;
    return s->seeds[k];
}

static void add_results(scan_grad *s) {
    for (int k = 0; k < s->from->vars.n; k++) {
        const dl_var *v = s->from->vars.at[k];
        dl_value *dv = is_wanted(s, k) ? dl_grad_of(&s->step, s->now[v->value.id]) : NULL;
        if (v->role == DL_VAR_STATE && is_wanted(s, k)) {
            dl_var *seed = seed_of(s, v);
            if (!dv) dv = zeros(&s->b, v->value.type);
            add_result(s, k, DL_RESULT_UPDATE, seed->name, dv, seed);
        } else if (dv && v->role == DL_VAR_INPUT)
            add_result(s, k, DL_RESULT_OUTPUT, v->name, dv, NULL);
        else if (dv)
            add_sum(s, k, dv);
    }
}

/* The number of the forward scan's result that is this value of all steps; -1: there is none. */
static int find_output(const scan_grad *s, const dl_value *v) {
    for (int k = 0; k < s->from->results.n; k++)
        if (s->from->results.at[k].role == DL_RESULT_OUTPUT && s->from->results.at[k].value == v)
            return k;
    return -1;
}

static dl_value *output_of(scan_grad *s, dl_value *v) {
    const int k = find_output(s, v);
    const char *name = v->var ? dl_internf("before.%s", v->var->name) : dl_internf("of.%u", v->id);
    return k >= 0 ? &s->n->out[k] : dl_scan_add_output(s->g->b->graph, s->n, name, v);
}

static bool is_worth_storing(const dl_node *n) {
    if (n->out[0].type.rank == DL_MAX_RANK) return false; /* there is no axis for the steps */
    if (dl_ops[n->op].class == DL_CLASS_TEMPLATE) return true;
    if (dl_ops[n->op].class != DL_CLASS_CONTRACT) return false;
    const dl_relation r = dl_relation_of(n);
    return dl_relation_k_extent(&r) >= LONG_SUM;
}

/* Reads what is worth it of the forward step, the first nodes of the body, in place of computing it
 * again. What was stored before, for another gradient, counts once. */
static void read_stored(scan_grad *s) {
    int kept = 0;
    for (int k = 0; k < s->from->results.n; k++)
        kept += strncmp(s->from->results.at[k].name, "of.", 3) == 0;
    for (int i = 0; i < s->from->nodes.n; i++) {
        const dl_node *from = s->from->nodes.at[i];
        dl_node *n = s->b.graph->nodes.at[i];
        for (int k = 0; is_worth_storing(from) && k < n->nout; k++) {
            const bool made = find_output(s, &from->out[k]) >= 0;
            if (!made && kept == DL_SCAN_KEPT) return;
            kept += !made;
            dl_var *v = add_var(s, DL_VAR_INPUT, "", dl_internf("of.%u", from->out[k].id),
                                n->out[k].type, NULL, &from->out[k]);
            dl_replace_value(s->b.graph, &n->out[k], &v->value);
        }
    }
}

/* Drops dead code, and then the variables that nothing reads. */
static void sweep(scan_grad *s) {
    dl_graph *body = s->b.graph;
    dl_graph_sweep(body);
    const dl_uses *uses = dl_graph_uses(body, s->g->arena);
    int kept = 0;
    for (int k = 0; k < body->vars.n; k++) {
        dl_var *v = body->vars.at[k];
        bool read = uses[v->value.id].n || uses[v->value.id].results;
        if (!read && v->role != DL_VAR_STATE) continue;
        s->in.at[kept] = s->in.at[k] ? s->in.at[k] : output_of(s, s->stored.at[k]);
        body->vars.at[kept++] = v;
    }
    body->vars.n = kept;
}

void dl_grad_scan(dl_grad *g) {
    dl_node *n = g->b->graph->nodes.at[g->at];
    dl_steps steps = dl_steps_of(n);
    scan_grad s = {.g = g, .n = n, .from = n->body};
    s.b = (dl_builder){.graph = dl_body_new(g->b->graph), .loc = n->loc};
    copy_step(&s);
    add_seeds(&s);
    if (!walk_step(&s)) return;
    add_results(&s);
    if (!s.of.n) return;
    if (!steps.recompute) read_stored(&s);
    sweep(&s);
    steps.reverse = !steps.reverse;
    const dl_node *made = dl_build_scan(g->b, s.b.graph, s.in.at, steps);
    for (int k = 0; k < made->nout; k++) {
        const int operand = s.of.at[k];
        if (!dl_grad_wanted(g, operand)) continue;
        dl_grad_give(g, operand, dl_build_cast(g->b, &made->out[k], n->in[operand]->type.dtype));
    }
}

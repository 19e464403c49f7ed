/* Scans: the facts of bodies, and the shape rule. */
#include "ir/body.h"

#include <stdlib.h>

#include "ir/infer_rules.h"

dl_graph *dl_body_named(dl_module *m, const char *name) {
    dl_graph *body = DL_NEW(m->arena, dl_graph);
    body->module = m, body->is_body = true, body->name = dl_intern(name);
    /* Names that end with a later number are new. */
    const char *end = name + strlen(name), *digits = end;
    while (digits > name && end - digits < 6 && digits[-1] >= '0' && digits[-1] <= '9') digits--;
    int number = *digits ? atoi(digits) : -1;
    if (m->bodies <= number) m->bodies = number + 1;
    return body;
}

dl_graph *dl_body_new(dl_graph *around) {
    return dl_body_named(around->module,
                         dl_internf("%s_scan%d", around->name, around->module->bodies));
}

dl_type dl_body_slice(dl_type stack) {
    stack.rank--;
    memmove(stack.axis, stack.axis + 1, sizeof *stack.axis * (size_t)stack.rank);
    if (stack.layout.kind == DL_CL) stack.layout.steps--;
    return stack;
}

dl_type dl_body_stack(dl_type slice, const char *axis, int64_t steps) {
    dl_type stack = slice.layout.kind == DL_CL ? slice : dl_row_type(&slice);
    if (stack.layout.kind == DL_CL) stack.layout.steps++;
    memmove(stack.axis + 1, stack.axis, sizeof *stack.axis * (size_t)stack.rank);
    stack.axis[0] = (dl_axis){.name = axis, .size = steps};
    stack.rank++;
    return stack;
}

int dl_body_update(const dl_graph *body, const dl_var *state) {
    int k = 0;
    while (body->results.at[k].role != DL_RESULT_UPDATE || body->results.at[k].var != state) k++;
    return k;
}

dl_steps dl_steps_of(const dl_node *n) {
    const dl_attr *recompute = dl_node_attr(n, DL_ATTR_recompute);
    return (dl_steps){.axis = dl_node_name(n, DL_ATTR_axis),
                      .steps = dl_node_int(n, DL_ATTR_steps),
                      .reverse = dl_node_int(n, DL_ATTR_reverse) != 0,
                      .recompute = recompute && recompute->i};
}

dl_type dl_scan_result_type(const dl_node *n, int k) {
    const dl_result *r = &n->body->results.at[k];
    const dl_steps s = dl_steps_of(n);
    const dl_type own = r->value->type;
    return r->role == DL_RESULT_UPDATE ? own : dl_body_stack(own, s.axis, s.steps);
}

dl_layout dl_scan_layout(const dl_node *n, int k) {
    if (k >= n->nin) return dl_scan_result_type(n, k - n->nin).layout;
    const dl_var *v = n->body->vars.at[k];
    const dl_steps s = dl_steps_of(n);
    const dl_type own = v->value.type;
    return (v->role == DL_VAR_INPUT ? dl_body_stack(own, s.axis, s.steps) : own).layout;
}

int64_t dl_scan_stride(const dl_type *stack) {
    dl_type slice = dl_body_slice(*stack);
    return dl_type_bytes(&slice);
}

int dl_graph_kernels(const dl_graph *g) {
    int all = g->kernels.n;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->body) all += dl_graph_kernels(g->nodes.at[i]->body);
    return all;
}

/* Writes the kernels of a graph from `to` on; the end of what it wrote. */
static dl_kernel **put_kernels(const dl_graph *g, dl_kernel **to) {
    for (int i = 0; i < g->kernels.n; i++) *to++ = g->kernels.at[i];
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->body) to = put_kernels(g->nodes.at[i]->body, to);
    return to;
}

dl_kernel **dl_graph_kernel_list(const dl_graph *g, dl_arena *arena) {
    dl_kernel **all = DL_NEWS(arena, dl_kernel *, dl_graph_kernels(g) + 1);
    put_kernels(g, all);
    return all;
}

dl_kernel **dl_module_kernel_list(const dl_module *m, dl_arena *arena, int *n) {
    *n = 0;
    for (int g = 0; g < m->graphs.n; g++) *n += dl_graph_kernels(m->graphs.at[g]);
    dl_kernel **all = DL_NEWS(arena, dl_kernel *, *n + 1), **to = all;
    for (int g = 0; g < m->graphs.n; g++) to = put_kernels(m->graphs.at[g], to);
    return all;
}

/* ---- the shape rule ---- */

static bool fail_operand(const dl_node *n, int k, const dl_type *want, dl_shape_fault *fault) {
    return dl_fault(fault, k, "axis_mismatch", "%s expects $%s as %s, but it is %s", dl_op_text(n),
                    n->body->vars.at[k]->name, dl_type_text(want), dl_type_text(dl_operand(n, k)));
}

bool dl_rule_scan(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_graph *body = n->body;
    if (!body || !body->results.n)
        return dl_fault(fault, -1, "bad_attribute", "%s has no body with results", dl_op_text(n));
    if (n->nin != body->vars.n)
        return dl_fault(fault, -1, "wrong_arity",
                        "%s takes %d operands, one for each variable of "
                        "@%s, not %d",
                        dl_op_text(n), body->vars.n, body->name, n->nin);
    const dl_steps s = dl_steps_of(n);
    if (!dl_want_switch(n, DL_ATTR_reverse, fault) || !dl_want_switch(n, DL_ATTR_recompute, fault))
        return false;
    if (s.steps < 1)
        return dl_fault(fault, -1, "bad_attribute", "%s takes one step at least, not %lld",
                        dl_op_text(n), (long long)s.steps);
    for (int k = 0; k < n->nin; k++) {
        const dl_var *v = body->vars.at[k];
        dl_type want = v->value.type;
        if (v->role == DL_VAR_INPUT && want.rank == DL_MAX_RANK)
            return dl_fault(fault, k, "rank_mismatch", "%s has too many axes", dl_type_text(&want));
        if (v->role == DL_VAR_INPUT) want = dl_body_stack(want, s.axis, s.steps);
        if (!dl_type_same(&want, dl_operand(n, k))) return fail_operand(n, k, &want, fault);
    }
    for (int k = 0; k < body->results.n; k++)
        if (body->results.at[k].role == DL_RESULT_OUTPUT &&
            body->results.at[k].value->type.rank == DL_MAX_RANK)
            return dl_fault(fault, -1, "rank_mismatch",
                            "the values of all steps of '%s' have too "
                            "many axes",
                            body->results.at[k].name);
    for (int k = 0; k < n->nout; k++) {
        const dl_type want = dl_scan_result_type(n, k);
        if (!dl_type_same(&want, &n->out[k].type))
            return dl_fault(fault, -1, "axis_mismatch", "result %d of %s should be %s, not %s", k,
                            dl_op_text(n), dl_type_text(&want), dl_type_text(&n->out[k].type));
    }
    *r = dl_scan_result_type(n, 0);
    return true;
}

/* Makes and copies scans and their bodies. */
#include "ir/body.h"

dl_node *dl_build_scan(dl_builder *b, dl_graph *body, dl_value *const *in, dl_steps steps) {
    dl_arena *arena = b->graph->module->arena;
    dl_node key = {.op = DL_OP_scan, .body = body};
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, steps.axis),
                    dl_attr_int(DL_ATTR_reverse, steps.reverse),
                    dl_attr_int(DL_ATTR_steps, steps.steps), dl_attr_int(DL_ATTR_recompute, 1)};
    key.attrs = at, key.nattrs = 3 + steps.recompute;
    dl_type *types = DL_NEWS(arena, dl_type, body->results.n + 1);
    for (int k = 0; k < body->results.n; k++) types[k] = dl_scan_result_type(&key, k);
    dl_node *n =
        dl_node_append(b->graph, DL_OP_scan, body->vars.n, in, body->results.n, types, b->loc);
    n->body = body;
    for (int k = 0; k < key.nattrs; k++) dl_node_set(b->graph, n, at[k]);
    return n;
}

void dl_graph_copy_nodes(dl_graph *to, const dl_graph *from, dl_value **now) {
    for (int i = 0; i < from->nodes.n; i++) {
        const dl_node *n = from->nodes.at[i];
        dl_value **in = DL_NEWS(to->module->arena, dl_value *, n->nin + 1);
        dl_type *types = DL_NEWS(to->module->arena, dl_type, n->nout);
        for (int k = 0; k < n->nin; k++) in[k] = now[n->in[k]->id];
        for (int k = 0; k < n->nout; k++) types[k] = n->out[k].type;
        dl_node *made = dl_node_append(to, n->op, n->nin, in, n->nout, types, n->loc);
        for (int k = 0; k < n->nattrs; k++) dl_node_set(to, made, n->attrs[k]);
        if (n->body) made->body = dl_body_copy(to, n->body);
        for (int k = 0; k < n->nout; k++) now[n->out[k].id] = &made->out[k];
    }
}

dl_graph *dl_body_copy(dl_graph *around, const dl_graph *body) {
    dl_graph *copy = dl_body_new(around);
    dl_value **now = DL_NEWS(copy->module->arena, dl_value *, body->next_id + 1);
    for (int i = 0; i < body->vars.n; i++) {
        const dl_var *v = body->vars.at[i];
        now[v->value.id] =
            &dl_graph_var(copy, v->role, v->name, v->value.type, v->init, v->loc)->value;
    }
    dl_graph_copy_nodes(copy, body, now);
    for (int i = 0; i < body->results.n; i++) {
        const dl_result *r = &body->results.at[i];
        dl_graph_result(copy, r->role, r->name, now[r->value->id],
                        r->var ? now[r->var->value.id]->var : NULL);
    }
    return copy;
}

void dl_bodies_follow(dl_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        dl_graph *body = g->nodes.at[i]->body;
        if (!body) continue;
        body->name = dl_body_new(g)->name, body->module = g->module;
        dl_bodies_follow(body);
    }
}

dl_value *dl_scan_add_output(dl_graph *around, dl_node *n, const char *name, dl_value *v) {
    dl_graph_result(n->body, DL_RESULT_OUTPUT, name, v, NULL);
    dl_value *out = &n->out[n->nout];
    *out = (dl_value){.id = around->next_id++,
                      .def = n,
                      .index = n->nout,
                      .type = dl_scan_result_type(n, n->nout),
                      .offset = -1};
    n->nout++;
    return out;
}

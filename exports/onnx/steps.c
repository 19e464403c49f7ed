/* scan as ONNX's Scan: the body is a graph of its own, which reads weights, and what else is the
 * same at every step, from the graph around it. */
#include "exports/onnx/batch.h"
#include "exports/onnx/ops.h"
#include "ir/body.h"

/* Scan has states before slices, and states before the values of all steps. */
static int count_vars(const dl_graph *body, dl_var_role role) {
    int n = 0;
    for (int i = 0; i < body->vars.n; i++) n += body->vars.at[i]->role == role;
    return n;
}

/* Describes the body's variables of a role, each an input of it. */
static void add_inputs(dl_onnx *o, const dl_graph *body, dl_var_role role, dl_buf *graph) {
    for (int i = 0; i < body->vars.n; i++) {
        const dl_var *v = body->vars.at[i];
        if (v->role != role) continue;
        o->values[v->value.id].name = dl_onnx_fresh(o, v->name);
        dl_onnx_describe(graph, DL_GRAPH_INPUT, &o->values[v->value.id]);
    }
}

/* A scan without a tensor counts its steps. */
static void add_counter(dl_onnx *o, dl_buf *graph) {
    dl_onnx_value step = {.name = dl_onnx_fresh(o, "step"), .type = dl_scalar(DL_I64)};
    dl_onnx_describe(graph, DL_GRAPH_INPUT, &step);
}

static const char *counter(dl_onnx *o, int64_t steps) {
    int64_t *numbers = DL_NEWS(o->arena, int64_t, steps);
    for (int64_t i = 0; i < steps; i++) numbers[i] = i;
    return dl_onnx_ints(o, (int)steps, numbers);
}

/* An output has a node of its own: it may be a variable, or a value that is another one, too. */
static void add_output(dl_onnx *o, const dl_value *v, dl_buf *graph) {
    dl_onnx_value y = o->values[v->id];
    y.name = dl_onnx_add1(o, "Identity", y.name);
    dl_onnx_describe(graph, DL_GRAPH_OUTPUT, &y);
}

/* The results in Scan's order. Returns their number. */
static int order_results(const dl_graph *body, int *order) {
    int n = 0;
    for (int i = 0; i < body->vars.n; i++)
        if (body->vars.at[i]->role == DL_VAR_STATE)
            order[n++] = dl_body_update(body, body->vars.at[i]);
    for (int k = 0; k < body->results.n; k++)
        if (body->results.at[k].role == DL_RESULT_OUTPUT) order[n++] = k;
    return n;
}

/* Emits the body's nodes; `graph` gets the fields of its GraphProto. `around`: values of the graph
 * around it. */
static bool emit_body(dl_onnx *o, const dl_node *n, const dl_onnx_value *around, const int *order,
                      dl_buf *graph) {
    const dl_graph *body = n->body;
    for (int i = 0; i < body->vars.n; i++)
        o->values[body->vars.at[i]->value.id].name = around[n->in[i]->id].name;
    add_inputs(o, body, DL_VAR_STATE, graph);
    add_inputs(o, body, DL_VAR_INPUT, graph);
    if (!count_vars(body, DL_VAR_INPUT)) add_counter(o, graph);
    for (int i = 0; i < body->nodes.n; i++)
        if (!o->emit(o, body->nodes.at[i])) return false;
    o->node = n;
    for (int k = 0; k < body->results.n; k++)
        add_output(o, body->results.at[order[k]].value, graph);
    if (o->nodes.n) dl_putn(graph, o->nodes.at, o->nodes.n);
    if (o->infos.n) dl_putn(graph, o->infos.at, o->infos.n);
    dlr_pb_text(graph, DL_GRAPH_NAME, body->name);
    return true;
}

/* The same in a graph under construction of its own. */
static bool take_body(dl_onnx *o, const dl_node *n, const int *order, dl_buf *graph) {
    const dl_onnx around = *o;
    /* Its value is of the graph around the body, where all can read it. */
    if (o->sampled.name) dl_onnx_batch(o);
    const dl_buf nodes = o->nodes;
    o->nodes = o->infos = (dl_buf){0};
    dl_onnx_enter(o, around.sizes->bodies[n->out[0].id]);
    bool ok = emit_body(o, n, around.values, order, graph);
    dl_buf_free(&o->nodes), dl_buf_free(&o->infos);
    o->nodes = nodes, o->infos = around.infos;
    o->sizes = around.sizes, o->values = around.values;
    return ok;
}

bool dl_onnx_steps(dl_onnx *o, const dl_node *n, const char *word) {
    const dl_graph *body = n->body;
    const dl_steps s = dl_steps_of(n);
    const int slices = count_vars(body, DL_VAR_INPUT);
    int *order = DL_NEWS(o->arena, int, body->results.n), nin = 0;
    const char **in = DL_NEWS(o->arena, const char *, n->nin + 1),
               **made = DL_NEWS(o->arena, const char *, body->results.n);
    int64_t *ways = DL_NEWS(o->arena, int64_t, n->nin + body->results.n);
    dl_buf graph = {0}, attributes = {0};
    const int nout = order_results(body, order), states = count_vars(body, DL_VAR_STATE);
    if (!take_body(o, n, order, &graph)) {
        dl_buf_free(&graph);
        return false;
    }
    const dl_var_role roles[] = {DL_VAR_STATE, DL_VAR_INPUT};
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < n->nin; i++)
            if (body->vars.at[i]->role == roles[r]) in[nin++] = dl_onnx_in(o, n, i).name;
    if (!slices) in[nin++] = counter(o, s.steps);
    for (int i = 0; i < nin + nout; i++) ways[i] = s.reverse;
    dl_onnx_put_graph(&attributes, "body", &graph);
    dl_onnx_put_int(&attributes, "num_scan_inputs", nin - states);
    dl_onnx_put_ints(&attributes, "scan_input_directions", nin - states, ways);
    dl_onnx_put_ints(&attributes, "scan_output_directions", nout - states, ways);
    dl_onnx_add_all(o, word, nin, in, &attributes, nout, made);
    for (int k = 0; k < nout; k++) {
        dl_onnx_value *v = &o->values[n->out[order[k]].id];
        v->name = made[k];
        dl_onnx_describe(&o->infos, DL_GRAPH_INFO, v);
    }
    return true;
}

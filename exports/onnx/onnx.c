#include "exports/onnx/onnx.h"

#include "exports/onnx/batch.h"
#include "exports/onnx/ops.h"
#include "exports/onnx/save.h"
#include "exports/onnx/statistics.h"
#include "ir/walk.h"
#include "runtime/base/debug.h"

/* ---- variables ---- */

static bool add_table(dl_onnx *o, const dl_var *v) {
    const char *name = dl_onnx_doubles(o, v->value.type, v->numbers.at);
    o->values[v->value.id].name = name;
    return true;
}

/* A parameter or a buffer keeps its name; its elements are read when the file is written. */
static bool add_weight(dl_onnx *o, const dl_export *e, const dl_var *v) {
    const dlr_st_tensor *t = dlr_st_find(e->weights, v->name);
    if (!t)
        return dl_fail(o->err, DL_INPUT, "%s has no '%s' (%s)", e->weights->path, v->name,
                       dl_type_text(&v->value.type));
    bool fits = t->rank == v->value.type.rank;
    for (int i = 0; fits && i < t->rank; i++) fits = t->shape[i] == v->value.type.axis[i].size;
    bool is_float = dlr_st_is_float(t->dtype);
    if (!fits || is_float != dl_dtype_is_float(v->value.type.dtype))
        return dl_fail(o->err, DL_INPUT, "%s: '%s' is not %s, as in %s", e->weights->path, v->name,
                       dl_type_text(&v->value.type), e->name);
    o->values[v->value.id].name = v->name;
    dl_push(o->arena, &o->tensors,
            (dl_onnx_tensor){.name = v->name, .type = v->value.type, .stored = t});
    return true;
}

/* Raw numbers in: normalised where the run did so. */
static bool add_input(dl_onnx *o, const dl_export *e, const dl_var *v) {
    const dl_array_record *r = dl_data_record_find(&e->net->data, v->name);
    dl_onnx_value *value = &o->values[v->value.id], raw = dl_onnx_named(*value, v->name);
    raw.type.dtype = dl_onnx_raw_dtype(v->value.type.dtype, r);
    dl_onnx_describe(&o->inputs, DL_GRAPH_INPUT, &raw);
    for (int i = 0; i < raw.type.rank; i++)
        if (raw.per[i] == 1 && !o->sampled.name) o->sampled = raw;
    *value = dl_onnx_normalise(o, raw, r, v->value.type.dtype);
    return true;
}

static bool add_variable(dl_onnx *o, const dl_export *e, const dl_var *v) {
    switch (v->role) {
    case DL_VAR_INPUT: return add_input(o, e, v);
    case DL_VAR_TABLE: return add_table(o, v);
    case DL_VAR_PARAM:
    case DL_VAR_STATE: return add_weight(o, e, v);
    default:
        return dl_fail(o->err, DL_INPUT, "%s:%d:%d: error: ONNX has no variable like '%s'",
                       v->loc.file ? v->loc.file : "?", v->loc.line, v->loc.column, v->name);
    }
}

/* ---- the graph ---- */

/* The name of an output, which no variable may have in ONNX. */
static const char *output_name(const dl_onnx *o, const dl_graph *g, const char *name) {
    while (dl_graph_find_var(g, dl_intern(name))) name = dl_format(o->arena, "%s_out", name);
    return name;
}

static void add_output(dl_onnx *o, const dl_export *e, const dl_graph *g, int i) {
    dl_onnx_value y = dl_onnx_undo(o, o->values[g->results.at[i].value->id], e->output[i].undo);
    dl_buf b = {0};
    dlr_pb_text(&b, DL_NODE_INPUT, y.name);
    y.name = output_name(o, g, g->results.at[i].name);
    dlr_pb_text(&b, DL_NODE_OUTPUT, y.name);
    dlr_pb_text(&b, DL_NODE_NAME, dl_format(o->arena, "output/%s", y.name));
    dlr_pb_text(&b, DL_NODE_OP, "Identity");
    dlr_pb_message(&o->nodes, DL_GRAPH_NODE, &b);
    dl_onnx_describe(&o->outputs, DL_GRAPH_OUTPUT, &y);
}

static bool add_graph(dl_onnx *o, const dl_export *e, const dl_onnx_sizes *sizes) {
    const dl_graph *g = sizes->graph;
    const dl_uses *uses = dl_graph_uses(g, o->arena);
    dl_onnx_enter(o, sizes);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        bool read = uses[v->value.id].n || uses[v->value.id].results;
        if ((read || v->role == DL_VAR_INPUT) && !add_variable(o, e, v)) return false;
    }
    for (int i = 0; i < g->nodes.n; i++)
        if (!dl_onnx_emit(o, g->nodes.at[i])) return false;
    for (int i = 0; i < g->results.n; i++) add_output(o, e, g, i);
    return true;
}

static void free_model(dl_onnx *o) {
    dl_buf_free(&o->nodes), dl_buf_free(&o->infos);
    dl_buf_free(&o->inputs), dl_buf_free(&o->outputs);
}

static bool write_model(dl_onnx *o, const dl_export *e, const char *out, dl_error *err) {
    dl_onnx_saving s = {.name = e->name, .weights = e->weights, .most = DL_ONNX_MOST};
    if (dlr_debugs("onnx_data")) s.most = 0;
    return dl_onnx_save(o, &s, out, err);
}

/* Reports why the file takes one batch alone. */
static void warn_of_batch(const dl_export *e, const dl_onnx *o, const dl_onnx_sizes *sizes) {
    const dl_node *n = o->not_batch;
    const char *why = sizes->why ? sizes->why
                                 : dl_format(e->arena, "'%s' (%s:%d) depends on the batch's size",
                                             dl_ops[n->op].name, n->loc.file, n->loc.line);
    dl_console_warning(e->console,
                       dl_format(e->arena, "the ONNX file has a fixed batch, N=%lld: %s%s",
                                 (long long)e->net->session->batch, why,
                                 sizes->only ? "" : "; --local_batch_size sets it"));
}

/* A symbolic batch where there is one, else the session's. */
static bool write(const dl_export *e, const char *out, dl_error *err) {
    dl_onnx_sizes sizes;
    dl_onnx o = {.arena = e->arena, .emit = dl_onnx_emit, .err = err};
    dl_onnx_sizes_any(e, &sizes);
    bool ok = !sizes.why && add_graph(&o, e, &sizes);
    if (!ok && (sizes.why || o.not_batch)) {
        warn_of_batch(e, &o, &sizes);
        free_model(&o);
        o = (dl_onnx){.arena = e->arena, .emit = dl_onnx_emit, .err = err};
        ok = dl_onnx_sizes_fixed(e, &sizes, err) && add_graph(&o, e, &sizes);
    }
    ok = ok && write_model(&o, e, out, err);
    free_model(&o);
    return ok;
}

const dl_export_format dl_export_onnx = {
    .name = "onnx", .help = "one file of ONNX, opset 17, weights inside", .write = write};

/* align_scans: kernels take tensors that begin at whole cache lines (ir/plan/plan.h), and a step of
 * a scan reads and writes slices of tensors that have all steps. Where a slice does not fill its
 * last line, the tensor gets flat slices with room to the line's end, and the body reads and writes
 * their first elements. */
#include "ir/align.h"
#include "ir/body.h"
#include "ir/walk.h"
#include "passes/pass.h"

static int64_t padded(const dl_type *slice) {
    int64_t unit = DL_PLAN_ALIGN / dl_dtype_bytes(slice->dtype), count = dl_type_count(slice);
    return (count + unit - 1) / unit * unit;
}

/* A slice's elements in one axis. */
static dl_type flat_type(const dl_type *slice, const char *axis, int64_t size) {
    dl_type t = dl_scalar(slice->dtype);
    dl_type_push(&t, axis, size);
    return t;
}

static dl_value *reshaped(dl_builder *b, dl_value *v, dl_type type) {
    return dl_build_as(b, DL_OP_reshape, 1, &v, 0, NULL, type);
}
static dl_value *with_room(dl_builder *b, dl_value *v, const char *axis, int64_t size) {
    int64_t none = 0, room = size - v->type.axis[dl_type_axis(&v->type, axis)].size;
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, axis), dl_attr_ints(DL_ATTR_pad_lo, 1, &none),
                    dl_attr_ints(DL_ATTR_pad_hi, 1, &room)};
    return dl_build(b, DL_OP_pad, 1, &v, 3, at);
}

typedef struct {
    dl_builder around, in; /* the graph of the scan, and its body */
    dl_node *n;
    const char *flat; /* the axis of flat slices */
    dl_steps steps;
} aligner;

static void align_input(aligner *a, int k) {
    dl_var *v = a->n->body->vars.at[k];
    const dl_type slice = v->value.type;
    const int64_t count = dl_type_count(&slice), size = padded(&slice);
    dl_type flat = flat_type(&slice, a->flat, count);
    dl_value *stack =
        reshaped(&a->around, a->n->in[k], dl_body_stack(flat, a->steps.axis, a->steps.steps));
    a->n->in[k] = with_room(&a->around, stack, a->flat, size);
    v->value.type = flat_type(&slice, a->flat, size);
    const int before = a->in.graph->nodes.n;
    dl_value *own = dl_build_slice(&a->in, &v->value, a->flat, 0, count);
    dl_node *reads = a->in.graph->nodes.at[before];
    own = reshaped(&a->in, own, slice);
    dl_replace_value(a->in.graph, &v->value, own);
    reads->in[0] = &v->value;
}

static void align_output(aligner *a, int k) {
    dl_result *r = &a->n->body->results.at[k];
    const dl_type slice = r->value->type;
    const int64_t count = dl_type_count(&slice), size = padded(&slice);
    dl_value *out = &a->n->out[k];
    const dl_type stack = out->type;
    dl_value *flat = reshaped(&a->in, r->value, flat_type(&slice, a->flat, count));
    a->n->body->results.at[k].value = with_room(&a->in, flat, a->flat, size);
    out->type = dl_scan_result_type(a->n, k);
    const int before = a->around.graph->nodes.n;
    dl_value *read = dl_build_slice(&a->around, out, a->flat, 0, count);
    dl_node *reads = a->around.graph->nodes.at[before];
    read = reshaped(&a->around, read, stack);
    dl_replace_value(a->around.graph, out, read);
    reads->in[0] = out;
}

static bool is_apart(const dl_type *slice) {
    return dl_type_count(slice) % (DL_PLAN_ALIGN / dl_dtype_bytes(slice->dtype)) != 0;
}

static bool align_scan(dl_graph *g, dl_node *n) {
    aligner a = {.around = {.graph = g, .loc = n->loc},
                 .in = {.graph = n->body, .loc = n->loc},
                 .n = n,
                 .steps = dl_steps_of(n)};
    a.flat = dl_intern(a.steps.axis == dl_intern("slice") ? "slices" : "slice");
    bool any = false;
    for (int k = 0; k < n->nin; k++) {
        const dl_var *v = n->body->vars.at[k];
        if (v->role != DL_VAR_INPUT || !is_apart(&v->value.type)) continue;
        align_input(&a, k), any = true;
    }
    for (int k = 0; k < n->nout; k++) {
        const dl_result *r = &n->body->results.at[k];
        if (r->role != DL_RESULT_OUTPUT || !is_apart(&r->value->type)) continue;
        align_output(&a, k), any = true;
    }
    DL_CHECK(!any || dl_graph_sort(n->body));
    return any;
}

bool dl_pass_align_scans(dl_graph *g, dl_pass_ctx *ctx) {
    dl_node **scans = DL_NEWS(ctx->arena, dl_node *, g->nodes.n + 1);
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->body) scans[n++] = g->nodes.at[i];
    bool any = false;
    for (int i = 0; i < n; i++) any |= align_scan(g, scans[i]);
    DL_CHECK(!any || dl_graph_sort(g));
    return any;
}

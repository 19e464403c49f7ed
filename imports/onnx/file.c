/* The file: it is read, its nodes are translated, and those that no output needs are left out. */
#include <unistd.h>

#include "imports/onnx/parts.h"
#include "ir/base/input.h"

enum { FILE_BYTES = 0x7fffffff };

/* Outputs of the graph that are tensors of it, and nodes that they need. */
static bool end_graph(dl_ox *r) {
    for (int i = 0; i < r->outputs.n; i++) {
        dl_ox_value *v = r->outputs.at[i];
        r->place = dl_format(r->arena, "output '%.100s'", v->name);
        if (!v->t) return dl_ox_bad(r, "no node computes it");
        if (v->t->id < 0) return dl_ox_bad(r, "it does not depend on the inputs");
        dl_push(r->arena, &r->graph.outputs, v->t);
    }
    bool *needed = DL_NEWS(r->arena, bool, r->graph.tensors.n + 1);
    int left = r->graph.nodes.n;
    for (int i = 0; i < r->graph.outputs.n; i++) needed[r->graph.outputs.at[i]->id] = true;
    for (int i = r->graph.nodes.n - 1; i >= 0; i--) {
        dl_foreign_node n = r->graph.nodes.at[i];
        bool used = false;
        for (int k = 0; k < n.n_results; k++) used = used || needed[n.results[k]->id];
        if (!used) continue;
        for (int a = 0; a < n.n_args; a++)
            for (int k = 0; k < n.args[a].n; k++)
                if ((n.args[a].kind == DL_ARG_TENSOR || n.args[a].kind == DL_ARG_TENSORS) &&
                    n.args[a].tensors[k])
                    needed[n.args[a].tensors[k]->id] = true;
        r->graph.nodes.at[--left] = n;
    }
    r->graph.nodes.n -= left;
    if (left) /* the last ones are kept */
        memmove(r->graph.nodes.at, r->graph.nodes.at + left,
                (size_t)r->graph.nodes.n * sizeof *r->graph.nodes.at);
    return true;
}

static bool translate(dl_ox *r) {
    for (int i = 0; i < r->inputs.n; i++) {
        dl_foreign_tensor *t = r->inputs.at[i]->t;
        t->id = r->graph.tensors.n;
        dl_push(r->arena, &r->graph.tensors, t);
        dl_push(r->arena, &r->graph.inputs, t);
    }
    dl_ox_fill_scopes(r);
    dl_ox_fuse(r);
    for (int i = 0; i < r->nodes.n; i++) {
        const dl_ox_node *n = &r->nodes.at[i];
        r->place = dl_format(r->arena, "node %d, '%.80s' (%.40s)", i, n->name, n->op);
        if (!n->gone && !dl_ox_translate(r, n)) return false;
    }
    return end_graph(r);
}

dl_onnx_file *dl_onnx_open(dl_arena *arena, const char *path, const char *sizes, dl_error *err) {
    dl_ox *r = DL_NEW(arena, dl_ox);
    size_t n;
    *r = (dl_ox){.arena = arena, .path = path, .sizes = sizes, .err = err, .place = "the file"};
    r->graph =
        (dl_foreign_graph){.arena = arena, .path = path, .read = dl_ox_read_external, .context = r};
    const char *bytes = dl_read_input(arena, path, FILE_BYTES, &n, err);
    if (!bytes) return NULL;
    const unsigned char *at = (const unsigned char *)bytes;
    if (dl_ox_read(r, (dlr_pb_view){at, at + n}) && translate(r) && !err->code) return r;
    return dl_onnx_close(r), NULL;
}

const dl_foreign_graph *dl_onnx_graph(const dl_onnx_file *r) { return &r->graph; }

void dl_onnx_close(dl_onnx_file *r) {
    for (int i = 0; r && i < r->externals.n; i++) close(r->externals.at[i].fd);
    if (r) r->externals.n = 0;
}

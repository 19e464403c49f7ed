/* The messages: stored tensors, inputs, nodes and outputs. */
#include "imports/onnx/parts.h"
#include "runtime/formats/onnx_fields.h"

static bool is_whole(const dl_ox *r, dlr_pb_view rest) {
    return rest.at == rest.end || dl_ox_bad(r, "its message breaks off");
}

/* ---- attributes ---- */

static double from_float(const unsigned char *at) {
    float v;
    memcpy(&v, at, sizeof v);
    return dl_ox_shortest(v);
}

static bool read_attribute(dl_ox *r, dlr_pb_view m, dl_ox_attr *a) {
    DL_ARRAY(int64_t) ints = {0};
    DL_ARRAY(double) reals = {0};
    DL_ARRAY(const char *) texts = {0};
    dlr_pb_field f;
    a->name = "";
    while (dlr_pb_next(&m, &f)) {
        uint64_t v = f.number;
        size_t n = (size_t)(f.bytes.end - f.bytes.at);
        switch (f.field) {
        case DL_ATTRIBUTE_NAME: a->name = dl_ox_text(r, f.bytes); break;
        case DL_ATTRIBUTE_TEXT: a->text = dl_ox_text(r, f.bytes); break;
        case DL_ATTRIBUTE_TEXTS: dl_push(r->arena, &texts, dl_ox_text(r, f.bytes)); break;
        case DL_ATTRIBUTE_INT: a->whole = (int64_t)v, a->has_int = true; break;
        case DL_ATTRIBUTE_FLOAT:
            if (n == 4) a->real = from_float(f.bytes.at);
            break;
        case DL_ATTRIBUTE_FLOATS:
            for (; n >= 4; n -= 4, f.bytes.at += 4)
                dl_push(r->arena, &reals, from_float(f.bytes.at));
            break;
        case DL_ATTRIBUTE_INTS:
            if (!f.bytes.at) dl_push(r->arena, &ints, (int64_t)v);
            while (dlr_pb_next_number(&f.bytes, &v)) dl_push(r->arena, &ints, (int64_t)v);
            break;
        case DL_ATTRIBUTE_TENSOR:
            a->tensor = DL_NEW(r->arena, dl_ox_value);
            *a->tensor = (dl_ox_value){.name = "/constant", .by = -1};
            if (!dl_ox_read_tensor(r, f.bytes, a->tensor)) return false;
            break;
        default: break;
        }
    }
    a->ints = ints.at, a->n_ints = ints.n, a->reals = reals.at, a->n_reals = reals.n;
    a->texts = texts.at, a->n_texts = texts.n;
    return is_whole(r, m);
}

/* ---- nodes ---- */

static bool hold_constant(dl_ox *r, const dl_ox_node *n) {
    dl_ox_value *v = n->out[0];
    const dl_ox_attr *tensor = dl_ox_attribute(n, "value");
    if (tensor && tensor->tensor) {
        dl_foreign_tensor *t = tensor->tensor->t;
        t->name = t->path = v->name;
        v->t = t, v->stored = true;
        return true;
    }
    static const char *const words[] = {"value_float", "value_floats", "value_int", "value_ints"};
    for (int i = 0; i < 4; i++) {
        const dl_ox_attr *a = dl_ox_attribute(n, words[i]);
        if (!a) continue;
        bool real = i < 2, list = i % 2;
        int count = list ? (real ? a->n_reals : a->n_ints) : 1;
        double *numbers = DL_NEWS(r->arena, double, count + 1);
        for (int k = 0; k < count; k++)
            numbers[k] =
                real ? (list ? a->reals[k] : a->real) : (double)(list ? a->ints[k] : a->whole);
        dl_ox_shape s = {.rank = list, .size = {count}};
        dl_ox_hold(r, v, &s, real ? DL_FOREIGN_FLOAT : DL_FOREIGN_INT,
                   real ? DLR_ST_F32 : DLR_ST_I64, numbers);
        return true;
    }
    return dl_ox_bad(r, "it has no numbers");
}

static bool read_node(dl_ox *r, dlr_pb_view m) {
    dl_ox_node n = {.op = "", .name = "", .function = NULL};
    DL_ARRAY(dl_ox_value *) in = {0};
    DL_ARRAY(dl_ox_value *) out = {0};
    DL_ARRAY(dl_ox_attr) attrs = {0};
    dlr_pb_view rest = m;
    dlr_pb_field f;
    const char *domain = "";
    int index = r->nodes.n;
    r->place = dl_format(r->arena, "node %d", index);
    while (dlr_pb_next(&rest, &f)) {
        const char *text = f.field < DL_NODE_ATTRIBUTE || f.field == DL_NODE_DOMAIN
                               ? dl_ox_text(r, f.bytes)
                               : NULL;
        if (f.field == DL_NODE_INPUT)
            dl_push(r->arena, &in, *text ? dl_ox_find(r, text) : NULL);
        else if (f.field == DL_NODE_OUTPUT)
            dl_push(r->arena, &out, *text ? dl_ox_find(r, text) : NULL);
        else if (f.field == DL_NODE_NAME)
            n.name = text;
        else if (f.field == DL_NODE_OP)
            n.op = text;
        else if (f.field == DL_NODE_DOMAIN)
            domain = text;
    }
    r->place = dl_format(r->arena, "node %d, '%.80s' (%.40s)", index, n.name, n.op);
    if (!is_whole(r, rest)) return false;
    for (rest = m; dlr_pb_next(&rest, &f);) {
        if (f.field != DL_NODE_ATTRIBUTE) continue;
        dl_ox_attr a = {0};
        if (!read_attribute(r, f.bytes, &a)) return false;
        dl_push(r->arena, &attrs, a);
    }
    if (*domain && strcmp(domain, "ai.onnx") != 0)
        n.op = dl_format(r->arena, "%s.%s", domain, n.op);
    n.in = in.at, n.n_in = in.n, n.out = out.at, n.n_out = out.n;
    n.attrs = attrs.at, n.n_attrs = attrs.n;
    if (!n.n_out) return dl_ox_bad(r, "it has no result");
    for (int i = 0; i < n.n_in; i++)
        if (n.in[i]) n.in[i]->reads++;
    for (int i = 0; i < n.n_out; i++) {
        if (!n.out[i]) continue;
        if (n.out[i]->by >= 0 || n.out[i]->t)
            return dl_ox_bad(r, "'%.200s' is computed twice", n.out[i]->name);
        n.out[i]->by = index;
    }
    dl_ox_read_scope(r, &n, m);
    if (!strcmp(n.op, "Constant")) {
        if (!n.out[0] || !hold_constant(r, &n)) return dl_ox_bad(r, "it is no constant");
        n.gone = true;
    }
    dl_push(r->arena, &r->nodes, n);
    return true;
}

/* ---- inputs and outputs ---- */

/* The size that the user gives for a name, by "height=224,width=224". */
static bool given_size(dl_ox *r, const char *name, int64_t *size) {
    size_t n = strlen(name);
    for (const char *at = r->sizes; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (n && strncmp(at, name, n) == 0 && at[n] == '=')
            return dl_parse_int(dl_strndup(r->arena, at + n + 1, strcspn(at + n + 1, ",")), size) &&
                   *size > 0;
    return false;
}

static bool read_input(dl_ox *r, dlr_pb_view info) {
    dlr_pb_field f;
    const char *names[DL_FOREIGN_RANK] = {0};
    const char *name = dlr_pb_find(info, DL_INFO_NAME, &f) ? dl_ox_text(r, f.bytes) : "";
    r->place = dl_format(r->arena, "input '%.100s'", name);
    dl_ox_value *v = dl_ox_find(r, name);
    if (v->stored) return true; /* older files list stored tensors here, too */
    if (v->t) return dl_ox_bad(r, "it is there twice");
    dl_foreign_tensor *t = DL_NEW(r->arena, dl_foreign_tensor);
    *t = (dl_foreign_tensor){.id = -1, .name = v->name, .path = v->name};
    t->origin = DL_FOREIGN_INPUT;
    if (!dl_ox_read_info(r, info, t, names)) return dl_ox_bad(r, "its shape is not known");
    bool first = r->inputs.n == 0;
    for (int d = 0; d < t->rank; d++) {
        if (t->open[d] && given_size(r, names[d], &t->shape[d])) t->open[d] = false;
        if (d == 0) {
            bool batch = t->open[0] || (!first && r->baked > 0 && t->shape[0] == r->baked);
            if (first) {
                r->baked = t->open[0] ? 0 : t->shape[0];
                if (!t->open[0] && t->shape[0] < 1) return dl_ox_bad(r, "its batch is empty");
            }
            t->open[0] = first || batch;
            if (t->open[0]) t->shape[0] = DL_OX_BATCH;
        } else if (t->open[d])
            return dl_ox_bad(r,
                             "the file leaves axis %d open ('%.40s'): give its size, --sizes=%s=64",
                             d, names[d], *names[d] ? names[d] : "NAME");
    }
    if (first && t->rank == 0) return dl_ox_bad(r, "it has no axis for the batch");
    v->t = t;
    dl_push(r->arena, &r->inputs, v);
    return dl_ox_check_shape(r, t);
}

static bool read_graph(dl_ox *r, dlr_pb_view graph) {
    dlr_pb_view at;
    dlr_pb_field f, part;
    r->place = "the graph";
    for (at = graph; dlr_pb_next(&at, &f);) { /* what later ones refer to comes first */
        if (f.field == DL_GRAPH_METADATA && dlr_pb_find(f.bytes, DL_ENTRY_VALUE, &part)) {
            const char *text = dl_ox_text(r, part.bytes);
            if (dlr_pb_find(f.bytes, DL_ENTRY_KEY, &part) &&
                !strcmp(dl_ox_text(r, part.bytes),
                        "pkg.torch.export.ExportedProgram.graph_signature"))
                dl_ox_read_signature(r, text);
        }
        if (f.field != DL_GRAPH_INITIALIZER) continue;
        const char *name =
            dlr_pb_find(f.bytes, DL_TENSOR_NAME, &part) ? dl_ox_text(r, part.bytes) : "";
        r->place = dl_format(r->arena, "tensor '%.100s'", name);
        if (!dl_ox_read_tensor(r, f.bytes, dl_ox_find(r, name))) return false;
        dl_ox_note_modules(r, name);
    }
    if (!is_whole(r, at)) return false;
    for (at = graph; dlr_pb_next(&at, &f);)
        if (f.field == DL_GRAPH_INPUT && !read_input(r, f.bytes)) return false;
    for (at = graph; dlr_pb_next(&at, &f);)
        if (f.field == DL_GRAPH_NODE && !read_node(r, f.bytes)) return false;
    for (at = graph; dlr_pb_next(&at, &f);) {
        if (f.field != DL_GRAPH_OUTPUT && f.field != DL_GRAPH_INFO) continue;
        const char *name =
            dlr_pb_find(f.bytes, DL_INFO_NAME, &part) ? dl_ox_text(r, part.bytes) : "";
        dl_ox_value *v = dl_ox_find(r, name);
        v->info = f.bytes;
        if (f.field == DL_GRAPH_INFO) continue;
        v->reads++;
        dl_push(r->arena, &r->outputs, v);
    }
    return true;
}

bool dl_ox_read(dl_ox *r, dlr_pb_view model) {
    dlr_pb_view at = model, graph = {0};
    dlr_pb_field f, part;
    int64_t opset = 0;
    r->place = "the file";
    while (dlr_pb_next(&at, &f)) {
        if (f.field == DL_MODEL_GRAPH) graph = f.bytes;
        if (f.field != DL_MODEL_OPSET) continue;
        const char *domain =
            dlr_pb_find(f.bytes, DL_OPSET_DOMAIN, &part) ? dl_ox_text(r, part.bytes) : "";
        if ((!*domain || !strcmp(domain, "ai.onnx")) &&
            dlr_pb_find(f.bytes, DL_OPSET_VERSION, &part))
            opset = (int64_t)part.number;
    }
    if (at.at != at.end || !graph.at)
        return dl_ox_bad(r, "it is no ONNX model, or it breaks off at byte %lld",
                         (long long)(at.at - model.at));
    r->opset = opset;
    if (opset < DL_OX_OLDEST)
        return dl_ox_bad(r, "it is of opset %lld; %d and newer are read", (long long)opset,
                         DL_OX_OLDEST);
    return read_graph(r, graph);
}

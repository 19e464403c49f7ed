/* Nodes of PyTorch's ops, and the tensors that they read. */
#include <ctype.h>

#include "imports/onnx/parts.h"

/* ---- tensors of the graph ---- */

static void enter(dl_ox *r, dl_foreign_tensor *t) {
    t->id = r->graph.tensors.n;
    dl_push(r->arena, &r->graph.tensors, t);
}

static bool is_taken(const dl_ox *r, const char *path) {
    for (int i = 0; i < r->graph.tensors.n; i++) {
        const dl_foreign_tensor *t = r->graph.tensors.at[i];
        if (t->origin != DL_FOREIGN_RESULT && t->origin != DL_FOREIGN_INPUT &&
            strcmp(t->path, path) == 0)
            return true;
    }
    return false;
}

/* "blocks.0.attn" and a role in it, with a number where that is taken. */
static const char *path_in(const dl_ox_op *o, const char *role) {
    const dl_ox_node *n = o->n;
    const char *module = n->depth ? n->stack[n->depth - 1].path : "";
    const char *path = dl_format(o->r->arena, "%s%s%s", module, *module ? "." : "", role);
    for (int k = 2; is_taken(o->r, path); k++)
        path = dl_format(o->r->arena, "%s%s%s_%d", module, *module ? "." : "", role, k);
    return path;
}

/* A name without what no label holds. */
static const char *plain(dl_ox *r, const char *name) {
    char *copy = dl_strdup(r->arena, *name ? name : "tensor");
    for (char *p = copy; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '.') *p = '_';
    return copy;
}

/* Numbers as bytes of the tensor's type, for the weights file. */
static void hold_bytes(dl_ox *r, dl_foreign_tensor *t, const double *known) {
    int64_t count = dl_foreign_count(t);
    t->dtype = t->class == DL_FOREIGN_FLOAT ? DLR_ST_F32
               : t->class == DL_FOREIGN_INT ? DLR_ST_I64
                                            : DLR_ST_BOOL;
    size_t size = dlr_st_dtype_size(t->dtype);
    char *to = dl_alloc(r->arena, (size_t)count * size + 1);
    for (int64_t i = 0; i < count; i++) {
        float real = (float)known[i];
        int64_t whole = dl_ox_whole(known[i]);
        bool yes = known[i] != 0;
        const void *from = t->class == DL_FOREIGN_FLOAT ? (const void *)&real
                           : t->class == DL_FOREIGN_INT ? (const void *)&whole
                                                        : (const void *)&yes;
        memcpy(to + (size_t)i * size, from, size);
    }
    dl_foreign_data *data = DL_NEW(r->arena, dl_foreign_data);
    *data = (dl_foreign_data){.held = to, .bytes = count * (int64_t)size};
    dl_foreign_set_strides(t, data);
    t->data = data;
}

static void push_node(dl_ox_op *o, const char *op, const dl_foreign_tensor **results, int n) {
    dl_foreign_node made = {.op = op,
                            .name = o->n->name,
                            .n_args = o->r->args.n,
                            .args = o->r->args.at,
                            .n_results = n,
                            .results = results,
                            .depth = o->n->depth,
                            .stack = o->n->stack,
                            .function = o->n->function,
                            .line = o->n->line};
    dl_push(o->r->arena, &o->r->graph.nodes, made);
    memset(&o->r->args, 0, sizeof o->r->args);
}

/* Equal numbers, and numbers that count, are said in words: aten.full, aten.arange. */
static bool make_counted(dl_ox_op *o, dl_foreign_tensor *t, const double *known) {
    int64_t n = dl_foreign_count(t);
    bool equal = true, counts = t->rank == 1 && t->class == DL_FOREIGN_INT && n > 1;
    for (int64_t i = 1; i < n; i++) {
        equal = equal && known[i] == known[0];
        counts = counts && known[i] == known[0] + (double)i * (known[1] - known[0]);
    }
    if (n < 2 || (!equal && !counts)) return false;
    DL_ARRAY(dl_foreign_arg) kept = {0};
    memcpy(&kept, &o->r->args, sizeof kept);
    memset(&o->r->args, 0, sizeof o->r->args);
    if (equal)
        dl_ox_arg_real(o, "fill_value", known[0]);
    else
        dl_ox_arg_real(o, "start", known[0]), dl_ox_arg_real(o, "step", known[1] - known[0]);
    const dl_foreign_tensor **result = DL_NEW(o->r->arena, const dl_foreign_tensor *);
    *result = t, t->origin = DL_FOREIGN_RESULT;
    enter(o->r, t);
    push_node(o, equal ? "aten.full.default" : "aten.arange.start_step", result, 1);
    memcpy(&o->r->args, &kept, sizeof kept);
    return true;
}

/* Exporters merge tensors of equal numbers, such as the weights of new norms. The signature still
 * lists the name that v had in the node's module: it becomes a tensor of that name again. */
static dl_ox_value *unmerged(const dl_ox_op *o, dl_ox_value *v) {
    dl_ox *r = o->r;
    if (!r->has_signature || v->reads < 2 || !v->stored || !dl_ox_is_name(r, v)) return v;
    const char *dot = strrchr(v->name, '.'), *last = dot ? dot + 1 : v->name;
    for (int d = o->n->depth; d >= 0; d--) {
        const char *module = d ? o->n->stack[d - 1].path : "";
        dl_ox_value *w =
            dl_ox_find(r, dl_format(r->arena, "%s%s%s", module, *module ? "." : "", last));
        if (w == v) return v;
        if (!w->trained && !w->buffer) continue;
        if (w->t) return v; /* it is there: v is another one's on purpose */
        dl_foreign_tensor *t = DL_NEW(r->arena, dl_foreign_tensor);
        *t = *v->t;
        t->id = -1, t->name = t->path = w->name, t->origin = DL_FOREIGN_CONSTANT;
        w->t = t, w->stored = true;
        return w;
    }
    return v;
}

/* The tensor of v in the graph: a stored one becomes a parameter, a buffer or a constant now. */
static const dl_foreign_tensor *use(dl_ox_op *o, dl_ox_value *v) {
    dl_ox *r = o->r;
    v = unmerged(o, v);
    dl_foreign_tensor *t = v->repeated ? v->repeated->t : v->t;
    if (t->id >= 0) return t;
    bool named = v->stored && dl_ox_is_name(r, v);
    if (v->other) {
        dl_ox_bad(r, "'%.200s' holds numbers that depend on the batch's size", v->name);
        return t;
    }
    if (named && !is_taken(r, v->name)) {
        bool trained = t->class == DL_FOREIGN_FLOAT && !v->buffer;
        t->origin = trained ? DL_FOREIGN_PARAMETER : DL_FOREIGN_BUFFER, t->path = v->name;
        enter(r, t);
        return t;
    }
    const double *known = dl_ox_known(r, v);
    if (known && make_counted(o, t, known)) return t;
    if (!t->data && known) hold_bytes(r, t, known);
    t->origin = DL_FOREIGN_CONSTANT, t->path = path_in(o, "constant");
    enter(r, t);
    return t;
}

/* A layer's parameter is called LABEL.role: one that the file calls otherwise gets the node's
 * label, unless other nodes read it. */
static const char *path_of_role(dl_ox_op *o, const dl_ox_value *v, const char *role) {
    const char *end = dl_format(o->r->arena, ".%s", role);
    if (dl_ends_with(v->name, end) || v->reads > 1) return v->name;
    if (!o->label) o->label = dl_ox_fresh_label(o, role);
    return dl_format(o->r->arena, "%s%s", o->label, end);
}

dl_ox_value *dl_ox_weight(dl_ox_op *o, dl_ox_value *v, const char *role, const dl_ox_shape *s,
                          const int64_t *stride) {
    dl_ox *r = o->r;
    if (!v || !v->stored || v->t->class != DL_FOREIGN_FLOAT) return v;
    v = unmerged(o, v);
    const dl_ox_node *n = o->n;
    const char *module = n->depth ? n->stack[n->depth - 1].path : NULL, *path = v->name;
    bool named = dl_ox_is_name(r, v);
    if (named) path = path_of_role(o, v, role);
    if (named && !s && path == v->name) {
        use(o, v);
        return v;
    }
    /* another call of the module; or of a copy of it, as matrices are never equal by chance */
    bool matrix = v->t->rank > 1 && dl_foreign_count(v->t) != v->t->shape[0];
    if (v->weight && (v->module == module || matrix)) return v->weight;
    if (!named)
        path = module ? path_in(o, role)
                      : path_in(o, dl_format(r->arena, "%s.%s", plain(r, v->name), role));
    dl_ox_value *made = DL_NEW(r->arena, dl_ox_value);
    dl_foreign_tensor *t = DL_NEW(r->arena, dl_foreign_tensor);
    *made = *v, *t = *v->t;
    made->t = t, t->path = path, t->id = -1, t->origin = DL_FOREIGN_PARAMETER;
    if (strncmp(role, "running_", 8) == 0) t->origin = DL_FOREIGN_BUFFER;
    if (s) {
        dl_foreign_data *data = DL_NEW(r->arena, dl_foreign_data);
        *data = *v->t->data;
        t->rank = s->rank, memcpy(t->shape, s->size, sizeof t->shape);
        memcpy(data->stride, stride, sizeof data->stride);
        t->data = data;
    }
    enter(r, t);
    v->weight = made, v->module = module;
    return made;
}

dl_ox_value *dl_ox_parameter(dl_ox *r, const char *path, const dl_ox_shape *s,
                             const float *numbers) {
    dl_ox_value *v = DL_NEW(r->arena, dl_ox_value);
    dl_foreign_tensor *t = DL_NEW(r->arena, dl_foreign_tensor);
    dl_foreign_data *data = DL_NEW(r->arena, dl_foreign_data);
    *t = (dl_foreign_tensor){.name = path, .path = path, .class = DL_FOREIGN_FLOAT};
    t->origin = DL_FOREIGN_PARAMETER, t->dtype = DLR_ST_F32, t->rank = s->rank;
    memcpy(t->shape, s->size, sizeof t->shape);
    *data = (dl_foreign_data){.held = numbers, .bytes = dl_ox_count(s) * (int64_t)sizeof *numbers};
    dl_foreign_set_strides(t, data);
    t->data = data;
    *v = (dl_ox_value){.name = path, .t = t, .stored = true, .by = -1};
    enter(r, t);
    return v;
}

const char *dl_ox_fresh_label(const dl_ox_op *o, const char *role) {
    const dl_ox_node *n = o->n;
    const char *base = n->depth ? n->stack[n->depth - 1].path : "", *label;
    if (!*base) base = plain(o->r, *n->name ? n->name : n->op);
    label = base;
    for (int k = 2; is_taken(o->r, dl_format(o->r->arena, "%s.%s", label, role)); k++)
        label = dl_format(o->r->arena, "%s.%d", base, k);
    return label;
}

/* ---- arguments ---- */

static dl_foreign_arg *push_arg(dl_ox_op *o, const char *name, dl_foreign_arg_kind kind, int n) {
    dl_push(o->r->arena, &o->r->args, (dl_foreign_arg){.name = name, .kind = kind, .n = n});
    return &o->r->args.at[o->r->args.n - 1];
}

void dl_ox_arg_tensors(dl_ox_op *o, const char *name, int n, dl_ox_value *const *v) {
    const dl_foreign_tensor **list = DL_NEWS(o->r->arena, const dl_foreign_tensor *, n + 1);
    for (int i = 0; i < n; i++) list[i] = v[i] ? use(o, v[i]) : NULL;
    push_arg(o, name, DL_ARG_TENSORS, n)->tensors = list;
}

void dl_ox_arg_tensor(dl_ox_op *o, const char *name, dl_ox_value *v) {
    if (!v) return;
    dl_ox_arg_tensors(o, name, 1, &v);
    o->r->args.at[o->r->args.n - 1].kind = DL_ARG_TENSOR;
}

void dl_ox_arg_operand(dl_ox_op *o, const char *name, dl_ox_value *v) {
    double number;
    if (!dl_ox_number(o->r, v, &number))
        dl_ox_arg_tensor(o, name, v);
    else if (v->t->class == DL_FOREIGN_FLOAT)
        dl_ox_arg_real(o, name, number);
    else
        dl_ox_arg_int(o, name, (int64_t)number);
}

void dl_ox_arg_ints(dl_ox_op *o, const char *name, int n, const int64_t *v) {
    int64_t *list = DL_NEWS(o->r->arena, int64_t, n + 1);
    memcpy(list, v, (size_t)n * sizeof *v);
    push_arg(o, name, DL_ARG_INTS, n)->ints = list;
}

void dl_ox_arg_int(dl_ox_op *o, const char *name, int64_t v) {
    dl_ox_arg_ints(o, name, 1, &v);
    o->r->args.at[o->r->args.n - 1].kind = DL_ARG_INT;
}

void dl_ox_arg_real(dl_ox_op *o, const char *name, double v) {
    double *number = DL_NEW(o->r->arena, double);
    *number = v;
    push_arg(o, name, DL_ARG_FLOAT, 1)->reals = number;
}

void dl_ox_arg_text(dl_ox_op *o, const char *name, const char *v) {
    push_arg(o, name, DL_ARG_STRING, 1)->text = v;
}

/* ---- results ---- */

static dl_ox_value *result(dl_ox_op *o, dl_ox_value *to, const dl_ox_shape *s,
                           dl_foreign_class class, dlr_st_dtype dtype) {
    dl_ox *r = o->r;
    if (!to) {
        to = DL_NEW(r->arena, dl_ox_value);
        *to = (dl_ox_value){.name = dl_format(r->arena, "/made%d", r->graph.tensors.n), .by = -1};
    }
    dl_foreign_tensor *t = DL_NEW(r->arena, dl_foreign_tensor);
    *t = (dl_foreign_tensor){.name = to->name, .path = to->name, .class = class, .rank = s->rank};
    t->dtype = dtype;
    memcpy(t->shape, s->size, sizeof t->shape);
    for (int d = 0; d < t->rank; d++) t->open[d] = t->shape[d] && t->shape[d] % DL_OX_BATCH == 0;
    to->t = t;
    if (!dl_ox_check_shape(r, t)) return NULL;
    enter(r, t);
    return to;
}

dl_ox_value *dl_ox_make_as(dl_ox_op *o, const char *op, dl_ox_value *to, const dl_ox_shape *s,
                           dl_foreign_class class, dlr_st_dtype dtype) {
    const dl_foreign_tensor **results = DL_NEW(o->r->arena, const dl_foreign_tensor *);
    if (o->r->err->code || !(to = result(o, to, s, class, dtype))) return NULL;
    *results = to->t;
    push_node(o, op, results, 1);
    return to;
}

dl_ox_value *dl_ox_make(dl_ox_op *o, const char *op, dl_ox_value *to, const dl_ox_shape *s,
                        const dl_ox_value *like) {
    return dl_ox_make_as(o, op, to, s, like->t->class, like->t->dtype);
}

bool dl_ox_make_several(dl_ox_op *o, const char *op, int n, dl_ox_value **to, const dl_ox_shape *s,
                        const dl_ox_value *like) {
    const dl_foreign_tensor **results = DL_NEWS(o->r->arena, const dl_foreign_tensor *, n);
    for (int i = 0; i < n; i++) {
        to[i] = result(o, to[i], &s[i], like->t->class, like->t->dtype);
        if (!to[i]) return false;
        results[i] = to[i]->t;
    }
    push_node(o, op, results, n);
    return true;
}

bool dl_ox_make_all(dl_ox_op *o, const char *op, const dl_ox_shape *s, const dl_ox_value *like) {
    return dl_ox_make_several(o, op, o->n->n_out, o->n->out, s, like);
}

bool dl_ox_alias(dl_ox_op *o, dl_ox_value *v) {
    dl_ox_value *to = o->n->out[0];
    if (!to || !v) return false;
    /* "bn2.weight" as another name of "bn1.weight": exporters merge tensors of equal numbers */
    bool renamed = v->stored && !v->known && dl_ox_is_name(o->r, v) && v->t->rank <= 1;
    to->stored = v->stored, to->known = v->known, to->other = v->other, to->turned = v->turned;
    to->t = v->t;
    if (!renamed || !dl_ox_is_name(o->r, to)) {
        if (v->stored) to->name = v->name, to->trained = v->trained, to->buffer = v->buffer;
        return true;
    }
    to->t = DL_NEW(o->r->arena, dl_foreign_tensor);
    *to->t = *v->t;
    to->t->name = to->t->path = to->name, to->t->id = -1, to->t->origin = DL_FOREIGN_CONSTANT;
    return true;
}

bool dl_ox_make_lacking(dl_ox_op *o) {
    const dl_ox_node *n = o->n;
    memset(&o->r->args, 0, sizeof o->r->args);
    bool blind = false; /* an operand has no shape */
    for (int i = 0; i < n->n_in; i++) {
        blind = blind || (n->in[i] && n->in[i]->t->class == DL_FOREIGN_UNKNOWN);
        if (n->in[i] && n->in[i]->t->id >= 0) dl_ox_arg_tensor(o, "self", n->in[i]);
    }
    const dl_foreign_tensor **results = DL_NEWS(o->r->arena, const dl_foreign_tensor *, n->n_out);
    int made = 0;
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) continue;
        dl_foreign_tensor t = {.class = DL_FOREIGN_UNKNOWN};
        const char *names[DL_FOREIGN_RANK];
        dl_ox_shape s = {0};
        bool stated = n->out[i]->info.at && dl_ox_read_info(o->r, n->out[i]->info, &t, names);
        for (int d = 0; stated && d < t.rank; d++) {
            bool batch = d == 0 && (t.open[0] || t.shape[0] == o->r->baked);
            stated = batch || !t.open[d];
            s.size[s.rank++] = batch ? DL_OX_BATCH : t.shape[d];
        }
        if (o->r->err->code) return false;
        if (!stated) s.rank = 0, t.class = DL_FOREIGN_UNKNOWN;
        if (!result(o, n->out[i], &s, t.class, t.dtype)) return false;
        results[made++] = n->out[i]->t;
    }
    push_node(o,
              blind ? dl_format(o->r->arena, "onnx.%s (after one without a shape)", n->op)
                    : dl_format(o->r->arena, "onnx.%s", n->op),
              results, made);
    return true;
}

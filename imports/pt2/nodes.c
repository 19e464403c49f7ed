/* The graph: tensors, nodes and their arguments. */
#include "imports/pt2/parts.h"
#include "ir/base/foreign.h"

/* ---- tensors ---- */

static int place_of(const dl_pt2_reader *r, const char *name, bool *there) {
    int low = 0, high = r->by_name.n;
    while (low < high) {
        int middle = (low + high) / 2, order = strcmp(r->by_name.at[middle]->name, name);
        if (order == 0) return *there = true, middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return *there = false, low;
}

dl_foreign_tensor *dl_pt2_find(dl_pt2_reader *r, const char *name) {
    bool there;
    int at = place_of(r, name, &there);
    if (!there) return dl_pt2_bad(r, "'%.200s' is used before it is computed", name), NULL;
    return r->by_name.at[at];
}

dl_foreign_tensor *dl_pt2_define(dl_pt2_reader *r, const char *name, dl_foreign_origin origin) {
    bool there;
    int at = place_of(r, name, &there);
    if (there) return dl_pt2_bad(r, "'%.200s' is computed twice", name), NULL;
    const dlr_json *meta = dlr_json_get(r->tensor_values, name);
    if (!meta) return dl_pt2_bad(r, "'%.200s' has no entry in tensor_values", name), NULL;
    dl_foreign_tensor *t = DL_NEW(r->arena, dl_foreign_tensor);
    *t = (dl_foreign_tensor){.name = name, .path = name, .origin = origin};
    if (!dl_pt2_meta(r, meta, t, NULL, NULL)) return NULL;
    dl_push(r->arena, &r->by_name, t);
    memmove(&r->by_name.at[at + 1], &r->by_name.at[at],
            (size_t)(r->by_name.n - 1 - at) * sizeof *r->by_name.at);
    r->by_name.at[at] = t;
    t->id = r->archive->graph.tensors.n;
    dl_push(r->arena, &r->archive->graph.tensors, t);
    return t;
}

/* ---- arguments ---- */

static bool read_tensors(dl_pt2_reader *r, const dlr_json *list, dl_foreign_arg *a) {
    const dl_foreign_tensor **t = DL_NEWS(r->arena, const dl_foreign_tensor *, list->n + 1);
    for (int i = 0; i < list->n; i++) {
        const dlr_json *item = &list->items[i], *inner = dlr_json_get(item, "as_tensor");
        if (dlr_json_get(item, "as_none")) continue;
        const dlr_json *name = dlr_json_get(inner ? inner : item, "name");
        if (!name || name->kind != DLR_JSON_STRING) return dl_pt2_bad(r, "a tensor has no name");
        if (!(t[i] = dl_pt2_find(r, name->string))) return false;
    }
    a->kind = DL_ARG_TENSORS, a->n = list->n, a->tensors = t;
    return true;
}

/* Python writes infinities, and numbers with them, as text. */
static bool as_real(const dlr_json *v, double *to) {
    if (v->kind == DLR_JSON_STRING) return dl_parse_real(v->string, to);
    return dlr_json_number(v, to);
}

static bool read_ints(dl_pt2_reader *r, const dlr_json *list, dl_foreign_arg *a) {
    int64_t *to = DL_NEWS(r->arena, int64_t, list->n + 1);
    a->kind = DL_ARG_INTS, a->n = list->n, a->ints = to;
    for (int i = 0; i < list->n; i++) {
        const dlr_json *v = &list->items[i], *known = dlr_json_get(v, "as_int");
        if (v->kind == DLR_JSON_OBJECT) v = known;
        if (!v)
            a->kind = DL_ARG_OPEN;
        else if (v->kind == DLR_JSON_INT)
            to[i] = v->integer;
        else if (v->kind == DLR_JSON_BOOL)
            to[i] = v->boolean;
        else
            return dl_pt2_bad(r, "argument '%s' is no list of whole numbers", a->name);
    }
    return true;
}

static bool read_reals(dl_pt2_reader *r, const dlr_json *list, dl_foreign_arg *a) {
    double *to = DL_NEWS(r->arena, double, list->n + 1);
    a->kind = DL_ARG_FLOATS, a->n = list->n, a->reals = to;
    for (int i = 0; i < list->n; i++)
        if (!as_real(&list->items[i], &to[i]))
            return dl_pt2_bad(r, "argument '%s' is no list of numbers", a->name);
    return true;
}

static bool one_int(dl_pt2_reader *r, int64_t v, dl_foreign_arg *a) {
    int64_t *to = DL_NEW(r->arena, int64_t);
    *to = v, a->kind = DL_ARG_INT, a->n = 1, a->ints = to;
    return true;
}

static bool read_argument(dl_pt2_reader *r, const dlr_json_member *m, dl_foreign_arg *a) {
    const char *tag = m->key;
    const dlr_json *v = &m->value;
    bool list = v->kind == DLR_JSON_ARRAY;
    a->kind = DL_ARG_OTHER;
    if (!strcmp(tag, "as_none")) return a->kind = DL_ARG_NONE, true;
    if (!strcmp(tag, "as_tensor") || !strcmp(tag, "as_optional_tensor")) {
        if (dlr_json_get(v, "as_none")) return a->kind = DL_ARG_NONE, true;
        const dlr_json *inner = dlr_json_get(v, "as_tensor");
        const dlr_json one = inner ? *inner : *v;
        const dlr_json items = {.kind = DLR_JSON_ARRAY, .n = 1, .items = &one};
        bool ok = read_tensors(r, &items, a);
        return a->kind = DL_ARG_TENSOR, ok;
    }
    if (list && (!strcmp(tag, "as_tensors") || !strcmp(tag, "as_optional_tensors")))
        return read_tensors(r, v, a);
    if (v->kind == DLR_JSON_INT && !strcmp(tag, "as_int")) return one_int(r, v->integer, a);
    if (v->kind == DLR_JSON_BOOL) return one_int(r, v->boolean, a);
    if (list &&
        (!strcmp(tag, "as_ints") || !strcmp(tag, "as_bools") || !strcmp(tag, "as_sym_ints")))
        return read_ints(r, v, a);
    if (list && !strcmp(tag, "as_floats")) return read_reals(r, v, a);
    if (!strcmp(tag, "as_complex")) {
        double *to = DL_NEWS(r->arena, double, 2);
        a->kind = DL_ARG_COMPLEX, a->n = 1, a->reals = to;
        const dlr_json *real = dlr_json_get(v, "real"), *imag = dlr_json_get(v, "imag");
        return (real && imag && as_real(real, to) && as_real(imag, to + 1)) ||
               dl_pt2_bad(r, "argument '%s' is no complex number", a->name);
    }
    if (!strcmp(tag, "as_float")) {
        double *to = DL_NEW(r->arena, double);
        a->kind = DL_ARG_FLOAT, a->n = 1, a->reals = to;
        return as_real(v, to) || dl_pt2_bad(r, "argument '%s' is no number", a->name);
    }
    if (v->kind == DLR_JSON_STRING && !strcmp(tag, "as_string"))
        return a->kind = DL_ARG_STRING, a->n = 1, a->text = v->string, true;
    if (v->kind == DLR_JSON_INT && !strcmp(tag, "as_scalar_type")) {
        one_int(r, v->integer, a);
        return true;
    }
    if (!strcmp(tag, "as_sym_int")) {
        const dlr_json *known = dlr_json_get(v, "as_int");
        if (known && known->kind == DLR_JSON_INT) return one_int(r, known->integer, a);
        a->kind = DL_ARG_OPEN;
    }
    return true;
}

/* ---- nodes ---- */

static bool read_arguments(dl_pt2_reader *r, const dlr_json *inputs, dl_foreign_node *n) {
    dl_foreign_arg *args = DL_NEWS(r->arena, dl_foreign_arg, inputs->n + 1);
    for (int i = 0; i < inputs->n; i++) {
        const dlr_json *name = dl_pt2_get(r, &inputs->items[i], "name", DLR_JSON_STRING);
        const dlr_json_member *m =
            name ? dl_pt2_tagged(r, dlr_json_get(&inputs->items[i], "arg")) : NULL;
        if (!m) return false;
        args[i].name = name->string;
        if (!read_argument(r, m, &args[i])) return false;
    }
    n->args = args, n->n_args = inputs->n;
    return true;
}

static bool read_results(dl_pt2_reader *r, const dlr_json *outputs, dl_foreign_node *n) {
    DL_ARRAY(const dl_foreign_tensor *) made = {0};
    for (int i = 0; i < outputs->n; i++) {
        const dlr_json_member *m = dl_pt2_tagged(r, &outputs->items[i]);
        if (!m) return false;
        bool many = m->value.kind == DLR_JSON_ARRAY, one = !strcmp(m->key, "as_tensor");
        if (!one && strcmp(m->key, "as_tensors") != 0) continue; /* a size, or nothing */
        for (int k = 0; k < (many ? m->value.n : 1); k++) {
            const dlr_json *item = many ? &m->value.items[k] : &m->value;
            const dlr_json *name = dl_pt2_get(r, item, "name", DLR_JSON_STRING);
            dl_foreign_tensor *t = name ? dl_pt2_define(r, name->string, DL_FOREIGN_RESULT) : NULL;
            if (!t) return false;
            dl_push(r->arena, &made, t);
        }
    }
    n->results = made.at, n->n_results = made.n;
    return true;
}

/* ---- graphs in nodes ---- */

enum { MOST_DEPTH = 16 };

/* The graph that a node of torch.no_grad, of autocast that is off or of a checkpoint runs; NULL: it
 * is another node. detached: no gradient leaves it. */
static const dlr_json *graph_in(const char *op, const dlr_json *inputs, bool *detached) {
    static const char *const ops[] = {"wrap_with_set_grad_enabled", "wrap_with_autocast",
                                      "tag_activation_checkpoint"};
    int kind = 0, flag = 0;
    const dlr_json *graph = NULL, *on = NULL;
    if (strncmp(op, "higher_order.", 13) != 0) return NULL;
    while (kind < 3 && strcmp(ops[kind], op + 13) != 0) kind++;
    for (int i = 0; i < inputs->n && !graph; i++) {
        const dlr_json *arg = dlr_json_get(&inputs->items[i], "arg"),
                       *value = dlr_json_get(arg, "as_bool");
        if (value && value->kind == DLR_JSON_BOOL && flag++ == 0) on = value;
        graph = dlr_json_get(dlr_json_get(arg, "as_graph"), "graph");
    }
    *detached = kind == 0 && on && !on->boolean;
    bool runs = kind == 2 || (kind < 2 && on && (kind == 0 || !on->boolean));
    return runs && graph && graph->kind == DLR_JSON_OBJECT ? graph : NULL;
}

/* Appends a node that makes one tensor of another, in the module of `around`. */
static void pass_on(dl_pt2_reader *r, const char *op, const dl_foreign_node *around,
                    const dl_foreign_tensor *from, const dl_foreign_tensor *to) {
    dl_foreign_arg *self = DL_NEW(r->arena, dl_foreign_arg);
    const dl_foreign_tensor **list = DL_NEWS(r->arena, const dl_foreign_tensor *, 2);
    list[0] = from, list[1] = to;
    *self = (dl_foreign_arg){.name = "self", .kind = DL_ARG_TENSOR, .n = 1, .tensors = list};
    dl_foreign_node n = *around;
    n.op = op, n.args = self, n.n_args = 1, n.results = list + 1, n.n_results = 1;
    dl_push(r->arena, &r->archive->graph.nodes, n);
}

/* Later nodes see a result of an inner graph without its gradient. */
static void detach(dl_pt2_reader *r, const dl_foreign_node *around, const char *name) {
    bool there;
    int at = place_of(r, name, &there);
    if (!there) return;
    dl_foreign_tensor *made = DL_NEW(r->arena, dl_foreign_tensor);
    *made = *r->by_name.at[at];
    made->origin = DL_FOREIGN_RESULT, made->data = NULL, made->id = r->archive->graph.tensors.n;
    dl_push(r->arena, &r->archive->graph.tensors, made);
    pass_on(r, "aten.detach.default", around, r->by_name.at[at], made);
    r->by_name.at[at] = made;
}

/* The tensor has a second name, `to`, for the nodes that follow. */
static bool call(dl_pt2_reader *r, const dl_foreign_node *around, const char *from,
                 const char *to) {
    const dl_foreign_tensor *old = dl_pt2_find(r, from), *made = NULL;
    if (old) made = dl_pt2_define(r, to, DL_FOREIGN_RESULT);
    if (made) pass_on(r, "aten.alias.default", around, old, made);
    return made;
}

typedef DL_ARRAY(const char *) tensor_names;

/* The names of tensors among tagged values: of a list each by itself. */
static bool add_names(dl_pt2_reader *r, const dlr_json *value, tensor_names *names) {
    const dlr_json_member *m = dl_pt2_tagged(r, value);
    if (!m) return false;
    bool many = m->value.kind == DLR_JSON_ARRAY;
    for (int k = 0; k < (many ? m->value.n : 1); k++) {
        const dlr_json *item = many ? &m->value.items[k] : &m->value;
        const dlr_json *inner = dlr_json_get(item, "as_tensor"),
                       *name = dlr_json_get(inner ? inner : item, "name");
        if (name && name->kind == DLR_JSON_STRING) dl_push(r->arena, names, name->string);
    }
    return true;
}

static bool names_of(dl_pt2_reader *r, const dlr_json *list, tensor_names *names) {
    for (int i = 0; list && i < list->n; i++)
        if (!add_names(r, &list->items[i], names)) return false;
    return list;
}

/* The names in a graph of a graph are those around it, as exporters cut it out of one; the node's
 * results may have names of their own, and are its graph's by their places. */
static bool read_inner(dl_pt2_reader *r, const dlr_json *graph, bool detached,
                       const dlr_json *outputs, const dl_foreign_node *around) {
    const dlr_json *outer = r->tensor_values;
    tensor_names made = {0}, wanted = {0};
    if (r->depth == MOST_DEPTH) return dl_pt2_bad(r, "it has graphs in graphs in graphs");
    if (!(r->tensor_values = dl_pt2_get(r, graph, "tensor_values", DLR_JSON_OBJECT))) return false;
    r->depth++;
    bool ok = dl_pt2_read_nodes(r, graph) &&
              names_of(r, dl_pt2_get(r, graph, "outputs", DLR_JSON_ARRAY), &made);
    r->depth--, r->tensor_values = outer;
    if (!ok || !names_of(r, outputs, &wanted)) return false;
    if (made.n < wanted.n)
        return dl_pt2_bad(r, "its graph has %d results, and it has %d", made.n, wanted.n);
    for (int i = 0; i < wanted.n && ok; i++) {
        bool there;
        place_of(r, wanted.at[i], &there);
        ok = there || call(r, around, made.at[i], wanted.at[i]);
        if (ok && detached) detach(r, around, wanted.at[i]);
    }
    return ok;
}

bool dl_pt2_read_nodes(dl_pt2_reader *r, const dlr_json *graph) {
    const dlr_json *nodes = dl_pt2_get(r, graph, "nodes", DLR_JSON_ARRAY), *inner;
    bool detached;
    if (!nodes) return false;
    for (int i = 0; i < nodes->n; i++) {
        const dlr_json *from = &nodes->items[i];
        r->place = dl_format(r->arena, "node %d", i);
        const dlr_json *target = dl_pt2_get(r, from, "target", DLR_JSON_STRING);
        const dlr_json *inputs = dl_pt2_get(r, from, "inputs", DLR_JSON_ARRAY);
        const dlr_json *outputs = dl_pt2_get(r, from, "outputs", DLR_JSON_ARRAY);
        if (!target || !inputs || !outputs) return false;
        const char *op = target->string;
        op += strncmp(op, "torch.ops.", 10) == 0 ? 10 : 0;
        r->place = dl_format(r->arena, "node %d (%.100s)", i, dl_shown(r->arena, op));
        dl_foreign_node n = {.op = op};
        if (!dl_pt2_read_stack(r, dlr_json_get(from, "metadata"), &n)) return false;
        if ((inner = graph_in(op, inputs, &detached))) {
            if (!read_inner(r, inner, detached, outputs, &n)) return false;
            continue;
        }
        if (!read_arguments(r, inputs, &n) || !read_results(r, outputs, &n)) return false;
        dl_push(r->arena, &r->archive->graph.nodes, n);
    }
    return true;
}

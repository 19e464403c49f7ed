/* LSTM, GRU and RNN: the gates come into PyTorch's order, and the weights of one layer become the
 * parameters that they are made of. */
#include "imports/onnx/layers.h"

typedef struct {
    const char *op;
    int gates, order[4]; /* of ONNX' gates, in PyTorch's order */
    int states;
} layer_kind;
static const layer_kind cells[] = {
    {"LSTM", 4, {0, 2, 3, 1}, 2}, {"GRU", 3, {1, 0, 2}, 1}, {"RNN", 1, {0}, 1}};

static const layer_kind *cell_of(const dl_ox_node *n) {
    int i = 0;
    while (i < 2 && strcmp(cells[i].op, n->op) != 0) i++;
    return &cells[i];
}

/* ---- forms that PyTorch has, too ---- */

/* The node's activations, in all directions those that PyTorch has; the op of PyTorch, or NULL. */
static const char *torch_op(const dl_ox_op *o, int directions) {
    static const char *const usual[][3] = {
        {"Sigmoid", "Tanh", "Tanh"}, {"Sigmoid", "Tanh"}, {"Tanh"}};
    const dl_ox_attr *a = dl_ox_attribute(o->n, "activations");
    int kind = (int)(cell_of(o->n) - cells), each = 3 - kind;
    const char *first = a && a->n_texts ? a->texts[0] : "";
    bool relu = kind == 2 && !strcmp(first, "Relu");
    for (int i = 0; a && i < a->n_texts && i < each * directions; i++) {
        const char *wanted = relu ? "Relu" : usual[kind][i % each];
        if (strcmp(a->texts[i], wanted) != 0) return NULL;
    }
    return relu ? "aten.rnn_relu.input" : o->detail;
}

/* Whether all sequences have all steps. */
static bool is_whole_length(dl_ox_op *o, int64_t steps) {
    dl_ox_value *lengths = dl_ox_in(o, 4);
    const double *known = lengths ? dl_ox_known(o->r, lengths) : NULL;
    for (int64_t i = 0; known && i < dl_foreign_count(lengths->t); i++)
        if (known[i] != (double)steps) return false;
    return !lengths || known;
}

/* ---- weights ---- */

/* The parameters of a direction: input weights, state weights and both biases. */
static bool read_part(dl_ox_op *o, dl_ox_layer *l, int d, dl_ox_part *to) {
    const layer_kind *cell = cell_of(o->n);
    int64_t h = l->hidden, all = cell->gates * h;
    for (int role = 0; role < (l->biases ? 4 : 2); role++) {
        dl_ox_value *v = o->n->in[role < 2 ? 1 + role : 3];
        int64_t width = role == 0 ? l->features : role == 1 ? h : 1;
        const dl_ox_row *rows = dl_ox_rows(o->r, v, width);
        if (!rows) return false;
        rows += role < 2 ? d * all : (2 * d + role - 2) * all;
        dl_ox_row *list = DL_NEWS(o->r->arena, dl_ox_row, all);
        for (int g = 0; g < cell->gates; g++)
            memcpy(list + g * h, rows + cell->order[g] * h, (size_t)h * sizeof *list);
        to[role].rows = list;
        to[role].shape = (dl_ox_shape){.rank = role < 2 ? 2 : 1, .size = {all, width}};
        to[role].own = dl_ox_whole_tensor(o->r, list, &to[role].shape);
    }
    return true;
}

static bool has_shape(const dl_ox_value *v, int64_t a, int64_t b, int64_t c) {
    bool fits = v && v->t->class == DL_FOREIGN_FLOAT && v->t->rank == (c ? 3 : 2);
    return fits && v->t->shape[0] == a && v->t->shape[1] == b && (!c || v->t->shape[2] == c);
}

/* ---- first states ---- */

static bool is_zero(dl_ox *r, dl_ox_value *v) {
    static const char *const views[] = {"Expand", "Slice",   "Unsqueeze", "Reshape", "Identity",
                                        "Cast",   "Squeeze", "Transpose", "Gather",  "Split"};
    for (int depth = 0; v && depth < 64; depth++) {
        const double *known = dl_ox_known(r, v);
        int64_t n = known ? dl_foreign_count(v->t) : 0, zeros = 0;
        while (zeros < n && known[zeros] == 0) zeros++;
        if (known && !v->other) return zeros == n;
        const dl_ox_node *by = v->by >= 0 ? &r->nodes.at[v->by] : NULL;
        if (!by || !by->n_in) return false;
        if (!strcmp(by->op, "ConstantOfShape")) {
            const dl_ox_attr *value = dl_ox_attribute(by, "value");
            double number = 0;
            return !value || (value->tensor && dl_ox_number(r, value->tensor, &number) && !number);
        }
        bool is_view = false;
        for (size_t i = 0; i < sizeof views / sizeof *views; i++)
            is_view = is_view || !strcmp(by->op, views[i]);
        v = is_view ? by->in[0] : NULL;
    }
    return false;
}

/* Axes 0 and 1 of a value of three axes in the other order. */
static dl_ox_value *turned(dl_ox_op *o, dl_ox_value *v, dl_ox_value *to) {
    dl_ox_shape s = {3, {v->t->shape[1], v->t->shape[0], v->t->shape[2]}};
    dl_ox_arg_tensor(o, "self", v), dl_ox_arg_ints(o, "dims", 3, (int64_t[]){1, 0, 2});
    return dl_ox_make(o, "aten.permute.default", to, &s, v);
}

/* False: one is given and another one is not, or they have other shapes. */
static bool read_start(dl_ox_op *o, dl_ox_layer *l, int64_t sequences) {
    int given = 0;
    for (int k = 0; k < l->states; k++) {
        dl_ox_value *v = dl_ox_in(o, 5 + k);
        if (!v || is_zero(o->r, v)) continue;
        if (l->batch_first && (v->t->rank != 3 || !(v = turned(o, v, NULL)))) return false;
        if (!has_shape(v, l->directions, sequences, l->hidden)) return false;
        l->start[k] = v, given++;
    }
    return given == 0 || given == l->states;
}

/* ---- results ---- */

/* x along the steps from the last one to the first. */
static dl_ox_value *reversed(dl_ox_op *o, dl_ox_value *x, bool batch_first) {
    dl_ox_shape s = dl_ox_shape_of(x);
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_ints(o, "dims", 1, (int64_t[]){batch_first});
    return dl_ox_make(o, "aten.flip.default", NULL, &s, x);
}

/* y is [T, N, (directions hidden)], or [N, T, ...]; ONNX has [T, directions, N, hidden], or [N, T,
 * directions, hidden]. */
static bool set_steps(dl_ox_op *o, const dl_ox_layer *l, dl_ox_value *y) {
    dl_ox_value *to = o->n->out[0];
    if (!to) return true;
    int64_t a = y->t->shape[0], b = y->t->shape[1], d = l->directions, h = l->hidden;
    dl_ox_shape split = {4, {a, b, d, h}}, end = {4, {a, d, b, h}};
    dl_ox_arg_tensor(o, "self", y);
    y = dl_ox_make(o, "aten.reshape.default", l->batch_first ? to : NULL, &split, y);
    if (!y || l->batch_first) return y;
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_ints(o, "dims", 4, (int64_t[]){0, 2, 1, 3});
    return dl_ox_make(o, "aten.permute.default", to, &end, y);
}

bool dl_ox_recurrent(dl_ox_op *o) {
    const dl_ox_node *n = o->n;
    const layer_kind *cell = cell_of(n);
    dl_ox_value *x = n->in[0], *w = dl_ox_in(o, 1), *state = dl_ox_in(o, 2), *b = dl_ox_in(o, 3);
    const char *direction = dl_ox_word(n, "direction", "forward");
    bool both = !strcmp(direction, "bidirectional"), back = !strcmp(direction, "reverse");
    dl_ox_layer *l = DL_NEW(o->r->arena, dl_ox_layer);
    *l = (dl_ox_layer){.node = n, .states = cell->states, .directions = both ? 2 : 1, .biases = b};
    l->op = torch_op(o, l->directions), l->batch_first = dl_ox_int(n, "layout", 0);
    if (x->t->rank != 3 || !w || !state || w->t->rank != 3) return false;
    int64_t steps = x->t->shape[l->batch_first], sequences = x->t->shape[!l->batch_first];
    l->features = x->t->shape[2], l->hidden = state->t->rank == 3 ? state->t->shape[2] : 0;
    int64_t all = cell->gates * l->hidden;
    if (l->hidden < 1 || !has_shape(w, l->directions, all, l->features) ||
        !has_shape(state, l->directions, all, l->hidden) ||
        (b && !has_shape(b, l->directions, 2 * all, 0)))
        return dl_ox_bad(o->r, "its weights are not those of %lld features and one hidden size",
                         (long long)l->features);
    if (dl_ox_int(n, "hidden_size", l->hidden) != l->hidden)
        return dl_ox_bad(o->r, "its hidden_size is not that of its weights");
    if (!is_whole_length(o, steps) || !read_start(o, l, sequences)) return false;
    l->n_parts = l->directions * (b ? 4 : 2);
    for (int d = 0; d < l->directions; d++)
        if (!read_part(o, l, d, l->parts + d * (b ? 4 : 2))) return false;
    if (!l->op || dl_ox_attribute(n, "clip") || dl_ox_int(n, "input_forget", 0) || dl_ox_in(o, 7) ||
        (cell->gates == 3 && !dl_ox_int(n, "linear_before_reset", 0))) {
        l->x = x;
        return dl_ox_make_cells(o, l, cell->gates);
    }
    l->x = back ? reversed(o, x, l->batch_first) : x;
    dl_ox_value *y = l->x ? dl_ox_make_layer(o, l) : NULL;
    if (y && back) y = reversed(o, y, l->batch_first);
    return y && set_steps(o, l, y);
}

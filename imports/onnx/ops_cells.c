/* LSTM, GRU and RNN in forms that PyTorch lacks: the node dl.cell for each direction, after the
 * linear layer of its input. */
#include "imports/onnx/layers.h"

enum { PARAMETERS = 4 }; /* of a direction: input weights, state weights, both biases */

/* Rows [first, end) of a part as a parameter LABEL.name of ours. */
static dl_ox_value *parameter(dl_ox_op *o, const dl_ox_part *part, int64_t first, int64_t end,
                              const char *label, const char *name) {
    dl_ox_shape s = part->shape;
    s.size[0] = end - first;
    int64_t n = dl_ox_count(&s), width = n / s.size[0];
    float *numbers = dl_alloc(o->r->arena, (size_t)n * sizeof *numbers);
    if (!dl_ox_copy_rows(o->r, part->rows + first, s.size[0], width, numbers)) return NULL;
    return dl_ox_parameter(o->r, dl_format(o->r->arena, "%s.%s", label, name), &s, numbers);
}

/* The words of the language for a direction's activations; NULL: it has none for one of them. */
static const char *functions_of(dl_ox_op *o, int gates, int d) {
    static const char *const words[][2] = {{"Sigmoid", "sigmoid"},   {"Tanh", "tanh"},
                                           {"Relu", "relu"},         {"Softsign", "softsign"},
                                           {"Softplus", "softplus"}, {"HardSigmoid", NULL}};
    static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
    const dl_ox_attr *a = dl_ox_attribute(o->n, "activations");
    int each = gates == 4 ? 3 : gates == 3 ? 2 : 1;
    const char *text = "";
    if (dl_ox_attribute(o->n, "activation_alpha") || dl_ox_attribute(o->n, "activation_beta"))
        return NULL;
    for (int i = 0; i < each; i++) {
        const char *name =
            a && d * each + i < a->n_texts ? a->texts[d * each + i] : usual[gates == 1 ? 1 : i];
        size_t k = 0;
        while (words[k][1] && strcmp(words[k][0], name) != 0) k++;
        if (!words[k][1]) return NULL;
        text = dl_format(o->r->arena, "%s%s%s", text, i ? " " : "", words[k][1]);
    }
    return text;
}

/* State k before the first step, [N, hidden]: a row of the layer's, or zeros. */
static dl_ox_value *start_of(dl_ox_op *o, const dl_ox_layer *l, int k, int d, int64_t sequences) {
    dl_ox_shape s = {2, {sequences, l->hidden}};
    if (!l->start[k]) {
        dl_ox_arg_real(o, "fill_value", 0);
        return dl_ox_make(o, "aten.full.default", NULL, &s, l->x);
    }
    dl_ox_arg_tensor(o, "self", l->start[k]), dl_ox_arg_int(o, "dim", 0);
    dl_ox_arg_int(o, "index", d);
    return dl_ox_make(o, "aten.select.int", NULL, &s, l->x);
}

/* The results of one direction: all states, and the last ones. */
static bool make_direction(dl_ox_op *o, const dl_ox_layer *l, int gates, int d, const char *label,
                           dl_ox_value **made) {
    const dl_ox_part *part = l->parts + d * (l->biases ? PARAMETERS : 2);
    int64_t h = l->hidden, all = gates * h, steps = l->x->t->shape[0], n = l->x->t->shape[1];
    bool first = gates == 3 && !dl_ox_int(o->n, "linear_before_reset", 0);
    const char *kind = gates == 4 ? "LSTM" : gates == 3 ? "GRU" : "RNN";
    const char *functions = functions_of(o, gates, d);
    dl_ox_value *w = functions ? parameter(o, &part[0], 0, all, label, "ih.weight") : NULL,
                *b = NULL, *start[DL_OX_STATES], *peepholes = dl_ox_in(o, 7);
    if (!w || (l->biases && !(b = parameter(o, &part[2], 0, all, label, "ih.bias")))) return false;
    dl_ox_shape s[1 + DL_OX_STATES] = {{3, {steps, n, all}}, {2, {n, h}}, {2, {n, h}}};
    dl_ox_arg_tensor(o, "input", l->x), dl_ox_arg_tensor(o, "weight", w);
    dl_ox_arg_tensor(o, "bias", b);
    dl_ox_value *x = dl_ox_make(o, "aten.linear.default", NULL, &s[0], l->x);
    for (int k = 0; x && k < l->states; k++)
        if (!(start[k] = start_of(o, l, k, d, n))) return false;
    if (!x) return false;
    const char *cell = dl_format(o->r->arena, "%s.cell", label);
    dl_ox_arg_tensor(o, "input", x), dl_ox_arg_tensors(o, "hx", l->states, start);
    dl_ox_arg_text(o, "kind", kind), dl_ox_arg_text(o, "label", cell);
    dl_ox_arg_text(o, "functions", functions);
    dl_ox_arg_int(o, "reverse", d || !strcmp(dl_ox_word(o->n, "direction", ""), "reverse"));
    dl_ox_arg_int(o, "input_forget", dl_ox_int(o->n, "input_forget", 0));
    if (dl_ox_attribute(o->n, "clip")) dl_ox_arg_real(o, "clip", dl_ox_real(o->n, "clip", 0));
    for (int k = 0; k < 1 + first; k++) { /* "new": the gate that reads the reset state */
        int64_t from = k ? 2 * h : 0, end = first && !k ? 2 * h : all;
        const char *name = k ? "new" : "hh";
        for (int bias = 0; bias < (l->biases ? 2 : 1); bias++) {
            const char *role = bias ? "bias" : "weight";
            dl_ox_value *v = parameter(o, &part[bias ? 3 : 1], from, end, cell,
                                       dl_format(o->r->arena, "%s.%s", name, role));
            if (!v) return false;
            dl_ox_arg_tensor(o, dl_format(o->r->arena, "%s_%s", name, role), v);
        }
    }
    if (peepholes) {
        const dl_ox_row *rows = dl_ox_rows(o->r, peepholes, 1);
        dl_ox_part of = {.rows = rows ? rows + d * 3 * h : NULL, .shape = {1, {3 * h}}};
        dl_ox_value *v = rows ? parameter(o, &of, 0, 3 * h, cell, "peepholes") : NULL;
        if (!v) return false;
        dl_ox_arg_tensor(o, "peepholes", v);
    }
    s[0].size[2] = h;
    return dl_ox_make_several(o, "dl.cell.default", 1 + l->states, made, s, l->x);
}

/* Tensors of the directions as one with a dimension of them, or that dimension alone. */
static bool stack(dl_ox_op *o, const dl_ox_layer *l, dl_ox_value *(*made)[1 + DL_OX_STATES], int k,
                  dl_ox_value *to) {
    dl_ox_value *list[2] = {made[0][k], l->directions > 1 ? made[1][k] : NULL};
    dl_ox_shape one = dl_ox_shape_of(list[0]), s = {one.rank + 1, {0}};
    int at = k ? 0 : 1;
    if (!to) return true;
    for (int d = 0; d < s.rank; d++) s.size[d] = d == at ? l->directions : one.size[d - (d > at)];
    dl_ox_arg_tensors(o, "tensors", l->directions, list), dl_ox_arg_int(o, "dim", at);
    return dl_ox_make(o, "aten.stack.default", to, &s, list[0]);
}

bool dl_ox_make_cells(dl_ox_op *o, const dl_ox_layer *l, int gates) {
    dl_ox_value *made[2][1 + DL_OX_STATES] = {{0}}, *peepholes = dl_ox_in(o, 7);
    if (l->batch_first || l->x->t->rank != 3) return false;
    if (peepholes &&
        (gates != 4 || peepholes->t->rank != 2 || peepholes->t->shape[0] != l->directions ||
         peepholes->t->shape[1] != 3 * l->hidden))
        return false;
    const char *label = dl_ox_fresh_label(o, "ih.weight");
    for (int d = 0; d < l->directions; d++)
        if (!make_direction(o, l, gates, d, d ? dl_format(o->r->arena, "%s.reverse", label) : label,
                            made[d]))
            return false;
    for (int k = 0; k < 1 + l->states && k < o->n->n_out; k++)
        if (!stack(o, l, made, k, o->n->out[k])) return false;
    return true;
}

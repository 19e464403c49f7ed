/* Recurrent layers, which ONNX has as ops of [T, N, E] with gates in another order. */
#include "ir/recurrence.h"
#include "exports/onnx/ops.h"

/* The places of ONNX's gates among PyTorch's, whose order is i, f, g, o and r, z, n: LSTM's are i,
 * o, f, g, GRU's z, r, n. */
static const int64_t gate_order[DL_NCELLS][4] = {
    [DL_LSTM] = {0, 3, 1, 2}, [DL_GRU] = {1, 0, 2}, [DL_RNN_TANH] = {0}, [DL_RNN_RELU] = {0}};

/* Operand i with its rows in ONNX's order. */
static dl_onnx_value ordered(dl_onnx *o, const dl_node *n, int i) {
    dl_onnx_value w = dl_onnx_in(o, n, i);
    dl_cell cell = dl_cell_of(n);
    int64_t rows = w.type.axis[0].size, size = rows / dl_cells[cell].gates;
    int64_t *from = DL_NEWS(o->arena, int64_t, rows);
    if (dl_cells[cell].gates == 1) return w;
    for (int64_t k = 0; k < rows; k++) from[k] = gate_order[cell][k / size] * size + k % size;
    dl_type t = dl_scalar(DL_I64);
    dl_type_push(&t, "", rows);
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "axis", 0);
    const char *in[] = {w.name, dl_onnx_constant(o, t, from)};
    return dl_onnx_named(w, dl_onnx_add(o, "Gather", 2, in, &attributes));
}

/* Both biases, one after the other. */
static dl_onnx_value biases(dl_onnx *o, const dl_node *n) {
    dl_onnx_value b = ordered(o, n, DL_LAYER_PLAIN);
    const char *in[] = {b.name, ordered(o, n, DL_LAYER_PLAIN + 1).name};
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "axis", 0);
    b.type.axis[0].size *= 2;
    return dl_onnx_named(b, dl_onnx_add(o, "Concat", 2, in, &attributes));
}

/* [sequences, T, features]: all axes before the last two as one. */
static dl_onnx_value as_sequences(const dl_onnx_value *v) {
    dl_onnx_value t = {.type = dl_scalar(v->type.dtype)};
    int64_t count = 1, per = 1;
    bool batched = false;
    for (int i = 0; i < v->type.rank - 2; i++) {
        count *= v->type.axis[i].size, batched |= v->per[i] != 0;
        per *= v->per[i] ? v->per[i] : v->type.axis[i].size;
    }
    dl_onnx_push(&t, "", count, batched ? per : 0);
    for (int i = 2; i > 0; i--) dl_onnx_push_axis(&t, v, v->type.rank - i);
    return t;
}

/* Axes of [sequences, rows, features]; ONNX's states have the rows first. */
static const int turn[] = {1, 0, 2};

/* First state k of the sequences, [1, sequences, size]. */
static const char *first_state(dl_onnx *o, const dl_node *n, int k) {
    dl_onnx_value start = dl_onnx_in(o, n, dl_recurrence_start(n)), all = as_sequences(&start);
    all = dl_onnx_reshape(o, start, &all);
    const char *in[] = {all.name, dl_onnx_int(o, k), dl_onnx_int(o, k + 1), dl_onnx_int(o, 1)};
    all.type.axis[1].size = 1;
    return dl_onnx_permute(o, dl_onnx_named(all, dl_onnx_add(o, "Slice", 4, in, NULL)), turn).name;
}

/* The states of all steps, [sequences, T, size], with the last c after them. */
static dl_onnx_value with_cell(dl_onnx *o, dl_onnx_value states, const char *cell) {
    dl_onnx_value last = {.name = cell, .type = dl_scalar(states.type.dtype)};
    dl_buf attributes = {0};
    dl_onnx_push(&last, "", 1, 0);
    dl_onnx_push_axis(&last, &states, 0), dl_onnx_push_axis(&last, &states, 2);
    const char *in[] = {states.name, dl_onnx_permute(o, last, turn).name};
    dl_onnx_put_int(&attributes, "axis", 1);
    states.type.axis[1].size++;
    return dl_onnx_named(states, dl_onnx_add(o, "Concat", 2, in, &attributes));
}

bool dl_onnx_recurrence(dl_onnx *o, const dl_node *n, const char *word) {
    static const char *const words[DL_NCELLS] = {"LSTM", "GRU", "RNN", "RNN"};
    dl_onnx_value x = dl_onnx_in(o, n, DL_LAYER_X), out = dl_onnx_out(o, n);
    dl_cell cell = dl_cell_of(n);
    int rank = x.type.rank;
    (void)word;
    if (x.per[rank - 1] || x.per[rank - 2]) return dl_onnx_needs_batch(o);
    dl_onnx_value sequences = as_sequences(&x), y = as_sequences(&out);
    x = dl_onnx_permute(o, dl_onnx_reshape(o, x, &sequences), turn);
    /* x, weights, biases, lengths of sequences, first states */
    const char *in[7] = {x.name, dl_onnx_unsqueeze(o, ordered(o, n, DL_LAYER_W_IH), 1).name,
                         dl_onnx_unsqueeze(o, ordered(o, n, DL_LAYER_W_HH), 1).name, "", ""};
    int nin = 3;
    if (dl_layer_is_biased(n)) in[3] = dl_onnx_unsqueeze(o, biases(o, n), 1).name, nin = 4;
    if (dl_recurrence_start(n) >= 0) {
        nin = 5;
        for (int k = 0; k < dl_cells[cell].states; k++) in[nin++] = first_state(o, n, k);
    }
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "hidden_size", out.type.axis[rank - 1].size);
    if (dl_node_int(n, DL_ATTR_reverse)) dl_onnx_put_text(&attributes, "direction", "reverse");
    if (cell == DL_GRU) dl_onnx_put_int(&attributes, "linear_before_reset", 1);
    if (cell == DL_RNN_RELU) dl_onnx_put_texts(&attributes, "activations", "Relu");
    /* [T, 1, sequences, features] */
    dl_onnx_value all = {.type = dl_scalar(y.type.dtype)};
    const char *made[3]; /* the states of all steps, the last h, the last c */
    bool ends = y.type.axis[1].size > sequences.type.axis[1].size;
    dl_onnx_add_all(o, words[cell], nin, in, &attributes, ends ? 3 : 1, made);
    all.name = made[0];
    dl_onnx_push_axis(&all, &sequences, 1), dl_onnx_push(&all, "", 1, 0);
    dl_onnx_push_axis(&all, &y, 0), dl_onnx_push_axis(&all, &y, 2);
    all = dl_onnx_permute(o, dl_onnx_squeeze(o, all, 1u << 1), turn);
    if (ends) all = with_cell(o, all, made[2]);
    return dl_onnx_set(o, n, dl_onnx_reshape(o, all, &out).name);
}

/* The shape rules of recurrent layers, as a composite and as templates; their facts for all other
 * folders. */
#include "ir/base/counts.h"
#include "ir/base/str.h"
#include "ir/infer_rules.h"
#include "ir/recurrence.h"

const dl_cell_info dl_cells[DL_NCELLS] = {{"lstm", "LSTM", 4, 5, 2},
                                          {"gru", "GRU", 3, 4, 1},
                                          {"rnn_tanh", "RNN_TANH", 1, 0, 1},
                                          {"rnn_relu", "RNN_RELU", 1, 0, 1}};

dl_cell dl_cell_of(const dl_node *n) {
    dl_cell c = 0;
    while (c < DL_NCELLS && strcmp(dl_node_name(n, DL_ATTR_mode), dl_cells[c].name) != 0) c++;
    return c;
}

int dl_recurrence_start(const dl_node *n) {
    int least = n->op == DL_OP_recurrent        ? DL_STEPS_IN
                : n->op == DL_OP_recurrent_grad ? DL_STEPS_GRAD_IN
                : dl_layer_is_biased(n)         ? DL_LAYER_BIASED
                                                : DL_LAYER_PLAIN;
    return n->nin > least ? least : -1;
}

static int64_t ends(const dl_node *n) {
    return dl_node_attr(n, DL_ATTR_cell) ? dl_node_int(n, DL_ATTR_cell) : 0;
}

/* nin: the operands without `start`. */
static bool check_attributes(const dl_node *n, int nin, dl_shape_fault *fault) {
    if (n->nin != nin && n->nin != nin + 1)
        return dl_fault(fault, -1, "wrong_arity", "%s takes %d operands or %d, not %d",
                        dl_op_text(n), nin, nin + 1, n->nin);
    if (dl_cell_of(n) == DL_NCELLS)
        return dl_fault(fault, -1, "bad_attribute",
                        "%s's mode is lstm, gru, rnn_tanh or rnn_relu, not %s", dl_op_text(n),
                        dl_node_name(n, DL_ATTR_mode));
    if (dl_node_attr(n, DL_ATTR_cell)) {
        if (!dl_want_switch(n, DL_ATTR_cell, fault)) return false;
        if (ends(n) && dl_cell_of(n) != DL_LSTM)
            return dl_fault(fault, -1, "bad_attribute",
                            "%s has a cell state where its mode is lstm", dl_op_text(n));
    }
    return dl_want_switch(n, DL_ATTR_reverse, fault) && dl_want_float(n, 0, fault) &&
           dl_want_same_dtype(n, fault);
}

/* Operand i is [..., steps, features]. */
static bool check_steps(const dl_node *n, int i, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, i);
    return x->rank >= 2 || dl_fault(fault, i, "rank_mismatch",
                                    "%s expects %s as [..., steps, features], but it is %s",
                                    dl_op_text(n), dl_operand_text(i), dl_type_text(x));
}

/* Operand i is a weight [gates * size, columns], or without columns a bias. */
static bool check_weight(const dl_node *n, int i, int64_t rows, int64_t columns,
                         dl_shape_fault *fault) {
    const dl_type *w = dl_operand(n, i);
    int rank = columns < 0 ? 1 : 2;
    if (w->rank == rank && w->axis[0].size == rows && (rank == 1 || w->axis[1].size == columns))
        return true;
    if (rank == 1)
        return dl_fault(fault, i, "channel_mismatch",
                        "%s expects %s with one axis of %lld elements, but it is %s", dl_op_text(n),
                        dl_operand_text(i), (long long)rows, dl_type_text(w));
    return dl_fault(fault, i, "channel_mismatch", "%s expects %s as [%lld, %lld], but it is %s",
                    dl_op_text(n), dl_operand_text(i), (long long)rows, (long long)columns,
                    dl_type_text(w));
}

/* The units of the square weight, operand i; -1, a fault: it is none. */
static int64_t find_size(const dl_node *n, int i, dl_shape_fault *fault) {
    const dl_type *w = dl_operand(n, i);
    if (!dl_want_rank(n, i, 2, "a weight [gates * size, size]", fault)) return -1;
    int64_t size = w->axis[1].size, rows = dl_count_times(dl_cells[dl_cell_of(n)].gates, size);
    return check_weight(n, i, rows, size, fault) ? size : -1;
}

/* t's axes with so many rows, instead of steps, and features. */
static dl_type with_rows(const dl_type *t, int64_t rows, int64_t features) {
    dl_type r = dl_row_type(t);
    r.axis[r.rank - 2].size = rows, r.axis[r.rank - 1].size = features;
    return r;
}
/* The type of y, of n's steps. */
static dl_type states_type(const dl_node *n, const dl_type *steps, int64_t size) {
    return with_rows(steps, steps->axis[steps->rank - 2].size + ends(n), size);
}

static bool check_type(const dl_node *n, int i, dl_type want, dl_shape_fault *fault) {
    return dl_type_same(dl_operand(n, i), &want) ||
           dl_fault(fault, i, "axis_mismatch", "%s expects %s as %s, but it is %s", dl_op_text(n),
                    dl_operand_text(i), dl_type_text(&want), dl_type_text(dl_operand(n, i)));
}

/* The operand `start`, if there is one. */
static bool check_start(const dl_node *n, const dl_type *y, dl_shape_fault *fault) {
    int start = dl_recurrence_start(n);
    const int64_t size = y->axis[y->rank - 1].size;
    return start < 0 ||
           check_type(n, start, with_rows(y, dl_cells[dl_cell_of(n)].states, size), fault);
}

bool dl_rule_recurrence(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    int nin = dl_layer_is_biased(n) ? DL_LAYER_BIASED : DL_LAYER_PLAIN;
    if (!check_attributes(n, nin, fault) || !check_steps(n, 0, fault)) return false;
    const dl_type *x = dl_operand(n, DL_LAYER_X);
    int64_t size = find_size(n, DL_LAYER_W_HH, fault);
    if (size < 0) return false;
    int64_t rows = dl_operand(n, DL_LAYER_W_HH)->axis[0].size;
    if (!check_weight(n, DL_LAYER_W_IH, rows, x->axis[x->rank - 1].size, fault)) return false;
    for (int i = DL_LAYER_PLAIN; i < nin; i++)
        if (!check_weight(n, i, rows, -1, fault)) return false;
    *r = states_type(n, x, size);
    return check_start(n, r, fault);
}

bool dl_rule_recurrent(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (!check_attributes(n, DL_STEPS_IN, fault) || !check_steps(n, DL_STEPS_P, fault))
        return false;
    const dl_type *p = dl_operand(n, DL_STEPS_P);
    int64_t size = find_size(n, DL_STEPS_W, fault);
    if (size < 0) return false;
    int64_t rows = dl_operand(n, DL_STEPS_W)->axis[0].size;
    if (p->axis[p->rank - 1].size != rows)
        return dl_fault(fault, DL_STEPS_P, "channel_mismatch",
                        "%s expects %lld features of the first operand, but it is %s",
                        dl_op_text(n), (long long)rows, dl_type_text(p));
    if (!check_weight(n, DL_STEPS_B, rows, -1, fault)) return false;
    r[DL_STEPS_Y] = states_type(n, p, size);
    r[DL_STEPS_SAVED] = with_rows(p, p->axis[p->rank - 2].size,
                                  dl_count_times(dl_cells[dl_cell_of(n)].saved, size));
    return check_start(n, &r[DL_STEPS_Y], fault);
}

bool dl_rule_recurrent_grad(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const int saved = DL_STEPS_GRAD_SAVED;
    if (!check_attributes(n, DL_STEPS_GRAD_IN, fault) || !check_steps(n, saved, fault))
        return false;
    int64_t size = find_size(n, DL_STEPS_GRAD_W, fault);
    if (size < 0) return false;
    const dl_type *kept = dl_operand(n, saved);
    const dl_cell_info *cell = &dl_cells[dl_cell_of(n)];
    const int64_t steps = kept->axis[kept->rank - 2].size;
    const dl_type y = states_type(n, kept, size);
    if (!check_type(n, saved, with_rows(kept, steps, dl_count_times(cell->saved, size)), fault) ||
        !check_type(n, DL_STEPS_GRAD_Y, y, fault) || !check_type(n, DL_STEPS_GRAD_DY, y, fault))
        return false;
    r[DL_STEPS_DP] = with_rows(kept, steps, dl_count_times(cell->gates, size));
    r[DL_STEPS_DSTART] = with_rows(kept, dl_recurrence_start(n) < 0 ? 0 : cell->states, size);
    return check_start(n, &y, fault);
}

dl_recurrence dl_recurrence_of(const dl_node *n) {
    bool back = n->op == DL_OP_recurrent_grad;
    const dl_type *y = back ? &n->in[DL_STEPS_GRAD_Y]->type : &n->out[DL_STEPS_Y].type;
    dl_around rows = dl_type_around(y, y->rank - 2);
    dl_cell cell = dl_cell_of(n);
    return (dl_recurrence){.cell = cell,
                           .reverse = dl_node_int(n, DL_ATTR_reverse),
                           .started = dl_recurrence_start(n) >= 0,
                           .gates = dl_cells[cell].gates,
                           .saved = dl_cells[cell].saved,
                           .states = dl_cells[cell].states,
                           .batch = rows.outer,
                           .steps = rows.size - ends(n),
                           .size = rows.inner,
                           .ends = ends(n)};
}

int64_t dl_recurrence_flops(const dl_node *n) {
    dl_recurrence r = dl_recurrence_of(n);
    int64_t rows = dl_count_times(r.batch, r.steps), weights = dl_count_times(r.size, r.size);
    return dl_count_times(2 * r.gates, dl_count_times(rows, weights));
}

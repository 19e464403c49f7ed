/* The shape rules of recurrent layers, as a composite and as templates; their facts for all other
 * folders. */
#include "ir/base/str.h"
#include "ir/counts.h"
#include "ir/infer_rules.h"
#include "ir/recurrence.h"

const dl_cell_info dl_cells[DL_NCELLS] = {
    {"lstm", 4, 5}, {"gru", 3, 4}, {"rnn_tanh", 1, 0}, {"rnn_relu", 1, 0}};

dl_cell dl_cell_of(const dl_node *n) {
    dl_cell c = 0;
    while (c < DL_NCELLS && strcmp(dl_node_name(n, DL_ATTR_mode), dl_cells[c].name) != 0) c++;
    return c;
}

static bool check_attributes(const dl_node *n, int nin, dl_shape_fault *fault) {
    if (n->nin != nin)
        return dl_fault(fault, -1, "wrong_arity", "%s takes %d operands, not %d", dl_op_text(n),
                        nin, n->nin);
    if (dl_cell_of(n) == DL_NCELLS)
        return dl_fault(fault, -1, "bad_attribute",
                        "%s's mode is lstm, gru, rnn_tanh or rnn_relu, not %s", dl_op_text(n),
                        dl_node_name(n, DL_ATTR_mode));
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

static dl_type with_features(const dl_type *t, int64_t features) {
    dl_type r = dl_row_type(t);
    r.axis[r.rank - 1].size = features;
    return r;
}

bool dl_rule_recurrence(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    int nin = n->nin == DL_LAYER_PLAIN ? DL_LAYER_PLAIN : DL_LAYER_BIASED;
    if (!check_attributes(n, nin, fault) || !check_steps(n, 0, fault)) return false;
    const dl_type *x = dl_operand(n, DL_LAYER_X);
    int64_t size = find_size(n, DL_LAYER_W_HH, fault);
    if (size < 0) return false;
    int64_t rows = dl_operand(n, DL_LAYER_W_HH)->axis[0].size;
    if (!check_weight(n, DL_LAYER_W_IH, rows, x->axis[x->rank - 1].size, fault)) return false;
    for (int i = DL_LAYER_PLAIN; i < n->nin; i++)
        if (!check_weight(n, i, rows, -1, fault)) return false;
    *r = with_features(x, size);
    return true;
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
    r[DL_STEPS_Y] = with_features(p, size);
    r[DL_STEPS_SAVED] = with_features(p, dl_count_times(dl_cells[dl_cell_of(n)].saved, size));
    return true;
}

bool dl_rule_recurrent_grad(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    if (!check_attributes(n, DL_STEPS_GRAD_IN, fault) || !check_steps(n, DL_STEPS_GRAD_Y, fault))
        return false;
    int64_t size = find_size(n, DL_STEPS_GRAD_W, fault);
    if (size < 0) return false;
    const dl_type *y = dl_operand(n, DL_STEPS_GRAD_Y);
    const dl_cell_info *cell = &dl_cells[dl_cell_of(n)];
    const int64_t features[] = {0, size, dl_count_times(cell->saved, size), size};
    for (int i = DL_STEPS_GRAD_Y; i <= DL_STEPS_GRAD_DY; i++) {
        dl_type want = with_features(y, features[i]);
        if (!dl_type_same(dl_operand(n, i), &want))
            return dl_fault(fault, i, "axis_mismatch", "%s expects %s as %s, but it is %s",
                            dl_op_text(n), dl_operand_text(i), dl_type_text(&want),
                            dl_type_text(dl_operand(n, i)));
    }
    *r = with_features(y, dl_count_times(cell->gates, size));
    return true;
}

dl_recurrence dl_recurrence_of(const dl_node *n) {
    bool back = n->op == DL_OP_recurrent_grad;
    const dl_type *y = back ? &n->in[DL_STEPS_GRAD_Y]->type : &n->out[DL_STEPS_Y].type;
    dl_around steps = dl_type_around(y, y->rank - 2);
    dl_cell cell = dl_cell_of(n);
    return (dl_recurrence){.cell = cell,
                           .reverse = dl_node_int(n, DL_ATTR_reverse),
                           .gates = dl_cells[cell].gates,
                           .saved = dl_cells[cell].saved,
                           .batch = steps.outer,
                           .steps = steps.size,
                           .size = steps.inner};
}

int64_t dl_recurrence_flops(const dl_node *n) {
    dl_recurrence r = dl_recurrence_of(n);
    int64_t rows = dl_count_times(r.batch, r.steps), weights = dl_count_times(r.size, r.size);
    return dl_count_times(2 * r.gates, dl_count_times(rows, weights));
}

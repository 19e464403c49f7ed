/* Recurrent layers over one axis of steps: LSTM (Hochreiter and Schmidhuber 1997, with a forget
 * gate), GRU (Cho et al. 2014, in the variant of cuDNN) and plain recurrent networks. All facts
 * about them that shape rules, gradient, interpreter, cost and emitters share are in this header.
 *
 * The op `recurrence` is a layer in one direction. It is lowered to a product of all steps' inputs
 * with the input weight, and to the template `recurrent`, whose steps depend on each other. With
 * p[t] a step's input product, u = w h[t-1] + b, and gates in PyTorch's order:
 *
 *   lstm  i, f, o = sigmoid(p + u), g = tanh(p + u);  c[t] = f c[t-1] + i g, h[t] = o tanh(c[t])
 *   gru   r, z = sigmoid(p + u), n = tanh(p_n + r u_n);  h[t] = (1 - z) n + z h[t-1]
 *   rnn_tanh, rnn_relu  h[t] = tanh(p + u), relu(p + u)
 *
 * `reverse`: steps run from the last element to the first. Before the first step, h and c are zero,
 * or the rows of an operand, `start`: h, and of an LSTM c. The last h is the y of the last step.
 * With the attribute `cell`, y has a row more than there are steps, after them: an LSTM's last c.
 * So a layer has one result, and its gradient takes dy alone.
 *
 * The template's second result has what its gradient needs of each step: i, f, g, o and c, or r, z,
 * n and u_n; none of a plain network. Its gradient `recurrent_grad` makes the gradients of p and of
 * `start`: those of w and b are products and sums of that of p. States and sums are f32 (f64) with
 * 16-bit operands too; h[t] is rounded to its type before step t + 1 reads it. */
#ifndef DL_RECURRENCE_H
#define DL_RECURRENCE_H
#include "ir/graph.h"

/* Operands of `recurrence`, with biases or without: x [..., T, E], weights [gates * size, E] and
 * [gates * size, size], biases [gates * size]. After them may be `start`, [..., states, size],
 * whose axes have y's names. */
enum { DL_LAYER_X, DL_LAYER_W_IH, DL_LAYER_W_HH, DL_LAYER_PLAIN, DL_LAYER_BIASED = 5 };
/* Operands and results of `recurrent`: p [..., T, gates * size], w, b, maybe start -> y [..., T or
 * T + 1, size], saved [..., T, saved * size]. */
enum { DL_STEPS_P, DL_STEPS_W, DL_STEPS_B, DL_STEPS_IN };
enum { DL_STEPS_Y, DL_STEPS_SAVED };
/* Operands of `recurrent_grad`, after which may be start; its results are the gradients of p and of
 * start, which without start has no rows. */
enum { DL_STEPS_GRAD_W, DL_STEPS_GRAD_Y, DL_STEPS_GRAD_SAVED, DL_STEPS_GRAD_DY, DL_STEPS_GRAD_IN };
enum { DL_STEPS_DP, DL_STEPS_DSTART };

typedef enum { DL_LSTM, DL_GRU, DL_RNN_TANH, DL_RNN_RELU, DL_NCELLS } dl_cell;
typedef struct {
    const char *name, *symbol; /* attribute `mode`; in the texts of kernels */
    int gates, saved;          /* of each unit */
    int states;                /* h, or h and c */
} dl_cell_info;
extern const dl_cell_info dl_cells[DL_NCELLS];
/* The cell that a node's mode names; DL_NCELLS: none. */
dl_cell dl_cell_of(const dl_node *n);
/* Has a `recurrence` biases? */
static inline bool dl_layer_is_biased(const dl_node *n) { return n->nin >= DL_LAYER_BIASED; }
/* The index of the operand `start` of a `recurrence`, `recurrent` or `recurrent_grad`; -1: none. */
int dl_recurrence_start(const dl_node *n);

typedef struct {
    dl_cell cell;
    bool reverse, started; /* started: has an operand `start` */
    int gates, saved, states;
    int64_t batch, steps, size; /* batch: sequences; size: units */
    int64_t ends;               /* rows of y after the steps: 0, or 1 of the last c */
} dl_recurrence;
/* The steps of a valid `recurrent` or `recurrent_grad`. */
dl_recurrence dl_recurrence_of(const dl_node *n);
/* The multiply-adds with w, 2 each. */
int64_t dl_recurrence_flops(const dl_node *n);
#endif

/* Recurrent layers as formulas: a step, and the scan of it. */
#ifndef DL_IMPORTS_DL_STEP_H
#define DL_IMPORTS_DL_STEP_H
#include "imports/dl/rules.h"

enum { DL_IN_STATES = 2 };

/* A step of `gates` gates: 4 of an LSTM, whose states are h and c; 3 of a GRU; 1 of an RNN. */
typedef struct dl_in_step dl_in_step;
struct dl_in_step {
    dl_in_ctx *c; /* where it is said */
    int gates;
    int64_t hidden;          /* features of a gate */
    const dl_in_value *form; /* [N, hidden]: a state of that many features */
    const char *function[3]; /* activations: of gates, of new content, of an LSTM's output */
    dl_in_value *x;          /* [N, (gates hidden)]: the input's part of all gates */
    dl_in_value *state[DL_IN_STATES];
    double clip;            /* of what activations read; 0: none */
    dl_in_value *peepholes; /* [(3 hidden)], or NULL */
    bool input_forget;      /* the forget gate is 1 minus the input gate */
    bool reset_first;       /* a GRU's reset gate comes before its product */
    bool projected;         /* an LSTM's output */
    /* h times the weights of that role, plus their bias: "hh" for all gates; "new" for a GRU's new
     * content, where the reset comes first; "hr" of the projection. NULL: they do not fit. */
    dl_in_value *(*product)(dl_in_step *s, dl_in_value *h, const char *role);
    const void *weights; /* product's */
};

/* Says the next states. False: weights do not fit. */
bool dl_say_step(dl_in_step *s, dl_in_value **next);

/* x [N, features] w^T + b, with the names of the form's axes. NULL: they do not fit. */
dl_in_value *dl_step_product(dl_in_step *s, const dl_in_value *x, const dl_foreign_tensor *weight,
                             const dl_foreign_tensor *bias);

/* A body of a step, [N, features] and states to states, along x: [T, N, features]. */
typedef struct {
    dl_in_body *body;
    dl_in_value *x, *start[DL_IN_STATES];
    int states;
    bool reverse;
} dl_in_scan;

/* Makes the inputs of the scan's body, for the step: of x without the axis of steps, and the
 * states. */
void dl_enter_step(dl_in_ctx *c, const dl_in_scan *scan, dl_in_step *s);
/* An LSTM with proj_size of x, [T, N, features]: sets the node's results, the first one [T, N,
 * (directions projected)]. False: another form. (rules_projected.c) */
bool dl_in_projected(dl_in_ctx *c, dl_in_value *x, int layers, int directions, bool biases);
/* Says the scan; returns its statement, whose results are all first states and the last ones. */
int dl_say_scan(dl_in_ctx *c, const dl_in_scan *s);
/* Result k of that statement: [T, N, hidden], or a state. */
dl_in_value *dl_scan_result(dl_in_ctx *c, const dl_in_scan *s, int scan, int k);
#endif

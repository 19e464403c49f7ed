/* Recurrent layers as PyTorch has them: several, one on the other, are one op. */
#ifndef DL_IMPORTS_ONNX_LAYERS_H
#define DL_IMPORTS_ONNX_LAYERS_H
#include "imports/onnx/parts.h"

enum { DL_OX_STATES = 2, DL_OX_PARTS = 8 };

/* A weight or bias of a layer and direction. */
typedef struct {
    const dl_ox_row *rows; /* in PyTorch's order of gates */
    dl_ox_shape shape;
    dl_ox_value *own;  /* the file's parameter that it is, or NULL */
    dl_ox_value *made; /* a parameter of ours, once it is needed */
} dl_ox_part;

/* A node LSTM, GRU or RNN, and the layers below it that have become one op with it. */
struct dl_ox_layer {
    const dl_ox_node *node;
    const char *op; /* of PyTorch */
    bool batch_first, biases;
    int directions, states;
    int64_t features, hidden;
    dl_ox_value *x;                   /* its input, in the order of steps */
    dl_ox_value *start[DL_OX_STATES]; /* [directions, N, hidden]; NULL: zeros */
    int n_parts;
    dl_ox_part parts[DL_OX_PARTS];
    const char *label; /* of parameters of ours; of the lowest layer */
    dl_ox_value *y;    /* the op's result */
    double rate;       /* of dropout between this layer and the one below */
    dl_ox_layer *below;
};

/* Makes PyTorch's op of the layer, together with the layers below it of which its input is the
 * whole result, and sets the last states of them all. The steps' states; NULL: it cannot be said,
 * or r->err is set. */
dl_ox_value *dl_ox_make_layer(dl_ox_op *o, dl_ox_layer *l);
/* Sets the node's results by scans of a cell: a layer that PyTorch lacks, such as a GRU that resets
 * the state before its product. gates: 4 of an LSTM, 3, 1. False: it cannot be said, or r->err is
 * set. (ops_cells.c) */
bool dl_ox_make_cells(dl_ox_op *o, const dl_ox_layer *l, int gates);
#endif

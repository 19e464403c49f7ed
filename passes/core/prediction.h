/* A model as a function of its inputs: the third program, "predict", and how far each of its
 * results sees. */
#ifndef DL_PREDICTION_H
#define DL_PREDICTION_H
#include "ir/graph.h"

/* Leaves of a module with the graphs "train" and "eval", as the front end builds them, one graph
 * "predict": that of evaluation (running statistics, no dropout) without loss, metrics, figures and
 * targets, and without what only these need. Parameters and the model's own state all stay, so that
 * a file of weights fits. Errors (DL_INPUT): an output that is made of a target. */
bool dl_keep_prediction(dl_module *m, dl_error *err);

/* Which positions along one axis of the inputs an output is made of. Output position o reads input
 * positions from o num / den + lo to o num / den + hi, where the model's tensors have an element
 * there; what a layer reads beside a tensor lies outside the input, too. The same holds of a part
 * of a longer input, as long as that begins at a multiple of `step`, so that all strides fall as
 * they do in the whole. */
typedef struct {
    bool bounded;
    int axis;         /* of the output, along which it goes; -1: along none */
    int64_t num, den; /* input positions an output position */
    int64_t step;
    double lo, hi;
    const char
        *why;     /* not bounded: what sees every position, or depends on the place: "mean", ... */
    dl_loc where; /* and where the model says so */
} dl_reach;

/* Of a graph as the pass `lower` leaves it, along the axis of this (interned) name of all inputs
 * that have it, which a piece has the same part of. An axis along which an output does not cover
 * the whole input (convolutions without padding, slices) counts as not bounded, as does linear
 * upsampling, whose weights are made of positions. The theory: Araujo, Norris, Sim, Computing
 * receptive fields of convolutional neural networks, Distill 2019. */
dl_reach dl_find_reach(const dl_graph *g, const char *axis, const dl_value *output);
#endif

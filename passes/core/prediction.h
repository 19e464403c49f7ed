/* A model as a function of its inputs: the third program, "predict", and the receptive fields of
 * its results. */
#ifndef DL_PREDICTION_H
#define DL_PREDICTION_H
#include "ir/graph.h"

/* Removes all graphs of a module except one new graph "predict". In: the graphs "train" and
 * "eval", as the front end builds them. "predict" is "eval" (running statistics, no dropout)
 * without loss, metrics, figures and targets, and without nodes that only these need. Parameters
 * and the model's own state all stay, so that a file of weights fits. Errors (DL_INPUT): an
 * output depends on a target, or draws random numbers. */
bool dl_keep_prediction(dl_module *m, dl_error *err);

/* Removes all graphs but "eval", as it is: outputs, loss, metrics and targets. Parameters and the
 * model's own state all stay, as above. */
void dl_keep_evaluation(dl_module *m);

/* The receptive field of an output along one axis of the inputs. Output position o reads input
 * positions from o num / den + lo to o num / den + hi, as far as the model's tensors have
 * elements there. Elements that a layer reads outside a tensor are outside the input, too. A
 * part of a longer input has the same field if it begins at a multiple of `step`, so that all
 * strides fall on the same positions as in the whole. */
typedef struct {
    bool bounded;
    int axis;         /* the output's axis along which the field moves; -1: none */
    int64_t num, den; /* input positions for each output position */
    int64_t step;
    double lo, hi;
    const char *why; /* not bounded: the op that reads every position, or depends on the absolute
                        position ("mean", ...) */
    dl_loc where;    /* and the place of that op in the model */
} dl_reach;

/* In: a graph after the pass `lower`; `axis` (interned) is the name of the axis in all inputs
 * that are cut along it. An axis along which an output does not cover the whole input
 * (convolutions without padding, slices) counts as not bounded. So does linear upsampling, whose
 * weights depend on the position. Theory: Araujo, Norris, Sim, Computing receptive fields of
 * convolutional neural networks, Distill 2019. */
dl_reach dl_find_reach(const dl_graph *g, const char *axis, const dl_value *output);
#endif

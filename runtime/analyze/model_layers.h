/* The layers of a model, as its parameters' names divide it: what each computes, from which layers
 * it takes its operands, and its cost in a forward pass. */
#ifndef DL_MODEL_LAYERS_H
#define DL_MODEL_LAYERS_H
#include "compiler/session.h"

/* An operand of a layer: a result of another layer, or an input of the model. */
typedef struct {
    int from; /* index of a layer */
    const dl_type *type;
} dl_layer_operand;

/* A layer: the nodes that apply the parameters of one path, once, and pointwise work on their
 * result. Nodes without parameters that join layers (a concatenation, attention) are layers
 * without a path. An input of the model is one, too. */
typedef struct {
    const char *path; /* "blocks.0.attn.proj"; an input's name; "": it has no parameters */
    const char *kind; /* as the model has it: "conv", "cat", "input" */
    int line;         /* of the model's text */
    dl_type type;     /* of its result */
    bool is_input;
    int64_t parameters; /* trained elements, each counted by the first layer that reads it */
    int64_t flops;      /* of a forward pass, counted as the compiler counts kernels */
    DL_ARRAY(dl_layer_operand) operands;
} dl_model_layer;

typedef struct {
    DL_ARRAY(dl_model_layer) list; /* an operand stands before its readers */
    int64_t parameters, flops;     /* sums; flops also have work that no layer has */
    DL_ARRAY(dl_layer_operand) outputs;
} dl_model_layers;

/* The layers of the session's graph for prediction, which replaces its module. Everything is in the
 * session's arena. NULL: errors of dl_session_predict; DL_INPUT for an op that cannot be
 * compiled. */
const dl_model_layers *dl_find_model_layers(dl_session *s, dl_error *err);

/* The same with layers of one path up to `depth` names as one ("blocks.0" of "blocks.0.attn.proj"
 * and of what lies between its layers); depth 0: as they are. */
const dl_model_layers *dl_group_model_layers(dl_arena *arena, const dl_model_layers *m, int depth);

/* "N=1, C=64, H=32". */
const char *dl_axes_text(dl_arena *arena, const dl_type *t);
#endif

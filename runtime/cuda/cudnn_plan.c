/* A convolution as a graph of cuDNN's backend, and execution plans of engines for it. */
#include <string.h>

#include "runtime/cuda/cudnn.h"

enum {
    ROOM = 256 << 20, /* most workspace bytes of a plan: larger ones are copies of whole operands */
    CANDIDATES = 16,  /* configurations from each mode of the heuristics */
    NOTES = 32
};

#define MAKE(w, to, type, ...)                                                                     \
    dlr_dnn_make((w)->l, (to), (type),                                                             \
                 (int)(sizeof(dlr_dnn_attribute[]){__VA_ARGS__} / sizeof(dlr_dnn_attribute)),      \
                 (const dlr_dnn_attribute[]){__VA_ARGS__})

int dlr_dnn_make(const dlr_cudnn *l, dlr_dnn_desc *to, int type, int n,
                 const dlr_dnn_attribute *a) {
    int status = l->BackendCreateDescriptor(type, to);
    for (int i = 0; !status && i < n; i++)
        if (a[i].n) status = l->BackendSetAttribute(*to, a[i].what, a[i].type, a[i].n, a[i].values);
    return status ? status : l->BackendFinalize(*to);
}

static void drop(const dlr_dnn_work *w, dlr_dnn_desc *desc) {
    if (*desc) w->l->BackendDestroyDescriptor(*desc);
    *desc = NULL;
}

/* ---- the operation ---- */

/* The number of spatial axes, at least two. The first of three is left out where its extent is 1
 * and no window moves along it. */
static int spatial_of(const dl_convolution *c) {
    return c->size.in[0] == 1 && c->size.tap[0] == 1 && c->size.out[0] == 1 && !c->size.pad_lo[0]
               ? 2
               : 3;
}

static int describe_tensor(dlr_dnn_work *w, dl_tensor of) {
    const dl_convolution *c = &w->call.convolution;
    const dl_lattice *at = &c->of[of];
    int n = spatial_of(c), type = at->dtype == DL_BF16  ? DLR_DNN_BFLOAT16
                                  : at->dtype == DL_F16 ? DLR_DNN_HALF
                                                        : DLR_DNN_FLOAT;
    int64_t size[DL_TENSOR_AXES], step[DL_TENSOR_AXES], name = of,
                                                        alignment = dlr_call_alignment(at->offset);
    dl_convolution_sizes(c, of, size);
    memcpy(step, at->step, sizeof step);
    memmove(size + 2, size + DL_TENSOR_AXES - n, (size_t)n * sizeof *size);
    memmove(step + 2, step + DL_TENSOR_AXES - n, (size_t)n * sizeof *step);
    if (alignment > 16) alignment = 16; /* engines ask for no more */
    return MAKE(w, &w->tensor[of], DLR_DNN_TENSOR,
                {DLR_DNN_TENSOR_UNIQUE_ID, DLR_DNN_TYPE_INT64, 1, &name},
                {DLR_DNN_TENSOR_DATA_TYPE, DLR_DNN_TYPE_DATA_TYPE, 1, &type},
                {DLR_DNN_TENSOR_BYTE_ALIGNMENT, DLR_DNN_TYPE_INT64, 1, &alignment},
                {DLR_DNN_TENSOR_DIMENSIONS, DLR_DNN_TYPE_INT64, n + 2, size},
                {DLR_DNN_TENSOR_STRIDES, DLR_DNN_TYPE_INT64, n + 2, step});
}

static int describe_convolution(dlr_dnn_work *w) {
    const dl_convolution *c = &w->call.convolution;
    int n = spatial_of(c), type = DLR_DNN_FLOAT, mode = DLR_DNN_CROSS_CORRELATION;
    int64_t axes = n;
    return MAKE(w, &w->convolution, DLR_DNN_CONVOLUTION,
                {DLR_DNN_CONVOLUTION_COMP_TYPE, DLR_DNN_TYPE_DATA_TYPE, 1, &type},
                {DLR_DNN_CONVOLUTION_CONV_MODE, DLR_DNN_TYPE_CONVOLUTION_MODE, 1, &mode},
                {DLR_DNN_CONVOLUTION_SPATIAL_DIMS, DLR_DNN_TYPE_INT64, 1, &axes},
                {DLR_DNN_CONVOLUTION_DILATIONS, DLR_DNN_TYPE_INT64, n, c->size.dilation + 3 - n},
                {DLR_DNN_CONVOLUTION_FILTER_STRIDES, DLR_DNN_TYPE_INT64, n, c->size.stride + 3 - n},
                {DLR_DNN_CONVOLUTION_PRE_PADDINGS, DLR_DNN_TYPE_INT64, n, c->size.pad_lo + 3 - n},
                {DLR_DNN_CONVOLUTION_POST_PADDINGS, DLR_DNN_TYPE_INT64, n, c->size.pad_hi + 3 - n});
}

/* Indexed by the tensor that the operation makes. */
static const struct {
    int type, alpha, beta, convolution, tensor[DL_NTENSORS];
} operations[DL_NTENSORS] = {
    [DL_TENSOR_X] = {DLR_DNN_BACKWARD_DATA,
                     DLR_DNN_BWD_DATA_ALPHA,
                     DLR_DNN_BWD_DATA_BETA,
                     DLR_DNN_BWD_DATA_CONV_DESC,
                     {[DL_TENSOR_X] = DLR_DNN_BWD_DATA_DX,
                      [DL_TENSOR_W] = DLR_DNN_BWD_DATA_W,
                      [DL_TENSOR_Y] = DLR_DNN_BWD_DATA_DY}},
    [DL_TENSOR_W] = {DLR_DNN_BACKWARD_FILTER,
                     DLR_DNN_BWD_FILTER_ALPHA,
                     DLR_DNN_BWD_FILTER_BETA,
                     DLR_DNN_BWD_FILTER_CONV_DESC,
                     {[DL_TENSOR_X] = DLR_DNN_BWD_FILTER_X,
                      [DL_TENSOR_W] = DLR_DNN_BWD_FILTER_DW,
                      [DL_TENSOR_Y] = DLR_DNN_BWD_FILTER_DY}},
    [DL_TENSOR_Y] = {DLR_DNN_FORWARD,
                     DLR_DNN_FORWARD_ALPHA,
                     DLR_DNN_FORWARD_BETA,
                     DLR_DNN_FORWARD_CONV_DESC,
                     {[DL_TENSOR_X] = DLR_DNN_FORWARD_X,
                      [DL_TENSOR_W] = DLR_DNN_FORWARD_W,
                      [DL_TENSOR_Y] = DLR_DNN_FORWARD_Y}},
};

static int describe_operation(dlr_dnn_work *w) {
    const __typeof__(*operations) *o = &operations[w->call.convolution.makes];
    float one = 1, none = 0;
    return MAKE(w, &w->operation, o->type, {o->alpha, DLR_DNN_TYPE_FLOAT, 1, &one},
                {o->beta, DLR_DNN_TYPE_FLOAT, 1, &none},
                {o->convolution, DLR_DNN_TYPE_DESCRIPTOR, 1, &w->convolution},
                {o->tensor[DL_TENSOR_X], DLR_DNN_TYPE_DESCRIPTOR, 1, &w->tensor[DL_TENSOR_X]},
                {o->tensor[DL_TENSOR_W], DLR_DNN_TYPE_DESCRIPTOR, 1, &w->tensor[DL_TENSOR_W]},
                {o->tensor[DL_TENSOR_Y], DLR_DNN_TYPE_DESCRIPTOR, 1, &w->tensor[DL_TENSOR_Y]});
}

int dlr_dnn_describe(dlr_dnn_work *w) {
    int status = 0;
    for (dl_tensor t = DL_TENSOR_X; !status && t < DL_NTENSORS; t++) status = describe_tensor(w, t);
    if (!status) status = describe_convolution(w);
    if (!status) status = describe_operation(w);
    if (status) return status;
    return MAKE(w, &w->graph, DLR_DNN_OPERATIONGRAPH,
                {DLR_DNN_OPERATIONGRAPH_HANDLE, DLR_DNN_TYPE_HANDLE, w->handle != NULL, &w->handle},
                {DLR_DNN_OPERATIONGRAPH_OPS, DLR_DNN_TYPE_DESCRIPTOR, 1, &w->operation});
}

/* ---- algorithms: the first word is the engine and the number of knobs; then two knobs per word,
 * each its type (8 bits) and its value (24) ---- */

static void drop_plan(dlr_dnn_work *w) {
    drop(w, &w->plan), drop(w, &w->config), drop(w, &w->engine);
    for (int i = 0; i < DLR_DNN_KNOBS; i++) drop(w, &w->knob[i]);
}

int dlr_dnn_make_plan(dlr_dnn_work *w, const dl_algorithm *a, int64_t *workspace) {
    int64_t number = (uint32_t)a->words[0], n = (int64_t)(a->words[0] >> 32);
    int status = n <= DLR_DNN_KNOBS ? 0 : DLR_DNN_BAD_PARAM;
    drop_plan(w);
    if (!status)
        status = MAKE(
            w, &w->engine, DLR_DNN_ENGINE,
            {DLR_DNN_ENGINE_OPERATION_GRAPH, DLR_DNN_TYPE_DESCRIPTOR, 1, &w->graph},
            {DLR_DNN_ENGINE_GLOBAL_INDEX, DLR_DNN_TYPE_INT64, 1, &number},
            {DLR_DNN_ENGINE_DEVICEPROP, DLR_DNN_TYPE_DESCRIPTOR, w->device != NULL, &w->device});
    for (int i = 0; !status && i < n; i++) {
        uint32_t both = (uint32_t)(a->words[1 + i / 2] >> 32 * (i % 2));
        int type = (int)(both >> 24);
        int64_t value = both & 0xffffff;
        status = MAKE(w, &w->knob[i], DLR_DNN_KNOB_CHOICE,
                      {DLR_DNN_KNOB_CHOICE_KNOB_TYPE, DLR_DNN_TYPE_KNOB_TYPE, 1, &type},
                      {DLR_DNN_KNOB_CHOICE_KNOB_VALUE, DLR_DNN_TYPE_INT64, 1, &value});
    }
    if (!status)
        status = MAKE(w, &w->config, DLR_DNN_ENGINECFG,
                      {DLR_DNN_ENGINECFG_ENGINE, DLR_DNN_TYPE_DESCRIPTOR, 1, &w->engine},
                      {DLR_DNN_ENGINECFG_KNOB_CHOICES, DLR_DNN_TYPE_DESCRIPTOR, n, w->knob});
    if (!status)
        status = MAKE(
            w, &w->plan, DLR_DNN_EXECUTION_PLAN,
            {DLR_DNN_EXECUTION_PLAN_HANDLE, DLR_DNN_TYPE_HANDLE, w->handle != NULL, &w->handle},
            {DLR_DNN_EXECUTION_PLAN_DEVICEPROP, DLR_DNN_TYPE_DESCRIPTOR, w->device != NULL,
             &w->device},
            {DLR_DNN_EXECUTION_PLAN_ENGINE_CONFIG, DLR_DNN_TYPE_DESCRIPTOR, 1, &w->config});
    if (status) return status;
    return w->l->BackendGetAttribute(w->plan, DLR_DNN_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     DLR_DNN_TYPE_INT64, 1, &n, workspace);
}

/* Whether the engine's notes promise the same bits each time, and f32 sums of exact products. f32
 * operands are multiplied by tensor cores in TF32, and without tensor cores in f32. */
static bool is_true(const dlr_dnn_work *w, dlr_dnn_desc engine) {
    const dl_convolution *c = &w->call.convolution;
    int notes[NOTES];
    int64_t n = 0;
    bool cores = false,
         ok = !w->l->BackendGetAttribute(engine, DLR_DNN_ENGINE_NUMERICAL_NOTE,
                                         DLR_DNN_TYPE_NUMERICAL_NOTE, NOTES, &n, notes) &&
              n <= NOTES;
    for (int64_t i = 0; ok && i < n; i++) {
        cores |= notes[i] == DLR_DNN_NOTE_TENSOR_CORE;
        ok = notes[i] == DLR_DNN_NOTE_TENSOR_CORE || notes[i] == DLR_DNN_NOTE_STRICT_NAN_PROP;
    }
    return ok && (c->of[c->makes == DL_TENSOR_X ? DL_TENSOR_Y : DL_TENSOR_X].dtype != DL_F32 ||
                  cores == c->tf32);
}

static bool read_knobs(const dlr_dnn_work *w, dlr_dnn_desc config, dlr_dnn_desc *knob,
                       dl_algorithm *a) {
    const dlr_cudnn *l = w->l;
    int64_t n = 0, one, value = 0;
    int type = 0;
    if (l->BackendGetAttribute(config, DLR_DNN_ENGINECFG_KNOB_CHOICES, DLR_DNN_TYPE_DESCRIPTOR,
                               DLR_DNN_KNOBS, &n, knob) ||
        n > DLR_DNN_KNOBS)
        return false;
    for (int i = 0; i < n; i++) {
        if (l->BackendGetAttribute(knob[i], DLR_DNN_KNOB_CHOICE_KNOB_TYPE, DLR_DNN_TYPE_KNOB_TYPE,
                                   1, &one, &type) ||
            l->BackendGetAttribute(knob[i], DLR_DNN_KNOB_CHOICE_KNOB_VALUE, DLR_DNN_TYPE_INT64, 1,
                                   &one, &value) ||
            type < 0 || type > 0xff || value < 0 || value > 0xffffff)
            return false;
        a->words[1 + i / 2] |= (uint64_t)((uint32_t)type << 24 | (uint32_t)value) << 32 * (i % 2);
    }
    a->words[0] |= (uint64_t)n << 32;
    return true;
}

/* Encodes a configuration of the heuristics as an algorithm's words. False: it is not allowed, or
 * cannot be encoded. */
static bool read_config(const dlr_dnn_work *w, dlr_dnn_desc config, dl_algorithm *a) {
    const dlr_cudnn *l = w->l;
    dlr_dnn_desc engine = NULL, knob[DLR_DNN_KNOBS] = {NULL};
    int64_t one, number = -1;
    bool ok = !l->BackendCreateDescriptor(DLR_DNN_ENGINE, &engine);
    for (int i = 0; ok && i < DLR_DNN_KNOBS; i++)
        ok = !l->BackendCreateDescriptor(DLR_DNN_KNOB_CHOICE, &knob[i]);
    ok = ok &&
         !l->BackendGetAttribute(config, DLR_DNN_ENGINECFG_ENGINE, DLR_DNN_TYPE_DESCRIPTOR, 1, &one,
                                 &engine) &&
         !l->BackendGetAttribute(engine, DLR_DNN_ENGINE_GLOBAL_INDEX, DLR_DNN_TYPE_INT64, 1, &one,
                                 &number) &&
         number >= 0 && number <= INT32_MAX && is_true(w, engine);
    *a = (dl_algorithm){.library = DL_LIBRARY_CUDNN,
                        .version = l->version,
                        .form = w->call.algorithm.form,
                        .words = {(uint32_t)number}};
    ok = ok && read_knobs(w, config, knob, a);
    drop(w, &engine);
    for (int i = 0; i < DLR_DNN_KNOBS; i++) drop(w, &knob[i]);
    return ok;
}

/* Appends the allowed configurations among `n` that fit the workspace, until there are `most` of
 * them. */
static int take(dlr_dnn_work *w, int64_t n, const dlr_dnn_desc *config, int kept, int most,
                dl_algorithm *to) {
    for (int64_t i = 0; i < n && kept < most; i++) {
        dl_algorithm *a = &to[kept];
        bool known = false;
        if (!read_config(w, config[i], a)) continue;
        for (int k = 0; k < kept; k++) known |= memcmp(to[k].words, a->words, sizeof a->words) == 0;
        if (!known && !dlr_dnn_make_plan(w, a, &a->workspace) && a->workspace >= 0 &&
            a->workspace <= ROOM)
            kept++;
    }
    return kept;
}

int dlr_dnn_candidates(dlr_dnn_work *w, int most, dl_algorithm *to) {
    static const int modes[] = {DLR_DNN_HEUR_MODE_A, DLR_DNN_HEUR_MODE_FALLBACK};
    int kept = 0;
    for (int m = 0; m < 2 && kept < most; m++) {
        dlr_dnn_desc heuristics = NULL, config[CANDIDATES] = {NULL};
        int64_t n = 0;
        int status =
            MAKE(w, &heuristics, DLR_DNN_ENGINEHEUR,
                 {DLR_DNN_ENGINEHEUR_OPERATION_GRAPH, DLR_DNN_TYPE_DESCRIPTOR, 1, &w->graph},
                 {DLR_DNN_ENGINEHEUR_MODE, DLR_DNN_TYPE_HEUR_MODE, 1, &modes[m]},
                 {DLR_DNN_ENGINEHEUR_DEVICEPROP, DLR_DNN_TYPE_DESCRIPTOR, w->device != NULL,
                  &w->device});
        for (int i = 0; !status && i < CANDIDATES; i++)
            status = w->l->BackendCreateDescriptor(DLR_DNN_ENGINECFG, &config[i]);
        if (!status)
            status = w->l->BackendGetAttribute(heuristics, DLR_DNN_ENGINEHEUR_RESULTS,
                                               DLR_DNN_TYPE_DESCRIPTOR, CANDIDATES, &n, config);
        if (!status) kept = take(w, n < CANDIDATES ? n : CANDIDATES, config, kept, most, to);
        for (int i = 0; i < CANDIDATES; i++) drop(w, &config[i]);
        drop(w, &heuristics);
    }
    return kept;
}

void dlr_dnn_end(dlr_dnn_work *w) {
    drop_plan(w);
    drop(w, &w->graph), drop(w, &w->operation), drop(w, &w->convolution);
    for (dl_tensor t = DL_TENSOR_X; t < DL_NTENSORS; t++) drop(w, &w->tensor[t]);
}

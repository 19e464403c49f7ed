/* A library of the shape of libcudnn.so.9's backend on the emulated driver: what it does it does as
 * host functions in the stream of its handle, which can be captured. It is stricter than cuDNN:
 * every attribute must be one of its descriptor's, of its type, set before the end and only then;
 * every byte that a plan reads and writes must lie in the device's memory, at the alignment that
 * was promised. Its engines:
 *
 *     0  multiplies in f32
 *     1  by tensor cores, f32 in TF32; knob SPLIT_K_SLC: in how many parts, which it adds in its
 * workspace 2  like it, and says that its bits may differ: they do 3  like it, and says that it
 * transforms (Winograd): its sums are off
 *
 *     CUDNN_STANDIN_VERSION=92700  the version that it says it is of
 *     CUDNN_STANDIN_WRONG=1        its sums leave out the last terms
 *     CUDNN_STANDIN_FAULT=K        the K-th execution fails
 *     CUDNN_STANDIN_LOG=FILE       a line for each plan that is put into a stream */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cudnn_standin.h"

/* The library's functions are those of the runtime's table. */
#define DECLARE(name, result, arguments) result cudnn##name arguments;
DLR_CUDNN_FUNCTIONS(DECLARE)

struct cudnnContext {
    int64_t executions;
    dlr_cu_stream stream;
};

typedef struct {
    int what;
    int64_t n;
    char values[MOST * 8];
} attribute;

typedef struct {
    int type, count;
    bool final;
    attribute of[ATTRIBUTES];
} descriptor;

size_t cudnnGetVersion(void) { return (size_t)number("CUDNN_STANDIN_VERSION", VERSION); }
const char *cudnnGetErrorString(int status) {
    return status == DLR_DNN_NOT_SUPPORTED             ? "CUDNN_STATUS_NOT_SUPPORTED"
           : status == DLR_DNN_BAD_PARAM               ? "CUDNN_STATUS_BAD_PARAM"
           : status == DLR_DNN_BAD_PARAM_NOT_FINALIZED ? "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"
           : status == DLR_DNN_EXECUTION_FAILED        ? "CUDNN_STATUS_EXECUTION_FAILED"
           : status == DLR_DNN_NOT_INITIALIZED         ? "CUDNN_STATUS_NOT_INITIALIZED"
                                                       : "CUDNN_STATUS_SUCCESS";
}
int cudnnCreate(dlr_dnn_handle *handle) {
    *handle = driver() ? calloc(1, sizeof **handle) : NULL;
    return *handle ? 0 : DLR_DNN_NOT_INITIALIZED;
}
int cudnnDestroy(dlr_dnn_handle handle) { return free(handle), 0; }
int cudnnSetStream(dlr_dnn_handle handle, dlr_cu_stream s) { return handle->stream = s, 0; }

/* ---- descriptors ---- */

/* The attributes of each: all that it must have; ENGINECFG's knobs and what is only read (n 0) it
 * may lack.
 */
#define OPERATION(d, D, x, w, y)                                                                   \
    {d, DLR_DNN_##D##_ALPHA, DLR_DNN_TYPE_FLOAT, 1, true},                                         \
        {d, DLR_DNN_##D##_BETA, DLR_DNN_TYPE_FLOAT, 1, true},                                      \
        {d, DLR_DNN_##D##_CONV_DESC, DLR_DNN_TYPE_DESCRIPTOR, 1, true},                            \
        {d, DLR_DNN_##D##_##x, DLR_DNN_TYPE_DESCRIPTOR, 1, true},                                  \
        {d, DLR_DNN_##D##_##w, DLR_DNN_TYPE_DESCRIPTOR, 1, true},                                  \
        {d, DLR_DNN_##D##_##y, DLR_DNN_TYPE_DESCRIPTOR, 1, true},
static const struct {
    int of, what, type, most;
    bool must;
} known[] = {
    {DLR_DNN_CONVOLUTION, DLR_DNN_CONVOLUTION_COMP_TYPE, DLR_DNN_TYPE_DATA_TYPE, 1, true},
    {DLR_DNN_CONVOLUTION, DLR_DNN_CONVOLUTION_CONV_MODE, DLR_DNN_TYPE_CONVOLUTION_MODE, 1, true},
    {DLR_DNN_CONVOLUTION, DLR_DNN_CONVOLUTION_SPATIAL_DIMS, DLR_DNN_TYPE_INT64, 1, true},
    {DLR_DNN_CONVOLUTION, DLR_DNN_CONVOLUTION_DILATIONS, DLR_DNN_TYPE_INT64, 3, true},
    {DLR_DNN_CONVOLUTION, DLR_DNN_CONVOLUTION_FILTER_STRIDES, DLR_DNN_TYPE_INT64, 3, true},
    {DLR_DNN_CONVOLUTION, DLR_DNN_CONVOLUTION_PRE_PADDINGS, DLR_DNN_TYPE_INT64, 3, true},
    {DLR_DNN_CONVOLUTION, DLR_DNN_CONVOLUTION_POST_PADDINGS, DLR_DNN_TYPE_INT64, 3, true},
    {DLR_DNN_ENGINE, DLR_DNN_ENGINE_OPERATION_GRAPH, DLR_DNN_TYPE_DESCRIPTOR, 1, true},
    {DLR_DNN_ENGINE, DLR_DNN_ENGINE_GLOBAL_INDEX, DLR_DNN_TYPE_INT64, 1, true},
    {DLR_DNN_ENGINECFG, DLR_DNN_ENGINECFG_ENGINE, DLR_DNN_TYPE_DESCRIPTOR, 1, true},
    {DLR_DNN_ENGINECFG, DLR_DNN_ENGINECFG_KNOB_CHOICES, DLR_DNN_TYPE_DESCRIPTOR, MOST, false},
    {DLR_DNN_ENGINEHEUR, DLR_DNN_ENGINEHEUR_OPERATION_GRAPH, DLR_DNN_TYPE_DESCRIPTOR, 1, true},
    {DLR_DNN_ENGINEHEUR, DLR_DNN_ENGINEHEUR_MODE, DLR_DNN_TYPE_HEUR_MODE, 1, true},
    {DLR_DNN_EXECUTION_PLAN, DLR_DNN_EXECUTION_PLAN_HANDLE, DLR_DNN_TYPE_HANDLE, 1, true},
    {DLR_DNN_EXECUTION_PLAN, DLR_DNN_EXECUTION_PLAN_ENGINE_CONFIG, DLR_DNN_TYPE_DESCRIPTOR, 1,
     true},
    {DLR_DNN_KNOB_CHOICE, DLR_DNN_KNOB_CHOICE_KNOB_TYPE, DLR_DNN_TYPE_KNOB_TYPE, 1, true},
    {DLR_DNN_KNOB_CHOICE, DLR_DNN_KNOB_CHOICE_KNOB_VALUE, DLR_DNN_TYPE_INT64, 1, true},
    OPERATION(DLR_DNN_FORWARD, FORWARD, X, W, Y)
        OPERATION(DLR_DNN_BACKWARD_DATA, BWD_DATA, DX, W, DY) OPERATION(DLR_DNN_BACKWARD_FILTER,
                                                                        BWD_FILTER, X, DW, DY){
            DLR_DNN_OPERATIONGRAPH, DLR_DNN_OPERATIONGRAPH_HANDLE, DLR_DNN_TYPE_HANDLE, 1, true},
    {DLR_DNN_OPERATIONGRAPH, DLR_DNN_OPERATIONGRAPH_OPS, DLR_DNN_TYPE_DESCRIPTOR, 1, true},
    {DLR_DNN_TENSOR, DLR_DNN_TENSOR_UNIQUE_ID, DLR_DNN_TYPE_INT64, 1, true},
    {DLR_DNN_TENSOR, DLR_DNN_TENSOR_DATA_TYPE, DLR_DNN_TYPE_DATA_TYPE, 1, true},
    {DLR_DNN_TENSOR, DLR_DNN_TENSOR_BYTE_ALIGNMENT, DLR_DNN_TYPE_INT64, 1, true},
    {DLR_DNN_TENSOR, DLR_DNN_TENSOR_DIMENSIONS, DLR_DNN_TYPE_INT64, AXES, true},
    {DLR_DNN_TENSOR, DLR_DNN_TENSOR_STRIDES, DLR_DNN_TYPE_INT64, AXES, true},
    {DLR_DNN_VARIANT_PACK, DLR_DNN_VARIANT_PACK_UNIQUE_IDS, DLR_DNN_TYPE_INT64, MOST, true},
    {DLR_DNN_VARIANT_PACK, DLR_DNN_VARIANT_PACK_DATA_POINTERS, DLR_DNN_TYPE_VOID_PTR, MOST, true},
    {DLR_DNN_VARIANT_PACK, DLR_DNN_VARIANT_PACK_WORKSPACE, DLR_DNN_TYPE_VOID_PTR, 1, true},
};
enum { KNOWN = sizeof known / sizeof *known };

static size_t bytes_of(int type) {
    return type == DLR_DNN_TYPE_INT64 || type == DLR_DNN_TYPE_VOID_PTR ||
                   type == DLR_DNN_TYPE_HANDLE || type == DLR_DNN_TYPE_DESCRIPTOR
               ? 8
               : 4;
}

static attribute *find(const descriptor *d, int what) {
    for (int i = 0; i < d->count; i++)
        if (d->of[i].what == what) return (attribute *)(uintptr_t)&d->of[i];
    return NULL;
}
static const void *values_of(const descriptor *d, int what) {
    static const attribute nothing;
    const attribute *a = find(d, what);
    return a ? a->values : nothing.values;
}
static const int64_t *longs(const descriptor *d, int what) { return values_of(d, what); }
static int whole(const descriptor *d, int what) { return *(const int *)values_of(d, what); }
static const descriptor *other(const descriptor *d, int what) {
    return *(descriptor *const *)values_of(d, what);
}

int cudnnBackendCreateDescriptor(int type, dlr_dnn_desc *desc) {
    descriptor *d = calloc(1, sizeof *d);
    bool is_known = false;
    for (int i = 0; i < KNOWN; i++) is_known |= known[i].of == type;
    *desc = d;
    if (d) d->type = type;
    return !d ? DLR_DNN_HOST_ALLOCATION_FAILED : is_known ? 0 : DLR_DNN_NOT_SUPPORTED;
}
int cudnnBackendDestroyDescriptor(dlr_dnn_desc desc) { return free(desc), 0; }

int cudnnBackendSetAttribute(dlr_dnn_desc desc, int what, int type, int64_t n, const void *values) {
    descriptor *d = desc;
    int i = 0;
    while (i < KNOWN && !(known[i].of == d->type && known[i].what == what && known[i].type == type))
        i++;
    if (i == KNOWN || d->final || n < 1 || n > known[i].most || !values) return DLR_DNN_BAD_PARAM;
    for (int64_t k = 0; type == DLR_DNN_TYPE_DESCRIPTOR && k < n; k++) {
        const descriptor *own = ((descriptor *const *)values)[k];
        if (!own || !own->final) return DLR_DNN_BAD_PARAM_NOT_FINALIZED;
    }
    attribute *a = find(d, what);
    if (!a) a = &d->of[d->count++];
    a->what = what, a->n = n;
    memcpy(a->values, values, (size_t)n * bytes_of(type));
    return 0;
}

/* ---- what a graph does ---- */

static const struct {
    int type, convolution, tensor[DL_NTENSORS];
} operations[DL_NTENSORS] = {
    [DL_TENSOR_X] = {DLR_DNN_BACKWARD_DATA,
                     DLR_DNN_BWD_DATA_CONV_DESC,
                     {0, DLR_DNN_BWD_DATA_DX, DLR_DNN_BWD_DATA_W, DLR_DNN_BWD_DATA_DY}},
    [DL_TENSOR_W] = {DLR_DNN_BACKWARD_FILTER,
                     DLR_DNN_BWD_FILTER_CONV_DESC,
                     {0, DLR_DNN_BWD_FILTER_X, DLR_DNN_BWD_FILTER_DW, DLR_DNN_BWD_FILTER_DY}},
    [DL_TENSOR_Y] = {DLR_DNN_FORWARD,
                     DLR_DNN_FORWARD_CONV_DESC,
                     {0, DLR_DNN_FORWARD_X, DLR_DNN_FORWARD_W, DLR_DNN_FORWARD_Y}}};

static tensor tensor_of(const descriptor *d) {
    const attribute *size = find(d, DLR_DNN_TENSOR_DIMENSIONS),
                    *step = find(d, DLR_DNN_TENSOR_STRIDES);
    tensor t = {.type = whole(d, DLR_DNN_TENSOR_DATA_TYPE),
                .n = size->n == step->n ? (int)size->n : 0,
                .name = *longs(d, DLR_DNN_TENSOR_UNIQUE_ID),
                .alignment = *longs(d, DLR_DNN_TENSOR_BYTE_ALIGNMENT)};
    memcpy(t.size, size->values, sizeof t.size), memcpy(t.step, step->values, sizeof t.step);
    return t;
}

static relation relation_of(const descriptor *op) {
    relation r = {0};
    for (dl_tensor t = DL_TENSOR_X; t < DL_NTENSORS; t++)
        if (operations[t].type == op->type) r.makes = t;
    const descriptor *c = other(op, operations[r.makes].convolution);
    r.spatial = (int)*longs(c, DLR_DNN_CONVOLUTION_SPATIAL_DIMS);
    for (dl_tensor t = DL_TENSOR_X; t < DL_NTENSORS; t++)
        r.of[t] = tensor_of(other(op, operations[r.makes].tensor[t]));
    memcpy(r.stride, longs(c, DLR_DNN_CONVOLUTION_FILTER_STRIDES), sizeof r.stride);
    memcpy(r.dilation, longs(c, DLR_DNN_CONVOLUTION_DILATIONS), sizeof r.dilation);
    memcpy(r.lo, longs(c, DLR_DNN_CONVOLUTION_PRE_PADDINGS), sizeof r.lo);
    memcpy(r.hi, longs(c, DLR_DNN_CONVOLUTION_POST_PADDINGS), sizeof r.hi);
    return r;
}

static bool is_tensor(const descriptor *d) {
    tensor t = tensor_of(d);
    bool ok = t.n >= 4 &&
              (t.type == DLR_DNN_FLOAT || t.type == DLR_DNN_HALF || t.type == DLR_DNN_BFLOAT16) &&
              t.alignment > 0 && t.alignment % dl_dtype_bytes(cudnn_standin_dtype(t.type)) == 0;
    for (int i = 0; i < t.n; i++) ok = ok && t.size[i] > 0 && t.step[i] > 0;
    return ok;
}

static bool is_convolution(const descriptor *d) {
    int64_t n = *longs(d, DLR_DNN_CONVOLUTION_SPATIAL_DIMS);
    static const int of[] = {DLR_DNN_CONVOLUTION_DILATIONS, DLR_DNN_CONVOLUTION_FILTER_STRIDES,
                             DLR_DNN_CONVOLUTION_PRE_PADDINGS, DLR_DNN_CONVOLUTION_POST_PADDINGS};
    bool ok = n >= 2 && n <= 3 && whole(d, DLR_DNN_CONVOLUTION_COMP_TYPE) == DLR_DNN_FLOAT &&
              whole(d, DLR_DNN_CONVOLUTION_CONV_MODE) == DLR_DNN_CROSS_CORRELATION;
    for (int i = 0; i < 4; i++) {
        ok = ok && find(d, of[i])->n == n;
        for (int k = 0; ok && k < n; k++) ok = longs(d, of[i])[k] >= (i < 2);
    }
    return ok;
}

static bool is_operation(const descriptor *d) {
    relation r = relation_of(d);
    const tensor *x = &r.of[DL_TENSOR_X], *w = &r.of[DL_TENSOR_W], *y = &r.of[DL_TENSOR_Y];
    bool ok = x->n == r.spatial + 2 && w->n == x->n && y->n == x->n && x->size[0] == y->size[0] &&
              x->size[1] % w->size[1] == 0 && w->size[0] == y->size[1] &&
              w->size[0] % (x->size[1] / w->size[1]) == 0;
    for (int i = 0; ok && i < r.spatial; i++) {
        int64_t room =
            x->size[2 + i] + r.lo[i] + r.hi[i] - (w->size[2 + i] - 1) * r.dilation[i] - 1;
        ok = room >= 0 && room / r.stride[i] + 1 == y->size[2 + i];
    }
    return ok;
}

/* ---- engines ---- */

static const descriptor *operation_of(const descriptor *graph) {
    return other(graph, DLR_DNN_OPERATIONGRAPH_OPS);
}
static int64_t index_of(const descriptor *engine) {
    return *longs(engine, DLR_DNN_ENGINE_GLOBAL_INDEX);
}

/* All of one type: heuristics of 9.19 and 9.26 know nothing that makes f32 of 16 bits. */
static bool knows_types(const relation *r) {
    return r->of[DL_TENSOR_X].type == r->of[DL_TENSOR_Y].type &&
           r->of[DL_TENSOR_W].type == r->of[DL_TENSOR_Y].type;
}

/* In how many parts a configuration sums; 0: its knobs are none of the engine's. */
static int64_t splits_of(const descriptor *config) {
    const attribute *knobs = find(config, DLR_DNN_ENGINECFG_KNOB_CHOICES);
    if (index_of(other(config, DLR_DNN_ENGINECFG_ENGINE)) == EXACT) return !knobs;
    if (!knobs || knobs->n != 1) return 0;
    const descriptor *k = other(config, DLR_DNN_ENGINECFG_KNOB_CHOICES);
    int64_t value = *longs(k, DLR_DNN_KNOB_CHOICE_KNOB_VALUE);
    return whole(k, DLR_DNN_KNOB_CHOICE_KNOB_TYPE) == SPLIT_K_SLC && value <= MOST_SPLITS ? value
                                                                                          : 0;
}

static int64_t elements(const tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n; i++) n *= t->size[i];
    return n;
}

static int64_t workspace_of(const descriptor *config) {
    relation r = relation_of(operation_of(
        other(other(config, DLR_DNN_ENGINECFG_ENGINE), DLR_DNN_ENGINE_OPERATION_GRAPH)));
    int64_t n = splits_of(config);
    return n > 1 ? n * elements(&r.of[r.makes]) * (int64_t)sizeof(float) : 0;
}

int cudnnBackendFinalize(dlr_dnn_desc desc) {
    descriptor *d = desc;
    bool ok = !d->final, supported = true;
    for (int i = 0; i < KNOWN; i++)
        ok = ok && (known[i].of != d->type || !known[i].must || find(d, known[i].what));
    if (ok && d->type == DLR_DNN_TENSOR) ok = is_tensor(d);
    if (ok && d->type == DLR_DNN_CONVOLUTION) ok = is_convolution(d);
    for (dl_tensor t = DL_TENSOR_X; t < DL_NTENSORS; t++)
        if (ok && d->type == operations[t].type) ok = is_operation(d);
    if (ok && d->type == DLR_DNN_ENGINE) supported = index_of(d) >= 0 && index_of(d) < ENGINES;
    if (ok && d->type == DLR_DNN_ENGINECFG) supported = splits_of(d) > 0;
    if (ok && d->type == DLR_DNN_EXECUTION_PLAN) {
        const descriptor *config = other(d, DLR_DNN_EXECUTION_PLAN_ENGINE_CONFIG);
        relation r = relation_of(operation_of(
            other(other(config, DLR_DNN_ENGINECFG_ENGINE), DLR_DNN_ENGINE_OPERATION_GRAPH)));
        supported = knows_types(&r);
    }
    d->final = ok && supported;
    return !ok ? DLR_DNN_BAD_PARAM : supported ? 0 : DLR_DNN_NOT_SUPPORTED;
}

/* ---- what is read ---- */

/* Fills a descriptor that the caller has created, as the library does with those that it hands out.
 */
static int put(descriptor *to, int type, int n, const attribute *of) {
    if (!to || to->type != type || to->final || to->count) return DLR_DNN_BAD_PARAM;
    to->count = n, to->final = true;
    memcpy(to->of, of, (size_t)n * sizeof *of);
    return 0;
}
static attribute one(int what, const void *value, size_t size) {
    attribute a = {.what = what, .n = 1};
    memcpy(a.values, value, size);
    return a;
}

/* Kept: configurations point at engines and choices that nobody else has. */
static descriptor *keep(int type, int n, const attribute *of) {
    descriptor *d = new_kept(sizeof *d);
    if (!d) abort();
    d->type = type;
    put(d, type, n, of);
    return d;
}

static int propose(const descriptor *heuristics, descriptor **to, int64_t most, int64_t *count) {
    static const struct {
        int64_t engine, splits;
    } best[] = {{LOOSE, 1}, {CORES, 2}, {TRANSFORMED, 1}, {CORES, 1}, {EXACT, 0}},
      last[] = {{EXACT, 0}, {CORES, 1}};
    bool fallback = whole(heuristics, DLR_DNN_ENGINEHEUR_MODE) == DLR_DNN_HEUR_MODE_FALLBACK;
    const descriptor *graph = other(heuristics, DLR_DNN_ENGINEHEUR_OPERATION_GRAPH);
    int status = 0, knob = SPLIT_K_SLC;
    *count = fallback ? 2 : 5;
    for (int64_t i = 0; !status && i < *count && i < most; i++) {
        int64_t engine = fallback ? last[i].engine : best[i].engine,
                splits = fallback ? last[i].splits : best[i].splits;
        attribute of[2] = {one(DLR_DNN_ENGINE_OPERATION_GRAPH, &graph, 8),
                           one(DLR_DNN_ENGINE_GLOBAL_INDEX, &engine, 8)},
                  choice[2] = {one(DLR_DNN_KNOB_CHOICE_KNOB_TYPE, &knob, 4),
                               one(DLR_DNN_KNOB_CHOICE_KNOB_VALUE, &splits, 8)};
        descriptor *e = keep(DLR_DNN_ENGINE, 2, of), *k = keep(DLR_DNN_KNOB_CHOICE, 2, choice);
        attribute both[2] = {one(DLR_DNN_ENGINECFG_ENGINE, &e, 8),
                             one(DLR_DNN_ENGINECFG_KNOB_CHOICES, &k, 8)};
        status = put(to[i], DLR_DNN_ENGINECFG, splits ? 2 : 1, both);
    }
    return status;
}

static int notes_of(const descriptor *engine, int *to, int64_t *count) {
    *count = 0;
    if (index_of(engine) != EXACT) to[(*count)++] = DLR_DNN_NOTE_TENSOR_CORE;
    if (index_of(engine) == LOOSE) to[(*count)++] = DLR_DNN_NOTE_NONDETERMINISTIC;
    if (index_of(engine) == TRANSFORMED) to[(*count)++] = WINOGRAD;
    return 0;
}

int cudnnBackendGetAttribute(dlr_dnn_desc desc, int what, int type, int64_t most, int64_t *n,
                             void *values) {
    const descriptor *d = desc;
    const attribute *a = find(d, what);
    if (!d->final) return DLR_DNN_BAD_PARAM_NOT_FINALIZED;
    if (what == DLR_DNN_ENGINEHEUR_RESULTS && d->type == DLR_DNN_ENGINEHEUR)
        return propose(d, values, most, n);
    if (what == DLR_DNN_ENGINE_NUMERICAL_NOTE && d->type == DLR_DNN_ENGINE)
        return notes_of(d, values, n);
    if (what == DLR_DNN_EXECUTION_PLAN_WORKSPACE_SIZE && d->type == DLR_DNN_EXECUTION_PLAN) {
        *(int64_t *)values = workspace_of(other(d, DLR_DNN_EXECUTION_PLAN_ENGINE_CONFIG));
        return *n = 1, 0;
    }
    *n = a ? a->n : 0;
    if (!a) return d->type == DLR_DNN_ENGINECFG ? 0 : DLR_DNN_BAD_PARAM;
    if (type != DLR_DNN_TYPE_DESCRIPTOR) {
        memcpy(values, a->values, (size_t)(a->n < most ? a->n : most) * bytes_of(type));
        return 0;
    }
    int status = 0;
    for (int64_t i = 0; !status && i < a->n && i < most; i++) {
        const descriptor *from = ((descriptor *const *)(const void *)a->values)[i];
        status = put(((descriptor **)values)[i], from->type, from->count, from->of);
    }
    return status;
}

/* ---- plans ---- */

static void note(const job *j) {
    const char *name = getenv("CUDNN_STANDIN_LOG");
    FILE *f = name ? fopen(name, "a") : NULL;
    if (!f) return;
    fprintf(f, "makes %c, %d spatial axes, types %d %d %d, engine %d, splits %d\n",
            " xwy"[j->r.makes], j -> r.spatial, j->r.of[DL_TENSOR_X].type,
            j->r.of[DL_TENSOR_W].type, j->r.of[DL_TENSOR_Y].type, (int)j->engine, (int)j->splits);
    fclose(f);
}

int cudnnBackendExecute(dlr_dnn_handle handle, dlr_dnn_desc plan, dlr_dnn_desc pack) {
    const descriptor *p = plan, *v = pack;
    if (!handle || !p->final || !v->final) return DLR_DNN_BAD_PARAM_NOT_FINALIZED;
    const descriptor *config = other(p, DLR_DNN_EXECUTION_PLAN_ENGINE_CONFIG),
                     *engine = other(config, DLR_DNN_ENGINECFG_ENGINE);
    job one_job = {.r = relation_of(operation_of(other(engine, DLR_DNN_ENGINE_OPERATION_GRAPH))),
                   .engine = index_of(engine),
                   .splits = splits_of(config),
                   .workspace = (uint64_t)*longs(v, DLR_DNN_VARIANT_PACK_WORKSPACE)};
    const attribute *names = find(v, DLR_DNN_VARIANT_PACK_UNIQUE_IDS),
                    *pointers = find(v, DLR_DNN_VARIANT_PACK_DATA_POINTERS);
    size_t room = (size_t)workspace_of(config);
    if (names->n != 3 || pointers->n != 3) return DLR_DNN_BAD_PARAM;
    for (dl_tensor t = DL_TENSOR_X; t < DL_NTENSORS; t++) {
        const tensor *own = &one_job.r.of[t];
        for (int i = 0; i < 3; i++)
            if (longs(v, DLR_DNN_VARIANT_PACK_UNIQUE_IDS)[i] == own->name)
                one_job.at[t] = (uint64_t)longs(v, DLR_DNN_VARIANT_PACK_DATA_POINTERS)[i];
        if (one_job.at[t] % (uint64_t)own->alignment ||
            !memory(one_job.at[t], cudnn_standin_reach(own)))
            return DLR_DNN_BAD_PARAM;
    }
    if (room && (one_job.workspace % 256 || !memory(one_job.workspace, room)))
        return DLR_DNN_BAD_PARAM;
    if (++handle->executions == number("CUDNN_STANDIN_FAULT", 0)) return DLR_DNN_EXECUTION_FAILED;
    job *j = new_kept(sizeof *j); /* what was captured runs it again */
    if (!j) return DLR_DNN_HOST_ALLOCATION_FAILED;
    *j = one_job;
    note(j);
    return driver()->LaunchHostFunc(handle->stream, cudnn_standin_run, j) ? DLR_DNN_EXECUTION_FAILED
                                                                          : 0;
}

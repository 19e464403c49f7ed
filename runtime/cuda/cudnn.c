/* The table of cuDNN as a library that plans call for convolutions. */
#include "runtime/cuda/cudnn.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    dlr_dnn_work work;
    char said[200];
} convolution;

/* The library's functions; the caller has loaded it. */
static const dlr_cudnn *library(void) {
    dl_error none = {0};
    return dlr_cudnn_load(&none);
}

static int64_t find(const char **path, dl_error *err) {
    const dlr_cudnn *l = dlr_cudnn_load(err);
    if (l) *path = l->path;
    return l ? l->version : 0;
}

static void *open_library(dl_error *err) {
    const dlr_cudnn *l = dlr_cudnn_load(err);
    dlr_dnn_handle handle = NULL;
    int status = l ? l->Create(&handle) : 0;
    if (l && status)
        dl_fail(err, DL_RESOURCE, "cuDNN (%s) does not begin on this device: %s", l->path,
                l->GetErrorString(status));
    return l && !status ? handle : NULL;
}

static void close_library(void *opened) { library()->Destroy(opened); }

static void release(void *prepared) {
    convolution *c = prepared;
    dlr_dnn_end(&c->work);
    free(c);
}

static convolution *new_convolution(void *opened, const dl_call *call, int *status) {
    convolution *c = calloc(1, sizeof *c);
    *status = DLR_DNN_HOST_ALLOCATION_FAILED;
    if (!c) return NULL;
    c->work = (dlr_dnn_work){.l = library(), .handle = opened, .call = *call};
    *status = dlr_dnn_describe(&c->work);
    return c;
}

static int offer(void *opened, const dl_call *call, int most, dl_algorithm *to) {
    int status;
    convolution *c = new_convolution(opened, call, &status);
    int kept = status ? 0 : dlr_dnn_candidates(&c->work, most, to);
    if (c) release(c);
    return kept;
}

static void *prepare(void *opened, const dl_call *call, dl_error *err) {
    int status;
    int64_t workspace = 0;
    convolution *c = new_convolution(opened, call, &status);
    if (!status) status = dlr_dnn_make_plan(&c->work, &call->algorithm, &workspace);
    if (!status && workspace > call->algorithm.workspace) status = DLR_DNN_BAD_PARAM;
    if (!status) return c;
    dl_fail(err, DL_RESOURCE, "cuDNN (%s) does not know the plan's algorithm here: %s",
            library()->path, library()->GetErrorString(status));
    if (c) release(c);
    return NULL;
}

static const char *put(void *prepared, const uint64_t *places, uint64_t workspace,
                       dlr_cu_stream stream) {
    convolution *c = prepared;
    const dlr_dnn_work *w = &c->work;
    const dl_convolution *v = &w->call.convolution;
    int64_t names[DL_NTENSORS - 1];
    uint64_t at[DL_NTENSORS - 1],
        room = w->call.algorithm.workspace ? dlr_call_room(&w->call, workspace) : 0;
    for (int i = 0; i < DL_NTENSORS - 1; i++) {
        const dl_lattice *of = &v->of[DL_TENSOR_X + i];
        names[i] = DL_TENSOR_X + i,
        at[i] = dlr_call_place(of->param, of->offset, places, workspace);
    }
    const dlr_dnn_attribute attributes[] = {
        {DLR_DNN_VARIANT_PACK_UNIQUE_IDS, DLR_DNN_TYPE_INT64, DL_NTENSORS - 1, names},
        {DLR_DNN_VARIANT_PACK_DATA_POINTERS, DLR_DNN_TYPE_VOID_PTR, DL_NTENSORS - 1, at},
        {DLR_DNN_VARIANT_PACK_WORKSPACE, DLR_DNN_TYPE_VOID_PTR, 1, &room}};
    dlr_dnn_desc pack = NULL;
    int status = dlr_dnn_make(w->l, &pack, DLR_DNN_VARIANT_PACK, 3, attributes);
    if (!status) status = w->l->SetStream(w->handle, stream);
    if (!status) status = w->l->BackendExecute(w->handle, w->plan, pack);
    if (pack) w->l->BackendDestroyDescriptor(pack);
    if (!status) return NULL;
    snprintf(c->said, sizeof c->said, "cuDNN: %s", w->l->GetErrorString(status));
    return c->said;
}

const dlr_library dlr_library_cudnn = {.override = DLR_CUDNN_OVERRIDE,
                                       .file = "libcudnn.so.9",
                                       .find = find,
                                       .open = open_library,
                                       .close = close_library,
                                       .offer = offer,
                                       .prepare = prepare,
                                       .release = release,
                                       .put = put};

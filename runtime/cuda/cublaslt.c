/* GEMMs by cuBLASLt. Its matrices are column-major: our rows and columns are its columns and rows,
 * and our right operand is its first. */
#include "runtime/cuda/cublaslt.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    /* most workspace bytes of an algorithm, as the documentation proposes for sm_90 */
    ROOM = 32 << 20
};

/* The library's functions; the caller has loaded it. */
static const dlr_cublaslt *library(void) {
    dl_error none = {0};
    return dlr_cublaslt_load(&none);
}

static int64_t find(const char **path, dl_error *err) {
    const dlr_cublaslt *l = dlr_cublaslt_load(err);
    if (l) *path = l->path;
    return l ? l->version : 0;
}

static const char *say(int status) { return library()->GetStatusString(status); }

/* ---- GEMMs ---- */

typedef struct {
    dlr_lt_handle handle;
    dl_call call;
    dlr_lt_desc desc;
    dlr_lt_layout a, b, d;
    char said[200];
} product;

static int type_of(dl_dtype t) {
    return t == DL_BF16 ? DLR_LT_R_16BF : t == DL_F16 ? DLR_LT_R_16F : DLR_LT_R_32F;
}

static int set(dlr_lt_desc desc, int what, int value) {
    return library()->MatmulDescSetAttribute(desc, what, &value, sizeof value);
}

static int describe_product(product *p) {
    const dl_matmul *m = &p->call.matmul;
    int epilogue = m->bias >= 0 ? m->relu ? DLR_LT_EPILOGUE_RELU_BIAS : DLR_LT_EPILOGUE_BIAS
                   : m->relu    ? DLR_LT_EPILOGUE_RELU
                                : DLR_LT_EPILOGUE_DEFAULT;
    int status = library()->MatmulDescCreate(
        &p->desc, m->tf32 ? DLR_LT_COMPUTE_32F_TF32 : DLR_LT_COMPUTE_32F, DLR_LT_R_32F);
    if (!status && !m->right.across) status = set(p->desc, DLR_LT_DESC_TRANSA, DLR_LT_OP_T);
    if (!status && m->left.across) status = set(p->desc, DLR_LT_DESC_TRANSB, DLR_LT_OP_T);
    if (!status) status = set(p->desc, DLR_LT_DESC_EPILOGUE, epilogue);
    if (!status && m->bias >= 0)
        status = set(p->desc, DLR_LT_DESC_BIAS_DATA_TYPE, type_of(m->bias_type));
    return status;
}

static int describe_matrix(const dl_matmul *m, const dl_matrix *of, int64_t length, int64_t lines,
                           dlr_lt_layout *to) {
    int32_t batch = (int32_t)m->batch;
    int status = library()->MatrixLayoutCreate(to, type_of(of->dtype), (uint64_t)length,
                                               (uint64_t)lines, of->line);
    if (status || batch == 1) return status;
    status =
        library()->MatrixLayoutSetAttribute(*to, DLR_LT_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
    if (status) return status;
    return library()->MatrixLayoutSetAttribute(*to, DLR_LT_LAYOUT_BATCH_OFFSET, &of->next,
                                               sizeof of->next);
}

static int describe(product *p) {
    const dl_matmul *m = &p->call.matmul;
    const dl_matrix *l = &m->left, *r = &m->right;
    int status = describe_product(p);
    if (!status)
        status = describe_matrix(m, r, r->across ? m->columns : m->terms,
                                 r->across ? m->terms : m->columns, &p->a);
    if (!status)
        status = describe_matrix(m, l, l->across ? m->rows : m->terms,
                                 l->across ? m->terms : m->rows, &p->b);
    return status ? status : describe_matrix(m, &m->result, m->columns, m->rows, &p->d);
}

static void release(void *prepared) {
    product *p = prepared;
    if (p->a) library()->MatrixLayoutDestroy(p->a);
    if (p->b) library()->MatrixLayoutDestroy(p->b);
    if (p->d) library()->MatrixLayoutDestroy(p->d);
    if (p->desc) library()->MatmulDescDestroy(p->desc);
    free(p);
}

static product *new_product(void *opened, const dl_call *call, int *status) {
    product *p = calloc(1, sizeof *p);
    *status = DLR_LT_ALLOC_FAILED;
    if (!p) return NULL;
    p->handle = opened, p->call = *call;
    *status = describe(p);
    return p;
}

/* ---- the library ---- */

static void *open_library(dl_error *err) {
    const dlr_cublaslt *l = dlr_cublaslt_load(err);
    dlr_lt_handle handle = NULL;
    int status = l ? l->Create(&handle) : 0;
    if (l && status)
        dl_fail(err, DL_RESOURCE, "cuBLASLt (%s) does not begin on this device: %s", l->path,
                l->GetStatusString(status));
    return l && !status ? handle : NULL;
}

static void close_library(void *opened) { library()->Destroy(opened); }

/* Split-K sums are added in f32: in their own order, and rounded once. */
static int prefer(const dl_matmul *m, dlr_lt_preference preference) {
    const dl_matrix *of[] = {&m->right, &m->left, &m->result, &m->result};
    uint64_t room = ROOM;
    uint32_t reductions = DLR_LT_REDUCTION_COMPUTE_TYPE;
    const dlr_cublaslt *l = library();
    int status = l->MatmulPreferenceSetAttribute(preference, DLR_LT_PREFERENCE_WORKSPACE, &room,
                                                 sizeof room);
    if (!status)
        status = l->MatmulPreferenceSetAttribute(preference, DLR_LT_PREFERENCE_REDUCTIONS,
                                                 &reductions, sizeof reductions);
    for (int i = 0; !status && i < 4; i++) {
        uint32_t bytes = (uint32_t)dlr_call_alignment(of[i]->offset);
        status = l->MatmulPreferenceSetAttribute(preference, DLR_LT_PREFERENCE_ALIGNMENT_A + i,
                                                 &bytes, sizeof bytes);
    }
    return status;
}

static int offer(void *opened, const dl_call *call, int most, dl_algorithm *to) {
    const dlr_cublaslt *l = library();
    int status, n = 0, kept = 0;
    dlr_lt_preference preference = NULL;
    dlr_lt_heuristic *found = calloc((size_t)most, sizeof *found);
    product *p = new_product(opened, call, &status);
    if (!found) status = DLR_LT_ALLOC_FAILED;
    if (!status) status = l->MatmulPreferenceCreate(&preference);
    if (!status) status = prefer(&call->matmul, preference);
    if (!status)
        status = l->MatmulAlgoGetHeuristic(p->handle, p->desc, p->a, p->b, p->d, p->d, preference,
                                           most, found, &n);
    for (int i = 0; !status && i < n; i++) {
        if (found[i].state) continue;
        dl_algorithm *a = &to[kept++];
        *a = (dl_algorithm){.library = DL_LIBRARY_CUBLASLT,
                            .version = l->version,
                            .form = call->algorithm.form,
                            .workspace = (int64_t)found[i].workspace};
        memcpy(a->words, found[i].algorithm.data, sizeof a->words);
    }
    if (preference) l->MatmulPreferenceDestroy(preference);
    if (p) release(p);
    free(found);
    return kept;
}

static void *prepare(void *opened, const dl_call *call, dl_error *err) {
    int status;
    dlr_lt_heuristic found = {0};
    product *p = new_product(opened, call, &status);
    memcpy(found.algorithm.data, call->algorithm.words, sizeof found.algorithm.data);
    if (!status) {
        dlr_lt_algorithm a = found.algorithm;
        status = library()->MatmulAlgoCheck(p->handle, p->desc, p->a, p->b, p->d, p->d, &a, &found);
    }
    if (!status && (int64_t)found.workspace > call->algorithm.workspace)
        status = DLR_LT_INVALID_VALUE;
    if (!status) return p;
    dl_fail(err, DL_RESOURCE, "cuBLASLt (%s) does not know the plan's algorithm here: %s",
            library()->path, say(status));
    if (p) release(p);
    return NULL;
}

static const char *put(void *prepared, const uint64_t *places, uint64_t workspace,
                       dlr_cu_stream stream) {
    static const float one = 1, none = 0;
    product *p = prepared;
    const dl_matmul *m = &p->call.matmul;
    const dlr_cublaslt *l = library();
    const dl_matrix *of[] = {&m->right, &m->left, &m->result};
    uint64_t at[3], room = dlr_call_room(&p->call, workspace);
    int status = 0;
    for (int i = 0; i < 3; i++)
        at[i] = dlr_call_place(of[i]->param, of[i]->offset, places, workspace);
    if (m->bias >= 0)
        status = l->MatmulDescSetAttribute(p->desc, DLR_LT_DESC_BIAS_POINTER, &places[m->bias],
                                           sizeof places[m->bias]);
    dlr_lt_algorithm a;
    memcpy(a.data, p->call.algorithm.words, sizeof a.data);
    if (!status)
        status = l->Matmul(p->handle, p->desc, &one, (const void *)at[0], p->a, (const void *)at[1],
                           p->b, &none, (const void *)at[2], p->d, (void *)at[2], p->d, &a,
                           p->call.algorithm.workspace ? (void *)room : NULL,
                           (size_t)p->call.algorithm.workspace, stream);
    if (!status) return NULL;
    snprintf(p->said, sizeof p->said, "cuBLASLt: %s", say(status));
    return p->said;
}

const dlr_library dlr_library_cublaslt = {.override = DLR_CUBLASLT_OVERRIDE,
                                          .file = "libcublasLt.so",
                                          .find = find,
                                          .open = open_library,
                                          .close = close_library,
                                          .offer = offer,
                                          .prepare = prepare,
                                          .release = release,
                                          .put = put};

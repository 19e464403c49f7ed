/* A library of the shape of libcublasLt.so.13 on the emulated driver: what it does it does as host
 * functions in the stream that it was given, which can be captured. It is stricter than cuBLASLt:
 * an algorithm is of one problem only, every byte that a product reads and writes must lie in the
 * device's memory, addresses be multiples of 16 and the workspace's of 256, and it knows those
 * combinations of types alone that cuBLASLt's documentation lists. It offers two algorithms: all
 * terms in one go; and in two halves, which it adds in f32 in its workspace.
 *
 *     CUBLASLT_STANDIN_VERSION=120800  the version that it says it is of
 *     CUBLASLT_STANDIN_WRONG=1         its products leave out the last term
 *     CUBLASLT_STANDIN_FAULT=K         the K-th product fails
 *     CUBLASLT_STANDIN_LOG=FILE        a line for each product that is put into a stream */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/hash.h"
#include "runtime/base/convert.h"
#include "runtime/cuda/cublaslt.h"
#include "tests/cuda/standin.h"

/* The library's functions are those of the runtime's table. */
#define DECLARE(name, result, arguments) result cublasLt##name arguments;
DLR_CUBLASLT_FUNCTIONS(DECLARE)

enum { TRANSPOSED = 1, ONCE = 1, HALVES = 2, VERSION = 130100 };

struct cublasLtContext {
    int64_t products;
};

/* A matrix, a product, or what is preferred: whichever was created. Compared as bytes: no hole is
 * in it. */
struct dlr_lt_opaque {
    int type, compute, scale, transpose[2], epilogue, bias_type;
    int32_t batch;
    uint64_t bias, rows, columns, room;
    int64_t lead, next;
    uint32_t reductions, alignment[4], zero;
};
typedef struct dlr_lt_opaque opaque;

typedef struct {
    opaque desc, a, b, d;
    uint64_t at_a, at_b, at_d, workspace;
    int how;
} job;

size_t cublasLtGetVersion(void) { return (size_t)number("CUBLASLT_STANDIN_VERSION", VERSION); }
const char *cublasLtGetStatusString(int status) {
    return status == DLR_LT_NOT_SUPPORTED ? "the functionality is not supported"
           : status == DLR_LT_INVALID_VALUE
               ? "an unsupported value or parameter was passed to the function"
           : status == DLR_LT_EXECUTION_FAILED ? "the function failed to launch on the GPU"
           : status == DLR_LT_NOT_INITIALIZED  ? "the library was not initialized"
                                               : "success";
}
int cublasLtCreate(dlr_lt_handle *handle) {
    *handle = driver() ? calloc(1, sizeof **handle) : NULL;
    return *handle ? 0 : DLR_LT_NOT_INITIALIZED;
}
int cublasLtDestroy(dlr_lt_handle handle) { return free(handle), 0; }

/* ---- descriptions ---- */

static opaque *make(opaque from) {
    opaque *to = malloc(sizeof *to);
    if (to) *to = from;
    return to;
}
int cublasLtMatmulDescCreate(dlr_lt_desc *desc, int compute, int scale) {
    *desc = make((opaque){
        .compute = compute, .scale = scale, .epilogue = DLR_LT_EPILOGUE_DEFAULT, .bias_type = -1});
    return *desc ? 0 : DLR_LT_ALLOC_FAILED;
}
int cublasLtMatmulDescDestroy(dlr_lt_desc desc) { return free(desc), 0; }
int cublasLtMatrixLayoutCreate(dlr_lt_layout *layout, int type, uint64_t rows, uint64_t columns,
                               int64_t lead) {
    *layout =
        make((opaque){.type = type, .rows = rows, .columns = columns, .lead = lead, .batch = 1});
    return *layout ? 0 : DLR_LT_ALLOC_FAILED;
}
int cublasLtMatrixLayoutDestroy(dlr_lt_layout layout) { return free(layout), 0; }
int cublasLtMatmulPreferenceCreate(dlr_lt_preference *preference) {
    *preference = make((opaque){.reductions = 7, .alignment = {256, 256, 256, 256}});
    return *preference ? 0 : DLR_LT_ALLOC_FAILED;
}
int cublasLtMatmulPreferenceDestroy(dlr_lt_preference preference) { return free(preference), 0; }

static int put(void *to, size_t own, const void *value, size_t size) {
    if (!to || size != own) return DLR_LT_INVALID_VALUE;
    return memcpy(to, value, size), 0;
}
int cublasLtMatmulDescSetAttribute(dlr_lt_desc d, int what, const void *value, size_t size) {
    if (what == DLR_LT_DESC_BIAS_POINTER) return put(&d->bias, sizeof d->bias, value, size);
    int *to = what == DLR_LT_DESC_TRANSA           ? &d->transpose[0]
              : what == DLR_LT_DESC_TRANSB         ? &d->transpose[1]
              : what == DLR_LT_DESC_EPILOGUE       ? &d->epilogue
              : what == DLR_LT_DESC_BIAS_DATA_TYPE ? &d->bias_type
                                                   : NULL;
    return put(to, sizeof *to, value, size);
}
int cublasLtMatrixLayoutSetAttribute(dlr_lt_layout l, int what, const void *value, size_t size) {
    if (what == DLR_LT_LAYOUT_BATCH_COUNT) return put(&l->batch, sizeof l->batch, value, size);
    return put(what == DLR_LT_LAYOUT_BATCH_OFFSET ? &l->next : NULL, sizeof l->next, value, size);
}
int cublasLtMatmulPreferenceSetAttribute(dlr_lt_preference p, int what, const void *value,
                                         size_t size) {
    if (what == DLR_LT_PREFERENCE_WORKSPACE) return put(&p->room, sizeof p->room, value, size);
    if (what == DLR_LT_PREFERENCE_REDUCTIONS)
        return put(&p->reductions, sizeof p->reductions, value, size);
    int which = what - DLR_LT_PREFERENCE_ALIGNMENT_A;
    return put(which >= 0 && which < 4 ? &p->alignment[which] : NULL, sizeof *p->alignment, value,
               size);
}

/* ---- algorithms ---- */

static uint64_t terms_of(const opaque *desc, const opaque *a) {
    return desc->transpose[0] ? a->rows : a->columns;
}

/* The documentation's table of types, without the smaller ones. */
static bool knows_types(const opaque *desc, const opaque *a, const opaque *b, const opaque *d) {
    bool floats = a->type == DLR_LT_R_32F,
         halves = a->type == DLR_LT_R_16F || a->type == DLR_LT_R_16BF;
    return (floats || halves) && a->type == b->type &&
           (d->type == DLR_LT_R_32F || d->type == a->type) && desc->scale == DLR_LT_R_32F &&
           (desc->compute == DLR_LT_COMPUTE_32F ||
            (floats && desc->compute == DLR_LT_COMPUTE_32F_TF32)) &&
           (!(desc->epilogue & DLR_LT_EPILOGUE_BIAS) || desc->bias_type == d->type);
}

static bool is_product(const opaque *desc, const opaque *a, const opaque *b, const opaque *c,
                       const opaque *d) {
    uint64_t m = desc->transpose[0] ? a->columns : a->rows,
             n = desc->transpose[1] ? b->rows : b->columns,
             k = desc->transpose[1] ? b->columns : b->rows;
    const opaque *all[] = {a, b, d};
    bool ok =
        m == d->rows && n == d->columns && k == terms_of(desc, a) && memcmp(c, d, sizeof *c) == 0;
    for (int i = 0; i < 3; i++)
        ok = ok && all[i]->rows && all[i]->columns && all[i]->lead >= (int64_t)all[i]->rows &&
             all[i]->batch == d->batch && all[i]->batch >= 1;
    return ok;
}

static int check(const opaque *desc, const opaque *a, const opaque *b, const opaque *c,
                 const opaque *d) {
    return !is_product(desc, a, b, c, d) ? DLR_LT_INVALID_VALUE
           : !knows_types(desc, a, b, d) ? DLR_LT_NOT_SUPPORTED
                                         : 0;
}

/* Two sums an element. */
static size_t room_of(const opaque *d, int how) {
    return how == HALVES ? 2 * sizeof(float) * d->rows * d->columns * (size_t)d->batch : 0;
}

static dlr_lt_algorithm algorithm_of(const opaque *desc, const opaque *a, const opaque *b,
                                     const opaque *d, int how) {
    opaque bare = *desc;
    bare.bias = 0;
    uint64_t h = dl_hash(&bare, sizeof bare, cublasLtGetVersion());
    h = dl_hash(a, sizeof *a, h), h = dl_hash(b, sizeof *b, h), h = dl_hash(d, sizeof *d, h);
    return (dlr_lt_algorithm){{(uint64_t)how, h}};
}

int cublasLtMatmulAlgoGetHeuristic(dlr_lt_handle handle, dlr_lt_desc desc, dlr_lt_layout a,
                                   dlr_lt_layout b, dlr_lt_layout c, dlr_lt_layout d,
                                   dlr_lt_preference p, int most, dlr_lt_heuristic *found, int *n) {
    int status = handle ? check(desc, a, b, c, d) : DLR_LT_NOT_INITIALIZED;
    *n = 0;
    for (int i = 0; i < 4; i++)
        if (p->alignment[i] < 16) status = DLR_LT_NOT_SUPPORTED;
    for (int how = ONCE; !status && how <= HALVES && *n < most; how++) {
        bool splits = (p->reductions & DLR_LT_REDUCTION_COMPUTE_TYPE) && room_of(d, how) <= p->room;
        if (how == HALVES && (!splits || terms_of(desc, a) < 2)) continue;
        found[(*n)++] = (dlr_lt_heuristic){.algorithm = algorithm_of(desc, a, b, d, how),
                                           .workspace = room_of(d, how)};
    }
    return status ? status : *n ? 0 : DLR_LT_NOT_SUPPORTED;
}

int cublasLtMatmulAlgoCheck(dlr_lt_handle handle, dlr_lt_desc desc, dlr_lt_layout a,
                            dlr_lt_layout b, dlr_lt_layout c, dlr_lt_layout d,
                            const dlr_lt_algorithm *algorithm, dlr_lt_heuristic *found) {
    int status = handle ? check(desc, a, b, c, d) : DLR_LT_NOT_INITIALIZED,
        how = (int)algorithm->data[0];
    dlr_lt_algorithm own = algorithm_of(desc, a, b, d, how);
    if (!status && (how < ONCE || how > HALVES || memcmp(&own, algorithm, sizeof own) != 0))
        status = DLR_LT_INVALID_VALUE;
    found->workspace = room_of(d, how), found->state = status;
    return status;
}

/* ---- products ---- */

static dl_dtype type_of(int type) {
    return type == DLR_LT_R_16F ? DL_F16 : type == DLR_LT_R_16BF ? DL_BF16 : DL_F32;
}

static size_t bytes_of(const opaque *l) {
    uint64_t n = (uint64_t)(l->batch - 1) * (uint64_t)l->next +
                 (l->columns - 1) * (uint64_t)l->lead + l->rows;
    return n * (size_t)dl_dtype_bytes(type_of(l->type));
}

/* An operand's element (row, column) at from[row + column * lead]; with `tf32`, to 11 digits, ties
 * away from zero, as kernels round theirs. */
static float *fetch(const opaque *l, uint64_t at, int32_t batch, bool tf32) {
    dl_dtype type = type_of(l->type);
    size_t n = (l->columns - 1) * (size_t)l->lead + l->rows, e = (size_t)dl_dtype_bytes(type);
    const char *from = (const char *)memory(at, bytes_of(l)) + (size_t)batch * (size_t)l->next * e;
    float *to = malloc(n * sizeof *to);
    if (!to) abort();
    dlr_convert(DL_F32, to, type, from, (int64_t)n);
    for (size_t i = 0; tf32 && i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &to[i], sizeof bits);
        bits = (bits + 0x1000) & ~(uint32_t)0x1fff;
        if (isfinite(to[i])) memcpy(&to[i], &bits, sizeof bits);
    }
    return to;
}

static float sum_of(const job *j, const float *a, const float *b, uint64_t row, uint64_t column,
                    uint64_t from, uint64_t to) {
    float sum = 0;
    for (uint64_t k = from; k < to; k++)
        sum += a[j->desc.transpose[0] ? k + row * (uint64_t)j->a.lead
                                      : row + k * (uint64_t)j->a.lead] *
               b[j->desc.transpose[1] ? column + k * (uint64_t)j->b.lead
                                      : k + column * (uint64_t)j->b.lead];
    return sum;
}

static float after(const job *j, float sum, uint64_t row) {
    dl_dtype type = type_of(j->desc.bias_type);
    float bias = 0;
    if (j->desc.epilogue & DLR_LT_EPILOGUE_BIAS) {
        const char *at = memory(j->desc.bias, j->d.rows * (size_t)dl_dtype_bytes(type));
        dlr_convert(DL_F32, &bias, type, at + row * (size_t)dl_dtype_bytes(type), 1);
    }
    sum += bias;
    return (j->desc.epilogue & DLR_LT_EPILOGUE_RELU) && sum < 0 ? 0 : sum;
}

static void multiply(const job *j, int32_t batch) {
    bool tf32 = j->desc.compute == DLR_LT_COMPUTE_32F_TF32;
    float *a = fetch(&j->a, j->at_a, batch, tf32), *b = fetch(&j->b, j->at_b, batch, tf32);
    dl_dtype type = type_of(j->d.type);
    size_t e = (size_t)dl_dtype_bytes(type), plane = j->d.rows * j->d.columns;
    char *to = (char *)memory(j->at_d, bytes_of(&j->d)) + (size_t)batch * (size_t)j->d.next * e;
    float *parts = j->how == HALVES ? memory(j->workspace, room_of(&j->d, HALVES)) : NULL;
    uint64_t terms = terms_of(&j->desc, &j->a) - (number("CUBLASLT_STANDIN_WRONG", 0) ? 1 : 0);
    for (uint64_t n = 0; n < j->d.columns; n++)
        for (uint64_t m = 0; m < j->d.rows; m++) {
            float sum;
            if (parts) {
                float *own = parts + 2 * ((size_t)batch * plane + n * j->d.rows + m);
                own[0] = sum_of(j, a, b, m, n, 0, terms / 2),
                own[1] = sum_of(j, a, b, m, n, terms / 2, terms);
                sum = own[0] + own[1];
            } else {
                sum = sum_of(j, a, b, m, n, 0, terms);
            }
            sum = after(j, sum, m);
            dlr_convert(type, to + (m + n * (size_t)j->d.lead) * e, DL_F32, &sum, 1);
        }
    free(a), free(b);
}

static void run(void *of) {
    const job *j = of;
    for (int32_t i = 0; i < j->d.batch; i++) multiply(j, i);
}

static void note(const job *j) {
    const char *name = getenv("CUBLASLT_STANDIN_LOG");
    FILE *f = name ? fopen(name, "a") : NULL;
    if (!f) return;
    fprintf(
        f,
        "%llux%llux%llu batch %d types %d %d compute %d transposed %d%d epilogue %d algorithm %d\n",
        (unsigned long long)j->d.columns, (unsigned long long)j->d.rows,
        (unsigned long long)terms_of(&j->desc, &j->a), j->d.batch, j->a.type, j->d.type,
        j->desc.compute, j->desc.transpose[0], j->desc.transpose[1], j->desc.epilogue, j->how);
    fclose(f);
}

int cublasLtMatmul(dlr_lt_handle handle, dlr_lt_desc desc, const void *alpha, const void *a,
                   dlr_lt_layout a_layout, const void *b, dlr_lt_layout b_layout, const void *beta,
                   const void *c, dlr_lt_layout c_layout, void *d, dlr_lt_layout d_layout,
                   const dlr_lt_algorithm *algorithm, void *workspace, size_t size,
                   dlr_cu_stream s) {
    dlr_lt_heuristic found;
    const float one = 1, none = 0;
    int status = cublasLtMatmulAlgoCheck(handle, desc, a_layout, b_layout, c_layout, d_layout,
                                         algorithm, &found);
    if (status) return status;
    if (memcmp(alpha, &one, sizeof one) != 0 || memcmp(beta, &none, sizeof none) != 0 || c != d ||
        size < found.workspace || (uintptr_t)workspace % 256 ||
        ((uintptr_t)a | (uintptr_t)b | (uintptr_t)d) % 16 ||
        (found.workspace && !memory((uintptr_t)workspace, found.workspace)) ||
        !memory((uintptr_t)a, bytes_of(a_layout)) || !memory((uintptr_t)b, bytes_of(b_layout)) ||
        !memory((uintptr_t)d, bytes_of(d_layout)))
        return DLR_LT_INVALID_VALUE;
    if ((desc->epilogue & DLR_LT_EPILOGUE_BIAS) &&
        !memory(desc->bias, d_layout->rows * (size_t)dl_dtype_bytes(type_of(desc->bias_type))))
        return DLR_LT_INVALID_VALUE;
    if (++handle->products == number("CUBLASLT_STANDIN_FAULT", 0)) return DLR_LT_EXECUTION_FAILED;
    job *j = new_kept(sizeof *j); /* what was captured runs it again */
    if (!j) return DLR_LT_ALLOC_FAILED;
    *j = (job){*desc,
               *a_layout,
               *b_layout,
               *d_layout,
               (uintptr_t)a,
               (uintptr_t)b,
               (uintptr_t)d,
               (uintptr_t)workspace,
               (int)algorithm->data[0]};
    note(j);
    return driver()->LaunchHostFunc(s, run, j) ? DLR_LT_EXECUTION_FAILED : 0;
}

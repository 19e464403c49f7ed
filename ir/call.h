/* Library calls: a device's library computes a part of a kernel in place of generated code. A
 * kernel's calls run before its phases, and may leave their result for these in the workspace. A
 * call is a GEMM or a convolution; dl_library_makes says which library has which. */
#ifndef DL_CALL_H
#define DL_CALL_H
#include "ir/base/arena.h"
#include "ir/relation.h"

typedef enum { DL_CALLED_MATMUL, DL_CALLED_CONVOLUTION, DL_NCALLED } dl_called;
typedef enum { DL_LIBRARY_CUBLASLT, DL_LIBRARY_CUDNN, DL_NLIBRARIES } dl_library;
extern const char *const dl_library_names[DL_NLIBRARIES]; /* "cuBLASLt" */
extern const dl_called dl_library_makes[DL_NLIBRARIES];

/* The part of a kernel that a call computes. WHOLE: the kernel's result. SUMS: the accumulators,
 * in f32 in the workspace; the phases then compute the epilogue. */
typedef enum { DL_FORM_WHOLE, DL_FORM_SUMS, DL_NFORMS } dl_form;

/* A library's algorithm for a call, in the library's own encoding: only that version, on that kind
 * of device, can read the words. Equal words give the same bits. */
enum { DL_ALGORITHM_WORDS = 8 };
typedef struct {
    dl_library library;
    int64_t version; /* 130100: 13.1.0 */
    dl_form form;    /* the form of the call that it is for */
    uint64_t words[DL_ALGORITHM_WORDS];
    int64_t workspace; /* bytes that it needs */
} dl_algorithm;

/* "13.1.0" */
const char *dl_library_version(dl_arena *arena, int64_t version);
/* dl_algorithm_name: the algorithm's name for people, interned: "cuBLASLt 13.1.0, algorithm
 * 3f20ab17", followed by ", sums alone" for that form. The other two: the whole algorithm as a
 * line of text, which parses back to the same algorithm. */
const char *dl_algorithm_name(const dl_algorithm *a);
const char *dl_algorithm_text(dl_arena *arena, const dl_algorithm *a);
bool dl_algorithm_parse(const char *text, size_t length, dl_algorithm *a);
bool dl_algorithm_is_same(const dl_algorithm *a, const dl_algorithm *b);

enum { DL_IN_WORKSPACE = -1 };
/* The place of a matrix in memory: lines of contiguous elements, `line` elements from one line to
 * the next (the leading dimension), and `next` elements from a GEMM's matrix to that of the next
 * GEMM in the batch (0: all share one). */
typedef struct {
    int param;      /* of the kernel, or DL_IN_WORKSPACE */
    int64_t offset; /* bytes from its start */
    dl_dtype dtype;
    bool across; /* operands: the K elements of a row (a column) are in K lines; otherwise in one
                    line */
    int64_t line, next;
} dl_matrix;

/* result[row][column] = relu(sum over k of left[row][k] * right[column][k] + bias[column]), for
 * each of `batch` GEMMs (M = rows, N = columns, K = terms). Sums are in f32, and rounded once. The
 * result's lines are its rows. */
typedef struct {
    int64_t batch, rows, columns, terms;
    dl_matrix left, right, result;
    bool tf32; /* f32 operands are multiplied in TF32 */
    int bias;  /* parameter, dense; -1: no bias */
    dl_dtype bias_type;
    bool relu;
} dl_matmul;

/* The place of a tensor in memory: the stride of each axis in elements; the three spatial axes
 * come last. */
enum { DL_TENSOR_AXES = 5 };
typedef struct {
    int param;      /* of the kernel, or DL_IN_WORKSPACE */
    int64_t offset; /* bytes from its start */
    dl_dtype dtype;
    int64_t step[DL_TENSOR_AXES];
} dl_lattice;

/* One of a convolution's tensors x, w, y (relation.h), computed from the other two. Sums are in
 * f32, and rounded once. */
typedef struct {
    dl_tensor makes;
    dl_conv_sizes size;
    dl_lattice of[DL_NTENSORS]; /* x, w and y; the entry for DL_TENSOR_NONE is unused */
    bool tf32;                  /* f32 operands are multiplied in TF32 */
} dl_convolution;

typedef struct {
    dl_algorithm algorithm;
    dl_called what;
    union {
        dl_matmul matmul;
        dl_convolution convolution;
    };
    int64_t workspace; /* the start of the algorithm's workspace in the kernel's: it begins at the
                          next multiple of DL_CALL_ALIGN bytes of memory */
} dl_call;
/* The most calls of one kernel: each form of each kind. */
enum { DL_CALL_ALIGN = 256, DL_MOST_CALLS = DL_NCALLED * (int)DL_NFORMS };

/* Are there calls for operands of that type? */
static inline bool dl_call_takes(dl_dtype t) { return t == DL_F32 || dl_dtype_is_half(t); }
/* Sizes of a tensor's axes: [samples, channels of x, in...], [channels of y, c, tap...], [samples,
 * channels of y, out...]. */
void dl_convolution_sizes(const dl_convolution *c, dl_tensor of, int64_t size[DL_TENSOR_AXES]);
/* Do the windows along spatial axis i fill x and its padding exactly, so that there is no room for
 * another window? */
bool dl_convolution_slides(const dl_convolution *c, int i);
/* The size of the call's result in the workspace, where it is at the start; otherwise 0. */
int64_t dl_call_sums(const dl_call *c);
/* Can the algorithm's library compute this kind of call, in the call's form? */
bool dl_call_is_for(const dl_call *c, const dl_algorithm *a);
/* Whether the call is valid for a kernel with `nargs` parameters of `arg_bytes` bytes and this
 * workspace. */
bool dl_call_fits(const dl_call *c, int nargs, const int64_t *arg_bytes, int64_t workspace);
#endif

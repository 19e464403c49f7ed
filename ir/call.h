/* Calls of libraries: what a plan has a library of the device make in place of code of its own. A kernel's
 * call stands in front of its phases, and the workspace hands on what it leaves there. What is called for is
 * a product of matrices or a convolution, each of them made by the libraries whose row says so. */
#ifndef DL_CALL_H
#define DL_CALL_H
#include "ir/base/arena.h"
#include "ir/relation.h"

typedef enum { DL_CALLED_MATMUL, DL_CALLED_CONVOLUTION, DL_NCALLED } dl_called;
typedef enum { DL_LIBRARY_CUBLASLT, DL_LIBRARY_CUDNN, DL_NLIBRARIES } dl_library;
extern const char *const dl_library_names[DL_NLIBRARIES]; /* "cuBLASLt" */
extern const dl_called dl_library_makes[DL_NLIBRARIES];

/* How much of a kernel a call makes: all of it; or its sums, in f32 in the workspace, of which phases make
 * the rest. */
typedef enum { DL_FORM_WHOLE, DL_FORM_SUMS, DL_NFORMS } dl_form;

/* How a library makes what is called for, as it wrote that down itself: only that version, on that kind of
 * device, knows what the words mean. The same words give the same bits. */
enum { DL_ALGORITHM_WORDS = 8 };
typedef struct {
    dl_library library;
    int64_t version; /* 130100: 13.1.0 */
    dl_form form;    /* of the call that it is for */
    uint64_t words[DL_ALGORITHM_WORDS];
    int64_t workspace; /* bytes that it takes */
} dl_algorithm;

/* "13.1.0" */
const char *dl_library_version(dl_arena *arena, int64_t version);
/* "cuBLASLt 13.1.0, algorithm 3f20ab17", ", sums alone" behind it of that form: what tells it from others for
 * who reads; interned. And the whole of it as a line of text, which parses back
 * to the same. */
const char *dl_algorithm_name(const dl_algorithm *a);
const char *dl_algorithm_text(dl_arena *arena, const dl_algorithm *a);
bool dl_algorithm_parse(const char *text, size_t length, dl_algorithm *a);
bool dl_algorithm_is_same(const dl_algorithm *a, const dl_algorithm *b);

enum { DL_IN_WORKSPACE = -1 };
/* Where a matrix lies: lines of elements side by side, `line` elements from one to the next, `next` elements
 * from a product's matrix to that of the product behind it (0: all have the same). */
typedef struct {
    int param;      /* of the kernel, or DL_IN_WORKSPACE */
    int64_t offset; /* bytes from where that begins */
    dl_dtype dtype;
    bool across; /* operands: the terms of a row (a column) stand in as many lines; else in one */
    int64_t line, next;
} dl_matrix;

/* result[row][column] = relu(sum over terms of left[row][term] * right[column][term] + bias[column]), for
 * each of `batch`; sums in f32, rounded once. The result's lines are its rows. */
typedef struct {
    int64_t batch, rows, columns, terms;
    dl_matrix left, right, result;
    bool tf32; /* operands of f32 are multiplied in TF32 */
    int bias;  /* parameter, dense; -1: none is added */
    dl_dtype bias_type;
    bool relu;
} dl_matmul;

/* Where a tensor lies: elements from one to the next along each axis, spatial ones last, three of them. */
enum { DL_TENSOR_AXES = 5 };
typedef struct {
    int param;      /* of the kernel, or DL_IN_WORKSPACE */
    int64_t offset; /* bytes from where that begins */
    dl_dtype dtype;
    int64_t step[DL_TENSOR_AXES];
} dl_lattice;

/* One of the three tensors that a convolution relates (relation.h), made of the other two; sums in f32,
 * rounded once. Missing spatial axes stand in front, as points. */
typedef struct {
    dl_tensor makes;
    int64_t samples, groups, c, o; /* c and o: channels of a group in x and in y */
    int64_t in[3], tap[3], out[3]; /* sizes */
    int64_t stride[3], dilation[3], pad_lo[3], pad_hi[3];
    dl_lattice of[DL_NTENSORS]; /* x, w and y; the first is none */
    bool tf32;                  /* operands of f32 are multiplied in TF32 */
} dl_convolution;

typedef struct {
    dl_algorithm algorithm;
    dl_called what;
    union {
        dl_matmul matmul;
        dl_convolution convolution;
    };
    int64_t workspace; /* where the algorithm's begins in the kernel's: room for it behind the next multiple
                          of DL_CALL_ALIGN bytes of memory */
} dl_call;
/* Of one kernel: each form of each that is called for, at most. */
enum { DL_CALL_ALIGN = 256, DL_MOST_CALLS = DL_NCALLED * (int)DL_NFORMS };

/* Are there calls for operands of that type? */
static inline bool dl_call_takes(dl_dtype t) { return t == DL_F32 || dl_dtype_is_half(t); }
/* Sizes of a tensor's axes: [samples, channels of x, in...], [channels of y, c, tap...], [samples, channels
 * of y, out...]. */
void dl_convolution_sizes(const dl_convolution *c, dl_tensor of, int64_t size[DL_TENSOR_AXES]);
/* Do as many windows as there are along spatial axis i, and no more, fit into x and its padding? */
bool dl_convolution_slides(const dl_convolution *c, int i);
/* Bytes that the call's result takes of the workspace, where it lies there from its beginning; else 0. */
int64_t dl_call_sums(const dl_call *c);
/* Is what the call makes made by the library, in the form, that the algorithm says? */
bool dl_call_is_for(const dl_call *c, const dl_algorithm *a);
/* Whether the call holds together with a kernel of so many parameters, of so many bytes, and workspace. */
bool dl_call_fits(const dl_call *c, int nargs, const int64_t *arg_bytes, int64_t workspace);
#endif

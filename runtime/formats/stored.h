/* Stored tensors: named arrays in one file, in the formats of PyTorch and Hugging Face.
 *
 * There are two formats, each in files of its own: safetensors (safetensors_*.c) and PyTorch's
 * (torch_*.c). A file that is read is recognized by its content. A file that is written is
 * PyTorch's if its name ends with .pt, .pth or .tar, and safetensors otherwise. Numbers are
 * little-endian. Data may be unaligned: copy them out. */
#ifndef DLR_STORED_H
#define DLR_STORED_H
#include "ir/base/arena.h"
#include <stddef.h>
#include <stdint.h>

/* Element types: name in the file, bytes an element. */
#define DLR_ST_DTYPES(X)                                                                           \
    X(F64, 8)                                                                                      \
    X(F32, 4)                                                                                      \
    X(F16, 2)                                                                                      \
    X(BF16, 2)                                                                                     \
    X(I64, 8) X(I32, 4) X(I16, 2) X(I8, 1) X(U64, 8) X(U32, 4) X(U16, 2) X(U8, 1) X(BOOL, 1)
#define DLR_ST_ENUM(name, size) DLR_ST_##name,
typedef enum { DLR_ST_DTYPES(DLR_ST_ENUM) DLR_ST_N_DTYPES } dlr_st_dtype;
#undef DLR_ST_ENUM
const char *dlr_st_dtype_name(dlr_st_dtype dtype);
size_t dlr_st_dtype_size(dlr_st_dtype dtype);
/* Whether dlr_st_load_f32 reads the type. */
bool dlr_st_is_float(dlr_st_dtype dtype);

enum { DLR_ST_MAX_RANK = 8 };

/* The strides of a tensor that is not row-major: element (i, j, ...) is at i stride[0] + j
 * stride[1] + ... of the data, counted in elements. */
typedef struct {
    int rank;
    int64_t shape[DLR_ST_MAX_RANK], stride[DLR_ST_MAX_RANK];
} dlr_st_view;

/* A tensor for the writer, or from the reader. */
typedef struct dlr_st_tensor {
    const char *name;
    dlr_st_dtype dtype;
    int rank;
    int64_t shape[DLR_ST_MAX_RANK];
    const void *data; /* row-major; for the writer: NULL means that `read` provides it */
    uint64_t bytes;   /* bytes of its elements; set by the reader, ignored by the writer */
    /* Reader, for a tensor that is not row-major in its file (NULL: it is): its strides, and its
     * first element, counted row-major. */
    const dlr_st_view *view;
    int64_t first;
    /* Reader, for a tensor that consists of boxes in other files */
    const struct dlr_st_joined *joined;
} dlr_st_tensor;

typedef struct {
    const char *key, *value;
} dlr_st_meta;

/* ---- Writing ---- */

/* The most that is buffered of a tensor while it is read or written. */
enum { DLR_ST_PIECE = 4 << 20 /* bytes */ };

/* Writes elements first .. first + n - 1 of tensors[index], counted row-major, to dst (from a
 * device, or from another layout); at most DLR_ST_PIECE bytes. */
typedef bool dlr_st_read(void *ctx, int index, int64_t first, int64_t n, void *dst, dl_error *err);

typedef struct {
    const dlr_st_tensor *tensors;
    int n;
    const dlr_st_meta *metadata;
    int n_metadata;
    dlr_st_read *read; /* provides tensors without data */
    void *ctx;
    bool finite; /* a value that is not finite is an error */
} dlr_st_content;

typedef struct {
    uint64_t bytes, checksum; /* of the whole file (checksum.h) */
    const char *not_finite;   /* name of the first tensor with a value that is not finite */
} dlr_st_written;

/* Writes a file atomically: a temporary in the same folder, fsync, rename. Safetensors are in the
 * given order, but wider element types first, so that each is aligned to its size; the header is
 * padded to 64. PyTorch's file is a state_dict in the given order (torch_file.h), without metadata.
 * The state is not copied as a whole: `read` fills one buffer of DLR_ST_PIECE bytes. `written` may
 * be NULL. Errors: DL_IO with path and cause; DL_NUMERIC naming tensor and element, where `finite`
 * is set; DL_RESOURCE without memory for that buffer; DL_INTERNAL for a name given twice, a
 * negative size, a rank over DLR_ST_MAX_RANK or tensors that the format cannot hold; errors of
 * `read`. */
bool dlr_st_write(const char *path, const dlr_st_content *content, dlr_st_written *written,
                  dl_error *err);

/* ---- Reading ---- */

typedef struct dlr_st_file {
    const char *path;
    /* in the file's order; `data` points into the mapped file, and may be unaligned */
    const dlr_st_tensor *tensors;
    int n;
    const dlr_st_meta *metadata;
    int n_metadata;
    struct dlr_st_private *private;
} dlr_st_file;

typedef enum {
    DLR_ST_PLAIN = 0,
    DLR_ST_STRIP = 1, /* drop leading `module.` and `_orig_mod.` (DistributedDataParallel's,
                         torch.compile's) */
    DLR_ST_INPUT = 2  /* a user's input, which no output of this process may replace */
} dlr_st_flags;

/* Opens and checks a file of either format: sizes, offsets without overlap, a description of at
 * most 100 MB, no name twice. No data are read. Tensors of PyTorch's files are those of the model's
 * state (torch_file.h defines where it is). Errors, each naming the file: DL_IO when it cannot be
 * read, DL_INPUT with the fault. */
dlr_st_file *dlr_st_open(const char *path, dlr_st_flags flags, dl_error *err);
void dlr_st_close(dlr_st_file *file); /* NULL is fine */

/* Opens several files as one: a tensor of which each file has a box appears as a whole. A file
 * gives the offsets of its boxes in its metadata DCP_SHARDING_INFO, {"NAME": {"saved_offsets": [0,
 * 64]}, ...}, the format of PyTorch's torch.distributed.checkpoint (HuggingFaceStorageWriter); a
 * file without it has whole tensors. `name` stands for all files in messages. Errors as
 * dlr_st_open, and DL_INPUT where boxes overlap, leave a gap or have different types. */
dlr_st_file *dlr_st_open_joined(const char *const *paths, int n, const char *name,
                                dlr_st_flags flags, dl_error *err);
#define DLR_ST_BOXES   "DCP_SHARDING_INFO"
#define DLR_ST_OFFSETS "saved_offsets"

/* The tensor of that name, or NULL. */
const dlr_st_tensor *dlr_st_find(const dlr_st_file *file, const char *name);
const char *dlr_st_metadata(const dlr_st_file *file, const char *key); /* or NULL */

/* Elements first .. first + n - 1 of a tensor, counted row-major, as a one-dimensional tensor: for
 * reading a large one in pieces. */
dlr_st_tensor dlr_st_part(const dlr_st_tensor *tensor, int64_t first, int64_t n);
/* A box of a whole tensor: a tensor of a file, and its offsets in the whole. */
typedef struct {
    const dlr_st_file *file;
    const dlr_st_tensor *tensor;
    int64_t at[DLR_ST_MAX_RANK];
} dlr_st_box;
/* A region of a whole tensor that consists of boxes: its offsets, and its sizes. */
typedef struct dlr_st_joined {
    const dlr_st_box *boxes;
    int n;
    int64_t from[DLR_ST_MAX_RANK], shape[DLR_ST_MAX_RANK];
} dlr_st_joined;

/* Elements first .. first + n - 1 along an axis, as a tensor; reading it reads only what lies
 * between them. `slice` is filled, and must outlive the result. */
typedef struct {
    dlr_st_joined joined;
    dlr_st_box box;
} dlr_st_slice;
dlr_st_tensor dlr_st_cut(const dlr_st_file *file, const dlr_st_tensor *tensor, int axis,
                         int64_t first, int64_t n, dlr_st_slice *slice);

/* Copies a tensor's bytes to memory. It reads instead of mapping, so that a bad disk or a file that
 * is truncated meanwhile is an error (DL_IO) and not a signal. For PyTorch's files the storage is
 * first checked against its checksum (DL_INPUT), once. */
bool dlr_st_load(const dlr_st_file *file, const dlr_st_tensor *tensor, void *dst, dl_error *err);
/* The same, converted to float32 from F64, F32, F16 or BF16 (F64 rounded to nearest even). Errors:
 * DL_INPUT for other types. */
bool dlr_st_load_f32(const dlr_st_file *file, const dlr_st_tensor *tensor, float *dst,
                     dl_error *err);

/* Differences between two things that should be equal, a line each. */
typedef DL_ARRAY(const char *) dlr_differences;
/* Adds the differences of a file from the expected tensors: exactly the wanted names and shapes,
 * and element types that can be loaded (the wanted one, or any float where a float is wanted). */
void dlr_st_compare(dl_arena *arena, const dlr_st_file *file, const dlr_st_tensor *want, int n,
                    dlr_differences *list);
/* Whether an error message has space for all differences. */
bool dlr_differences_fit(const dlr_differences *list);
/* Fails with DL_INPUT: `what`, and as many differences as the message has space for. Returns
 * false. */
bool dlr_differences_fail(const dlr_differences *list, const char *what, dl_error *err);

/* Checks that the file holds exactly the expected tensors, as dlr_st_compare. Errors: DL_INPUT
 * listing as many differences as the message has space for. */
bool dlr_st_check(const dlr_st_file *file, const dlr_st_tensor *want, int n, dl_error *err);
#endif

/* Shared by the formats of stored tensors. */
#ifndef DLR_STORED_INTERNAL_H
#define DLR_STORED_INTERNAL_H
#include "ir/base/output.h"
#include "runtime/formats/checksum.h"
#include "runtime/formats/stored.h"

enum { DLR_ST_MAX_HEADER = 100 * 1000 * 1000, DLR_ST_ALIGN = 64 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "stored tensors are little-endian and copied as they are");

/* Bytes of the data by shape and type; false for a negative size or more than 2^63 bytes. */
bool dlr_st_size(const dlr_st_tensor *tensor, uint64_t *bytes);
/* The index of the first of n values that is not finite, or -1; always -1 for integers. *nan
 * distinguishes NaN from infinity. */
int64_t dlr_st_find_not_finite(dlr_st_dtype dtype, const void *data, int64_t n, bool *nan);

/* A tensor's name without the prefixes that DLR_ST_STRIP drops. */
const char *dlr_st_bare_name(const char *name);

/* dlr_st_load of a tensor in one file, without boxes; each box is such a tensor. */
bool dlr_st_load_unjoined(const dlr_st_file *file, const dlr_st_tensor *tensor, void *dst,
                          dl_error *err);
/* dlr_st_load of a tensor that consists of boxes. */
bool dlr_st_join(const dlr_st_tensor *tensor, void *dst, dl_error *err);
/* Runs within this many bytes are read together and then copied out. */
enum { DLR_ST_WINDOW = 64 << 20 };
/* Sorts the file's names for dlr_st_find. Errors: DL_INPUT for a name that occurs twice. */
bool dlr_st_index_names(dlr_st_file *file, dlr_st_flags flags, dl_error *err);

/* ---- Reading ---- */

struct dlr_torch_value;

struct dlr_st_private {
    dl_arena *arena; /* also holds the file's description */
    int fd;
    unsigned char *map;
    uint64_t size, data; /* size of the file; offset of the data in safetensors files */
    dlr_st_tensor *tensors;
    int *by_name;
    const struct dlr_torch_value *root; /* the whole content of a PyTorch file */
    struct dlr_torch_sums *sums;        /* its checksums; NULL: none */
    dlr_st_file **files;                /* the files of a joined file (fd: -1) */
    int n_files;
};

/* Reads a file's description: private->tensors, n, metadata; names need not be unique yet. */
typedef bool dlr_st_describe(dlr_st_file *file, dl_error *err);
dlr_st_describe dlr_safetensors_describe, dlr_torch_describe;
/* Whether a file that begins with these n bytes is PyTorch's, of any version. */
bool dlr_torch_begins(const unsigned char *head, size_t n);

/* Checks the checksum of the PyTorch file's entry that contains byte `at`; true for other files.
 * Errors: DL_INPUT, DL_IO, DL_RESOURCE. */
bool dlr_torch_check(const dlr_st_file *file, int64_t at, dl_error *err);

/* ---- Writing ---- */

/* A file that is being written, in one pass: each block is added to the checksum while it is in the
 * cache, and then written. */
typedef struct {
    const char *path;
    const dlr_st_content *content;
    dl_output *out;
    dlr_checksum sum;       /* sum.n: bytes so far */
    bool counts_crc;        /* compute `crc`, too */
    uint32_t crc;           /* zip's CRC-32 of all bytes since it was set to 0 */
    const char *not_finite; /* the first tensor with a value that is not finite */
    void *buffer;           /* a piece of a tensor */
    dl_error *err;
} dlr_st_stream;

/* stored_stream.c, called by the formats. */
bool dlr_st_put(dlr_st_stream *s, const void *data, uint64_t n);
/* Writes the data of tensor number `index`, row-major. */
bool dlr_st_put_tensor(dlr_st_stream *s, int index);

/* Writes a whole file of one format; `arena` is freed after it. */
typedef bool dlr_st_format(dlr_st_stream *s, dl_arena *arena, const void *ctx);
dlr_st_format dlr_safetensors_put;
/* dlr_st_write in a given format. `ctx` is passed to it. */
bool dlr_st_write_as(const char *path, const dlr_st_content *content, dlr_st_format *format,
                     const void *ctx, dlr_st_written *written, dl_error *err);
/* Writes a PyTorch file with the content as an OrderedDict, a state_dict. */
bool dlr_torch_write_state(const char *path, const dlr_st_content *content, dlr_st_written *written,
                           dl_error *err);
/* Checks shape and rank of a tensor to be written; computes its bytes. Errors: DL_INTERNAL. */
bool dlr_st_check_shape(const dlr_st_tensor *tensor, uint64_t *bytes, dl_error *err);
#endif

/* What the formats of stored tensors share. */
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
/* The first of n values that is not finite, or -1; always -1 for integers. *nan tells NaN from
 * infinity. */
int64_t dlr_st_find_not_finite(dlr_st_dtype dtype, const void *data, int64_t n, bool *nan);

/* A tensor's name without what DLR_ST_STRIP drops in front of it. */
const char *dlr_st_bare_name(const char *name);

/* dlr_st_load of a tensor that one file holds, in no boxes; the tensors of boxes are such. */
bool dlr_st_load_unjoined(const dlr_st_file *file, const dlr_st_tensor *tensor, void *dst,
                          dl_error *err);
/* dlr_st_load of one that lies in boxes. */
bool dlr_st_join(const dlr_st_tensor *tensor, void *dst, dl_error *err);
/* What lies within this many bytes is read at once and picked from. */
enum { DLR_ST_WINDOW = 64 << 20 };
/* Sorts the file's names for dlr_st_find. Errors: DL_INPUT where one is there twice. */
bool dlr_st_index_names(dlr_st_file *file, dlr_st_flags flags, dl_error *err);

/* ---- Reading ---- */

struct dlr_torch_value;

struct dlr_st_private {
    dl_arena *arena; /* holds the file's description too */
    int fd;
    unsigned char *map;
    uint64_t size, data; /* of the file; where the data of safetensors start */
    dlr_st_tensor *tensors;
    int *by_name;
    const struct dlr_torch_value *root; /* all that a file of PyTorch's says */
    struct dlr_torch_sums *sums;        /* its checksums; NULL: it has none */
    dlr_st_file **files;                /* of several as one (fd: -1) */
    int n_files;
};

/* Reads what a file says of its tensors: private->tensors, n, metadata; names need not be unique
 * yet. */
typedef bool dlr_st_describe(dlr_st_file *file, dl_error *err);
dlr_st_describe dlr_safetensors_describe, dlr_torch_describe;
/* Whether a file that begins with these n bytes is PyTorch's, of any age. */
bool dlr_torch_begins(const unsigned char *head, size_t n);

/* Whether the entry of a PyTorch's file in which the byte `at` lies has its checksum; true of other
 * files. Errors: DL_INPUT, DL_IO, DL_RESOURCE. */
bool dlr_torch_check(const dlr_st_file *file, int64_t at, dl_error *err);

/* ---- Writing ---- */

/* A file on its way out, in one pass: each block is summed while it is in the cache, and then
 * written. */
typedef struct {
    const char *path;
    const dlr_st_content *content;
    dl_output *out;
    dlr_checksum sum;       /* sum.n: bytes so far */
    bool counts_crc;        /* `crc` is wanted */
    uint32_t crc;           /* zip's, of all bytes since it was set to 0 */
    const char *not_finite; /* the first such tensor */
    void *buffer;           /* a piece of a tensor */
    dl_error *err;
} dlr_st_stream;

/* stored_stream.c, which the formats call. */
bool dlr_st_put(dlr_st_stream *s, const void *data, uint64_t n);
/* The data of tensor number `index`, row-major. */
bool dlr_st_put_tensor(dlr_st_stream *s, int index);

/* Puts a whole file of one format; `arena` is freed behind it. */
typedef bool dlr_st_format(dlr_st_stream *s, dl_arena *arena, const void *ctx);
dlr_st_format dlr_safetensors_put;
/* dlr_st_write in a given format. `ctx` is handed to it. */
bool dlr_st_write_as(const char *path, const dlr_st_content *content, dlr_st_format *format,
                     const void *ctx, dlr_st_written *written, dl_error *err);
/* A file of PyTorch's with the content as an OrderedDict, a state_dict. */
bool dlr_torch_write_state(const char *path, const dlr_st_content *content, dlr_st_written *written,
                           dl_error *err);
/* Whether shape and rank of a tensor to be written are valid; its bytes. Errors: DL_INTERNAL. */
bool dlr_st_check_shape(const dlr_st_tensor *tensor, uint64_t *bytes, dl_error *err);
#endif

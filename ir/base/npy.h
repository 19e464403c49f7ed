/* NumPy's .npy files: what the header says, and the numbers as doubles. Files are not trusted:
 * every length is held against the file's. */
#ifndef DL_NPY_H
#define DL_NPY_H
#include "ir/base/status.h"
#include "ir/base/str.h"

#include <stddef.h>
#include <stdint.h>

enum { DL_NPY_RANK = 8 };

typedef struct {
    char code[32];    /* NumPy's name of the element type, "<f4" */
    const char *type; /* ours, "f32"; NULL: not one of numbers that are read */
    int element;      /* which of those, for dl_npy_read; -1 */
    bool fortran;     /* the first axis fastest */
    int rank;
    uint64_t dims[DL_NPY_RANK], count; /* count: at most 2^47 */
    uint64_t offset;                   /* of the numbers in the file */
} dl_npy;

/* Appends the header of an array, last axis fastest, whose numbers then follow at a multiple of 64
 * bytes: version 1 of the format (NumPy enhancement proposal 1). `code` as above; rank is at most
 * DL_NPY_RANK. */
void dl_npy_put_header(dl_buf *out, const char *code, const int64_t *dims, int rank);
/* Reads the header of an open file. Errors (DL_INPUT): it is none, is damaged, or is shorter than
 * it says. */
bool dl_npy_header(int fd, const char *path, uint64_t file_bytes, dl_npy *out, dl_error *err);
/* The same of an array that stands elsewhere: `head` are its first n bytes, or as many as `bytes`,
 * which it has in all. */
enum { DL_NPY_HEAD = 12 + (1 << 16) }; /* bytes that are always enough */
bool dl_npy_parse(const void *head, size_t n, const char *path, uint64_t bytes, dl_npy *out,
                  dl_error *err);
/* Numbers first .. first + n - 1 of those that begin at `offset`, as they lie in the file. Errors:
 * DL_IO, DL_RESOURCE. */
bool dl_npy_read(int fd, const char *path, int element, uint64_t offset, uint64_t first, size_t n,
                 double *out, dl_error *err);
#endif

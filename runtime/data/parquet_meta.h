/* The footer of a Parquet file: its columns of numbers, and where their pages lie.
 *
 * Sources: github.com/apache/parquet-format, "Parquet thrift definition" and "Encodings"; "Thrift
 * compact protocol". */
#ifndef DLR_PARQUET_META_H
#define DLR_PARQUET_META_H
#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "runtime/data/array_facts.h"

enum { DLR_PARQUET_COLUMNS = 4096, DLR_PARQUET_GROUPS = 1 << 16 };

typedef enum { /* as they are counted in the format */
               DLR_PARQUET_BOOLEAN,
               DLR_PARQUET_INT32,
               DLR_PARQUET_INT64,
               DLR_PARQUET_INT96,
               DLR_PARQUET_FLOAT,
               DLR_PARQUET_DOUBLE,
               DLR_PARQUET_BYTES,
               DLR_PARQUET_FIXED
} dlr_parquet_type;

/* The pages of a column in one group of rows. */
typedef struct {
    int64_t at, bytes, rows; /* in the file; -1: none were listed */
    int codec;
} dlr_parquet_chunk;

typedef struct {
    const char *name;
    dlr_parquet_type type;
    size_t width;        /* bytes of a value; a bool is one byte here */
    dlr_element element; /* what it is read as: DLR_EL_NONE where it is not read, for `refused` */
    bool optional;       /* rows may have no value: NaN */
    bool is_signed;      /* of whole numbers */
    const char *refused; /* the end of a sentence, to which a remedy for `odd` is added */
    dlr_odd odd;
    dlr_parquet_chunk *chunk; /* of each group of rows */
} dlr_parquet_column;

typedef struct {
    int64_t rows;
    int columns, groups;
    dlr_parquet_column *column;
} dlr_parquet;

/* Reads a footer of n bytes of a file of `size` bytes (`path` is for messages). Pages lie within
 * the file, and each column has as many rows as the file. Errors: DL_INPUT. */
bool dlr_parquet_read_footer(dl_arena *arena, const void *footer, size_t n, int64_t size,
                             const char *path, dlr_parquet *out, dl_error *err);

/* The header of a page. */
typedef enum { DLR_PAGE_DATA = 0, DLR_PAGE_DICTIONARY = 2, DLR_PAGE_DATA_2 = 3 } dlr_page_kind;
typedef struct {
    int kind;                /* a dlr_page_kind, or another number for a page to skip */
    int64_t bytes, unpacked; /* of its content, in the file and without its codec */
    int64_t values;
    int encoding;
    int64_t level_bytes;  /* DLR_PAGE_DATA_2: of the levels, which are not packed; */
    int64_t repeat_bytes; /* the first of them, of repetition */
    bool packed;
    bool checked; /* by a CRC-32 */
    uint32_t checksum;
} dlr_parquet_page;
/* Reads a header; returns its bytes, or 0 where it is damaged. */
size_t dlr_parquet_read_page(const void *from, size_t n, dlr_parquet_page *out);

/* parquet_pages.c: whether that codec is read. */
bool dlr_parquet_unpacks(int codec);
/* Unpacks the pages of a column in one group of rows (`n` bytes, which it may overwrite) into
 * chunk->rows elements of column->element, packed. False, with the reason as the end of a
 * sentence. */
bool dlr_parquet_unpack(const dlr_parquet_column *column, const dlr_parquet_chunk *chunk,
                        unsigned char *from, size_t n, char *out, const char **why);
#endif

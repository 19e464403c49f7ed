/* Where the fields of a GRIB file lie: messages of editions 1 and 2 and their sections, by WMO's
 * Manual on Codes (FM 92). Nothing here decodes numbers, and nothing in the file is trusted.
 * Private to grib_*.c and array_grib.c. */
#ifndef DLR_GRIB_FIELDS_H
#define DLR_GRIB_FIELDS_H
#include "ir/base/arena.h"

enum { DLR_GRIB_SECTIONS = 8, DLR_GRIB_MOST = 1 << 18 /* fields of a file */ };

/* A field: a message of edition 1, or one repetition of sections 2 to 7 in one of edition 2. */
typedef struct {
    int edition;
    int64_t at, bytes; /* its message in the file */
    /* Its sections in the file, with the bitmap that it has in common with an earlier field; 0
     * bytes: it has none of that number. */
    int64_t section[DLR_GRIB_SECTIONS], length[DLR_GRIB_SECTIONS];
} dlr_grib_field;

typedef DL_ARRAY(dlr_grib_field) dlr_grib_fields;

/* Finds all fields of an open file of `size` bytes. Other bytes may lie between messages. Errors:
 * DL_INPUT (damaged, by the byte), DL_IO. */
bool dlr_grib_find(dl_arena *arena, int fd, const char *path, int64_t size, dlr_grib_fields *found,
                   dl_error *err);

/* A message that has this field alone, in memory that the caller frees; `head`: its numbers are
 * left out, so that it only describes itself. NULL with an error. */
unsigned char *dlr_grib_message(int fd, const char *path, const dlr_grib_field *field, bool head,
                                size_t *n, dl_error *err);
#endif

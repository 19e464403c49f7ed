/* Formats of data files that are not read: by what they are known, and the command that converts
 * them. For all programs that read data; the table is foreign_formats.def. */
#ifndef DLR_FOREIGN_FORMATS_H
#define DLR_FOREIGN_FORMATS_H
#include "ir/base/status.h"
#include <stddef.h>

/* Bytes of a file's begin that tell the format; where a NIfTI file has its mark, and a tar file. */
enum { DLR_FOREIGN_HEAD = 512 };

typedef enum {
    DLR_FOREIGN_BYTES, /* by the first bytes, and the name's ending where one of both is not enough
                        */
    DLR_FOREIGN_NAME   /* by the name's ending alone, which is less than the bytes say */
} dlr_foreign_by;

/* Fails (DL_INPUT) when the file is of a known format that is not read: its name, what converts it
 * ("IN" and "OUT" stand for the files), and the package that has this. True: it is of none. `head`
 * has the file's first n bytes, at most DLR_FOREIGN_HEAD. */
bool dlr_refuse_foreign(const char *path, const void *head, size_t n, dlr_foreign_by by,
                        dl_error *err);

/* The same for a zip file, by the name of one of its entries. */
bool dlr_refuse_foreign_zip(const char *path, const char *entry, dl_error *err);
#endif

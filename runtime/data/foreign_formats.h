/* Data formats that are not read: how they are recognized, and the command that converts them. For
 * all programs that read data; the table is foreign_formats.def. */
#ifndef DLR_FOREIGN_FORMATS_H
#define DLR_FOREIGN_FORMATS_H
#include "ir/base/status.h"
#include <stddef.h>

/* Bytes of a file's begin that are examined: the signatures of NIfTI and tar files lie furthest
 * in. */
enum { DLR_FOREIGN_HEAD = 512 };

typedef enum {
    DLR_FOREIGN_BYTES, /* by the first bytes, and by the name's ending where one of both is not
                          enough */
    DLR_FOREIGN_NAME   /* by the name's ending alone, which is weaker evidence */
} dlr_foreign_by;

/* Fails (DL_INPUT) for a file of a known format that is not read. The error has the format's name,
 * a command that converts it ("IN" and "OUT" stand for the files), and the package with this
 * command. True: the format is unknown. `head` has the file's first n bytes, at most
 * DLR_FOREIGN_HEAD. */
bool dlr_refuse_foreign(const char *path, const void *head, size_t n, dlr_foreign_by by,
                        dl_error *err);

/* The same for a zip file, by the name of one of its entries. */
bool dlr_refuse_foreign_zip(const char *path, const char *entry, dl_error *err);
#endif

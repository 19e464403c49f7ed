/* Names of the JPEG files, and of the folders, in a folder. */
#ifndef DLR_JPEG_FOLDER_H
#define DLR_JPEG_FOLDER_H
#include "ir/base/arena.h"
#include "ir/base/status.h"

#include <stdint.h>

typedef DL_ARRAY(const char *) dlr_names;

/* Lists the names in a folder that do not begin with a dot, sorted by their bytes: those of
 * folders, or of other files. `key` begins messages. Errors: DL_IO. */
bool dlr_folder_list(dl_arena *arena, const char *key, const char *folder, bool folders,
                     dlr_names *out, dl_error *err);
/* Lists the JPEG files, by their endings, sorted. Errors: DL_IO; DL_INPUT for a picture of another
 * format: if it were left out, users would notice late. */
bool dlr_folder_jpegs(dl_arena *arena, const char *key, const char *folder, dlr_names *out,
                      dl_error *err);
/* Whether a sorted list has the name. */
bool dlr_names_have(const dlr_names *names, const char *name);
#endif

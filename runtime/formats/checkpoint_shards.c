/* The names of a checkpoint's files; a part may have several files. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/formats/checkpoint_internal.h"

enum { MOST_FILES = 99999 };

char *dlr_checkpoint_shard_name(dl_arena *arena, const char *part, int number, int of) {
    return dl_format(arena, "%s-%05d-of-%05d", part, number, of);
}

/* A name becomes part of a path. Only letters, digits, underscores and those numbers are
 * allowed. */
bool dlr_checkpoint_parse_name(const char *name, size_t *n, int *number, int *of) {
    static const char between[] = "-of-";
    const char *digits = "0123456789";
    *n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_"), *number = *of = 0;
    if (strcmp(name, DLR_CHECKPOINT_INDEX) == 0) return true;
    if (*n == 0 || *n > 99) return false;
    const char *at = name + *n;
    if (!*at) return true;
    if (*at != '-' || strspn(at + 1, digits) != 5 || strncmp(at + 6, between, 4) != 0 ||
        strspn(at + 10, digits) != 5 || at[15])
        return false;
    *number = atoi(at + 1), *of = atoi(at + 10);
    return *of >= 1 && *of <= MOST_FILES && *number >= 1 && *number <= *of;
}

char *dlr_checkpoint_path(dl_arena *arena, const char *checkpoint, const char *name) {
    bool index = strcmp(name, DLR_CHECKPOINT_INDEX) == 0;
    return dl_format(arena, "%s/%s%s", checkpoint, name, index ? "" : ".safetensors");
}

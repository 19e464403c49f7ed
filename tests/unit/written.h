/* Files that tests write and read back. */
#ifndef DL_TEST_WRITTEN_H
#define DL_TEST_WRITTEN_H
#include "ir/base/input.h"
#include "tests/check.h"

/* dir/name, in one of four buffers that take turns. */
static inline const char *written_path(const char *dir, const char *name) {
    static char path[4][512];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

/* All bytes of it. */
static inline char *written_bytes(dl_arena *arena, const char *dir, const char *name, size_t *n) {
    dl_error err = {0};
    char *bytes = dl_read_file(arena, written_path(dir, name), 1 << 28, n, &err);
    CHECK(bytes, "%s", err.message);
    return bytes;
}
#endif

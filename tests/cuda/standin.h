/* For stand-ins of CUDA's libraries: the emulated driver and its memory, and allocations that are
 * kept until the process ends. */
#ifndef TESTS_CUDA_STANDIN_H
#define TESTS_CUDA_STANDIN_H
#include <stdlib.h>

#include "tests/emulator/cuda_emulator.h"

/* NULL: there is no emulator. */
static inline const dlr_driver *driver(void) {
    return find_emulator() ? find_emulator()->driver() : NULL;
}
/* The address of so many bytes of device memory, or NULL: they are not all the device's. */
static inline void *memory(uint64_t at, size_t bytes) {
    return find_emulator() ? find_emulator()->memory(at, bytes) : NULL;
}
/* An environment variable as a number. */
static inline long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static struct kept {
    struct kept *next;
    void *what;
} * all_kept;

/* Memory of zeros, or NULL, that is kept, such as jobs that a captured step runs again: no leak of
 * who calls the library. */
static inline void *new_kept(size_t bytes) {
    struct kept *k = malloc(sizeof *k);
    void *what = calloc(1, bytes);
    if (!k || !what) return free(k), free(what), NULL;
    *k = (struct kept){all_kept, what};
    all_kept = k;
    return what;
}
#endif

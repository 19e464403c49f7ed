/* What stand-ins of CUDA's libraries have of the program that loads them: the driver's fake and its
 * memory; and what they keep for good. */
#ifndef TESTS_CUDA_STANDIN_H
#define TESTS_CUDA_STANDIN_H
#include <dlfcn.h>
#include <stdlib.h>

#include "runtime/driver/driver.h"

/* NULL: the program has none. */
static inline const dlr_driver *driver(void) {
    static const dlr_driver *(*get)(void);
    if (!get) *(void **)&get = dlsym(RTLD_DEFAULT, "dlr_driver_fake");
    return get ? get() : NULL;
}
/* The device's memory, or NULL: not all of it is there. */
static inline void *memory(uint64_t at, size_t bytes) {
    static void *(*get)(uint64_t, size_t);
    if (!get) *(void **)&get = dlsym(RTLD_DEFAULT, "dlr_fake_memory");
    return get ? get(at, bytes) : NULL;
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

/* What a stand-in keeps for good, such as jobs that a captured step runs again: no leak of who calls it. */
#ifndef TESTS_CUDA_KEPT_H
#define TESTS_CUDA_KEPT_H
#include <stdlib.h>

static struct kept {
    struct kept *next;
    void *what;
} * all_kept;

/* Memory of zeros, or NULL. */
static inline void *new_kept(size_t bytes) {
    struct kept *k = malloc(sizeof *k);
    void *what = calloc(1, bytes);
    if (!k || !what) return free(k), free(what), NULL;
    *k = (struct kept){all_kept, what};
    all_kept = k;
    return what;
}
#endif

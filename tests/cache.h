/* Where a test's compiled kernels are kept. */
#ifndef DL_TEST_CACHE_H
#define DL_TEST_CACHE_H
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* Beside those of all other tests, where DLC_TEST_CACHE names a folder, so that none is compiled twice; else
 * in a new one, made of the template *dir. */
static inline bool test_cache(char *dir) {
    const char *shared = getenv("DLC_TEST_CACHE");
    return shared ? !setenv("DLR_CACHE_DIR", shared, 1) : mkdtemp(dir) && !setenv("DLR_CACHE_DIR", dir, 1);
}
#endif

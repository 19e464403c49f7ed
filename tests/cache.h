/* Where a test's compiled kernels are kept. */
#ifndef DL_TEST_CACHE_H
#define DL_TEST_CACHE_H
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* Makes a folder of the template *dir. Kernels are kept there, or, where DLC_TEST_CACHE names a folder,
 * beside those of all other tests, so that none is compiled twice. */
static inline bool test_cache(char *dir) {
    const char *shared = getenv("DLC_TEST_CACHE");
    return mkdtemp(dir) && !setenv("DLR_CACHE_DIR", shared ? shared : dir, 1);
}
#endif

/* Where a test's compiled kernels are kept, and what lies in such a folder. */
#ifndef DL_TEST_CACHE_H
#define DL_TEST_CACHE_H
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Makes a folder of the template *dir. Kernels are kept there, or, where DLC_TEST_CACHE names a
 * folder, next to those of all other tests, so that none is compiled twice. Meson names folders of
 * its build in LD_LIBRARY_PATH, which is a part of a kernel's key, since compilers load their
 * libraries by it: without it the kernels of other builds (under sanitizers, of another clone) are
 * found. Ours are loaded by now. */
static inline bool test_cache(char *dir) {
    unsetenv("LD_LIBRARY_PATH");
    const char *shared = getenv("DLC_TEST_CACHE");
    setenv("DLR_CACHE_MAX", "0", 1); /* scripts/test removes what is old */
    return mkdtemp(dir) && !setenv("DLR_CACHE_DIR", shared ? shared : dir, 1);
}

/* How many entries of a folder have `part` in their names; 0 where there is no such folder. */
static inline int count_entries(const char *dir, const char *part) {
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, part) != NULL;
    if (d) closedir(d);
    return n;
}
#endif

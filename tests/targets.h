/* Which targets a test compiles for, and runs, on this machine. */
#ifndef DL_TEST_TARGETS_H
#define DL_TEST_TARGETS_H
#include <stdio.h>

#include "compiler/target/target.h"

/* The target `name`, or, where this CPU is of another kind, the same emulated: so that kernels of
 * each kind are tested on every x86-64. Its name as given where there is neither. */
static inline const char *test_target_here(const char *name) {
    static char emulated[8][64];
    static int n;
    dl_error none = {0};
    if (dl_target_find(NULL, name, &none)) return name;
    char *to = emulated[n++ % 8];
    snprintf(to, sizeof emulated[0], "%s:emulated", name);
    return dl_target_find(NULL, to, &none) ? to : name;
}
#endif

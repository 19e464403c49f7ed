/* The smallest unit-test harness: CHECK counts, a failed one prints its place; `return dl_test_end();` ends
 * main and prints the line "N passed, N failed" that scripts/test adds up. */
#ifndef DL_CHECK_H
#define DL_CHECK_H
#include <math.h>
#include <stdio.h>
#include <string.h>

static int dl_tests_passed, dl_tests_failed;

#define CHECK(cond, ...)                                                                                     \
    do {                                                                                                     \
        if (cond)                                                                                            \
            dl_tests_passed++;                                                                               \
        else {                                                                                               \
            dl_tests_failed++;                                                                               \
            printf("%s:%d: failed: %s ", __FILE__, __LINE__, #cond);                                         \
            printf("" __VA_ARGS__);                                                                          \
            printf("\n");                                                                                    \
        }                                                                                                    \
    } while (0)
#define CHECK_STR(got, want) CHECK(strcmp((got), (want)) == 0, "got '%s', want '%s'", (got), (want))
#define CHECK_NEAR(got, want, tol)                                                                           \
    CHECK(fabs((double)(got) - (double)(want)) <= (tol), "got %.9g, want %.9g", (double)(got), (double)(want))

static inline int dl_test_end(void) {
    printf("%d passed, %d failed\n", dl_tests_passed, dl_tests_failed);
    return dl_tests_failed != 0 || dl_tests_passed == 0;
}
#endif

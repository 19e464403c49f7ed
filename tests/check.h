/* The smallest unit-test harness: CHECK counts, a failed one prints its place; `return dl_test_end();` ends
 * main and prints the line "N passed, N failed" that scripts/test adds up. */
#ifndef DL_CHECK_H
#define DL_CHECK_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

/* DLC_TEST_SHARE=N, which scripts/test sets, but with --long: of cases that are many and alike, one in N is
 * taken. */
static inline unsigned dl_test_share(void) {
    const char *text = getenv("DLC_TEST_SHARE");
    int share = text ? atoi(text) : 1;
    return share > 1 ? (unsigned)share : 1;
}

/* Whether this one is; the first always is. Multiples of the golden ratio lie evenly, whatever cases vary in
 * turn. */
static inline bool dl_test_takes(unsigned number) {
    return (uint32_t)(number * UINT32_C(0x9e3779b9)) <= UINT32_MAX / dl_test_share();
}

/* The same of cases that cost little, of which all are taken but where they run slowly, by sanitizers. */
static inline bool dl_test_takes_cheap(unsigned number) {
    enum { FAST = 10 };
    return dl_test_share() <= FAST || dl_test_takes(number);
}

static inline int dl_test_end(void) {
    printf("%d passed, %d failed\n", dl_tests_passed, dl_tests_failed);
    return dl_tests_failed != 0 || dl_tests_passed == 0;
}
#endif

/* The smallest unit-test harness: CHECK counts, a failed one prints its place; `return
 * dl_test_end();` ends main and prints the line "N passed, N failed[, N skipped]" that scripts/test
 * adds up. */
#ifndef DL_CHECK_H
#define DL_CHECK_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weak, so that all sources of one test program count together. */
__attribute__((weak)) int dl_tests_passed, dl_tests_failed, dl_tests_skipped;

#define CHECK(cond, ...)                                                                           \
    do {                                                                                           \
        if (cond)                                                                                  \
            dl_tests_passed++;                                                                     \
        else {                                                                                     \
            dl_tests_failed++;                                                                     \
            printf("%s:%d: failed: %s ", __FILE__, __LINE__, #cond);                               \
            printf("" __VA_ARGS__);                                                                \
            printf("\n");                                                                          \
        }                                                                                          \
    } while (0)
#define CHECK_STR(got, want) CHECK(strcmp((got), (want)) == 0, "got '%s', want '%s'", (got), (want))
#define CHECK_NEAR(got, want, tol)                                                                 \
    CHECK(fabs((double)(got) - (double)(want)) <= (tol), "got %.9g, want %.9g", (double)(got),     \
          (double)(want))

/* Reports why a part of a test cannot run here. Such parts are counted; a test that consists of
 * them alone is skipped. */
#define dl_test_skip(...) (dl_tests_skipped++, printf("SKIP: " __VA_ARGS__), (void)printf("\n"))

static inline unsigned dl_test_number(const char *name, unsigned otherwise) {
    const char *text = getenv(name);
    return text && *text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* DLC_TEST_SHARE=N, which scripts/test sets except with --long: one in N of many similar cases is
 * taken. */
static inline unsigned dl_test_share(void) {
    unsigned share = dl_test_number("DLC_TEST_SHARE", 1);
    return share > 1 ? share : 1;
}

/* DLC_TEST_DRAW selects these cases. scripts/test derives it from the commit and prints it: another
 * commit tests other cases, and a failing run can be repeated. */
static inline unsigned dl_test_draw(void) { return dl_test_number("DLC_TEST_DRAW", 0); }

/* Whether this run takes the case of that number. Multiples of the golden ratio lie evenly on a
 * circle, whatever cases vary in turn; the draw selects one of its N equal arcs. So N draws in a
 * row take each case once, and a share that came before finds what it compiled in the caches. */
static inline bool dl_test_takes(unsigned number) {
    const uint32_t place = number * UINT32_C(0x9e3779b9);
    return (unsigned)((uint64_t)place * dl_test_share() >> 32) == dl_test_draw() % dl_test_share();
}

/* Not under sanitizers, where all is slow: they have a smaller share. */
static inline bool dl_test_fast(void) {
    enum { FAST = 20 };
    return dl_test_share() <= FAST;
}

/* The same of cases that cost little: all are taken, where they are fast. */
static inline bool dl_test_takes_cheap(unsigned number) {
    return dl_test_fast() || dl_test_takes(number);
}

/* Whether a run takes case `i` of the `n` cases of a cell, which differ in sizes and numbers alone:
 * one of each cell always, the others as dl_test_takes(number) says. */
static inline bool dl_test_takes_of(unsigned cell, unsigned i, unsigned n, unsigned number) {
    return i == (dl_test_draw() + cell) % n || dl_test_takes(number);
}

/* The larger of two distances. A NaN is the largest: fmax and comparisons lose it where another one
 * follows. */
static inline double dl_test_worse(double worst, double off) {
    return isnan(worst) || off <= worst ? worst : off;
}

/* Returns the exit status: 77, which meson counts as skipped, where nothing could be checked. */
static inline int dl_test_end(void) {
    enum { SKIPPED = 77 };
    printf("%d passed, %d failed", dl_tests_passed, dl_tests_failed);
    if (dl_tests_skipped) printf(", %d skipped", dl_tests_skipped);
    printf("\n");
    if (!dl_tests_passed && !dl_tests_failed && dl_tests_skipped) return SKIPPED;
    return dl_tests_failed != 0 || dl_tests_passed == 0;
}
#endif

/* Shared parts of the fuzz targets. A target is one file: it feeds one reader, and says how inputs
 * of its format are changed so that most of them get past magic numbers, lengths and checksums to
 * what lies after.
 *
 * The same file makes two programs: with drive.c one that needs nothing but the compiler
 * (scripts/test runs it under the sanitizers), and with libFuzzer one that is guided by coverage
 * (scripts/test --long). README.md has the commands. */
#ifndef DL_FUZZ_H
#define DL_FUZZ_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The names are libFuzzer's. Of a target: reads one input; whatever it is, nothing but an error
 * value may come of it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
/* A target's: changes the input in place, `max` bytes at most; returns its new length. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);

/* Random numbers of the mutators: splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
typedef struct {
    uint64_t state;
} fuzz_random;
uint64_t fuzz_next(fuzz_random *r);
size_t fuzz_below(fuzz_random *r, size_t n); /* 0 .. n - 1; 0 for n = 0 */

/* Changes a text as a person in a hurry and a hostile one would: lines and tokens deleted, doubled,
 * swapped, moved; numbers and names replaced, by `words` (NULL-terminated) too; cut; seldom a byte.
 */
size_t fuzz_mutate_text(char *text, size_t n, size_t max, const char *const *words, fuzz_random *r);
/* Changes bytes and little-endian integers, to values at the edges of their types among others. */
size_t fuzz_mutate_bytes(uint8_t *data, size_t n, size_t max, fuzz_random *r);

/* A file with these bytes that is ours alone, for readers that want a path; the same one at each
 * call. */
const char *fuzz_file(const void *data, size_t n);

/* A condition that must hold for every input, sanitizer or not. */
#define FUZZ_CHECK(cond)                                                                           \
    do {                                                                                           \
        if (!(cond)) fuzz_fail(__FILE__, __LINE__, #cond);                                         \
    } while (0)
_Noreturn void fuzz_fail(const char *file, int line, const char *what);
#endif

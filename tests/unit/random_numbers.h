/* Random numbers, and types from a few words, for tests. */
#ifndef DL_RANDOM_NUMBERS_H
#define DL_RANDOM_NUMBERS_H
#include <stdlib.h>

#include "ir/type.h"

/* SplitMix64 (Steele, Lea and Flood 2014). */
typedef struct {
    uint64_t state;
} rng;

static inline uint64_t next_random(rng *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static inline int below(rng *r, int n) { return (int)(next_random(r) % (uint64_t)n); }
static inline bool one_in(rng *r, int n) { return below(r, n) == 0; }
static inline double uniform(rng *r, double lo, double hi) {
    return lo + (hi - lo) * (double)(next_random(r) >> 11) * 0x1p-53;
}

/* "N=2 C=3 1": axes by name, "1" one without; "" is a scalar. */
static inline dl_type parse_type(const char *text, dl_dtype dtype) {
    dl_type t = dl_scalar(dtype);
    while (*text) {
        size_t n = strcspn(text, " "), eq = strcspn(text, "=");
        if (eq < n)
            dl_type_push(&t, dl_intern_n(text, eq), atoi(text + eq + 1));
        else
            dl_type_push(&t, "", 1);
        text += n + (text[n] == ' ');
    }
    return t;
}
#endif

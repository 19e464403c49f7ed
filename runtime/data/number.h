/* Numbers that files say about arrays (attributes, fill values), kept exactly, and as one of an
 * array's type. */
#ifndef DLR_NUMBER_H
#define DLR_NUMBER_H
#include "runtime/data/element.h"

/* 'i': whole, with a sign; 'u': whole, without; 'f': a float. */
typedef struct {
    char kind;
    union {
        int64_t i;
        uint64_t u;
        double f;
    };
} dlr_number;

static inline double dlr_number_double(const dlr_number *n) {
    return n->kind == 'f' ? n->f : n->kind == 'u' ? (double)n->u : (double)n->i;
}

/* Reads the decimal that the `n` characters are, blanks around it aside: a whole number of 64 bits,
 * or what strtod takes ("nan" and "inf" among it, hexadecimal not). False: it is none. */
bool dlr_number_parse(const char *text, size_t n, dlr_number *out);

/* The number as one of that type. To floats it is rounded to nearest, as they store it; to whole
 * numbers and bool only what is exactly one of them goes. False: the type has no such number; a
 * finite one does not become infinite. Of f16 the result is the float that it stands for. */
bool dlr_number_fit(const dlr_number *n, dlr_element type, dlr_number *out);

/* A number that fits, as it lies in memory: dlr_element_bytes(type) bytes in this machine's order.
 */
void dlr_number_store(const dlr_number *fitting, dlr_element type, void *out);

/* The half precision nearest to x, ties to even, and the number that such bits stand for. */
uint16_t dlr_half_of(double x);
double dlr_of_half(uint16_t h);
#endif

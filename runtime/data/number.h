/* Numbers from the metadata of arrays (attributes, fill values), stored exactly, and converted to
 * an array's type. */
#ifndef DLR_NUMBER_H
#define DLR_NUMBER_H
#include "runtime/data/element.h"

/* 'i': signed integer; 'u': unsigned integer; 'f': float. */
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

/* Parses the `n` characters as a decimal number, with blanks around it: a whole number of 64 bits,
 * or a float that strtod accepts ("nan" and "inf" included, hexadecimal not). False: it is no
 * number. */
bool dlr_number_parse(const char *text, size_t n, dlr_number *out);

/* Converts a number to that element type. For a float type it is rounded to nearest; for whole
 * types and bool it must be exactly representable. False: the type has no such number; a finite
 * number does not become infinite. For f16 the result is the float of the same value. */
bool dlr_number_fit(const dlr_number *n, dlr_element type, dlr_number *out);

/* Stores a converted number in memory: dlr_element_bytes(type) bytes in this machine's order. */
void dlr_number_store(const dlr_number *fitting, dlr_element type, void *out);

/* The half-precision number nearest to x, ties to even; the value of a half-precision number. */
uint16_t dlr_half_of(double x);
double dlr_of_half(uint16_t h);
#endif

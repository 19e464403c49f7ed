#include "runtime/data/element.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} elements[] = {
#define X(id, text, bytes) [DLR_EL_##id] = {text, bytes},
    DLR_ELEMENTS(X)
#undef X
        [DLR_EL_NONE] = {"other", 0},
};

const char *dlr_element_name(dlr_element e) { return elements[e].name; }
size_t dlr_element_bytes(dlr_element e) { return elements[e].bytes; }

dlr_element dlr_element_of(char kind, size_t bytes) {
    int e = 0;
    while (e < DLR_NELEMENTS && !(elements[e].name[0] == kind && elements[e].bytes == bytes)) e++;
    return (dlr_element)e;
}

/* ---- converting rows ---- */

enum { ROW = 512 }; /* elements that are gathered at once: they stay in the L1 cache */

#define FLOATS(X) X(F32, float) X(F64, double)
#define WHOLE(X)                                                                                   \
    X(I8, int8_t)                                                                                  \
    X(I16, int16_t)                                                                                \
    X(I32, int32_t)                                                                                \
    X(I64, int64_t) X(U8, uint8_t) X(U16, uint16_t) X(U32, uint32_t) X(U64, uint64_t)

/* Each returns whether every element fits the wanted type; an element that does not is left
 * unset. */
typedef bool row_fn(const void *from, void *to, size_t n);

#define CAST(A, TA, B, TB)                                                                         \
    static bool A##_to_##B(const void *from, void *to, size_t n) {                                 \
        const TA *x = from;                                                                        \
        TB *y = to;                                                                                \
        for (size_t i = 0; i < n; i++) y[i] = (TB)x[i];                                            \
        return true;                                                                               \
    }
/* 2^bits of a whole type's values, and -2^bits or 0: floats strictly between them can be cast. */
#define ABOVE(T) (2.0 * (double)((T)1 << (8 * sizeof(T) - 2)) * ((T)-1 < (T)1 ? 1 : 2))
#define BELOW(T) ((T)-1 < (T)1 ? -ABOVE(T) : 0.0)
#define WHOLE_OF_FLOAT(A, TA, B, TB)                                                               \
    static bool A##_to_##B(const void *from, void *to, size_t n) {                                 \
        const TA *x = from;                                                                        \
        TB *y = to;                                                                                \
        bool good = true;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            double v = (double)x[i];                                                               \
            bool fits = v >= BELOW(TB) && v < ABOVE(TB);                                           \
            y[i] = fits ? (TB)v : 0;                                                               \
            good = good && fits && (double)y[i] == v;                                              \
        }                                                                                          \
        return good;                                                                               \
    }
#define WHOLE_OF_WHOLE(A, TA, B, TB)                                                               \
    static bool A##_to_##B(const void *from, void *to, size_t n) {                                 \
        const TA *x = from;                                                                        \
        TB *y = to;                                                                                \
        bool over = false;                                                                         \
        for (size_t i = 0; i < n; i++) over |= __builtin_add_overflow(x[i], (TB)0, &y[i]);         \
        return !over;                                                                              \
    }
#define TRUTH(A, TA)                                                                               \
    static bool A##_to_BOOL(const void *from, void *to, size_t n) {                                \
        const TA *x = from;                                                                        \
        uint8_t *y = to;                                                                           \
        for (size_t i = 0; i < n; i++) y[i] = x[i] != 0;                                           \
        return true;                                                                               \
    }

#define ALL_ROWS(A, T, WHOLE_OF)                                                                   \
    CAST(A, T, F32, float)                                                                         \
    CAST(A, T, F64, double)                                                                        \
    WHOLE_OF(A, T, I8, int8_t)                                                                     \
    WHOLE_OF(A, T, I16, int16_t)                                                                   \
    WHOLE_OF(A, T, I32, int32_t)                                                                   \
    WHOLE_OF(A, T, I64, int64_t)                                                                   \
    WHOLE_OF(A, T, U8, uint8_t)                                                                    \
    WHOLE_OF(A, T, U16, uint16_t)                                                                  \
    WHOLE_OF(A, T, U32, uint32_t)                                                                  \
    WHOLE_OF(A, T, U64, uint64_t)                                                                  \
    TRUTH(A, T)
#define FLOAT_ROWS(A, T) ALL_ROWS(A, T, WHOLE_OF_FLOAT)
#define WHOLE_ROWS(A, T) ALL_ROWS(A, T, WHOLE_OF_WHOLE)
FLOATS(FLOAT_ROWS)
WHOLE(WHOLE_ROWS)

#define ROWS_OF(A, T)                                                                              \
    [DLR_EL_##                                                                                     \
        A] = {[DLR_EL_F32] = A##_to_F32, [DLR_EL_F64] = A##_to_F64,  [DLR_EL_I8] = A##_to_I8,      \
              [DLR_EL_I16] = A##_to_I16, [DLR_EL_I32] = A##_to_I32,  [DLR_EL_I64] = A##_to_I64,    \
              [DLR_EL_U8] = A##_to_U8,   [DLR_EL_U16] = A##_to_U16,  [DLR_EL_U32] = A##_to_U32,    \
              [DLR_EL_U64] = A##_to_U64, [DLR_EL_BOOL] = A##_to_BOOL},
static row_fn *const rows[DLR_NELEMENTS][DLR_NELEMENTS] = {FLOATS(ROWS_OF) WHOLE(ROWS_OF)};

/* IEEE 754 half precision, all of whose values an f32 can hold. */
static float half(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    float v = exponent == 0    ? ldexpf((float)mantissa, -24)
              : exponent == 31 ? (mantissa ? NAN : INFINITY)
                               : ldexpf((float)(1024 + mantissa), exponent - 25);
    return h >> 15 ? -v : v;
}

/* ---- gathering rows ---- */

/* Copies n elements of `size` bytes, `step` apart, packed and in this machine's byte order. */
static void gather(const char *from, ptrdiff_t step, size_t size, bool swapped, void *to,
                   size_t n) {
    if (step == (ptrdiff_t)size && !swapped) {
        memcpy(to, from, n * size);
        return;
    }
#define GATHER(T, SWAP)                                                                            \
    for (size_t i = 0; i < n; i++, from += step) {                                                 \
        T v;                                                                                       \
        memcpy(&v, from, sizeof v);                                                                \
        if (swapped) v = SWAP(v);                                                                  \
        ((T *)to)[i] = v;                                                                          \
    }
    switch (size) {
    case 1: GATHER(uint8_t, ) break;
    case 2: GATHER(uint16_t, __builtin_bswap16) break;
    case 4: GATHER(uint32_t, __builtin_bswap32) break;
    default: GATHER(uint64_t, __builtin_bswap64)
    }
}

/* Gathers up to ROW elements of any type, converted to the type that they are cast from: f16 to
 * f32, bool to u8. */
static dlr_element widen(const char *from, ptrdiff_t step, dlr_element type, bool swapped, void *to,
                         size_t n) {
    uint16_t halves[ROW];
    if (type != DLR_EL_F16) {
        gather(from, step, elements[type].bytes, swapped, to, n);
        if (type != DLR_EL_BOOL) return type;
        U8_to_BOOL(to, to, n);
        return DLR_EL_U8;
    }
    gather(from, step, sizeof *halves, swapped, halves, n);
    for (size_t i = 0; i < n; i++) ((float *)to)[i] = half(halves[i]);
    return DLR_EL_F32;
}

static double as_double(dlr_element type, const void *at) {
    double v = 0;
    if (rows[type][DLR_EL_F64]) rows[type][DLR_EL_F64](at, &v, 1);
    return v;
}

/* Converts one row; returns the index of the first element that does not fit the wanted type, or
 * n. */
static int64_t move_row(const dlr_element_move *m, const char *from, ptrdiff_t step, char *to,
                        int64_t n, double *value) {
    const size_t size = elements[m->to_type].bytes;
    if (m->from_type == m->to_type && m->from_type != DLR_EL_BOOL) {
        gather(from, step, size, m->swapped, to, (size_t)n);
        return n;
    }
    for (int64_t done = 0; done < n; done += ROW) {
        uint64_t buffer[ROW];
        size_t part = (size_t)(n - done < ROW ? n - done : ROW);
        dlr_element type = widen(from + done * step, step, m->from_type, m->swapped, buffer, part);
        char *out = to + (size_t)done * size;
        if (type == m->to_type)
            memcpy(out, buffer, part * size);
        else if (!rows[type][m->to_type](buffer, out, part))
            for (size_t i = 0;; i++) {
                const char *one = (const char *)buffer + i * elements[type].bytes;
                if (rows[type][m->to_type](one, out, 1)) continue;
                *value = as_double(type, one);
                return done + (int64_t)i;
            }
    }
    return n;
}

/* ---- blocks ---- */

bool dlr_elements_move(const dlr_element_move *m, int64_t bad[DLR_ARRAY_RANK], double *value) {
    int64_t at[DLR_ARRAY_RANK] = {0}, n = 1;
    int outer = m->rank; /* axes from here on are contiguous on both sides */
    const char *from = m->from;
    char *to = m->to;
    for (int i = 0; i < m->rank; i++)
        if (m->count[i] == 0) return true;
    ptrdiff_t step = (ptrdiff_t)elements[m->from_type].bytes,
              packed = (ptrdiff_t)elements[m->to_type].bytes;
    for (; outer > 0; outer--) {
        int axis = outer - 1;
        if (m->count[axis] == 1) continue;
        bool joins = n == 1 ? m->to_step[axis] == packed
                            : m->from_step[axis] == step * n && m->to_step[axis] == packed * n;
        if (!joins) break;
        if (n == 1) step = m->from_step[axis];
        n *= m->count[axis];
    }
    for (;;) {
        int64_t good = move_row(m, from, step, to, n, value);
        if (good < n) {
            for (int i = m->rank - 1; i >= outer; i--)
                at[i] = good % m->count[i], good /= m->count[i];
            memcpy(bad, at, sizeof at);
            return false;
        }
        int i = outer - 1;
        for (; i >= 0; i--) {
            from += m->from_step[i], to += m->to_step[i];
            if (++at[i] < m->count[i]) break;
            from -= m->from_step[i] * at[i], to -= m->to_step[i] * at[i];
            at[i] = 0;
        }
        if (i < 0) return true;
    }
}

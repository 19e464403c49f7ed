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

/* A loop over one or more axes; steps in bytes. */
typedef struct {
    int64_t count;
    ptrdiff_t from, to;
} loop;

/* Loops around rows, outermost first; rows are packed in the result. `tile`: the loop whose indices
 * are tiles of a row. */
typedef struct {
    loop at[DLR_ARRAY_RANK + 1], row;
    int n, tile;
} nest;

enum {
    TILE = 64 /* elements of a tile's row: the lines that they come from stay in the L1 cache */
};

/* The block's loops in the order of the result. Axes that are contiguous on both sides are one. */
static nest find_loops(const dlr_element_move *m) {
    nest found = {.tile = -1}, out = {.tile = -1};
    for (int i = 0; i < m->rank; i++) {
        int k = found.n;
        if (m->count[i] == 1) continue;
        for (; k > 0 && found.at[k - 1].to < m->to_step[i]; k--) found.at[k] = found.at[k - 1];
        found.at[k] = (loop){m->count[i], m->from_step[i], m->to_step[i]};
        found.n++;
    }
    for (int i = 0; i < found.n; i++) {
        const loop l = found.at[i], last = i ? out.at[out.n - 1] : l;
        if (i && last.from == l.from * l.count && last.to == l.to * l.count)
            out.at[out.n - 1] = (loop){last.count * l.count, l.from, l.to};
        else
            out.at[out.n++] = l;
    }
    const ptrdiff_t from = (ptrdiff_t)elements[m->from_type].bytes,
                    to = (ptrdiff_t)elements[m->to_type].bytes;
    const bool packed = out.n && out.at[out.n - 1].to == to;
    out.row = packed ? out.at[--out.n] : (loop){1, from, to};
    return out;
}

/* Transposes by tiles: where a loop has smaller steps in `from` than a row has, rows are cut, and
 * that loop runs over the pieces of a tile. */
static void cut_tiles(nest *t) {
    int near = -1;
    for (int i = 0; i < t->n; i++)
        if (t->at[i].from < (near < 0 ? t->row.from : t->at[near].from) && t->at[i].from) near = i;
    if (near < 0 || t->row.count <= TILE) return;
    const loop within = t->at[near];
    memmove(&t->at[near], &t->at[near + 1], (size_t)(t->n - 1 - near) * sizeof within);
    t->tile = t->n - 1;
    t->at[t->tile] = (loop){(t->row.count + TILE - 1) / TILE, t->row.from * TILE, t->row.to * TILE};
    t->at[t->n++] = within;
}

/* The index of the element that lies `offset` bytes into the result. */
static void find_index(const dlr_element_move *m, ptrdiff_t offset, int64_t *index) {
    bool found[DLR_ARRAY_RANK] = {false};
    memset(index, 0, (size_t)m->rank * sizeof *index);
    for (;;) {
        int axis = -1;
        for (int i = 0; i < m->rank; i++)
            if (!found[i] && m->count[i] > 1 && (axis < 0 || m->to_step[i] > m->to_step[axis]))
                axis = i;
        if (axis < 0) return;
        found[axis] = true;
        index[axis] = offset / m->to_step[axis], offset %= m->to_step[axis];
    }
}

bool dlr_elements_move(const dlr_element_move *m, int64_t bad[DLR_ARRAY_RANK], double *value) {
    int64_t at[DLR_ARRAY_RANK + 1] = {0};
    const char *from = m->from;
    char *to = m->to;
    for (int i = 0; i < m->rank; i++)
        if (m->count[i] == 0) return true;
    nest t = find_loops(m);
    cut_tiles(&t);
    for (;;) {
        int64_t n = t.row.count;
        if (t.tile >= 0) n = n - at[t.tile] * TILE < TILE ? n - at[t.tile] * TILE : TILE;
        const int64_t good = move_row(m, from, t.row.from, to, n, value);
        if (good < n) {
            find_index(m, to - (char *)m->to + good * (ptrdiff_t)elements[m->to_type].bytes, bad);
            return false;
        }
        int i = t.n - 1;
        for (; i >= 0; i--) {
            from += t.at[i].from, to += t.at[i].to;
            if (++at[i] < t.at[i].count) break;
            from -= t.at[i].from * at[i], to -= t.at[i].to * at[i];
            at[i] = 0;
        }
        if (i < 0) return true;
    }
}

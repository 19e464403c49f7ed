/* Reads blocks of arrays and unpacks their numbers. */
#include "runtime/data/packing.h"

#include <math.h>
#include <stdlib.h>

enum { ROW = 256 }; /* numbers that are unpacked at once: they stay in the L1 cache */

/* ---- a row of one type ---- */

/* Sets missing[i] to 1 where x[i] is one of the missing numbers or out of range. */
#define MARK(A, T, MEMBER)                                                                         \
    static void mark_##A(const dlr_packing *p, const void *stored, size_t n, uint8_t *missing) {   \
        const T *x = stored;                                                                       \
        memset(missing, 0, n);                                                                     \
        for (int k = 0; k < p->n_missing; k++) {                                                   \
            const T gone = (T)p->missing[k].MEMBER;                                                \
            for (size_t i = 0; i < n; i++) missing[i] |= x[i] == gone;                             \
        }                                                                                          \
        const T least = (T)p->least.MEMBER, most = (T)p->most.MEMBER;                              \
        for (size_t i = 0; p->has_least && i < n; i++) missing[i] |= x[i] < least;                 \
        for (size_t i = 0; p->has_most && i < n; i++) missing[i] |= x[i] > most;                   \
    }
#define WIDEN(A, T, MEMBER)                                                                        \
    static void widen_##A(const void *stored, size_t n, double *out) {                             \
        const T *x = stored;                                                                       \
        for (size_t i = 0; i < n; i++) out[i] = (double)x[i];                                      \
    }
#define TYPES(X)                                                                                   \
    X(F32, float, f)                                                                               \
    X(F64, double, f)                                                                              \
    X(I8, int8_t, i)                                                                               \
    X(I16, int16_t, i)                                                                             \
    X(I32, int32_t, i)                                                                             \
    X(I64, int64_t, i)                                                                             \
    X(U8, uint8_t, u) X(U16, uint16_t, u) X(U32, uint32_t, u) X(U64, uint64_t, u)
TYPES(MARK)
TYPES(WIDEN)

static const struct {
    void (*mark)(const dlr_packing *p, const void *stored, size_t n, uint8_t *missing);
    void (*widen)(const void *stored, size_t n, double *out);
} types[DLR_NELEMENTS] = {
#define ENTRY(A, T, MEMBER) [DLR_EL_##A] = {mark_##A, widen_##A},
    TYPES(ENTRY)
#undef ENTRY
};

void dlr_mark_missing(const dlr_packing *p, const void *stored, size_t n, uint8_t *missing) {
    types[p->type].mark(p, stored, n, missing);
}

/* Numbers of 64 bits, which f64 does not hold: an offset may bring them where it does. */
static void scale_wide(const dlr_packing *p, const void *stored, size_t n, double *x) {
    for (size_t i = 0; i < n; i++) {
        const long double v = p->type == DLR_EL_U64 ? (long double)((const uint64_t *)stored)[i]
                                                    : (long double)((const int64_t *)stored)[i];
        x[i] = (double)(v * (long double)p->scale + (long double)p->offset);
    }
}

/* Unpacks at most ROW numbers; `stored` and `out` must not overlap. */
static void unpack_row(const dlr_packing *p, const void *stored, size_t n, dlr_element to,
                       void *out) {
    double x[ROW];
    uint8_t missing[ROW];
    types[p->type].widen(stored, n, x);
    types[p->type].mark(p, stored, n, missing);
    if (p->scaled && (p->type == DLR_EL_I64 || p->type == DLR_EL_U64))
        scale_wide(p, stored, n, x);
    else if (p->scaled)
        for (size_t i = 0; i < n; i++) x[i] = x[i] * p->scale + p->offset;
    for (size_t i = 0; i < n; i++) x[i] = missing[i] ? NAN : x[i];
    if (to == DLR_EL_F64)
        memcpy(out, x, n * sizeof *x);
    else
        for (size_t i = 0; i < n; i++) ((float *)out)[i] = (float)x[i];
}

/* The stored numbers may lie at the end of the values' buffer: each row is copied before values
 * overwrite it. */
void dlr_unpack(const dlr_packing *p, const void *stored, size_t n, dlr_element to, void *out) {
    const size_t bytes = dlr_element_bytes(p->stored), wide = dlr_element_bytes(to);
    for (size_t i = 0; i < n; i += ROW) {
        uint64_t row[ROW];
        size_t part = n - i < ROW ? n - i : ROW;
        memcpy(row, (const char *)stored + i * bytes, part * bytes);
        unpack_row(p, row, part, to, (char *)out + i * wide);
    }
}

/* ---- blocks ---- */

static size_t count_of(const dlr_source *s, const dlr_block *block) {
    size_t n = 1;
    for (int i = 0; i < dlr_source_rank(s); i++) n *= (size_t)block->count[i];
    return n;
}

bool dlr_packing_read(const dlr_packing *p, const dlr_source *s, const dlr_block *block,
                      dlr_element to, void *out, dl_error *err) {
    if (!p->any) return dlr_source_read(s, block, to, out, err);
    const size_t n = count_of(s, block), bytes = dlr_element_bytes(p->stored),
                 wide = dlr_element_bytes(to);
    void *apart = bytes > wide ? malloc(n * bytes + 1) : NULL;
    if (bytes > wide && !apart)
        return dl_fail(err, DL_RESOURCE, "no memory to unpack %s", dlr_source_label(s));
    void *stored = apart ? apart : (char *)out + n * (wide - bytes);
    bool ok = dlr_source_read(s, block, p->stored, stored, err);
    if (ok && !dlr_source_is_on_paper(s)) dlr_unpack(p, stored, n, to, out);
    free(apart);
    return ok;
}

/* Replaces missing numbers and those that are not finite by 0, which every type has. Returns true
 * where there are none, or they may be replaced. */
static bool blank(const dlr_packing *p, void *stored, size_t n, uint8_t *missing, bool replaced,
                  int64_t *bad) {
    const size_t bytes = dlr_element_bytes(p->stored);
    dlr_mark_missing(p, stored, n, missing);
    for (size_t i = 0; i < n; i++) {
        if (replaced && p->type == DLR_EL_F32) missing[i] |= !isfinite(((float *)stored)[i]);
        if (replaced && p->type == DLR_EL_F64) missing[i] |= !isfinite(((double *)stored)[i]);
        if (!missing[i]) continue;
        if (!replaced) return *bad = (int64_t)i, false;
        memset((char *)stored + i * bytes, 0, bytes);
    }
    return true;
}

static void put_other(double other, dlr_element to, const uint8_t *missing, size_t n, void *out) {
    const size_t bytes = dlr_element_bytes(to);
    dlr_number v = {0};
    char stored[8];
    if (!dlr_number_fit(&(dlr_number){.kind = 'f', .f = other}, to, &v)) return;
    dlr_number_store(&v, to, stored);
    for (size_t i = 0; i < n; i++)
        if (missing[i]) memcpy((char *)out + i * bytes, stored, bytes);
}

/* A whole number of a type, the offset added; false where 64 bits do not hold it. */
static bool shift_one(const dlr_packing *p, const char *at, dlr_number *out) {
    uint64_t wide = 0;
    const dlr_element to = p->type >= DLR_EL_U8 ? DLR_EL_U64 : DLR_EL_I64;
    int64_t ignored[DLR_ARRAY_RANK];
    double value;
    const dlr_element_move one = {.from = at, .from_type = p->type, .to = &wide, .to_type = to};
    dlr_elements_move(&one, ignored, &value);
    const uint64_t size = (uint64_t)fabs(p->offset);
    const int64_t whole = (int64_t)wide;
#define SHIFT(x, y)                                                                                \
    (p->offset < 0 ? __builtin_sub_overflow(x, size, y) : __builtin_add_overflow(x, size, y))
    const bool is_signed = to == DLR_EL_I64;
    *out = (dlr_number){.kind = 'i'};
    if (!(is_signed ? SHIFT(whole, &out->i) : SHIFT(wide, &out->i))) return true;
    out->kind = 'u';
    return !(is_signed ? SHIFT(whole, &out->u) : SHIFT(wide, &out->u));
#undef SHIFT
}

/* The numbers of `to` that stand for stored ones with a whole offset. */
static bool shift(const dlr_packing *p, const char *stored, size_t n, dlr_element to, char *out,
                  int64_t *bad, double *value) {
    const size_t bytes = dlr_element_bytes(p->stored), wide = dlr_element_bytes(to);
    for (size_t i = 0; i < n; i++) {
        dlr_number v, fitting;
        if (shift_one(p, stored + i * bytes, &v) && dlr_number_fit(&v, to, &fitting)) {
            dlr_number_store(&fitting, to, out + i * wide);
            continue;
        }
        *bad = (int64_t)i, *value = dlr_number_double(&v);
        return false;
    }
    return true;
}

bool dlr_packing_read_whole(const dlr_packing *p, const dlr_source *s, const dlr_block *block,
                            dlr_element to, void *out, const double *other, int64_t *bad,
                            bool *is_missing, double *value, dl_error *err) {
    const size_t n = count_of(s, block), bytes = dlr_element_bytes(p->stored);
    int64_t place[DLR_ARRAY_RANK];
    char *stored = malloc(n * bytes + 1);
    uint8_t *missing = malloc(n + 1);
    bool ok = (stored && missing) ||
              dl_fail(err, DL_RESOURCE, "no memory to read %s", dlr_source_label(s));
    ok = ok && dlr_source_read(s, block, p->stored, stored, err);
    if (ok && !dlr_source_is_on_paper(s)) {
        *is_missing = !(ok = blank(p, stored, n, missing, other != NULL, bad));
        if (*is_missing) types[p->type].widen(stored + (size_t)*bad * bytes, 1, value);
        dlr_element_move m = {.rank = 1,
                              .count = {(int64_t)n},
                              .from = stored,
                              .from_step = {(ptrdiff_t)bytes},
                              .from_type = p->type,
                              .to = out,
                              .to_step = {(ptrdiff_t)dlr_element_bytes(to)},
                              .to_type = to};
        if (ok && p->shifted)
            ok = shift(p, stored, n, to, out, bad, value);
        else if (ok && !dlr_elements_move(&m, place, value))
            *bad = place[0], ok = false;
        if (ok && other) put_other(*other, to, missing, n, out);
    }
    free(stored), free(missing);
    return ok;
}

/* Loads floats of any width, and compares a file with a model's tensors. */
#include <stdio.h>
#include <stdlib.h>

#include "ir/base/str.h"
#include "runtime/formats/stored_internal.h"

static float from_bits(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* IEEE 754 binary16: a subnormal is its mantissa times 2^-24, the rest a change of the exponent's
 * bias. */
static float widen_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
    if (exponent == 31) return from_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0) {
        float v = (float)mantissa * 0x1p-24f;
        return sign ? -v : v;
    }
    return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

static void widen(const unsigned char *src, dlr_st_dtype dtype, float *dst, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        double d;
        if (dtype == DLR_ST_F64) {
            memcpy(&d, src + 8 * i, sizeof d);
            dst[i] = (float)d;
        } else {
            memcpy(&h, src + 2 * i, sizeof h);
            dst[i] = dtype == DLR_ST_F16 ? widen_f16(h) : from_bits((uint32_t)h << 16);
        }
    }
}

bool dlr_st_is_float(dlr_st_dtype t) {
    return t == DLR_ST_F64 || t == DLR_ST_F32 || t == DLR_ST_F16 || t == DLR_ST_BF16;
}

bool dlr_st_load_f32(const dlr_st_file *f, const dlr_st_tensor *t, float *dst, dl_error *err) {
    if (t->dtype == DLR_ST_F32) return dlr_st_load(f, t, dst, err);
    if (!dlr_st_is_float(t->dtype))
        return dl_fail(err, DL_INPUT, "%s: tensor '%.200s' is %s, not a floating-point type",
                       f->path, t->name, dlr_st_dtype_name(t->dtype));
    unsigned char piece[1 << 15];
    size_t size = dlr_st_dtype_size(t->dtype), per_piece = sizeof piece / size;
    for (uint64_t done = 0, n = t->bytes / size; done < n;) {
        size_t k = n - done < per_piece ? (size_t)(n - done) : per_piece;
        dlr_st_tensor part = dlr_st_part(t, (int64_t)done, (int64_t)k);
        if (!dlr_st_load(f, &part, piece, err)) return false;
        widen(piece, t->dtype, dst + done, k);
        done += k;
    }
    return true;
}

static void put_type(dl_buf *b, const dlr_st_tensor *t) {
    dl_putf(b, "%s[", dlr_st_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) dl_putf(b, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    dl_puts(b, "]");
}

static bool same_type(const dlr_st_tensor *a, const dlr_st_tensor *b) {
    if (a->dtype != b->dtype && !(dlr_st_is_float(a->dtype) && dlr_st_is_float(b->dtype)))
        return false;
    return a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

static int by_name(const void *a, const void *b) {
    const dlr_st_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static const char *take(dl_arena *arena, dl_buf *line) {
    const char *text = dl_strdup(arena, line->at);
    dl_buf_free(line);
    return text;
}

void dlr_st_compare(dl_arena *arena, const dlr_st_file *f, const dlr_st_tensor *want, int n,
                    dlr_differences *list) {
    const dlr_st_tensor **wanted = DL_NEWS(arena, const dlr_st_tensor *, n + 1);
    for (int i = 0; i < n; i++) {
        const dlr_st_tensor *have = dlr_st_find(f, want[i].name);
        dl_buf line = {0};
        wanted[i] = &want[i];
        if (have && same_type(have, &want[i])) continue;
        dl_putf(&line, "%.200s: %s ", want[i].name,
                have ? "the file has" : "missing in the file, the model has");
        put_type(&line, have ? have : &want[i]);
        if (have) {
            dl_puts(&line, ", the model ");
            put_type(&line, &want[i]);
        }
        dl_push(arena, list, take(arena, &line));
    }
    if (n > 1) qsort(wanted, (size_t)n, sizeof *wanted, by_name);
    for (int i = 0; i < f->n; i++) {
        const dlr_st_tensor *key = &f->tensors[i];
        if (n > 0 && bsearch(&key, wanted, (size_t)n, sizeof *wanted, by_name)) continue;
        dl_buf line = {0};
        dl_putf(&line, "%.200s: not in the model, the file has ", key->name);
        put_type(&line, key);
        dl_push(arena, list, take(arena, &line));
    }
}

enum { ROOM = 700 /* most bytes of a message in addition to the name of the compared object */ };

/* The number of differences that a message has space for. */
static int count_fitting(const dlr_differences *list) {
    size_t used = 0;
    for (int i = 0; i < list->n; i++)
        if ((used += strlen(list->at[i]) + 3) > ROOM) return i;
    return list->n;
}

bool dlr_differences_fit(const dlr_differences *list) { return count_fitting(list) == list->n; }

bool dlr_differences_fail(const dlr_differences *list, const char *what, dl_error *err) {
    dl_buf text = {0};
    int fit = count_fitting(list);
    for (int i = 0; i < fit; i++) dl_putf(&text, "%s %s", i ? ";" : "", list->at[i]);
    if (fit < list->n) dl_putf(&text, "; and %d more", list->n - fit);
    dl_fail(err, DL_INPUT, "%s:%s", what, text.at ? text.at : "");
    dl_buf_free(&text);
    return false;
}

bool dlr_st_check(const dlr_st_file *f, const dlr_st_tensor *want, int n, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_differences list = {0};
    dlr_st_compare(arena, f, want, n, &list);
    bool same =
        list.n == 0 ||
        dlr_differences_fail(&list, dl_format(arena, "%.150s is of another model", f->path), err);
    dl_arena_free(arena);
    return same;
}

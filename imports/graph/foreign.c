#include "imports/graph/foreign.h"

#include <stdlib.h>

bool dl_foreign_bad(dl_error *err, const char *path, const char *place, const char *format,
                    va_list args) {
    dl_buf text = {0};
    dl_vputf(&text, format, args);
    dl_fail(err, DL_INPUT, "%s: %s: %s", path, place, text.at);
    dl_buf_free(&text);
    return false;
}

const dl_foreign_arg *dl_foreign_find(const dl_foreign_node *n, const char *name) {
    for (int i = 0; i < n->n_args; i++)
        if (strcmp(n->args[i].name, name) == 0)
            return n->args[i].kind == DL_ARG_NONE ? NULL : &n->args[i];
    return NULL;
}

int64_t dl_foreign_int(const dl_foreign_node *n, const char *name, int64_t standard) {
    const dl_foreign_arg *a = dl_foreign_find(n, name);
    return a && (a->kind == DL_ARG_INT || a->kind == DL_ARG_INTS) && a->n ? a->ints[0] : standard;
}

double dl_foreign_real(const dl_foreign_node *n, const char *name, double standard) {
    const dl_foreign_arg *a = dl_foreign_find(n, name);
    if (!a || !a->n) return standard;
    return a->kind == DL_ARG_FLOAT ? a->reals[0]
           : a->kind == DL_ARG_INT ? (double)a->ints[0]
                                   : standard;
}

const char *dl_foreign_text(const dl_foreign_node *n, const char *name, const char *standard) {
    const dl_foreign_arg *a = dl_foreign_find(n, name);
    return a && a->kind == DL_ARG_STRING ? a->text : standard;
}

const dl_foreign_tensor *dl_foreign_operand(const dl_foreign_node *n, const char *name) {
    const dl_foreign_arg *a = dl_foreign_find(n, name);
    return a && (a->kind == DL_ARG_TENSOR || a->kind == DL_ARG_TENSORS) && a->n ? a->tensors[0]
                                                                                : NULL;
}

bool dl_foreign_reads(const dl_foreign_node *n, const dl_foreign_tensor *t) {
    for (int a = 0; a < n->n_args; a++)
        for (int k = 0; k < n->args[a].n; k++)
            if ((n->args[a].kind == DL_ARG_TENSOR || n->args[a].kind == DL_ARG_TENSORS) &&
                n->args[a].tensors[k] == t)
                return true;
    return false;
}

/* File "PATH", line N, in FUNCTION */
void dl_foreign_user_line(dl_arena *arena, const char *trace, const char **function, int *line) {
    for (const char *at = trace; (at = strstr(at, "File \"")) != NULL;) {
        const char *end = strstr(at, "\", line "), *name;
        if (!end) return;
        bool torch = false;
        for (const char *p = at; p < end - 6 && !torch; p++) torch = !strncmp(p, "/torch/", 7);
        int number = atoi(end + 8);
        at = end + 8;
        if (torch || !(name = strstr(at, ", in "))) continue;
        *line = number;
        *function = dl_strndup(arena, name + 5, strcspn(name + 5, "\n"));
    }
}

void dl_foreign_set_strides(const dl_foreign_tensor *t, dl_foreign_data *data) {
    int64_t step = 1;
    for (int d = t->rank - 1; d >= 0; d--) data->stride[d] = step, step *= t->shape[d];
}

int64_t dl_foreign_count(const dl_foreign_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->shape[d];
    return n;
}

/* Copies the elements of dimension d and those inside it; the reader has checked the bounds. */
static char *gather(const dl_foreign_tensor *t, const char *storage, int64_t at, int d, char *to) {
    size_t size = dlr_st_dtype_size(t->dtype);
    if (d == t->rank) return memcpy(to, storage + (size_t)at * size, size), to + size;
    for (int64_t i = 0; i < t->shape[d]; i++)
        to = gather(t, storage, at + i * t->data->stride[d], d + 1, to);
    return to;
}

bool dl_foreign_load(const dl_foreign_graph *g, const dl_foreign_tensor *t, void *to,
                     dl_error *err) {
    const dl_foreign_data *data = t->data;
    if (!data || t->class == DL_FOREIGN_UNKNOWN)
        return dl_fail(err, DL_INPUT, "%s: '%s' has no numbers that can be read", g->path, t->path);
    if (dl_foreign_count(t) == 0) return true;
    if (data->held) return gather(t, data->held, data->offset, 0, to), true;
    char *storage = malloc((size_t)data->bytes + 1);
    if (!storage) return dl_fail(err, DL_RESOURCE, "no memory to read '%s'", t->path);
    bool ok = g->read(g->context, data, storage, err);
    if (ok) gather(t, storage, data->offset, 0, to);
    free(storage);
    return ok;
}

static double from_half(uint16_t h) {
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? __builtin_nan("") : __builtin_inf())
               : exponent     ? __builtin_ldexp(1024 + fraction, exponent - 25)
                              : __builtin_ldexp(fraction, -24);
    return h >> 15 ? -v : v;
}

static double number(dlr_st_dtype dtype, const char *at) {
#define AS(T)                                                                                      \
    (__extension__({                                                                               \
        T v;                                                                                       \
        memcpy(&v, at, sizeof v);                                                                  \
        v;                                                                                         \
    }))
    switch (dtype) {
    case DLR_ST_F64: return AS(double);
    case DLR_ST_F32: return (double)AS(float);
    case DLR_ST_F16: return from_half(AS(uint16_t));
    case DLR_ST_BF16: {
        uint32_t bits = (uint32_t)AS(uint16_t) << 16;
        float v;
        memcpy(&v, &bits, sizeof v);
        return (double)v;
    }
    case DLR_ST_I64: return (double)AS(int64_t);
    case DLR_ST_I32: return AS(int32_t);
    case DLR_ST_I16: return AS(int16_t);
    case DLR_ST_I8: return AS(int8_t);
    default: return AS(uint8_t);
    }
#undef AS
}

bool dl_foreign_numbers(const dl_foreign_graph *g, const dl_foreign_tensor *t, double *to,
                        dl_error *err) {
    int64_t n = dl_foreign_count(t);
    size_t size = dlr_st_dtype_size(t->dtype);
    char *bytes = malloc((size_t)n * size + 1);
    bool ok = bytes ? dl_foreign_load(g, t, bytes, err)
                    : dl_fail(err, DL_RESOURCE, "no memory to read '%s'", t->path);
    for (int64_t i = 0; ok && i < n; i++) to[i] = number(t->dtype, bytes + (size_t)i * size);
    free(bytes);
    return ok;
}

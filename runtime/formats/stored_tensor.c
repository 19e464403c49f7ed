/* Element types, sizes and parts of stored tensors. */
#include "runtime/formats/stored_internal.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define ROW(name, size) {#name, size},
    DLR_ST_DTYPES(ROW)
#undef ROW
};

const char *dlr_st_dtype_name(dlr_st_dtype dtype) { return dtypes[dtype].name; }
size_t dlr_st_dtype_size(dlr_st_dtype dtype) { return dtypes[dtype].size; }

bool dlr_st_size(const dlr_st_tensor *t, uint64_t *bytes) {
    int64_t n = (int64_t)dtypes[t->dtype].size;
    bool empty = false;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0) return false;
        empty = empty || t->shape[i] == 0;
    }
    /* A size of 0 makes the product 0 however large the other sizes are. */
    for (int i = 0; i < t->rank && !empty; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n)) return false;
    *bytes = empty ? 0 : (uint64_t)n;
    return true;
}

dlr_st_tensor dlr_st_part(const dlr_st_tensor *t, int64_t first, int64_t n) {
    uint64_t size = dtypes[t->dtype].size;
    dlr_st_tensor part = {.name = t->name, .dtype = t->dtype, .rank = 1, .shape = {n}};
    part.bytes = (uint64_t)n * size, part.view = t->view, part.first = t->first + first;
    part.joined = t->joined;
    part.data =
        t->view || t->joined ? t->data : (const unsigned char *)t->data + (uint64_t)first * size;
    return part;
}

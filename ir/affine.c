#include "ir/affine.h"

#include <math.h>
#include <string.h>

const char *const dl_outside_names[DL_NOUTSIDES] = {
    [DL_OUT_ZERO] = "zero",       [DL_OUT_LOWEST] = "lowest", [DL_OUT_NAN] = "nan",
    [DL_OUT_EXACT] = "exact",     [DL_OUT_EDGE] = "edge",     [DL_OUT_WRAP] = "wrap",
    [DL_OUT_REFLECT] = "reflect", [DL_OUT_ANY] = ""};

int dl_outside_find(const char *name) {
    for (int i = 0; i < DL_OUT_ANY; i++)
        if (strcmp(dl_outside_names[i], name) == 0) return i;
    return -1;
}

int64_t dl_floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static int64_t rest(int64_t a, int64_t b) { return a - dl_floor_div(a, b) * b; }

int64_t dl_affine_place(int64_t sum, int64_t div, dl_outside outside, int64_t size) {
    if (div < 1) div = 1;
    int64_t x = dl_floor_div(sum, div), period = 2 * (size - 1);
    if (outside == DL_OUT_EXACT && rest(sum, div)) return -1;
    if ((x >= 0 && x < size) || size < 1) return size < 1 ? -1 : x;
    switch (outside) {
    case DL_OUT_EDGE: return x < 0 ? 0 : size - 1;
    case DL_OUT_WRAP: return rest(x, size);
    case DL_OUT_REFLECT:
        if (!period) return 0;
        x = rest(x, period);
        return x < size ? x : period - x;
    default: return -1;
    }
}

double dl_outside_value(dl_outside o) {
    return o == DL_OUT_LOWEST ? -INFINITY : o == DL_OUT_NAN ? NAN : 0;
}

#include "ir/fourier.h"

#include <math.h>

#include "ir/base/counts.h"
#include "ir/base/str.h"

const char *const dl_fourier_modes[] = {"r2c", "c2r", "fft", "ifft"};

const char *dl_fourier_axis(void) { return dl_intern("Z"); }

bool dl_fourier_is_complex(const dl_type *t) {
    return t->rank > 0 && t->axis[t->rank - 1].name == dl_fourier_axis() &&
           t->axis[t->rank - 1].size == 2;
}

int dl_fourier_find_mode(const dl_node *n) {
    for (int i = 0; i < 4; i++)
        if (strcmp(dl_node_name(n, DL_ATTR_mode), dl_fourier_modes[i]) == 0) return i;
    return -1;
}

dl_fourier dl_fourier_of(const dl_node *n) {
    const dl_type *x = &n->in[0]->type, *y = &n->out[0].type;
    int at = dl_type_axis(x, dl_node_name(n, DL_ATTR_axis));
    dl_fourier f = {.mode = (dl_fourier_mode)dl_fourier_find_mode(n),
                    .size = dl_node_attr(n, DL_ATTR_size)->ints[0],
                    .negative = -dl_node_int(n, DL_ATTR_start),
                    .scale = dl_node_float(n, DL_ATTR_value),
                    .twice = dl_node_int(n, DL_ATTR_twice)};
    bool makes_modes = dl_fourier_makes_modes(f.mode);
    dl_around around = dl_type_around(x, at);
    f.samples = (makes_modes ? x : y)->axis[at].size;
    f.modes = (makes_modes ? y : x)->axis[at].size;
    f.outer = around.outer, f.inner = f.mode == DL_FOURIER_R2C ? around.inner : around.inner / 2;
    return f;
}

int64_t dl_fourier_number(const dl_fourier *f, int64_t k) {
    return k < f->modes - f->negative ? k : f->size - f->modes + k;
}

double dl_fourier_weight(const dl_fourier *f, int64_t number) {
    return f->twice && dl_fourier_is_real(f->mode) && number > 0 && 2 * number < f->size ? 2 : 1;
}

int64_t dl_fourier_flops(const dl_node *n) {
    dl_fourier f = dl_fourier_of(n);
    double each = 5 * (double)f.size * log2((double)f.size);
    int64_t line = (int64_t)ceil(dl_fourier_is_real(f.mode) ? each / 2 : each);
    return dl_count_times(dl_count_times(f.outer, f.inner), line);
}

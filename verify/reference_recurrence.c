/* The reference of recurrent layers: torch.nn.LSTM, GRU and RNN of one layer and one direction, by
 * the equations of their documentation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/recurrence.h"
#include "verify/reference.h"

static double logistic(double a) { return 1 / (1 + exp(-a)); }

typedef struct {
    const double *weight, *bias; /* of `columns` columns; bias NULL: none */
    int64_t columns;
} affine_map;

static double row_of(const affine_map *m, int64_t row, const double *v) {
    double sum = m->bias ? m->bias[row] : 0;
    for (int64_t k = 0; k < m->columns; k++) sum += m->weight[row * m->columns + k] * v[k];
    return sum;
}

/* The state of unit j after a step on x. */
static double unit_of(dl_cell cell, const affine_map *in, const affine_map *own, const double *x,
                      const double *h, double *c, int64_t j) {
    double a[4], b[4];
    int64_t size = own->columns;
    for (int g = 0; g < dl_cells[cell].gates; g++)
        a[g] = row_of(in, g * size + j, x), b[g] = row_of(own, g * size + j, h);
    switch (cell) {
    case DL_LSTM:
        *c = logistic(a[1] + b[1]) * *c + logistic(a[0] + b[0]) * tanh(a[2] + b[2]);
        return logistic(a[3] + b[3]) * tanh(*c);
    case DL_GRU: {
        double update = logistic(a[1] + b[1]), fresh = tanh(a[2] + logistic(a[0] + b[0]) * b[2]);
        return (1 - update) * fresh + update * h[j];
    }
    case DL_RNN_TANH: return tanh(a[0] + b[0]);
    default: return a[0] + b[0] > 0 ? a[0] + b[0] : 0;
    }
}

void dl_ref_recurrence(const dl_node *n, const double *const *in, double *out,
                       const dl_reference_draw *draw) {
    const dl_type *x = &n->in[DL_LAYER_X]->type, *y = &n->out[0].type;
    bool biased = dl_layer_is_biased(n), reverse = dl_node_int(n, DL_ATTR_reverse);
    int start = dl_recurrence_start(n);
    dl_cell cell = dl_cell_of(n);
    int64_t features = x->axis[x->rank - 1].size, size = y->axis[y->rank - 1].size;
    int64_t steps = x->axis[x->rank - 2].size, batch = dl_type_around(x, x->rank - 2).outer;
    int64_t rows = y->axis[y->rank - 2].size, states = dl_cells[cell].states * size;
    affine_map input = {in[DL_LAYER_W_IH], biased ? in[DL_LAYER_PLAIN] : NULL, features};
    affine_map own = {in[DL_LAYER_W_HH], biased ? in[DL_LAYER_PLAIN + 1] : NULL, size};
    double *h = dl_calloc((size_t)size * 2 + 1, sizeof *h), *c = h + size;
    (void)draw;
    for (int64_t b = 0; b < batch; b++) {
        double *y_of = out + b * rows * size;
        memset(h, 0, 2 * (size_t)size * sizeof *h);
        if (start >= 0) memcpy(h, in[start] + b * states, (size_t)states * sizeof *h);
        for (int64_t i = 0; i < steps; i++) {
            int64_t step = reverse ? steps - 1 - i : i;
            const double *x_of = in[DL_LAYER_X] + (b * steps + step) * features;
            for (int64_t j = 0; j < size; j++)
                y_of[step * size + j] = unit_of(cell, &input, &own, x_of, h, &c[j], j);
            memcpy(h, y_of + step * size, (size_t)size * sizeof *h);
        }
        if (rows > steps) memcpy(y_of + steps * size, c, (size_t)size * sizeof *c);
    }
    free(h);
}

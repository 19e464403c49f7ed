/* Places in order, by the C library's qsort. Operands are exact here, and so are results. */
#include <math.h>
#include <stdlib.h>

#include "ir/base/memory.h"
#include "ir/interp/interp_parts.h"
#include "ir/sort.h"

typedef struct {
    double value;
    int64_t at;
    bool descending;
} element;

/* Where the numbers are equal, the index decides: qsort is not stable. */
static int compare(const void *left, const void *right) {
    const element *a = left, *b = right;
    const bool first = isnan(a->value) ? false : isnan(b->value) || a->value < b->value,
               last = isnan(b->value) ? false : isnan(a->value) || b->value < a->value;
    if (first != last) return first != a->descending ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}

void dl_interp_argsort(const dl_node *n, double *const *data, bool round,
                       const dl_interp_ends *ends) {
    const dl_sort s = dl_sort_of(n);
    element *line = dl_calloc((size_t)s.size + 1, sizeof *line);
    (void)round;
    for (int64_t i = 0; i < s.outer * s.inner; i++) {
        int64_t first = i / s.inner * s.size * s.inner + i % s.inner;
        for (int64_t k = 0; k < s.size; k++)
            line[k] = (element){data[0][first + k * s.inner], k, s.descending};
        qsort(line, (size_t)s.size, sizeof *line, compare);
        for (int64_t k = 0; k < s.size; k++) {
            const int64_t at = first + k * s.inner;
            data[1][at] = (double)line[k].at;
            if (ends) ends->low[0][at] = ends->high[0][at] = data[1][at];
        }
    }
    free(line);
}

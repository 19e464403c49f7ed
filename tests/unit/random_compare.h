/* Do two graphs of the same variables compute the same results? For tests of passes. */
#ifndef DL_RANDOM_COMPARE_H
#define DL_RANDOM_COMPARE_H
#include <math.h>
#include <stdio.h>

#include "ir/interp.h"
#include "tests/unit/random_graph.h"

static inline void fill_random(dl_interp *run, const dl_graph *g, uint64_t seed) {
    rng r = {seed};
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        for (int64_t k = 0; k < dl_type_count(&v->type); k++) dl_interp_data(run, v)[k] = uniform(&r, -2, 2);
    }
}

static inline bool same_number(double x, double y) {
    return (isnan(x) && isnan(y)) || x == y || fabs(x - y) <= 1e-9 * (1 + fabs(x));
}

/* Elements of the results, taken in order, that differ in a run on random numbers; the first is printed. 1
 * with *err set when a graph does not run. */
static inline int64_t count_differences(const dl_graph *a, const dl_graph *b, uint64_t seed, dl_error *err) {
    dl_interp *ra = dl_interp_new(a, false), *rb = dl_interp_new(b, false);
    fill_random(ra, a, seed), fill_random(rb, b, seed);
    int64_t wrong = a->results.n != b->results.n || !dl_interp_run(ra, err) || !dl_interp_run(rb, err);
    for (int i = 0; !wrong && i < a->results.n; i++) {
        const dl_value *va = a->results.at[i].value, *vb = b->results.at[i].value;
        wrong += !dl_type_same(&va->type, &vb->type);
        for (int64_t k = 0; !wrong && k < dl_type_count(&va->type); k++) {
            double x = dl_interp_data(ra, va)[k], y = dl_interp_data(rb, vb)[k];
            if (same_number(x, y)) continue;
            printf("seed %llu: %s is %.12g before and %.12g behind\n", (unsigned long long)seed,
                   a->results.at[i].name, x, y);
            wrong++;
        }
    }
    dl_interp_free(ra), dl_interp_free(rb);
    return wrong;
}
#endif

/* Random numbers, types from a few words, and random graphs, for tests of passes. */
#ifndef DL_RANDOM_GRAPH_H
#define DL_RANDOM_GRAPH_H
#include <stdlib.h>

#include "ir/builder.h"

/* SplitMix64 (Steele, Lea and Flood 2014). */
typedef struct {
    uint64_t state;
} rng;

static inline uint64_t next_random(rng *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static inline int below(rng *r, int n) { return (int)(next_random(r) % (uint64_t)n); }
static inline double uniform(rng *r, double lo, double hi) {
    return lo + (hi - lo) * (double)(next_random(r) >> 11) * 0x1p-53;
}

/* "N=2 C=3 1": axes by name, "1" one without; "" is a scalar. */
static inline dl_type parse_type(const char *text, dl_dtype dtype) {
    dl_type t = dl_scalar(dtype);
    while (*text) {
        size_t n = strcspn(text, " "), eq = strcspn(text, "=");
        if (eq < n)
            dl_type_push(&t, dl_intern_n(text, eq), atoi(text + eq + 1));
        else
            dl_type_push(&t, "", 1);
        text += n + (text[n] == ' ');
    }
    return t;
}

/* One random step: a value made of others in `pool`, or NULL where the dice fit nothing. */
static inline dl_value *random_step(dl_builder *b, rng *r, dl_value **pool, int n) {
    static const dl_op unary[] = {DL_OP_neg,  DL_OP_abs,     DL_OP_tanh, DL_OP_sin,
                                  DL_OP_relu, DL_OP_sigmoid, DL_OP_erf,  DL_OP_cos};
    static const dl_op binary[] = {DL_OP_add, DL_OP_sub, DL_OP_mul, DL_OP_max,
                                   DL_OP_min, DL_OP_add, DL_OP_mul, DL_OP_pow};
    static const dl_op reduce[] = {DL_OP_sum, DL_OP_mean, DL_OP_reduce_max, DL_OP_reduce_min};
    dl_value *x = pool[below(r, n)], *y = pool[below(r, n)], *in[] = {x, y, pool[below(r, n)]};
    const dl_type *t = &x->type;
    int at = t->rank ? below(r, t->rank) : -1;
    const char *axis = at >= 0 ? t->axis[at].name : "";
    int64_t size = at >= 0 ? t->axis[at].size : 0;
    dl_shape_fault fault;
    switch (below(r, 12)) {
    case 0: return dl_build1(b, unary[below(r, 8)], x);
    case 1:
    case 2:
    case 3: {
        dl_op op = binary[below(r, 8)];
        if (op == DL_OP_pow) in[1] = dl_build_const(b, DL_F64, 1 + below(r, 2));
        return dl_build_try(b, op, 2, in, 0, NULL, NULL, &fault);
    }
    case 4: { /* with a neutral or absorbing constant, on either side */
        static const dl_op ops[] = {DL_OP_add, DL_OP_sub, DL_OP_mul, DL_OP_div};
        int op = below(r, 4), k = op == 3 ? 1 + below(r, 2) : below(r, 3);
        in[1] = dl_build_const(b, DL_F64, k);
        if (op != 3 && below(r, 2)) in[0] = in[1], in[1] = x;
        return dl_build_try(b, ops[op], 2, in, 0, NULL, NULL, &fault);
    }
    case 5: {
        dl_value *c = dl_build_try(b, DL_OP_gt, 2, in, 0, NULL, NULL, &fault);
        dl_value *choice[] = {c, in[1], in[2]};
        return c ? dl_build_try(b, DL_OP_select, 3, choice, 0, NULL, NULL, &fault) : NULL;
    }
    case 6: {
        const char *over[] = {axis, at > 0 ? t->axis[0].name : axis};
        return at < 0 ? NULL : dl_build_reduce(b, reduce[below(r, 4)], x, at > 0 ? 1 + below(r, 2) : 1, over);
    }
    case 7: { /* a broadcast over the axes of another value, behind or in front */
        dl_type to = *t;
        for (int i = 0; i < y->type.rank; i++)
            if (dl_type_axis(&to, y->type.axis[i].name) < 0 && to.rank < 4)
                to.axis[to.rank++] = y->type.axis[i];
        for (int i = 0; i + 1 < to.rank && below(r, 2); i++) {
            dl_axis swap = to.axis[i];
            to.axis[i] = to.axis[i + 1], to.axis[i + 1] = swap;
        }
        return dl_build_try(b, DL_OP_broadcast, 1, &x, 0, NULL, &to, &fault);
    }
    case 8: {
        int64_t start = size ? below(r, (int)size) : 0;
        dl_attr attrs[] = {dl_attr_name(DL_ATTR_axis, axis), dl_attr_int(DL_ATTR_start, start),
                           dl_attr_int(DL_ATTR_stop, size ? start + 1 + below(r, (int)(size - start)) : 0)};
        return at < 0 ? NULL : dl_build_try(b, DL_OP_slice, 1, &x, 3, attrs, NULL, &fault);
    }
    case 9: {
        int64_t lo = below(r, 3), hi = below(r, 2);
        dl_attr attrs[] = {dl_attr_name(DL_ATTR_axis, axis), dl_attr_ints(DL_ATTR_pad_lo, 1, &lo),
                           dl_attr_ints(DL_ATTR_pad_hi, 1, &hi)};
        return at < 0 ? NULL : dl_build_try(b, DL_OP_pad, 1, &x, 3, attrs, NULL, &fault);
    }
    case 10: {
        dl_attr attr = dl_attr_name(DL_ATTR_axis, axis);
        return at < 0 ? NULL : dl_build_try(b, DL_OP_cat, 1 + below(r, 3), in, 1, &attr, NULL, &fault);
    }
    default: { /* a convolution where the shapes allow one, with the first variable as weight */
        int64_t stride = 1 + below(r, 2), pad = 1;
        dl_attr attrs[] = {dl_attr_ints(DL_ATTR_stride, 1, &stride), dl_attr_ints(DL_ATTR_pad_lo, 1, &pad),
                           dl_attr_ints(DL_ATTR_pad_hi, 1, &pad)};
        in[1] = pool[0];
        return dl_build_try(b, DL_OP_conv, 2, in, 3, attrs, NULL, &fault);
    }
    }
}

/* A graph of `steps` random nodes on a few f64 variables, the same for the same seed. A third of its values
 * are outputs, and the loss is a sum over them. */
static inline dl_graph *random_graph(dl_module *m, const char *name, uint64_t seed, int steps) {
    static const char *const types[] = {"O=3 C=3 h=3", "N=2 C=3 H=5", "C=3", "H=5 N=2", "N=2 C=3 H=5", ""};
    enum { NVARS = 6, LARGEST = 3000, MAX_VALUES = 200 };
    dl_graph *g = dl_graph_new(m, name);
    dl_builder b = {.graph = g};
    rng r = {seed};
    dl_value *pool[MAX_VALUES];
    int n = 0;
    for (; n < NVARS; n++)
        pool[n] = &dl_graph_var(g, n % 2 ? DL_VAR_INPUT : DL_VAR_PARAM, dl_internf("v%d", n),
                                parse_type(types[n], DL_F64), (dl_init){0}, b.loc)
                       ->value;
    while (n < NVARS + steps && n < MAX_VALUES) {
        dl_value *v = random_step(&b, &r, pool, n);
        if (v && dl_type_count(&v->type) <= LARGEST && v->type.rank <= 4) pool[n++] = v;
    }
    dl_value *loss = dl_build_const(&b, DL_F64, 0);
    for (int i = NVARS; i < n; i++)
        if (below(&r, 3) == 0) {
            dl_graph_result(g, DL_RESULT_OUTPUT, dl_internf("o%d", i), pool[i], NULL);
            dl_value *part = dl_build1(&b, DL_OP_tanh, pool[i]);
            loss = dl_build2(&b, DL_OP_add, loss, dl_build_reduce(&b, DL_OP_sum, part, 0, NULL));
        }
    dl_graph_result(g, DL_RESULT_LOSS, "loss", loss, NULL);
    return g;
}
#endif

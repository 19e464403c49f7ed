/* Vector accesses: finds loads and stores of contiguous points that can be one instruction, and
 * writes the text around the statements of one point. */
#include "compiler/cuda/emit_loops.h"

enum {
    VECTOR_BYTES = 16,       /* bytes of one vector instruction */
    VECTOR_REGISTERS = 80,   /* limit of registers for all vectors of a thread */
    VECTOR_STATEMENTS = 320, /* limit of unrolled statements */
};

typedef enum {
    BROADCAST,  /* broadcast: the same element at all points of a vector */
    CONTIGUOUS, /* contiguous, and aligned to the width */
    STRIDED,    /* strided, or anything else */
    UNALIGNED,  /* contiguous, but not aligned */
} access;

static dl_dtype kept_type(const dl_emitter *e, int number) {
    return dl_kernel_type(e->k->instrs.at[number].type);
}

/* Does padding have one value over a whole vector that is out of bounds? Not for a store, nor
 * for a load of integers read by it. */
static bool fills_vectors(const dl_emitter *e, const dl_kinstr *in, const dl_index *at) {
    const dl_type *t = &e->k->params.at[in->param].type;
    return in->kind == DL_K_LOAD &&
           (!dl_outside_fills(at->outside) || dl_dtype_is_float(t->dtype) ||
            dl_outside_value(at->outside) == 0);
}

/* The kind of an access along space axis `axis`, whose coordinate begins at multiples of
 * `width`; axes in `none` have the coordinate 0. */
static access find_access(const dl_emitter *e, const dl_kinstr *in, int axis, unsigned none,
                          int width) {
    const dl_type *t = &e->k->params.at[in->param].type;
    int64_t stride[DL_MAX_RANK];
    bool along = false, even = true;
    if (!t->rank) return BROADCAST;
    if (t->layout.kind == DL_PANEL) return STRIDED;
    dl_type_strides(t, stride);
    for (int i = 0; i < t->rank; i++) {
        const dl_index *at = &in->index[i];
        if (at->indirect) return STRIDED;
        bool bounded = !dl_index_inside(e->k->space, at, t->axis[i].size);
        if (bounded && !fills_vectors(e, in, at)) return STRIDED;
        bool divides = at->div > 1, multiple = stride[i] % width == 0;
        if (!divides && at->offset * stride[i] % width) even = false;
        if (divides && !multiple) even = false;
        if (!at->nterms && at->axis == axis) {
            if (divides || bounded || stride[i] != 1) return STRIDED;
            along = true;
        } else if (!at->nterms && at->axis >= 0 && !(none >> at->axis & 1)) {
            even = even && multiple;
        }
        for (int k = 0; k < at->nterms; k++) {
            const dl_term *x = &at->term[k];
            if (none >> x->axis & 1) continue;
            if (x->axis != axis || x->div % width == 0) {
                even = even && (divides ? multiple : x->mul * stride[i] % width == 0);
                continue;
            }
            if (divides || bounded || x->div != 1 || x->mul != 1 || stride[i] != 1 ||
                x->mod % width)
                return STRIDED;
            along = true;
        }
    }
    if (!along) return BROADCAST;
    return even ? CONTIGUOUS : UNALIGNED;
}

/* The same for a value kept by an earlier loop nest: it is contiguous along its last axis. */
static access find_kept(const dl_emitter *e, int number, int axis, int width) {
    const dl_axis_list *by = &e->kept[number].by;
    for (int i = 0; i < by->n; i++)
        if (by->axis[i] == axis)
            return i == by->n - 1 && e->k->space[axis].size % width == 0 ? CONTIGUOUS : STRIDED;
    return BROADCAST;
}

/* The axes that an access's address depends on, a bit each. */
static unsigned followed(const dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    if (dl_emit_is_access(in)) return dl_kinstr_followed(e->k, in);
    return e->nests.kept[number] ? e->steps[number].axes : 0;
}

/* The axes that are collapsed with the last one, whose own coordinate is 0; *size: points along
 * all of them. */
static unsigned find_collapsed(const dl_emitter *e, const dl_axis_list *along, int64_t *size) {
    unsigned none = 0;
    int last = along->n - 1;
    *size = e->k->space[along->axis[last]].size;
    for (int i = last; i > 0 && dl_emit_collapses(e, along->axis[i - 1], along->axis[i]); i--)
        none |= 1u << along->axis[i - 1], *size *= e->k->space[along->axis[i - 1]].size;
    return none;
}

/* Can vectors have this width? If so, *l has the accesses that are vectors. */
static bool find_width(dl_emitter *e, dl_vectors *l, unsigned none, int width) {
    int least = 8, registers = 0, statements = 0, vectors = 0;
    for (int i = 0; i < e->now->read.n; i++) {
        int number = e->now->read.at[i];
        l->has[number] = find_kept(e, number, l->axis, width) == CONTIGUOUS;
        if (l->has[number])
            registers += dl_ceil_div(width * dl_dtype_bytes(kept_type(e, number)), 4);
    }
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        const dl_kinstr *in = &e->k->instrs.at[number];
        if (dl_cuda_is_per_thread(e, number)) registers += width;
        statements += in->kind == DL_K_RANDOM                              ? 20
                      : in->kind == DL_K_ELEM && !dl_op_is_trivial(in->op) ? 8
                                                                           : 1;
        if (!dl_emit_is_access(in)) continue;
        int bytes = dl_dtype_bytes(e->k->params.at[in->param].type.dtype);
        access a = find_access(e, in, l->axis, none, width);
        if (a == UNALIGNED) return false;
        l->has[number] = a == CONTIGUOUS;
        if (a != CONTIGUOUS) continue;
        registers += dl_ceil_div(width * bytes, 4), vectors++;
        if (bytes < least) least = bytes;
    }
    return vectors && width * least <= VECTOR_BYTES && registers <= VECTOR_REGISTERS &&
           statements * width <= VECTOR_STATEMENTS;
}

static bool loads_half(const dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    return in->kind == DL_K_LOAD && dl_dtype_is_half(e->k->params.at[in->param].type.dtype);
}

/* Along `axis`, or no axis: -1. `none`: axes collapsed with it, so that it has `size` points. */
static dl_vectors find_vectors(dl_emitter *e, int axis, unsigned none, int64_t size,
                               unsigned moving) {
    int n = e->k->instrs.n + 1;
    const char **array = DL_NEWS(e->arena, const char *, n);
    dl_vectors l = {.width = 1, .axis = axis, .array = array};
    l.has = DL_NEWS(e->arena, bool, n), l.invariant = DL_NEWS(e->arena, bool, n);
    for (int i = 0; i < e->k->instrs.n; i++) /* of an epilogue's sums */
        if (e->k->instrs.at[i].kind == DL_K_CONTRACT) array[i] = "own[0]";
    if (axis < 0 || e->fused_part) return l;
    for (l.width = DL_VECTOR_MOST; l.width > 1; l.width /= 2)
        if (size && size % l.width == 0 && find_width(e, &l, none, l.width)) break;
    for (int i = 0; i < e->k->instrs.n; i++) {
        l.has[i] = l.has[i] && l.width > 1;
        l.invariant[i] = l.has[i] && e->k->instrs.at[i].kind != DL_K_STORE &&
                         !(followed(e, i) & (moving | e->per_thread));
        if (array[i] && l.width > 1) array[i] = "own[j]";
        if (l.has[i])
            array[i] = dl_format(e->arena, loads_half(e, i) ? "$l%d$.half(j)" : "$l%d$[j]", i);
    }
    return l;
}

dl_vectors dl_cuda_find_vectors(dl_emitter *e, const dl_axis_list *along, unsigned moving) {
    int64_t size = 1;
    unsigned none = along->n ? find_collapsed(e, along, &size) : 0;
    return find_vectors(e, along->n ? along->axis[along->n - 1] : -1, none, size, moving);
}

dl_vectors dl_cuda_find_vectors_along(dl_emitter *e, int axis, unsigned moving) {
    dl_vectors l = find_vectors(e, axis, 0, e->k->space[axis].size, moving);
    l.other_axis = l.width > 1;
    return l;
}

const bool *dl_cuda_find_runs(const dl_emitter *e) {
    bool *runs = DL_NEWS(e->arena, bool, e->k->instrs.n + 1);
    for (int i = 0; i < e->now->run.n; i++) runs[e->now->run.at[i]] = true;
    for (int i = 0; i < e->now->read.n; i++) runs[e->now->read.at[i]] = true;
    return runs;
}

static bool loads(const dl_emitter *e, int number) {
    return e->k->instrs.at[number].kind == DL_K_LOAD;
}

bool dl_cuda_load_axes(const dl_emitter *e, unsigned axes) {
    unsigned places = 0;
    for (int i = 0; i < e->now->run.n; i++)
        if (loads(e, e->now->run.at[i])) places |= followed(e, e->now->run.at[i]);
    for (int i = 0; i < e->now->read.n; i++) places |= followed(e, e->now->read.at[i]);
    return places & axes;
}

bool dl_cuda_are_vectors(const dl_emitter *e, const dl_vectors *l, unsigned axes) {
    bool all = !e->per_thread;
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        all = all && (l->has[number] || !loads(e, number) || !(followed(e, number) & axes));
    }
    for (int i = 0; i < e->now->read.n; i++)
        all = all && (l->has[e->now->read.at[i]] || !(followed(e, e->now->read.at[i]) & axes));
    return all;
}

static dl_load_time time_of(const dl_emitter *e, const dl_vectors *l, int i) {
    return e->steps[i].axes & e->per_thread ? DL_PER_THREAD
           : l->invariant[i]                ? DL_HOISTED
                                            : DL_AT_POINT;
}

static bool is_vector(const dl_emitter *e, const dl_vectors *l, const bool *runs, int i,
                      dl_load_time when) {
    return runs[i] && l->has[i] && time_of(e, l, i) == when;
}

/* Can it be prefetched? */
static bool is_prefetched(const dl_emitter *e, const dl_vectors *l, const bool *runs, int i) {
    return is_vector(e, l, runs, i, DL_AT_POINT) && e->k->instrs.at[i].kind != DL_K_STORE;
}

void dl_cuda_load_vectors(dl_loops *l, const dl_vectors *v, const bool *runs, dl_load_time when) {
    for (int i = 0; i < l->e->k->instrs.n; i++)
        if (is_vector(l->e, v, runs, i, when))
            dl_loop_load_vector(l, v, i, v->prefetch && is_prefetched(l->e, v, runs, i));
}

void dl_cuda_declare_prefetched(dl_emitter *e, const dl_vectors *l, const bool *runs) {
    for (int i = 0; i < e->k->instrs.n; i++)
        if (is_prefetched(e, l, runs, i))
            dl_putf(e->out, "    %s $a%d$[%d];\n", dl_emit_vector_type(e, i, l->width), i,
                    l->prefetch);
}

void dl_cuda_load_prefetched(dl_emitter *e, const dl_vectors *l, const bool *runs) {
    for (int i = 0; i < e->k->instrs.n; i++)
        if (is_prefetched(e, l, runs, i))
            dl_emit_load_vector(e, dl_format(e->arena, "$a%d$[k]", i), i);
}

void dl_cuda_shift_prefetched(dl_emitter *e, const dl_vectors *l, const bool *runs) {
    for (int i = 0; i < e->k->instrs.n; i++)
        for (int k = 1; is_prefetched(e, l, runs, i) && k < l->prefetch; k++)
            dl_putf(e->out, "    $a%d$[%d] = $a%d$[%d];\n", i, k - 1, i, k);
}

void dl_cuda_store_vectors(dl_loops *l, const dl_vectors *v, const bool *runs, dl_expr test) {
    for (int i = 0; i < l->e->k->instrs.n; i++) {
        if (!runs[i] || !v->has[i] || l->e->k->instrs.at[i].kind != DL_K_STORE) continue;
        if (test) dl_loop_if(l, test);
        dl_loop_store_vector(l, i);
        if (test) dl_loop_end(l);
    }
}

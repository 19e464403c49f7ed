/* Relations: the table of tensors by place, and functions derived from it. */
#include "ir/relation.h"

#include "ir/base/counts.h"

/* ---- the table: the tensor at each place ---- */

typedef struct {
    dl_tensor at[DL_PLACES];
} form;

/* The column `expr` of class CONTRACT. */
#define NAMES                                                                                      \
    {                                                                                              \
        { DL_TENSOR_NONE }                                                                         \
    }
#define WINDOWS(first, second, result)                                                             \
    {                                                                                              \
        { DL_TENSOR_##first, DL_TENSOR_##second, DL_TENSOR_##result }                              \
    }
#define FORM(id, ...) [DL_OP_##id] = __VA_ARGS__,
#define NO_FORM(id, ...)
#define ELEM       NO_FORM
#define REDUCE     NO_FORM
#define CONTRACT   FORM
#define MOVE       NO_FORM
#define SOURCE     NO_FORM
#define FUSED      NO_FORM
#define TEMPLATE   NO_FORM
#define COLLECTIVE NO_FORM
#define BODY       NO_FORM
#define HIGH       NO_FORM
static const form forms[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr) class(id, expr)
#include "ir/ops.def"
#undef OP
};

bool dl_op_slides(dl_op op) { return forms[op].at[0] != DL_TENSOR_NONE; }

dl_tensor dl_op_tensor(dl_op op, int place) {
    return place < DL_PLACES ? forms[op].at[place] : DL_TENSOR_NONE;
}

bool dl_op_makes_weight(dl_op op) { return dl_op_tensor(op, DL_RESULT_PLACE) == DL_TENSOR_W; }

int dl_op_place(dl_op op, dl_tensor tensor) {
    for (int i = 0; i < DL_PLACES; i++)
        if (forms[op].at[i] == tensor) return i;
    return -1;
}

dl_op dl_op_making(dl_tensor tensor) {
    for (int op = 0; op < DL_NOPS; op++)
        if (forms[op].at[DL_RESULT_PLACE] == tensor) return (dl_op)op;
    dl_panic(__FILE__, __LINE__, "no op makes tensor %d of a window", (int)tensor);
}

/* ---- windows ---- */

dl_windows dl_node_windows(const dl_node *n) {
    const dl_attr *stride = dl_node_attr(n, DL_ATTR_stride), *lo = dl_node_attr(n, DL_ATTR_pad_lo),
                  *hi = dl_node_attr(n, DL_ATTR_pad_hi);
    const dl_attr *dilation = dl_node_attr(n, DL_ATTR_dilation),
                  *groups = dl_node_attr(n, DL_ATTR_groups);
    dl_windows w = {.groups = groups ? groups->i : 1};
    DL_CHECK(stride && stride->n <= 3);
    w.n = stride->n;
    w.ceil = dl_node_attr(n, DL_ATTR_ceil) && dl_node_int(n, DL_ATTR_ceil);
    for (int i = 0; i < w.n; i++) {
        w.stride[i] = stride->ints[i], w.dilation[i] = dilation ? dilation->ints[i] : 1;
        w.pad_lo[i] = lo->ints[i], w.pad_hi[i] = hi->ints[i];
    }
    return w;
}

int64_t dl_windows_count(const dl_windows *w, int i, int64_t size, int64_t taps) {
    int64_t reach, room;
    if (size < 1 || taps < 1 || __builtin_mul_overflow(taps - 1, w->dilation[i], &reach) ||
        __builtin_add_overflow(size, w->pad_lo[i], &room) ||
        __builtin_add_overflow(room, w->pad_hi[i], &room))
        return 0;
    int64_t last = room - reach - 1,
            begin = size + w->pad_lo[i] - 1; /* the last start of a window */
    if (!w->ceil || begin > last + w->stride[i] - 1)
        begin = last + (w->ceil ? w->stride[i] - 1 : 0);
    return begin >= 0 ? begin / w->stride[i] + 1 : 0;
}

/* ---- relations ---- */

/* Adds an axis, which is axis at[place] of each tensor, or none of it. This determines its role. */
static int add(dl_relation *r, const char *name, int64_t size, bool slides,
               const int at[DL_PLACES]) {
    bool first = at[0] >= 0, second = at[1] >= 0, result = at[DL_RESULT_PLACE] >= 0;
    DL_CHECK(r->n < DL_MAX_RELATION);
    dl_relation_axis *a = &r->axis[r->n];
    *a = (dl_relation_axis){.name = name, .size = size, .slides = slides};
    memcpy(a->at, at, sizeof a->at);
    a->role = !result           ? DL_MODE_K
              : first && second ? DL_MODE_BATCH
              : second          ? DL_MODE_N
                                : DL_MODE_M;
    return r->n++;
}

/* The same by tensor: its axis in x, w and y. */
static int add_shared(dl_relation *r, dl_op op, dl_axis axis, bool slides, int x, int w, int y) {
    int at[DL_PLACES];
    at[dl_op_place(op, DL_TENSOR_X)] = x, at[dl_op_place(op, DL_TENSOR_W)] = w;
    at[dl_op_place(op, DL_TENSOR_Y)] = y;
    return add(r, axis.name, axis.size, slides, at);
}

dl_relation dl_relation_of_windows(dl_op op, const dl_type *const type[DL_PLACES],
                                   const dl_windows *w) {
    const dl_axis *x = type[dl_op_place(op, DL_TENSOR_X)]->axis,
                  *k = type[dl_op_place(op, DL_TENSOR_W)]->axis,
                  *y = type[dl_op_place(op, DL_TENSOR_Y)]->axis;
    const dl_axis none = {dl_intern(""), 1};
    dl_relation r = {.nwindows = 3};
    dl_axis group = {none.name, w->groups}, c = {x[1].name, x[1].size / w->groups},
            o = {k[0].name, y[1].size / w->groups};
    add_shared(&r, op, x[0], false, 0, -1, 0);
    add_shared(&r, op, group, false, 1, 0, 1);
    add_shared(&r, op, c, false, 1, 1, -1);
    add_shared(&r, op, o, false, -1, 0, 1);
    for (int i = 0; i < 3; i++) {
        int own = i - (3 - w->n), at = own >= 0 ? 2 + own : -1; /* the index in the types' axes */
        dl_relation_window *v = &r.window[i];
        v->out = add_shared(&r, op, own >= 0 ? y[at] : none, true, -1, -1, at);
        v->tap = add_shared(&r, op, own >= 0 ? k[at] : none, true, -1, at, -1);
        v->in = add_shared(&r, op, own >= 0 ? x[at] : none, true, at, -1, -1);
        v->stride = own >= 0 ? w->stride[own] : 1, v->dilation = own >= 0 ? w->dilation[own] : 1;
        v->pad = own >= 0 ? w->pad_lo[own] : 0, v->pad_hi = own >= 0 ? w->pad_hi[own] : 0;
    }
    return r;
}

dl_relation dl_relation_of_names(int nspace, const dl_axis *space, int nsums, const dl_axis *sum,
                                 const int rank[2], const int *const follow[2]) {
    dl_relation r = {0};
    for (int i = 0; i < nspace + nsums; i++) {
        bool kept = i < nspace;
        int at[] = {-1, -1, kept ? i : -1}, which = kept ? i : DL_MAX_RANK + i - nspace;
        for (int side = 0; side < 2; side++)
            for (int k = 0; k < rank[side]; k++)
                if (follow[side][k] == which) at[side] = k;
        add(&r, (kept ? space[i] : sum[i - nspace]).name, (kept ? space[i] : sum[i - nspace]).size,
            false, at);
    }
    return r;
}

dl_relation dl_relation_of(const dl_node *n) {
    const dl_type *type[] = {&n->in[0]->type, &n->in[1]->type, &n->out[0].type};
    if (dl_op_slides(n->op)) {
        dl_windows w = dl_node_windows(n);
        return dl_relation_of_windows(n->op, type, &w);
    }
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    dl_axis sum[DL_MAX_RANK];
    int rank[] = {type[0]->rank, type[1]->rank}, follow[2][DL_MAX_RANK];
    for (int i = 0; i < over->n; i++) sum[i] = type[0]->axis[dl_type_axis(type[0], over->names[i])];
    for (int side = 0; side < 2; side++)
        for (int k = 0; k < rank[side]; k++) {
            const char *name = type[side]->axis[k].name;
            follow[side][k] = dl_type_axis(type[2], name);
            for (int i = 0; i < over->n; i++)
                if (sum[i].name == name) follow[side][k] = DL_MAX_RANK + i;
        }
    const int *each[] = {follow[0], follow[1]};
    return dl_relation_of_names(type[2]->rank, type[2]->axis, over->n, sum, rank, each);
}

int64_t dl_relation_size(const dl_relation *r, dl_mode_kind role) {
    int64_t n = 1;
    for (int i = 0; i < r->n; i++)
        if (r->axis[i].role == role && !r->axis[i].slides) n = dl_count_times(n, r->axis[i].size);
    return n;
}

dl_conv_sizes dl_relation_sizes(const dl_relation *r) {
    dl_conv_sizes s = {.samples = r->axis[0].size,
                       .groups = r->axis[1].size,
                       .c = r->axis[2].size,
                       .o = r->axis[3].size};
    DL_CHECK(r->nwindows == 3);
    for (int i = 0; i < 3; i++) {
        const dl_relation_window *w = &r->window[i];
        s.in[i] = r->axis[w->in].size, s.tap[i] = r->axis[w->tap].size;
        s.out[i] = r->axis[w->out].size;
        s.stride[i] = w->stride, s.dilation[i] = w->dilation;
        s.pad_lo[i] = w->pad, s.pad_hi[i] = w->pad_hi;
    }
    return s;
}

/* Each result of a convolution sums over the taps; a weight gradient sums over the outputs. */
int64_t dl_relation_k_extent(const dl_relation *r) {
    int64_t n = dl_relation_size(r, DL_MODE_K);
    for (int i = 0; i < r->nwindows; i++) {
        const dl_relation_window *w = &r->window[i];
        bool weight = r->axis[w->tap].at[DL_RESULT_PLACE] >= 0;
        n = dl_count_times(n, r->axis[weight ? w->out : w->tap].size);
    }
    return n;
}

int64_t dl_relation_products(const dl_relation *r) {
    int64_t n = 1;
    for (int i = 0; i < r->n; i++)
        if (!r->axis[i].slides) n = dl_count_times(n, r->axis[i].size);
    for (int i = 0; i < r->nwindows; i++)
        n = dl_count_times(
            n, dl_count_times(r->axis[r->window[i].out].size, r->axis[r->window[i].tap].size));
    return n;
}

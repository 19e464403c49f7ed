/* Questions about kernels: the anchor, what is reduced, what it costs, whether it makes sense. */
#include "ir/kernel.h"

int dl_kernel_anchor(const dl_kernel *k) {
    for (int i = 0; i < k->instrs.n; i++)
        if (k->instrs.at[i].kind == DL_K_CONTRACT) return i;
    return -1;
}

int dl_kernel_first_reduction(const dl_kernel *k) {
    for (int i = 0; i < k->instrs.n; i++)
        if (k->instrs.at[i].kind == DL_K_REDUCE) return i;
    return k->instrs.n;
}

unsigned dl_kernel_reduced(const dl_kernel *k) {
    int first = dl_kernel_first_reduction(k);
    return first < k->instrs.n ? k->instrs.at[first].over : 0;
}

/* Points of the space without the axes in `reduced`. */
static int64_t count_points(const dl_kernel *k, unsigned reduced) {
    int64_t n = 1;
    for (int i = 0; i < k->nspace; i++)
        if (!(reduced >> i & 1)) n *= k->space[i].size;
    return n;
}

/* Channels of the parts of one operand together. */
static int64_t channels(const dl_kernel *k, const dl_kinstr *in, int side) {
    int64_t sum = 0;
    for (int i = 0; i < in->nparts[side]; i++) sum += k->params.at[in->parts[side][i]].type.axis[1].size;
    return sum;
}

static void spatial_sizes(int64_t to[3], const dl_axis *axis, int spatial) {
    for (int i = 0; i < spatial; i++) to[i] = axis[2 + i].size;
}

dl_extents dl_kernel_extents(const dl_kernel *k, const dl_kinstr *in) {
    const dl_axis *a = k->params.at[in->parts[0][0]].type.axis;
    const dl_axis *b = k->params.at[in->parts[1][0]].type.axis;
    const dl_axis *s = k->space;
    dl_extents e = {.op = in->op};
    for (int i = 0; i < 3; i++) {
        bool real = i < in->spatial;
        e.in[i] = e.taps[i] = e.out[i] = 1;
        e.stride[i] = real ? in->stride[i] : 1;
        e.pad[i] = real ? in->pad_lo[i] : 0;
    }
    if (in->op == DL_OP_conv) {
        e.n = s[0].size, e.c = channels(k, in, 0), e.o = s[1].size;
        spatial_sizes(e.in, a, in->spatial), spatial_sizes(e.taps, b, in->spatial);
        spatial_sizes(e.out, s, in->spatial);
    } else if (in->op == DL_OP_conv_grad_input) {
        e.n = s[0].size, e.c = s[1].size, e.o = channels(k, in, 0);
        spatial_sizes(e.in, s, in->spatial), spatial_sizes(e.taps, b, in->spatial);
        spatial_sizes(e.out, a, in->spatial);
    } else {
        e.n = a[0].size, e.c = channels(k, in, 0), e.o = channels(k, in, 1);
        spatial_sizes(e.in, a, in->spatial), spatial_sizes(e.taps, s, in->spatial);
        spatial_sizes(e.out, b, in->spatial);
    }
    return e;
}

/* a * b for counts; the largest count where it does not fit. */
static int64_t times(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

static int64_t plus(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

int64_t dl_index_most(const dl_kernel *k, const dl_index *index) {
    int64_t most =
        index->offset + (index->axis >= 0 && k->space[index->axis].size ? k->space[index->axis].size - 1 : 0);
    for (int i = 0; i < index->nterms; i++) {
        const dl_term *t = &index->term[i];
        int64_t n = (k->space[t->axis].size + t->div - 1) / t->div;
        if (t->mod && t->mod < n) n = t->mod;
        if (n > 0) most = plus(most, times(n - 1, t->mul));
    }
    return most;
}

int64_t dl_kinstr_terms(const dl_kinstr *in) {
    int64_t n = 1;
    for (int i = 0; i < in->nsums; i++) n = times(n, in->sum[i].size);
    return n;
}

/* Every tap of every output, those on the padding too: the convention of the literature and of PyTorch's
 * counter. */
static int64_t contraction_flops(const dl_kernel *k, const dl_kinstr *in) {
    if (in->op == DL_OP_contract) return times(2 * dl_kinstr_terms(in), count_points(k, 0));
    dl_extents e = dl_kernel_extents(k, in);
    int64_t n = times(times(2 * e.n, e.c), e.o);
    for (int i = 0; i < 3; i++) n = times(n, times(e.out[i], e.taps[i]));
    return n;
}

void dl_kernel_count(dl_kernel *k) {
    int first = dl_kernel_first_reduction(k);
    int64_t points = count_points(k, 0), reduced = count_points(k, dl_kernel_reduced(k));
    k->flops = k->bytes = 0;
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind == DL_K_CONTRACT) k->flops = plus(k->flops, contraction_flops(k, in));
        if (in->kind == DL_K_ELEM) k->flops = plus(k->flops, i < first ? points : reduced);
        if (in->kind == DL_K_REDUCE) k->flops = plus(k->flops, points);
    }
    for (int i = 0; i < k->params.n; i++) k->bytes = plus(k->bytes, dl_type_bytes(&k->params.at[i].type));
}

/* --- faults --- */

typedef struct {
    const dl_kernel *k;
    dl_arena *arena;
    int first;        /* first reduction, or all instructions */
    unsigned reduced; /* axes it removes */
} check;

#define FAULT(c, ...) dl_format((c)->arena, __VA_ARGS__)

static const char *fault_in_params(const check *c) {
    const dl_kernel *k = c->k;
    if (k->nin < 0 || k->nin > k->params.n)
        return FAULT(c, "%d inputs of %d parameters", k->nin, k->params.n);
    if (k->nin == k->params.n) return FAULT(c, "it has no output");
    if (k->nspace < 0 || k->nspace > DL_MAX_RANK) return FAULT(c, "a space of %d axes", k->nspace);
    for (int i = 0; i < k->params.n; i++) {
        const dl_kparam *p = &k->params.at[i];
        if (p->is_out != (i >= k->nin)) return FAULT(c, "%%%s: inputs come first, then outputs", p->name);
        if (!p->is_out || p->alias < 0) continue;
        if (p->alias >= k->nin) return FAULT(c, "%%%s aliases something that is no input", p->name);
        if (dl_type_bytes(&p->type) != dl_type_bytes(&k->params.at[p->alias].type))
            return FAULT(c, "%%%s aliases %%%s, which has another size", p->name,
                         k->params.at[p->alias].name);
    }
    return NULL;
}

/* A contraction's operands, their ranks and sizes, and the space. */
static const char *fault_in_parts(const check *c, const dl_kinstr *in) {
    const dl_kernel *k = c->k;
    int rank = in->spatial + 2;
    for (int side = 0; side < 2; side++) {
        if (in->nparts[side] < 1 || in->nparts[side] > 4)
            return FAULT(c, "an operand of %d parts", in->nparts[side]);
        for (int i = 0; i < in->nparts[side]; i++) {
            if (in->parts[side][i] < 0 || in->parts[side][i] >= k->nin)
                return FAULT(c, "an operand is no input");
            const dl_kparam *p = &k->params.at[in->parts[side][i]];
            const dl_kparam *lead = &k->params.at[in->parts[side][0]];
            if (p->type.rank != rank)
                return FAULT(c, "%%%s has %d axes, a contraction over %d spatial axes needs %d", p->name,
                             p->type.rank, in->spatial, rank);
            for (int a = 0; a < rank; a++)
                if (a != 1 && p->type.axis[a].size != lead->type.axis[a].size)
                    return FAULT(c, "%%%s and %%%s differ along axis %d", lead->name, p->name, a);
        }
    }
    if (k->nspace != rank) return FAULT(c, "a space of %d axes around a contraction of %d", k->nspace, rank);
    return NULL;
}

/* Of a contraction by names: each operand's axes go along different axes of their size, every summed axis is
 * one of both, and every axis of the space one of either. */
static const char *fault_in_names(const check *c, const dl_kinstr *in) {
    const dl_kernel *k = c->k;
    unsigned used[2] = {0};
    if (in->nsums < 0 || in->nsums > DL_MAX_RANK) return FAULT(c, "a sum over %d axes", in->nsums);
    for (int side = 0; side < 2; side++) {
        if (in->nparts[side] != 1 || in->parts[side][0] < 0 || in->parts[side][0] >= k->nin)
            return FAULT(c, "an operand is no input");
        const dl_kparam *p = &k->params.at[in->parts[side][0]];
        if (p->type.layout.kind == DL_PANEL) return FAULT(c, "%%%s lies in panels", p->name);
        for (int i = 0; i < p->type.rank; i++) {
            int at = in->follow[side][i];
            bool sum = at >= DL_MAX_RANK && at < DL_MAX_RANK + in->nsums;
            if (!sum && (at < 0 || at >= k->nspace)) return FAULT(c, "%%%s goes along no axis", p->name);
            dl_axis axis = sum ? in->sum[at - DL_MAX_RANK] : k->space[at];
            if (axis.size != p->type.axis[i].size)
                return FAULT(c, "axis %d of %%%s has %lld elements, %s has %lld", i, p->name,
                             (long long)p->type.axis[i].size, axis.name, (long long)axis.size);
            if (used[side] >> at & 1) return FAULT(c, "%%%s goes along %s twice", p->name, axis.name);
            used[side] |= 1u << at;
        }
    }
    for (int i = 0; i < in->nsums; i++)
        if (!((used[0] & used[1]) >> (DL_MAX_RANK + i) & 1))
            return FAULT(c, "the sum over %s needs it in both operands", in->sum[i].name);
    for (int i = 0; i < k->nspace; i++)
        if (!((used[0] | used[1]) >> i & 1) && k->space[i].size > 1)
            return FAULT(c, "neither operand goes along %s", k->space[i].name);
    return NULL;
}

static const char *fault_in_contract(const check *c, const dl_kinstr *in) {
    static const char *const what[] = {"batch", "channels C", "channels O"};
    const dl_kernel *k = c->k;
    if (dl_ops[in->op].class != DL_CLASS_CONTRACT)
        return FAULT(c, "%s is no contraction", dl_ops[in->op].name);
    if (in->op == DL_OP_contract) return fault_in_names(c, in);
    if (in->spatial < 1 || in->spatial > 3) return FAULT(c, "%d spatial axes", in->spatial);
    const char *fault = fault_in_parts(c, in);
    if (fault) return fault;
    if (in->op != DL_OP_conv_grad_weight && in->nparts[1] != 1) return FAULT(c, "a weight of several parts");
    if (in->w_start && in->op != DL_OP_conv) return FAULT(c, "w_start belongs to conv alone");
    dl_extents e = dl_kernel_extents(k, in);
    const dl_axis *a = k->params.at[in->parts[0][0]].type.axis, *b = k->params.at[in->parts[1][0]].type.axis;
    const dl_axis *s = k->space;
    bool conv = in->op == DL_OP_conv, input = in->op == DL_OP_conv_grad_input;
    /* The same size seen from the other operand or from the space. */
    int64_t n = conv || input ? a[0].size : b[0].size, cc = conv || input ? b[1].size : s[1].size;
    int64_t o = conv || input ? b[0].size : s[0].size;
    int64_t here[] = {e.n, e.c, e.o}, there[] = {n, cc, o};
    bool slice = conv && e.o < o;
    if (in->w_start < 0 || (conv && in->w_start > o - e.o))
        return FAULT(c, "rows %lld to %lld of a weight with O=%lld", (long long)in->w_start,
                     (long long)(in->w_start + e.o), (long long)o);
    for (int i = 0; i < (slice ? 2 : 3); i++)
        if (here[i] != there[i])
            return FAULT(c, "%s: %lld and %lld", what[i], (long long)here[i], (long long)there[i]);
    for (int i = 0; i < in->spatial; i++) {
        if (in->stride[i] < 1) return FAULT(c, "stride %lld", (long long)in->stride[i]);
        if (in->pad_lo[i] < 0 || in->pad_hi[i] < 0) return FAULT(c, "negative padding");
        int64_t room = e.in[i] + in->pad_lo[i] + in->pad_hi[i] - e.taps[i];
        int64_t out = room < 0 ? 0 : room / in->stride[i] + 1;
        if (e.out[i] != out)
            return FAULT(c, "spatial axis %d: %lld elements, %lld taps, stride %lld make %lld, not %lld", i,
                         (long long)e.in[i], (long long)e.taps[i], (long long)in->stride[i], (long long)out,
                         (long long)e.out[i]);
    }
    return NULL;
}

static const char *fault_in_terms(const check *c, const dl_index *x, unsigned gone, bool store) {
    if (x->nterms < 0 || x->nterms > DL_MAX_TERMS) return FAULT(c, "an index of %d terms", x->nterms);
    if (x->nterms && (x->axis >= 0 || store))
        return FAULT(c, store ? "a store at a sum of terms" : "an axis beside terms");
    for (int i = 0; i < x->nterms; i++) {
        const dl_term *t = &x->term[i];
        if (t->axis < 0 || t->axis >= c->k->nspace || gone >> t->axis & 1)
            return FAULT(c, "a term follows no axis of its space");
        if (t->div < 1 || t->mod < 0 || t->mul < 1)
            return FAULT(c, "a term divides by %lld, mod %lld, times %lld", (long long)t->div,
                         (long long)t->mod, (long long)t->mul);
    }
    return NULL;
}

/* Coordinates of a load or store: on the instruction's own space. */
static const char *fault_in_place(const check *c, int number) {
    const dl_kernel *k = c->k;
    const dl_kinstr *in = &k->instrs.at[number];
    bool store = in->kind == DL_K_STORE;
    if (in->param < 0 || in->param >= k->params.n) return FAULT(c, "no parameter %d", in->param);
    const dl_kparam *p = &k->params.at[in->param];
    if (p->is_out != store)
        return FAULT(c, store ? "a store into input %%%s" : "a load of output %%%s", p->name);
    unsigned gone = number > c->first ? c->reduced : 0, used = 0;
    for (int i = 0; i < p->type.rank; i++) {
        int axis = in->index[i].axis;
        if (axis < -1 || axis >= k->nspace) return FAULT(c, "%%%s follows no axis of the space", p->name);
        if (axis >= 0 && gone >> axis & 1)
            return FAULT(c, "%%%s follows axis %s, which is reduced", p->name, k->space[axis].name);
        if (axis >= 0) used |= 1u << axis;
        const char *fault = fault_in_terms(c, &in->index[i], gone, store);
        if (fault) return fault;
    }
    for (int i = 0; store && i < k->nspace; i++)
        if (!((used | gone) >> i & 1) && k->space[i].size > 1)
            return FAULT(c, "all points along %s store into the same element of %%%s", k->space[i].name,
                         p->name);
    return NULL;
}

/* Operands are earlier results of the same space (constants have none). */
static const char *fault_in_args(const check *c, int number) {
    const dl_kernel *k = c->k;
    const dl_kinstr *in = &k->instrs.at[number];
    bool behind = number > c->first && in->kind != DL_K_REDUCE;
    for (int i = 0; i < in->nargs; i++) {
        int a = in->args[i];
        if (a < 0 || a >= number || k->instrs.at[a].kind == DL_K_STORE)
            return FAULT(c, "operand %%%d is no earlier result", a);
        if (k->instrs.at[a].kind == DL_K_CONST) continue;
        if (behind && a < c->first)
            return FAULT(c, "%%%d has a value at each point, not behind the reduction", a);
        if (!behind && a >= c->first) return FAULT(c, "a reduction of %%%d, which is reduced", a);
    }
    return NULL;
}

static const char *fault_in_reduce(const check *c, const dl_kinstr *in) {
    bool known = in->op == DL_OP_sum || in->op == DL_OP_reduce_max || in->op == DL_OP_reduce_min;
    if (!known) return FAULT(c, "%s is no reduction of a kernel", dl_ops[in->op].name);
    if (!in->over || in->over >> c->k->nspace) return FAULT(c, "it reduces over no axis of the space");
    if (in->over != c->reduced) return FAULT(c, "reductions of a kernel must remove the same axes");
    return NULL;
}

static const char *fault_in_instr(const check *c, int number) {
    static const int nargs[DL_NKINSTRS] = {[DL_K_REDUCE] = 1, [DL_K_STORE] = 1};
    const dl_kinstr *in = &c->k->instrs.at[number];
    if ((unsigned)in->kind >= DL_NKINSTRS) return FAULT(c, "no kind of instruction");
    bool elem = in->kind == DL_K_ELEM;
    if (elem && dl_ops[in->op].class != DL_CLASS_ELEM)
        return FAULT(c, "%s is no scalar op", dl_ops[in->op].name);
    int want = elem ? dl_ops[in->op].arity : nargs[in->kind];
    if (in->nargs != want) return FAULT(c, "%d operands, needs %d", in->nargs, want);
    const char *fault = fault_in_args(c, number);
    if (fault) return fault;
    switch (in->kind) {
    case DL_K_CONTRACT:
        return number ? FAULT(c, "the contraction must be the first instruction, and alone")
                      : fault_in_contract(c, in);
    case DL_K_LOAD:
    case DL_K_STORE: return fault_in_place(c, number);
    case DL_K_REDUCE: return fault_in_reduce(c, in);
    case DL_K_COORD:
        if (in->axis < 0 || in->axis >= c->k->nspace) return FAULT(c, "a coordinate along no axis");
        if (number > c->first && c->reduced >> in->axis & 1)
            return FAULT(c, "a coordinate along %s, which is reduced", c->k->space[in->axis].name);
        return NULL;
    default: return NULL;
    }
}

const char *dl_kernel_fault(const dl_kernel *k, dl_arena *arena) {
    check c = {k, arena, dl_kernel_first_reduction(k), dl_kernel_reduced(k)};
    const char *fault = fault_in_params(&c);
    if (fault) return fault;
    for (int i = 0; i < k->instrs.n; i++) {
        fault = fault_in_instr(&c, i);
        if (fault) return FAULT(&c, "instruction %d: %s", i, fault);
    }
    for (int p = k->nin; p < k->params.n; p++) {
        bool stored = false;
        for (int i = 0; i < k->instrs.n; i++)
            stored = stored || (k->instrs.at[i].kind == DL_K_STORE && k->instrs.at[i].param == p);
        if (!stored) return FAULT(&c, "nothing stores into output %%%s", k->params.at[p].name);
    }
    return NULL;
}

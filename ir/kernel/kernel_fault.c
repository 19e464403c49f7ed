/* Checks that a kernel is legal: its parameters' shapes fit its indices, each instruction follows
 * its operands, chains of reductions are short enough, and every output is stored. */
#include "ir/base/counts.h"
#include "ir/base/philox.h"
#include "ir/infer.h"
#include "ir/kernel/schedule.h"

typedef struct {
    const dl_kernel *k;
    dl_arena *arena;
    const unsigned *axes; /* by instruction; of those already checked */
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
        if (p->is_out != (i >= k->nin))
            return FAULT(c, "%%%s: inputs come first, then outputs", p->name);
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
    int rank = in->windows.n + 2;
    for (int side = 0; side < 2; side++) {
        if (in->nparts[side] < 1 || in->nparts[side] > 4)
            return FAULT(c, "an operand of %d parts", in->nparts[side]);
        for (int i = 0; i < in->nparts[side]; i++) {
            if (in->parts[side][i] < 0 || in->parts[side][i] >= k->nin)
                return FAULT(c, "an operand is no input");
            const dl_kparam *p = &k->params.at[in->parts[side][i]];
            const dl_kparam *lead = &k->params.at[in->parts[side][0]];
            if (p->type.rank != rank)
                return FAULT(c, "%%%s has %d axes, a contraction over %d spatial axes needs %d",
                             p->name, p->type.rank, in->windows.n, rank);
            for (int a = 0; a < rank; a++)
                if (a != 1 && p->type.axis[a].size != lead->type.axis[a].size)
                    return FAULT(c, "%%%s and %%%s differ along axis %d", lead->name, p->name, a);
        }
    }
    if (k->nspace != rank)
        return FAULT(c, "a space of %d axes around a contraction of %d", k->nspace, rank);
    return NULL;
}

/* A contraction by names: an operand's axes are different axes of equal size, every summed axis is
 * an axis of both operands, and every axis of the space belongs to one of them. */
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
            if (!sum && (at < 0 || at >= k->nspace))
                return FAULT(c, "%%%s goes along no axis", p->name);
            dl_axis axis = sum ? in->sum[at - DL_MAX_RANK] : k->space[at];
            if (axis.size != p->type.axis[i].size)
                return FAULT(c, "axis %d of %%%s has %lld elements, %s has %lld", i, p->name,
                             (long long)p->type.axis[i].size, axis.name, (long long)axis.size);
            if (used[side] >> at & 1)
                return FAULT(c, "%%%s goes along %s twice", p->name, axis.name);
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

/* Each size of the relation equals that of every tensor with the axis. */
static const char *fault_in_sizes(const check *c, const dl_kinstr *in) {
    const dl_kernel *k = c->k;
    dl_relation r = dl_kernel_relation(k, in);
    bool sliced = dl_op_tensor(in->op, DL_RESULT_PLACE) == DL_TENSOR_Y && in->windows.groups == 1;
    for (int place = 0; place < DL_PLACES; place++)
        for (int a = 0; a < k->nspace; a++) {
            int64_t size = 1, here = 0;
            for (int i = 0; i < r.n; i++)
                if (r.axis[i].at[place] == a) size *= r.axis[i].size;
            if (place == DL_RESULT_PLACE) here = k->space[a].size;
            for (int i = 0; place < 2 && i < (a == 1 ? in->nparts[place] : 1); i++)
                here += k->params.at[in->parts[place][i]].type.axis[a].size;
            bool weight = dl_op_tensor(in->op, place) == DL_TENSOR_W;
            if (weight && a == 0 && sliced && size <= here) {
                if (in->w_start < 0 || in->w_start > here - size)
                    return FAULT(c, "rows %lld to %lld of a weight with O=%lld",
                                 (long long)in->w_start, (long long)(in->w_start + size),
                                 (long long)here);
                continue;
            }
            if (size != here)
                return FAULT(c, "axis %d of %s has %lld elements, the relation %lld", a,
                             place == 2 ? "the space"
                             : place    ? "the second operand"
                                        : "the first operand",
                             (long long)here, (long long)size);
        }
    return NULL;
}

static const char *fault_in_contract(const check *c, const dl_kinstr *in) {
    const dl_kernel *k = c->k;
    const dl_windows *w = &in->windows;
    if (dl_ops[in->op].class != DL_CLASS_CONTRACT)
        return FAULT(c, "%s is no contraction", dl_ops[in->op].name);
    if (!dl_op_slides(in->op)) return fault_in_names(c, in);
    if (w->n < 1 || w->n > 3) return FAULT(c, "%d spatial axes", w->n);
    for (int i = 0; i < w->n; i++) {
        if (w->stride[i] < 1) return FAULT(c, "stride %lld", (long long)w->stride[i]);
        if (w->dilation[i] < 1) return FAULT(c, "dilation %lld", (long long)w->dilation[i]);
        if (w->pad_lo[i] < 0 || w->pad_hi[i] < 0) return FAULT(c, "negative padding");
    }
    const char *fault = fault_in_parts(c, in);
    if (fault) return fault;
    for (int side = 0; side < 2; side++)
        if (dl_op_tensor(in->op, side) == DL_TENSOR_W && in->nparts[side] != 1)
            return FAULT(c, "a weight of several parts");
    if (in->w_start && dl_op_tensor(in->op, DL_RESULT_PLACE) != DL_TENSOR_Y)
        return FAULT(c, "w_start belongs to what makes y alone");
    if (w->groups < 1) return FAULT(c, "%lld groups", (long long)w->groups);
    if (w->groups > 1 && (in->nparts[0] > 1 || in->nparts[1] > 1 || in->w_start))
        return FAULT(c, "groups of a part");
    if ((fault = fault_in_sizes(c, in))) return fault;
    dl_relation r = dl_kernel_relation(k, in);
    for (int i = 0; i < w->n; i++) {
        const dl_relation_window *v = &r.window[3 - w->n + i];
        int64_t size = r.axis[v->in].size, taps = r.axis[v->tap].size, out = r.axis[v->out].size,
                fits = dl_windows_count(w, i, size, taps);
        if (out != fits)
            return FAULT(
                c, "spatial axis %d: %lld elements, %lld taps, stride %lld make %lld, not %lld", i,
                (long long)size, (long long)taps, (long long)w->stride[i], (long long)fits,
                (long long)out);
    }
    return NULL;
}

static const char *fault_in_value(const check *c, int number, const dl_index *x) {
    int by = x->indirect - 1;
    if (by < 0 || by >= number || c->k->instrs.at[by].kind == DL_K_STORE)
        return FAULT(c, "a coordinate is no earlier result");
    if (c->k->instrs.at[by].type != DL_I32 && c->k->instrs.at[by].type != DL_I64)
        return FAULT(c, "a coordinate is no whole number");
    for (int i = 0; i < c->k->instrs.n; i++)
        if (c->k->instrs.at[i].kind == DL_K_REDUCE || c->k->instrs.at[i].kind == DL_K_CONTRACT)
            return FAULT(c, "a coordinate by value together with a reduction");
    return x->axis >= 0 || x->nterms || x->offset || x->div > 1
               ? FAULT(c, "a coordinate together with a value")
               : NULL;
}

static const char *fault_in_terms(const check *c, const dl_index *x, bool store) {
    if (x->nterms < 0 || x->nterms > DL_MAX_TERMS)
        return FAULT(c, "an index of %d terms", x->nterms);
    if (x->nterms && (x->axis >= 0 || store))
        return FAULT(c, store ? "a store at a sum of terms" : "an axis together with terms");
    if (x->div < 0 || (unsigned)x->outside >= DL_OUT_ANY || (store && (x->div > 1 || x->outside)))
        return FAULT(c, store ? "a store at a divided index" : "no way to divide an index");
    for (int i = 0; i < x->nterms; i++) {
        const dl_term *t = &x->term[i];
        if (t->axis < 0 || t->axis >= c->k->nspace)
            return FAULT(c, "a term follows no axis of its space");
        if (t->div < 1 || t->mod < 0 || !t->mul)
            return FAULT(c, "a term divides by %lld, mod %lld, times %lld", (long long)t->div,
                         (long long)t->mod, (long long)t->mul);
    }
    return NULL;
}

/* Coordinates of a load or store: they use the axes of its own space. */
static const char *fault_in_place(const check *c, int number) {
    const dl_kernel *k = c->k;
    const dl_kinstr *in = &k->instrs.at[number];
    bool store = in->kind == DL_K_STORE;
    if (in->param < 0 || in->param >= k->params.n) return FAULT(c, "no parameter %d", in->param);
    const dl_kparam *p = &k->params.at[in->param];
    if (p->is_out != store)
        return FAULT(c, store ? "a store into input %%%s" : "a load of output %%%s", p->name);
    unsigned used = 0;
    for (int i = 0; i < p->type.rank; i++) {
        int axis = in->index[i].axis;
        if (axis < -1 || axis >= k->nspace)
            return FAULT(c, "%%%s follows no axis of the space", p->name);
        if (axis >= 0) used |= 1u << axis;
        const char *fault = fault_in_terms(c, &in->index[i], store);
        if (!fault && in->index[i].indirect) fault = fault_in_value(c, number, &in->index[i]);
        if (!fault && in->index[i].indirect &&
            dl_kinstr_indirect(k, in) != in->index[i].indirect - 1)
            fault = FAULT(c, "several values tell where %%%s is read or written", p->name);
        if (fault) return fault;
        if (dl_index_inside(k->space, &in->index[i], p->type.axis[i].size)) continue;
        if (!dl_outside_fills(in->index[i].outside)) {
            if (!p->type.axis[i].size)
                return FAULT(c, "%%%s has no element along axis %d", p->name, i);
            continue;
        }
        double here = dl_outside_value(in->index[i].outside),
               all = dl_kinstr_outside(in, k->space, &p->type);
        if (here != all && !(here != here && all != all))
            return FAULT(c, "a load of %%%s knows two values for what lies outside", p->name);
    }
    if (store && in->op == DL_OP_reduce_max && dl_kinstr_indirect(k, in) < 0)
        return FAULT(c, "the largest value for %%%s is stored at no value", p->name);
    for (int i = 0; store && dl_kinstr_indirect(k, in) < 0 && i < k->nspace; i++)
        if (!(used >> i & 1) && c->axes[in->args[0]] >> i & 1)
            return FAULT(c, "all points along %s store into the same element of %%%s",
                         k->space[i].name, p->name);
    return NULL;
}

static const char *fault_in_args(const check *c, int number) {
    const dl_kernel *k = c->k;
    const dl_kinstr *in = &k->instrs.at[number];
    for (int i = 0; i < in->nargs; i++)
        if (in->args[i] < 0 || in->args[i] >= number ||
            k->instrs.at[in->args[i]].kind == DL_K_STORE)
            return FAULT(c, "operand %%%d is no earlier result", in->args[i]);
    return NULL;
}

static const char *fault_in_reduce(const check *c, const dl_kinstr *in) {
    bool known = in->op == DL_OP_sum || in->op == DL_OP_reduce_max || in->op == DL_OP_reduce_min;
    if (!known) return FAULT(c, "%s is no reduction of a kernel", dl_ops[in->op].name);
    if (!in->over || in->over >> c->k->nspace)
        return FAULT(c, "it reduces over no axis of the space");
    return NULL;
}

static const char *fault_in_random(const check *c, int number) {
    const dl_kernel *k = c->k;
    const dl_kinstr *in = &k->instrs.at[number];
    int64_t most = in->first;
    for (int i = 0; i < in->nargs; i++)
        if (k->instrs.at[in->args[i]].type != DL_I64)
            return FAULT(c, "seed, step and part are i64");
    if (in->type != DL_F32 && in->type != DL_F64)
        return FAULT(c, "random numbers are f32 or f64, not %s", dl_dtype_name(in->type));
    if (in->number < 0 || in->number >= DL_RANDOM_NUMBERS)
        return FAULT(c, "random op %d", in->number);
    for (int i = 0; i < DL_MAX_RANK; i++) {
        if (in->along[i] < 0 || (in->along[i] && i >= k->nspace))
            return FAULT(c, "random elements along what is no axis of its space");
        if (i < k->nspace && k->space[i].size)
            most = dl_count_plus(most, dl_count_times(in->along[i], k->space[i].size - 1));
    }
    if (in->first < 0 || most > (int64_t)1 << 47)
        return FAULT(c, "random elements from %lld to %lld", (long long)in->first, (long long)most);
    if (in->part < 0 || in->part > (int64_t)1 << 47 || (in->part && in->nargs < 3))
        return FAULT(c, "random elements in parts of %lld", (long long)in->part);
    return NULL;
}

/* A template on the kernel's parameters, which must be row-major. */
static const char *fault_in_call(const check *c, const dl_kinstr *in) {
    const dl_kernel *k = c->k;
    const dl_node *n = in->call;
    dl_type type[DL_MAX_RESULTS];
    dl_shape_fault fault;
    if (!n || dl_ops[n->op].class != DL_CLASS_TEMPLATE)
        return FAULT(c, "a call of what is no template");
    if (k->instrs.n != 1 || k->nspace)
        return FAULT(c, "a call is alone in its kernel, which has no space");
    if (n->nin != k->nin || n->nout != k->params.n - k->nin || n->nout != dl_op_results(n->op))
        return FAULT(c, "a call of %d operands and %d results", n->nin, n->nout);
    for (int i = 0; i < k->params.n; i++) {
        const dl_type *t = i < n->nin ? &n->in[i]->type : &n->out[i - n->nin].type,
                      *p = &k->params.at[i].type;
        if (!dl_type_same(t, p) || p->layout.kind != DL_ROW || k->params.at[i].alias >= 0)
            return FAULT(c, "%%%s is not what is called for", k->params.at[i].name);
    }
    if (!dl_infer(n, type, &fault)) return FAULT(c, "%s", fault.message);
    for (int i = 0; i < n->nout; i++)
        if (!dl_type_same(&type[i], &n->out[i].type))
            return FAULT(c, "result %d should be %s", i, dl_type_text(&type[i]));
    return NULL;
}

static const char *fault_in_instr(const check *c, int number) {
    static const int nargs[DL_NKINSTRS] = {[DL_K_REDUCE] = 1, [DL_K_STORE] = 1, [DL_K_RANDOM] = 2};
    const dl_kinstr *in = &c->k->instrs.at[number];
    if ((unsigned)in->kind >= DL_NKINSTRS) return FAULT(c, "no kind of instruction");
    bool elem = in->kind == DL_K_ELEM;
    if (elem && dl_ops[in->op].class != DL_CLASS_ELEM)
        return FAULT(c, "%s is no scalar op", dl_ops[in->op].name);
    int want =
        elem ? dl_ops[in->op].arity : nargs[in->kind] + (in->kind == DL_K_RANDOM && in->nargs == 3);
    if (in->nargs != want) return FAULT(c, "%d operands, needs %d", in->nargs, want);
    if (in->no_contract && !(elem && dl_op_is_sum(in->op) && dl_dtype_is_float(in->type)))
        return FAULT(c, "no_contract stands at sums and differences of floats");
    const char *fault = fault_in_args(c, number);
    if (fault) return fault;
    switch (in->kind) {
    case DL_K_CONTRACT:
        return number ? FAULT(c, "the contraction must be the first instruction, and alone")
                      : fault_in_contract(c, in);
    case DL_K_LOAD:
    case DL_K_STORE: return fault_in_place(c, number);
    case DL_K_RANDOM: return fault_in_random(c, number);
    case DL_K_REDUCE: return fault_in_reduce(c, in);
    case DL_K_CALL: return fault_in_call(c, in);
    case DL_K_COORD:
        if (in->axis < 0 || in->axis >= c->k->nspace) return FAULT(c, "a coordinate along no axis");
        return NULL;
    default: return NULL;
    }
}

const char *dl_kernel_fault(const dl_kernel *k, dl_arena *arena) {
    check c = {k, arena, NULL};
    const char *fault = fault_in_params(&c);
    if (fault) return fault;
    unsigned *axes = DL_NEWS(arena, unsigned, k->instrs.n + 1), wide = dl_kernel_wide_axes(k);
    int *stage = DL_NEWS(arena, int, k->instrs.n + 1);
    c.axes = axes;
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        fault = fault_in_instr(&c, i);
        if (fault) return FAULT(&c, "instruction %d: %s", i, fault);
        axes[i] = dl_kinstr_axes(k, i, wide, axes);
        stage[i] = dl_reductions_up_to(stage, in->nargs, in->args, in->kind == DL_K_REDUCE);
        if (stage[i] > DL_MAX_STAGES)
            return FAULT(&c, "instruction %d: more than %d reductions wait for each other", i,
                         (int)DL_MAX_STAGES);
    }
    for (int p = k->nin; p < k->params.n && !dl_kernel_call(k); p++) {
        bool stored = false;
        for (int i = 0; i < k->instrs.n; i++)
            stored = stored || (k->instrs.at[i].kind == DL_K_STORE && k->instrs.at[i].param == p);
        if (!stored) return FAULT(&c, "nothing stores into output %%%s", k->params.at[p].name);
    }
    return dl_schedule_fault(k, arena);
}

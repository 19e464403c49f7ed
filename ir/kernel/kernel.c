/* Questions about kernels: the anchor, the reductions, the axes along which values differ, the
 * ranges of indices. */
#include "ir/kernel/kernel.h"

#include "ir/base/counts.h"

const dl_node *dl_kernel_call(const dl_kernel *k) {
    return k->instrs.n && k->instrs.at[0].kind == DL_K_CALL ? k->instrs.at[0].call : NULL;
}

dl_node *dl_call_node(dl_arena *arena, dl_op op, int nin, int nout, const dl_type *types,
                      int nattrs, const dl_attr *attrs, dl_loc loc) {
    dl_node *n = DL_NEW(arena, dl_node);
    *n = (dl_node){.op = op, .nin = nin, .nout = nout, .nattrs = nattrs, .loc = loc};
    n->in = DL_NEWS(arena, dl_value *, nin + 1), n->out = DL_NEWS(arena, dl_value, nout + 1);
    n->attrs = DL_NEWS(arena, dl_attr, nattrs + 1);
    for (int i = 0; i < nin; i++) {
        n->in[i] = DL_NEW(arena, dl_value);
        *n->in[i] = (dl_value){.type = types[i], .offset = -1};
    }
    for (int i = 0; i < nout; i++)
        n->out[i] = (dl_value){.def = n, .index = i, .type = types[nin + i], .offset = -1};
    if (nattrs) memcpy(n->attrs, attrs, sizeof *attrs * (size_t)nattrs);
    return n;
}

dl_dtype dl_kernel_type(dl_dtype d) { return dl_dtype_is_half(d) ? DL_F32 : d; }

int dl_kernel_anchor(const dl_kernel *k) {
    for (int i = 0; i < k->instrs.n; i++)
        if (k->instrs.at[i].kind == DL_K_CONTRACT) return i;
    return -1;
}

int dl_kernel_reductions(const dl_kernel *k) {
    int n = 0;
    for (int i = 0; i < k->instrs.n; i++) n += k->instrs.at[i].kind == DL_K_REDUCE;
    return n;
}

const char *dl_kernel_kind(const dl_kernel *k) {
    const dl_node *call = dl_kernel_call(k);
    return call                          ? dl_ops[call->op].name
           : dl_kernel_anchor(k) >= 0    ? "contraction"
           : dl_kernel_reductions(k) > 0 ? "reduction"
                                         : "pointwise";
}

int64_t dl_axes_points(int nspace, const dl_axis *space, unsigned axes) {
    int64_t n = 1;
    for (int i = 0; i < nspace; i++)
        if (axes >> i & 1) n *= space[i].size;
    return n;
}

unsigned dl_kinstr_followed(const dl_kernel *k, const dl_kinstr *in) {
    unsigned axes = 0;
    for (int i = 0; i < k->params.at[in->param].type.rank; i++) {
        if (in->index[i].axis >= 0) axes |= 1u << in->index[i].axis;
        for (int t = 0; t < in->index[i].nterms; t++) axes |= 1u << in->index[i].term[t].axis;
    }
    return axes;
}

bool dl_kernel_holds(const dl_kernel *k, int i, dl_dtype type) {
    const dl_kinstr *in = &k->instrs.at[i];
    if (in->kind == DL_K_LOAD) return k->params.at[in->param].type.dtype == type;
    if (in->kind != DL_K_ELEM) return false;
    if (in->type == type) return true;
    bool same = in->op == DL_OP_cast ? in->type == dl_kernel_type(type)
                                     : dl_op_roundings(in->op) == 0 && dl_dtype_is_float(in->type);
    return in->nargs == 1 && same && dl_kernel_holds(k, in->args[0], type);
}

int dl_kinstr_indirect(const dl_kernel *k, const dl_kinstr *in) {
    for (int i = 0; i < k->params.at[in->param].type.rank; i++)
        if (in->index[i].indirect) return in->index[i].indirect - 1;
    return -1;
}

unsigned dl_kinstr_axes(const dl_kernel *k, int number, unsigned wide, const unsigned *axes) {
    const dl_kinstr *in = &k->instrs.at[number];
    unsigned of = 0;
    for (int a = 0; a < in->nargs; a++) of |= axes[in->args[a]];
    switch (in->kind) {
    case DL_K_CONTRACT: return wide;
    case DL_K_COORD: return wide & 1u << in->axis;
    case DL_K_REDUCE: return of & ~in->over;
    case DL_K_LOAD:
    case DL_K_STORE:
        if (dl_kinstr_indirect(k, in) < 0) return wide & dl_kinstr_followed(k, in);
        return wide & (dl_kinstr_followed(k, in) | of | axes[dl_kinstr_indirect(k, in)]);
    case DL_K_RANDOM:
        for (int a = 0; a < k->nspace; a++) of |= in->along[a] ? 1u << a : 0;
        return wide & of;
    default: return of;
    }
}

unsigned dl_kernel_wide_axes(const dl_kernel *k) {
    unsigned wide = 0;
    for (int i = 0; i < k->nspace; i++) wide |= k->space[i].size != 1 ? 1u << i : 0;
    return wide;
}

unsigned *dl_kernel_axes(const dl_kernel *k, dl_arena *arena) {
    unsigned *axes = DL_NEWS(arena, unsigned, k->instrs.n + 1), wide = dl_kernel_wide_axes(k);
    for (int i = 0; i < k->instrs.n; i++) axes[i] = dl_kinstr_axes(k, i, wide, axes);
    return axes;
}

dl_relation dl_kernel_relation(const dl_kernel *k, const dl_kinstr *in) {
    const dl_type *lead[] = {&k->params.at[in->parts[0][0]].type,
                             &k->params.at[in->parts[1][0]].type};
    if (!dl_op_slides(in->op)) {
        int rank[] = {lead[0]->rank, lead[1]->rank};
        const int *follow[] = {in->follow[0], in->follow[1]};
        return dl_relation_of_names(k->nspace, k->space, in->nsums, in->sum, rank, follow);
    }
    dl_type whole[] = {*lead[0], *lead[1], {.rank = k->nspace}};
    for (int side = 0; side < 2; side++)
        for (int i = 1; i < in->nparts[side]; i++)
            whole[side].axis[1].size += k->params.at[in->parts[side][i]].type.axis[1].size;
    for (int i = 0; i < k->nspace; i++) whole[2].axis[i] = k->space[i];
    const dl_type *type[] = {&whole[0], &whole[1], &whole[2]};
    return dl_relation_of_windows(in->op, type, &in->windows);
}

/* The smallest and the largest sum that an index takes, before it is divided. False: it goes along
 * an axis without points. */
static bool find_range(const dl_axis *space, const dl_index *index, int64_t *least, int64_t *most) {
    *least = *most = index->offset;
    if (index->axis >= 0 && !space[index->axis].size) return false;
    if (index->axis >= 0) *most += space[index->axis].size - 1;
    for (int i = 0; i < index->nterms; i++) {
        const dl_term *t = &index->term[i];
        int64_t n = (space[t->axis].size + t->div - 1) / t->div;
        if (t->mod && t->mod < n) n = t->mod;
        if (n < 1) return false;
        if (t->mul > 0)
            *most = dl_count_plus(*most, dl_count_times(n - 1, t->mul));
        else
            *least = -dl_count_plus(-*least, dl_count_times(n - 1, -t->mul));
    }
    return true;
}

bool dl_index_same(const dl_index *a, const dl_index *b, int n) {
    for (int i = 0; i < n; i++) {
        if (a[i].axis != b[i].axis || a[i].outside != b[i].outside || a[i].offset != b[i].offset ||
            a[i].div != b[i].div || a[i].indirect != b[i].indirect || a[i].nterms != b[i].nterms)
            return false;
        for (int k = 0; k < a[i].nterms; k++) {
            const dl_term *x = &a[i].term[k], *y = &b[i].term[k];
            if (x->axis != y->axis || x->div != y->div || x->mod != y->mod || x->mul != y->mul)
                return false;
        }
    }
    return true;
}

bool dl_index_inside(const dl_axis *space, const dl_index *index, int64_t size) {
    int64_t least, most, div = index->div > 1 ? index->div : 1;
    if (index->indirect) return false;
    if (!find_range(space, index, &least, &most)) return true;
    if (div > 1 && index->outside == DL_OUT_EXACT) return false;
    return least >= 0 && most / div < size;
}

bool dl_index_natural(const dl_axis *space, const dl_index *index) {
    int64_t least, most;
    return !index->indirect && (!find_range(space, index, &least, &most) || least >= 0);
}

double dl_kinstr_outside(const dl_kinstr *in, const dl_axis *space, const dl_type *param) {
    for (int i = 0; i < param->rank; i++)
        if (!dl_index_inside(space, &in->index[i], param->axis[i].size) &&
            dl_outside_fills(in->index[i].outside))
            return dl_outside_value(in->index[i].outside);
    return 0;
}

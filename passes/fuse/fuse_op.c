/* Fusion: the instructions of one node in its cluster's kernel. See ir/kernel/kernel.h for
 * instructions. */
#include <stdlib.h>

#include "passes/fuse/fuse_maker.h"

int dl_maker_emit(dl_maker *m, dl_kinstr i) {
    dl_push(m->scratch, &m->k->instrs, i);
    return m->k->instrs.n - 1;
}

static int param_of(dl_maker *m, dl_value *v) {
    for (int i = 0; i < m->operands.n; i++)
        if (m->operands.at[i] == v) return i;
    dl_push(m->scratch, &m->operands, v);
    dl_push(
        m->f->graph->module->arena, &m->k->params,
        (dl_kparam){.name = dl_internf("i%d", m->operands.n - 1), .type = v->type, .alias = -1});
    return m->operands.n - 1;
}

static int space_axis(const dl_maker *m, const char *name) {
    for (int i = 0; i < m->k->nspace; i++)
        if (m->k->space[i].name == name) return i;
    return -1;
}

void dl_maker_identity(const dl_maker *m, const dl_type *t, dl_index *index) {
    for (int i = 0; i < t->rank; i++) {
        index[i] = (dl_index){.axis = *t->axis[i].name ? space_axis(m, t->axis[i].name) : -1};
        DL_CHECK(index[i].axis >= 0 || t->axis[i].size == 1);
    }
}

/* An integer type that holds coordinates up to `most`. */
static dl_dtype count_type(int64_t most) { return most <= INT32_MAX ? DL_I32 : DL_I64; }

/* Elements are numbered by the tensor's own axes in order, whatever the order of the space. */
static int draw(dl_maker *m, const dl_node *n, const dl_index *index) {
    const dl_type *t = &n->out[0].type;
    dl_kinstr in = {.kind = DL_K_RANDOM,
                    .op = n->op,
                    .type = dl_kernel_type(t->dtype),
                    .nargs = n->nin,
                    .number = (int)dl_node_int(n, DL_ATTR_number),
                    .loc = n->loc};
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; step *= t->axis[i--].size) {
        in.first += index[i].offset * step;
        if (index[i].axis >= 0) in.along[index[i].axis] += step;
    }
    if (n->nin > 2) in.part = dl_type_count(t);
    for (int i = 0; i < n->nin; i++) in.args[i] = dl_maker_read(m, n->in[i]);
    return dl_maker_emit(m, in);
}

static int source(dl_maker *m, const dl_node *n, const dl_index *index) {
    dl_dtype type = dl_kernel_type(n->out[0].type.dtype);
    if (n->op == DL_OP_random) return draw(m, n, index);
    if (n->op == DL_OP_const)
        return dl_maker_emit(m, (dl_kinstr){.kind = DL_K_CONST,
                                            .type = type,
                                            .p = dl_node_float(n, DL_ATTR_value),
                                            .loc = n->loc});
    DL_CHECK(n->op == DL_OP_iota);
    dl_kinstr at = {.kind = DL_K_COORD, .type = type, .axis = index[0].axis, .loc = n->loc};
    dl_kinstr by = {.kind = DL_K_CONST, .type = type, .p = (double)index[0].offset, .loc = n->loc};
    if (at.axis < 0) return dl_maker_emit(m, by);
    if (!index[0].offset) return dl_maker_emit(m, at);
    /* Computed in integers: a float would not hold the sum exactly. */
    at.type = by.type = count_type(m->k->space[at.axis].size + llabs(index[0].offset));
    dl_kinstr sum = {
        .kind = DL_K_ELEM, .op = DL_OP_add, .type = at.type, .nargs = 2, .loc = n->loc};
    sum.args[0] = dl_maker_emit(m, at), sum.args[1] = dl_maker_emit(m, by);
    int moved = dl_maker_emit(m, sum);
    if (type == sum.type) return moved;
    return dl_maker_emit(m, (dl_kinstr){.kind = DL_K_ELEM,
                                        .op = DL_OP_cast,
                                        .type = type,
                                        .nargs = 1,
                                        .args = {moved},
                                        .loc = n->loc});
}

static int load(dl_maker *m, dl_value *v, const dl_index *index) {
    dl_kinstr load = {.kind = DL_K_LOAD,
                      .type = dl_kernel_type(v->type.dtype),
                      .param = param_of(m, v),
                      .loc = v->def ? v->def->loc : v->var->loc};
    load.index = DL_NEWS(m->f->graph->module->arena, dl_index, v->type.rank);
    memcpy(load.index, index, sizeof(dl_index) * (size_t)v->type.rank);
    for (int i = 0; i < v->type.rank; i++)
        if (load.index[i].outside == DL_OUT_ANY) load.index[i].outside = DL_OUT_ZERO;
    return dl_maker_emit(m, load);
}

/* The instruction that holds value `v` at this point, read at `index`. Equal reads share one
 * load. */
static int read_at(dl_maker *m, dl_value *v, dl_index *index) {
    bool made = false;
    while (v->def && dl_fuse_inlined(m->f, v->def)) {
        made = dl_ops[v->def->op].class == DL_CLASS_SOURCE;
        if (made) break;
        DL_CHECK(dl_fuse_through_view(m->k->space, v->def, index));
        v = v->def->in[0];
    }
    int at = m->f->position[v->id];
    if (at >= 0 && m->f->instr[at] >= 0) return m->f->instr[at];
    for (int i = 0; i < m->loads.n; i++) {
        const dl_loaded *l = &m->loads.at[i];
        if (l->value == v && dl_index_same(l->index, index, v->type.rank)) return l->instr;
    }
    dl_loaded l = {.value = v};
    l.instr = made ? source(m, v->def, index) : load(m, v, index);
    l.index = memcpy(DL_NEWS(m->scratch, dl_index, v->type.rank), index,
                     sizeof(dl_index) * (size_t)v->type.rank);
    dl_push(m->scratch, &m->loads, l);
    return l.instr;
}

int dl_maker_read(dl_maker *m, dl_value *v) {
    dl_index index[DL_MAX_RANK] = {0};
    dl_maker_identity(m, &v->type, index);
    return read_at(m, v, index);
}

/* Is one operand f32, and has the other type no more digits than TF32? */
static bool rounds_to_tf32(const dl_maker *m, const dl_node *n) {
    bool any = false, all = true;
    for (int k = 0; k < 2; k++) {
        any |= n->in[k]->type.dtype == DL_F32;
        all = all && dl_kernel_type(n->in[k]->type.dtype) == DL_F32;
    }
    return m->f->ctx->tf32 && any && all;
}

static int contract_names(dl_maker *m, const dl_node *n) {
    dl_kinstr c = {.kind = DL_K_CONTRACT,
                   .op = n->op,
                   .type = dl_kernel_type(n->out[0].type.dtype),
                   .nparts = {1, 1},
                   .loc = n->loc};
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    for (; c.nsums < over->n; c.nsums++)
        c.sum[c.nsums] = n->in[0]->type.axis[dl_type_axis(&n->in[0]->type, over->names[c.nsums])];
    for (int k = 0; k < 2; k++) {
        const char *names[DL_MAX_RANK];
        dl_value *v = dl_fuse_named(n, k, names);
        c.parts[k][0] = param_of(m, v);
        for (int i = 0; i < v->type.rank; i++) {
            int sum = 0;
            while (sum < c.nsums && c.sum[sum].name != names[i]) sum++;
            c.follow[k][i] = sum < c.nsums ? DL_MAX_RANK + sum : space_axis(m, names[i]);
        }
    }
    c.tf32 = rounds_to_tf32(m, n);
    return dl_maker_emit(m, c);
}

static int contract(dl_maker *m, const dl_node *n) {
    if (!dl_op_slides(n->op)) return contract_names(m, n);
    dl_kinstr c = {.kind = DL_K_CONTRACT,
                   .op = n->op,
                   .type = dl_kernel_type(n->out[0].type.dtype),
                   .windows = dl_node_windows(n),
                   .loc = n->loc};
    for (int k = 0; k < 2; k++) {
        dl_value *parts[4];
        int64_t start;
        c.nparts[k] = dl_fuse_reads(n, k, parts, &start);
        for (int p = 0; p < c.nparts[k]; p++) c.parts[k][p] = param_of(m, parts[p]);
        c.w_start += start; /* the slice of the operand that is the weight */
    }
    c.tf32 = rounds_to_tf32(m, n);
    return dl_maker_emit(m, c);
}

/* A concatenation: the part whose range along the axis holds this point. */
static int cat(dl_maker *m, const dl_node *n) {
    int axis = dl_type_axis(&n->out[0].type, dl_node_name(n, DL_ATTR_axis)), result = -1;
    dl_dtype type = dl_kernel_type(n->out[0].type.dtype),
             count = count_type(n->out[0].type.axis[axis].size);
    int64_t start = 0;
    for (int p = 0; p < n->nin; p++) {
        dl_index index[DL_MAX_RANK] = {0};
        dl_maker_identity(m, &n->out[0].type, index);
        int64_t size = dl_fuse_part_index(n, p, start, index);
        int part = read_at(m, n->in[p], index);
        if (result >= 0) {
            int at =
                dl_maker_emit(m, (dl_kinstr){.kind = DL_K_COORD,
                                             .type = count,
                                             .axis = space_axis(m, n->out[0].type.axis[axis].name),
                                             .loc = n->loc});
            int from = dl_maker_emit(
                m,
                (dl_kinstr){.kind = DL_K_CONST, .type = count, .p = (double)start, .loc = n->loc});
            int here = dl_maker_emit(m, (dl_kinstr){.kind = DL_K_ELEM,
                                                    .op = DL_OP_ge,
                                                    .type = DL_BOOL,
                                                    .nargs = 2,
                                                    .args = {at, from},
                                                    .loc = n->loc});
            part = dl_maker_emit(m, (dl_kinstr){.kind = DL_K_ELEM,
                                                .op = DL_OP_select,
                                                .type = type,
                                                .nargs = 3,
                                                .args = {here, part, result},
                                                .loc = n->loc});
        }
        result = part;
        start += size;
    }
    return result;
}

void dl_maker_by_number(const dl_maker *m, const dl_node *n, const dl_type *t, int number,
                        dl_outside outside, dl_index *index) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    for (int i = 0; i < t->rank; i++) {
        const char *name = t->axis[i].name;
        index[i] = name == axis ? (dl_index){.axis = -1, .indirect = number + 1, .outside = outside}
                                : (dl_index){.axis = *name ? space_axis(m, name) : -1};
    }
}

static int gather(dl_maker *m, const dl_node *n) {
    dl_index index[DL_MAX_RANK] = {0};
    dl_maker_by_number(m, n, &n->in[0]->type, dl_maker_read(m, n->in[1]),
                       dl_outside_of_gather(n->in[0]->type.dtype), index);
    return load(m, n->in[0], index);
}

/* Rounds to 16 bits; the result is held in the type of arithmetic. */
static int rounded(dl_maker *m, int value, dl_dtype type, dl_loc loc) {
    if (dl_kernel_holds(m->k, value, type)) return value;
    dl_kinstr in = {
        .kind = DL_K_ELEM, .op = DL_OP_cast, .type = type, .nargs = 1, .args = {value}, .loc = loc};
    in.args[0] = dl_maker_emit(m, in);
    in.type = dl_kernel_type(type);
    return dl_maker_emit(m, in);
}

static bool is_read_here(const dl_maker *m, const dl_value *v) {
    const dl_edges *out = &m->f->out[m->f->position[v->id]];
    for (int i = 0; i < out->n; i++)
        if (dl_fuse_member(m->f, m->cluster, &m->f->graph->nodes.at[out->at[i].node]->out[0]) >= 0)
            return true;
    return false;
}

static bool is_pinned(const dl_maker *m, const dl_node *n) {
    return m->f->pinned[m->f->position[n->out[0].id]];
}

/* Is this 16-bit value rounded where it is computed, so that it equals the value in memory? */
static bool is_rounded_here(const dl_maker *m, const dl_node *n) {
    int at = m->f->position[n->out[0].id];
    bool stored = m->f->kept[at] || m->f->wanted[n->out[0].id];
    return dl_dtype_is_half(n->out[0].type.dtype) &&
           (is_pinned(m, n) || (m->reads_back && stored && is_read_here(m, &n->out[0])));
}

/* A cast between f32 and 16 bits emits no instruction where the store rounds or the load has
 * widened. */
static int cast(dl_maker *m, const dl_node *n) {
    int v = dl_maker_read(m, n->in[0]);
    dl_dtype to = n->out[0].type.dtype, from = m->k->instrs.at[v].type;
    if (dl_dtype_is_half(to) && (from != DL_F32 || is_pinned(m, n) || is_read_here(m, &n->out[0])))
        return rounded(m, v, to, n->loc);
    if (dl_kernel_type(to) == from) return v;
    return dl_maker_emit(m, (dl_kinstr){.kind = DL_K_ELEM,
                                        .op = n->op,
                                        .type = dl_kernel_type(to),
                                        .nargs = 1,
                                        .args = {v},
                                        .loc = n->loc});
}

/* An operand of a comparison must equal the value that other kernels read: it is rounded. */
static int compared(dl_maker *m, dl_value *v) {
    int at = dl_maker_read(m, v);
    bool computed = m->k->instrs.at[at].kind != DL_K_CONST;
    return dl_dtype_is_half(v->type.dtype) && computed
               ? rounded(m, at, v->type.dtype, m->k->instrs.at[at].loc)
               : at;
}

/* Can the compiler contract this sum with a product into an FMA? If the kernel has no such
 * product, no_contract has no effect and is not set, so that kernels stay alike. */
static bool takes_product(const dl_kernel *k, const dl_kinstr *sum) {
    for (int i = 0; i < sum->nargs; i++) {
        const dl_kinstr *at = &k->instrs.at[sum->args[i]];
        while (at->kind == DL_K_ELEM && dl_op_forwards_product(at->op))
            at = &k->instrs.at[at->args[0]];
        if (at->kind == DL_K_ELEM && dl_op_may_contract(at->op)) return true;
    }
    return false;
}

int dl_maker_compute(dl_maker *m, const dl_node *n) {
    if (n->op == DL_OP_cast) return cast(m, n);
    if (n->op == DL_OP_gather) return gather(m, n);
    if (dl_op_move(n->op) == DL_MOVE_SCATTER)
        return dl_maker_read(m, n->in[1]), dl_maker_read(m, n->in[0]);
    if (dl_ops[n->op].class == DL_CLASS_CONTRACT) return contract(m, n);
    if (n->op == DL_OP_cat) return cat(m, n);
    if (n->op == DL_OP_relayout) return dl_maker_read(m, n->in[0]);
    if (dl_ops[n->op].class == DL_CLASS_SOURCE ||
        dl_ops[n->op].class == DL_CLASS_MOVE) { /* a stored view */
        dl_index index[DL_MAX_RANK] = {0};
        dl_maker_identity(m, &n->out[0].type, index);
        if (dl_ops[n->op].class == DL_CLASS_SOURCE) return source(m, n, index);
        DL_CHECK(dl_fuse_through_view(m->k->space, n, index));
        return read_at(m, n->in[0], index);
    }
    dl_kinstr e = {.kind = DL_K_ELEM,
                   .op = n->op,
                   .type = dl_kernel_type(n->out[0].type.dtype),
                   .nargs = n->nin,
                   .loc = n->loc};
    if (dl_ops[n->op].class == DL_CLASS_REDUCE) {
        e.kind = DL_K_REDUCE;
        const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
        for (int i = 0; i < over->n; i++) e.over |= 1u << space_axis(m, over->names[i]);
    }
    if (dl_ops[n->op].nattrs == 1 && dl_attrs[dl_ops[n->op].attrs[0]].kind == DL_KIND_FLOAT)
        e.p = dl_node_float(n, dl_ops[n->op].attrs[0]);
    for (int i = 0; i < n->nin; i++)
        e.args[i] =
            (dl_op_curve(n->op) == DL_CURVE_COMPARE ? compared : dl_maker_read)(m, n->in[i]);
    e.no_contract = is_pinned(m, n) && dl_op_is_sum(n->op) && dl_dtype_is_float(e.type) &&
                    takes_product(m->k, &e);
    int made = dl_maker_emit(m, e);
    return is_rounded_here(m, n) ? rounded(m, made, n->out[0].type.dtype, n->loc) : made;
}

/* Fusion, second half: the kernel of a group of nodes (ir/kernel.h says what a kernel is). */
#include <stdlib.h>

#include "passes/fuse.h"

typedef struct {
    int instr, section; /* section 0: points of the full space; 1: behind the reductions */
    const dl_value *value;
    dl_index index[DL_MAX_RANK];
} loaded;

typedef struct {
    dl_fusion *f;
    const dl_group *group;
    dl_kernel *k;
    DL_ARRAY(dl_value *) operands; /* of the fused node, one an input parameter */
    DL_ARRAY(loaded) loads;
    int section;
} maker;

static int emit(maker *m, dl_kinstr i) {
    dl_push(m->f->graph->module->arena, &m->k->instrs, i);
    return m->k->instrs.n - 1;
}

static int param_of(maker *m, dl_value *v) {
    for (int i = 0; i < m->operands.n; i++)
        if (m->operands.at[i] == v) return i;
    dl_push(m->f->ctx->arena, &m->operands, v);
    dl_push(m->f->graph->module->arena, &m->k->params,
            (dl_kparam){.name = dl_internf("i%d", m->operands.n - 1), .type = v->type, .alias = -1});
    return m->operands.n - 1;
}

static int space_axis(const maker *m, const char *name) {
    for (int i = 0; i < m->k->nspace; i++)
        if (m->k->space[i].name == name) return i;
    return -1;
}

/* Each axis of `t` follows the space axis of its name; one without a name has size 1 and follows none. */
static void identity(const maker *m, const dl_type *t, dl_index *index) {
    for (int i = 0; i < t->rank; i++) {
        index[i] = (dl_index){.axis = *t->axis[i].name ? space_axis(m, t->axis[i].name) : -1};
        DL_CHECK(index[i].axis >= 0 || t->axis[i].size == 1);
    }
}

/* An integer type that holds coordinates up to `most`. */
static dl_dtype count_type(int64_t most) { return most <= INT32_MAX ? DL_I32 : DL_I64; }

static int read_here(maker *m, dl_value *v);

/* Numbered by its own axes in order, whatever the order of the space. */
static int draw(maker *m, const dl_node *n, const dl_index *index) {
    const dl_type *t = &n->out[0].type;
    dl_kinstr in = {.kind = DL_K_RANDOM,
                    .op = n->op,
                    .type = t->dtype,
                    .nargs = 2,
                    .number = (int)dl_node_int(n, DL_ATTR_number),
                    .loc = n->loc};
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; step *= t->axis[i--].size) {
        in.first += index[i].offset * step;
        if (index[i].axis >= 0) in.along[index[i].axis] += step;
    }
    for (int i = 0; i < 2; i++) in.args[i] = read_here(m, n->in[i]);
    return emit(m, in);
}

static int source(maker *m, const dl_node *n, const dl_index *index) {
    dl_dtype type = n->out[0].type.dtype;
    if (n->op == DL_OP_random) return draw(m, n, index);
    if (n->op == DL_OP_const)
        return emit(
            m, (dl_kinstr){
                   .kind = DL_K_CONST, .type = type, .p = dl_node_float(n, DL_ATTR_value), .loc = n->loc});
    DL_CHECK(n->op == DL_OP_iota);
    dl_kinstr at = {.kind = DL_K_COORD, .type = type, .axis = index[0].axis, .loc = n->loc};
    dl_kinstr by = {.kind = DL_K_CONST, .type = type, .p = (double)index[0].offset, .loc = n->loc};
    if (at.axis < 0) return emit(m, by);
    if (!index[0].offset) return emit(m, at);
    /* Counted in integers: a float of each would not hold their sum. */
    at.type = by.type = count_type(m->k->space[at.axis].size + llabs(index[0].offset));
    dl_kinstr sum = {.kind = DL_K_ELEM, .op = DL_OP_add, .type = at.type, .nargs = 2, .loc = n->loc};
    sum.args[0] = emit(m, at), sum.args[1] = emit(m, by);
    int moved = emit(m, sum);
    if (type == sum.type) return moved;
    return emit(
        m,
        (dl_kinstr){
            .kind = DL_K_ELEM, .op = DL_OP_cast, .type = type, .nargs = 1, .args = {moved}, .loc = n->loc});
}

static int load(maker *m, dl_value *v, const dl_index *index) {
    dl_kinstr load = {.kind = DL_K_LOAD,
                      .type = v->type.dtype,
                      .param = param_of(m, v),
                      .loc = v->def ? v->def->loc : v->var->loc};
    memcpy(load.index, index, sizeof(dl_index) * (size_t)v->type.rank);
    for (int i = 0; i < v->type.rank; i++)
        if (load.index[i].outside == DL_OUT_ANY) load.index[i].outside = DL_OUT_ZERO;
    return emit(m, load);
}

/* The instruction that has value `v` at this point, read at `index` of its axes. What was read so before in
 * this section is not read again: between the reductions nothing may stand. */
static int read_at(maker *m, dl_value *v, dl_index *index) {
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
        const loaded *l = &m->loads.at[i];
        if (l->value == v && l->section == m->section &&
            !memcmp(l->index, index, sizeof(dl_index) * (size_t)v->type.rank))
            return l->instr;
    }
    loaded l = {.section = m->section, .value = v};
    l.instr = made ? source(m, v->def, index) : load(m, v, index);
    memcpy(l.index, index, sizeof l.index);
    dl_push(m->f->ctx->arena, &m->loads, l);
    return l.instr;
}

static int read_here(maker *m, dl_value *v) {
    dl_index index[DL_MAX_RANK] = {0};
    identity(m, &v->type, index);
    return read_at(m, v, index);
}

static int contract_names(maker *m, const dl_node *n) {
    dl_kinstr c = {
        .kind = DL_K_CONTRACT, .op = n->op, .type = n->out[0].type.dtype, .nparts = {1, 1}, .loc = n->loc};
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
    return emit(m, c);
}

static int contract(maker *m, const dl_node *n) {
    if (!dl_op_slides(n->op)) return contract_names(m, n);
    dl_kinstr c = {.kind = DL_K_CONTRACT,
                   .op = n->op,
                   .type = n->out[0].type.dtype,
                   .windows = dl_node_windows(n),
                   .loc = n->loc};
    for (int k = 0; k < 2; k++) {
        dl_value *parts[4];
        if (dl_op_tensor(n->op, k) == DL_TENSOR_W) {
            parts[0] = dl_fuse_weight(n, k, &c.w_start);
            c.nparts[k] = 1;
        } else {
            c.nparts[k] = dl_fuse_parts(n, k, parts);
        }
        for (int p = 0; p < c.nparts[k]; p++) c.parts[k][p] = param_of(m, parts[p]);
    }
    return emit(m, c);
}

/* cat: the part whose range along the axis holds this point. */
static int cat(maker *m, const dl_node *n) {
    int axis = dl_type_axis(&n->out[0].type, dl_node_name(n, DL_ATTR_axis)), result = -1;
    dl_dtype type = n->out[0].type.dtype, count = count_type(n->out[0].type.axis[axis].size);
    int64_t start = 0;
    for (int p = 0; p < n->nin; p++) {
        dl_index index[DL_MAX_RANK] = {0};
        identity(m, &n->out[0].type, index);
        int64_t size = dl_fuse_part_index(n, p, start, index);
        int part = read_at(m, n->in[p], index);
        if (result >= 0) {
            int at = emit(m, (dl_kinstr){.kind = DL_K_COORD,
                                         .type = count,
                                         .axis = space_axis(m, n->out[0].type.axis[axis].name),
                                         .loc = n->loc});
            int from =
                emit(m, (dl_kinstr){.kind = DL_K_CONST, .type = count, .p = (double)start, .loc = n->loc});
            int here = emit(m, (dl_kinstr){.kind = DL_K_ELEM,
                                           .op = DL_OP_ge,
                                           .type = DL_BOOL,
                                           .nargs = 2,
                                           .args = {at, from},
                                           .loc = n->loc});
            part = emit(m, (dl_kinstr){.kind = DL_K_ELEM,
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

/* The indices of `t`, along whose axis the numbers of n go: by value there, elsewhere the space axis of the
 * name. */
static void by_number(const maker *m, const dl_node *n, const dl_type *t, int number, dl_outside outside,
                      dl_index *index) {
    const char *axis = dl_node_name(n, DL_ATTR_axis);
    for (int i = 0; i < t->rank; i++) {
        const char *name = t->axis[i].name;
        index[i] = name == axis ? (dl_index){.axis = -1, .by = number + 1, .outside = outside}
                                : (dl_index){.axis = *name ? space_axis(m, name) : -1};
    }
}

static int gather(maker *m, const dl_node *n) {
    dl_index index[DL_MAX_RANK] = {0};
    by_number(m, n, &n->in[0]->type, read_here(m, n->in[1]), dl_outside_of_gather(n->in[0]->type.dtype),
              index);
    return load(m, n->in[0], index);
}

static int compute(maker *m, const dl_node *n) {
    if (n->op == DL_OP_gather) return gather(m, n);
    if (n->op == DL_OP_scatter_add) return read_here(m, n->in[1]), read_here(m, n->in[0]);
    if (dl_ops[n->op].class == DL_CLASS_CONTRACT) return contract(m, n);
    if (n->op == DL_OP_cat) return cat(m, n);
    if (n->op == DL_OP_relayout) return read_here(m, n->in[0]);
    if (dl_ops[n->op].class == DL_CLASS_SOURCE || dl_ops[n->op].class == DL_CLASS_MOVE) { /* a stored view */
        dl_index index[DL_MAX_RANK] = {0};
        identity(m, &n->out[0].type, index);
        if (dl_ops[n->op].class == DL_CLASS_SOURCE) return source(m, n, index);
        DL_CHECK(dl_fuse_through_view(m->k->space, n, index));
        return read_at(m, n->in[0], index);
    }
    dl_kinstr e = {
        .kind = DL_K_ELEM, .op = n->op, .type = n->out[0].type.dtype, .nargs = n->nin, .loc = n->loc};
    if (dl_ops[n->op].class == DL_CLASS_REDUCE) {
        e.kind = DL_K_REDUCE;
        const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
        for (int i = 0; i < over->n; i++) e.over |= 1u << space_axis(m, over->names[i]);
    }
    if (dl_ops[n->op].nattrs == 1 && dl_attrs[dl_ops[n->op].attrs[0]].kind == DL_KIND_FLOAT)
        e.p = dl_node_float(n, dl_ops[n->op].attrs[0]);
    for (int i = 0; i < n->nin; i++) e.args[i] = read_here(m, n->in[i]);
    return emit(m, e);
}

static bool is_behind(const maker *m,
                      const dl_node *n) { /* a member of the reduced part that is no reduction */
    return m->group->reduce && dl_ops[n->op].class != DL_CLASS_REDUCE && n->out[0].type.rank < m->k->nspace;
}

/* Members of one part: 0 the full space, 1 the reductions, 2 behind them. A contraction comes first. */
static void compute_part(maker *m, int part) {
    dl_graph *g = m->f->graph;
    m->section = part == 2;
    for (int first = 1; first >= 0; first--)
        for (int i = 0; i < m->group->members.n; i++) {
            int at = m->group->members.at[i];
            const dl_node *n = g->nodes.at[at];
            int of = dl_ops[n->op].class == DL_CLASS_REDUCE ? 1 : is_behind(m, n) ? 2 : 0;
            if (of == part && (dl_ops[n->op].class == DL_CLASS_CONTRACT) == first)
                m->f->instr[at] = compute(m, n);
        }
}

/* What the reductions combine is read at every point, so in front of the first of them. */
static void read_reduced(maker *m) {
    for (int i = 0; i < m->group->members.n; i++) {
        const dl_node *n = m->f->graph->nodes.at[m->group->members.at[i]];
        if (dl_ops[n->op].class == DL_CLASS_REDUCE) read_here(m, n->in[0]);
    }
}

static void store(maker *m, dl_value *v, int part) {
    const dl_node *n = v->def;
    int of = dl_ops[n->op].class == DL_CLASS_REDUCE || is_behind(m, n) ? 2 : 0;
    if (of != part) return;
    dl_kinstr s = {.kind = DL_K_STORE,
                   .type = v->type.dtype,
                   .nargs = 1,
                   .args = {m->f->instr[m->f->position[v->id]]},
                   .loc = n->loc};
    if (n->op == DL_OP_scatter_add)
        by_number(m, n, &v->type, read_here(m, n->in[1]), DL_OUT_ZERO, s.index);
    else
        identity(m, &v->type, s.index);
    s.param = -1 - (int)v->id; /* outputs follow the inputs: numbered at the end */
    emit(m, s);
}

/* The input whose memory output `v` may take: the variable that it updates. What stands behind the reductions
 * runs when all points are done, so only reads in the output's own part matter: they must be at the point
 * that is written. */
static int find_alias(const maker *m, const dl_value *v, bool behind) {
    const dl_var *var = m->f->next_of[v->id];
    const dl_value *old = var ? &var->value : NULL;
    int reduce_at = m->k->instrs.n, p = 0;
    for (int i = m->k->instrs.n - 1; i >= 0; i--)
        if (m->k->instrs.at[i].kind == DL_K_REDUCE) reduce_at = i;
    while (p < m->operands.n && m->operands.at[p] != old) p++;
    if (!old || p == m->operands.n) return -1;
    dl_index here[DL_MAX_RANK] = {0};
    identity(m, &old->type, here);
    for (int i = 0; i < m->k->instrs.n; i++) {
        const dl_kinstr *in = &m->k->instrs.at[i];
        if (in->kind == DL_K_CONTRACT && !behind)
            for (int k = 0; k < 2; k++)
                for (int q = 0; q < in->nparts[k]; q++)
                    if (in->parts[k][q] == p) return -1;
        if (in->kind != DL_K_LOAD || in->param != p) continue;
        if (i > reduce_at && !behind) return -1;
        if ((i > reduce_at) == behind && memcmp(here, in->index, sizeof(dl_index) * (size_t)old->type.rank))
            return -1;
    }
    return p;
}

static void add_location(maker *m, dl_loc loc) {
    if (!loc.line) return;
    for (int i = 0; i < m->k->locs.n; i++)
        if (m->k->locs.at[i].line == loc.line && m->k->locs.at[i].file == loc.file) return;
    dl_push(m->f->graph->module->arena, &m->k->locs, loc);
}

dl_node *dl_fuse_build(dl_fusion *f, dl_group *group, int nouts, dl_value *const *outs, const char *name) {
    dl_arena *arena = f->graph->module->arena;
    dl_kernel *k = DL_NEW(arena, dl_kernel);
    k->name = name;
    k->nspace = group->space.rank;
    for (int i = 0; i < k->nspace; i++) k->space[i] = group->space.axis[i];
    maker m = {.f = f, .group = group, .k = k};
    for (int part = 0; part < 3; part++) {
        compute_part(&m, part);
        if (part == 0) read_reduced(&m);
        for (int i = 0; i < nouts; i++) store(&m, outs[i], part);
    }

    k->nin = m.operands.n;
    dl_type *types = DL_NEWS(f->ctx->arena, dl_type, nouts + 1);
    for (int i = 0; i < nouts; i++) {
        types[i] = outs[i]->type;
        dl_kparam p = {.name = dl_internf("o%d", i), .type = outs[i]->type, .is_out = true};
        bool behind = dl_ops[outs[i]->def->op].class == DL_CLASS_REDUCE || is_behind(&m, outs[i]->def);
        p.alias = find_alias(&m, outs[i], behind);
        dl_push(arena, &k->params, p);
        for (int j = 0; j < k->instrs.n; j++)
            if (k->instrs.at[j].kind == DL_K_STORE && k->instrs.at[j].param == -1 - (int)outs[i]->id)
                k->instrs.at[j].param = k->nin + i;
    }
    for (int i = 0; i < group->members.n; i++) {
        const dl_node *n = f->graph->nodes.at[group->members.at[i]];
        add_location(&m, n->loc);
        k->bytes_unfused += dl_type_bytes(&n->out[0].type);
        for (int j = 0; j < n->nin; j++) k->bytes_unfused += dl_type_bytes(&n->in[j]->type);
    }
    dl_kernel_count(k);
    for (int i = 0; i < group->members.n; i++) f->instr[group->members.at[i]] = -1;

    dl_loc loc = f->graph->nodes.at[group->members.at[group->members.n - 1]]->loc;
    uint32_t next = f->graph->next_id;
    dl_node *fused = dl_node_new(f->graph, DL_OP_fused, k->nin, m.operands.at, nouts, types, loc);
    f->graph->next_id = next;
    for (int i = 0; i < nouts; i++) fused->out[i].id = outs[i]->id; /* value numbers survive */
    fused->kernel = k;
    return fused;
}

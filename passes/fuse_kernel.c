/* Fusion, second half: the kernel of a group of nodes (ir/kernel.h says what a kernel is). */
#include <stdlib.h>

#include "ir/sweep.h"
#include "passes/fuse.h"

typedef struct {
    int instr;
    const dl_value *value;
    const dl_index *index;
} loaded;

typedef struct {
    dl_fusion *f;
    dl_arena *scratch; /* of this kernel */
    const dl_group *group;
    dl_kernel *k;
    DL_ARRAY(dl_value *) operands; /* of the fused node, one an input parameter */
    DL_ARRAY(loaded) loads;
    int *level;        /* by member: how many reductions of the group, one behind the other, it waits for */
    bool sweeps_again; /* later sweeps over the points may read back what earlier ones have stored */
} maker;

static int emit(maker *m, dl_kinstr i) {
    dl_push(m->scratch, &m->k->instrs, i);
    return m->k->instrs.n - 1;
}

static int param_of(maker *m, dl_value *v) {
    for (int i = 0; i < m->operands.n; i++)
        if (m->operands.at[i] == v) return i;
    dl_push(m->scratch, &m->operands, v);
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
    for (int i = 0; i < n->nin; i++) in.args[i] = read_here(m, n->in[i]);
    return emit(m, in);
}

static int source(maker *m, const dl_node *n, const dl_index *index) {
    dl_dtype type = dl_kernel_type(n->out[0].type.dtype);
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

static dl_index *new_index(const maker *m, const dl_type *t) {
    return DL_NEWS(m->f->graph->module->arena, dl_index, t->rank);
}

static int load(maker *m, dl_value *v, const dl_index *index) {
    dl_kinstr load = {.kind = DL_K_LOAD,
                      .type = dl_kernel_type(v->type.dtype),
                      .param = param_of(m, v),
                      .loc = v->def ? v->def->loc : v->var->loc};
    load.index = new_index(m, &v->type);
    memcpy(load.index, index, sizeof(dl_index) * (size_t)v->type.rank);
    for (int i = 0; i < v->type.rank; i++)
        if (load.index[i].outside == DL_OUT_ANY) load.index[i].outside = DL_OUT_ZERO;
    return emit(m, load);
}

/* The instruction that has value `v` at this point, read at `index` of its axes. What was read so before is
 * not read again. */
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
        if (l->value == v && !memcmp(l->index, index, sizeof(dl_index) * (size_t)v->type.rank))
            return l->instr;
    }
    loaded l = {.value = v};
    l.instr = made ? source(m, v->def, index) : load(m, v, index);
    l.index =
        memcpy(DL_NEWS(m->scratch, dl_index, v->type.rank), index, sizeof(dl_index) * (size_t)v->type.rank);
    dl_push(m->scratch, &m->loads, l);
    return l.instr;
}

static int read_here(maker *m, dl_value *v) {
    dl_index index[DL_MAX_RANK] = {0};
    identity(m, &v->type, index);
    return read_at(m, v, index);
}

/* Are there operands of f32, beside which the other type has no more digits than TF32? */
static bool rounds_to_tf32(const maker *m, const dl_node *n) {
    bool any = false, all = true;
    for (int k = 0; k < 2; k++) {
        any |= n->in[k]->type.dtype == DL_F32;
        all = all && dl_kernel_type(n->in[k]->type.dtype) == DL_F32;
    }
    return m->f->ctx->tf32 && any && all;
}

static int contract_names(maker *m, const dl_node *n) {
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
    return emit(m, c);
}

static int contract(maker *m, const dl_node *n) {
    if (!dl_op_slides(n->op)) return contract_names(m, n);
    dl_kinstr c = {.kind = DL_K_CONTRACT,
                   .op = n->op,
                   .type = dl_kernel_type(n->out[0].type.dtype),
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
    c.tf32 = rounds_to_tf32(m, n);
    return emit(m, c);
}

/* cat: the part whose range along the axis holds this point. */
static int cat(maker *m, const dl_node *n) {
    int axis = dl_type_axis(&n->out[0].type, dl_node_name(n, DL_ATTR_axis)), result = -1;
    dl_dtype type = dl_kernel_type(n->out[0].type.dtype), count = count_type(n->out[0].type.axis[axis].size);
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

/* Rounded to 16 bits, and held as what all is computed in. */
static int rounded(maker *m, int value, dl_dtype type, dl_loc loc) {
    if (dl_kernel_holds(m->k, value, type)) return value;
    dl_kinstr in = {
        .kind = DL_K_ELEM, .op = DL_OP_cast, .type = type, .nargs = 1, .args = {value}, .loc = loc};
    in.args[0] = emit(m, in);
    in.type = dl_kernel_type(type);
    return emit(m, in);
}

static bool is_read_here(const maker *m, const dl_value *v) {
    const dl_edges *out = &m->f->out[m->f->position[v->id]];
    for (int i = 0; i < out->n; i++)
        if (dl_fuse_member(m->f, m->group, &m->f->graph->nodes.at[out->at[i].node]->out[0]) >= 0) return true;
    return false;
}

static bool is_held(const maker *m, const dl_node *n) { return m->f->held[m->f->position[n->out[0].id]]; }

/* Is its value 16 bits that are rounded as they are made, so that they are what memory has? */
static bool is_rounded_here(const maker *m, const dl_node *n) {
    int at = m->f->position[n->out[0].id];
    bool stored = m->f->kept[at] || m->f->wanted[n->out[0].id];
    return dl_dtype_is_half(n->out[0].type.dtype) &&
           (is_held(m, n) || (m->sweeps_again && stored && is_read_here(m, &n->out[0])));
}

/* Between f32 and 16 bits a cast does nothing where the store rounds, or the load has. */
static int cast(maker *m, const dl_node *n) {
    int v = read_here(m, n->in[0]);
    dl_dtype to = n->out[0].type.dtype, from = m->k->instrs.at[v].type;
    if (dl_dtype_is_half(to) && (from != DL_F32 || is_held(m, n) || is_read_here(m, &n->out[0])))
        return rounded(m, v, to, n->loc);
    if (dl_kernel_type(to) == from) return v;
    return emit(m, (dl_kinstr){.kind = DL_K_ELEM,
                               .op = n->op,
                               .type = dl_kernel_type(to),
                               .nargs = 1,
                               .args = {v},
                               .loc = n->loc});
}

/* An operand of a comparison is what other kernels read of it: rounded. */
static int compared(maker *m, dl_value *v) {
    int at = read_here(m, v);
    bool computed = m->k->instrs.at[at].kind != DL_K_CONST;
    return dl_dtype_is_half(v->type.dtype) && computed
               ? rounded(m, at, v->type.dtype, m->k->instrs.at[at].loc)
               : at;
}

static int compute(maker *m, const dl_node *n) {
    if (n->op == DL_OP_cast) return cast(m, n);
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
        e.args[i] = (dl_fuse_compares(n->op) ? compared : read_here)(m, n->in[i]);
    e.apart = is_held(m, n) && (n->op == DL_OP_add || n->op == DL_OP_sub) && dl_dtype_is_float(e.type);
    int made = emit(m, e);
    return is_rounded_here(m, n) ? rounded(m, made, n->out[0].type.dtype, n->loc) : made;
}

static const dl_node *member(const maker *m, int i) { return m->f->graph->nodes.at[m->group->members.at[i]]; }

static bool is_reduction(const dl_node *n) { return dl_ops[n->op].class == DL_CLASS_REDUCE; }

/* Fills level; returns the highest of a value. What has fewer axes than the space comes when it is needed. */
static int find_levels(maker *m) {
    int most = 0;
    m->level = DL_NEWS(m->scratch, int, m->group->members.n + 1);
    for (int i = 0; i < m->group->members.n; i++) {
        const dl_node *n = member(m, i);
        for (int k = 0; k < n->nin; k++) {
            int of = dl_fuse_member(m->f, m->group, n->in[k]);
            if (of < 0) continue;
            int level = m->level[of] + is_reduction(member(m, of));
            if (level > m->level[i]) m->level[i] = level;
        }
        int value = m->level[i] + is_reduction(n);
        if (value > most) most = value;
    }
    int *latest = DL_NEWS(m->scratch, int, m->group->members.n + 1); /* at which it is needed */
    for (int i = m->group->members.n - 1; i >= 0; i--) {
        const dl_node *n = member(m, i);
        bool early = is_reduction(n) || n->out[0].type.rank >= m->k->nspace;
        if (!early) m->level[i] = most - latest[i];
        for (int k = 0; k < n->nin; k++) {
            int of = dl_fuse_member(m->f, m->group, n->in[k]);
            if (of >= 0 && most - m->level[i] > latest[of]) latest[of] = most - m->level[i];
        }
    }
    return most;
}

static void store(maker *m, dl_value *v) {
    dl_kinstr s = {.kind = DL_K_STORE,
                   .type = v->type.dtype,
                   .nargs = 1,
                   .args = {m->f->instr[m->f->position[v->id]]},
                   .index = new_index(m, &v->type),
                   .loc = v->def->loc};
    if (v->def->op == DL_OP_scatter_add)
        by_number(m, v->def, &v->type, read_here(m, v->def->in[1]), DL_OUT_ZERO, s.index);
    else
        identity(m, &v->type, s.index);
    s.param = -1 - (int)v->id; /* outputs follow the inputs: numbered at the end */
    emit(m, s);
}

/* Members of one level: those that are no reductions, a contraction first; what the reductions combine; what
 * is stored by now; the reductions. */
static void compute_level(maker *m, int level, int nouts, dl_value *const *outs) {
    for (int first = 1; first >= 0; first--)
        for (int i = 0; i < m->group->members.n; i++) {
            const dl_node *n = member(m, i);
            if (m->level[i] == level && !is_reduction(n) &&
                (dl_ops[n->op].class == DL_CLASS_CONTRACT) == first)
                m->f->instr[m->group->members.at[i]] = compute(m, n);
        }
    for (int i = 0; i < m->group->members.n; i++)
        if (m->level[i] == level && is_reduction(member(m, i))) read_here(m, member(m, i)->in[0]);
    for (int i = 0; i < nouts; i++) {
        int at = dl_fuse_member(m->f, m->group, outs[i]);
        if (m->level[at] + is_reduction(outs[i]->def) == level) store(m, outs[i]);
    }
    for (int i = 0; i < m->group->members.n; i++)
        if (m->level[i] == level && is_reduction(member(m, i)))
            m->f->instr[m->group->members.at[i]] = compute(m, member(m, i));
}

/* Does a sweep that reads parameter p leave it to the store at instruction `at` to write there? It does where
 * it runs in an earlier phase, or is the store's own and reads no other point. */
static bool leaves_place(const maker *m, const dl_sweeps *sweeps, int at, int p, const dl_index *here) {
    const dl_sweep *writer = NULL;
    for (int s = 0; s < sweeps->n; s++)
        for (int i = 0; i < sweeps->at[s].run.n; i++)
            if (sweeps->at[s].run.at[i] == at) writer = &sweeps->at[s];
    for (int s = 0; s < sweeps->n; s++) {
        const dl_sweep *w = &sweeps->at[s];
        int phase = 2 * w->stage + !w->behind, limit = 2 * writer->stage + !writer->behind;
        for (int i = 0; i < w->run.n && phase >= limit; i++) {
            const dl_kinstr *in = &m->k->instrs.at[w->run.at[i]];
            if (in->kind == DL_K_CONTRACT)
                for (int k = 0; k < 2; k++)
                    for (int q = 0; q < in->nparts[k]; q++)
                        if (in->parts[k][q] == p) return false;
            if (in->kind != DL_K_LOAD || in->param != p) continue;
            int rank = m->k->params.at[p].type.rank;
            if (w != writer || w->run.at[i] > at || memcmp(here, in->index, sizeof(dl_index) * (size_t)rank))
                return false;
        }
    }
    return true;
}

/* The input whose memory output `v` may take, or -1: the variable that it updates. */
static int find_alias(const maker *m, const dl_value *v, int nout) {
    const dl_var *var = m->f->next_of[v->id];
    const dl_value *old = var ? &var->value : NULL;
    dl_kernel *k = m->k;
    int p = 0, at = 0;
    while (p < m->operands.n && m->operands.at[p] != old) p++;
    if (!old || p == m->operands.n) return -1;
    while (k->instrs.at[at].kind != DL_K_STORE || k->instrs.at[at].param != nout) at++;
    dl_index here[DL_MAX_RANK] = {0};
    identity(m, &old->type, here);
    const dl_step *steps = dl_kernel_steps(k, m->scratch);
    unsigned rows[] = {0, 0};
    if (!m->group->anchor)
        rows[1] = dl_choose_row(m->scratch, k->instrs.n, steps, k->nspace, k->space, dl_kernel_inner(k));
    for (int i = 0; i < 2; i++) {
        dl_sweeps s = dl_find_sweeps(m->scratch, k->instrs.n, steps, rows[i]);
        if (!leaves_place(m, &s, at, p, here)) return -1;
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
    maker m = {.f = f, .scratch = dl_arena_new(NULL), .group = group, .k = k};
    m.sweeps_again = dl_fuse_times(f, (int)(group - f->groups.at), 0, NULL) > 1;
    for (int level = 0, most = find_levels(&m); level <= most; level++) compute_level(&m, level, nouts, outs);

    k->nin = m.operands.n;
    dl_type *types = DL_NEWS(m.scratch, dl_type, nouts + 1);
    for (int i = 0; i < nouts; i++) {
        types[i] = outs[i]->type;
        dl_kparam p = {.name = dl_internf("o%d", i), .type = outs[i]->type, .is_out = true, .alias = -1};
        dl_push(arena, &k->params, p);
        for (int j = 0; j < k->instrs.n; j++)
            if (k->instrs.at[j].kind == DL_K_STORE && k->instrs.at[j].param == -1 - (int)outs[i]->id)
                k->instrs.at[j].param = k->nin + i;
    }
    for (int i = 0; i < nouts; i++) k->params.at[k->nin + i].alias = find_alias(&m, outs[i], k->nin + i);
    for (int i = 0; i < group->members.n; i++) {
        const dl_node *n = f->graph->nodes.at[group->members.at[i]];
        add_location(&m, n->loc);
        if (&f->groups.at[f->group[group->members.at[i]]] != group) continue; /* computed again */
        k->bytes_unfused += dl_type_bytes(&n->out[0].type);
        for (int j = 0; j < n->nin; j++) k->bytes_unfused += dl_type_bytes(&n->in[j]->type);
    }
    for (int i = 0; i < k->instrs.n && !k->locs.n; i++) /* a stored view of nobody's: what it looks at */
        add_location(&m, k->instrs.at[i].loc);
    dl_kinstr *kept = DL_NEWS(arena, dl_kinstr, k->instrs.n + 1);
    memcpy(kept, k->instrs.at, sizeof *kept * (size_t)k->instrs.n);
    k->instrs.at = kept, k->instrs.cap = k->instrs.n + 1;
    dl_kernel_count(k);
    for (int i = 0; i < group->members.n; i++) f->instr[group->members.at[i]] = -1;

    dl_loc loc = f->graph->nodes.at[group->members.at[group->members.n - 1]]->loc;
    uint32_t next = f->graph->next_id;
    dl_node *fused = dl_node_new(f->graph, DL_OP_fused, k->nin, m.operands.at, nouts, types, loc);
    f->graph->next_id = next;
    for (int i = 0; i < nouts; i++) fused->out[i].id = outs[i]->id; /* value numbers survive */
    fused->kernel = k;
    dl_arena_free(m.scratch);
    return fused;
}

/* shard: rewrites graphs of whole tensors into those of one rank. For each node, the placements of
 * its operands and the desired ones (shard_specs.c) choose how the node computes. Its operands are
 * converted to the placements that this takes, and its result's placement follows (shard.h). A
 * node without a rule computes on whole tensors, on every rank. */
#include "passes/parallel/shard.h"
#include "ir/attention.h"

typedef struct form form;
/* A value converted to another placement, shared by all readers that need it so. */
struct form {
    dl_value *v;
    dl_placement placement;
    int group;
    form *next;
};

typedef struct {
    dl_placement placement[DL_NSHARDS];
    dl_value *now; /* the replacement that readers read: the sum over all ranks */
    form *forms;
} entry;

typedef struct {
    dl_builder b;
    const dl_parallel *parallel;
    dl_shard_specs specs;
    dl_type *type; /* by value id: its original type */
    dl_arena *arena;
    DL_ARRAY(entry) of; /* by value id */
} sharder;

static entry *entry_of(sharder *s, const dl_value *v) {
    while (s->of.n <= (int)v->id) dl_push(s->arena, &s->of, (entry){0});
    return &s->of.at[v->id];
}

static bool is_piece(sharder *s, const dl_value *v, int group) {
    return entry_of(s, v)->placement[group].kind == DL_PLACE_SHARD;
}

static int64_t size_along(const dl_value *v, const char *axis) {
    return v->type.axis[dl_type_axis(&v->type, axis)].size;
}

static dl_share share_of(const sharder *s, int group, int64_t size) {
    return dl_share_of(size, dl_shard_ranks(s->parallel, group), dl_shard_rank(s->parallel, group));
}

/* The number of `size` elements that this rank has. */
static int64_t own_size(const sharder *s, int group, dl_sharding along, int64_t size) {
    return share_of(s, group, size / along.parts).n * along.parts;
}

/* ---- conversions between placements ---- */

/* The placements of v, with another one for this group. */
static dl_value *with_placement(sharder *s, dl_value *made, const dl_value *v, int group,
                                dl_placement placement) {
    entry from = *entry_of(s, v), *to = entry_of(s, made);
    memcpy(to->placement, from.placement, sizeof to->placement);
    to->placement[group] = placement;
    return made;
}

static dl_attr group_attr(int group) { return dl_attr_name(DL_ATTR_group, dl_shard_groups[group]); }
static dl_attr ranks_attr(const sharder *s, int group) {
    return dl_attr_int(DL_ATTR_ranks, dl_shard_ranks(s->parallel, group));
}

/* v with its parts along an axis of their own; unite is the inverse. */
static dl_value *part(sharder *s, dl_value *v, dl_sharding along) {
    dl_type t = dl_scalar(v->type.dtype);
    if (along.parts == 1) return v;
    for (int i = 0; i < v->type.rank; i++) {
        dl_axis a = v->type.axis[i];
        if (a.name == along.axis)
            dl_type_push(&t, dl_intern("part'"), along.parts), a.size /= along.parts;
        dl_type_push(&t, a.name, a.size);
    }
    return dl_build_as(&s->b, DL_OP_reshape, 1, &v, 0, NULL, t);
}

static dl_value *unite(sharder *s, dl_value *v, dl_sharding along) {
    dl_type t = dl_scalar(v->type.dtype);
    if (along.parts == 1) return v;
    for (int i = 0; i < v->type.rank; i++) {
        dl_axis a = v->type.axis[i];
        if (a.name == along.axis) t.rank--, a.size *= along.parts;
        dl_type_push(&t, a.name, a.size);
    }
    return dl_build_as(&s->b, DL_OP_reshape, 1, &v, 0, NULL, t);
}

static dl_value *build_gather(sharder *s, dl_value *v, int group, dl_placement own, bool alike) {
    int64_t each = own.size / own.along.parts;
    dl_attr at[] = {dl_attr_name(DL_ATTR_axis, own.along.axis),
                    dl_attr_ints(DL_ATTR_size, 1, &each),
                    group_attr(group),
                    ranks_attr(s, group),
                    dl_attr_int(DL_ATTR_rank, dl_shard_rank(s->parallel, group)),
                    dl_attr_int(DL_ATTR_alike, 1)};
    v = part(s, v, own.along);
    return unite(s, dl_build(&s->b, DL_OP_all_gather, 1, &v, alike ? 6 : 5, at), own.along);
}

static dl_value *build_slice(sharder *s, dl_value *v, int group, dl_sharding along) {
    dl_var_cut cut = {.ranks = dl_shard_ranks(s->parallel, group),
                      .rank = dl_shard_rank(s->parallel, group),
                      .parts = 1,
                      .size = size_along(v, along.axis) / along.parts};
    v = part(s, v, along);
    cut.axis = dl_type_axis(&v->type, along.axis);
    return unite(s, dl_build_share(&s->b, v, &cut), along);
}

static dl_value *convert(sharder *s, dl_value *v, int group, dl_placement to);

static dl_value *build_conversion(sharder *s, dl_value *v, int group, dl_placement to) {
    dl_placement own = entry_of(s, v)->placement[group], part = {.kind = DL_PLACE_PARTIAL_GRAD};
    dl_attr enter[] = {group_attr(group), ranks_attr(s, group)};
    dl_attr share = dl_attr_float(DL_ATTR_value, 1.0 / dl_shard_ranks(s->parallel, group));
    if (to.kind == DL_PLACE_SHARD)
        return own.kind == DL_PLACE_SHARD || own.kind == DL_PLACE_REPLICATE
                   ? convert(s, convert(s, v, group, part), group, to)
                   : build_slice(s, v, group, to.along);
    if (own.kind == DL_PLACE_SHARD)
        return build_gather(s, v, group, own, to.kind == DL_PLACE_REPLICATE);
    if (to.kind == DL_PLACE_PARTIAL_GRAD) return dl_build(&s->b, DL_OP_enter, 1, &v, 2, enter);
    return dl_build(&s->b, DL_OP_scale_gradient, 1, &v, 1, &share);
}

/* v in another placement. A value without a gradient stays as it is. */
static dl_value *convert(sharder *s, dl_value *v, int group, dl_placement to) {
    dl_placement own = entry_of(s, v)->placement[group];
    bool same = own.kind == to.kind &&
                (own.kind != DL_PLACE_SHARD || dl_sharding_same(own.along, to.along));
    if (same || (own.kind == DL_PLACE_CONSTANT && to.kind != DL_PLACE_SHARD)) return v;
    for (const form *f = entry_of(s, v)->forms; f; f = f->next)
        if (f->group == group && f->placement.kind == to.kind &&
            dl_sharding_same(f->placement.along, to.along))
            return f->v;
    if (to.kind == DL_PLACE_SHARD)
        to.size = own.kind == DL_PLACE_SHARD ? 0 : size_along(v, to.along.axis);
    dl_value *made = build_conversion(s, v, group, to);
    if (to.kind == DL_PLACE_SHARD && own.kind == DL_PLACE_SHARD)
        return made; /* in two steps, by way of the whole tensor */
    form *f = DL_NEW(s->arena, form);
    *f = (form){made, to, group, entry_of(s, v)->forms};
    entry_of(s, v)->forms = f;
    return with_placement(s, made, v, group, to);
}

/* ---- one node ---- */

/* How a node computes for one group of ranks. */
typedef struct {
    dl_sharding along; /* the result is sharded along this axis; or no axis */
    int sums;          /* otherwise, the operand whose shards are summed over; -1: none */
    dl_sharding over, over_other; /* the axes of that sum, of this operand and of the other one */
} mode;

/* The original node, with whole operands and results. */
static dl_node original_of(sharder *s, const dl_node *n) {
    dl_node w = *n;
    w.in = DL_NEWS(s->arena, dl_value *, n->nin + 1), w.out = DL_NEWS(s->arena, dl_value, n->nout);
    for (int k = 0; k < n->nin; k++) {
        w.in[k] = DL_NEW(s->arena, dl_value);
        *w.in[k] = (dl_value){.id = n->in[k]->id, .type = s->type[n->in[k]->id], .offset = -1};
    }
    memcpy(w.out, n->out, sizeof *w.out * (size_t)n->nout);
    w.attrs = DL_NEWS(s->arena, dl_attr, n->nattrs + 1);
    memcpy(w.attrs, n->attrs, sizeof *w.attrs * (size_t)n->nattrs);
    return w;
}

/* The axis along which the mode takes operand k sharded, or none. */
static dl_sharding operand_sharding(const dl_node *whole, int k, const mode *m) {
    if (m->along.axis) return dl_shard_backward(whole, k, m->along);
    return m->sums < 0 ? (dl_sharding){0} : k == m->sums ? m->over : m->over_other;
}

/* Would the mode conflict with the other group? It does if an operand that it takes sharded is
 * sharded along that axis over the other group already, or is taken so by the other's mode, or if
 * the other's result is sharded along the same axis (two axes that a reshape joins). */
static bool conflicts(sharder *s, const dl_node *n, const dl_node *whole, int group, const mode *m,
                      const mode *others) {
    if (others && m->along.axis && others->along.axis == m->along.axis) return true;
    for (int k = 0; k < n->nin; k++) {
        const char *own = operand_sharding(whole, k, m).axis;
        const dl_placement *other = &entry_of(s, n->in[k])->placement[1 - group];
        if (!own) continue;
        if (other->kind == DL_PLACE_SHARD && other->along.axis == own) return true;
        if (others && operand_sharding(whole, k, others).axis == own) return true;
    }
    return false;
}

/* May attention be sharded so? Heads must stay whole. So must the axis of samples with dropout,
 * which counts the samples from the rank's first, and all axes with masks and biases, which are not
 * split with them. */
static bool may_attend(const sharder *s, const dl_node *whole, int group, const char *axis) {
    dl_attention a = dl_attention_of(whole);
    int at = dl_type_axis(&whole->out[DL_ATT_Y].type, axis);
    return !a.addends && (at != 0 || a.rate <= 0) &&
           (at != 2 || a.heads % dl_shard_ranks(s->parallel, group) == 0);
}

static mode find_mode(sharder *s, const dl_node *n, const dl_node *whole, int group,
                      const mode *others) {
    mode m = {.sums = -1};
    if (dl_shard_ranks(s->parallel, group) == 1) return m;
    dl_sharding wanted = s->specs.along[group][n->out[0].id];
    if (wanted.axis && dl_shard_propagates(whole, wanted)) m.along = wanted;
    for (int k = 0; k < n->nin && !m.along.axis && m.sums < 0; k++) {
        const dl_placement own = entry_of(s, n->in[k])->placement[group];
        if (own.kind != DL_PLACE_SHARD) continue;
        m.along = dl_shard_forward(whole, k, own.along);
        if (!m.along.axis && dl_shard_sums(whole, k, own.along, &m.over_other))
            m.sums = k, m.over = own.along;
    }
    bool refused = m.along.axis && n->op == DL_OP_flash_attention &&
                   !may_attend(s, whole, group, m.along.axis);
    return refused || conflicts(s, n, whole, group, &m, others) ? (mode){.sums = -1} : m;
}

/* Where every rank computes all of it: the placement of its operands. */
static dl_placement_kind find_replicated(sharder *s, const dl_node *n, int group) {
    dl_placement_kind all = DL_PLACE_CONSTANT;
    for (int k = 0; k < n->nin; k++) {
        dl_placement_kind own = entry_of(s, n->in[k])->placement[group].kind;
        if (own == DL_PLACE_SHARD) own = DL_PLACE_REPLICATE;
        if (own == DL_PLACE_REPLICATE || all == DL_PLACE_CONSTANT) all = own;
    }
    return all;
}

/* Do keys and values stay sharded, and travel round the ring of ranks (ring.c)? Not if they are
 * replicated, as those computed from another input by all ranks are. */
static bool uses_ring(sharder *s, const dl_node *n, int group, const mode *m) {
    if (!s->parallel->ring || group != DL_CP || n->op != DL_OP_flash_attention || !m->along.axis)
        return false;
    bool all = dl_type_axis(&n->out[DL_ATT_Y].type, m->along.axis) == 1;
    for (int k = DL_ATT_K; k <= DL_ATT_V; k++) {
        const dl_placement *own = &entry_of(s, n->in[k])->placement[group];
        const dl_sharding keys = {.axis = n->in[k]->type.axis[1].name, .parts = 1};
        all = all && own->kind == DL_PLACE_SHARD && dl_sharding_same(own->along, keys);
    }
    return all;
}

/* Converts the operands to the placements that the mode takes; returns the result's. */
static dl_placement take_operands(sharder *s, dl_node *n, const dl_node *whole, int group,
                                  const mode *m) {
    bool round = uses_ring(s, n, group, m);
    dl_placement_kind alike = find_replicated(s, n, group);
    for (int k = 0; k < n->nin; k++) {
        dl_placement to = {.kind = alike};
        if (round && (k == DL_ATT_K || k == DL_ATT_V)) continue;
        to.along = operand_sharding(whole, k, m);
        if (m->along.axis || m->sums >= 0)
            to.kind = to.along.axis ? DL_PLACE_SHARD : DL_PLACE_PARTIAL_GRAD;
        n->in[k] = convert(s, n->in[k], group, to);
    }
    if (m->sums >= 0) return (dl_placement){.kind = DL_PLACE_REPLICATE};
    if (!m->along.axis) return (dl_placement){.kind = alike};
    return (dl_placement){DL_PLACE_SHARD, m->along, size_along(&whole->out[0], m->along.axis)};
}

/* Sets the attributes of attention that say which of the whole's heads, queries and keys the rank
 * has. Attention needs these with dropout, in its backward half, and in a ring. */
static void set_part(sharder *s, dl_node *n, const dl_node *whole, int group, int cut,
                     dl_share own) {
    dl_attention all = dl_attention_of(whole), a = dl_attention_of(n);
    const int64_t now[DL_ATT_CUTS] = {all.heads, all.queries, all.keys};
    bool round = group == DL_CP && cut == DL_ATT_QUERY && a.keys != all.keys;
    if (a.rate <= 0 && !(a.causal && cut == DL_ATT_QUERY) && !round) return;
    a.first[cut] = own.first;
    if (round) {
        a.first[DL_ATT_KEY] = share_of(s, group, all.keys).first;
        dl_node_set(s->b.graph, n, group_attr(group));
        dl_node_set(s->b.graph, n, ranks_attr(s, group));
        dl_node_set(s->b.graph, n, dl_attr_int(DL_ATTR_rank, dl_shard_rank(s->parallel, group)));
    }
    dl_node_set(s->b.graph, n, dl_attr_ints(DL_ATTR_first, DL_ATT_CUTS, a.first));
    dl_node_set(s->b.graph, n, dl_attr_ints(DL_ATTR_whole, DL_ATT_CUTS, now));
}

/* Adapts the node's types, the number of heads, and the bounds of a slice to the shards. */
static void set_shard_types(sharder *s, dl_node *n, const dl_node *whole, int group,
                            dl_placement made) {
    if (made.kind != DL_PLACE_SHARD) return;
    int at = dl_type_axis(&n->out[0].type, made.along.axis);
    int64_t own_parts = own_size(s, group, made.along, made.size);
    n->out[0].type.axis[at].size = own_parts;
    if (n->op == DL_OP_slice && dl_node_name(n, DL_ATTR_axis) == made.along.axis) {
        int64_t start = dl_node_int(whole, DL_ATTR_start) / (made.size / made.along.parts);
        start *= own_parts / made.along.parts;
        dl_node_set(s->b.graph, n, dl_attr_int(DL_ATTR_start, start));
        dl_node_set(s->b.graph, n, dl_attr_int(DL_ATTR_stop, start + own_parts));
    }
    if (n->op != DL_OP_flash_attention) return;
    dl_type *log = &n->out[DL_ATT_LOG].type; /* [N, head, T], while y is [N, T, E] */
    static const int axis_at[] = {0, 2, 1};
    dl_axis *own = &log->axis[axis_at[at]];
    dl_share share = share_of(s, group, own->size);
    own->size = share.n;
    if (at == 2) dl_node_set(s->b.graph, n, dl_attr_int(DL_ATTR_heads, own->size));
    if (at) set_part(s, n, whole, group, at == 2 ? DL_ATT_HEAD : DL_ATT_QUERY, share);
}

/* Sums v, a partial result, over the ranks; messages name the parameter that n reads. */
static dl_value *add_up(sharder *s, const dl_node *n, dl_value *v, int group) {
    const char *of = "a sum";
    for (int k = 0; k < n->nin; k++) {
        const dl_value *from = n->in[k];
        while (from->def && from->def->nin == 1) from = from->def->in[0];
        if (from->var && from->var->role == DL_VAR_PARAM) of = from->var->name;
    }
    dl_attr at[] = {group_attr(group), ranks_attr(s, group), dl_attr_of(s->b.graph, of)};
    return with_placement(s, dl_build(&s->b, DL_OP_all_reduce, 1, &v, 3, at), v, group,
                          (dl_placement){.kind = DL_PLACE_REPLICATE});
}

static double count_mean(const dl_node *whole) {
    const dl_attr *over = dl_node_attr(whole, DL_ATTR_over);
    double count = 1;
    for (int i = 0; i < over->n; i++) count *= (double)size_along(whole->in[0], over->names[i]);
    return count;
}

static dl_value *copy_states(sharder *s, dl_value *made, const dl_value *v) {
    entry from = *entry_of(s, v);
    memcpy(entry_of(s, made)->placement, from.placement, sizeof from.placement);
    return made;
}

static void shard_node(sharder *s, dl_node *n) {
    dl_node whole = original_of(s, n);
    mode m[DL_NSHARDS];
    dl_placement made[DL_NSHARDS];
    s->b.loc = n->loc;
    for (int k = 0; k < n->nin; k++)
        if (entry_of(s, n->in[k])->now) n->in[k] = entry_of(s, n->in[k])->now;
    for (int g = 0; g < DL_NSHARDS; g++) m[g] = find_mode(s, n, &whole, g, g ? &m[0] : NULL);
    for (int g = 0; g < DL_NSHARDS; g++) made[g] = take_operands(s, n, &whole, g, &m[g]);
    for (int g = 0; g < DL_NSHARDS; g++) set_shard_types(s, n, &whole, g, made[g]);
    dl_push(s->b.graph->module->arena, &s->b.graph->nodes, n);
    for (int i = 0; i < n->nout; i++) memcpy(entry_of(s, &n->out[i])->placement, made, sizeof made);
    dl_value *sum = &n->out[0];
    for (int g = 0; g < DL_NSHARDS; g++)
        if (m[g].sums >= 0) sum = add_up(s, n, sum, g);
    if (sum == &n->out[0]) return;
    if (n->op == DL_OP_mean) { /* of all elements: the sum, divided once */
        n->op = DL_OP_sum;
        dl_value *mean =
            copy_states(s, dl_build_k(&s->b, DL_OP_mul, sum, 1 / count_mean(&whole)), sum);
        sum = dl_type_same(&mean->type, &sum->type) /* restores axes without a name */
                  ? mean
                  : copy_states(
                        s, dl_build_as(&s->b, DL_OP_broadcast, 1, &mean, 0, NULL, sum->type), mean);
    }
    entry_of(s, &n->out[0])->now = sum;
}

/* ---- a graph ---- */

/* Placements of variables: a parameter that is desired sharded is its rank's shard. */
static void begin_vars(sharder *s) {
    dl_graph *g = s->b.graph;
    for (int i = 0; i < g->vars.n; i++) {
        dl_var *v = g->vars.at[i];
        dl_sharding along = s->specs.along[DL_TP][v->value.id];
        dl_placement *placement = entry_of(s, &v->value)->placement;
        if (v->role != DL_VAR_PARAM) continue;
        if (dl_shard_ranks(s->parallel, DL_CP) > 1) placement[DL_CP].kind = DL_PLACE_PARTIAL_GRAD;
        if (dl_shard_ranks(s->parallel, DL_TP) == 1) continue;
        placement[DL_TP].kind = DL_PLACE_REPLICATE;
        if (!along.axis) continue;
        int at = dl_type_axis(&v->value.type, along.axis);
        int64_t size = v->value.type.axis[at].size;
        placement[DL_TP] = (dl_placement){DL_PLACE_SHARD, along, size};
        v->value.type.axis[at].size = own_size(s, DL_TP, along, size);
        v->piece.n = 1;
        v->piece.cut[0] = (dl_var_cut){.group = dl_intern(dl_shard_groups[DL_TP]),
                                       .axis = at,
                                       .ranks = dl_shard_ranks(s->parallel, DL_TP),
                                       .rank = dl_shard_rank(s->parallel, DL_TP),
                                       .parts = along.parts,
                                       .size = size};
    }
}

/* The results that a step reports are whole; so is the loss's gradient, the first value of the
 * backward pass. */
static void end_results(sharder *s) {
    dl_graph *g = s->b.graph;
    for (int i = 0; i < g->results.n; i++) {
        dl_result *r = &g->results.at[i];
        if (entry_of(s, r->value)->now) r->value = entry_of(s, r->value)->now;
        s->b.loc = r->value->def ? r->value->def->loc : (dl_loc){0};
        for (int k = 0; k < DL_NSHARDS; k++)
            if (r->role == DL_RESULT_LOSS || r->role == DL_RESULT_OBJECTIVE ||
                is_piece(s, r->value, k))
                r->value = convert(s, r->value, k, (dl_placement){.kind = DL_PLACE_REPLICATE});
    }
}

static void shard_graph(dl_graph *g, dl_pass_ctx *ctx, dl_shard_specs specs) {
    sharder s = {
        .b = {.graph = g}, .parallel = &ctx->parallel, .specs = specs, .arena = ctx->arena};
    int n = g->nodes.n;
    dl_node **old = DL_NEWS(ctx->arena, dl_node *, n + 1);
    if (n) memcpy(old, g->nodes.at, sizeof *old * (size_t)n);
    s.type = DL_NEWS(ctx->arena, dl_type, g->next_id + 1);
    for (int i = 0; i < g->vars.n; i++) s.type[g->vars.at[i]->value.id] = g->vars.at[i]->value.type;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < old[i]->nout; k++) s.type[old[i]->out[k].id] = old[i]->out[k].type;
    begin_vars(&s);
    g->nodes.n = 0;
    for (int i = 0; i < n; i++) shard_node(&s, old[i]);
    end_results(&s);
}

/* A parameter of several graphs is a shard only where all graphs desire the same one. */
static void agree(const dl_module *m, dl_shard_specs *specs) {
    for (int i = 0; i < m->graphs.n; i++)
        for (int v = 0; v < m->graphs.at[i]->vars.n; v++) {
            const dl_var *own = m->graphs.at[i]->vars.at[v];
            for (int j = 0; j < m->graphs.n; j++) {
                const dl_var *other = dl_graph_find_var(m->graphs.at[j], own->name);
                if (!other) continue;
                dl_sharding *a = &specs[i].along[DL_TP][own->value.id],
                            *b = &specs[j].along[DL_TP][other->value.id];
                if (!dl_sharding_same(*a, *b)) *a = *b = (dl_sharding){0};
            }
        }
}

void dl_shard_module(const dl_module *m, dl_pass_ctx *ctx, dl_shard_specs *specs) {
    agree(m, specs);
    for (int i = 0; i < m->graphs.n; i++) shard_graph(m->graphs.at[i], ctx, specs[i]);
}

/* Handles all graphs of the module when it sees the first, because they share variables. */
bool dl_pass_shard(dl_graph *g, dl_pass_ctx *ctx) {
    const dl_module *m = g->module;
    bool one =
        dl_shard_ranks(&ctx->parallel, DL_TP) == 1 && dl_shard_ranks(&ctx->parallel, DL_CP) == 1;
    if (one || g != m->graphs.at[0]) return false;
    dl_shard_specs *specs = DL_NEWS(ctx->arena, dl_shard_specs, m->graphs.n);
    for (int i = 0; i < m->graphs.n; i++)
        if (!dl_shard_find_specs(m->graphs.at[i], ctx, &specs[i])) return false;
    dl_shard_module(m, ctx, specs);
    return true;
}

/* Propagation of sharding through ops: axes along which an op computes the same at every position
 * may be sharded. */
#include "ir/relation.h"
#include "passes/parallel/shard.h"

/* The axis itself, where the result has it. */
static const char *same(const dl_node *n, const char *axis) {
    return dl_type_axis(&n->out[0].type, axis) >= 0 ? axis : NULL;
}

/* The only axis of the relation that axis `at` of operand k belongs to. NULL: it belongs to a
 * window, or to several axes (groups of channels). */
static const dl_relation_axis *find_related(const dl_relation *r, int k, int at) {
    const dl_relation_axis *found = NULL;
    for (int i = 0; i < r->n; i++) {
        const dl_relation_axis *a = &r->axis[i];
        if (a->at[k] != at || (a->size == 1 && r->nwindows)) continue;
        if (found || a->slides || (r->nwindows && a->role == DL_MODE_BATCH))
            return NULL; /* groups count as an axis */
        found = a;
    }
    return found;
}

static const char *forward_through_contraction(const dl_node *n, int k, int at) {
    dl_relation r = dl_relation_of(n);
    const dl_relation_axis *a = find_related(&r, k, at);
    int to = a ? a->at[DL_RESULT_PLACE] : -1;
    return to >= 0 && find_related(&r, DL_RESULT_PLACE, to) == a ? n->out[0].type.axis[to].name
                                                                 : NULL;
}

/* A reshape keeps the elements' order. It keeps the sharding where both sides have equal numbers
 * of elements before the axis and along it, and the axis either stays, or is split into or joined
 * from whole units (features, and the heads that they belong to). */
static dl_sharding forward_through_reshape(const dl_node *n, int at, dl_sharding from) {
    const dl_type *in = &n->in[0]->type, *out = &n->out[0].type;
    int64_t before = dl_type_around(in, at).outer * from.parts,
            each = in->axis[at].size / from.parts, outer = 1;
    for (int i = 0; i < out->rank; outer *= out->axis[i++].size) {
        int64_t parts = outer && before % outer == 0 ? before / outer : 0;
        if (!parts || parts > INT32_MAX || out->axis[i].size % parts) continue;
        int64_t to = out->axis[i].size / parts;
        if (to == each || (to % from.ranks == 0 && each % from.ranks == 0))
            return (dl_sharding){out->axis[i].name, (int)parts, from.ranks};
    }
    return (dl_sharding){0};
}

/* The axis of a slice or of a concatenation: as many parts of size `each` as there are. */
static dl_sharding forward_in_parts(const dl_node *n, int at, dl_sharding from, int64_t each) {
    int64_t size = n->out[0].type.axis[at].size;
    bool whole = each > 0 && size >= each && size % each == 0 && size / each <= INT32_MAX;
    if (n->op == DL_OP_slice) whole = whole && dl_node_int(n, DL_ATTR_start) % each == 0;
    for (int k = 0; k < n->nin; k++) whole = whole && n->in[k]->type.axis[at].size % each == 0;
    return whole ? (dl_sharding){from.axis, (int)(size / each), from.ranks} : (dl_sharding){0};
}

static dl_sharding forward_through_move(const dl_node *n, int k, int at, dl_sharding from) {
    const dl_attr *own = dl_node_attr(n, DL_ATTR_axis);
    const dl_sharding as_it_is = {same(n, from.axis), from.parts, from.ranks}, none = {0};
    switch (dl_op_move(n->op)) {
    case DL_MOVE_RENAME: return (dl_sharding){n->out[0].type.axis[at].name, from.parts, from.ranks};
    case DL_MOVE_RESHAPE: return forward_through_reshape(n, at, from);
    case DL_MOVE_AFFINE: return dl_node_lists(n, DL_ATTR_along, from.axis) ? none : as_it_is;
    case DL_MOVE_GATHER: return k == 0 && own->s == from.axis ? none : as_it_is;
    case DL_MOVE_SLICE:
    case DL_MOVE_JOIN:
        return own->s != from.axis
                   ? as_it_is
                   : forward_in_parts(n, at, from, n->in[k]->type.axis[at].size / from.parts);
    case DL_MOVE_PAD:
    case DL_MOVE_NAMES: return own && own->s == from.axis ? none : as_it_is;
    case DL_MOVE_NONE:
    case DL_MOVE_COPY:
    case DL_MOVE_SCATTER: break; /* shards are gathered before it */
    }
    return none;
}

/* Attention: the axes of queries, and the features of keys and values, head by head. Each query
 * reads all keys. */
const char *dl_shard_attention(const dl_node *n, int k, int at, dl_sharding from) {
    if (k > 2 || (k && at == 1) || from.parts > 1) return NULL;
    return n->out[0].type.axis[at].name;
}

/* A linear scan, a sort: all axes but the one that they go along. */
const char *dl_shard_along(const dl_node *n, int k, int at, dl_sharding from) {
    (void)k, (void)at;
    return from.axis == dl_node_name(n, DL_ATTR_axis) ? NULL : same(n, from.axis);
}

const char *dl_shard_whole(const dl_node *n, int k, int at, dl_sharding from) {
    (void)n, (void)k, (void)at, (void)from;
    return NULL;
}

#define DL_TEMPLATE(id, ...)                   [DL_OP_##id] = __VA_ARGS__,
#define CALL(results, family, variants, shard) dl_shard_##shard
#define OP                                     DL_TEMPLATE_ROW
static dl_shard_call *const forward_through_template[DL_NOPS] = {
#include "ir/ops.def"
};
#undef OP

dl_sharding dl_shard_forward(const dl_node *n, int k, dl_sharding from) {
    const dl_type *type = &n->in[k]->type;
    int at = from.axis && *from.axis ? dl_type_axis(type, from.axis) : -1;
    dl_sharding to = {.parts = from.parts, .ranks = from.ranks};
    if (at < 0 || type->axis[at].size % from.parts) return (dl_sharding){0};
    switch (dl_ops[n->op].class) {
    case DL_CLASS_ELEM: to.axis = same(n, from.axis); break;
    case DL_CLASS_REDUCE:
        to.axis = dl_node_lists(n, DL_ATTR_over, from.axis) ? NULL : same(n, from.axis);
        break;
    case DL_CLASS_CONTRACT: to.axis = forward_through_contraction(n, k, at); break;
    case DL_CLASS_MOVE: to = forward_through_move(n, k, at, from); break;
    case DL_CLASS_TEMPLATE: to.axis = forward_through_template[n->op](n, k, at, from); break;
    case DL_CLASS_COLLECTIVE:
        to.axis = n->op == DL_OP_all_reduce ? same(n, from.axis) : NULL;
        break;
    default: break;
    }
    bool room = to.parts <= 1 ||
                n->out[0].type.rank < DL_MAX_RANK; /* room for an axis of parts, see shard.c */
    return to.axis && *to.axis && room ? to : (dl_sharding){0};
}

/* Tries three numbers of parts: the result's, parts of equal size, and the latter times the number
 * of elements before the axis. */
dl_sharding dl_shard_backward(const dl_node *n, int k, dl_sharding to) {
    const dl_type *t = &n->in[k]->type, *out = &n->out[0].type;
    int at = to.axis ? dl_type_axis(out, to.axis) : -1;
    if (at < 0 || out->axis[at].size % to.parts) return (dl_sharding){0};
    int64_t each = out->axis[at].size / to.parts, before = dl_type_around(out, at).outer * to.parts;
    for (int i = 0; i < t->rank; i++) {
        int64_t outer = dl_type_around(t, i).outer;
        const int64_t parts[] = {to.parts, each ? t->axis[i].size / each : 0,
                                 outer ? before / outer : 0};
        for (int p = 0; p < 3; p++) {
            if (parts[p] < 1 || parts[p] > INT32_MAX) continue;
            dl_sharding from = {t->axis[i].name, (int)parts[p], to.ranks};
            if (dl_sharding_same(dl_shard_forward(n, k, from), to)) return from;
        }
    }
    return (dl_sharding){0};
}

bool dl_shard_propagates(const dl_node *n, dl_sharding to) {
    for (int k = 0; k < n->nin; k++)
        if (dl_shard_backward(n, k, to).axis) return true;
    return false;
}

bool dl_shard_sums(const dl_node *n, int k, dl_sharding from, dl_sharding *other) {
    const dl_type *type = &n->in[k]->type;
    int at = from.axis && *from.axis ? dl_type_axis(type, from.axis) : -1;
    if (at < 0 || type->axis[at].size % from.parts || !dl_dtype_is_float(n->out[0].type.dtype))
        return false;
    if (dl_ops[n->op].class == DL_CLASS_REDUCE && dl_op_is_linear(n->op))
        return dl_node_lists(n, DL_ATTR_over, from.axis);
    if (dl_ops[n->op].class != DL_CLASS_CONTRACT) return false;
    dl_relation r = dl_relation_of(n);
    const dl_relation_axis *a = find_related(&r, k, at);
    if (!a || a->role != DL_MODE_K || a->at[1 - k] < 0) return false;
    if (find_related(&r, 1 - k, a->at[1 - k]) != a) return false;
    const dl_type *second = &n->in[1 - k]->type;
    *other = (dl_sharding){second->axis[a->at[1 - k]].name, from.parts, from.ranks};
    return from.parts == 1 || second->rank < DL_MAX_RANK;
}

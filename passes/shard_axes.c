/* Along which axes an op does the same at every place: those may be dealt out to ranks. */
#include "ir/relation.h"
#include "passes/shard.h"

static bool is_among(const dl_attr *names, const char *axis) {
    for (int i = 0; names && i < names->n; i++)
        if (names->names[i] == axis) return true;
    return false;
}

/* The axis itself, where the result has it. */
static const char *same(const dl_node *n, const char *axis) {
    return dl_type_axis(&n->out[0].type, axis) >= 0 ? axis : NULL;
}

/* The one axis of the relation that axis `at` of operand k goes along: not one of a window, nor one of
 * several (groups of channels). NULL: none. */
static const dl_relation_axis *find_related(const dl_relation *r, int k, int at) {
    const dl_relation_axis *found = NULL;
    for (int i = 0; i < r->n; i++) {
        const dl_relation_axis *a = &r->axis[i];
        if (a->at[k] != at || (a->size == 1 && r->nwindows)) continue;
        if (found || a->slides || (r->nwindows && a->role == DL_ROLE_BATCH))
            return NULL; /* groups are counted */
        found = a;
    }
    return found;
}

static const char *goes_through_contraction(const dl_node *n, int k, int at) {
    dl_relation r = dl_relation_of(n);
    const dl_relation_axis *a = find_related(&r, k, at);
    int to = a ? a->at[DL_RESULT_PLACE] : -1;
    return to >= 0 && find_related(&r, DL_RESULT_PLACE, to) == a ? n->out[0].type.axis[to].name : NULL;
}

/* A reshape leaves an axis alone that has as many elements in front of it and in itself as one of the result.
 */
static const char *goes_through_reshape(const dl_node *n, int at) {
    const dl_type *from = &n->in[0]->type, *to = &n->out[0].type;
    int64_t before = dl_type_around(from, at).outer, before_to = 1;
    for (int i = 0; i < to->rank; before_to *= to->axis[i++].size)
        if (before_to == before && to->axis[i].size == from->axis[at].size) return to->axis[i].name;
    return NULL;
}

static const char *goes_through_move(const dl_node *n, int k, int at, const char *axis) {
    const dl_attr *own = dl_node_attr(n, DL_ATTR_axis);
    switch (n->op) {
    case DL_OP_broadcast: return same(n, axis);
    case DL_OP_rename: return n->out[0].type.axis[at].name;
    case DL_OP_reshape: return goes_through_reshape(n, at);
    case DL_OP_affine: return is_among(dl_node_attr(n, DL_ATTR_along), axis) ? NULL : same(n, axis);
    case DL_OP_gather: return k == 0 && own->s == axis ? NULL : same(n, axis);
    case DL_OP_slice:
    case DL_OP_pad:
    case DL_OP_cat:
    case DL_OP_squeeze:
    case DL_OP_unsqueeze: return own->s == axis ? NULL : same(n, axis);
    default: return NULL;
    }
}

/* The queries' own axes, and the features of keys and values, head by head; all keys are looked at. */
static const char *goes_through_template(const dl_node *n, int k, int at) {
    if (n->op != DL_OP_flash_attention || k > 2 || (k && at == 1)) return NULL;
    return n->out[0].type.axis[at].name;
}

const char *dl_shard_goes(const dl_node *n, int k, const char *axis) {
    int at = *axis ? dl_type_axis(&n->in[k]->type, axis) : -1;
    if (at < 0) return NULL;
    const char *to = NULL;
    switch (dl_ops[n->op].class) {
    case DL_CLASS_ELEM: to = same(n, axis); break;
    case DL_CLASS_REDUCE: to = is_among(dl_node_attr(n, DL_ATTR_over), axis) ? NULL : same(n, axis); break;
    case DL_CLASS_CONTRACT: to = goes_through_contraction(n, k, at); break;
    case DL_CLASS_MOVE: to = goes_through_move(n, k, at, axis); break;
    case DL_CLASS_TEMPLATE: to = goes_through_template(n, k, at); break;
    default: break;
    }
    return to && *to ? to : NULL;
}

const char *dl_shard_comes(const dl_node *n, int k, const char *axis) {
    const dl_type *t = &n->in[k]->type;
    for (int i = 0; i < t->rank; i++)
        if (dl_shard_goes(n, k, t->axis[i].name) == axis) return t->axis[i].name;
    return NULL;
}

bool dl_shard_follows(const dl_node *n, const char *axis) {
    for (int k = 0; k < n->nin; k++)
        if (dl_shard_comes(n, k, axis)) return true;
    return false;
}

bool dl_shard_sums(const dl_node *n, int k, const char *axis, const char **other) {
    int at = *axis ? dl_type_axis(&n->in[k]->type, axis) : -1;
    if (at < 0 || !dl_dtype_is_float(n->out[0].type.dtype)) return false;
    if (n->op == DL_OP_sum || n->op == DL_OP_mean) return is_among(dl_node_attr(n, DL_ATTR_over), axis);
    if (dl_ops[n->op].class != DL_CLASS_CONTRACT) return false;
    dl_relation r = dl_relation_of(n);
    const dl_relation_axis *a = find_related(&r, k, at);
    if (!a || a->role != DL_ROLE_K || a->at[1 - k] < 0) return false;
    if (find_related(&r, 1 - k, a->at[1 - k]) != a) return false;
    *other = n->in[1 - k]->type.axis[a->at[1 - k]].name;
    return true;
}

/* Composition of affine indices: the index of a view's operand, from the index of the view.
 *
 * An index that may be outside its axis has passed the border of some view, where the value is
 * defined. Such an index passes further views only if they leave its axis unchanged, or have the
 * same value outside. */
#include "passes/fuse/fuse.h"

/* The number of different values of a term. */
static int64_t range_of(const dl_axis *space, const dl_term *t) {
    int64_t n = (space[t->axis].size + t->div - 1) / t->div;
    return t->mod && t->mod < n ? t->mod : n;
}

static int64_t divisor(const dl_index *x) { return x->div > 1 ? x->div : 1; }

/* An index as a list of terms. */
static dl_index as_terms(dl_index x) {
    if (x.axis >= 0) x.term[0] = (dl_term){x.axis, 1, 0, 1}, x.nterms = 1, x.axis = -1;
    return x;
}

/* An index of one plain term becomes a plain index. */
static dl_index as_plain(const dl_axis *space, dl_index x) {
    const dl_term *t = &x.term[0];
    bool whole =
        x.nterms == 1 && t->div == 1 && t->mul == 1 && (!t->mod || t->mod >= space[t->axis].size);
    if (whole)
        x = (dl_index){.axis = t->axis, .offset = x.offset, .div = x.div, .outside = x.outside};
    return x;
}

/* May the index of axis `i` of `t` be outside the axis? */
static bool misses(const dl_axis *space, const dl_type *t, const dl_index *index, int i) {
    return index[i].outside != DL_OUT_ANY && !dl_index_inside(space, &index[i], t->axis[i].size);
}

/* Are the terms the digits of one number: each non-negative, with a range below the next one's
 * factor? */
static bool are_digits(const dl_axis *space, const dl_index *x) {
    for (int i = 0; i < x->nterms; i++)
        if (x->term[i].mul < 1) return false;
    for (int i = 0; i < x->nterms; i++)
        for (int k = 0; k < x->nterms; k++) {
            const dl_term *low = &x->term[i], *high = &x->term[k];
            bool below = low->mul < high->mul || (low->mul == high->mul && i < k);
            if (i != k && below && range_of(space, low) * low->mul > high->mul) return false;
        }
    return x->offset == 0;
}

/* floor(x / rest) mod size (size 0: no modulo); false where this is no sum of terms. */
static bool take_digits(const dl_axis *space, const dl_index *x, int64_t rest, int64_t size,
                        dl_index *out) {
    *out = (dl_index){.axis = -1};
    for (int i = 0; i < x->nterms; i++) {
        dl_term t = x->term[i];
        int64_t range = range_of(space, &t);
        if (t.mul < rest) {
            if (rest % t.mul) return false;
            int64_t below = rest / t.mul;
            if (range <= below) continue;
            if (t.mod && t.mod % below) return false;
            t.div *= below, t.mod /= below, t.mul = 1;
            range = (range + below - 1) / below;
        } else {
            if (t.mul % rest) return false;
            t.mul /= rest;
        }
        if (size && t.mul >= size) {
            if (t.mul % size) return false;
            continue;
        }
        if (size && range * t.mul > size) {
            if (size % t.mul) return false;
            t.mod = size / t.mul;
        }
        if (out->nterms == DL_MAX_TERMS) return false;
        out->term[out->nterms++] = t;
    }
    return true;
}

/* Axes [u0, u1) of the operand have the same elements, in the same order, as axes [v0, v1) of
 * the view. */
static bool through_group(const dl_axis *space, const dl_type *from, int u0, int u1,
                          const dl_type *to, int v0, int v1, const dl_index *old, dl_index *index) {
    dl_index flat = {.axis = -1};
    int64_t step = 1;
    if (u1 - u0 == 1 && v1 - v0 == 1) {
        index[u0] = old[v0];
        return true;
    }
    for (int v = v1 - 1; v >= v0; step *= to->axis[v--].size) {
        dl_index x = as_terms(old[v]);
        if (x.div > 1 || misses(space, to, old, v)) return false;
        if (to->axis[v].size == 1)
            continue; /* it has one element, whatever the index says of other parts of a cat */
        flat.offset += x.offset * step;
        for (int i = 0; i < x.nterms; i++) {
            if (flat.nterms == DL_MAX_TERMS) return false;
            flat.term[flat.nterms] = x.term[i];
            flat.term[flat.nterms++].mul *= step;
        }
    }
    if (u1 - u0 == 1) { /* a single axis takes the sum unchanged */
        index[u0] = as_plain(space, flat);
        return true;
    }
    if (!are_digits(space, &flat)) return false;
    int64_t rest = 1;
    for (int u = u1 - 1; u >= u0; rest *= from->axis[u--].size) {
        if (!take_digits(space, &flat, rest, u == u0 ? 0 : from->axis[u].size, &index[u]))
            return false;
        index[u] = as_plain(space, index[u]);
    }
    return true;
}

static bool through_reshape(const dl_axis *space, const dl_type *from, const dl_type *to,
                            const dl_index *old, dl_index *index) {
    int u = 0, v = 0;
    while (u < from->rank || v < to->rank) {
        int u0 = u, v0 = v;
        int64_t a = u < from->rank ? from->axis[u++].size : 1,
                b = v < to->rank ? to->axis[v++].size : 1;
        while (a != b) {
            if (a < b && u < from->rank)
                a *= from->axis[u++].size;
            else if (b < a && v < to->rank)
                b *= to->axis[v++].size;
            else
                return false;
        }
        if (u == u0) { /* the remaining axes of the view have one element */
            for (int i = v0; i < v; i++)
                if (misses(space, to, old, i)) return false;
            continue;
        }
        if (!through_group(space, from, u0, u, to, v0, v, old, index)) return false;
    }
    return true;
}

static bool through_slice(const dl_axis *space, const dl_node *n, dl_index *index) {
    int at = dl_type_axis(&n->out[0].type, dl_node_name(n, DL_ATTR_axis));
    if (misses(space, &n->out[0].type, index, at)) return false;
    index[at].offset += dl_node_int(n, DL_ATTR_start) * divisor(&index[at]);
    return true;
}

static bool through_pad(const dl_axis *space, const dl_node *n, dl_index *index) {
    int at = dl_type_axis(&n->out[0].type, dl_node_name(n, DL_ATTR_axis));
    dl_index *x = &index[at];
    if (!misses(space, &n->out[0].type, index, at))
        x->outside = DL_OUT_ZERO; /* in a concatenation, too: the border is inside the part */
    else if (x->outside != DL_OUT_ZERO && x->outside != DL_OUT_EXACT)
        return false;
    x->offset -= dl_node_attr(n, DL_ATTR_pad_lo)->ints[0] * divisor(x);
    return true;
}

/* The scaled sum of the axes `along`; an integer may be added to a sum that is divided. */
static bool through_affine(const dl_axis *space, const dl_node *n, const dl_index *old,
                           dl_index *index) {
    const dl_type *to = &n->out[0].type;
    const dl_attr *along = dl_node_attr(n, DL_ATTR_along),
                  *stride = dl_node_attr(n, DL_ATTR_stride);
    int64_t div = dl_node_int(n, DL_ATTR_div),
            own = 1; /* the divisor of an index that is divided already */
    dl_index sum = {.axis = -1,
                    .outside = (dl_outside)dl_outside_find(dl_node_name(n, DL_ATTR_outside))};
    for (int i = 0; i < along->n; i++) {
        int at = dl_type_axis(to, along->names[i]);
        if (misses(space, to, old, at)) return false;
        if (divisor(&old[at]) == 1) continue;
        if (own > 1 || div > 1 || stride->ints[i] != 1) return false;
        own = old[at].div;
    }
    for (int i = 0; i < along->n; i++) {
        dl_index x = as_terms(old[dl_type_axis(to, along->names[i])]);
        int64_t by = x.div > 1 ? 1 : stride->ints[i] * own;
        sum.offset += x.offset * by;
        for (int k = 0; k < x.nterms; k++) {
            if (sum.nterms == DL_MAX_TERMS) return false;
            sum.term[sum.nterms] = x.term[k];
            sum.term[sum.nterms++].mul *= by;
        }
        /* Elements outside a part of a concatenation are not used; inside of it the rule holds. */
        if (x.outside == DL_OUT_ANY && sum.outside != DL_OUT_ZERO) return false;
    }
    sum.offset += dl_node_int(n, DL_ATTR_start) * own;
    sum.div = own * div > 1 ? own * div : 0;
    index[dl_type_axis(&n->in[0]->type, along->names[0])] = as_plain(space, sum);
    return true;
}

/* squeeze, unsqueeze, broadcast: axes match by name; an axis that the view lacks has size 1. */
static bool through_names(const dl_axis *space, const dl_type *from, const dl_type *to,
                          const dl_index *old, dl_index *index) {
    for (int i = 0; i < from->rank; i++) {
        int at = *from->axis[i].name ? dl_type_axis(to, from->axis[i].name) : -1;
        index[i] = at >= 0 ? old[at] : (dl_index){.axis = -1};
    }
    for (int i = 0; i < to->rank; i++)
        if (misses(space, to, old, i) &&
            (!*to->axis[i].name || dl_type_axis(from, to->axis[i].name) < 0))
            return false;
    return true;
}

/* A load has one value for all elements outside its parameter. False where the axes have
 * different ones. */
static bool agree_outside(const dl_axis *space, const dl_type *t, dl_index *index) {
    bool seen[DL_NOUTSIDES] = {false};
    for (int i = 0; i < t->rank; i++) {
        bool plain = index[i].outside != DL_OUT_ANY && !misses(space, t, index, i);
        if (plain) index[i].outside = DL_OUT_ZERO; /* it has no effect; equal loads compare equal */
        if (plain || !dl_outside_fills(index[i].outside)) continue;
        seen[index[i].outside == DL_OUT_EXACT ? DL_OUT_ZERO : index[i].outside] = true;
    }
    return seen[DL_OUT_ZERO] + seen[DL_OUT_LOWEST] + seen[DL_OUT_NAN] <= 1;
}

int64_t dl_fuse_part_index(const dl_node *cat, int k, int64_t start, dl_index *index) {
    int at = dl_type_axis(&cat->out[0].type, dl_node_name(cat, DL_ATTR_axis));
    index[at].offset -= start, index[at].outside = DL_OUT_ANY;
    return cat->in[k]->type.axis[at].size;
}

bool dl_fuse_through_view(const dl_axis *space, const dl_node *n, dl_index *index) {
    const dl_type *from = &n->in[0]->type, *to = &n->out[0].type;
    dl_index old[DL_MAX_RANK];
    bool through = false;
    memcpy(old, index, sizeof old);
    switch (dl_op_move(n->op)) {
    case DL_MOVE_SLICE: through = through_slice(space, n, index); break;
    case DL_MOVE_PAD: through = through_pad(space, n, index); break;
    case DL_MOVE_RENAME: through = true; break;
    case DL_MOVE_RESHAPE:
        for (int i = 0; i < from->rank; i++) index[i] = (dl_index){.axis = -1};
        through = dl_type_count(to) == 0 || through_reshape(space, from, to, old, index);
        break;
    case DL_MOVE_AFFINE: through = through_affine(space, n, old, index); break;
    case DL_MOVE_NONE: /* a source's operands are scalars */
    case DL_MOVE_NAMES: through = through_names(space, from, to, old, index); break;
    case DL_MOVE_JOIN:
    case DL_MOVE_COPY:
    case DL_MOVE_GATHER:
    case DL_MOVE_SCATTER: break; /* no views */
    }
    return through && agree_outside(space, from, index);
}

/* Where a view's operand is read when the view is read at given indices: composition of quasi-affine indices.
 */
#include "passes/fuse.h"

/* How many different values a term takes. */
static int64_t range_of(const dl_axis *space, const dl_term *t) {
    int64_t n = (space[t->axis].size + t->div - 1) / t->div;
    return t->mod && t->mod < n ? t->mod : n;
}

/* An index as a list of terms. */
static dl_index as_terms(dl_index x) {
    if (x.axis >= 0) x.term[0] = (dl_term){x.axis, 1, 0, 1}, x.nterms = 1, x.axis = -1;
    return x;
}

/* A single plain term is a plain index. */
static dl_index as_plain(const dl_axis *space, dl_index x) {
    const dl_term *t = &x.term[0];
    bool whole = x.nterms == 1 && t->div == 1 && t->mul == 1 && (!t->mod || t->mod >= space[t->axis].size);
    if (whole) x = (dl_index){.axis = t->axis, .offset = x.offset};
    return x;
}

/* Do the terms count like digits: each whole range below the step of the next? */
static bool are_digits(const dl_axis *space, const dl_index *x) {
    for (int i = 0; i < x->nterms; i++)
        for (int k = 0; k < x->nterms; k++) {
            const dl_term *low = &x->term[i], *high = &x->term[k];
            bool below = low->mul < high->mul || (low->mul == high->mul && i < k);
            if (i != k && below && range_of(space, low) * low->mul > high->mul) return false;
        }
    return x->offset == 0;
}

/* floor(x / rest) mod size (size 0: all of it); false where it is no sum of terms. */
static bool take_digits(const dl_axis *space, const dl_index *x, int64_t rest, int64_t size, dl_index *out) {
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

/* Axes [u0, u1) of the operand hold the same elements, in the same order, as axes [v0, v1) of the view. */
static bool through_group(const dl_axis *space, const dl_type *from, int u0, int u1, const dl_type *to,
                          int v0, int v1, const dl_index *old, dl_index *index) {
    dl_index flat = {.axis = -1};
    int64_t step = 1;
    for (int v = v1 - 1; v >= v0; step *= to->axis[v--].size) {
        dl_index x = as_terms(old[v]);
        flat.offset += x.offset * step;
        for (int i = 0; i < x.nterms; i++) {
            if (to->axis[v].size == 1) continue;
            if (flat.nterms == DL_MAX_TERMS) return false;
            flat.term[flat.nterms] = x.term[i];
            flat.term[flat.nterms++].mul *= step;
        }
    }
    if (u1 - u0 == 1) { /* one axis takes the sum as it is */
        index[u0] = as_plain(space, flat);
        return true;
    }
    if (!are_digits(space, &flat)) return false;
    int64_t rest = 1;
    for (int u = u1 - 1; u >= u0; rest *= from->axis[u--].size) {
        if (!take_digits(space, &flat, rest, u == u0 ? 0 : from->axis[u].size, &index[u])) return false;
        index[u] = as_plain(space, index[u]);
    }
    return true;
}

static bool through_reshape(const dl_axis *space, const dl_type *from, const dl_type *to, const dl_index *old,
                            dl_index *index) {
    int u = 0, v = 0;
    while (u < from->rank || v < to->rank) {
        int u0 = u, v0 = v;
        int64_t a = u < from->rank ? from->axis[u++].size : 1, b = v < to->rank ? to->axis[v++].size : 1;
        while (a != b) {
            if (a < b && u < from->rank)
                a *= from->axis[u++].size;
            else if (b < a && v < to->rank)
                b *= to->axis[v++].size;
            else
                return false;
        }
        if (u == u0) continue; /* what is left of the view has one element */
        if (!through_group(space, from, u0, u, to, v0, v, old, index)) return false;
    }
    return true;
}

bool dl_fuse_through_view(const dl_axis *space, const dl_node *n, dl_index *index) {
    const dl_type *from = &n->in[0]->type, *to = &n->out[0].type;
    dl_index old[DL_MAX_RANK];
    memcpy(old, index, sizeof old);
    switch (n->op) {
    case DL_OP_slice:
        index[dl_type_axis(to, dl_node_name(n, DL_ATTR_axis))].offset += dl_node_int(n, DL_ATTR_start);
        return true;
    case DL_OP_pad:
        index[dl_type_axis(to, dl_node_name(n, DL_ATTR_axis))].offset -=
            dl_node_attr(n, DL_ATTR_pad_lo)->ints[0];
        return true;
    case DL_OP_rename: return true;
    case DL_OP_reshape:
        for (int i = 0; i < from->rank; i++) index[i] = (dl_index){.axis = -1};
        return dl_type_count(to) == 0 || through_reshape(space, from, to, old, index);
    default: /* squeeze, unsqueeze, broadcast: by name; an axis the view lacks has size 1 */
        for (int i = 0; i < from->rank; i++) {
            int at = *from->axis[i].name ? dl_type_axis(to, from->axis[i].name) : -1;
            index[i] = at >= 0 ? old[at] : (dl_index){.axis = -1};
        }
        return true;
    }
}

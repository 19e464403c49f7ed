/* `rearrange`: splits axes into atoms, permutes the atoms, joins atoms into axes. The front end
 * has checked the pattern, and written it with the sizes of split axes: "n (h=45 p=8) c -> n h
 * (p c)". */
#include <ctype.h>
#include <stdlib.h>

#include "passes/lower/lower.h"

typedef struct {
    dl_type atoms; /* in order */
    int group[DL_MAX_RANK], groups;
} side;

/* Parses one side of the pattern up to `end`. An atom that is a whole axis has its size from
 * `whole`, or from the other side. */
static bool parse_side(const char *s, const char *end, const dl_type *whole, const dl_type *known,
                       side *out) {
    *out = (side){.atoms = dl_scalar(DL_F32)};
    bool inside = false;
    while (s < end) {
        if (*s == '(' || *s == ')' || *s == ' ') {
            inside = *s == '(' || (inside && *s != ')');
            out->groups += *s == ')';
            s++;
            continue;
        }
        const char *from = s;
        while (s < end && (isalnum((unsigned char)*s) || *s == '_')) s++;
        if (s == from || out->atoms.rank == DL_MAX_RANK) return false;
        const char *name =
            dl_internf("%.*s'", (int)(s - from), from); /* no axis of a model has such a name */
        int64_t size = -1;
        if (s < end && *s == '=') size = strtoll(s + 1, (char **)&s, 10);
        if (size < 0 && known) {
            int at = dl_type_axis(known, name);
            size = at >= 0 ? known->axis[at].size : -1;
        }
        if (size < 0 && whole && !inside && out->groups < whole->rank)
            size = whole->axis[out->groups].size;
        if (size < 0) return false;
        out->group[out->atoms.rank] = out->groups;
        out->atoms.axis[out->atoms.rank++] = (dl_axis){name, size};
        out->groups += !inside;
    }
    return true;
}

static dl_value *retype(dl_builder *b, dl_op op, dl_value *v, dl_type t) {
    t.dtype = v->type.dtype;
    return dl_build_as(b, op, 1, &v, 0, NULL, t);
}

dl_value *dl_lower_rearrange(dl_builder *b, const dl_node *n) {
    const char *pattern = dl_node_attr(n, DL_ATTR_pattern)->s, *arrow = strstr(pattern, "->");
    dl_value *x = n->in[0];
    side left, right;
    if (!arrow || !parse_side(pattern, arrow, &x->type, NULL, &left) ||
        !parse_side(arrow + 2, pattern + strlen(pattern), NULL, &left.atoms, &right) ||
        left.atoms.rank != right.atoms.rank ||
        dl_type_count(&left.atoms) != dl_type_count(&x->type) ||
        dl_type_count(&right.atoms) != dl_type_count(&n->out[0].type))
        return NULL; /* a hand-written graph without a valid pattern: the op stays, and a later pass
                        refuses it */
    dl_value *atoms =
        retype(b, left.groups == left.atoms.rank ? DL_OP_rename : DL_OP_reshape, x, left.atoms);
    dl_value *permuted = retype(b, DL_OP_broadcast, atoms, right.atoms);
    return retype(b, right.groups == right.atoms.rank ? DL_OP_rename : DL_OP_reshape, permuted,
                  n->out[0].type);
}

/* Splits or joins axes, each of which is an affine index of a kernel. Where several axes become
 * several others, and none is a part of another, they are joined into one axis in between. */
dl_value *dl_lower_reshape(dl_builder *b, const dl_node *n) {
    const dl_type *from = &n->in[0]->type, *to = &n->out[0].type;
    dl_type between = dl_scalar(from->dtype);
    bool many = false;
    if (!dl_type_count(from)) return NULL;
    for (int u = 0, v = 0; u < from->rank || v < to->rank;) {
        int u0 = u, v0 = v;
        int64_t a = u < from->rank ? from->axis[u++].size : 1,
                c = v < to->rank ? to->axis[v++].size : 1;
        while (a != c) {
            if (a < c)
                a *= from->axis[u++].size;
            else
                c *= to->axis[v++].size;
        }
        many = many || (u - u0 > 1 && v - v0 > 1);
        dl_type_push(&between, dl_internf("%d'", between.rank),
                     a); /* no axis of a model has such a name */
    }
    return many ? retype(b, DL_OP_reshape, retype(b, DL_OP_reshape, n->in[0], between), *to) : NULL;
}

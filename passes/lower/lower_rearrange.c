/* `rearrange`: splits axes into atoms, permutes the atoms, joins atoms into axes. The front end
 * has checked the pattern, and written it with the sizes of split axes: "n (h=45 p=8) c -> n h
 * (p c)". */
#include <ctype.h>
#include <stdlib.h>

#include "passes/lower/lower.h"

enum { MOVED = 3 /* runs of atoms at a time */ };

typedef struct {
    int n, groups;
    const char *name[DL_MAX_ATOMS]; /* interned */
    int64_t size[DL_MAX_ATOMS];
} side;

static int find_atom(const side *s, const char *name) {
    int i = 0;
    while (i < s->n && s->name[i] != name) i++;
    return i < s->n ? i : -1;
}

/* Parses one side of the pattern up to `end`. An atom that is a whole axis has its size from
 * `whole`, or from the other side. */
static bool parse_side(const char *s, const char *end, const dl_type *whole, const side *known,
                       side *out) {
    *out = (side){0};
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
        if (s == from || out->n == DL_MAX_ATOMS) return false;
        const char *name =
            dl_internf("%.*s'", (int)(s - from), from); /* no axis of a model has such a name */
        int64_t size = -1;
        if (s < end && *s == '=') size = strtoll(s + 1, (char **)&s, 10);
        if (size < 0 && known) {
            int at = find_atom(known, name);
            size = at >= 0 ? known->size[at] : -1;
        }
        if (size < 0 && whole && !inside && out->groups < whole->rank)
            size = whole->axis[out->groups].size;
        if (size < 0) return false;
        out->name[out->n] = name, out->size[out->n++] = size;
        out->groups += !inside;
    }
    return true;
}

/* Are they the same atoms, each once? */
static bool is_permutation(const side *left, const side *right) {
    bool found[DL_MAX_ATOMS] = {0};
    for (int i = 0; i < right->n; i++) {
        const int at = find_atom(left, right->name[i]);
        if (at < 0 || found[at]) return false;
        found[at] = true;
    }
    return left->n == right->n;
}

static int64_t count_of(const side *s) {
    int64_t all = 1;
    for (int i = 0; i < s->n; i++) all *= s->size[i];
    return all;
}

static dl_value *retype(dl_builder *b, dl_op op, dl_value *v, dl_type t) {
    t.dtype = v->type.dtype;
    return dl_build_as(b, op, 1, &v, 0, NULL, t);
}

static dl_type type_of(const side *s) {
    dl_type t = dl_scalar(DL_F32);
    for (int i = 0; i < s->n; i++) dl_type_push(&t, s->name[i], s->size[i]);
    return t;
}

/* Atoms that stay next to each other: places `from` to `end` of the present order. */
typedef struct {
    int from, end;
} run;

/* Cuts the places from `done` on, and those in front of them as one, at the bounds of `moved`. */
static int cut(const run *moved, int n, int done, int places, run *all) {
    int count = 0;
    if (done) all[count++] = (run){0, done};
    for (int at = done; at < places;) {
        int end = places;
        for (int i = 0; i < n; i++) {
            if (moved[i].from == at) end = moved[i].end;
            if (moved[i].from > at && moved[i].from < end) end = moved[i].from;
        }
        all[count++] = (run){at, end}, at = end;
    }
    return count;
}

/* The order of atoms with the runs after the first `done` places. */
static void bring_forward(int *at, int places, const run *moved, int n, int done) {
    int old[DL_MAX_ATOMS], to = done;
    bool gone[DL_MAX_ATOMS] = {0};
    memcpy(old, at, (size_t)places * sizeof *at);
    for (int i = 0; i < n; i++)
        for (int k = moved[i].from; k < moved[i].end; k++) at[to++] = old[k], gone[k] = true;
    for (int k = done; k < places; k++)
        if (!gone[k]) at[to++] = old[k];
}

/* The runs of the present order that are to come next, after the first `done` places: how many, and
 * *next, the place after them in the wanted order. */
static int find_runs(const int *at, const int *want, int places, int done, run *moved, int *next) {
    int n = 0;
    for (*next = done; n < MOVED && *next < places; n++) {
        int from = done, end;
        while (at[from] != want[*next]) from++;
        for (end = from; end < places && *next < places && at[end] == want[*next]; end++) ++*next;
        moved[n] = (run){from, end};
    }
    return n;
}

/* One axis for each run of the present order. */
static dl_type joined(const side *s, const int *at, const run *all, int runs) {
    dl_type t = dl_scalar(DL_F32);
    for (int i = 0; i < runs; i++) {
        int64_t size = 1;
        for (int k = all[i].from; k < all[i].end; k++) size *= s->size[at[k]];
        dl_type_push(&t, dl_internf("%d'", i), size);
    }
    return t;
}

/* More atoms than a tensor has axes: each step brings the next runs of the result to their places,
 * and has what lies in front, between and after them as one axis each, eight in all. */
static dl_value *permute_in_steps(dl_builder *b, dl_value *x, const side *left, const side *right) {
    int at[DL_MAX_ATOMS], want[DL_MAX_ATOMS], done = 0, next;
    for (int i = 0; i < left->n; i++) at[i] = i, want[i] = find_atom(left, right->name[i]);
    for (;; done = next) {
        while (done < left->n && at[done] == want[done]) done++;
        if (done == left->n) return x;
        run moved[MOVED], all[DL_MAX_RANK];
        const int n = find_runs(at, want, left->n, done, moved, &next),
                  runs = cut(moved, n, done, left->n, all);
        const dl_type from = joined(left, at, all, runs);
        dl_type to = dl_scalar(DL_F32);
        if (done) to.axis[to.rank++] = from.axis[0];
        for (int i = 0; i < n; i++)
            for (int g = 0; g < runs; g++)
                if (all[g].from == moved[i].from) to.axis[to.rank++] = from.axis[g];
        for (int g = 0; g < runs; g++)
            if (dl_type_axis(&to, from.axis[g].name) < 0) to.axis[to.rank++] = from.axis[g];
        x = retype(b, DL_OP_broadcast, retype(b, DL_OP_reshape, x, from), to);
        bring_forward(at, left->n, moved, n, done);
    }
}

dl_value *dl_lower_rearrange(dl_builder *b, const dl_node *n) {
    const char *pattern = dl_node_attr(n, DL_ATTR_pattern)->s, *arrow = strstr(pattern, "->");
    dl_value *x = n->in[0];
    side left, right;
    if (!arrow || !parse_side(pattern, arrow, &x->type, NULL, &left) ||
        !parse_side(arrow + 2, pattern + strlen(pattern), NULL, &left, &right) ||
        !is_permutation(&left, &right) || count_of(&left) != dl_type_count(&x->type) ||
        count_of(&right) != dl_type_count(&n->out[0].type))
        return NULL; /* a hand-written graph without a valid pattern: the op stays, and a later pass
                        refuses it */
    if (left.n > DL_MAX_RANK)
        return retype(b, DL_OP_reshape, permute_in_steps(b, x, &left, &right), n->out[0].type);
    dl_value *atoms =
        retype(b, left.groups == left.n ? DL_OP_rename : DL_OP_reshape, x, type_of(&left));
    dl_value *permuted = retype(b, DL_OP_broadcast, atoms, type_of(&right));
    return retype(b, right.groups == right.n ? DL_OP_rename : DL_OP_reshape, permuted,
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

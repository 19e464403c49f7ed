/* Rules of ops that move elements without indices, and of contractions by names. */
#include <ctype.h>
#include <stdlib.h>

#include "exports/pytorch/parts.h"

/* "[:, :, WHAT]" */
static torch_text indexed(torch_export *t, torch_text x, int axis, const char *what) {
    const char *s = "";
    for (int i = 0; i < axis; i++) s = dl_format(t->arena, "%s:, ", s);
    return dl_torch_atom(t, "%s[%s%s]", dl_torch_within(t, x, TORCH_ATOM), s, what);
}

/* The axis of the attribute `axis` in the first operand. */
static int axis_of(const dl_node *n) {
    return dl_type_axis(&n->in[0]->type, dl_node_name(n, DL_ATTR_axis));
}

torch_text dl_torch_broadcast(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const dl_type *from = &n->in[0]->type, *to = &n->out[0].type;
    torch_text x = dl_torch_aligned(t, n, 0, to);
    if (x.is_number)
        return dl_torch_atom(t, "torch.full((%s%s), %s, dtype=%s, device=%s)",
                             dl_torch_shape(t, &n->out[0]), to->rank == 1 ? "," : "", x.s,
                             dl_torch_dtype(to->dtype), t->device);
    const char *sizes = "";
    bool grows = false;
    for (int i = 0; i < to->rank; i++) {
        bool has =
            *to->axis[i].name ? dl_type_axis(from, to->axis[i].name) >= 0 : to->axis[i].size == 1;
        grows |= !has || from->rank < to->rank;
        sizes =
            dl_format(t->arena, "%s%s%s", sizes, i ? ", " : "", dl_torch_size(t, &n->out[0], i));
    }
    if (!grows) return x;
    return dl_torch_atom(t, "%s.expand(%s)", dl_torch_within(t, x, TORCH_ATOM), sizes);
}

/* The range of a slice: "1:3"; NULL: all of the axis. */
static const char *range_of(torch_export *t, const dl_node *n, int axis) {
    const dl_node *next = dl_torch_next(t, n);
    if (!next) next = n;
    int64_t start = dl_node_int(n, DL_ATTR_start), stop = dl_node_int(n, DL_ATTR_stop),
            start2 = dl_node_int(next, DL_ATTR_start), stop2 = dl_node_int(next, DL_ATTR_stop);
    bool first = !start && !start2, last = stop == n->in[0]->type.axis[axis].size &&
                                           stop2 == next->in[0]->type.axis[axis].size;
    if (first && last) return NULL;
    return dl_format(t->arena, "%s:%s", first ? "" : dl_torch_count(t, start, start2),
                     last ? "" : dl_torch_count(t, stop, stop2));
}

torch_text dl_torch_slice(torch_export *t, const dl_node *n, const char *word) {
    int axis = axis_of(n);
    const char *range = range_of(t, n, axis);
    return range ? indexed(t, dl_torch_tensor(t, n, 0), axis, range) : dl_torch_same(t, n, word);
}

/* One element, x[:, 2], where nobody else reads the slice. */
torch_text dl_torch_squeeze(torch_export *t, const dl_node *n, const char *word) {
    const dl_node *from = n->in[0]->def;
    torch_text x = dl_torch_tensor(t, n, 0);
    int axis = axis_of(n);
    const dl_node *next = from ? dl_torch_next(t, from) : NULL;
    bool one = from && from->op == DL_OP_slice && !x.is_name && axis_of(from) == axis;
    if (one && next)
        one = dl_node_int(from, DL_ATTR_start) == dl_node_int(next, DL_ATTR_start) &&
              dl_node_int(from, DL_ATTR_stop) == dl_node_int(next, DL_ATTR_stop);
    if (!one || !range_of(t, from, axis)) return dl_torch_say(t, n, word);
    return indexed(t, dl_torch_tensor(t, from, 0), axis,
                   dl_format(t->arena, "%lld", (long long)dl_node_int(from, DL_ATTR_start)));
}

torch_text dl_torch_pad(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    return dl_torch_padded(t, dl_torch_tensor(t, n, 0), n->in[0]->type.rank - 1 - axis_of(n),
                           dl_node_attr(n, DL_ATTR_pad_lo)->ints[0],
                           dl_node_attr(n, DL_ATTR_pad_hi)->ints[0]);
}

torch_text dl_torch_padded(torch_export *t, torch_text x, int after, int64_t lo, int64_t hi) {
    const char *zeros = "";
    for (int i = 0; i < after; i++) zeros = dl_format(t->arena, "%s0, 0, ", zeros);
    return dl_torch_atom(t, "F.pad(%s, (%s%lld, %lld))", x.s, zeros, (long long)lo, (long long)hi);
}

torch_text dl_torch_cat(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const char *s = "";
    for (int i = 0; i < n->nin; i++)
        s = dl_format(t->arena, "%s%s%s", s, i ? ", " : "", dl_torch_tensor(t, n, i).s);
    return dl_torch_atom(t, "torch.cat([%s], dim=%d)", s, axis_of(n));
}

torch_text dl_torch_reshape(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const dl_value *x = n->in[0], *y = &n->out[0];
    torch_text v = dl_torch_tensor(t, n, 0);
    const char *s = dl_torch_within(t, v, TORCH_ATOM);
    if (y->type.rank == 2 && x->type.rank > 2 && x->type.axis[0].size == y->type.axis[0].size &&
        dl_torch_varies(t, x, 0) && dl_torch_varies(t, y, 0) && !dl_torch_varies(t, y, 1))
        return dl_torch_atom(t, "%s.flatten(1)", s);
    return dl_torch_atom(t, "%s.reshape(%s)", s, y->type.rank ? dl_torch_shape(t, y) : "()");
}

/* ---- rearrange ---- */

/* One side of a pattern: atoms in order, and how many axes they make. */
typedef struct {
    const char *name[DL_MAX_RANK];
    int64_t size[DL_MAX_RANK]; /* -1: that of the whole axis */
    int axis[DL_MAX_RANK];
    int n, axes;
} side;

static bool read_side(torch_export *t, const char *s, const char *end, side *out) {
    bool inside = false;
    *out = (side){.n = 0};
    while (s < end) {
        if (!isalnum((unsigned char)*s) && *s != '_') {
            inside = *s == '(' || (inside && *s != ')');
            out->axes += *s++ == ')';
            continue;
        }
        const char *from = s;
        while (s < end && (isalnum((unsigned char)*s) || *s == '_')) s++;
        if (out->n == DL_MAX_RANK) return false;
        out->name[out->n] = dl_strndup(t->arena, from, (size_t)(s - from));
        out->size[out->n] = *s == '=' ? strtoll(s + 1, (char **)&s, 10) : -1;
        out->axis[out->n++] = out->axes;
        out->axes += !inside;
    }
    return true;
}

static bool read_pattern(torch_export *t, const dl_node *n, side *left, side *right) {
    const char *p = dl_node_attr(n, DL_ATTR_pattern)->s, *arrow = strstr(p, "->");
    if (!arrow || !read_side(t, p, arrow, left) || !read_side(t, arrow + 2, p + strlen(p), right) ||
        left->n != right->n)
        return false;
    for (int i = 0; i < left->n; i++)
        if (left->size[i] < 0) left->size[i] = n->in[0]->type.axis[left->axis[i]].size;
    return true;
}

torch_text dl_torch_rearrange(torch_export *t, const dl_node *n, const char *word) {
    side left, right, left2, right2;
    const dl_node *next = dl_torch_next(t, n);
    if (!read_pattern(t, n, &left, &right) || !read_pattern(t, next ? next : n, &left2, &right2) ||
        left2.n != left.n)
        return dl_torch_refuse(t, n, word);
    const char *s = dl_torch_within(t, dl_torch_tensor(t, n, 0), TORCH_ATOM), *sizes = "",
               *order = "";
    bool sorted = true;
    for (int i = 0; i < left.n; i++) {
        int at = 0;
        while (at < left.n && strcmp(left.name[at], right.name[i]) != 0) at++;
        sorted &= at == i;
        order = dl_format(t->arena, "%s%s%d", order, i ? ", " : "", at);
        sizes = dl_format(t->arena, "%s%s%s", sizes, i ? ", " : "",
                          dl_torch_count(t, left.size[i], left2.size[i]));
    }
    if (left.axes < left.n) s = dl_format(t->arena, "%s.reshape(%s)", s, sizes);
    if (!sorted) s = dl_format(t->arena, "%s.permute(%s)", s, order);
    if (right.axes < right.n)
        s = dl_format(t->arena, "%s.reshape(%s)", s, dl_torch_shape(t, &n->out[0]));
    return dl_torch_atom(t, "%s", s);
}

/* ---- contract ---- */

/* A letter for each axis: its own where that is free. */
static char letter(const char **names, char *letters, int *n, const char *name) {
    for (int i = 0; i < *n; i++)
        if (names[i] == name) return letters[i];
    char c = isalpha((unsigned char)*name) ? (char)tolower((unsigned char)*name) : 'a';
    while (memchr(letters, c, (size_t)*n)) c = c == 'z' ? 'a' : (char)(c + 1);
    names[*n] = name, letters[(*n)++] = c;
    return c;
}

/* einsum's letters of both operands and the result, without their last `but` axes. */
static const char *letters_of(torch_export *t, const dl_node *n, int but) {
    const dl_type *types[] = {&n->in[0]->type, &n->in[1]->type, &n->out[0].type};
    const char *names[2 * DL_MAX_RANK + 1];
    char letters[2 * DL_MAX_RANK + 1], text[3][DL_MAX_RANK + 1];
    int count = 0;
    for (int k = 0; k < 3; k++) {
        int rank = types[k]->rank - but;
        for (int i = 0; i < rank; i++)
            text[k][i] = letter(names, letters, &count, types[k]->axis[i].name);
        text[k][rank] = 0;
    }
    return dl_format(t->arena, "%s,%s->%s", text[0], text[1], text[2]);
}

torch_text dl_torch_contract(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    return dl_torch_atom(t, "torch.einsum(\"%s\", %s, %s)", letters_of(t, n, 0),
                         dl_torch_tensor(t, n, 0).s, dl_torch_tensor(t, n, 1).s);
}

torch_text dl_torch_complex_contract(torch_export *t, const dl_node *n, const char *word) {
    const int64_t *conj = dl_node_attr(n, DL_ATTR_conj)->ints;
    const char *in[2];
    (void)word;
    for (int i = 0; i < 2; i++)
        in[i] = dl_format(t->arena, "torch.view_as_complex(%s.contiguous())%s",
                          dl_torch_within(t, dl_torch_tensor(t, n, i), TORCH_ATOM),
                          conj[i] ? ".conj()" : "");
    return dl_torch_atom(t, "torch.view_as_real(torch.einsum(\"%s\", %s, %s))", letters_of(t, n, 1),
                         in[0], in[1]);
}

/* Reductions, and ops along one axis. */
#include "imports/onnx/parts.h"

bool dl_ox_reduce(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape from = dl_ox_shape_of(x), s = {0};
    int64_t axes[DL_FOREIGN_RANK], dims[DL_FOREIGN_RANK];
    int n = dl_ox_ints(o, 1, "axes", DL_FOREIGN_RANK, axes), count = 0;
    bool keep = dl_ox_int(o->n, "keepdims", 1);
    if (n < -1) return false;
    if (n <= 0 && dl_ox_int(o->n, "noop_with_empty_axes", 0)) return dl_ox_alias(o, x);
    for (int d = 0; d < from.rank; d++) {
        bool gone = n <= 0;
        for (int k = 0; k < n; k++) gone = gone || dl_ox_dim(axes[k], from.rank) == d;
        if (gone) dims[count++] = d;
        if (!gone || keep) s.size[s.rank++] = gone ? 1 : from.size[d];
    }
    for (int k = 0; k < n; k++)
        if (dl_ox_dim(axes[k], from.rank) < 0) return dl_ox_bad(o->r, "its axis is out of range");
    const char *op = o->detail;
    double order = 0;
    if (!strcmp(op, "square")) {
        dl_ox_arg_tensor(o, "self", x);
        if (!(x = dl_ox_make(o, "aten.square.default", NULL, &from, x))) return false;
        op = "aten.sum.dim_IntList";
    } else if (!strncmp(op, "norm ", 5)) {
        order = op[5] - '0';
        op = "aten.linalg_vector_norm.default";
    }
    dl_ox_arg_tensor(o, "self", x);
    if (order > 0) dl_ox_arg_real(o, "ord", order);
    dl_ox_arg_ints(o, "dim", count, dims), dl_ox_arg_int(o, "keepdim", keep);
    return dl_ox_make(o, op, o->n->out[0], &s, x);
}

bool dl_ox_argmax(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape from = dl_ox_shape_of(x), s = {0};
    int axis = dl_ox_dim(dl_ox_int(o->n, "axis", 0), from.rank);
    bool keep = dl_ox_int(o->n, "keepdims", 1);
    if (axis < 0 || dl_ox_int(o->n, "select_last_index", 0)) return false;
    for (int d = 0; d < from.rank; d++)
        if (d != axis || keep) s.size[s.rank++] = d == axis ? 1 : from.size[d];
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_int(o, "dim", axis);
    dl_ox_arg_int(o, "keepdim", keep);
    return dl_ox_make_as(o, o->detail, o->n->out[0], &s, DL_FOREIGN_INT, DLR_ST_I64);
}

bool dl_ox_softmax(dl_ox_op *o) {
    dl_ox_shape s = dl_ox_shape_of(o->n->in[0]);
    int axis = dl_ox_dim(dl_ox_int(o->n, "axis", -1), s.rank);
    if (axis < 0) return false;
    dl_ox_arg_tensor(o, "self", o->n->in[0]), dl_ox_arg_int(o, "dim", axis);
    return dl_ox_make(o, o->detail, o->n->out[0], &s, o->n->in[0]);
}

bool dl_ox_cumsum(dl_ox_op *o) {
    dl_ox_shape s = dl_ox_shape_of(o->n->in[0]);
    double axis;
    if (!dl_ox_in(o, 1) || !dl_ox_number(o->r, o->n->in[1], &axis) ||
        dl_ox_dim((int64_t)axis, s.rank) < 0)
        return false;
    dl_ox_arg_tensor(o, "self", o->n->in[0]);
    dl_ox_arg_int(o, "dim", dl_ox_dim((int64_t)axis, s.rank));
    dl_ox_arg_int(o, "exclusive", dl_ox_int(o->n, "exclusive", 0)); /* PyTorch has neither */
    dl_ox_arg_int(o, "reverse", dl_ox_int(o->n, "reverse", 0));
    return dl_ox_make(o, "aten.cumsum.default", o->n->out[0], &s, o->n->in[0]);
}

/* The equation with letters in place of "...": as many as an operand's axes leave, the last ones of
 * eight that it does not have. NULL: an operand has too few axes, or the result is not said. */
static const char *spelled(dl_ox_op *o, const char *equation) {
    char spare[DL_FOREIGN_RANK + 1] = {0};
    dl_buf out = {0};
    int n = 0, most = 0, operand = 0, left = 0;
    bool fits = strstr(equation, "->");
    for (char c = 'A'; c <= 'Z' && n < DL_FOREIGN_RANK; c++)
        if (!strchr(equation, c)) spare[n++] = c;
    for (const char *at = equation; *at && fits; at++) {
        bool begins = at == equation || at[-1] == ',' || at[-1] == '>';
        if (begins && operand < o->n->n_in) { /* letters of this operand */
            size_t end = strcspn(at, ",-");
            left = o->n->in[operand] ? o->n->in[operand]->t->rank : 0;
            for (size_t i = 0; i < end; i++) left -= at[i] != ' ' && at[i] != '.';
            operand++;
        } else if (begins)
            left = most;
        if (*at != '.') {
            dl_putf(&out, "%c", *at);
            continue;
        }
        fits = !strncmp(at, "...", 3) && left >= 0 && left <= n;
        if (fits) dl_puts(&out, spare + n - left);
        if (left > most) most = left;
        at += fits ? 2 : 0;
    }
    const char *made = fits ? dl_strdup(o->r->arena, out.at) : NULL;
    dl_buf_free(&out);
    return made;
}

/* With an arrow, and letters of one size each. */
bool dl_ox_einsum(dl_ox_op *o) {
    const char *equation = spelled(o, dl_ox_word(o->n, "equation", "")),
               *arrow = equation ? strstr(equation, "->") : NULL;
    int64_t size[128] = {0};
    dl_ox_shape s = {0};
    const char *at = equation;
    if (!arrow) return false;
    for (int i = 0; i < o->n->n_in; i++) {
        const dl_foreign_tensor *t = o->n->in[i] ? o->n->in[i]->t : NULL;
        int d = 0;
        for (; at < arrow && *at != ','; at++) {
            if (*at == ' ') continue;
            unsigned char letter = (unsigned char)*at;
            if (!t || d == t->rank || letter >= 128) return false;
            if (size[letter] && size[letter] != t->shape[d] && size[letter] != 1 &&
                t->shape[d] != 1)
                return dl_ox_bad(o->r, "letter '%c' has two sizes", *at);
            if (size[letter] < t->shape[d]) size[letter] = t->shape[d];
            d++;
        }
        if (!t || d != t->rank) return false;
        at += at < arrow;
    }
    for (at = arrow + 2; *at; at++) {
        if (*at == ' ') continue;
        if (s.rank == DL_FOREIGN_RANK || (unsigned char)*at >= 128 || !size[(unsigned char)*at])
            return false;
        s.size[s.rank++] = size[(unsigned char)*at];
    }
    dl_ox_arg_text(o, "equation", equation);
    dl_ox_arg_tensors(o, "tensors", o->n->n_in, o->n->in);
    return dl_ox_make(o, "aten.einsum.default", o->n->out[0], &s, o->n->in[0]);
}

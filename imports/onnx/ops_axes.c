/* Ops that move, cut and join axes. */
#include "imports/onnx/parts.h"

static dl_ox_value *shaped(dl_ox_op *o, dl_ox_value *x, dl_ox_value *to, const dl_ox_shape *s) {
    dl_ox_arg_tensor(o, "self", x);
    return dl_ox_make(o, "aten.reshape.default", to, s, x);
}

/* Sizes that a file states for its own batch, for any batch: the first one, or a multiple of it in
 * a shape that has as many elements then. */
static void free_batch(const dl_ox *r, const dl_ox_shape *x, dl_ox_shape *s) {
    if (!r->baked || !s->rank || !x->rank || x->size[0] % DL_OX_BATCH || s->size[0] < 1) return;
    int64_t stated = s->size[0], times = stated / r->baked;
    bool whole = true;
    if (stated % r->baked || times > 1 << 20) return;
    for (int d = 1; d < s->rank; d++) whole = whole && s->size[d] > 0;
    s->size[0] = times * DL_OX_BATCH;
    if (stated == r->baked && x->size[0] == DL_OX_BATCH) return;
    if (!whole || dl_ox_count(s) != dl_ox_count(x)) s->size[0] = stated;
}

bool dl_ox_reshape(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape from = dl_ox_shape_of(x), s = {0};
    int64_t sizes[DL_FOREIGN_RANK], left = dl_ox_count(&from);
    int n = dl_ox_ints(o, 1, NULL, DL_FOREIGN_RANK, sizes), open = -1;
    bool zero = dl_ox_int(o->n, "allowzero", 0);
    if (n < 0) return false;
    for (int d = 0; d < n; d++)
        s.size[s.rank++] = sizes[d] == 0 && !zero && d < from.rank ? from.size[d] : sizes[d];
    free_batch(o->r, &from, &s);
    for (int d = 0; d < n; d++) {
        if (s.size[d] == -1 && open < 0)
            open = d;
        else if (s.size[d] < 0)
            return dl_ox_bad(o->r, "its shape has the size %lld", (long long)s.size[d]);
        else if (s.size[d] && left % s.size[d] == 0)
            left /= s.size[d];
        else if (left)
            left = -1;
        if (left < 0) break;
    }
    if (open >= 0 && left > 0) s.size[open] = left, left = 1;
    if (left < 0 || dl_ox_count(&s) != dl_ox_count(&from))
        return dl_ox_bad(o->r, "it does not keep the number of elements%s",
                         o->r->baked ? " for another batch than the file's" : "");
    return shaped(o, x, o->n->out[0], &s);
}

bool dl_ox_flatten(dl_ox_op *o) {
    dl_ox_shape from = dl_ox_shape_of(o->n->in[0]), s = {.rank = 2, .size = {1, 1}};
    int64_t axis = dl_ox_int(o->n, "axis", 1);
    if (axis < 0) axis += from.rank;
    if (axis < 0 || axis > from.rank) return false;
    for (int d = 0; d < from.rank; d++) s.size[d >= axis] *= from.size[d];
    return shaped(o, o->n->in[0], o->n->out[0], &s);
}

bool dl_ox_squeeze(dl_ox_op *o) {
    dl_ox_shape from = dl_ox_shape_of(o->n->in[0]), s;
    return dl_ox_squeezed(o, &from, &s) && shaped(o, o->n->in[0], o->n->out[0], &s);
}

bool dl_ox_unsqueeze(dl_ox_op *o) {
    dl_ox_shape from = dl_ox_shape_of(o->n->in[0]), s;
    return dl_ox_unsqueezed(o, &from, &s) && shaped(o, o->n->in[0], o->n->out[0], &s);
}

bool dl_ox_transpose(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape from = dl_ox_shape_of(x), s = from;
    const dl_ox_attr *perm = dl_ox_attribute(o->n, "perm");
    int64_t dims[DL_FOREIGN_RANK];
    unsigned seen = 0;
    for (int d = 0; d < s.rank; d++) {
        dims[d] = perm && perm->n_ints == s.rank ? perm->ints[d] : s.rank - 1 - d;
        if (dims[d] < 0 || dims[d] >= s.rank || seen >> dims[d] & 1)
            return dl_ox_bad(o->r, "its perm is none");
        seen |= 1u << dims[d], s.size[d] = from.size[dims[d]];
    }
    dl_ox_value *to = o->n->out[0];
    if (x->stored && s.rank == 2 && dims[0] == 1) to->turned = x;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_ints(o, "dims", s.rank, dims);
    return dl_ox_make(o, "aten.permute.default", to, &s, x);
}

bool dl_ox_expand(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape from = dl_ox_shape_of(x), s = {0};
    int64_t sizes[DL_FOREIGN_RANK];
    int n = dl_ox_ints(o, 1, NULL, DL_FOREIGN_RANK, sizes);
    if (n < 0) return false;
    for (int d = 0; d < n; d++) s.size[s.rank++] = sizes[d];
    free_batch(o->r, &from, &s);
    if (!dl_ox_broadcast(&from, &s, &s)) return dl_ox_bad(o->r, "it cannot have that shape");
    dl_ox_arg_tensor(o, "self", x);
    return dl_ox_make(o, "aten.expand.default", o->n->out[0], &s, x);
}

/* The first row of a constant whose rows are all equal: exporters repeat a token for the batch that
 * the file states. NULL: it is none of those. */
static dl_ox_value *first_row(dl_ox_op *o, dl_ox_value *v) {
    const double *known = dl_ox_known(o->r, v);
    dl_ox_shape s = dl_ox_shape_of(v);
    int64_t rows = s.size[0], width = known && rows > 0 ? dl_foreign_count(v->t) / rows : 0;
    if (width < 1 || v->other) return NULL;
    for (int64_t i = width; i < rows * width; i++)
        if (known[i] != known[i - width]) return NULL;
    double *numbers = DL_NEWS(o->r->arena, double, width);
    memcpy(numbers, known, (size_t)width * sizeof *numbers);
    dl_ox_value *row = DL_NEW(o->r->arena, dl_ox_value);
    *row = (dl_ox_value){.name = v->name, .by = -1};
    s.size[0] = 1;
    dl_ox_hold(o->r, row, &s, v->t->class, v->t->dtype, numbers);
    return row;
}

bool dl_ox_concat(dl_ox_op *o) {
    const dl_ox_node *n = o->n;
    dl_ox_shape s = dl_ox_shape_of(n->in[0]);
    int axis = dl_ox_dim(dl_ox_int(n, "axis", 0), s.rank);
    if (axis < 0) return false;
    dl_ox_value **list = DL_NEWS(o->r->arena, dl_ox_value *, n->n_in);
    for (int i = 0; i < n->n_in; i++) { /* the batch, where one of them has it */
        if (!(list[i] = n->in[i]) || list[i]->t->rank != s.rank)
            return dl_ox_bad(o->r, "its operands have other ranks");
        if (axis > 0 && list[i]->t->shape[0] == DL_OX_BATCH) s.size[0] = DL_OX_BATCH;
    }
    s.size[axis] = 0;
    for (int i = 0; i < n->n_in; i++) {
        dl_ox_shape own = dl_ox_shape_of(list[i]);
        if (axis > 0 && o->r->baked && own.size[0] == o->r->baked && s.size[0] == DL_OX_BATCH) {
            dl_ox_value *row = own.size[0] == 1 ? list[i] : first_row(o, list[i]);
            if (!row) return dl_ox_bad(o->r, "it has numbers for the file's own batch");
            own.size[0] = DL_OX_BATCH;
            dl_ox_arg_tensor(o, "self", row);
            if (!(list[i] = dl_ox_make(o, "aten.expand.default", NULL, &own, n->in[i])))
                return false;
        }
        for (int d = 0; d < s.rank; d++)
            if (d != axis && own.size[d] != s.size[d])
                return dl_ox_bad(o->r, "its operands have other sizes along axis %d", d);
        s.size[axis] += own.size[axis];
    }
    dl_ox_arg_tensors(o, "tensors", n->n_in, list), dl_ox_arg_int(o, "dim", axis);
    return dl_ox_make(o, "aten.cat.default", n->out[0], &s, n->in[0]);
}

bool dl_ox_split(dl_ox_op *o) {
    const dl_ox_node *n = o->n;
    dl_ox_value *x = n->in[0];
    dl_ox_shape *s = DL_NEWS(o->r->arena, dl_ox_shape, n->n_out);
    int64_t *sizes = DL_NEWS(o->r->arena, int64_t, n->n_out + 1), left;
    int axis = dl_ox_dim(dl_ox_int(n, "axis", 0), x->t->rank);
    int given = dl_ox_ints(o, 1, NULL, n->n_out, sizes);
    if (axis < 0 || given == -2 || (given >= 0 && given != n->n_out)) return false;
    left = x->t->shape[axis];
    int64_t each = (left + n->n_out - 1) / n->n_out;
    for (int i = 0; i < n->n_out; i++) {
        if (!n->out[i]) return false;
        if (given < 0) sizes[i] = each < left ? each : left;
        s[i] = dl_ox_shape_of(x), s[i].size[axis] = sizes[i], left -= sizes[i];
        if (sizes[i] < 0 || left < 0) return dl_ox_bad(o->r, "its parts are not the whole");
    }
    if (left) return dl_ox_bad(o->r, "its parts are not the whole");
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_ints(o, "split_sizes", n->n_out, sizes);
    dl_ox_arg_int(o, "dim", axis);
    return dl_ox_make_all(o, "aten.split_with_sizes.default", s, x);
}

bool dl_ox_slice(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape s = dl_ox_shape_of(x);
    enum { MOST = DL_FOREIGN_RANK };
    int64_t from[MOST], to[MOST], axes[MOST], steps[MOST];
    int n = dl_ox_ints(o, 1, NULL, MOST, from), given = dl_ox_ints(o, 3, NULL, MOST, axes),
        strides = dl_ox_ints(o, 4, NULL, MOST, steps);
    if (n < 0 || dl_ox_ints(o, 2, NULL, MOST, to) != n || (given != n && given != -1) ||
        (strides != n && strides != -1))
        return false;
    if (n == 0) return dl_ox_alias(o, x);
    for (int k = 0; k < n; k++) {
        int d = dl_ox_dim(given < 0 ? k : axes[k], s.rank);
        int64_t step = strides < 0 ? 1 : steps[k];
        if (d < 0 || s.size[d] % DL_OX_BATCH == 0)
            return d >= 0 && from[k] == 0 && n == 1 && step == 1 && to[k] >= s.size[d] &&
                   dl_ox_alias(o, x);
        int64_t size = s.size[d], a = from[k], b = to[k];
        dl_ox_value *out = k + 1 == n ? o->n->out[0] : NULL;
        if (step < 0) { /* the whole axis in the other order */
            if (step != -1 || (a != -1 && a < size - 1) || b > -size - 1) return false;
            int64_t dim = d;
            dl_ox_arg_tensor(o, "self", x), dl_ox_arg_ints(o, "dims", 1, &dim);
            if (!(x = dl_ox_make(o, "aten.flip.default", out, &s, x))) return false;
            continue;
        }
        if (step == 0) return dl_ox_bad(o->r, "its step is 0");
        a = a < 0 ? a < -size ? 0 : a + size : a > size ? size : a;
        b = b < 0 ? b < -size ? 0 : b + size : b > size ? size : b;
        s.size[d] = b > a ? (b - a - 1) / step + 1 : 0;
        dl_ox_arg_tensor(o, "self", x), dl_ox_arg_int(o, "dim", d);
        dl_ox_arg_int(o, "start", a), dl_ox_arg_int(o, "end", b), dl_ox_arg_int(o, "step", step);
        if (!(x = dl_ox_make(o, "aten.slice.Tensor", out, &s, x))) return false;
    }
    return true;
}

bool dl_ox_pad(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    const char *mode = dl_ox_word(o->n, "mode", "constant");
    static const char *const theirs[] = {"constant", "reflect", "edge", "wrap"}, *const ours[] = {
                                                                                     "constant",
                                                                                     "reflect",
                                                                                     "replicate",
                                                                                     "circular"};
    dl_ox_shape s = dl_ox_shape_of(x);
    int64_t pads[2 * DL_FOREIGN_RANK], axes[DL_FOREIGN_RANK], all[2 * DL_FOREIGN_RANK] = {0};
    int n = dl_ox_ints(o, 1, NULL, 2 * DL_FOREIGN_RANK, pads),
        given = dl_ox_ints(o, 3, NULL, DL_FOREIGN_RANK, axes), first = s.rank, word = 0;
    double value = 0;
    if (n < 0 || n % 2 || given < -1 || n / 2 != (given < 0 ? s.rank : given)) return false;
    if (dl_ox_in(o, 2) && !dl_ox_set_number(o->r, o->n->in[2], &value)) return false;
    while (word < 4 && strcmp(theirs[word], mode) != 0) word++;
    if (word == 4) return false;
    bool any = false;
    for (int k = 0; k < n / 2; k++) {
        int d = dl_ox_dim(given < 0 ? k : axes[k], s.rank);
        if (d < 0 || pads[k] < -(1 << 30) || pads[k] > 1 << 30 || pads[n / 2 + k] < -(1 << 30) ||
            pads[n / 2 + k] > 1 << 30)
            return false;
        all[2 * (s.rank - 1 - d)] = pads[k], all[2 * (s.rank - 1 - d) + 1] = pads[n / 2 + k];
        if (!pads[k] && !pads[n / 2 + k]) continue;
        s.size[d] += pads[k] + pads[n / 2 + k], any = true;
        if (d < first) first = d;
    }
    if (!any) return dl_ox_alias(o, x);
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_ints(o, "pad", 2 * (s.rank - first), all);
    if (word) dl_ox_arg_text(o, "mode", ours[word]);
    if (value != 0) dl_ox_arg_real(o, "value", value);
    return dl_ox_make(o, "aten.pad.default", o->n->out[0], &s, x);
}

bool dl_ox_tile(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape s = dl_ox_shape_of(x);
    int64_t times[DL_FOREIGN_RANK];
    if (dl_ox_ints(o, 1, NULL, DL_FOREIGN_RANK, times) != s.rank) return false;
    for (int d = 0; d < s.rank; d++)
        if (times[d] < 1 || __builtin_mul_overflow(s.size[d], times[d], &s.size[d])) return false;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_ints(o, "repeats", s.rank, times);
    return dl_ox_make(o, "aten.repeat.default", o->n->out[0], &s, x);
}

/* [N, C, H, W] as six axes, in another order, as four again. */
bool dl_ox_depth_to_space(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    int64_t b = dl_ox_int(o->n, "blocksize", 0), n = x->t->shape[0], c = x->t->shape[1],
            h = x->t->shape[2], w = x->t->shape[3];
    bool back = *o->detail, columns = !strcmp(dl_ox_word(o->n, "mode", "DCR"), "CRD");
    if (x->t->rank != 4 || b < 1 || b > 1 << 10 || (back ? h % b || w % b : c % (b * b)))
        return false;
    dl_ox_shape split = back      ? (dl_ox_shape){6, {n, c, h / b, b, w / b, b}}
                        : columns ? (dl_ox_shape){6, {n, c / (b * b), b, b, h, w}}
                                  : (dl_ox_shape){6, {n, b, b, c / (b * b), h, w}};
    static const int64_t orders[][6] = {{0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}, {0, 3, 5, 1, 2, 4}};
    const int64_t *order = orders[back ? 2 : columns];
    dl_ox_shape turned = {.rank = 6}, end = back ? (dl_ox_shape){4, {n, c * b * b, h / b, w / b}}
                                                 : (dl_ox_shape){4, {n, c / (b * b), h * b, w * b}};
    for (int d = 0; d < 6; d++) turned.size[d] = split.size[order[d]];
    dl_ox_value *y = shaped(o, x, NULL, &split);
    if (!y) return false;
    dl_ox_arg_tensor(o, "self", y), dl_ox_arg_ints(o, "dims", 6, order);
    if (!(y = dl_ox_make(o, "aten.permute.default", NULL, &turned, x))) return false;
    return shaped(o, y, o->n->out[0], &end);
}

/* Its shape has the batch; others are known (fold.c). */
bool dl_ox_constant_of_shape(dl_ox_op *o) {
    const dl_ox_attr *value = dl_ox_attribute(o->n, "value");
    dl_ox_shape s = {0};
    double number = 0;
    if (value && (!value->tensor || !dl_ox_number(o->r, value->tensor, &number))) return false;
    int n = dl_ox_ints(o, 0, NULL, DL_FOREIGN_RANK, s.size);
    if (n < 0) return false;
    s.rank = n;
    dl_ox_arg_real(o, "fill_value", number);
    return dl_ox_make_as(o, "aten.full.default", o->n->out[0], &s,
                         value ? value->tensor->t->class : DL_FOREIGN_FLOAT,
                         value ? value->tensor->t->dtype : DLR_ST_F32);
}

bool dl_ox_trilu(dl_ox_op *o) {
    dl_ox_value *x = o->n->in[0];
    dl_ox_shape s = dl_ox_shape_of(x);
    double k = 0;
    if (dl_ox_in(o, 1) && !dl_ox_number(o->r, o->n->in[1], &k)) return false;
    dl_ox_arg_tensor(o, "self", x), dl_ox_arg_int(o, "diagonal", (int64_t)k);
    return dl_ox_make(o, dl_ox_int(o->n, "upper", 1) ? "aten.triu.default" : "aten.tril.default",
                      o->n->out[0], &s, x);
}

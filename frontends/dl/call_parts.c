/* Reads arguments for built-in layers and functions: axes, windows, paddings, images, floats. */
#include "frontends/dl/builtin.h"

static bool push_axis(dl_elab *E, const dl_ast *e, int *n, const char *names[DL_MAX_RANK]) {
    if (e->kind != DL_A_NAME) {
        dl_bad(E, e->span, DL_DIAG_bad_argument, "`over` takes axis names: over=C or over=[H, W]");
        dl_help(E, "axes go by name, not by number: that of a tensor [N, C, T] which is dim=1 in "
                   "PyTorch is over=C");
        return false;
    }
    if (*n == DL_MAX_RANK) {
        dl_bad(E, e->span, DL_DIAG_rank_mismatch, "a tensor has at most %d axes", DL_MAX_RANK);
        return false;
    }
    names[(*n)++] = e->name;
    return true;
}

bool dl_eval_axes(dl_elab *E, const dl_ast *e, int *n, const char *names[DL_MAX_RANK]) {
    *n = 0;
    if (e->kind != DL_A_LIST) return push_axis(E, e, n, names);
    for (int i = 0; i < e->items.list.n; i++)
        if (!push_axis(E, e->items.list.at[i]->a, n, names)) return false;
    return true;
}

bool dl_call_axes(dl_call *c, int i, int *n, const char *names[DL_MAX_RANK]) {
    *n = -1;
    if (!c->given[i]) return true;
    if (!dl_eval_axes(c->E, c->ast[i], n, names)) return false;
    if (c->what->params[i].kind == DL_P_AXES || *n == 1) return true;
    dl_bad(c->E, c->ast[i]->span, DL_DIAG_bad_argument, "%s works along one axis: over=C",
           c->what->name);
    return false;
}

bool dl_call_axes_of(dl_call *c, int i, dl_val x, int *n, const char *names[DL_MAX_RANK]) {
    if (!dl_call_axes(c, i, n, names)) return false;
    for (int k = 0; k < *n; k++) {
        if (dl_type_axis(&x.t->type, names[k]) >= 0) continue;
        if (dl_is_poisoned(c->E, names[k])) return false;
        const dl_ast *e = c->ast[i]->kind == DL_A_LIST ? c->ast[i]->items.list.at[k]->a : c->ast[i];
        dl_bad(c->E, e->span, DL_DIAG_missing_axis, "%s has no axis %s: it is %s",
               dl_val_words(c->E, x, "the tensor"), names[k], dl_type_text(&x.t->type));
        dl_note_tensor(c->E, x);
        const char *have[DL_MAX_RANK];
        for (int j = 0; j < x.t->type.rank; j++) have[j] = x.t->type.axis[j].name;
        const char *near = dl_suggest(names[k], have, x.t->type.rank);
        if (near && *near)
            dl_help(c->E, "did you mean %s?", near);
        else
            dl_help(c->E, "name axes that the tensor has");
        return false;
    }
    return true;
}

dl_val dl_call_elem(dl_call *c, dl_op op, dl_val a, dl_val b) {
    dl_val in[] = {a, b};
    dl_val r = dl_tensor_elem(c->E, c->where, op, b.kind == DL_V_NONE ? 1 : 2, in, 0, NULL);
    return r;
}

dl_val dl_call_entry(dl_call *c, int i, int spatial, int k) {
    dl_val v = c->arg[i];
    if (v.kind != DL_V_LIST) return v;
    if (v.list->items.n == spatial) return v.list->items.at[k];
    return dl_bad(c->E, v.origin, DL_DIAG_rank_mismatch,
                  "%s: '%s' has %d entries, but there are %d spatial axes", c->what->name,
                  c->what->params[i].name, v.list->items.n, spatial);
}

bool dl_call_window(dl_call *c, int i, int spatial, int64_t least, int64_t out[3]) {
    const char *what = dl_format(c->E->arena, "%s: '%s'", c->what->name, c->what->params[i].name);
    bool stride = strcmp(c->what->params[i].name, "stride") == 0;
    for (int k = 0; k < spatial; k++) {
        dl_val one = dl_call_entry(c, i, spatial, k);
        if (one.kind == DL_V_INT && (one.i < least || one.i > INT32_MAX)) {
            dl_bad(c->E, one.origin, stride ? DL_DIAG_bad_stride : DL_DIAG_bad_window,
                   "%s must be %lld or more%s, not %lld", what, (long long)least,
                   one.i > INT32_MAX ? " and not that large" : "", (long long)one.i);
            return false;
        }
        if (!dl_val_count(c->E, one, least, what, &out[k])) return false;
    }
    return true;
}

bool dl_call_image(dl_call *c, const dl_type *t) {
    int channels = dl_type_axis(t, dl_intern("C"));
    if (t->rank >= 3 && t->rank <= 5 && *t->axis[1].name && (channels < 0 || channels == 1))
        return true;
    if (channels >= 0 && channels != 1 && t->rank >= 3 && t->rank <= 5) {
        dl_bad(c->E, c->where, DL_DIAG_rank_mismatch,
               "%s takes the channels from the second axis, but here that is %s: %s", c->what->name,
               t->axis[1].name, dl_type_text(t));
        dl_note_tensor(c->E, c->arg[0]);
        dl_help(c->E, "bring C forward: |> rearrange(\"n h w c -> n c h w\")");
        return false;
    }
    dl_bad(c->E, c->where, DL_DIAG_rank_mismatch,
           "%s works on [N, C, one to three spatial axes], but its input is %s", c->what->name,
           dl_type_text(t));
    dl_note_tensor(c->E, c->arg[0]);
    return false;
}

bool dl_call_float(dl_call *c, dl_val *x) {
    if (dl_dtype_is_float(x->t->type.dtype)) return true;
    *x = dl_tensor_cast(c->E, c->where, *x, DL_F32);
    return x->kind == DL_V_TENSOR;
}

bool dl_call_padding(dl_call *c, int i, const dl_type *t, const int64_t kernel[3],
                     const int64_t stride[3], const int64_t dilation[3], int64_t lo[3],
                     int64_t hi[3]) {
    int spatial = t->rank - 2;
    if (c->arg[i].kind != DL_V_STR) {
        if (!dl_call_window(c, i, spatial, 0, lo)) return false;
        memcpy(hi, lo, sizeof(int64_t) * (size_t)spatial);
        return true;
    }
    for (int k = 0; k < spatial; k++) {
        int64_t size = t->axis[k + 2].size, out = (size + stride[k] - 1) / stride[k];
        int64_t reach = (kernel[k] - 1) * dilation[k] + 1; /* each factor is below 2^31 */
        int64_t total = strcmp(c->arg[i].s, "same") ? 0 : (out - 1) * stride[k] + reach - size;
        if (total < 0) total = 0;
        lo[k] = total / 2, hi[k] = total - total / 2;
    }
    return true;
}

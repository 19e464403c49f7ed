/* Rules of composite ops without windows: linear layers, norms, attention, scores. */
#include "exports/pytorch/parts.h"
#include "ir/recurrence.h"
#include "ir/scan.h"

torch_text dl_torch_linear(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const dl_type *x = &n->in[0]->type, *w = &n->in[1]->type;
    const torch_layer *l = dl_torch_layer_of(t, n);
    int last = x->rank - 1, at = *w->axis[1].name ? dl_type_axis(x, w->axis[1].name) : -1;
    torch_text v = dl_torch_tensor(t, n, 0);
    if (at < 0) at = last;
    if (at != last)
        v = dl_torch_atom(t, "%s.movedim(%d, -1)", dl_torch_within(t, v, TORCH_ATOM), at);
    const char *s = l ? dl_format(t->arena, "%s(%s)", dl_torch_path(t, l->path), v.s)
                      : dl_format(t->arena, "F.linear(%s, %s)", v.s, dl_torch_tensor(t, n, 1).s);
    if (at != last) s = dl_format(t->arena, "%s.movedim(-1, %d)", s, at);
    return dl_torch_atom(t, "%s", s);
}

/* ---- norms ---- */

static torch_text applied(torch_export *t, const dl_node *n, const torch_layer *l) {
    return dl_torch_atom(t, "%s(%s)", dl_torch_path(t, l->path), dl_torch_tensor(t, n, 0).s);
}

static const char *eps_of(torch_export *t, const dl_node *n) {
    return dl_format(t->arena, "eps=%.12g", dl_node_float(n, DL_ATTR_eps));
}

torch_text dl_torch_layer_norm(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const torch_layer *l = dl_torch_layer_of(t, n);
    const dl_type *x = &n->in[0]->type;
    if (l) return applied(t, n, l);
    return dl_torch_atom(t, "F.layer_norm(%s, (%lld,), %s, %s, %s)", dl_torch_tensor(t, n, 0).s,
                         (long long)x->axis[x->rank - 1].size, dl_torch_tensor(t, n, 1).s,
                         dl_torch_tensor(t, n, 2).s, eps_of(t, n));
}

torch_text dl_torch_batch_norm(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const torch_layer *l = dl_torch_layer_of(t, n);
    if (l) return applied(t, n, l);
    const char *s = "";
    static const int order[] = {3, 4, 1, 2}; /* PyTorch has the statistics first */
    for (int i = 0; i < 4; i++)
        s = dl_format(t->arena, "%s, %s", s, dl_torch_tensor(t, n, order[i]).s);
    return dl_torch_atom(t, "F.batch_norm(%s%s, training=self.training, momentum=%.12g, %s)",
                         dl_torch_tensor(t, n, 0).s, s, 1 - dl_node_float(n, DL_ATTR_momentum),
                         eps_of(t, n));
}

/* Is the value a number for each channel? */
static bool is_all(const dl_value *v, double number) {
    const dl_node *n = v->def;
    if (!n || n->op != DL_OP_broadcast || !n->in[0]->def) return false;
    const dl_node *k = n->in[0]->def;
    return k->op == DL_OP_const && dl_node_float(k, DL_ATTR_value) == number;
}

static bool has_no_affine(const dl_node *n) {
    return n->op == DL_OP_group_norm && is_all(n->in[1], 1) && is_all(n->in[2], 0);
}

bool dl_torch_is_no_affine(const torch_export *t, const dl_node *n) {
    const dl_uses *u = &t->uses[n->out[0].id];
    bool only = n->op == DL_OP_broadcast && u->n && !u->results;
    for (int i = 0; only && i < u->n; i++)
        only = has_no_affine(u->readers[i]) && u->readers[i]->in[0] != &n->out[0];
    return only;
}

torch_text dl_torch_group_norm(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const torch_layer *l = dl_torch_layer_of(t, n);
    if (l) return applied(t, n, l);
    const char *affine = "";
    if (!has_no_affine(n))
        affine =
            dl_format(t->arena, ", %s, %s", dl_torch_tensor(t, n, 1).s, dl_torch_tensor(t, n, 2).s);
    return dl_torch_atom(t, "F.group_norm(%s, %lld%s, %s)", dl_torch_tensor(t, n, 0).s,
                         (long long)dl_node_int(n, DL_ATTR_groups), affine, eps_of(t, n));
}

/* The elements over which a batch's mean goes, less the correction, are at least 1. */
torch_text dl_torch_batch_mean(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    int64_t correction = dl_node_int(n, DL_ATTR_correction);
    if (!over->n) return dl_torch_same(t, n, word);
    if (!correction) return dl_torch_say(t, n, "$.mean(dim=#)");
    torch_text sum = dl_torch_say(t, n, "$.sum(dim=#)");
    const char *count = "";
    for (int i = 0; i < over->n; i++) {
        int at = dl_type_axis(&n->in[0]->type, over->names[i]);
        count =
            dl_format(t->arena, "%s%s%s", count, i ? " * " : "", dl_torch_size(t, n->in[0], at));
    }
    return dl_torch_at(t, TORCH_PRODUCT, "%s / max(%s - %lld, 1)", sum.s, count,
                       (long long)correction);
}

torch_text dl_torch_prod(torch_export *t, const dl_node *n, const char *word) {
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    const dl_type *x = &n->in[0]->type;
    if (!over->n) return dl_torch_same(t, n, word);
    const char *s = dl_torch_within(t, dl_torch_tensor(t, n, 0), TORCH_ATOM);
    for (int i = x->rank - 1; i >= 0; i--)
        for (int k = 0; k < over->n; k++)
            if (over->names[k] == x->axis[i].name) {
                s = dl_format(t->arena, "%s.prod(%d)", s, i);
                break;
            }
    if (!dl_dtype_is_float(x->dtype))
        s = dl_format(t->arena, "%s.to(%s)", s, dl_torch_dtype(x->dtype));
    return dl_torch_atom(t, "%s", s);
}

/* ---- attention ---- */

torch_text dl_torch_attention(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const dl_attr *causal = dl_node_attr(n, DL_ATTR_causal);
    t->helps |= 1u << TORCH_HELP_ATTENTION;
    const char *add = "";
    for (int i = 3; i < n->nin; i++)
        add = dl_format(t->arena, "%s%s", *add ? dl_format(t->arena, "%s, ", add) : "",
                        dl_torch_tensor(t, n, i).s);
    if (*add) add = dl_format(t->arena, ", add=[%s]", add);
    return dl_torch_atom(t, "attention(%s, %s, %s, heads=%lld%s%s%s)", dl_torch_tensor(t, n, 0).s,
                         dl_torch_tensor(t, n, 1).s, dl_torch_tensor(t, n, 2).s,
                         (long long)dl_node_int(n, DL_ATTR_heads),
                         causal && causal->i ? ", causal=True" : "", add,
                         t->has_gradients ? ", fused=False" : "");
}

/* ---- recurrent layers ---- */

torch_text dl_torch_recurrence(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const char *weights = "";
    t->helps |= 1u << TORCH_HELP_RECURRENCE;
    const int start = dl_recurrence_start(n), last = start < 0 ? n->nin : start;
    const dl_attr *cell = dl_node_attr(n, DL_ATTR_cell);
    for (int i = 1; i < last; i++)
        weights =
            dl_format(t->arena, "%s%s%s", weights, i > 1 ? ", " : "", dl_torch_tensor(t, n, i).s);
    const char *from =
        start < 0 ? "" : dl_format(t->arena, ", start=%s", dl_torch_tensor(t, n, start).s);
    return dl_torch_atom(t, "recurrence(%s, [%s], \"%s\"%s%s%s)", dl_torch_tensor(t, n, 0).s,
                         weights, dl_node_name(n, DL_ATTR_mode),
                         dl_node_int(n, DL_ATTR_reverse) ? ", reverse=True" : "", from,
                         cell && cell->i ? ", cell=True" : "");
}

/* ---- linear scans ---- */

torch_text dl_torch_cumulative(torch_export *t, const dl_node *n, const char *word) {
    if (!dl_scan_is_reverse(n)) return dl_torch_say(t, n, word);
    return dl_torch_say(t, n, dl_format(t->arena, "$.flip(#)%s.flip(#)", word + 1));
}

torch_text dl_torch_linear_scan(torch_export *t, const dl_node *n, const char *word) {
    const dl_type *to = &n->out[0].type;
    (void)word;
    t->helps |= 1u << TORCH_HELP_SCAN;
    torch_text a = dl_torch_aligned(t, n, 0, to), b = dl_torch_aligned(t, n, 1, to);
    return dl_torch_atom(t, "linear_scan(%s, %s, dim=%d%s)", a.s, b.s,
                         dl_type_axis(to, dl_node_name(n, DL_ATTR_axis)) - to->rank,
                         dl_scan_is_reverse(n) ? ", reverse=True" : "");
}

torch_text dl_torch_argsort(torch_export *t, const dl_node *n, const char *word) {
    if (!dl_node_int(n, DL_ATTR_descending)) return dl_torch_say(t, n, word);
    return dl_torch_say(t, n, "$.argsort(dim=#, descending=True, stable=True).to(%)");
}

/* ---- scores ---- */

torch_text dl_torch_cross_entropy(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const dl_type *y = &n->in[0]->type;
    int at = dl_type_axis(y, dl_node_name(n, DL_ATTR_axis));
    torch_text x = dl_torch_tensor(t, n, 0);
    if (dl_dtype_is_float(n->in[1]->type.dtype)) {
        torch_text w = dl_torch_aligned(t, n, 1, y);
        return dl_torch_at(t, TORCH_SIGN, "-(F.log_softmax(%s, dim=%d) * %s).sum(dim=%d)", x.s, at,
                           dl_torch_within(t, w, TORCH_POWER), at);
    }
    torch_text c = dl_torch_aligned(t, n, 1, &n->out[0].type);
    if (y->rank > 1 && at != 1)
        x = dl_torch_atom(t, "%s.movedim(%d, 1)", dl_torch_within(t, x, TORCH_ATOM), at);
    return dl_torch_atom(t, "F.cross_entropy(%s, %s.long(), reduction=\"none\")", x.s,
                         dl_torch_within(t, c, TORCH_ATOM));
}

torch_text dl_torch_in_top_k(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const char *y = dl_torch_named(t, n, 0),
               *c = dl_torch_within(t, dl_torch_tensor(t, n, 1), TORCH_ATOM);
    return dl_torch_at(t, TORCH_TEST, "(%s > %s.gather(1, %s[:, None].long())).sum(dim=1) < %lld",
                       y, y, c, (long long)dl_node_int(n, DL_ATTR_k));
}

/* Rules of attention and recurrent layers. */
#include <math.h>

#include "imports/dl/rules.h"

/* ---- attention ---- */

/* [..., heads, T, d] as [N, T, (heads d)] */
static dl_in_value *tokens(dl_in_ctx *c, const dl_in_value *v) {
    dl_in_value *t = dl_copy_value(c, v);
    int r = v->rank, groups[3];
    if (r == 4) { /* heads go to the features */
        t->dim[r - 3] = v->dim[r - 2], t->dim[r - 2] = v->dim[r - 3];
        groups[0] = 0, groups[1] = 1, groups[2] = 2;
    } else
        groups[0] = 0, groups[1] = 1, groups[2] = 2;
    dl_grouped(c, t, 3, groups);
    return t;
}

/* The mask with the names that attention knows its axes by: those of the scores. NULL: an axis has
 * none of the names. */
static dl_in_value *named_mask(dl_in_ctx *c, const dl_in_value *mask, int r, const dl_in_value *q,
                               const dl_in_value *k) {
    const char *scores[] = {q->axis[0].name, "heads", q->axis[1].name, k->axis[1].name}, *name[4];
    dl_in_value *m = dl_copy_value(c, mask);
    if (r == 3) scores[1] = scores[0];
    if (m->rank > r) return NULL;
    for (int d = 0; d < m->rank; d++) dl_axis_name(c, m, d);
    dl_ordered(c, m, false);
    for (int d = 0; d < m->rank; d++) /* a size of 1 meets any other */
        if (m->dim[d].n && dl_dim_size(c->w, m, d) == 1) m->dim[d].n = 0, dl_drop_ones(c, m);
    dl_ordered(c, m, false);
    if (m->n > 4) return NULL;
    for (int d = 0; d < m->rank; d++)
        if (dl_axis_of(m, d) >= 0) name[dl_axis_of(m, d)] = scores[4 - m->rank + d];
    dl_rename(c, m, name);
    return m;
}

bool dl_in_attention(dl_in_ctx *c) {
    dl_in_value *q = dl_operand(c, "query"), *k = dl_operand(c, "key"), *v = dl_operand(c, "value");
    if (!q || !k || !v || q->rank < 3 || q->rank > 4 || k->rank != q->rank || v->rank != q->rank)
        return false;
    int r = q->rank;
    double d = (double)dl_dim_size(c->w, q, r - 1),
           scale = dl_foreign_real(c->n, "scale", 1 / sqrt(d));
    int64_t heads = r == 4 ? dl_dim_size(c->w, q, 1) : 1;
    bool causal = dl_foreign_int(c->n, "is_causal", 0);
    int64_t own = r == 4 ? dl_dim_size(c->w, k, 1) : 1; /* heads of keys and values */
    if (r == 4 && (dl_dim_size(c->w, v, 1) != own || own < 1 || heads % own ||
                   (own != heads && !dl_foreign_int(c->n, "enable_gqa", 0))))
        return false;
    dl_in_value *mask = dl_operand(c, "attn_mask");
    if (dl_dim_size(c->w, v, r - 1) != dl_dim_size(c->w, q, r - 1)) return false;
    if (fabs(scale * sqrt(d) - 1) > 1e-6) {
        dl_in_value *scaled = dl_copy_value(c, q);
        for (int i = 0; i < q->rank; i++) dl_axis_name(c, q, i);
        scaled->stmt =
            dl_say(c, STMT_PLAIN, P_PRODUCT, "%r * %p", "scale", scale * sqrt(d), q, P_UNARY);
        q = scaled;
    }
    dl_in_value *x = tokens(c, q), *y = tokens(c, k), *z = tokens(c, v);
    if (!strcmp(x->axis[1].name, y->axis[1].name) &&
        (mask || dl_axis_size_of(c->w, &x->axis[1]) != dl_axis_size_of(c->w, &y->axis[1]))) {
        static const char *const names[] = {"S", "K", "L", "M"};
        const char *last = y->axis[2].name, *keys = names[0];
        for (int i = 1; i < 4 && (!strcmp(last, keys) || !strcmp(y->axis[0].name, keys) ||
                                  !strcmp(x->axis[1].name, keys));
             i++)
            keys = names[i];
        dl_rename(c, y, (const char *[]){y->axis[0].name, keys, last});
        dl_rename(c, z, (const char *[]){y->axis[0].name, keys, last});
    }
    if (mask && !(mask = named_mask(c, mask, r, x, y))) return false;
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "attention(%v, %v, %v, %i", x, y, z, "heads", heads);
    if (own != heads) dl_say_more(c, ", kv_heads=%i", "kv_heads", own);
    if (mask) dl_say_more(c, mask->class == DL_FOREIGN_BOOL ? ", mask=%v" : ", bias=%v", mask);
    double p = dl_foreign_real(c->n, "dropout_p", 0);
    if (p > 0) dl_say_more(c, ", dropout=%r", "dropout", p);
    dl_say_more(c, causal ? ", causal=true)" : ")");
    dl_in_value *made = dl_copy_value(c, x);
    made->stmt = s, made->param = -1, made->is_view = false, made->rank = r;
    if (r == 4) { /* [N, T, (heads d)] is [N, heads, T, d] */
        int64_t h = heads;
        dl_reshape(c, made, 4,
                   (int64_t[]){dl_axis_size_of(c->w, &x->axis[0]),
                               dl_axis_size_of(c->w, &x->axis[1]), h,
                               dl_axis_size_of(c->w, &x->axis[2]) / h});
        dl_in_value copy = *made;
        made->dim[1] = copy.dim[2], made->dim[2] = copy.dim[1];
    }
    dl_set(c, 0, made);
    return true;
}

/* ---- recurrent layers ---- */

static dl_in_value *weight_of(dl_in_ctx *c, const dl_foreign_arg *list, int i,
                              const char *const *names) {
    dl_in_value *v = i < list->n && list->tensors[i] ? dl_value_of(c, list->tensors[i]) : NULL;
    if (!v || v->param < 0) return NULL;
    dl_rename(c, v, names);
    return v;
}

/* One direction of one layer: the module Recurrence, which the text begins with. */
static dl_in_value *lstm_layer(dl_in_ctx *c, dl_in_value *x, const dl_foreign_arg *params, int at,
                               bool biases, bool backwards) {
    const dl_foreign_tensor *hidden = params->tensors[at + 1];
    int64_t steps = dl_axis_size_of(c->w, &x->axis[1]), size = hidden->shape[1];
    const char *last = x->axis[2].name;
    dl_in_value *in = weight_of(c, params, at, (const char *[]){"G", last}),
                *state = weight_of(c, params, at + 1, (const char *[]){"G", "K"}), *bias = NULL;
    if (!in || !state || strcmp(last, "G") == 0 || strcmp(last, "K") == 0) return NULL;
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "einsum(\"nte,ge->ntg\", %v, %v)", x, in);
    dl_in_value gates = {.stmt = s};
    for (int k = 0; biases && k < 2; k++) {
        bias = weight_of(c, params, at + 2 + k, (const char *[]){"G"});
        if (!bias) return NULL;
        gates.stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", &gates, P_SUM, bias, P_PRODUCT);
    }
    c->w->uses_lstm = true;
    s = dl_say(c, STMT_PLAIN, P_POSTFIX, "Recurrence(%i, %i, %s)(%v, %v) as [N, T, %s]", "steps",
               steps, "size", size, backwards ? "true" : "false", &gates, state, last);
    c->b->stmts.at[s].prec = P_PIPE;
    dl_in_value *y = dl_copy_value(c, x);
    int atom = dl_new_atom(c->w, size);
    y->stmt = s, y->is_view = false, y->param = -1;
    y->axis[0].name = "N", y->axis[1].name = "T";
    y->axis[2].n = y->dim[2].n = 1, y->axis[2].atom[0] = y->dim[2].atom[0] = atom;
    return y;
}

static bool is_zero(const dl_in_ctx *c, const dl_foreign_arg *states) {
    for (int i = 0; i < states->n; i++) {
        int by = states->tensors[i] ? c->w->defined_by[states->tensors[i]->id] : -1;
        if (by < 0 || strncmp(c->w->graph->nodes.at[by].op, "aten.zeros.", 11) != 0) return false;
    }
    return true;
}

bool dl_in_lstm(dl_in_ctx *c) {
    const dl_foreign_arg *params = dl_foreign_find(c->n, "params"),
                         *states = dl_foreign_find(c->n, "hx");
    dl_in_value *x = dl_operand(c, "input");
    bool biases = dl_foreign_int(c->n, "has_biases", 1),
         both = dl_foreign_int(c->n, "bidirectional", 0);
    int layers = (int)dl_foreign_int(c->n, "num_layers", 1), each = biases ? 4 : 2;
    double rate = dl_foreign_real(c->n, "dropout", 0);
    if (!x || x->rank != 3 || !params || !states || !dl_foreign_int(c->n, "batch_first", 0) ||
        !is_zero(c, states) || params->n != layers * each * (both ? 2 : 1) ||
        c->w->last_use[c->n->results[1]->id] >= 0 || c->w->last_use[c->n->results[2]->id] >= 0)
        return false;
    const char *first = params->tensors[0] ? params->tensors[0]->path : "",
               *dot = strrchr(first, '.');
    const char *path = dot ? dl_strndup(c->w->arena, first, (size_t)(dot - first)) : NULL;
    if (!path || !dl_label_in(c->w, c->b, path)) return false;
    dl_ordered(c, x, true);
    if (strcmp(x->axis[0].name, "N") != 0 || strcmp(x->axis[1].name, "T") != 0) return false;
    dl_in_body *b = dl_new_body(c->w, "LSTM", path);
    dl_in_ctx outer = *c, inner = {.w = c->w, .b = b, .n = c->n, .index = c->index};
    dl_in_value *given = x;
    c = &inner, x = dl_enter(c, x, 0);
    for (int k = 0, at = 0; k < layers; k++) {
        dl_in_value *half[2] = {0};
        for (int d = 0; d < (both ? 2 : 1); d++, at += each)
            if (!(half[d] = lstm_layer(c, x, params, at, biases, d))) return false;
        x = half[0];
        if (both) {
            const char *last = x->axis[2].name;
            dl_in_value *y = dl_copy_value(c, x);
            y->axis[2].atom[0] = y->dim[2].atom[0] =
                dl_new_atom(c->w, 2 * dl_axis_size_of(c->w, &x->axis[2]));
            y->stmt =
                dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(%v, %v, over=%s)", half[0], half[1], last);
            x = y;
        }
        if (rate > 0 && k + 1 < layers)
            x->stmt = dl_say(c, STMT_LAYER, P_PIPE, "%v |> dropout(%r)", x, "rate", rate);
    }
    dl_push(c->w->arena, &b->returns, x->stmt);
    dl_say_call(&outer, b, 1, &given, path);
    dl_in_value *made = dl_copy_value(&outer, x);
    made->stmt = outer.b->stmts.n - 1, made->is_view = false;
    dl_set(&outer, 0, made);
    return true;
}

/* The text begins with this module where a model has LSTMs: PyTorch's gates are i, f, g, o. */
const char dl_in_lstm_module[] =
    "module Recurrence(steps, size, backwards)(x: [N, T, G], w: [G, K]):\n"
    "    h = expand(0.0, over=N, K=size)\n"
    "    c = h\n"
    "    y = []\n"
    "    for i in range(steps):\n"
    "        g = x[T=steps - 1 - i if backwards else i] + einsum(\"nk,gk->ng\", h, w) as [N, K]\n"
    "        c = sigmoid(g[K=size:2 * size]) * c + sigmoid(g[K=:size]) * tanh(g[K=2 * size:3 * "
    "size])\n"
    "        h = sigmoid(g[K=3 * size:]) * tanh(c)\n"
    "        y = [unsqueeze(h, over=T, at=1)] + y if backwards else y + [unsqueeze(h, over=T, "
    "at=1)]\n"
    "    return cat(y, over=T)\n\n";

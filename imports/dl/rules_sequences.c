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

static bool masked(dl_in_ctx *c, dl_in_value *q, dl_in_value *k, dl_in_value *v, double scale) {
    dl_in_value *mask = dl_operand(c, "attn_mask");
    int r = q->rank;
    const char *q_in[] = {0, 0, "atd", "ahtd"}, *k_in[] = {0, 0, "asd", "ahsd"},
               *s_out[] = {0, 0, "ats", "ahts"};
    const dl_foreign_tensor *result = c->n->results[0];
    if (!dl_contract(c, 2, (dl_in_value *[]){q, k}, (const char *[]){q_in[r - 1], k_in[r - 1]},
                     s_out[r - 1]))
        return false;
    dl_in_value *s = dl_copy_value(c, c->b->of[result->id]);
    s->is_view = false, s->class = DL_FOREIGN_FLOAT;
    s->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * %r", s, P_PRODUCT, "scale", scale);
    bool truth = mask->class == DL_FOREIGN_BOOL;
    dl_in_value *made = dl_match(c, s, mask);
    made->stmt = truth ? dl_say(c, STMT_PLAIN, P_POSTFIX, "where(%v, %v, -1e30)", mask, s)
                       : dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", s, P_SUM, mask, P_PRODUCT);
    made->stmt = dl_call_function(c, "softmax", made, ", over=%s", dl_axis_name(c, made, r - 1));
    double p = dl_foreign_real(c->n, "dropout_p", 0);
    if (p > 0) made->stmt = dl_say(c, STMT_LAYER, P_PIPE, "%v |> dropout(%r)", made, "rate", p);
    return dl_contract(c, 2, (dl_in_value *[]){made, v},
                       (const char *[]){s_out[r - 1], k_in[r - 1]}, q_in[r - 1]);
}

bool dl_in_attention(dl_in_ctx *c) {
    dl_in_value *q = dl_operand(c, "query"), *k = dl_operand(c, "key"), *v = dl_operand(c, "value");
    if (!q || !k || !v || q->rank < 3 || q->rank > 4 || k->rank != q->rank || v->rank != q->rank ||
        dl_foreign_int(c->n, "enable_gqa", 0))
        return false;
    int r = q->rank;
    double d = (double)dl_dim_size(c->w, q, r - 1),
           scale = dl_foreign_real(c->n, "scale", 1 / sqrt(d));
    int64_t heads = r == 4 ? dl_dim_size(c->w, q, 1) : 1;
    bool causal = dl_foreign_int(c->n, "is_causal", 0);
    if (r == 4 && dl_dim_size(c->w, k, 1) != heads) return false;
    if (dl_foreign_find(c->n, "attn_mask")) return masked(c, q, k, v, scale);
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
        dl_axis_size_of(c->w, &x->axis[1]) != dl_axis_size_of(c->w, &y->axis[1])) {
        dl_rename(c, y, (const char *[]){y->axis[0].name, "S", y->axis[2].name});
        dl_rename(c, z, (const char *[]){z->axis[0].name, "S", z->axis[2].name});
    }
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "attention(%v, %v, %v, %i", x, y, z, "heads", heads);
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

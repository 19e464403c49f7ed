/* Rules of attention. */
#include <math.h>

#include "imports/dl/rules.h"

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
        if (dl_is_one(c->w, m, d)) m->dim[d].n = 0, dl_drop_ones(c, m);
    dl_ordered(c, m, false);
    if (m->n > 4) return NULL;
    for (int d = 0; d < m->rank; d++)
        if (dl_axis_of(m, d) >= 0) name[dl_axis_of(m, d)] = scores[4 - m->rank + d];
    dl_rename(c, m, name);
    return m;
}

/* ---- forms that the language's attention lacks, by products ---- */

typedef struct {
    dl_in_value *q, *k, *v, *mask;
    double scale, cap; /* cap: cap tanh(s / cap) of the scores; 0: none */
    int64_t heads, own;
    bool causal;
} form;

static dl_in_value *changed(dl_in_ctx *c, const dl_in_value *v, int stmt) {
    dl_in_value *made = dl_copy_value(c, v);
    made->stmt = stmt, made->param = -1, made->is_view = false;
    return made;
}

/* q k^T, or s v: the last two dimensions by letters, the others meet. Heads that share a key are a
 * dimension of their own. */
static dl_in_value *product(dl_in_ctx *c, dl_in_value *a, dl_in_value *b, const char *left,
                            const char *right, const char *result, int64_t own) {
    char x[8] = "abcd", y[8] = "abcd", z[8] = "abcd";
    int batch = a->rank - 2;
    int64_t heads = batch == 2 ? dl_dim_size(c->w, a, 1) : 1;
    bool grouped = batch == 2 && own != heads && own != 1;
    a = dl_copy_value(c, a), b = dl_copy_value(c, b);
    if (grouped) {
        int64_t shape[5] = {dl_dim_size(c->w, a, 0), own, heads / own, dl_dim_size(c->w, a, 2),
                            dl_dim_size(c->w, a, 3)};
        dl_reshape(c, a, 5, shape);
    }
    strcpy(x + batch + grouped, left), strcpy(y + batch, right);
    strcpy(z + batch + grouped, result);
    if (!dl_contract(c, 2, (dl_in_value *[]){a, b}, (const char *[]){x, y}, z)) return NULL;
    dl_in_value *made = dl_copy_value(c, c->b->of[c->n->results[0]->id]);
    if (grouped) {
        int64_t shape[4] = {dl_dim_size(c->w, made, 0), heads, dl_dim_size(c->w, made, 3),
                            dl_dim_size(c->w, made, 4)};
        dl_reshape(c, made, 4, shape);
    }
    dl_ordered(c, made, true);
    return made;
}

/* The scores where a query sees the key; -infinity elsewhere. */
static dl_in_value *seen(dl_in_ctx *c, dl_in_value *s, const dl_in_value *mask, bool causal) {
    static const char hidden[] = "-1e38 * 10";
    if (causal) {
        const char *row = s->axis[s->n - 2].name, *column = s->axis[s->n - 1].name;
        int at = dl_say(c, STMT_PLAIN, P_POSTFIX,
                        "where((range(%i) as [%s]) >= (range(%i) as [%s]), %v, %s)", "size",
                        dl_axis_size_of(c->w, &s->axis[s->n - 2]), row, "size",
                        dl_axis_size_of(c->w, &s->axis[s->n - 1]), column, s, hidden);
        dl_in_value *plane = dl_copy_value(c, s); /* the condition has the last two axes */
        plane->axis[0] = s->axis[s->n - 2], plane->axis[1] = s->axis[s->n - 1], plane->n = 2;
        plane->param = -1;
        for (int d = 0; d < s->rank - 2; d++) plane->dim[d].n = 0;
        s = changed(c, dl_match(c, plane, s), at);
    }
    if (!mask) return s;
    dl_in_value *m = dl_copy_value(c, mask), *made = dl_match(c, s, m);
    if (mask->class == DL_FOREIGN_BOOL)
        return changed(c, made, dl_call_function(c, "where", m, ", %v, %s", s, hidden));
    return changed(c, made, dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", s, P_SUM, m, P_PRODUCT));
}

/* [N, a, b, ..., T, d] as [N, (a b ...), T, d]: what lies between is heads. */
static dl_in_value *in_heads(dl_in_ctx *c, const dl_in_value *v) {
    dl_in_value *made = dl_copy_value(c, v);
    int r = v->rank;
    int64_t heads = 1;
    for (int i = 1; i < r - 2; i++) heads *= dl_dim_size(c->w, v, i);
    dl_reshape(c, made, 4,
               (int64_t[]){dl_dim_size(c->w, v, 0), heads, dl_dim_size(c->w, v, r - 2),
                           dl_dim_size(c->w, v, r - 1)});
    return made;
}

/* The result, with the dimensions of the query. */
static void give(dl_in_ctx *c, dl_in_value *y) {
    const dl_in_value *q = dl_operand(c, "query");
    int64_t shape[DL_FOREIGN_RANK];
    for (int i = 0; i < q->rank - 1; i++) shape[i] = dl_dim_size(c->w, q, i);
    shape[q->rank - 1] = dl_dim_size(c->w, y, y->rank - 1);
    if (y->rank != q->rank) dl_reshape(c, y, q->rank, shape);
    dl_set(c, 0, y);
}

static bool by_products(dl_in_ctx *c, form f) {
    if (f.q->rank > 4 || f.k->rank != f.q->rank || f.v->rank != f.q->rank) return false;
    dl_in_value *s = product(c, f.q, f.k, "xz", "yz", "xy", f.own);
    if (!s) return false;
    s = changed(c, s, dl_say(c, STMT_PLAIN, P_PRODUCT, "%r * %p", "scale", f.scale, s, P_UNARY));
    s = seen(c, s, f.mask, f.causal);
    if (f.cap != 0) {
        s = changed(c, s, dl_say(c, STMT_PLAIN, P_PRODUCT, "%p / %r", s, P_PRODUCT, "cap", f.cap));
        s = changed(c, s, dl_say(c, STMT_PLAIN, P_PRODUCT, "%r * tanh(%v)", "cap", f.cap, s));
    }
    dl_ordered(c, s, true);
    s = changed(c, s, dl_call_function(c, "softmax", s, ", over=%s", s->axis[s->n - 1].name));
    double p = dl_foreign_real(c->n, "dropout_p", 0);
    if (p > 0) s = changed(c, s, dl_say(c, STMT_LAYER, P_PIPE, "%v |> dropout(%r)", s, "rate", p));
    dl_in_value *y = product(c, s, f.v, "xy", "yz", "xz", f.own);
    if (y) give(c, y);
    return y;
}

bool dl_in_attention(dl_in_ctx *c) {
    dl_in_value *q = dl_operand(c, "query"), *k = dl_operand(c, "key"), *v = dl_operand(c, "value");
    dl_in_value *mask = dl_operand(c, "attn_mask");
    if (!q || !k || !v || q->rank < 3 || k->rank != q->rank || v->rank != q->rank) return false;
    if (q->rank > 4) { /* the axes of a mask are the scores' */
        if (mask && mask->rank > 2) return false;
        for (int i = 1; i < q->rank - 2; i++)
            if (dl_dim_size(c->w, k, i) != dl_dim_size(c->w, q, i) ||
                dl_dim_size(c->w, v, i) != dl_dim_size(c->w, q, i))
                return false;
        q = in_heads(c, q), k = in_heads(c, k), v = in_heads(c, v);
    }
    int r = q->rank;
    double d = (double)dl_dim_size(c->w, q, r - 1),
           scale = dl_foreign_real(c->n, "scale", 1 / sqrt(d));
    int64_t heads = r == 4 ? dl_dim_size(c->w, q, 1) : 1;
    bool causal = dl_foreign_int(c->n, "is_causal", 0);
    int64_t own = r == 4 ? dl_dim_size(c->w, k, 1) : 1; /* heads of keys and values */
    if (r == 4 && (dl_dim_size(c->w, v, 1) != own || own < 1 || heads % own ||
                   (own != heads && own != 1 && !dl_foreign_int(c->n, "enable_gqa", 0))))
        return false;
    double cap = dl_foreign_real(c->n, "softcap", 0);
    if (cap != 0 || dl_dim_size(c->w, v, r - 1) != dl_dim_size(c->w, q, r - 1))
        return by_products(c, (form){q, k, v, mask, scale, cap, heads, own, causal});
    if (fabs(scale * sqrt(d) - 1) > 1e-6) {
        dl_in_value *scaled = dl_copy_value(c, q);
        for (int i = 0; i < q->rank; i++) dl_axis_name(c, q, i);
        scaled->stmt =
            dl_say(c, STMT_PLAIN, P_PRODUCT, "%r * %p", "scale", scale * sqrt(d), q, P_UNARY);
        q = scaled;
    }
    dl_in_value *x = tokens(c, q), *y = tokens(c, k), *z = tokens(c, v);
    static const char *const names[] = {"S", "K", "L", "M"};
    const char *first = x->axis[0].name, *steps = x->axis[1].name, *last = x->axis[2].name;
    const char *keys = y->axis[1].name; /* the only axis that differs from those of queries */
    bool other = mask || dl_axis_size_of(c->w, &x->axis[1]) != dl_axis_size_of(c->w, &y->axis[1]);
    for (int i = 0;
         i < 4 && ((other && !strcmp(keys, steps)) || !strcmp(keys, first) || !strcmp(keys, last));
         i++)
        keys = names[i];
    dl_rename(c, y, (const char *[]){first, keys, last});
    dl_rename(c, z, (const char *[]){first, keys, last});
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
    give(c, made);
    return true;
}

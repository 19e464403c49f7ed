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
                   (own != heads && own != 1 && !dl_foreign_int(c->n, "enable_gqa", 0))))
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
    dl_set(c, 0, made);
    return true;
}

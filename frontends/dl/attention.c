/* The layer attention: brings masks, biases and grouped heads into the form of the op. */
#include "frontends/dl/builtin.h"

enum { Q, K, V, HEADS, DROPOUT, CAUSAL, MASK, BIAS, KV_HEADS }; /* arguments: builtins.def */
enum { SAMPLES, HEAD, QUERIES, KEYS, AXES };                    /* axes of scores */

/* A name that no axis of t has. */
static const char *other_name(const dl_type *t, const char *name) {
    name = dl_intern(name);
    return dl_type_axis(t, name) < 0 ? name : dl_type_fresh(t, name);
}

/* ---- grouped heads ---- */

/* Keys or values of `own` heads, repeated so that each serves heads / own consecutive queries'
 * heads: [N, S, own * size] becomes [N, S, heads * size]. */
static dl_val repeat_heads(dl_call *c, dl_val v, int64_t own, int64_t heads) {
    dl_type to = v.t->type, t = to;
    int64_t size = to.axis[2].size / own;
    const char *feature = to.axis[2].name;
    const char *group = other_name(&to, "group"), *head = other_name(&to, "head");
    to.axis[2].size = heads * size;
    t.rank = 2;
    dl_type_push(&t, group, own), dl_type_push(&t, feature, size);
    v = dl_tensor_op(c->E, c->where, DL_OP_reshape, 1, &v, 0, NULL, &t);
    t.rank = 3;
    dl_type_push(&t, head, heads / own), dl_type_push(&t, feature, size);
    v = dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &v, 0, NULL, &t);
    return dl_tensor_op(c->E, c->where, DL_OP_reshape, 1, &v, 0, NULL, &to);
}

/* Reads kv_heads, and repeats keys and values of fewer heads than the queries have. False:
 * reported. */
static bool group_heads(dl_call *c, dl_val in[3]) {
    int64_t heads = c->arg[HEADS].i;
    if (!c->given[KV_HEADS]) return true;
    int64_t own = c->arg[KV_HEADS].i;
    if (own < 1 || heads < 1 || heads % own) {
        dl_bad(c->E, c->arg[KV_HEADS].origin, DL_DIAG_bad_argument,
               "attention: %lld heads of keys do not divide the %lld heads of queries",
               (long long)own, (long long)heads);
        dl_help(c->E, "kv_heads=1 is multi-query attention, kv_heads=heads the usual one");
        return false;
    }
    for (int k = K; k <= V; k++) {
        const dl_type *t = &in[k].t->type, *q = &in[Q].t->type;
        if (t->rank != 3 || q->rank != 3) return true; /* the op reports it */
        if (t->axis[2].size % own || t->axis[2].size / own * heads != q->axis[2].size) {
            dl_bad(c->E, c->where, DL_DIAG_axis_mismatch,
                   "attention: %lld heads of %s=%lld have other sizes than %lld heads of %s=%lld",
                   (long long)own, t->axis[2].name, (long long)t->axis[2].size, (long long)heads,
                   q->axis[2].name, (long long)q->axis[2].size);
            dl_note_tensor(c->E, in[k]);
            dl_help(c->E, "a head has the same number of features in queries, keys and values: "
                          "linear(kv_heads * size) makes such keys");
            return false;
        }
        if (own != heads) in[k] = repeat_heads(c, in[k], own, heads);
        if (in[k].kind != DL_V_TENSOR) return false;
    }
    return true;
}

/* ---- masks and biases ---- */

static bool refuse_addend(dl_call *c, int i, const char *why) {
    const dl_type *q = &c->arg[Q].t->type, *k = &c->arg[K].t->type;
    dl_bad(c->E, c->ast[i]->span, DL_DIAG_axis_mismatch, "attention: '%s' is %s, %s",
           c->what->params[i].name, dl_type_text(&c->arg[i].t->type), why);
    dl_note_tensor(c->E, c->arg[i]);
    dl_help(c->E,
            "it has some of the axes [%s=%lld, heads=%lld, %s=%lld, %s=%lld] in any order; keys of "
            "another name are last",
            q->axis[SAMPLES].name, (long long)q->axis[0].size, (long long)c->arg[HEADS].i,
            q->axis[1].name, (long long)q->axis[1].size,
            k->axis[1].name == q->axis[1].name ? "keys" : k->axis[1].name,
            (long long)k->axis[1].size);
    return false;
}

/* The axis of argument i's type t that the keys are: the one of their name, or the last, where the
 * queries have the same name or none has it. -1: that one has another meaning. */
static int keys_of(const dl_type *t, const dl_type *q, const dl_type *k) {
    bool apart = k->axis[1].name != q->axis[1].name;
    int named = apart ? dl_type_axis(t, k->axis[1].name) : -1, last = t->rank - 1;
    if (named >= 0 || last < 0) return named;
    const char *name = t->axis[last].name;
    return name == q->axis[0].name || (apart && name == q->axis[1].name) ? -1 : last;
}

/* Which axis of the scores each axis of argument i is: samples and queries have their names, and
 * what is left next to the keys are the heads. False: reported. */
static bool find_roles(dl_call *c, int i, int at[AXES]) {
    static const char *const what[AXES] = {"samples", "heads", "queries", "keys"};
    const dl_type *t = &c->arg[i].t->type, *q = &c->arg[Q].t->type, *k = &c->arg[K].t->type;
    const int64_t sizes[AXES] = {q->axis[0].size, c->arg[HEADS].i, q->axis[1].size,
                                 k->axis[1].size};
    int keys = keys_of(t, q, k);
    if (keys < 0) return refuse_addend(c, i, "in which no axis is that of the keys");
    for (int j = 0; j < AXES; j++) at[j] = -1;
    for (int j = 0; j < t->rank; j++) {
        const char *name = t->axis[j].name;
        int role = j == keys                 ? KEYS
                   : name == q->axis[0].name ? SAMPLES
                   : name == q->axis[1].name ? QUERIES
                                             : HEAD;
        if (at[role] >= 0) return refuse_addend(c, i, "with two axes that could be the heads");
        at[role] = j;
        if (t->axis[j].size == sizes[role]) continue;
        return refuse_addend(c, i,
                             dl_format(c->E->arena, "but there are %lld %s where it has %s=%lld",
                                       (long long)sizes[role], what[role], name,
                                       (long long)t->axis[j].size));
    }
    return true;
}

/* Argument i as [N or 1, heads or 1, T or 1, S]. False: reported. */
static bool read_addend(dl_call *c, int i, dl_val *to) {
    dl_val v = c->arg[i];
    int at[AXES];
    bool logic = v.t->type.dtype == DL_BOOL;
    if (logic ? i == BIAS : !dl_dtype_is_float(v.t->type.dtype)) {
        dl_bad(c->E, c->ast[i]->span, DL_DIAG_type_mismatch,
               "attention: '%s' takes %s, but this is %s", c->what->params[i].name,
               i == BIAS ? "numbers" : "bools or what is added to scores",
               dl_type_text(&v.t->type));
        dl_help(c->E, i == BIAS ? "a bool says which keys a query may see: mask=..."
                                : "true where the query may see the key: mask=numbers != 0");
        return false;
    }
    if (!find_roles(c, i, at)) return false;
    dl_type order = dl_scalar(v.t->type.dtype), whole = order;
    for (int j = 0; j < AXES; j++)
        if (at[j] >= 0)
            dl_type_push(&order, v.t->type.axis[at[j]].name, v.t->type.axis[at[j]].size);
    if (!dl_type_same(&order, &v.t->type))
        v = dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &v, 0, NULL, &order);
    static const char *const names[AXES] = {"sample", "head", "query", "key"};
    for (int j = 0, k = 0; j < AXES; j++) {
        if (at[j] >= 0)
            whole.axis[whole.rank++] = order.axis[k++];
        else {
            dl_type taken = order;
            for (int m = 0; m < whole.rank; m++)
                if (dl_type_axis(&taken, whole.axis[m].name) < 0)
                    dl_type_push(&taken, whole.axis[m].name, 1);
            dl_type_push(&whole, other_name(&taken, names[j]), 1);
        }
    }
    if (v.kind == DL_V_TENSOR && order.rank != AXES)
        v = dl_tensor_op(c->E, c->where, DL_OP_reshape, 1, &v, 0, NULL, &whole);
    *to = v;
    return v.kind == DL_V_TENSOR;
}

dl_val dl_layer_attention(dl_call *c) {
    dl_val in[V + 3] = {c->arg[Q], c->arg[K], c->arg[V]};
    double rate;
    int nin = V + 1;
    if (!dl_call_rate(c, DROPOUT, &rate)) return dl_poison();
    if (!group_heads(c, in)) return dl_poison();
    if (!dl_axes_agree(c->E, c->where, "attention", nin, in, NULL)) return dl_poison();
    bool plain = true; /* where it is not, the op reports it */
    for (int i = 0; i < nin; i++) plain &= in[i].t->type.rank == 3;
    for (int i = MASK; i <= BIAS && plain; i++)
        if (c->given[i] && !read_addend(c, i, &in[nin++])) return dl_poison();
    dl_attr attrs[] = {dl_attr_float(DL_ATTR_rate, c->E->train ? rate : 0),
                       dl_attr_int(DL_ATTR_heads, c->arg[HEADS].i), dl_attr_int(DL_ATTR_causal, 1)};
    return dl_tensor_op(c->E, c->where, DL_OP_attention, nin, in, c->arg[CAUSAL].b ? 3 : 2, attrs,
                        NULL);
}

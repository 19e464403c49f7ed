/* Rules of recurrent cells: one step of a layer, in formulas. Gates and states have the axis of
 * the state's features. */
#include "imports/dl/rules.h"

typedef struct {
    dl_in_value *x[2]; /* what the input and the state give to the gates: [N, (gates hidden)] */
    dl_in_value *h;    /* the state */
    const char *axis;
    int64_t hidden;
} cell;

/* x w^T + b */
static dl_in_value *product(dl_in_ctx *c, dl_in_value *x, const char *weight, const char *bias) {
    dl_in_value *w = dl_operand(c, weight), *b = dl_operand(c, bias);
    if (!x || !w || x->rank != 2 || w->rank != 2) return NULL;
    if (!dl_contract(c, 2, (dl_in_value *[]){x, w}, (const char *[]){"az", "oz"}, "ao"))
        return NULL;
    dl_in_value *y = c->b->of[c->n->results[0]->id], *made = y;
    if (!b) return y;
    made = dl_match(c, y, b);
    made->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", y, P_SUM, b, P_PRODUCT);
    return made;
}

static bool read_cell(dl_in_ctx *c, cell *of, dl_in_value *h) {
    static const char *const weights[] = {"w_ih", "w_hh"}, *const biases[] = {"b_ih", "b_hh"};
    dl_in_value *x = dl_operand(c, "input");
    if (!x || !h || h->rank != 2) return false;
    dl_ordered(c, h, true);
    *of = (cell){.h = h, .axis = h->axis[1].name, .hidden = dl_dim_size(c->w, h, 1)};
    for (int k = 0; k < 2; k++) {
        dl_in_value *y = product(c, k ? dl_copy_value(c, h) : x, weights[k], biases[k]);
        if (!y) return false;
        y = dl_copy_value(c, y);
        dl_ordered(c, y, true);
        dl_rename(c, y, (const char *[]){h->axis[0].name, of->axis});
        of->x[k] = y;
    }
    return true;
}

/* Gate k of the parts that the input and the state give, or of their sum. */
static dl_in_value *gate(dl_in_ctx *c, const cell *of, const dl_in_value *from, int k) {
    dl_in_value *made = dl_copy_value(c, of->h);
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s=%i:%i]", from, P_POSTFIX, of->axis, "from",
                        k * of->hidden, "to", (k + 1) * of->hidden);
    made->param = -1, made->is_view = false;
    return made;
}

static dl_in_value *sum(dl_in_ctx *c, const dl_in_value *a, const dl_in_value *b) {
    dl_in_value *made = dl_copy_value(c, a);
    made->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", a, P_SUM, b, P_PRODUCT);
    return made;
}

static dl_in_value *of_function(dl_in_ctx *c, const char *function, const dl_in_value *v) {
    dl_in_value *made = dl_copy_value(c, v);
    made->stmt = dl_call_function(c, function, v, "");
    return made;
}

bool dl_in_lstm_cell(dl_in_ctx *c) {
    const dl_foreign_arg *states = dl_foreign_find(c->n, "hx");
    cell of;
    if (!states || states->n != 2 || !states->tensors[0] || !states->tensors[1] ||
        c->n->n_results != 2 || !read_cell(c, &of, dl_value_of(c, states->tensors[0])))
        return false;
    dl_in_value *old = dl_copy_value(c, dl_value_of(c, states->tensors[1])), *g[4];
    if (old->rank != 2) return false;
    dl_ordered(c, old, true);
    dl_rename(c, old, (const char *[]){of.h->axis[0].name, of.axis});
    dl_in_value *all = sum(c, of.x[0], of.x[1]);
    for (int k = 0; k < 4; k++)
        g[k] = of_function(c, k == 2 ? "tanh" : "sigmoid", gate(c, &of, all, k));
    dl_in_value *now = dl_copy_value(c, g[0]), *h = dl_copy_value(c, g[0]);
    now->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p * %p + %p * %p", g[1], P_PRODUCT, old, P_UNARY,
                       g[0], P_PRODUCT, g[2], P_UNARY);
    h->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * tanh(%v)", g[3], P_PRODUCT, now);
    dl_set(c, 0, h), dl_set(c, 1, now);
    return true;
}

bool dl_in_gru_cell(dl_in_ctx *c) {
    cell of;
    if (c->n->n_results != 1 || !read_cell(c, &of, dl_operand(c, "hx"))) return false;
    dl_in_value *g[2], *fresh = gate(c, &of, of.x[0], 2), *kept = gate(c, &of, of.x[1], 2);
    for (int k = 0; k < 2; k++)
        g[k] =
            of_function(c, "sigmoid", sum(c, gate(c, &of, of.x[0], k), gate(c, &of, of.x[1], k)));
    dl_in_value *made = dl_copy_value(c, kept);
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "tanh(%p + %p * %p)", fresh, P_SUM, g[0],
                        P_PRODUCT, kept, P_UNARY);
    return dl_done(c, made,
                   dl_say(c, STMT_PLAIN, P_SUM, "%p + %p * (%p - %p)", made, P_SUM, g[1], P_PRODUCT,
                          of.h, P_SUM, made, P_PRODUCT));
}

/* detail: the nonlinearity */
bool dl_in_rnn_cell(dl_in_ctx *c) {
    cell of;
    if (c->n->n_results != 1 || !read_cell(c, &of, dl_operand(c, "hx"))) return false;
    dl_in_value *all = sum(c, of.x[0], of.x[1]), *made = dl_copy_value(c, of.h);
    return dl_done(c, made, dl_call_function(c, c->detail, all, ""));
}

/* Rules of PyTorch's recurrent cells: one step of a layer. */
#include "imports/dl/step.h"

/* x w^T + b, with the names of the state's axes */
static dl_in_value *product_of(dl_in_step *s, dl_in_value *x, const char *weight,
                               const char *bias) {
    dl_in_ctx *c = s->c;
    dl_in_value *w = dl_operand(c, weight), *b = dl_operand(c, bias);
    if (!x || !w || x->rank != 2 || w->rank != 2) return NULL;
    if (!dl_contract(c, 2, (dl_in_value *[]){x, w}, (const char *[]){"az", "oz"}, "ao"))
        return NULL;
    dl_in_value *y = c->b->of[c->n->results[0]->id];
    if (b) {
        dl_in_value *sum = dl_match(c, y, b);
        sum->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", y, P_SUM, b, P_PRODUCT);
        y = sum;
    }
    y = dl_copy_value(c, y);
    dl_ordered(c, y, true);
    dl_rename(c, y, (const char *[]){s->form->axis[0].name, s->form->axis[1].name});
    return y;
}

/* The weights of the state; there are no others. */
static dl_in_value *product(dl_in_step *s, dl_in_value *h, const char *role) {
    return strcmp(role, "hh") ? NULL : product_of(s, dl_copy_value(s->c, h), "w_hh", "b_hh");
}

/* detail: the activations */
static bool cell(dl_in_ctx *c, int gates, dl_in_value *h, dl_in_value *memory) {
    dl_in_value *next[DL_IN_STATES];
    dl_in_step s = {.c = c, .gates = gates, .form = h, .product = product};
    if (!h || h->rank != 2) return false;
    dl_ordered(c, h, true);
    s.hidden = dl_dim_size(c->w, h, 1), s.state[0] = h;
    char *words = dl_strdup(c->w->arena, c->detail);
    for (int k = 0; k < 3; k++) s.function[k] = strsep(&words, " ");
    if (memory) {
        s.state[1] = dl_copy_value(c, memory);
        if (memory->rank != 2) return false;
        dl_ordered(c, s.state[1], true);
        dl_rename(c, s.state[1], (const char *[]){h->axis[0].name, h->axis[1].name});
    }
    if (!(s.x = product_of(&s, dl_operand(c, "input"), "w_ih", "b_ih")) || !dl_say_step(&s, next))
        return false;
    for (int k = 0; k < c->n->n_results; k++) dl_set(c, k, next[k]);
    return true;
}

bool dl_in_lstm_cell(dl_in_ctx *c) {
    const dl_foreign_arg *hx = dl_foreign_find(c->n, "hx");
    return hx && hx->n == 2 && hx->tensors[0] && hx->tensors[1] && c->n->n_results == 2 &&
           cell(c, 4, dl_value_of(c, hx->tensors[0]), dl_value_of(c, hx->tensors[1]));
}

bool dl_in_gru_cell(dl_in_ctx *c) {
    return c->n->n_results == 1 && cell(c, 3, dl_operand(c, "hx"), NULL);
}

bool dl_in_rnn_cell(dl_in_ctx *c) {
    return c->n->n_results == 1 && cell(c, 1, dl_operand(c, "hx"), NULL);
}

/* Rules of PyTorch's recurrent cells: one step of a layer. */
#include "imports/dl/step.h"

/* The weights of the state; there are no others. */
static dl_in_value *product(dl_in_step *s, dl_in_value *h, const char *role) {
    return strcmp(role, "hh") ? NULL
                              : dl_step_product(s, h, dl_foreign_operand(s->c->n, "w_hh"),
                                                dl_foreign_operand(s->c->n, "b_hh"));
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
    s.x = dl_step_product(&s, dl_operand(c, "input"), dl_foreign_operand(c->n, "w_ih"),
                          dl_foreign_operand(c->n, "b_ih"));
    if (!s.x || !dl_say_step(&s, next)) return false;
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

/* Rule of recurrent layers that PyTorch lacks, of ONNX: a module of one step, and a scan of it. The
 * node dl.cell has the input's part of all gates, in PyTorch's order, and the first states. */
#include "imports/dl/step.h"

/* h |> linear(features) @label, of the node's arguments ROLE_weight and ROLE_bias. NULL: none. */
static dl_in_value *linear(dl_in_step *s, dl_in_value *h, const char *role) {
    const dl_foreign_node *n = s->weights;
    dl_arena *arena = s->c->w->arena;
    const dl_foreign_tensor *w = dl_foreign_operand(n, dl_format(arena, "%s_weight", role)),
                            *b = dl_foreign_operand(n, dl_format(arena, "%s_bias", role));
    const char *label = w ? dl_layer_label(s->c, w, b) : NULL;
    if (!label) return NULL;
    int at = dl_say(s->c, STMT_LAYER, P_PIPE, "%v |> linear(%i", h, "features", w->shape[0]);
    dl_say_more(s->c, "%s) @%l", b ? "" : ", bias=false", label);
    dl_in_value *y = dl_copy_value(s->c, h);
    y->stmt = at, y->param = -1, y->is_view = false;
    return y;
}

static bool read_states(dl_in_ctx *c, dl_in_scan *scan, int64_t hidden) {
    const dl_foreign_arg *hx = dl_foreign_find(c->n, "hx");
    if (!hx || hx->n != scan->states) return false;
    for (int k = 0; k < scan->states; k++) {
        if (!hx->tensors[k]) return false;
        dl_in_value *h = dl_copy_value(c, dl_value_of(c, hx->tensors[k]));
        if (h->rank != 2 || dl_dim_size(c->w, h, 1) != hidden) return false;
        dl_ordered(c, h, true);
        dl_rename(c, h, (const char *[]){scan->x->axis[1].name, scan->x->axis[2].name});
        scan->start[k] = h;
    }
    return true;
}

/* Results: all states, and the last ones. */
bool dl_in_cell(dl_in_ctx *c) {
    dl_in_value *given = dl_operand(c, "input"), *next[DL_IN_STATES];
    const char *label = dl_foreign_text(c->n, "label", ""),
               *kind = dl_foreign_text(c->n, "kind", "");
    char *functions = dl_strdup(c->w->arena, dl_foreign_text(c->n, "functions", ""));
    int which = !strcmp(kind, "LSTM") ? 2 : !strcmp(kind, "GRU");
    dl_in_scan scan = {.states = 1 + (which == 2), .reverse = dl_foreign_int(c->n, "reverse", 0)};
    dl_in_step s = {.gates = (int[]){1, 3, 4}[which],
                    .clip = dl_foreign_real(c->n, "clip", 0),
                    .input_forget = dl_foreign_int(c->n, "input_forget", 0),
                    .reset_first = dl_foreign_find(c->n, "new_weight"),
                    .product = linear,
                    .weights = c->n};
    if (!given || given->rank != 3 || c->n->n_results != 1 + scan.states || !*label ||
        (!which && strcmp(kind, "RNN") != 0))
        return false;
    for (int k = 0; k <= which; k++)
        if (!(s.function[k] = strsep(&functions, " "))) return false;
    scan.x = dl_copy_value(c, given);
    dl_ordered(c, scan.x, true);
    s.hidden = dl_dim_size(c->w, scan.x, 2) / s.gates;
    if (!read_states(c, &scan, s.hidden)) return false;
    scan.body = dl_new_body(c->w, kind, label);
    dl_in_ctx inner = {.w = c->w, .b = scan.body};
    s.c = &inner;
    dl_enter_step(c, &scan, &s);
    const dl_foreign_tensor *peepholes = dl_foreign_operand(c->n, "peepholes");
    if (peepholes && peepholes->rank != 1) return false;
    if (peepholes) {
        s.peepholes = dl_copy_value(&inner, dl_value_of(&inner, peepholes));
        dl_rename(&inner, s.peepholes, (const char *[]){s.form->axis[1].name});
    }
    if (!dl_say_step(&s, next)) return false;
    for (int k = 0; k < scan.states; k++) dl_push(c->w->arena, &scan.body->returns, next[k]->stmt);
    int at = dl_say_scan(c, &scan);
    for (int k = 0; k < c->n->n_results; k++) dl_set(c, k, dl_scan_result(c, &scan, at, k));
    return true;
}

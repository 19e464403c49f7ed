/* Rules of recurrent layers: PyTorch's names, shapes and order of gates are the language's. */
#include "imports/dl/step.h"

enum { STATES = 2 }; /* h; and c of an LSTM */

typedef struct {
    const dl_foreign_arg *params;
    bool both, biases;
    int each; /* parameters of a layer and direction */
    int64_t layers, hidden;
    dl_in_value *x;             /* [N, T, E] */
    dl_in_value *start[STATES]; /* [L, N, hidden]; NULL: zeros */
    bool asked;                 /* for the last states */
} layer;

/* weight_ih_l0 and all others, in PyTorch's order */
static const char **roles_of(dl_in_ctx *c, const layer *l) {
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    int n = l->params->n, directions = l->both ? 2 : 1;
    const char **role = DL_NEWS(c->w->arena, const char *, n + 1);
    for (int i = 0; i < n; i++) {
        int part = i / l->each;
        role[i] = dl_format(c->w->arena, "%s_l%d%s", names[i % l->each], part / directions,
                            part % directions ? "_reverse" : "");
    }
    return role;
}

/* States [L, 1, hidden] that are repeated for each sequence of the batch: PyTorch says a number,
 * which is the example's. NULL: t is made in another way. */
static dl_in_value *for_batch(dl_in_ctx *c, const dl_foreign_tensor *t) {
    static const char *const same[] = {"aten.contiguous.", "aten.clone.", "aten.to.", NULL},
                             *const copies[] = {"aten.expand.", "aten.repeat.", NULL};
    for (int depth = 0; t && depth < 64; depth++) {
        int by = c->w->defined_by[t->id];
        if (by < 0) return NULL;
        const dl_foreign_node *n = &c->w->graph->nodes.at[by];
        const dl_foreign_tensor *from = dl_foreign_operand(n, "self");
        if (dl_is_one_of(n->op, copies) && from && from->rank == 3 && from->shape[1] == 1 &&
            t->rank == 3 && from->shape[0] == t->shape[0] && from->shape[2] == t->shape[2]) {
            dl_in_value *v = dl_copy_value(c, dl_value_of(c, from)), *h;
            dl_in_value old = *v;
            v->dim[0] = old.dim[1], v->dim[1] = old.dim[0];
            h = dl_expanded(c, v, 3, (int64_t[]){t->shape[1], t->shape[0], t->shape[2]}, NULL);
            if (!h) return NULL;
            old = *h;
            h->dim[0] = old.dim[1], h->dim[1] = old.dim[0];
            return h;
        }
        t = dl_is_one_of(n->op, same) ? from : NULL;
    }
    return NULL;
}

/* First states, with the names of the input's axes. False: of another form. */
static bool read_start(dl_in_ctx *c, layer *l) {
    const dl_foreign_arg *states = dl_foreign_find(c->n, "hx");
    bool zeros = true;
    for (int k = 0; states && k < states->n; k++)
        zeros = zeros && dl_is_zero(c, states->tensors[k]);
    if (!states || zeros) return true;
    for (int k = 0; k < states->n && k < STATES; k++) {
        const dl_foreign_tensor *t = states->tensors[k];
        const dl_in_axis *n = &l->x->axis[0];
        dl_in_value *h = t && dl_has_batch(n->n, n->atom) ? for_batch(c, t) : NULL;
        if (!h && t) h = dl_value_of(c, t);
        if (!h || h->rank != 3) return false;
        dl_ordered(c, h, true);
        if (dl_axis_size_of(c->w, &h->axis[1]) != dl_axis_size_of(c->w, n) ||
            dl_has_batch(h->axis[1].n, h->axis[1].atom) != dl_has_batch(n->n, n->atom))
            return false;
        dl_rename(c, h, (const char *[]){"L", n->name, l->x->axis[2].name});
        l->start[k] = h;
    }
    return true;
}

/* The input as [N, T, E], where no axis is called L: the states have one. */
static dl_in_value *read_input(dl_in_ctx *c, bool steps_first) {
    dl_in_value *given = dl_operand(c, "input");
    if (!given || given->rank != 3) return NULL;
    dl_in_value *x = dl_copy_value(c, given);
    if (steps_first) x->dim[0] = given->dim[1], x->dim[1] = given->dim[0];
    dl_ordered(c, x, true);
    const char *names[3];
    for (int a = 0; a < 3; a++) {
        names[a] = x->axis[a].name;
        if (!strcmp(names[a], "L")) names[a] = dl_fresh_name(x, a, 3);
        if (!strcmp(names[a], "1")) return NULL;
    }
    dl_rename(c, x, names);
    return x;
}

/* Sets result k to the last states of all layers and directions. */
static void set_last(dl_in_ctx *c, const layer *l, int k, const dl_in_value *all) {
    dl_in_value *h = dl_copy_value(c, l->x);
    h->axis[0].name = "L", h->axis[1] = l->x->axis[0], h->axis[2].name = l->x->axis[2].name;
    for (int a = 0; a < 3; a += 2) {
        h->axis[a].n = 1;
        h->axis[a].atom[0] = dl_new_atom(c->w, a ? l->hidden : l->layers * (l->both ? 2 : 1));
    }
    for (int a = 0; a < 3; a++) {
        h->dim[a].n = h->axis[a].n;
        memcpy(h->dim[a].atom, h->axis[a].atom, sizeof h->dim[a].atom);
    }
    h->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s]", all, P_POSTFIX, dl_in_whole(c->w, k));
    h->param = -1, h->is_view = false;
    dl_set(c, k, h);
}

/* lstm(hidden, ...) @label. First states follow the size: where the layer is bound, as it is
 * applied several times, they go with the applications (bind.c). */
static void say_layer(dl_in_ctx *c, const layer *l, const char *label) {
    double rate = dl_foreign_real(c->n, "dropout", 0);
    size_t name = strcspn(c->detail, " ");
    dl_say_more(c, "%s(%i", dl_strndup(c->w->arena, c->detail, name), "hidden", l->hidden);
    if (l->start[0]) dl_say_more(c, ", h0=%v", l->start[0]);
    if (l->start[1]) dl_say_more(c, ", c0=%v", l->start[1]);
    if (l->layers > 1) dl_say_more(c, ", layers=%i", "layers", l->layers);
    if (l->both) dl_say_more(c, ", bidirectional=true");
    if (rate > 0 && l->layers > 1) dl_say_more(c, ", dropout=%r", "dropout", rate);
    if (!l->biases) dl_say_more(c, ", bias=false");
    if (l->asked) dl_say_more(c, ", states=true");
    if (c->detail[name]) dl_say_more(c, ", nonlinearity=\"%s\"", c->detail + name + 1);
    dl_say_more(c, ") @%l", label);
}

/* x |> the layer. -1: it has other names. */
static int apply(dl_in_ctx *c, layer *l) {
    const char *label = dl_label_of_all(c, l->params->n, l->params->tensors, roles_of(c, l));
    bool several = c->w->reads[l->params->tensors[0]->id] > 1;
    if (!label) return -1;
    l->asked = l->asked || several; /* in one place, and then in all of them */
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> ", l->x);
    say_layer(c, l, label);
    return s;
}

/* With proj_size there is one parameter more for each layer and direction. */
static bool projected(dl_in_ctx *c, layer *l, bool steps_first) {
    if (!(l->x = read_input(c, steps_first))) return false;
    dl_in_value *x = dl_copy_value(c, l->x);
    x->dim[0] = l->x->dim[1], x->dim[1] = l->x->dim[0];
    dl_ordered(c, x, true);
    if (!dl_in_projected(c, x, (int)l->layers, l->both ? 2 : 1, l->biases)) return false;
    if (steps_first) return true;
    dl_in_value *y = dl_copy_value(c, c->b->of[c->n->results[0]->id]), turned = *y;
    y->dim[0] = turned.dim[1], y->dim[1] = turned.dim[0];
    dl_set(c, 0, y);
    return true;
}

bool dl_in_recurrent(dl_in_ctx *c) {
    layer l = {.params = dl_foreign_find(c->n, "params"),
               .both = dl_foreign_int(c->n, "bidirectional", 0),
               .biases = dl_foreign_int(c->n, "has_biases", 1),
               .layers = dl_foreign_int(c->n, "num_layers", 1)};
    int directions = l.both ? 2 : 1;
    bool steps_first = !dl_foreign_int(c->n, "batch_first", 0);
    l.each = l.biases ? 4 : 2;
    if (l.params && l.layers >= 1 && l.layers <= 64 && c->n->n_results == 3 &&
        l.params->n == (int)l.layers * (l.each + 1) * directions)
        return projected(c, &l, steps_first);
    if (!l.params || l.layers < 1 || l.layers > 1000 ||
        l.params->n != (int)l.layers * l.each * directions || !l.params->tensors[1] ||
        l.params->tensors[1]->rank != 2)
        return false;
    l.hidden = l.params->tensors[1]->shape[1];
    for (int k = 1; k < c->n->n_results; k++)
        l.asked = l.asked || c->w->last_use[c->n->results[k]->id] >= 0;
    if (!(l.x = read_input(c, steps_first)) || !read_start(c, &l)) return false;
    dl_in_value *y = dl_copy_value(c, l.x), all = {.stmt = apply(c, &l)};
    if (all.stmt < 0) return false;
    y->axis[2].n = y->dim[2].n = 1;
    y->axis[2].atom[0] = y->dim[2].atom[0] = dl_new_atom(c->w, directions * l.hidden);
    y->stmt = l.asked ? dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[0]", &all, P_POSTFIX) : all.stmt;
    y->param = -1, y->is_view = false;
    if (steps_first) {
        dl_in_value turned = *y;
        y->dim[0] = turned.dim[1], y->dim[1] = turned.dim[0];
    }
    dl_set(c, 0, y);
    for (int k = 1; k < c->n->n_results && l.asked; k++) set_last(c, &l, k, &all);
    return true;
}

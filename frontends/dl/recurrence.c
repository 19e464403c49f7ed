/* The layers lstm, gru and rnn, over [..., T, E]: parameters of torch.nn's names, and one op for
 * each layer and direction (ir/recurrence.h). First and last states are torch.nn's, too: [layers
 * and directions, ..., hidden]. */
#include <math.h>

#include "frontends/dl/builtin.h"
#include "ir/recurrence.h"

enum { P_X, P_HIDDEN, P_LAYERS, P_BIDIRECTIONAL, P_DROPOUT, P_BIAS, P_H0, P_STATES };
enum { P_C0 = P_STATES + 1, P_NONLINEARITY = P_C0 }; /* of lstm; of rnn */
enum { H, C, STATES };                               /* the states of a step */
enum { MOST_LAYERS = 1000 };

typedef struct {
    dl_call *c;
    dl_cell cell;
    int64_t hidden, parts; /* parts: layers, of two directions twice as many */
    bool bias;
    dl_axis steps;
    dl_val start[STATES]; /* [..., parts, hidden], if `started`; c of an lstm alone */
    bool started, states; /* states: the last ones are asked for, */
    dl_val *last[STATES]; /* [..., 1, hidden] of each part so far */
    int made;
} layers;

static bool bad(dl_call *c, int i, const char *why) {
    dl_bad(c->E, c->ast[i] ? c->ast[i]->span : c->where, DL_DIAG_bad_argument, "%s: %s",
           c->what->name, why);
    return false;
}

/* torch.nn's default for all of its parameters: uniform within 1 / sqrt(hidden). */
static dl_val make(const layers *l, const char *role, const char *suffix, int64_t columns) {
    dl_val x = l->c->arg[P_X];
    double bound = l->hidden ? 1 / sqrt((double)l->hidden) : 0;
    dl_type t = dl_scalar(x.t->type.dtype == DL_F64 ? DL_F64 : DL_F32);
    dl_type_push(&t, "O", dl_cells[l->cell].gates * l->hidden);
    if (columns >= 0) dl_type_push(&t, "I", columns);
    return dl_make_param_of(l->c, role, suffix, t, (dl_init){DL_INIT_UNIFORM, -bound, bound},
                            (double)columns, (double)l->hidden);
}

static dl_val join(const layers *l, int n, const dl_val *parts, const char *axis) {
    dl_attr at = dl_attr_name(DL_ATTR_axis, axis);
    return n == 1 ? parts[0]
                  : dl_tensor_op(l->c->E, l->c->where, DL_OP_cat, n, parts, 1, &at, NULL);
}
static dl_val rows_of(const layers *l, dl_val x, int64_t from, int64_t to) {
    if (x.kind != DL_V_TENSOR) return x;
    return dl_tensor_slice(l->c->E, l->c->where, x, l->steps.name, from, to);
}

/* The states that the next part starts from: rows of h, and of c. */
static dl_val start_of(const layers *l) {
    dl_val rows[STATES];
    int n = dl_cells[l->cell].states;
    for (int k = 0; k < n; k++) rows[k] = rows_of(l, l->start[k], l->made, l->made + 1);
    return join(l, n, rows, l->steps.name);
}

/* The states of all steps; sets aside the last ones. */
static dl_val set_aside(layers *l, dl_val y, bool reverse) {
    int64_t steps = l->steps.size, last = reverse ? 0 : steps - 1;
    l->last[H][l->made] = rows_of(l, y, last, last + 1);
    if (l->cell != DL_LSTM) return y;
    l->last[C][l->made] = rows_of(l, y, steps, steps + 1);
    return rows_of(l, y, 0, steps);
}

static dl_val apply(layers *l, dl_val x, int64_t layer, bool reverse) {
    const char *suffix = dl_internf("_l%lld%s", (long long)layer, reverse ? "_reverse" : "");
    int64_t features = x.t->type.axis[x.t->type.rank - 1].size;
    dl_val in[DL_LAYER_BIASED + 1] = {x, make(l, "weight_ih", suffix, features),
                                      make(l, "weight_hh", suffix, l->hidden)};
    int nin = l->bias ? DL_LAYER_BIASED : DL_LAYER_PLAIN;
    if (l->bias) in[3] = make(l, "bias_ih", suffix, -1), in[4] = make(l, "bias_hh", suffix, -1);
    if (l->started) in[nin++] = start_of(l);
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_mode, dl_cells[l->cell].name),
                       dl_attr_int(DL_ATTR_reverse, reverse), dl_attr_int(DL_ATTR_cell, 1)};
    int nattrs = l->states && l->cell == DL_LSTM ? 3 : 2;
    dl_val y = dl_tensor_op(l->c->E, l->c->where, DL_OP_recurrence, nin, in, nattrs, attrs, NULL);
    if (l->states) y = set_aside(l, y, reverse);
    l->made++;
    return y;
}

/* Both directions' results, one after the other along the features. */
static dl_val apply_both(layers *l, dl_val x, int64_t layer) {
    dl_val both[] = {apply(l, x, layer, false), apply(l, x, layer, true)};
    for (int i = 0; i < 2; i++)
        if (both[i].kind != DL_V_TENSOR) return both[i];
    const dl_type *t = &both[0].t->type;
    return join(l, 2, both, t->axis[t->rank - 1].name);
}

/* ---- first and last states ---- */

/* The axes of first and last states: [L, ..., hidden], for x's [..., T, E]. */
static dl_type states_type(const layers *l) {
    const dl_type *x = &l->c->arg[P_X].t->type;
    dl_type t = dl_scalar(x->dtype);
    dl_type_push(&t, dl_intern("L"), l->parts);
    for (int i = 0; i < x->rank - 2; i++) dl_type_push(&t, x->axis[i].name, x->axis[i].size);
    dl_type_push(&t, x->axis[x->rank - 1].name, l->hidden);
    return t;
}
/* The same with the steps' name: states as rows, [..., T, hidden]. */
static dl_type rows_type(const layers *l) {
    dl_type t = states_type(l), rows = t;
    for (int i = 0; i < t.rank - 2; i++) rows.axis[i] = t.axis[i + 1];
    rows.axis[t.rank - 2] = (dl_axis){.name = l->steps.name, .size = l->parts};
    return rows;
}

/* Reads argument i, h0 or c0, as rows. Poison: reported. */
static dl_val read_start(const layers *l, int i) {
    dl_call *c = l->c;
    dl_val v = c->arg[i];
    dl_type want = states_type(l);
    if (!dl_call_float(c, &v)) return dl_poison();
    const dl_type *t = &v.t->type;
    bool good = t->rank == want.rank && t->dtype == want.dtype;
    for (int k = 0; good && k < t->rank; k++) {
        bool inner = k > 0 && k + 1 < t->rank;
        good = t->axis[k].size == want.axis[k].size &&
               (!inner || t->axis[k].name == want.axis[k].name);
    }
    if (!good) {
        bad(c, i,
            dl_format(c->E->arena, "'%s' is %s, a state of each layer and direction, but it is %s",
                      c->what->params[i].name, dl_type_text(&want), dl_type_text(t)));
        dl_note_tensor(c->E, v);
        dl_help(c->E, "unsqueeze(h, over=L, at=0) makes the first axis of the state of one layer");
        return dl_poison();
    }
    want.axis[0].name = l->steps.name;
    v = dl_tensor_op(c->E, c->where, DL_OP_rename, 1, &v, 0, NULL, &want);
    dl_type rows = rows_type(l);
    return dl_tensor_ordered(c->E, c->where, v, &rows);
}

/* Prepares first and last states, as far as the call has them. False: reported. */
static bool prepare_states(layers *l) {
    dl_call *c = l->c;
    const dl_type *x = &c->arg[P_X].t->type;
    bool lstm = l->cell == DL_LSTM, either = c->given[P_H0] || (lstm && c->given[P_C0]);
    l->started = either, l->states = c->arg[P_STATES].b;
    if (lstm && either && !(c->given[P_H0] && c->given[P_C0]))
        return bad(c, c->given[P_H0] ? P_H0 : P_C0, "'h0' and 'c0' are given together");
    if (!l->started && !l->states) return true;
    if (!*l->steps.name || !l->steps.size)
        return bad(c, P_X,
                   dl_format(c->E->arena,
                             "first and last states take steps along an axis with a name, of one "
                             "element at least, but the input is %s",
                             dl_type_text(x)));
    for (int i = 0; i < x->rank; i++)
        if (i != x->rank - 2 && strcmp(x->axis[i].name, "L") == 0)
            return bad(c, P_X, "the first axis of states is L, which the input has: rename it");
    for (int k = 0; k < dl_cells[l->cell].states && l->started; k++) {
        l->start[k] = read_start(l, k == H ? P_H0 : P_C0);
        if (l->start[k].kind != DL_V_TENSOR) return false;
    }
    for (int k = 0; k < STATES; k++) l->last[k] = DL_NEWS(c->E->arena, dl_val, l->parts);
    return true;
}

/* [y, h], or [y, h, c]. */
static dl_val with_states(const layers *l, dl_val y) {
    dl_elab *E = l->c->E;
    dl_val all = dl_val_new_list(E, l->c->where);
    dl_type t = states_type(l), named = t;
    t.axis[0].name = l->steps.name;
    if (!dl_val_append(E, all, y, l->c->where)) return dl_poison();
    for (int k = 0; k < dl_cells[l->cell].states; k++) {
        dl_val v = join(l, l->made, l->last[k], l->steps.name);
        v = dl_tensor_ordered(E, l->c->where, v, &t);
        v = dl_tensor_op(E, l->c->where, DL_OP_rename, 1, &v, 0, NULL, &named);
        if (!dl_val_append(E, all, v, l->c->where)) return dl_poison();
    }
    return all;
}

/* ---- the layers ---- */

static dl_val apply_all(dl_call *c, dl_cell cell) {
    dl_val x = c->arg[P_X];
    layers l = {.c = c, .cell = cell, .hidden = c->arg[P_HIDDEN].i, .bias = c->arg[P_BIAS].b};
    int64_t count = c->arg[P_LAYERS].i;
    double rate;
    if (!dl_call_float(c, &x) || !dl_call_rate(c, P_DROPOUT, &rate)) return dl_poison();
    c->arg[P_X] = x;
    const dl_type *t = &x.t->type;
    if (t->rank < 2 || !*t->axis[t->rank - 1].name) {
        dl_bad(c->E, c->where, DL_DIAG_rank_mismatch,
               "%s works on [..., T, E], steps and their features, but its input is %s",
               c->what->name, dl_type_text(t));
        dl_note_tensor(c->E, x);
        return dl_poison();
    }
    if (l.hidden > INT32_MAX / 8)
        return bad(c, P_HIDDEN, "'hidden' is at most 268435455"), dl_poison();
    if (count > MOST_LAYERS) return bad(c, P_LAYERS, "'layers' is at most 1000"), dl_poison();
    l.steps = t->axis[t->rank - 2], l.parts = c->arg[P_BIDIRECTIONAL].b ? 2 * count : count;
    if (!prepare_states(&l)) return dl_poison();
    for (int64_t i = 0; i < count && x.kind == DL_V_TENSOR; i++) {
        x = c->arg[P_BIDIRECTIONAL].b ? apply_both(&l, x, i) : apply(&l, x, i, false);
        dl_attr dropped = dl_attr_float(DL_ATTR_rate, rate);
        if (i + 1 < count && rate > 0 && c->E->train && x.kind == DL_V_TENSOR)
            x = dl_tensor_op(c->E, c->where, DL_OP_dropout, 1, &x, 1, &dropped, NULL);
    }
    return l.states && x.kind == DL_V_TENSOR ? with_states(&l, x) : x;
}

dl_val dl_layer_lstm(dl_call *c) { return apply_all(c, DL_LSTM); }
dl_val dl_layer_gru(dl_call *c) { return apply_all(c, DL_GRU); }
dl_val dl_layer_rnn(dl_call *c) {
    const char *f = c->given[P_NONLINEARITY] ? c->arg[P_NONLINEARITY].s : "tanh";
    if (strcmp(f, "tanh") == 0) return apply_all(c, DL_RNN_TANH);
    if (strcmp(f, "relu") == 0) return apply_all(c, DL_RNN_RELU);
    return bad(c, P_NONLINEARITY, "'nonlinearity' is \"tanh\" or \"relu\""), dl_poison();
}

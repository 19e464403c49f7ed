/* The layers lstm, gru and rnn, over [..., T, E]: parameters of torch.nn's names, and one op for
 * each layer and direction (ir/recurrence.h). */
#include <math.h>

#include "frontends/dl/builtin.h"
#include "ir/recurrence.h"

enum { P_X, P_HIDDEN, P_LAYERS, P_BIDIRECTIONAL, P_DROPOUT, P_BIAS, P_NONLINEARITY };
enum { MOST_LAYERS = 1000 };

typedef struct {
    dl_call *c;
    dl_cell cell;
    int64_t hidden;
    bool bias;
} layers;

static bool bad(dl_call *c, int i, const char *why) {
    dl_bad(c->E, c->given[i] ? c->ast[i]->span : c->where, DL_DIAG_bad_argument, "%s: %s",
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

static dl_val apply(const layers *l, dl_val x, int64_t layer, bool reverse) {
    const char *suffix = dl_internf("_l%lld%s", (long long)layer, reverse ? "_reverse" : "");
    int64_t features = x.t->type.axis[x.t->type.rank - 1].size;
    dl_val in[DL_LAYER_BIASED] = {x, make(l, "weight_ih", suffix, features),
                                  make(l, "weight_hh", suffix, l->hidden)};
    int nin = l->bias ? DL_LAYER_BIASED : DL_LAYER_PLAIN;
    if (l->bias) in[3] = make(l, "bias_ih", suffix, -1), in[4] = make(l, "bias_hh", suffix, -1);
    dl_attr attrs[] = {dl_attr_name(DL_ATTR_mode, dl_cells[l->cell].name),
                       dl_attr_int(DL_ATTR_reverse, reverse)};
    return dl_tensor_op(l->c->E, l->c->where, DL_OP_recurrence, nin, in, 2, attrs, NULL);
}

/* Both directions' results, one after the other along the features. */
static dl_val apply_both(const layers *l, dl_val x, int64_t layer) {
    dl_val both[] = {apply(l, x, layer, false), apply(l, x, layer, true)};
    for (int i = 0; i < 2; i++)
        if (both[i].kind != DL_V_TENSOR) return both[i];
    const dl_type *t = &both[0].t->type;
    dl_attr at = dl_attr_name(DL_ATTR_axis, t->axis[t->rank - 1].name);
    return dl_tensor_op(l->c->E, l->c->where, DL_OP_cat, 2, both, 1, &at, NULL);
}

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
    for (int64_t i = 0; i < count && x.kind == DL_V_TENSOR; i++) {
        x = c->arg[P_BIDIRECTIONAL].b ? apply_both(&l, x, i) : apply(&l, x, i, false);
        dl_attr dropped = dl_attr_float(DL_ATTR_rate, rate);
        if (i + 1 < count && rate > 0 && c->E->train && x.kind == DL_V_TENSOR)
            x = dl_tensor_op(c->E, c->where, DL_OP_dropout, 1, &x, 1, &dropped, NULL);
    }
    return x;
}

dl_val dl_layer_lstm(dl_call *c) { return apply_all(c, DL_LSTM); }
dl_val dl_layer_gru(dl_call *c) { return apply_all(c, DL_GRU); }
dl_val dl_layer_rnn(dl_call *c) {
    const char *f = c->given[P_NONLINEARITY] ? c->arg[P_NONLINEARITY].s : "tanh";
    if (strcmp(f, "tanh") == 0) return apply_all(c, DL_RNN_TANH);
    if (strcmp(f, "relu") == 0) return apply_all(c, DL_RNN_RELU);
    return bad(c, P_NONLINEARITY, "'nonlinearity' is \"tanh\" or \"relu\""), dl_poison();
}

/* Rule of recurrent layers that PyTorch lacks, of ONNX: a module of one step, and a scan of it. The
 * node dl.cell has the input's part of all gates, in PyTorch's order, and the first states. */
#include "imports/dl/rules.h"

enum { STATES = 2, GATES = 4 };

typedef struct {
    dl_in_ctx *outer;
    dl_in_ctx inner;
    int gates, states; /* 4, 2 of an LSTM; 3, 1 of a GRU; 1, 1 of an RNN */
    int64_t hidden;
    double clip; /* of what activations read; 0: none */
    const char *axis;
    char *functions[3]; /* activations: f, g, h */
    dl_in_value *x, *state[STATES], *peepholes;
} step;

/* A value of the state's axes. */
static dl_in_value *made(step *s, int stmt) {
    dl_in_value *v = dl_copy_value(&s->inner, s->state[0]);
    v->stmt = stmt, v->param = -1, v->is_view = false;
    return v;
}

static dl_in_value *two(step *s, const dl_in_value *a, char sign, const dl_in_value *b) {
    bool product = sign == '*';
    dl_in_prec prec = product ? P_PRODUCT : P_SUM;
    const char *format = product ? "%p * %p" : sign == '-' ? "%p - %p" : "%p + %p";
    return made(
        s, dl_say(&s->inner, STMT_PLAIN, prec, format, a, prec, b, product ? P_UNARY : P_PRODUCT));
}

/* The activation, after the clip. */
static dl_in_value *activated(step *s, int k, dl_in_value *v) {
    if (s->clip > 0)
        v = made(s, dl_call_function(&s->inner, "clamp", v, ", min=%r, max=%r", "low", -s->clip,
                                     "high", s->clip));
    return made(s, dl_call_function(&s->inner, s->functions[k], v, ""));
}

static dl_in_value *part(step *s, const dl_in_value *of, int k) {
    return made(s, dl_say(&s->inner, STMT_PLAIN, P_POSTFIX, "%p[%s=%i:%i]", of, P_POSTFIX, s->axis,
                          "from", k * s->hidden, "to", (k + 1) * s->hidden));
}

/* h |> linear(features) @label, of the node's arguments NAME_weight and NAME_bias. NULL: none. */
static dl_in_value *linear(step *s, dl_in_value *h, const char *name) {
    const dl_foreign_node *n = s->outer->n;
    const dl_foreign_tensor *w = dl_foreign_operand(
                                n, dl_format(s->outer->w->arena, "%s_weight", name)),
                            *b = dl_foreign_operand(n,
                                                    dl_format(s->outer->w->arena, "%s_bias", name));
    const char *label = w ? dl_layer_label(&s->inner, w, b) : NULL;
    if (!label) return NULL;
    int at = dl_say(&s->inner, STMT_LAYER, P_PIPE, "%v |> linear(%i", h, "features", w->shape[0]);
    dl_say_more(&s->inner, "%s) @%l", b ? "" : ", bias=false", label);
    return made(s, at);
}

/* ---- one step of each kind: the next states, or false ---- */

static bool step_rnn(step *s, dl_in_value **next) {
    dl_in_value *y = linear(s, s->state[0], "hh");
    return y && (next[0] = activated(s, 0, two(s, s->x, '+', y)));
}

static bool step_gru(step *s, dl_in_value **next) {
    dl_in_value *h = s->state[0], *all = linear(s, h, "hh"), *g[2], *fresh;
    if (!all) return false;
    for (int k = 0; k < 2; k++)
        g[k] = activated(s, 0, two(s, part(s, s->x, k), '+', part(s, all, k)));
    if (dl_foreign_find(s->outer->n, "new_weight")) /* the reset comes first */
        fresh = linear(s, two(s, g[0], '*', h), "new");
    else
        fresh = two(s, g[0], '*', part(s, all, 2));
    if (!fresh) return false;
    fresh = activated(s, 1, two(s, part(s, s->x, 2), '+', fresh));
    next[0] = two(s, fresh, '+', two(s, g[1], '*', two(s, h, '-', fresh)));
    return true;
}

static bool step_lstm(step *s, dl_in_value **next) {
    dl_in_value *y = linear(s, s->state[0], "hh"), *g[GATES], *c = s->state[1], *all;
    if (!y) return false;
    all = two(s, s->x, '+', y);
    for (int k = 0; k < GATES; k++) g[k] = part(s, all, k);
    if (s->peepholes) /* of ONNX, in its order: i, o, f */
        for (int k = 0; k < 2; k++)
            g[k] = two(s, g[k], '+', two(s, part(s, s->peepholes, k ? 2 : 0), '*', c));
    g[0] = activated(s, 0, g[0]), g[2] = activated(s, 1, g[2]);
    if (dl_foreign_int(s->outer->n, "input_forget", 0))
        g[1] = made(s, dl_say(&s->inner, STMT_PLAIN, P_SUM, "1 - %p", g[0], P_PRODUCT));
    else
        g[1] = activated(s, 0, g[1]);
    next[1] = two(s, two(s, g[1], '*', c), '+', two(s, g[0], '*', g[2]));
    if (s->peepholes) g[3] = two(s, g[3], '+', two(s, part(s, s->peepholes, 1), '*', next[1]));
    g[3] = activated(s, 0, g[3]);
    next[0] = two(s, g[3], '*', made(s, dl_call_function(&s->inner, s->functions[2], next[1], "")));
    return true;
}

/* ---- the scan ---- */

/* Input number i of the module: an operand without the axis of steps. */
static dl_in_value *enter(step *s, const dl_in_value *v, bool has_steps, int i) {
    dl_in_value *slice = dl_copy_value(s->outer, v);
    int d = 0;
    return dl_enter(&s->inner, has_steps ? dl_reduced(slice, 1, &d, false) : slice, i);
}

static bool read_states(dl_in_ctx *c, const dl_in_value *x, step *s, dl_in_value **start) {
    const dl_foreign_arg *hx = dl_foreign_find(c->n, "hx");
    if (!hx || hx->n != s->states) return false;
    for (int k = 0; k < s->states; k++) {
        if (!hx->tensors[k]) return false;
        start[k] = dl_copy_value(c, dl_value_of(c, hx->tensors[k]));
        if (start[k]->rank != 2 || dl_dim_size(c->w, start[k], 1) != s->hidden) return false;
        dl_ordered(c, start[k], true);
        dl_rename(c, start[k], (const char *[]){x->axis[1].name, x->axis[2].name});
    }
    return true;
}

/* detail: letters of the kinds' names. Results: all states, and the last ones. */
bool dl_in_cell(dl_in_ctx *c) {
    static bool (*const steps[])(step *, dl_in_value **) = {step_rnn, step_gru, step_lstm};
    dl_in_value *given = dl_operand(c, "input"), *start[STATES], *next[STATES];
    const char *label = dl_foreign_text(c->n, "label", ""),
               *kind = dl_foreign_text(c->n, "kind", "");
    char *functions = dl_strdup(c->w->arena, dl_foreign_text(c->n, "functions", ""));
    int which = !strcmp(kind, "LSTM") ? 2 : !strcmp(kind, "GRU");
    step s = {.outer = c, .gates = (int[]){1, 3, 4}[which], .states = 1 + (which == 2)};
    if (!given || given->rank != 3 || c->n->n_results != 1 + s.states || !*label ||
        (!which && strcmp(kind, "RNN") != 0))
        return false;
    for (int k = 0; k <= which; k++)
        if (!(s.functions[k] = strsep(&functions, " "))) return false;
    dl_in_value *x = dl_copy_value(c, given);
    dl_ordered(c, x, true);
    s.hidden = dl_dim_size(c->w, x, 2) / s.gates, s.axis = x->axis[2].name;
    s.clip = dl_foreign_real(c->n, "clip", 0);
    if (!read_states(c, x, &s, start)) return false;
    dl_in_body *b = dl_new_body(c->w, kind, label);
    s.inner = (dl_in_ctx){.w = c->w, .b = b};
    s.x = enter(&s, x, true, 0);
    for (int k = 0; k < s.states; k++) s.state[k] = enter(&s, start[k], false, 1 + k);
    const dl_foreign_tensor *peepholes = dl_foreign_operand(c->n, "peepholes");
    if (peepholes && peepholes->rank != 1) return false;
    if (peepholes) {
        s.peepholes = dl_copy_value(&s.inner, dl_value_of(&s.inner, peepholes));
        dl_rename(&s.inner, s.peepholes, &s.axis);
    }
    if (!steps[which](&s, next)) return false;
    for (int k = 0; k < s.states; k++) dl_push(c->w->arena, &b->returns, next[k]->stmt);
    int at = dl_say(c, STMT_PLAIN, P_POSTFIX, "scan(");
    dl_push(c->w->arena, &c->b->stmts.at[at].pieces, (dl_in_piece){.kind = PIECE_CALL, .call = b});
    dl_say_more(c, " @%l, %v, ", label, x);
    for (int k = 0; k < s.states; k++)
        dl_say_more(c, k ? ", %v" : s.states > 1 ? "[%v" : "%v", start[k]);
    dl_say_more(c, "%s, over=%s", s.states > 1 ? "]" : "", x->axis[0].name);
    if (dl_foreign_int(c->n, "reverse", 0)) dl_say_more(c, ", reverse=true");
    dl_say_more(c, ")");
    if (b->depth + 1 > c->b->depth) c->b->depth = b->depth + 1;
    dl_in_value all = {.stmt = at};
    for (int k = 0; k < c->n->n_results; k++) {
        dl_in_value *v = dl_copy_value(c, k ? start[k - 1] : x);
        if (k == 0) {
            v->axis[2].n = v->dim[2].n = 1;
            v->axis[2].atom[0] = v->dim[2].atom[0] = dl_new_atom(c->w, s.hidden);
        }
        v->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s]", &all, P_POSTFIX, dl_in_whole(c->w, k));
        v->param = -1, v->is_view = false;
        dl_set(c, k, v);
    }
    return true;
}

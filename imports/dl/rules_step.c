/* One step of an LSTM, a GRU or an RNN, in formulas: of PyTorch's cells, and of a scan. Gates stand
 * in PyTorch's order. */
#include "imports/dl/step.h"

enum { GATES = 4 };

/* A value of the features' axes. */
static dl_in_value *made(dl_in_step *s, int stmt) {
    dl_in_value *v = dl_copy_value(s->c, s->form);
    v->stmt = stmt, v->param = -1, v->is_view = false;
    return v;
}

static dl_in_value *two(dl_in_step *s, const dl_in_value *a, char sign, const dl_in_value *b) {
    bool product = sign == '*';
    dl_in_prec prec = product ? P_PRODUCT : P_SUM;
    const char *format = product ? "%p * %p" : sign == '-' ? "%p - %p" : "%p + %p";
    return made(s,
                dl_say(s->c, STMT_PLAIN, prec, format, a, prec, b, product ? P_UNARY : P_PRODUCT));
}

/* The activation, after the clip. */
static dl_in_value *activated(dl_in_step *s, int k, dl_in_value *v) {
    if (s->clip > 0)
        v = made(s, dl_call_function(s->c, "clamp", v, ", min=%r, max=%r", "low", -s->clip, "high",
                                     s->clip));
    return made(s, dl_call_function(s->c, s->function[k], v, ""));
}

/* Gate k of all. */
static dl_in_value *part(dl_in_step *s, const dl_in_value *of, int k) {
    return made(s, dl_say(s->c, STMT_PLAIN, P_POSTFIX, "%p[%s=%i:%i]", of, P_POSTFIX,
                          s->form->axis[1].name, "from", k * s->hidden, "to", (k + 1) * s->hidden));
}

static bool step_rnn(dl_in_step *s, dl_in_value **next) {
    dl_in_value *y = s->product(s, s->state[0], "hh");
    return y && (next[0] = activated(s, 0, two(s, s->x, '+', y)));
}

static bool step_gru(dl_in_step *s, dl_in_value **next) {
    dl_in_value *h = s->state[0], *all = s->product(s, h, "hh"), *g[2], *fresh;
    if (!all) return false;
    for (int k = 0; k < 2; k++)
        g[k] = activated(s, 0, two(s, part(s, s->x, k), '+', part(s, all, k)));
    if (s->reset_first)
        fresh = s->product(s, two(s, g[0], '*', h), "new");
    else
        fresh = two(s, g[0], '*', part(s, all, 2));
    if (!fresh) return false;
    fresh = activated(s, 1, two(s, part(s, s->x, 2), '+', fresh));
    next[0] = two(s, fresh, '+', two(s, g[1], '*', two(s, h, '-', fresh)));
    return true;
}

static bool step_lstm(dl_in_step *s, dl_in_value **next) {
    dl_in_value *y = s->product(s, s->state[0], "hh"), *g[GATES], *c = s->state[1], *all;
    if (!y) return false;
    all = two(s, s->x, '+', y);
    for (int k = 0; k < GATES; k++) g[k] = part(s, all, k);
    if (s->peepholes) /* of ONNX, in its order: i, o, f */
        for (int k = 0; k < 2; k++)
            g[k] = two(s, g[k], '+', two(s, part(s, s->peepholes, k ? 2 : 0), '*', c));
    g[0] = activated(s, 0, g[0]), g[2] = activated(s, 1, g[2]);
    if (s->input_forget)
        g[1] = made(s, dl_say(s->c, STMT_PLAIN, P_SUM, "1 - %p", g[0], P_PRODUCT));
    else
        g[1] = activated(s, 0, g[1]);
    next[1] = two(s, two(s, g[1], '*', c), '+', two(s, g[0], '*', g[2]));
    if (s->peepholes) g[3] = two(s, g[3], '+', two(s, part(s, s->peepholes, 1), '*', next[1]));
    g[3] = activated(s, 0, g[3]);
    next[0] = two(s, g[3], '*', made(s, dl_call_function(s->c, s->function[2], next[1], "")));
    return !s->projected || (next[0] = s->product(s, next[0], "hr"));
}

bool dl_say_step(dl_in_step *s, dl_in_value **next) {
    return (s->gates == 4 ? step_lstm : s->gates == 3 ? step_gru : step_rnn)(s, next);
}

dl_in_value *dl_step_product(dl_in_step *s, const dl_in_value *x, const dl_foreign_tensor *weight,
                             const dl_foreign_tensor *bias) {
    dl_in_ctx *c = s->c;
    if (!x || x->rank != 2 || !weight || weight->rank != 2) return NULL;
    dl_in_value *own = dl_copy_value(c, x), *w = dl_value_of(c, weight),
                *b = bias ? dl_value_of(c, bias) : NULL;
    if (!dl_contract(c, 2, (dl_in_value *[]){own, w}, (const char *[]){"az", "oz"}, "ao"))
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

/* ---- the scan of a step ---- */

void dl_enter_step(dl_in_ctx *c, const dl_in_scan *scan, dl_in_step *s) {
    int d = 0;
    s->x = dl_enter(s->c, dl_reduced(dl_copy_value(c, scan->x), 1, &d, false), 0);
    for (int k = 0; k < scan->states; k++) s->state[k] = dl_enter(s->c, scan->start[k], 1 + k);
    s->form = s->state[scan->states - 1];
}

int dl_say_scan(dl_in_ctx *c, const dl_in_scan *s) {
    int at = dl_say(c, STMT_PLAIN, P_POSTFIX, "scan(");
    dl_push(c->w->arena, &c->b->stmts.at[at].pieces,
            ((dl_in_piece){.kind = PIECE_CALL, .call = s->body}));
    dl_say_more(c, " @%l, %v, ", s->body->path, s->x);
    for (int k = 0; k < s->states; k++)
        dl_say_more(c, k ? ", %v" : s->states > 1 ? "[%v" : "%v", s->start[k]);
    dl_say_more(c, "%s, over=%s", s->states > 1 ? "]" : "", s->x->axis[0].name);
    if (s->reverse) dl_say_more(c, ", reverse=true");
    dl_say_more(c, ")");
    if (s->body->depth + 1 > c->b->depth) c->b->depth = s->body->depth + 1;
    return at;
}

dl_in_value *dl_scan_result(dl_in_ctx *c, const dl_in_scan *s, int scan, int k) {
    dl_in_value all = {.stmt = scan}, *v = dl_copy_value(c, k ? s->start[k - 1] : s->x);
    if (k == 0) { /* a step's state in place of its input */
        v->axis[2].n = v->dim[2].n = 1;
        v->axis[2].atom[0] = v->dim[2].atom[0] =
            dl_new_atom(c->w, dl_dim_size(c->w, s->start[0], 1));
    }
    v->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s]", &all, P_POSTFIX, dl_in_whole(c->w, k));
    v->param = -1, v->is_view = false;
    return v;
}

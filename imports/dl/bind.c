/* Layers and modules that several statements apply: one is bound to a variable, as PyTorch makes
 * its modules once and calls them. */
#include "imports/dl/parts.h"

const char *dl_label_of(const dl_in_stmt *s) {
    bool applied = s->style == STMT_LAYER ||
                   (s->style == STMT_PLAIN && s->pieces.n && s->pieces.at[0].kind == PIECE_CALL);
    const dl_in_piece *last = s->pieces.n ? &s->pieces.at[s->pieces.n - 1] : NULL;
    return applied && last->kind == PIECE_LABEL ? last->text : NULL;
}

static bool is_function(const char *name) {
    static const char *const words[] = {
#define BUILTIN(word, ...) word,
#define FORMULA(word, ...) word,
#include "frontends/dl/builtins.def"
#undef BUILTIN
#undef FORMULA
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], name) == 0) return true;
    return false;
}

/* Whether two statements apply the same: equal labels, and equal modules where these are modules. A
 * module in which others stand in between is applied in parts that differ. */
static bool is_same(const dl_in_stmt *a, const dl_in_stmt *b) {
    const char *label = dl_label_of(a), *other = dl_label_of(b);
    if (!label || !other || strcmp(label, other) != 0) return false;
    const dl_in_piece *p = a->pieces.at, *q = b->pieces.at;
    return p->kind != PIECE_CALL || q->kind != PIECE_CALL || p->call->same == q->call->same;
}

/* A variable's name: a label's end, where that hides no function and no module. */
static const char *variable_for(dl_writer *w, const char *label) {
    const char *dot = strrchr(label, '.'), *name = dot ? dot + 1 : label;
    if (dot && !dl_in_is_name(name)) { /* layers.0 */
        const char *before = dot;
        while (before > label && before[-1] != '.') before--;
        name = dl_format(w->arena, "%.*s%s", (int)(dot - before), before, name);
    }
    if (!dl_in_is_name(name)) return "layer";
    bool taken = is_function(name);
    for (int i = 0; i < w->bodies.n; i++) taken = taken || !strcmp(w->bodies.at[i]->class, name);
    return taken ? dl_format(w->arena, "%s_layer", name) : name;
}

/* Whether piece i of x |> f(..., h0=h, c0=c, ...) @label is h or c. The piece before it is its
 * name. */
static bool is_state(const dl_in_stmt *s, int i) {
    return i > 0 && i < s->pieces.n && s->pieces.at[i].kind == PIECE_REF;
}

/* f(...) @label of an application. */
static dl_in_stmt unapplied(dl_writer *w, const dl_in_stmt *s) {
    dl_in_stmt made = {.style = STMT_BOUND, .prec = P_POSTFIX};
    bool piped = s->style == STMT_LAYER;
    for (int i = piped; i < s->pieces.n; i++) {
        dl_in_piece p = s->pieces.at[i];
        bool operand = piped ? is_state(s, i) || is_state(s, i + 1) : i > 0 && i < s->pieces.n - 1;
        if (piped && i == 1) p.text += strlen(" |> ");
        if (!operand) dl_push(w->arena, &made.pieces, p);
        if (!piped && i == 0)
            dl_push(w->arena, &made.pieces, (dl_in_piece){.kind = PIECE_TEXT, .text = " @"});
    }
    made.wish = variable_for(w, dl_label_of(s));
    return made;
}

/* An application of what statement `bound` is. */
static dl_in_stmt applied(dl_writer *w, const dl_in_stmt *s, int bound) {
    dl_in_stmt made = *s;
    dl_in_piece of = {.kind = PIECE_REF, .ref = bound, .prec = P_POSTFIX};
    made.pieces = (dl_in_pieces){0};
    if (s->style == STMT_LAYER) {
        dl_push(w->arena, &made.pieces, s->pieces.at[0]);
        dl_push(w->arena, &made.pieces, (dl_in_piece){.kind = PIECE_TEXT, .text = " |> "});
        dl_push(w->arena, &made.pieces, of);
        const char *before = "("; /* x |> f(h, c) */
        for (int i = 1; i < s->pieces.n; i++) {
            if (!is_state(s, i)) continue;
            dl_push(w->arena, &made.pieces, (dl_in_piece){.kind = PIECE_TEXT, .text = before});
            dl_push(w->arena, &made.pieces, s->pieces.at[i]);
            before = ", ";
        }
        if (*before == ',')
            dl_push(w->arena, &made.pieces, (dl_in_piece){.kind = PIECE_TEXT, .text = ")"});
        return made;
    }
    dl_push(w->arena, &made.pieces, of);
    for (int i = 1; i < s->pieces.n - 1; i++) {
        dl_in_piece p = s->pieces.at[i];
        if (i == s->pieces.n - 2) p.text = ")"; /* without the label's @ */
        dl_push(w->arena, &made.pieces, p);
    }
    return made;
}

/* A layer or module that is bound to a name. */
typedef struct {
    const dl_in_stmt *of; /* the first statement that applies it */
    int stmt;             /* the one that holds it */
} binding;

/* Statements of a body in a new order. */
typedef struct {
    DL_ARRAY(dl_in_stmt) stmts;
    DL_ARRAY(binding) bound;
} rewritten;

/* The statement that holds what s applies, or -1. */
static int find_bound(const rewritten *r, const dl_in_stmt *s) {
    for (int i = 0; i < r->bound.n; i++)
        if (is_same(r->bound.at[i].of, s)) return r->bound.at[i].stmt;
    return -1;
}

static bool is_repeated(const dl_in_body *b, int at) {
    for (int s = 0; s < b->stmts.n; s++)
        if (s != at && is_same(&b->stmts.at[at], &b->stmts.at[s])) return true;
    return false;
}

/* They stand at the beginning, after the inputs, as PyTorch's modules are made before they are
 * called. */
void dl_bind_layers(dl_writer *w, dl_in_body *b) {
    rewritten r = {0};
    int *to = DL_NEWS(w->arena, int, b->stmts.n + 1), begin = 0;
    while (begin < b->stmts.n && b->stmts.at[begin].style == STMT_INPUT) begin++;
    for (int s = 0; s < begin; s++) {
        to[s] = s;
        dl_push(w->arena, &r.stmts, b->stmts.at[s]);
    }
    for (int s = begin; s < b->stmts.n; s++) {
        if (!is_repeated(b, s) || find_bound(&r, &b->stmts.at[s]) >= 0) continue;
        dl_push(w->arena, &r.bound, ((binding){&b->stmts.at[s], r.stmts.n}));
        dl_push(w->arena, &r.stmts, unapplied(w, &b->stmts.at[s]));
    }
    if (r.bound.n == 0) return;
    for (int s = begin; s < b->stmts.n; s++) {
        dl_in_stmt x = b->stmts.at[s];
        int bound = find_bound(&r, &b->stmts.at[s]);
        for (int i = 0; i < x.pieces.n; i++)
            if (x.pieces.at[i].kind == PIECE_REF) x.pieces.at[i].ref = to[x.pieces.at[i].ref];
        if (bound >= 0) x = applied(w, &x, bound);
        to[s] = r.stmts.n;
        dl_push(w->arena, &r.stmts, x);
    }
    for (int i = 0; i < b->returns.n; i++) b->returns.at[i] = to[b->returns.at[i]];
    b->stmts.at = r.stmts.at, b->stmts.n = r.stmts.n, b->stmts.cap = r.stmts.cap;
}

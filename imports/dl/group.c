/* Equal bodies become one module; numbers that differ become its arguments. */
#include "imports/dl/parts.h"

/* ---- dead statements ---- */

static void mark(dl_in_body *b, bool *live, int s) {
    if (live[s]) return;
    live[s] = true;
    for (int i = 0; i < b->stmts.at[s].pieces.n; i++)
        if (b->stmts.at[s].pieces.at[i].kind == PIECE_REF)
            mark(b, live, b->stmts.at[s].pieces.at[i].ref);
}

/* Tensors of a statement that is gone do not go into the weights file. */
static void forget(dl_writer *w, const dl_in_body *b, const dl_in_stmt *s) {
    const char *own = s->label   ? s->label
                      : *b->path ? dl_format(w->arena, "%s.%s", b->path, s->name ? s->name : "")
                                 : s->name;
    for (int t = 0; s->style == STMT_PARAM && s->keyword && t < w->graph->tensors.n; t++)
        if (own && !strcmp(w->graph->tensors.at[t]->path, own)) w->kept[t] = false;
    for (int i = 0; i < s->pieces.n; i++) {
        const dl_in_piece *p = &s->pieces.at[i];
        for (int k = 0; p->kind == PIECE_CALL && k < p->call->stmts.n; k++)
            forget(w, p->call, &p->call->stmts.at[k]);
        if (p->kind == PIECE_CALL) p->call->gone = true;
        size_t n = p->kind == PIECE_LABEL ? strlen(p->text) : 0;
        for (int t = 0; n && s->style == STMT_LAYER && t < w->graph->tensors.n; t++) {
            const char *path = w->graph->tensors.at[t]->path;
            if (!strncmp(path, p->text, n) && path[n] == '.' && !strchr(path + n + 1, '.'))
                w->kept[t] = false;
        }
    }
}

/* Whether a live statement applies the layer or the module that a dead one does. */
static bool is_applied(const dl_in_body *b, const bool *live, const dl_in_stmt *dead) {
    const char *label = dl_label_of(dead);
    for (int s = 0; label && s < b->stmts.n; s++) {
        const char *other = live[s] ? dl_label_of(&b->stmts.at[s]) : NULL;
        if (other && !strcmp(label, other)) return true;
    }
    return false;
}

static void drop_dead(dl_writer *w, dl_in_body *b) {
    bool *live = DL_NEWS(w->arena, bool, b->stmts.n + 1);
    int *to = DL_NEWS(w->arena, int, b->stmts.n + 1), n = 0;
    for (int i = 0; i < b->returns.n; i++) mark(b, live, b->returns.at[i]);
    for (int s = 0; s < b->stmts.n; s++) {
        if (!live[s] && b->stmts.at[s].style != STMT_INPUT) {
            if (!is_applied(b, live, &b->stmts.at[s])) forget(w, b, &b->stmts.at[s]);
            continue;
        }
        to[s] = n;
        b->stmts.at[n] = b->stmts.at[s];
        for (int i = 0; i < b->stmts.at[n].pieces.n; i++) {
            dl_in_piece *p = &b->stmts.at[n].pieces.at[i];
            if (p->kind == PIECE_REF) p->ref = to[p->ref];
        }
        n++;
    }
    b->stmts.n = n;
    for (int i = 0; i < b->returns.n; i++) b->returns.at[i] = to[b->returns.at[i]];
    for (int i = 0; i < b->inputs.n; i++) b->inputs.at[i] = to[b->inputs.at[i]];
}

/* The pieces of a declaration, now that its axes have names. */
static void finish_param(dl_writer *w, dl_in_body *b, int at) {
    dl_in_stmt *s = &b->stmts.at[at];
    dl_in_ctx c = {.w = w, .b = b};
    int n = b->stmts.n;
    dl_say(&c, STMT_PLAIN, P_PIPE, "");
    s = &b->stmts.at[at];
    if (s->label) dl_say_more(&c, "@%l", s->label);
    if (s->keyword) dl_say_more(&c, ": ");
    if (s->type) dl_say_more(&c, "%s", s->type);
    for (int a = 0; a < s->rank; a++) {
        const char *axis = s->axis[a] ? s->axis[a] : dl_format(w->arena, "A%d", a);
        dl_say_more(&c, a ? ", " : "[");
        if (!strcmp(axis, "1"))
            dl_say_more(&c, "1");
        else
            dl_say_more(&c, "%s=%i", axis, "size", s->size[a]);
    }
    if (s->rank || !s->type) dl_say_more(&c, s->rank ? "]" : "[]");
    b->stmts.at[at].pieces = b->stmts.at[n].pieces;
    b->stmts.n = n;
}

/* ---- equal bodies ---- */

static bool equal_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool equal_stmt(dl_writer *w, const dl_in_body *x, const dl_in_body *y, const dl_in_stmt *a,
                       const dl_in_stmt *b) {
    bool constant = a->style == STMT_PARAM && !a->keyword;
    if (a->style != b->style || a->prec != b->prec || a->pieces.n != b->pieces.n ||
        !equal_text(a->function, b->function) || !equal_text(a->name, b->name) ||
        !equal_text(a->keyword, b->keyword) || (constant && !equal_text(a->start, b->start)))
        return false;
    for (int i = 0; i < a->pieces.n; i++) {
        const dl_in_piece *p = &a->pieces.at[i], *q = &b->pieces.at[i];
        if (p->kind != q->kind) return false;
        if (p->kind == PIECE_TEXT && strcmp(p->text, q->text) != 0) return false;
        if (p->kind == PIECE_REF && (p->ref != q->ref || p->prec != q->prec)) return false;
        if (p->kind == PIECE_CALL && p->call->same != q->call->same) return false;
        if (p->kind == PIECE_NUM &&
            (strcmp(p->hint, q->hint) != 0 || !equal_text(p->before, q->before)))
            return false;
        if (p->kind == PIECE_LABEL &&
            !equal_text(dl_label_in(w, x, p->text), dl_label_in(w, y, q->text)))
            return false;
    }
    return true;
}

static bool equal_bodies(dl_writer *w, const dl_in_body *a, const dl_in_body *b) {
    if (strcmp(a->class, b->class) != 0 || a->stmts.n != b->stmts.n ||
        a->returns.n != b->returns.n || a->inputs.n != b->inputs.n)
        return false;
    for (int s = 0; s < a->stmts.n; s++)
        if (!equal_stmt(w, a, b, &a->stmts.at[s], &b->stmts.at[s])) return false;
    return memcmp(a->returns.at, b->returns.at, (size_t)a->returns.n * sizeof(int)) == 0;
}

/* ---- arguments ---- */

typedef DL_ARRAY(dl_in_body *) members;

/* Whether all members have one number there. */
static bool is_constant(const members *g, int s, int i) {
    for (int k = 1; k < g->n; k++)
        if (strcmp(g->at[k]->stmts.at[s].pieces.at[i].text,
                   g->at[0]->stmts.at[s].pieces.at[i].text))
            return false;
    return true;
}

/* The argument that has these numbers in all members, or -1. */
static int find_argument(const members *g, int s, int i) {
    for (int a = 0; a < g->at[0]->args.n; a++) {
        bool equal = true;
        for (int k = 0; k < g->n; k++)
            equal = equal &&
                    !strcmp(g->at[k]->stmts.at[s].pieces.at[i].text, g->at[k]->args.at[a].text);
        if (equal) return a;
    }
    return -1;
}

static const char *argument_name(dl_writer *w, const dl_in_body *b, const char *hint) {
    const char *name = hint;
    for (int k = 2;; k++) {
        bool taken = false;
        for (int s = 0; s < b->stmts.n; s++) taken = taken || equal_text(b->stmts.at[s].name, name);
        for (int a = 0; a < b->args.n; a++) taken = taken || equal_text(b->args.at[a].hint, name);
        if (!taken) return name;
        name = dl_format(w->arena, "%s%d", hint, k);
    }
}

static void make_arguments(dl_writer *w, const members *g) {
    for (int s = 0; s < g->at[0]->stmts.n; s++)
        for (int i = 0; i < g->at[0]->stmts.at[s].pieces.n; i++) {
            const dl_in_piece *p = &g->at[0]->stmts.at[s].pieces.at[i];
            if (p->kind != PIECE_NUM || is_constant(g, s, i)) continue;
            if (find_argument(g, s, i) >= 0) continue;
            const char *name = argument_name(w, g->at[0], p->hint);
            for (int k = 0; k < g->n; k++) {
                dl_in_piece arg = g->at[k]->stmts.at[s].pieces.at[i];
                arg.hint = name, arg.before = NULL;
                dl_push(w->arena, &g->at[k]->args, arg);
            }
        }
    for (int s = 0; s < g->at[0]->stmts.n; s++)
        for (int i = 0; i < g->at[0]->stmts.at[s].pieces.n; i++) {
            dl_in_piece *p = &g->at[0]->stmts.at[s].pieces.at[i];
            if (p->kind != PIECE_NUM || is_constant(g, s, i)) continue;
            int a = find_argument(g, s, i);
            p->kind = PIECE_ARG, p->hint = g->at[0]->args.at[a].hint;
        }
}

/* A call of a body gets its arguments: Name(8, 2) */
static void expand_calls(dl_writer *w, dl_in_body *b, int depth) {
    for (int s = 0; s < b->stmts.n; s++) {
        dl_in_pieces made = {0};
        bool any = false;
        for (int i = 0; i < b->stmts.at[s].pieces.n; i++) {
            dl_in_piece p = b->stmts.at[s].pieces.at[i];
            dl_push(w->arena, &made, p);
            if (p.kind != PIECE_CALL || p.call->depth != depth) continue;
            any = true;
            dl_push(w->arena, &made, (dl_in_piece){.kind = PIECE_TEXT, .text = "("});
            for (int a = 0; a < p.call->args.n; a++) {
                if (a) dl_push(w->arena, &made, (dl_in_piece){.kind = PIECE_TEXT, .text = ", "});
                dl_push(w->arena, &made, p.call->args.at[a]);
            }
            dl_push(w->arena, &made, (dl_in_piece){.kind = PIECE_TEXT, .text = ")"});
        }
        if (any) b->stmts.at[s].pieces = made;
    }
}

static void name_body(dl_writer *w, dl_in_body *b, const char *model) {
    b->name = b->class;
    for (int k = 2;; k++) {
        bool taken = strcmp(b->name, model) == 0;
        for (int i = 0; i < w->bodies.n; i++) {
            const dl_in_body *o = w->bodies.at[i];
            taken = taken || (o != b && o->same == o && o->name && !strcmp(o->name, b->name));
        }
        if (!taken) return;
        b->name = dl_format(w->arena, "%s%d", b->class, k);
    }
}

void dl_group_bodies(dl_writer *w) {
    int deepest = 0;
    for (int i = 0; i < w->bodies.n; i++) {
        dl_in_body *b = w->bodies.at[i];
        drop_dead(w, b);
        dl_bind_layers(w, b);
        for (int s = 0; s < b->stmts.n; s++)
            if (b->stmts.at[s].style == STMT_PARAM) finish_param(w, b, s);
        if (b->depth > deepest) deepest = b->depth;
    }
    for (int depth = 0; depth <= deepest; depth++) {
        for (int i = 1; i < w->bodies.n; i++) { /* body 0 is the model */
            dl_in_body *b = w->bodies.at[i];
            if (b->depth != depth || b->same != b || b->name || b->gone) continue;
            members g = {0};
            dl_push(w->arena, &g, b);
            for (int k = i + 1; k < w->bodies.n; k++) {
                dl_in_body *o = w->bodies.at[k];
                if (o->depth == depth && o->same == o && !o->name && !o->gone &&
                    equal_bodies(w, b, o)) {
                    o->same = b;
                    dl_push(w->arena, &g, o);
                }
            }
            make_arguments(w, &g);
            name_body(w, b, w->bodies.at[0]->class);
        }
        for (int i = 0; i < w->bodies.n; i++) expand_calls(w, w->bodies.at[i], depth);
    }
}

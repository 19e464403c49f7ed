/* Numbered blocks become loops: statements that repeat but for a number in their labels; and
 * applications of one layer, step by step. */
#include <ctype.h>
#include <stdlib.h>

#include "imports/dl/parts.h"

enum { LONGEST_PASS = 400, MOST_CARRIED = 4 };

typedef struct {
    dl_writer *w;
    const dl_in_body *b;
    int from, period, passes;
    int64_t first; /* the number of the first pass */
    bool numbered; /* a label has told it, or else a number that counts */
    bool labels;   /* a label has */
    bool bound;    /* a pass applies a layer that all passes share */
    struct {
        int before, inside;
    } carried[MOST_CARRIED];
    int n_carried;
} search;

/* Two labels that differ in one whole number, `by` apart: its value in the first. */
static bool differ_by(const char *a, const char *b, int64_t by, int64_t *number, int *at) {
    int i = 0;
    while (a[i] && a[i] == b[i]) i++;
    if (!a[i] && !b[i]) return false;
    while (i > 0 && isdigit((unsigned char)a[i - 1])) i--;
    char *x, *y;
    if (!isdigit((unsigned char)a[i]) || !isdigit((unsigned char)b[i])) return false;
    if (i > 0 && a[i - 1] != '.' && a[i - 1] != '_' && !isalpha((unsigned char)a[i - 1]))
        return false;
    *number = strtoll(a + i, &x, 10), *at = i;
    return strtoll(b + i, &y, 10) == *number + by && strcmp(x, y) == 0 &&
           (a[i] != '0' || x == a + i + 1) && (b[i] != '0' || y == b + i + 1);
}

static bool same_label(search *s, const char *a, const char *b, int pass) {
    int64_t number;
    int at;
    if (!differ_by(a, b, 1, &number, &at)) return false;
    if (!s->labels) s->first = number - pass, s->numbered = s->labels = true;
    return number == s->first + pass;
}

/* Any number may differ; one that counts tells the passes' numbers where no label does. */
static void see_number(search *s, const char *a, const char *b, int pass) {
    int64_t x, y;
    if (s->numbered || !dl_parse_int(a, &x) || !dl_parse_int(b, &y) || y != x + 1 || x < pass)
        return;
    s->first = x - pass, s->numbered = true;
}

/* A reference of pass `pass` and that of the next. */
static bool same_ref(search *s, int a, int b, int pass) {
    int begin = s->from + pass * s->period;
    if (a == b && a < s->from) s->bound = s->bound || s->b->stmts.at[a].style == STMT_BOUND;
    if (a == b) return a < s->from;
    if (b == a + s->period && a >= s->from) return true;
    if (pass > 0 || a >= s->from || b < begin || b >= begin + s->period) return false;
    for (int i = 0; i < s->n_carried; i++)
        if (s->carried[i].before == a || s->carried[i].inside == b - begin)
            return s->carried[i].before == a && s->carried[i].inside == b - begin;
    if (s->n_carried == MOST_CARRIED) return false;
    s->carried[s->n_carried].before = a, s->carried[s->n_carried++].inside = b - begin;
    return true;
}

static bool equal(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool same_pass(search *s, int pass) {
    for (int k = 0; k < s->period; k++) {
        int at = s->from + pass * s->period + k;
        const dl_in_stmt *x = &s->b->stmts.at[at], *y = &s->b->stmts.at[at + s->period];
        if (x->style != y->style || x->prec != y->prec || x->style == STMT_INPUT ||
            (x->style == STMT_PARAM && !x->label) || !equal(x->keyword, y->keyword) ||
            x->style == STMT_LOOP || !equal(x->function, y->function) || x->pieces.n != y->pieces.n)
            return false;
        for (int i = 0; i < x->pieces.n; i++) {
            const dl_in_piece *p = &x->pieces.at[i], *q = &y->pieces.at[i];
            if (p->kind != q->kind) return false;
            if (p->kind == PIECE_TEXT && strcmp(p->text, q->text) != 0) return false;
            /* two arguments may have one number in this body, and others where it is equal to */
            if (p->kind == PIECE_ARG && strcmp(p->hint, q->hint) != 0) return false;
            if (p->kind == PIECE_NUM && !equal(p->before, q->before)) return false;
            if (p->kind == PIECE_CALL && p->call->same != q->call->same) return false;
            if (p->kind == PIECE_NUM) see_number(s, p->text, q->text, pass);
            if (p->kind == PIECE_LABEL && !same_label(s, p->text, q->text, pass)) return false;
            if (p->kind == PIECE_REF && (p->prec != q->prec || !same_ref(s, p->ref, q->ref, pass)))
                return false;
        }
    }
    return s->numbered || s->bound;
}

/* Whether a statement reads a value of the passes that does not leave the loop. */
static bool leaks(const search *s, int ref) {
    int end = s->from + s->passes * s->period;
    if (ref < s->from || ref >= end) return false;
    for (int i = 0; i < s->n_carried; i++)
        if (ref == end - s->period + s->carried[i].inside) return false;
    return true;
}

static bool is_closed(const search *s) {
    for (int k = s->from + s->passes * s->period; k < s->b->stmts.n; k++)
        for (int i = 0; i < s->b->stmts.at[k].pieces.n; i++) {
            const dl_in_piece *p = &s->b->stmts.at[k].pieces.at[i];
            if (p->kind == PIECE_REF && leaks(s, p->ref)) return false;
        }
    for (int i = 0; i < s->b->returns.n; i++)
        if (leaks(s, s->b->returns.at[i])) return false;
    /* a pass reads values of its own and the carried ones of the pass before */
    for (int k = s->from + s->period; k < s->from + 2 * s->period; k++)
        for (int i = 0; i < s->b->stmts.at[k].pieces.n; i++) {
            const dl_in_piece *p = &s->b->stmts.at[k].pieces.at[i];
            if (p->kind != PIECE_REF || p->ref < s->from || p->ref >= s->from + s->period) continue;
            bool carried = false;
            for (int j = 0; j < s->n_carried; j++)
                carried = carried || p->ref == s->from + s->carried[j].inside;
            if (!carried) return false;
        }
    return s->n_carried > 0;
}

static search look(dl_writer *w, const dl_in_body *b, int from, int period) {
    search s = {.w = w, .b = b, .from = from, .period = period, .passes = 1};
    while (from + (s.passes + 1) * period <= b->stmts.n && same_pass(&s, s.passes - 1)) s.passes++;
    while (s.passes > 1 && !is_closed(&s)) s.passes--;
    if (!s.labels && (!s.bound || s.passes < 3)) s.passes = 1;
    return s;
}

/* ---- the loop's body ---- */

static const char *numbered_label(dl_writer *w, const char *a, const char *b) {
    int64_t number;
    int at;
    if (!differ_by(a, b, 1, &number, &at)) return a;
    int digits = (int)strspn(a + at, "0123456789");
    return dl_format(w->arena, "%.*s{i}%s", at, a, a + at + digits);
}

/* The number of each pass as an expression of i. */
static const char *numbers(const search *s, int k, int i) {
    int64_t v[2] = {0};
    bool equal_all = true, steps = true;
    dl_buf list = {0};
    dl_puts(&list, "[");
    const char *text = NULL;
    for (int pass = 0; pass < s->passes; pass++) {
        const char *t = s->b->stmts.at[s->from + pass * s->period + k].pieces.at[i].text;
        int64_t whole;
        if (pass == 0) text = t;
        equal_all = equal_all && !strcmp(t, text);
        bool is_whole = dl_parse_int(t, &whole);
        if (pass < 2) v[pass] = whole;
        steps = steps && is_whole && whole == v[0] + pass * (v[1] - v[0]);
        dl_putf(&list, "%s%s", pass ? ", " : "", t);
        if (pass == 0 && !is_whole) steps = false;
    }
    const char *made;
    dl_arena *arena = s->w->arena;
    if (equal_all)
        made = text;
    else if (steps && v[1] - v[0] == 1 && v[0] == s->first)
        made = "i";
    else if (steps && v[1] - v[0] == 1)
        made = dl_format(arena, "i %c %lld", v[0] > s->first ? '+' : '-',
                         (long long)llabs(v[0] - s->first));
    else if (s->first)
        made = dl_format(arena, "%s][i - %lld]", list.at, (long long)s->first);
    else
        made = dl_format(arena, "%s][i]", list.at);
    dl_buf_free(&list);
    return made;
}

static int inside_ref(const search *s, int ref) {
    for (int i = 0; i < s->n_carried; i++)
        if (s->carried[i].before == ref) return i;
    return ref >= s->from ? ref - s->from + s->n_carried : -ref - 1;
}

static dl_in_loop *make_loop(const search *s) {
    dl_writer *w = s->w;
    dl_in_loop *loop = DL_NEW(w->arena, dl_in_loop);
    dl_in_body *b = DL_NEW(w->arena, dl_in_body);
    *b = (dl_in_body){.class = "", .path = s->b->path};
    *loop =
        (dl_in_loop){.body = b, .first = s->first, .count = s->passes, .n_carried = s->n_carried};
    for (int i = 0; i < s->n_carried; i++) {
        dl_push(w->arena, &b->stmts, (dl_in_stmt){.style = STMT_INPUT, .prec = P_POSTFIX});
        loop->carried[i].before = s->carried[i].before;
        loop->carried[i].inside = s->carried[i].inside + s->n_carried;
    }
    for (int k = 0; k < s->period; k++) {
        dl_in_stmt x = s->b->stmts.at[s->from + k];
        const dl_in_stmt *y = &s->b->stmts.at[s->from + s->period + k];
        dl_in_pieces made = {0};
        for (int i = 0; i < x.pieces.n; i++) {
            dl_in_piece p = x.pieces.at[i];
            if (p.kind == PIECE_REF) p.ref = inside_ref(s, p.ref);
            if (p.kind == PIECE_LABEL) p.text = numbered_label(w, p.text, y->pieces.at[i].text);
            if (p.kind == PIECE_NUM) p.text = numbers(s, k, i);
            dl_push(w->arena, &made, p);
        }
        x.pieces = made;
        dl_push(w->arena, &b->stmts, x);
    }
    return loop;
}

/* Puts the loop in the place of its passes. Its results are statements of their own, that copy
 * what it carries. */
static void put_loop(dl_writer *w, dl_in_body *b, const search *s) {
    dl_in_loop *loop = make_loop(s);
    int end = s->from + s->passes * s->period, shift = end - s->from - 1 - s->n_carried;
    DL_ARRAY(dl_in_stmt) made = {0};
    for (int k = 0; k < s->from; k++) dl_push(w->arena, &made, b->stmts.at[k]);
    dl_in_stmt head = {.style = STMT_LOOP, .loop = loop};
    dl_push(w->arena, &made, head);
    for (int i = 0; i < s->n_carried; i++) {
        dl_in_stmt copy = {.style = STMT_CARRIED, .prec = P_POSTFIX, .loop = loop, .carried = i};
        dl_push(w->arena, &made, copy);
    }
#define MOVED(r)                                                                                   \
    do {                                                                                           \
        if ((r) < s->from) break;                                                                  \
        if ((r) >= end) {                                                                          \
            (r) -= shift;                                                                          \
            break;                                                                                 \
        }                                                                                          \
        for (int c = 0; c < s->n_carried; c++)                                                     \
            if ((r) == end - s->period + s->carried[c].inside) {                                   \
                (r) = s->from + 1 + c;                                                             \
                break;                                                                             \
            }                                                                                      \
    } while (0)
    for (int k = end; k < b->stmts.n; k++) {
        dl_in_stmt x = b->stmts.at[k];
        for (int i = 0; i < x.pieces.n; i++)
            if (x.pieces.at[i].kind == PIECE_REF) MOVED(x.pieces.at[i].ref);
        dl_push(w->arena, &made, x);
    }
    for (int i = 0; i < b->returns.n; i++) MOVED(b->returns.at[i]);
#undef MOVED
    b->stmts.at = made.at, b->stmts.n = made.n, b->stmts.cap = made.cap;
}

void dl_roll_loops(dl_writer *w, dl_in_body *b) {
    for (int from = 0; from < b->stmts.n; from++) {
        search best = {.passes = 1};
        int most = (b->stmts.n - from) / 2;
        for (int period = 1; period <= most && period <= LONGEST_PASS; period++) {
            search s = look(w, b, from, period);
            if (s.passes > 1 && s.passes * period > best.passes * best.period) best = s;
        }
        /* the same passes, begun later: the place where the fewest values are carried */
        for (int shift = 1; best.passes > 1 && shift < best.period; shift++) {
            search s = look(w, b, from + shift, best.period);
            if (s.passes == best.passes && s.n_carried < best.n_carried) best = s;
        }
        if (best.passes > 1) {
            from = best.from;
            put_loop(w, b, &best);
            from += best.n_carried;
        }
    }
}

/* Bodies as text: which statements share a line, and the names of variables. */
#include <ctype.h>

#include "imports/dl/parts.h"

enum { LONG_LINE = 76, LONG_PIPE = 190 };

typedef struct {
    dl_writer *w;
    dl_in_body *b, *outer; /* outer: of a loop's body, the one around it */
    const char *const *outer_names;
    const char **text; /* of each statement, once it is known */
    dl_in_prec *prec;
    dl_buf *out;
    int indent;
} printer;

/* ---- lines ---- */

static void use(dl_in_body *b, int ref, int by) {
    if (ref < 0) return;
    b->stmts.at[ref].uses++;
    b->stmts.at[ref].line = by;
}

static int text_length(const dl_in_stmt *s, const dl_in_body *b) {
    int n = s->function ? (int)strlen(s->function) + 2 : 0;
    for (int i = 0; i < s->pieces.n; i++) {
        const dl_in_piece *p = &s->pieces.at[i];
        if (p->kind == PIECE_REF)
            n += p->ref >= 0 && b->stmts.at[p->ref].line >= 0 ? b->stmts.at[p->ref].last : 1;
        else if (p->kind == PIECE_CALL)
            n += (int)strlen(p->call->same->name);
        else
            n += (int)strlen(p->text);
    }
    return n;
}

static bool is_piped(const dl_in_body *b, const dl_in_stmt *s) {
    for (int i = 0; i < s->pieces.n; i++)
        if (s->pieces.at[i].kind == PIECE_REF && s->pieces.at[i].ref >= 0) {
            const dl_in_stmt *o = &b->stmts.at[s->pieces.at[i].ref];
            if (o->line >= 0 && i > 0) return false;
        }
    return s->style == STMT_LAYER || s->style == STMT_FUNCTION;
}

/* `line` of each statement: -1 where it is one of its own, else the statement that it is part of.
 */
static void choose_lines(dl_in_body *b) {
    for (int s = 0; s < b->stmts.n; s++) b->stmts.at[s].uses = 0, b->stmts.at[s].line = -1;
    for (int s = 0; s < b->stmts.n; s++) {
        const dl_in_stmt *x = &b->stmts.at[s];
        for (int i = 0; i < x->pieces.n; i++)
            if (x->pieces.at[i].kind == PIECE_REF) use(b, x->pieces.at[i].ref, s);
        if (x->style != STMT_LOOP) continue;
        for (int i = 0; i < x->loop->n_carried; i++)
            use(b, x->loop->carried[i].before, s), use(b, x->loop->carried[i].before, s);
        for (int k = 0; k < x->loop->body->stmts.n; k++)
            for (int i = 0; i < x->loop->body->stmts.at[k].pieces.n; i++) {
                const dl_in_piece *p = &x->loop->body->stmts.at[k].pieces.at[i];
                if (p->kind == PIECE_REF && p->ref < 0)
                    use(b, -p->ref - 1, s), use(b, -p->ref - 1, s);
            }
    }
    for (int i = 0; i < b->returns.n; i++)
        use(b, b->returns.at[i], b->stmts.n), b->stmts.at[b->returns.at[i]].uses++;
    for (int s = 0; s < b->stmts.n; s++) {
        dl_in_stmt *x = &b->stmts.at[s];
        bool expression =
            x->style == STMT_PLAIN || x->style == STMT_FUNCTION || x->style == STMT_LAYER;
        x->last = text_length(x, b); /* its length, for now */
        bool fits = x->last <= (is_piped(b, x) ? LONG_PIPE : LONG_LINE);
        if (x->uses != 1 || !expression || !fits || x->line >= b->stmts.n) x->line = -1;
        /* a pipeline inside another expression than a pipeline is hard to read when it is long */
        if (x->line >= 0 && x->prec == P_PIPE && b->stmts.at[x->line].style == STMT_PLAIN &&
            x->last > 50)
            x->line = -1;
        if (x->line >= 0 && x->last > LONG_LINE) {
            const dl_in_stmt *reader = &b->stmts.at[x->line];
            if (!(reader->style == STMT_LAYER || reader->style == STMT_FUNCTION) ||
                reader->pieces.at[0].kind != PIECE_REF || reader->pieces.at[0].ref != s)
                x->line = -1;
        }
    }
}

/* The line that a statement is printed on. */
static int line_of(const dl_in_body *b, int s) {
    while (b->stmts.at[s].line >= 0 && b->stmts.at[s].line < b->stmts.n) s = b->stmts.at[s].line;
    return s;
}

static void seen(dl_in_body *b, int ref, int line) {
    if (ref >= 0 && b->stmts.at[ref].last < line) b->stmts.at[ref].last = line;
}

/* `last` of each statement with a line of its own: the last line that reads it. */
static void find_last(dl_in_body *b) {
    for (int s = 0; s < b->stmts.n; s++) b->stmts.at[s].last = -1;
    for (int s = 0; s < b->stmts.n; s++) {
        const dl_in_stmt *x = &b->stmts.at[s];
        int line = line_of(b, s);
        for (int i = 0; i < x->pieces.n; i++)
            if (x->pieces.at[i].kind == PIECE_REF) seen(b, x->pieces.at[i].ref, line);
        if (x->style != STMT_LOOP) continue;
        for (int i = 0; i < x->loop->n_carried; i++) seen(b, x->loop->carried[i].before, s);
        for (int k = 0; k < x->loop->body->stmts.n; k++)
            for (int i = 0; i < x->loop->body->stmts.at[k].pieces.n; i++) {
                const dl_in_piece *p = &x->loop->body->stmts.at[k].pieces.at[i];
                /* after the lines in front of the loop, which name what it carries */
                if (p->kind == PIECE_REF && p->ref < 0) seen(b, -p->ref - 1, s + 1);
            }
    }
    for (int i = 0; i < b->returns.n; i++) seen(b, b->returns.at[i], b->stmts.n);
}

/* ---- names ---- */

/* Whether the name of a statement is that of no other value. */
static bool is_fixed(const dl_in_stmt *s) {
    return s->style == STMT_PARAM || s->style == STMT_INPUT || s->style == STMT_BOUND;
}

static bool is_taken(const printer *p, const char *name, int line) {
    for (int s = 0; s < p->b->stmts.n; s++) {
        const dl_in_stmt *x = &p->b->stmts.at[s];
        if (!x->name || strcmp(x->name, name) != 0) continue;
        if (is_fixed(x) || x->last > line) return true;
    }
    for (int a = 0; a < p->b->args.n; a++)
        if (!strcmp(p->b->args.at[a].hint, name)) return true;
    for (int s = 0; p->outer && s < p->outer->stmts.n; s++)
        if (p->outer->stmts.at[s].name && !strcmp(p->outer->stmts.at[s].name, name)) return true;
    return !strcmp(name, "i");
}

static const char *new_name(const printer *p, const char *wish, int line) {
    static const char *const names[] = {"h", "u", "v", "a", "b", "c", "d", "e", "f", "g"};
    if (wish && !is_taken(p, wish, line)) return wish;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_taken(p, names[i], line)) return names[i];
    for (int k = 1;; k++) {
        const char *name = dl_format(p->w->arena, "h%d", k);
        if (!is_taken(p, name, line)) return name;
    }
}

/* A name for the line of statement s: that of a value which this line is the last to read. */
static const char *name_of(const printer *p, int s) {
    const dl_in_body *b = p->b;
    const char *wish = b->stmts.at[s].wish;
    for (int k = 2; b->stmts.at[s].style == STMT_BOUND && is_taken(p, wish, s); k++)
        wish = dl_format(p->w->arena, "%s%d", b->stmts.at[s].wish, k);
    for (int k = s; k >= 0 && !wish; k--) {
        if (line_of(b, k) != s) continue;
        const dl_in_stmt *x = &b->stmts.at[k];
        for (int i = 0; i < x->pieces.n; i++) {
            if (x->pieces.at[i].kind != PIECE_REF || x->pieces.at[i].ref < 0) continue;
            const dl_in_stmt *o = &b->stmts.at[x->pieces.at[i].ref];
            bool own = o->name && !is_fixed(o);
            if (own && o->last == s && !is_taken(p, o->name, s)) return o->name;
        }
    }
    return new_name(p, wish, s);
}

/* ---- text ---- */

static void put_ref(printer *p, dl_buf *out, const dl_in_piece *piece) {
    if (piece->ref < 0) {
        dl_puts(out, p->outer->stmts.at[-piece->ref - 1].name);
        return;
    }
    bool brackets = p->prec[piece->ref] < piece->prec;
    dl_putf(out, "%s%s%s", brackets ? "(" : "", p->text[piece->ref], brackets ? ")" : "");
}

static void put_pieces(printer *p, dl_buf *out, const dl_in_stmt *s, int from) {
    for (int i = from; i < s->pieces.n; i++) {
        const dl_in_piece *x = &s->pieces.at[i];
        if (x->kind == PIECE_REF)
            put_ref(p, out, x);
        else if (x->kind == PIECE_CALL)
            dl_puts(out, x->call->same->name);
        else if (x->kind == PIECE_ARG)
            dl_putf(out, "%s%s", x->before ? x->before : "", x->hint);
        else if (x->kind == PIECE_LABEL) {
            const char *label = dl_label_in(p->w, p->b, x->text);
            dl_put_label(out, label ? label : x->text);
        } else if (!x->before || strcmp(x->text, x->standard) != 0)
            dl_putf(out, "%s%s", x->before ? x->before : "", x->text);
    }
}

static void make_text(printer *p, int at) {
    const dl_in_stmt *s = &p->b->stmts.at[at];
    dl_buf out = {0};
    p->prec[at] = s->prec;
    dl_puts(&out, "");
    if (s->style == STMT_FUNCTION) {
        int operand = s->pieces.at[0].ref;
        bool piped =
            operand >= 0 && p->b->stmts.at[operand].line >= 0 && p->prec[operand] == P_PIPE;
        if (piped) {
            dl_putf(&out, "%s |> %s", p->text[operand], s->function);
            if (s->pieces.n > 1) {
                dl_buf rest = {0};
                put_pieces(p, &rest, s, 1);
                dl_putf(&out, "(%s)", rest.at + (rest.at[0] == ',' ? 2 : 0));
                dl_buf_free(&rest);
            }
            p->prec[at] = P_PIPE;
        } else {
            dl_putf(&out, "%s(", s->function);
            put_pieces(p, &out, s, 0);
            dl_puts(&out, ")");
        }
    } else
        put_pieces(p, &out, s, 0);
    p->text[at] = dl_strdup(p->w->arena, out.at);
    dl_buf_free(&out);
}

static void put_line(printer *p, const char *name, const char *text) {
    if (strcmp(name, text) != 0) dl_putf(p->out, "%*s%s = %s\n", p->indent, "", name, text);
}

static void print_stmts(printer *p, const char *const *forced);

static void print_loop(printer *p, int at) {
    dl_in_loop *loop = p->b->stmts.at[at].loop;
    const char *names[4];
    for (int i = 0; i < loop->n_carried; i++) { /* the variable that runs from pass to pass */
        dl_in_stmt *before = &p->b->stmts.at[loop->carried[i].before];
        bool own = !is_fixed(before) && before->last <= at;
        for (int k = 0; k < i; k++) own = own && strcmp(names[k], before->name) != 0;
        /* those that the loop reads first are taken, too */
        names[i] = own ? before->name : new_name(p, NULL, at - 1);
        put_line(p, names[i], p->text[loop->carried[i].before]);
        dl_in_stmt *after = &p->b->stmts.at[at + 1 + i];
        after->name = names[i];
        if (after->last < at) after->last = at;
    }
    dl_in_body *inner = loop->body;
    for (int i = 0; i < loop->n_carried; i++)
        dl_push(p->w->arena, &inner->returns, loop->carried[i].inside);
    for (int i = 0; i < loop->n_carried; i++) inner->stmts.at[i].name = names[i];
    dl_putf(p->out, "%*sfor i in range(", p->indent, "");
    if (loop->first) dl_putf(p->out, "%lld, ", (long long)loop->first);
    dl_putf(p->out, "%lld):\n", (long long)(loop->first + loop->count));
    printer q = {.w = p->w, .b = inner, .outer = p->b, .out = p->out, .indent = p->indent + 4};
    q.text = DL_NEWS(p->w->arena, const char *, inner->stmts.n + 1);
    q.prec = DL_NEWS(p->w->arena, dl_in_prec, inner->stmts.n + 1);
    print_stmts(&q, names);
}

/* forced: names of the results, or NULL */
static void print_stmts(printer *p, const char *const *forced) {
    dl_in_body *b = p->b;
    choose_lines(b);
    find_last(b);
    for (int s = 0; s < b->stmts.n; s++) {
        dl_in_stmt *x = &b->stmts.at[s];
        p->prec[s] = P_POSTFIX;
        if (x->style == STMT_INPUT || x->style == STMT_CARRIED) {
            p->text[s] = x->name;
            continue;
        }
        if (x->style == STMT_LOOP) {
            print_loop(p, s);
            continue;
        }
        make_text(p, s);
        if (x->style == STMT_PARAM) {
            const char *type = p->text[s];
            if (!x->keyword) { /* a number */
                p->text[s] = x->start;
                continue;
            }
            if (!x->name) x->name = new_name(p, x->wish, s);
            dl_putf(p->out, "%*s%s %s%s%s%s%s\n", p->indent, "", x->keyword, x->name,
                    x->label ? " " : "", type, *x->start ? " " : "", x->start);
            p->text[s] = x->name;
            continue;
        }
        if (x->line >= 0) continue;
        const char *name = NULL;
        for (int i = 0; forced && i < b->returns.n; i++) {
            if (b->returns.at[i] != s || name) continue;
            /* the old value of the variable may still be read */
            bool free =
                !(b->stmts.at[i].style == STMT_INPUT && p->outer && b->stmts.at[i].last > s);
            if (free) name = forced[i];
        }
        if (!forced && b->returns.n == 1 && b->returns.at[0] == s) continue; /* return ... */
        if (!name) name = name_of(p, s);
        x->name = name;
        put_line(p, name, p->text[s]);
        p->text[s] = name, p->prec[s] = P_POSTFIX;
    }
    for (int i = 0; forced && i < b->returns.n; i++)
        put_line(p, forced[i], p->text[b->returns.at[i]]);
}

static printer start(dl_writer *w, dl_buf *out, dl_in_body *b, int indent) {
    return (printer){.w = w,
                     .b = b,
                     .out = out,
                     .indent = indent,
                     .text = DL_NEWS(w->arena, const char *, b->stmts.n + 1),
                     .prec = DL_NEWS(w->arena, dl_in_prec, b->stmts.n + 1)};
}

void dl_in_print_model(dl_writer *w, dl_buf *out, dl_in_body *b, const char *const *outputs) {
    printer p = start(w, out, b, 4);
    print_stmts(&p, outputs);
}

void dl_in_print_module(dl_writer *w, dl_buf *out, dl_in_body *b) {
    dl_buf lines = {0}, result = {0};
    printer p = start(w, &lines, b, 4);
    print_stmts(&p, NULL);
    dl_putf(out, "module %s(", b->name);
    for (int a = 0; a < b->args.n; a++) dl_putf(out, "%s%s", a ? ", " : "", b->args.at[a].hint);
    dl_puts(out, ")(");
    for (int i = 0; i < b->inputs.n; i++) {
        const dl_in_stmt *x = &b->stmts.at[b->inputs.at[i]];
        dl_putf(out, "%s%s%s", i ? ", " : "", x->name, x->pieces.n ? x->pieces.at[0].text : "");
    }
    dl_puts(out, "):");
    dl_puts(&result, b->returns.n > 1 ? "return [" : "return ");
    for (int i = 0; i < b->returns.n; i++)
        dl_putf(&result, "%s%s", i ? ", " : "", p.text[b->returns.at[i]]);
    if (b->returns.n > 1) dl_puts(&result, "]");
    if (!lines.n && result.n < 60)
        dl_putf(out, " %s\n\n", result.at);
    else
        dl_putf(out, "\n%s    %s\n\n", lines.n ? lines.at : "", result.at);
    dl_buf_free(&lines), dl_buf_free(&result);
}

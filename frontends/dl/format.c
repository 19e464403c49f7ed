#include "frontends/dl/format.h"

#include "frontends/dl/ast.h"
#include "frontends/dl/lexer.h"
#include "parser.h"

enum { INDENT = 4, CONTINUED = 6, WIDTH = 100, MOST_EMPTY = 2 };

typedef struct {
    int kind;
    uint32_t begin, end;
    bool label; /* inside @label, where no blank may stand */
} token;

/* The brackets that a line has opened: '(' of a call or a list ('n': '=' is an argument's), '['
 * of a subscript or type ('s': ':' is a slice's). */
typedef struct {
    char kind[512];
    int n;
} brackets;

typedef struct {
    const char *text;
    DL_ARRAY(token) tokens;
    dl_buf *out;
    DL_ARRAY(int) columns; /* of the open blocks, in the source */
    int empty;             /* empty lines in front of the current one */
    brackets open;         /* those that earlier lines have left open */
    bool expects_block;    /* the line before ended with ':' */
} formatter;

static void scan(dl_arena *arena, formatter *f, const dl_source *s) {
    yyscan_t scanner;
    if (dl_lex_lex_init(&scanner) != 0) dl_no_memory(0);
    dl_lex__scan_bytes(s->text, (int)s->n, scanner);
    uint32_t at = 0;
    int kind, braces = 0;
    bool label = false;
    while ((kind = dl_lex_lex(scanner)) != 0) {
        uint32_t n = (uint32_t)dl_lex_get_leng(scanner);
        if (kind == T_AT)
            label = true;
        else if (label && kind == T_LBRACE)
            braces++;
        else if (label && kind == T_RBRACE)
            braces--;
        else if (label && braces == 0 && kind != T_LABEL_TEXT)
            label = false;
        if (n) dl_push(arena, &f->tokens, (token){kind, at, at + n, label});
        at += n;
    }
    dl_lex_lex_destroy(scanner);
}

static bool opening(int k) { return k == T_LPAREN || k == T_LBRACKET || k == T_LBRACE; }
static bool closing(int k) { return k == T_RPAREN || k == T_RBRACKET || k == T_RBRACE; }
static bool is_text(const token *t) {
    return t->kind != DL_RAW_SPACE && t->kind != DL_RAW_TAB && t->kind != DL_RAW_COMMENT;
}

static bool is_word(const formatter *f, const token *t, const char *word) {
    return t->kind == T_NAME && strlen(word) == t->end - t->begin &&
           memcmp(f->text + t->begin, word, t->end - t->begin) == 0;
}

/* Whether the token ends an operand, so that a sign after it has two operands. */
static bool ends_operand(const formatter *f, const token *t) {
    static const char *const words[] = {"return", "in",  "if",     "else", "and",
                                        "or",     "not", "output", "elif"};
    if (t->kind == T_NAME)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (is_word(f, t, words[i])) return false;
    return t->kind == T_NAME || t->kind == T_INT || t->kind == T_FLOAT || t->kind == T_STRING ||
           t->kind == T_LABEL_TEXT || closing(t->kind);
}

static bool is_sign(int k) {
    return k == T_PIPE || k == T_PLUS_ASSIGN || k == T_EQ || k == T_NE || k == T_LE || k == T_GE ||
           k == T_LT || k == T_GT || k == T_PLUS || k == T_MINUS || k == T_TIMES || k == T_DIVIDE ||
           k == T_FLOOR_DIV || k == T_PERCENT || k == T_TILDE;
}

static char inside(const brackets *b) { return b->n ? b->kind[b->n - 1] : 0; }

/* Whether a blank stands between two tokens of a line. had: the source has one there. */
static bool blank_between(const formatter *f, const token *a, const token *b, const brackets *open,
                          bool unary, bool had) {
    int x = a->kind, y = b->kind;
    if (b->label && (y != T_AT)) return had && open->n && a->label && inside(open) == '{';
    if (y == T_AT) return had;
    if (opening(x) || closing(y) || y == T_COMMA || y == T_DOT || x == T_DOT) return false;
    if (x == T_COMMA) return true;
    if (y == T_COLON || (x == T_COLON && inside(open) == '[')) return false;
    if (x == T_COLON) return true;
    if (x == T_ASSIGN || y == T_ASSIGN) return inside(open) == 0;
    if (x == T_POWER || y == T_POWER) return false;
    if (unary) return false; /* -x */
    if (is_sign(x) || is_sign(y)) {
        bool tight = (x == T_TIMES || y == T_TIMES || x == T_DIVIDE || y == T_DIVIDE ||
                      x == T_FLOOR_DIV || y == T_FLOOR_DIV || x == T_PLUS || y == T_PLUS ||
                      x == T_MINUS || y == T_MINUS || x == T_PERCENT || y == T_PERCENT);
        return tight && open->n ? had : true; /* within brackets, the author's a*b stays */
    }
    if (opening(y)) /* f(x), x[i]; and `in (1, 2)`, `as [C]`, `cat [` */
        return !ends_operand(f, a) || is_word(f, a, "as") || is_word(f, a, "for")
                   ? had || x == T_NAME
                   : false;
    return true;
}

/* The tokens of one line of the source, without its comment, in one way. */
static brackets put_tokens(const formatter *f, dl_buf *out, int from, int to) {
    brackets open = f->open;
    const token *before = NULL;
    bool unary = false, had = false;
    for (int i = from; i < to; i++) {
        const token *t = &f->tokens.at[i];
        if (!is_text(t)) {
            had = true;
            continue;
        }
        if (before && blank_between(f, before, t, &open, unary, had)) dl_puts(out, " ");
        unary = (t->kind == T_MINUS || t->kind == T_PLUS) && (!before || !ends_operand(f, before));
        if (opening(t->kind) && open.n < 512)
            open.kind[open.n++] = t->kind == T_LBRACKET ? '[' : t->kind == T_LPAREN ? '(' : '{';
        if (closing(t->kind) && open.n) open.n--;
        dl_putn(out, f->text + t->begin, t->end - t->begin);
        before = t, had = false;
    }
    return open;
}

/* Breaks a line that is too long after commas within brackets; strings stay whole. */
static void put_wrapped(const formatter *f, const dl_buf *line, int column, int indent) {
    size_t begin = 0, last = 0;
    int depth = 0, width = column;
    char quote = 0;
    for (size_t i = 0; i < line->n; i++, width++) {
        char c = line->at[i];
        if (quote)
            quote = c == '\\' ? (i++, width++, quote) : c == quote ? 0 : quote;
        else if (c == '"' || c == '\'')
            quote = c;
        else
            depth += strchr("([{", c) ? 1 : strchr(")]}", c) ? -1 : 0;
        if (width >= WIDTH && last > begin) {
            dl_putn(f->out, line->at + begin, last - begin);
            dl_putf(f->out, "\n%*s", indent, "");
            begin = last + 1;
            width = indent + (int)(i - begin);
        }
        if (c == ',' && !quote && depth > 0 && i + 1 < line->n && line->at[i + 1] == ' ')
            last = i + 1;
    }
    dl_putn(f->out, line->at + begin, line->n - begin);
}

/* Breaks a pipeline that is too long in front of each |> outside brackets, and its steps as other
 * lines. column: where the first one begins. */
static void put_broken(formatter *f, int from, int to, int column, int indent) {
    int depth = 0, begin = from;
    bool first = true;
    for (int i = from; i <= to; i++) {
        int k = i < to ? f->tokens.at[i].kind : T_PIPE;
        if (i < to && opening(k)) depth++;
        if (i < to && closing(k)) depth--;
        if (k != T_PIPE || depth || i == begin) continue;
        if (!first) dl_putf(f->out, "\n%*s", indent + CONTINUED, "");
        dl_buf step = {0};
        put_tokens(f, &step, begin, i);
        put_wrapped(f, &step, first ? column : indent + CONTINUED, indent + CONTINUED);
        dl_buf_free(&step);
        begin = i, first = false;
    }
}

static bool has_pipe(const formatter *f, int from, int to) {
    int depth = 0;
    for (int i = from; i < to; i++) {
        int k = f->tokens.at[i].kind;
        depth += opening(k) ? 1 : closing(k) ? -1 : 0;
        if (k == T_PIPE && depth == 0) return true;
    }
    return false;
}

static int column_of(const formatter *f, int from, int to) {
    int n = 0;
    for (int i = from;
         i < to && !is_text(&f->tokens.at[i]) && f->tokens.at[i].kind != DL_RAW_COMMENT; i++)
        n += (int)(f->tokens.at[i].end - f->tokens.at[i].begin);
    return n;
}

/* How many blocks a line of this column is in. */
static int depth_of(dl_arena *arena, formatter *f, int column) {
    if (f->expects_block && (!f->columns.n || column > f->columns.at[f->columns.n - 1]))
        dl_push(arena, &f->columns, column);
    while (f->columns.n && f->columns.at[f->columns.n - 1] > column) f->columns.n--;
    return f->columns.n && f->columns.at[f->columns.n - 1] == column ? f->columns.n : f->columns.n;
}

static void put_line(dl_arena *arena, formatter *f, int from, int to) {
    int first = from, last = to, comment = -1;
    while (first < to && !is_text(&f->tokens.at[first]) &&
           f->tokens.at[first].kind != DL_RAW_COMMENT)
        first++;
    if (first == to) {
        f->empty++;
        return;
    }
    if (f->tokens.at[to - 1].kind == DL_RAW_COMMENT) comment = to - 1, last = to - 1;
    while (last > first && !is_text(&f->tokens.at[last - 1])) last--;
    for (int k = f->empty < MOST_EMPTY ? f->empty : MOST_EMPTY; k > 0 && f->out->n; k--)
        dl_puts(f->out, "\n");
    f->empty = 0;
    bool code = first < last,
         continues = code && (f->open.n > 0 || f->tokens.at[first].kind == T_PIPE);
    int column = column_of(f, from, to), indent;
    if (continues)
        indent = INDENT * f->columns.n + CONTINUED;
    else if (code)
        indent = INDENT * depth_of(arena, f, column);
    else { /* a comment belongs to the block of its column, and opens none */
        int depth = 0;
        while (depth < f->columns.n && f->columns.at[depth] <= column) depth++;
        bool into =
            f->expects_block && column > (f->columns.n ? f->columns.at[f->columns.n - 1] : 0);
        indent = INDENT * (depth + into) + (f->open.n > 0 ? CONTINUED : 0);
    }
    if (code && !continues) f->expects_block = false;
    dl_putf(f->out, "%*s", indent, "");
    dl_buf line = {0};
    brackets open = put_tokens(f, &line, first, last);
    size_t columns = (size_t)indent + line.n;
    int balance = 0, lowest = 0;
    for (int i = first; i < last; i++) {
        int k = f->tokens.at[i].kind;
        balance += opening(k) ? 1 : closing(k) ? -1 : 0;
        if (balance < lowest) lowest = balance;
    }
    bool whole = f->open.n == 0 && balance == 0 && lowest == 0;
    if (code && whole && columns > WIDTH && !has_pipe(f, first, last))
        put_wrapped(f, &line, indent, INDENT * f->columns.n + CONTINUED);
    else if (code && whole && columns > WIDTH)
        put_broken(f, first, last, indent, indent - (continues ? CONTINUED : 0));
    else if (code)
        dl_putn(f->out, line.at, line.n);
    dl_buf_free(&line);
    f->open = open;
    if (code && f->open.n == 0 && f->tokens.at[last - 1].kind == T_COLON) f->expects_block = true;
    if (comment >= 0) {
        const token *t = &f->tokens.at[comment];
        uint32_t end = t->end;
        while (end > t->begin && (f->text[end - 1] == ' ' || f->text[end - 1] == '\r')) end--;
        dl_putf(f->out, "%s%.*s", code ? "  " : "", (int)(end - t->begin), f->text + t->begin);
    }
    dl_puts(f->out, "\n");
}

bool dl_format_source(dl_arena *arena, const dl_source *source, dl_buf *out, dl_diags *diags) {
    int errors = diags->errors;
    dl_parse_file(arena, source, diags);
    if (diags->errors > errors) return false;
    formatter f = {.text = source->text, .out = out};
    dl_puts(out, "");
    scan(arena, &f, source);
    for (int i = 0, begin = 0; i <= f.tokens.n; i++)
        if (i == f.tokens.n || f.tokens.at[i].kind == DL_RAW_NEWLINE) {
            if (i > begin || i < f.tokens.n) put_line(arena, &f, begin, i);
            begin = i + 1;
        }
    return true;
}

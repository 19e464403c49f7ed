/* Indentation: converts raw words to the tokens of the grammar.
 *
 * Python's rules: a deeper line opens a block, open brackets join lines. One more rule: a line that
 * begins with `|>` continues the previous one. Faults of this kind (an unclosed bracket, a missing
 * colon, a bad indentation) are reported here, where the cause is known, and corrected, so that the
 * grammar can continue. */
#include "frontends/dl/ast.h"

#include <errno.h>
#include <stdlib.h>

#include "frontends/dl/hints.h"
#include "frontends/dl/lexer.h"
#include "parser.h"

enum { NAME_LIMIT = 255, TOKEN_LIMIT = 64 << 10, TOKENS_LIMIT = 500000 };

/* Words that are never names. */
static const struct {
    const char *word;
    int kind;
} keywords[] =
    {
#define KEYWORD(word, token) {word, token},
#define OPENER(word, token)
#include "frontends/dl/keywords.def"
#undef KEYWORD
#undef OPENER
},
  /* Words that open a statement, unless '=' follows; elsewhere they are names. */
    openers[] = {
#define KEYWORD(word, token)
#define OPENER(word, token) {word, token},
#include "frontends/dl/keywords.def"
#undef KEYWORD
#undef OPENER
};
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

typedef struct {
    int kind;
    dl_span span;
} raw;

typedef struct {
    dl_reader *p;
    DL_ARRAY(raw) raws;
    DL_ARRAY(int) open;    /* raw indices of open brackets */
    DL_ARRAY(int) indents; /* columns of the open blocks */
    bool unbalanced;       /* brackets do not match: look for lines that start a statement */
    int bad_indent;        /* a column that was already reported, or -1 */
    int first;             /* token that begins the logical line; -1: none yet */
    bool colon;            /* a ':' outside brackets was seen on it */
    bool open_string;      /* a string on it contains the rest of the line, with closing brackets */
    int line_indent;
} lines;

static bool opens_block(int k) {
    return k == T_FOR || k == T_IF || k == T_ELIF || k == T_ELSE || k == T_MODULE || k == T_MODEL;
}
static bool opening(int k) { return k == T_LPAREN || k == T_LBRACKET || k == T_LBRACE; }
static bool closing(int k) { return k == T_RPAREN || k == T_RBRACKET || k == T_RBRACE; }
static int partner(int k) {
    return k == T_LPAREN ? T_RPAREN : k == T_LBRACKET ? T_RBRACKET : T_RBRACE;
}

/* The grammar's reports about the rest of this line are suppressed. */
static void mark_line(lines *l, uint32_t at) {
    int line = dl_source_line_number(l->p->source, at), n = l->p->fault_lines.n;
    if (n == 0 || l->p->fault_lines.at[n - 1] != line)
        dl_push(l->p->arena, &l->p->fault_lines, line);
}

static dl_diag *fault(lines *l, dl_span where, dl_diag_id id, const char *message) {
    mark_line(l, where.begin);
    return dl_report(l->p->diags, where, id, "%s", message);
}

static void abandon(lines *l, dl_span where, dl_diag_id id, const char *message) {
    fault(l, where, id, message);
    l->p->abandoned = true;
}

static bool is_word(const lines *l, const raw *r, const char *word) {
    size_t n = r->span.end - r->span.begin;
    return r->kind == T_NAME && n == strlen(word) &&
           memcmp(l->p->source->text + r->span.begin, word, n) == 0;
}

static void scan(lines *l, uint32_t at, uint32_t end);

static void push_raw(lines *l, int kind, uint32_t begin, uint32_t end) {
    if (end > begin) dl_push(l->p->arena, &l->raws, (raw){kind, {begin, end}});
}

/* Splits the string "recall{k}" into the words of the label recall{k}, the first of which is text,
 * maybe of no bytes. False: it has no braces, or a fault was reported. */
static bool split_string(lines *l, dl_span string) {
    const char *t = l->p->source->text;
    uint32_t from = string.begin + 1, end = string.end - 1;
    const uint32_t begin = from;
    if (!memchr(t + from, '{', end - from) && !memchr(t + from, '}', end - from)) return false;
    for (uint32_t i = from; i < end; i++) {
        if (t[i] == '\\' || (t[i] == '{' && t[i + 1] == '{')) {
            i++;
        } else if (t[i] == '{') {
            const char *close = memchr(t + i, '}', end - i);
            if (!close) {
                dl_diag *g =
                    fault(l, (dl_span){i, i + 1}, DL_DIAG_unclosed_bracket, "'{' is never closed");
                dl_diag_set_help(l->p->diags, g,
                                 "close it with '}', or write '{{' for a brace in a string");
                return false;
            }
            uint32_t after = (uint32_t)(close - t);
            if (i > from || from == begin)
                dl_push(l->p->arena, &l->raws, (raw){T_LABEL_TEXT, {from, i}});
            push_raw(l, T_LBRACE, i, i + 1);
            scan(l, i + 1, after);
            push_raw(l, T_RBRACE, after, after + 1);
            i = after, from = after + 1;
        }
    }
    push_raw(l, T_LABEL_TEXT, from, end);
    return true;
}

/* The raw tokens of the bytes from `at` to `end`. */
static void scan(lines *l, uint32_t at, uint32_t end) {
    yyscan_t scanner;
    if (dl_lex_lex_init(&scanner) != 0) dl_no_memory(0);
    dl_lex__scan_bytes(l->p->source->text + at, (int)(end - at), scanner);
    int kind;
    while ((kind = dl_lex_lex(scanner)) != 0 && !l->p->abandoned) {
        uint32_t n = (uint32_t)dl_lex_get_leng(scanner);
        dl_span span = {at, at + n};
        at += n;
        if (n > TOKEN_LIMIT && kind != DL_RAW_COMMENT && kind != DL_RAW_SPACE)
            abandon(l, (dl_span){span.begin, span.begin + 1}, DL_DIAG_token_too_long,
                    "this word or string is longer than 64 KiB");
        if (l->raws.n == TOKENS_LIMIT)
            abandon(l, span, DL_DIAG_file_too_large, "a model file may hold at most 500,000 words");
        if (kind == DL_RAW_COMMENT || (kind == T_STRING && split_string(l, span))) continue;
        push_raw(l, kind, span.begin, span.end);
    }
    dl_lex_lex_destroy(scanner);
}

static void emit(lines *l, int kind, dl_span span, const char *name) {
    dl_push(l->p->arena, &l->p->tokens, (dl_word){.kind = kind, .span = span, .name = name});
}

static int last_kind(const lines *l) {
    return l->p->tokens.n ? l->p->tokens.at[l->p->tokens.n - 1].kind : T_NEWLINE;
}

static dl_span end_of_last(const lines *l) {
    uint32_t at = l->p->tokens.n ? l->p->tokens.at[l->p->tokens.n - 1].span.end : 0;
    return (dl_span){at, at};
}

/* The content of a string between the quotes, without escapes; in a part of one, braces are
 * doubled. */
static const char *string_text(lines *l, dl_span span, bool part) {
    dl_buf b = {0};
    const char *t = l->p->source->text;
    dl_puts(&b, "");
    for (uint32_t i = span.begin; i < span.end; i++) {
        char c = t[i];
        if (part && i + 1 < span.end && (c == '{' || c == '}') && t[i + 1] == c) i++;
        if (c == '\\' && i + 1 < span.end) {
            c = t[++i];
            if (c == 'n')
                c = '\n';
            else if (c != '"' && c != '\'' && c != '\\')
                fault(l, (dl_span){i - 1, i + 1}, DL_DIAG_bad_escape,
                      "a string knows the escapes \\n, \\\\, \\\" and \\'");
        }
        dl_putn(&b, &c, 1);
    }
    const char *s = dl_intern_n(b.at, b.n);
    dl_buf_free(&b);
    return s;
}

static int kind_after(const lines *l, int i) {
    do i++;
    while (i < l->raws.n && l->raws.at[i].kind == DL_RAW_SPACE);
    return i < l->raws.n ? l->raws.at[i].kind : T_END;
}

/* Whether raw token i, at the start of a line, clearly begins a statement. Used only when brackets
 * do not match, to find where one should have been closed. */
static bool begins_statement(const lines *l, int i, int indent) {
    const raw *r = &l->raws.at[i];
    int follows = kind_after(l, i);
    for (int k = 0; k < COUNT(openers); k++)
        if (is_word(l, r, openers[k].word))
            return follows == T_NAME || follows == T_STRING || follows == T_LABEL_TEXT ||
                   follows == T_LBRACE || follows == DL_RAW_OPEN_STRING;
    if (is_word(l, r, "module") || is_word(l, r, "model") || is_word(l, r, "return")) return true;
    if (r->kind != T_NAME || indent > l->line_indent) return false;
    return follows == T_ASSIGN || follows == T_PLUS_ASSIGN ||
           (follows == T_NAME && (is_word(l, r, "for") || is_word(l, r, "if")));
}

/* A name in place of a value with a syntax error: elaboration reports nothing about it
 * (dl_is_poisoned). */
static const char *faulty_name(void) { return dl_intern("?"); }

static void number(lines *l, int kind, dl_span span) {
    char *text = dl_strndup(l->p->arena, l->p->source->text + span.begin, span.end - span.begin);
    dl_word t = {.kind = kind, .span = span};
    const char *over = NULL;
    errno = 0;
    if (kind == T_INT) {
        t.i = strtoll(text, NULL, 10);
        if (errno == ERANGE) over = "this number is too large for a whole number (64 bits)";
    } else {
        t.f = strtod(text, NULL);
        if (errno == ERANGE && (t.f > 1 || t.f < -1))
            over = "this number is too large for a double";
    }
    if (over) {
        fault(l, span, DL_DIAG_bad_number, over);
        emit(l, T_NAME, span, faulty_name());
        return;
    }
    dl_push(l->p->arena, &l->p->tokens, t);
}

static bool ends_value(int k) {
    return k == T_NAME || k == T_INT || k == T_FLOAT || k == T_STRING || k == T_TRUE ||
           k == T_FALSE || k == T_NONE || k == T_LABEL_TEXT || closing(k);
}

/* Whether a word is the `undo` after an output's value, which no name follows. */
static bool is_undo(const lines *l, const char *word) {
    return strcmp(word, "undo") == 0 && !l->open.n && l->p->tokens.at[l->first].kind == T_OUTPUT &&
           ends_value(last_kind(l));
}

static int word_kind(lines *l, const char *word, bool starts, int i) {
    for (int k = 0; k < COUNT(keywords); k++)
        if (strcmp(keywords[k].word, word) == 0) return keywords[k].kind;
    if (!starts) return is_undo(l, word) ? T_UNDO : T_NAME;
    int follows = kind_after(l, i);
    if (follows == T_ASSIGN || follows == T_PLUS_ASSIGN || follows == T_COMMA) return T_NAME;
    for (int k = 0; k < COUNT(openers); k++)
        if (strcmp(openers[k].word, word) == 0) return openers[k].kind;
    return T_NAME;
}

static void close_brackets(lines *l) {
    while (l->open.n) {
        const raw *r = &l->raws.at[l->open.at[--l->open.n]];
        if (l->open_string) {
            emit(l, partner(r->kind), end_of_last(l), NULL);
            continue;
        }
        dl_diag *g = fault(l, r->span, DL_DIAG_unclosed_bracket,
                           r->kind == T_LPAREN     ? "'(' is never closed"
                           : r->kind == T_LBRACKET ? "'[' is never closed"
                                                   : "'{' is never closed");
        dl_diag_set_help(l->p->diags, g, "close it with '%s'",
                         r->kind == T_LPAREN     ? ")"
                         : r->kind == T_LBRACKET ? "]"
                                                 : "}");
        emit(l, partner(r->kind), end_of_last(l), NULL);
    }
}

/* Ends the logical line. `indent`: the depth of the next one. */
static void end_line(lines *l, int indent) {
    if (l->first < 0) return;
    close_brackets(l);
    if (l->first == l->p->tokens.n) { /* nothing but invalid characters */
        l->first = -1;
        return;
    }
    int first = l->p->tokens.at[l->first].kind;
    if (opens_block(first) && !l->colon && indent > l->indents.at[l->indents.n - 1]) {
        dl_diag *g = fault(l, end_of_last(l), DL_DIAG_missing_colon,
                           "expected ':' before the indented block");
        dl_diag_set_help(l->p->diags, g, "end the line with ':'");
        emit(l, T_COLON, end_of_last(l), NULL);
    }
    /* A deeper block after any ':' is accepted, so that a fault in its head does not extend to its
     * lines. */
    int top = l->indents.at[l->indents.n - 1];
    bool opened = last_kind(l) == T_COLON && (opens_block(first) || indent > top);
    emit(l, T_NEWLINE, end_of_last(l), NULL);
    l->first = -1;
    if (opened && indent <= top) {
        dl_span at = end_of_last(l);
        fault(l, l->p->tokens.at[l->p->tokens.n - 2].span, DL_DIAG_empty_block,
              "an indented block must follow this line (or `pass`)");
        emit(l, T_INDENT, at, NULL), emit(l, T_PASS, at, NULL);
        emit(l, T_NEWLINE, at, NULL), emit(l, T_DEDENT, at, NULL);
    } else if (opened) {
        dl_push(l->p->arena, &l->indents, indent);
        emit(l, T_INDENT, end_of_last(l), NULL);
        l->bad_indent = -1;
    }
}

/* Compares the line's indentation with the open blocks. */
static void begin_line(lines *l, int indent, dl_span where) {
    /* A line between two blocks joins the inner one. */
    while (l->indents.n > 1 && indent <= l->indents.at[l->indents.n - 2]) {
        l->indents.n--;
        emit(l, T_DEDENT, (dl_span){where.begin, where.begin}, NULL);
    }
    int top = l->indents.at[l->indents.n - 1];
    if (indent != top && indent != l->bad_indent) {
        mark_line(l, where.begin);
        dl_diag *g =
            indent > top
                ? dl_report(l->p->diags, where, DL_DIAG_bad_indentation,
                            "this line is indented by %d spaces, but its block by %d", indent, top)
                : dl_report(l->p->diags, where, DL_DIAG_bad_indentation,
                            "this line is indented by %d spaces, and the open blocks by %d and %d",
                            indent, top, l->indents.at[l->indents.n - 2]);
        dl_diag_set_help(l->p->diags, g, "give all lines of a block the same indentation");
        l->bad_indent = indent;
    }
    l->first = l->p->tokens.n;
    l->colon = l->open_string = false;
    l->line_indent = indent;
}

static void check_bracket(lines *l, int i) {
    const raw *r = &l->raws.at[i];
    if (opening(r->kind)) {
        dl_push(l->p->arena, &l->open, i);
        if (l->open.n + l->indents.n > DL_MAX_NESTING)
            abandon(l, r->span, DL_DIAG_nested_too_deep,
                    "this is nested more than 256 levels deep");
        emit(l, r->kind, r->span, NULL);
        return;
    }
    if (l->open.n && partner(l->raws.at[l->open.at[l->open.n - 1]].kind) == r->kind) {
        l->open.n--;
        emit(l, r->kind, r->span, NULL);
        return;
    }
    dl_diag *g =
        fault(l, r->span, DL_DIAG_unmatched_bracket, "this bracket closes nothing that is open");
    if (l->open.n)
        dl_diag_add_note(l->p->diags, g, l->raws.at[l->open.at[l->open.n - 1]].span,
                         "the last open bracket is this one");
    /* Replaced by the bracket that was probably meant. */
    if (l->open.n) emit(l, partner(l->raws.at[l->open.at[--l->open.n]].kind), r->span, NULL);
}

static void word(lines *l, int i) {
    const raw *r = &l->raws.at[i];
    bool starts = l->first == l->p->tokens.n;
    if (!starts && l->open.n == 0 && last_kind(l) == T_COLON)
        starts = opens_block(l->p->tokens.at[l->first].kind);
    if (r->span.end - r->span.begin > NAME_LIMIT) {
        abandon(l, r->span, DL_DIAG_token_too_long, "a name may have at most 255 characters");
        return;
    }
    const char *name = dl_intern_n(l->p->source->text + r->span.begin, r->span.end - r->span.begin);
    emit(l, word_kind(l, name, starts, i), r->span, name);
}

static void token(lines *l, int i) {
    const raw *r = &l->raws.at[i];
    if (r->kind == T_NAME)
        word(l, i);
    else if (r->kind == T_INT || r->kind == T_FLOAT)
        number(l, r->kind, r->span);
    else if (r->kind == T_STRING)
        emit(l, r->kind, r->span,
             string_text(l, (dl_span){r->span.begin + 1, r->span.end - 1}, false));
    else if (r->kind == T_LABEL_TEXT)
        emit(l, r->kind, r->span, string_text(l, r->span, true));
    else if (opening(r->kind) || closing(r->kind))
        check_bracket(l, i);
    else if (r->kind == DL_RAW_OPEN_STRING) {
        dl_diag *g =
            fault(l, r->span, DL_DIAG_unclosed_string, "this string is not closed on its line");
        dl_diag_set_help(l->p->diags, g, "end it with %c", l->p->source->text[r->span.begin]);
        emit(l, T_NAME, r->span, faulty_name());
        l->open_string = true;
    } else if (r->kind == DL_RAW_BAD_NUMBER) {
        dl_diag *g = fault(l, r->span, DL_DIAG_bad_number, "this is neither a number nor a name");
        dl_diag_set_help(l->p->diags, g, "names begin with a letter; a product needs '*'");
        emit(l, T_NAME, r->span, faulty_name());
    } else if (r->kind == DL_RAW_STRAY) {
        unsigned char c = (unsigned char)l->p->source->text[r->span.begin];
        mark_line(l, r->span.begin);
        if (c > 0x20 && c < 0x7F) {
            const char *at = l->p->source->text + r->span.begin;
            size_t n = r->span.end - r->span.begin;
            dl_diag *g = dl_report(l->p->diags, r->span, DL_DIAG_stray_character,
                                   "'%.*s' means nothing in this language", (int)n, at);
            const char *help = dl_hint_find(DL_HINT_SIGN, at, n);
            if (help) dl_diag_set_help(l->p->diags, g, "%s", help);
        } else
            dl_report(l->p->diags, r->span, DL_DIAG_stray_character,
                      "byte 0x%02X may stand only in strings and comments", c);
    } else {
        if (r->kind == T_COLON && l->open.n == 0) l->colon = true;
        emit(l, r->kind, r->span, NULL);
    }
}

static void balance(lines *l) {
    DL_ARRAY(int) open = {0};
    for (int i = 0; i < l->raws.n; i++) {
        int k = l->raws.at[i].kind;
        if (opening(k)) dl_push(l->p->arena, &open, k);
        if (!closing(k)) continue;
        if (open.n && partner(open.at[open.n - 1]) == k)
            open.n--;
        else
            l->unbalanced = true;
    }
    if (open.n) l->unbalanced = true;
}

static int by_number(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return x < y ? -1 : x > y;
}

bool dl_line_has_fault(const dl_reader *p, uint32_t at) {
    int line = dl_source_line_number(p->source, at);
    return p->fault_lines.n &&
           bsearch(&line, p->fault_lines.at, (size_t)p->fault_lines.n, sizeof line, by_number);
}

void dl_read_words(dl_reader *p) {
    lines l = {.p = p, .bad_indent = -1, .first = -1};
    dl_push(p->arena, &l.indents, 0);
    scan(&l, 0, (uint32_t)p->source->n);
    balance(&l);
    bool line_start = true;
    int indent = 0;
    for (int i = 0; i < l.raws.n && !p->abandoned; i++) {
        const raw *r = &l.raws.at[i];
        if (r->kind == DL_RAW_NEWLINE) {
            line_start = true, indent = 0;
            continue;
        }
        if (r->kind == DL_RAW_TAB) {
            dl_diag *g = fault(&l, r->span, DL_DIAG_tab, "tabs are not part of the language");
            dl_diag_set_help(p->diags, g, "indent with four spaces");
            if (line_start) indent += 4 * (int)(r->span.end - r->span.begin);
            continue;
        }
        if (r->kind == DL_RAW_SPACE) {
            if (line_start) indent += (int)(r->span.end - r->span.begin);
            continue;
        }
        if (line_start) {
            line_start = false;
            bool joins = l.first >= 0 && (r->kind == T_PIPE || l.open.n > 0);
            if (joins && l.open.n && l.unbalanced && begins_statement(&l, i, indent)) joins = false;
            if (!joins) end_line(&l, indent), begin_line(&l, indent, r->span);
        }
        token(&l, i);
    }
    dl_span end = {(uint32_t)p->source->n, (uint32_t)p->source->n};
    if (!p->abandoned) {
        end_line(&l, 0);
        for (; l.indents.n > 1; l.indents.n--) emit(&l, T_DEDENT, end, NULL);
    }
    emit(&l, T_END, end, NULL);
    if (p->fault_lines.n)
        qsort(p->fault_lines.at, (size_t)p->fault_lines.n, sizeof *p->fault_lines.at, by_number);
}

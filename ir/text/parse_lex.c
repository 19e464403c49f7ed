/* Tokens of the IR's text, and error messages with their position. */
#include "ir/text/parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/base/utf8.h"
#include "ir/text/text_chars.h"

bool dl_lex_fail(dl_parser *p, const dl_token *at, const char *format, ...) {
    char message[800];
    va_list ap;
    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    return dl_fail(p->err, DL_INPUT, "%.150s:%d:%d: %s", p->name, at->line, at->column, message);
}

/* The same at the current byte of the lexer. */
static bool fail_here(dl_parser *p, const char *s, const char *message) {
    dl_token here = {.line = p->line, .column = (int)(s - p->line_start) + 1};
    return dl_lex_fail(p, &here, "%s", message);
}

static bool fail_byte(dl_parser *p, const char *s, const char *start, const char *what) {
    dl_token here = {.line = p->line, .column = (int)(s - p->line_start) + 1};
    return dl_lex_fail(p, &here, "%s (byte 0x%02X, %lld after the start of %s)", what,
                       (unsigned char)*s, (long long)(s - start),
                       s == start ? "itself" : "its token");
}

/* Extends p->tok to the first byte that `member` refuses. */
static const char *span(const char *s, const char *end, bool (*member)(char)) {
    while (s < end && member(*s)) s++;
    return s;
}

/* A quoted string at s; its value goes to tok.text. */
static bool lex_string(dl_parser *p, const char *s, const char **after) {
    dl_buf b = {0};
    const char *start = s++;
    bool ok = false;
    dl_puts(&b, "");
    for (;; s++) {
        if (s == p->end || *s == '\n') {
            fail_here(p, start, "a string is not closed on its line: add \"");
            break;
        }
        if (s - start > DL_TOKEN_MAX) {
            fail_here(p, start, "a string longer than 64 KiB");
            break;
        }
        if (*s == '"') {
            ok = true;
            break;
        }
        if (*s == '\\') {
            unsigned code;
            char hex[3] = {0};
            if (p->end - s > 1 && (s[1] == '"' || s[1] == '\\')) {
                dl_putn(&b, ++s, 1);
                continue;
            }
            if (p->end - s > 3 && s[1] == 'x') memcpy(hex, s + 2, 2);
            if (strspn(hex, "0123456789ABCDEFabcdef") != 2 || sscanf(hex, "%x", &code) != 1 ||
                code == 0) {
                fail_here(p, s,
                          "an unknown escape in a string: write \\\", \\\\ or \\x01 to \\xFF");
                break;
            }
            dl_putn(&b, (char[]){(char)code}, 1);
            s += 3;
            continue;
        }
        int n = dl_utf8_length(s, (size_t)(p->end - s));
        if (n == 0 || *s == 0) {
            fail_byte(p, s, start, *s ? "a string that is not UTF-8" : "NUL in a string");
            break;
        }
        dl_putn(&b, s, (size_t)n);
        s += n - 1;
    }
    if (ok) p->tok.text = dl_intern_n(b.at, b.n);
    dl_buf_free(&b);
    *after = s + ok;
    return ok;
}

/* %, $ or @ with a bare or quoted name. */
static bool lex_sigil(dl_parser *p, const char *s, const char **after) {
    static const char *const what[] = {['%'] = "%", ['$'] = "$", ['@'] = "@"};
    p->tok.kind = *s == '%' ? TOK_VALUE : *s == '$' ? TOK_VAR : TOK_AT;
    if (p->end - s > 1 && s[1] == '"') return lex_string(p, s + 1, after);
    *after = span(s + 1, p->end, dl_is_name);
    if (*after == s + 1) {
        char message[64];
        snprintf(message, sizeof message, "expected a name after %s", what[(int)*s]);
        return fail_here(p, s, message);
    }
    if (*after - s <= DL_TOKEN_MAX) p->tok.text = dl_intern_n(s + 1, (size_t)(*after - s - 1));
    return true;
}

static const char *span_number(const char *s, const char *end) {
    if (s < end && (*s == '+' || *s == '-')) s++;
    if (s < end && dl_is_letter(*s)) return span(s, end, dl_is_letter); /* -inf, -nan */
    s = span(s, end, dl_is_digit);
    if (s < end && *s == '.') s = span(s + 1, end, dl_is_digit);
    if (end - s > 1 && (*s == 'e' || *s == 'E')) {
        const char *digits = s + 1 + (s[1] == '+' || s[1] == '-');
        if (digits < end && dl_is_digit(*digits)) s = span(digits, end, dl_is_digit);
    }
    return s;
}

/* A comment: up to the end of the line, any UTF-8. */
static bool lex_comment(dl_parser *p, const char *s, const char **after) {
    const char *start = s;
    p->tok.at = s + 1;
    while (s < p->end && *s != '\n') {
        int n = dl_utf8_length(s, (size_t)(p->end - s));
        if (n == 0 || *s == 0)
            return fail_byte(p, s, start, *s ? "a comment that is not UTF-8" : "NUL in a comment");
        s += n;
    }
    p->tok.n = (size_t)(s - p->tok.at);
    *after = s;
    return true;
}

bool dl_lex(dl_parser *p) {
    const char *s = p->next;
    while (s < p->end && (*s == ' ' || *s == '\t' || *s == '\r')) s++;
    const char *after = s + 1;
    p->tok = (dl_token){.at = s, .line = p->line, .column = (int)(s - p->line_start) + 1};
    bool comment = s < p->end && *s == '#';
    if (comment && !lex_comment(p, s, &s)) return false;
    if (s == p->end) {
        p->tok.kind = comment ? TOK_LINE : TOK_END;
        p->next = s;
        return true;
    }
    if (*s == '\n') {
        p->tok.kind = TOK_LINE;
        if (!comment) p->tok.n = 0;
        p->next = p->line_start = s + 1;
        p->line++;
        return true;
    }
    if (dl_is_letter(*s)) {
        p->tok.kind = TOK_WORD;
        after = span(s, p->end, dl_is_word);
        if (after - s <= DL_TOKEN_MAX) p->tok.text = dl_intern_n(s, (size_t)(after - s));
    } else if (*s == '"') {
        p->tok.kind = TOK_STRING;
        if (!lex_string(p, s, &after)) return false;
    } else if (*s == '%' || *s == '$' || *s == '@') {
        if (!lex_sigil(p, s, &after)) return false;
    } else if (*s == '-' && p->end - s > 1 && s[1] == '>') {
        p->tok.kind = TOK_ARROW;
        after = s + 2;
    } else if (dl_is_digit(*s) || *s == '-' || *s == '+' || *s == '.') {
        p->tok.kind = TOK_NUMBER;
        after = span_number(s, p->end);
    } else if (*s && strchr("{}[](),=:", *s)) {
        p->tok.kind = TOK_MARK;
    } else {
        return fail_byte(p, s, s, "a character that means nothing here");
    }
    if (after - s > DL_TOKEN_MAX) return fail_here(p, s, "a token longer than 64 KiB");
    p->tok.n = (size_t)(after - s);
    p->next = after;
    return true;
}

bool dl_lex_expected(dl_parser *p, const char *what) {
    const dl_token *t = &p->tok;
    if (t->kind == TOK_END)
        return dl_lex_fail(p, t, "expected %s, found the end of the text", what);
    if (t->kind == TOK_LINE)
        return dl_lex_fail(p, t, "expected %s, found the end of the line", what);
    return dl_lex_fail(p, t, "expected %s, found '%.*s'", what, (int)(t->n < 60 ? t->n : 60),
                       t->at);
}

bool dl_lex_is(const dl_parser *p, char mark) {
    return p->tok.kind == TOK_MARK && *p->tok.at == mark;
}

bool dl_lex_is_word(const dl_parser *p, const char *word) {
    return p->tok.kind == TOK_WORD && strcmp(p->tok.text, word) == 0;
}

bool dl_lex_accept(dl_parser *p, char mark, bool *yes) {
    *yes = dl_lex_is(p, mark);
    return *yes ? dl_lex(p) : true;
}

bool dl_lex_accept_word(dl_parser *p, const char *word, bool *yes) {
    *yes = dl_lex_is_word(p, word);
    return *yes ? dl_lex(p) : true;
}

bool dl_lex_mark(dl_parser *p, char mark) {
    if (dl_lex_is(p, mark)) return dl_lex(p);
    return dl_lex_expected(p, (char[]){'\'', mark, '\'', 0});
}

bool dl_lex_name(dl_parser *p, dl_token_kind kind, const char *what, const char **name) {
    if (p->tok.kind != kind) return dl_lex_expected(p, what);
    *name = p->tok.text;
    return dl_lex(p);
}

/* The number's text, NUL-terminated. */
static bool number_text(dl_parser *p, const char *what, char text[64]) {
    bool word = dl_lex_is_word(p, "inf") || dl_lex_is_word(p, "nan");
    if (p->tok.kind != TOK_NUMBER && !word) return dl_lex_expected(p, what);
    if (p->tok.n > 63) return dl_lex_fail(p, &p->tok, "a number of more than 63 characters");
    memcpy(text, p->tok.at, p->tok.n);
    text[p->tok.n] = 0;
    return true;
}

bool dl_lex_int(dl_parser *p, int64_t min, int64_t max, const char *what, int64_t *v) {
    char text[64], *end;
    if (!number_text(p, what, text)) return false;
    errno = 0;
    long long r = strtoll(text, &end, 10);
    if (*end || end == text) return dl_lex_expected(p, what);
    if (errno || r < min || r > max)
        return dl_lex_fail(p, &p->tok, "%s must lie between %lld and %lld, found %s", what,
                           (long long)min, (long long)max, text);
    *v = r;
    return dl_lex(p);
}

bool dl_lex_double(dl_parser *p, double *v) {
    char text[64], *end;
    if (!number_text(p, "a number", text)) return false;
    *v = strtod(text, &end);
    if (*end || end == text) return dl_lex_expected(p, "a number");
    bool infinite = *v - *v != 0, said = strpbrk(text, "in") != NULL;
    if (infinite && !said) return dl_lex_fail(p, &p->tok, "%s is too large for a double", text);
    return dl_lex(p);
}

const char *dl_lex_nearest(dl_parser *p, const char *word, const char *const *names, int n) {
    const char *near = dl_nearest(word, names, n);
    return near ? dl_format(p->scratch, "; did you mean '%s'?", near) : "";
}

/* "file:line" or "file:line:column" in s[0..n-1]. */
static bool read_loc(dl_parser *p, const char *s, size_t n, dl_loc *loc) {
    dl_parser sub = {.name = p->name, .next = s, .end = s + n, .line_start = s, .line = 1};
    dl_error ignored = {0};
    sub.err = &ignored;
    const char *file, *after;
    if (n && *s == '"') {
        if (!lex_string(&sub, s, &after)) return false;
        file = sub.tok.text;
    } else {
        after = span(s, s + n, dl_is_name);
        file = dl_intern_n(s, (size_t)(after - s));
    }
    int64_t number[2] = {0, 0};
    int count = 0;
    for (; after < s + n; count++) {
        if (*after != ':' || count == 2) return false;
        const char *digits = ++after;
        for (; after < s + n && dl_is_digit(*after) && after - digits < 9; after++)
            number[count] = number[count] * 10 + (*after - '0');
        if (after == digits || *digits == '0') return false;
    }
    if (count == 0 || !*file) return false;
    *loc = (dl_loc){file, (int)number[0], (int)number[1]};
    return true;
}

int dl_lex_locs(dl_parser *p, const char *text, size_t n, dl_loc *locs, int max) {
    const char *s = text, *end = text + n;
    int count = 0;
    for (;;) {
        while (s < end && (*s == ' ' || *s == '\t' || *s == '\r')) s++;
        if (s == end) return count;
        const char *start = s;
        for (bool quoted = false; s < end && (quoted || !(*s == ' ' || *s == '\t' || *s == '\r'));
             s++) {
            if (*s == '\\' && quoted && s + 1 < end)
                s++;
            else if (*s == '"')
                quoted = !quoted;
        }
        if (count == max || !read_loc(p, start, (size_t)(s - start), &locs[count])) return 0;
        count++;
    }
}

bool dl_lex_end_line(dl_parser *p, dl_loc *loc) {
    *loc = (dl_loc){0};
    if (p->tok.kind == TOK_END) return true;
    if (p->tok.kind != TOK_LINE) return dl_lex_expected(p, "the end of the line");
    dl_loc found[2];
    if (dl_lex_locs(p, p->tok.at, p->tok.n, found, 1) == 1) *loc = found[0];
    return dl_lex(p);
}

static struct dl_map_slot *find_slot(const dl_map *map, uintptr_t key) {
    size_t i = (size_t)((uint64_t)key * 0x9E3779B97F4A7C15u >> 20) & (map->cap - 1);
    while (map->at[i].key && map->at[i].key != key) i = (i + 1) & (map->cap - 1);
    return &map->at[i];
}

void *dl_map_get(const dl_map *map, uintptr_t key) {
    return map->cap ? find_slot(map, key)->value : NULL;
}

void dl_map_set(dl_parser *p, dl_map *map, uintptr_t key, void *value) {
    if (2 * (map->n + 1) > map->cap) {
        dl_map old = *map;
        map->cap = old.cap ? 2 * old.cap : 256;
        map->at = DL_NEWS(p->scratch, struct dl_map_slot, map->cap);
        for (size_t i = 0; i < old.cap; i++)
            if (old.at[i].key) *find_slot(map, old.at[i].key) = old.at[i];
    }
    struct dl_map_slot *slot = find_slot(map, key);
    map->n += slot->key == 0;
    *slot = (struct dl_map_slot){key, value};
}

void dl_map_clear(dl_map *map) {
    if (map->n) memset(map->at, 0, map->cap * sizeof *map->at);
    map->n = 0;
}

/* Numbers stay in the text where C++ needs a constant, or the compiler's work depends on one: in
 * template arguments, sizes of arrays and single subscripts, enumerations, cases, pragmas, and
 * loops that count from 0 (they are unrolled; CT_LOOP marks those that are not). */
#include "compiler/cuda/phase_template.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES = 1024, KINDS = 9 };
static const char letters[KINDS] = "pvqlastx"; /* names that emitters number, and "sums" */

typedef struct {
    dl_arena *arena;
    const char *name;
    size_t length;                        /* of the name */
    const char *begin, *at, *end, *fixed; /* numbers before `fixed` stay */
    dl_buf out;
    dl_phase_template s;
    int known[KINDS];
    short number[KINDS][NAMES]; /* by old number: the new one, from 1 on */
    bool renamed; /* the next parameter gets a number of its own, even if it occurred before */
} lexer;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}
static bool is_word(const char *at, size_t n, const char *word) {
    return strlen(word) == n && memcmp(at, word, n) == 0;
}

static void fix(lexer *l, const char *until) {
    if (until > l->fixed) l->fixed = until;
}

static const char *find(const lexer *l, char c) {
    const char *at = memchr(l->at, c, (size_t)(l->end - l->at));
    return at ? at : l->end;
}

/* The position after the bracket that closes the first `open` from here on. */
static const char *closing(const lexer *l, char open, char close) {
    int depth = 0;
    for (const char *at = l->at; at < l->end; at++) {
        depth += (*at == open) - (*at == close);
        if (*at == close && depth <= 0) return at + 1;
    }
    return l->end;
}

/* "for (int n = 0; n < 3; n++)", unless CT_LOOP stands before it. */
static void look_at_loop(lexer *l, const char *begin) {
    static const char rolled[] = "CT_LOOP ";
    const char *head = closing(l, '(', ')'), *first = memchr(begin, ';', (size_t)(head - begin));
    size_t n = sizeof rolled - 1;
    bool is_rolled = (size_t)(begin - l->begin) >= n && memcmp(begin - n, rolled, n) == 0;
    if (first && first - begin > 4 && memcmp(first - 4, " = 0", 4) == 0 && !is_rolled) fix(l, head);
}

static int kind_of(const char *at, size_t letters_n) {
    if (letters_n == 1)
        for (int i = 0; i + 1 < KINDS; i++)
            if (letters[i] == *at) return i;
    return is_word(at, letters_n, "sums") ? KINDS - 1 : -1;
}

static void put_numbered(lexer *l, const char *at, size_t prefix, int kind, long old) {
    short own = 0, *number = l->renamed && kind == 0 ? &own : &l->number[kind][old];
    if (kind == 0) l->renamed = false;
    if (!*number) {
        *number = (short)++l->known[kind];
        if (kind == 0) dl_push(l->arena, &l->s.args, (int)old);
    }
    if (kind == 0) dl_putf(&l->out, "%c", DL_PARAM);
    dl_putf(&l->out, "%.*s%d", (int)prefix, at, *number - 1);
}

static void take_name(lexer *l) {
    const char *begin = l->at;
    while (l->at < l->end && is_name(*l->at)) l->at++;
    size_t n = (size_t)(l->at - begin), prefix = n;
    if (n > l->length && memcmp(begin, l->name, l->length) == 0 && begin[l->length] == '_') {
        dl_putf(&l->out, "%c%.*s", DL_OWN, (int)(n - l->length), begin + l->length);
        return;
    }
    if (is_word(begin, n, "kd_alias")) l->renamed = true;
    if (is_word(begin, n, "for")) look_at_loop(l, begin);
    if (is_word(begin, n, "enum")) fix(l, find(l, '}'));
    if (is_word(begin, n, "case")) fix(l, find(l, ':'));
    while (prefix && is_digit(begin[prefix - 1])) prefix--;
    int kind = prefix < n ? kind_of(begin, prefix) : -1;
    long old = kind < 0 ? 0 : strtol(begin + prefix, NULL, 10);
    if (kind >= 0 && old < NAMES)
        put_numbered(l, begin, prefix, kind, old);
    else
        dl_putn(&l->out, begin, n);
    if (l->at < l->end && *l->at == '<') { /* template arguments: comparisons have spaces */
        const char *close = closing(l, '<', '>'), *statement = find(l, ';');
        if (close < statement) fix(l, close);
    }
}

/* The operator before a number: '/' or '%', '=' for "%=", 0 for all others. */
static char operator_before(const lexer *l, const char *at) {
    while (at > l->begin && at[-1] == ' ') at--;
    if (at == l->begin) return 0;
    if (at[-1] == '/' || at[-1] == '%') return at[-1];
    if (at[-1] != '=' || at - 1 == l->begin) return 0;
    return at[-2] == '/' ? '/' : at[-2] == '%' ? '=' : 0;
}

/* Is the dividend the CTA's number, "unit", or an index that one thread alone divides,
 * "k3_unit"? Then division may cost a product instead of a shift, so kernels that differ in this
 * alone are equal. */
static bool divides_unit(const lexer *l, const char *at) {
    static const char unit[] = "unit";
    enum { LENGTH = sizeof unit - 1 };
    while (at > l->begin && strchr(" /%=", at[-1])) at--;
    if (at - l->begin <= LENGTH || memcmp(at - LENGTH, unit, LENGTH) != 0) return false;
    return !is_name(at[-LENGTH - 1]) || at[-LENGTH - 1] == '_';
}

/* Does a number with its sign begin here? A subtraction has a space after the minus. */
static bool is_number(const lexer *l) {
    const char *at = l->at;
    return is_digit(*at) || (*at == '-' && at + 1 < l->end && is_digit(at[1]));
}

/* The kind of a number that begins here as an argument; 0: it stays in the text. */
static int classify(const lexer *l, const char *begin, const char *suffix, size_t n, bool real,
                    int64_t value) {
    char before = operator_before(l, begin);
    bool subscript = begin > l->begin && begin[-1] == '[' && l->at < l->end && *l->at == ']';
    if (begin < l->fixed || subscript || before == '=') return 0;
    if (real) return is_word(suffix, n, "f") ? DL_TEMPLATE_FLOAT : 0;
    bool is_unsigned = is_word(suffix, n, "U"), is_long = is_word(suffix, n, "L"),
         both = is_word(suffix, n, "UL");
    if (n && !is_unsigned && !is_long && !both) return 0;
    if (value < 0 && (is_unsigned || both)) return 0;
    if (before && (is_long || both || value < 1 || value > INT32_MAX)) return 0;
    if (before) return value & (value - 1) ? DL_TEMPLATE_DIVISOR : DL_TEMPLATE_SHIFT;
    return both          ? DL_TEMPLATE_UNSIGNED_LONG
           : is_long     ? DL_TEMPLATE_LONG
           : is_unsigned ? DL_TEMPLATE_UNSIGNED
                         : DL_TEMPLATE_INT;
}

static void take_number(lexer *l) {
    const char *begin = l->at, *suffix;
    l->at += *begin == '-';
    bool real = false, hex = l->end - l->at > 1 && l->at[1] == 'x';
    while (l->at < l->end && is_digit(*l->at)) l->at++;
    if (!hex && l->at < l->end && *l->at == '.') {
        for (real = true, l->at++; l->at < l->end && is_digit(*l->at);) l->at++;
    }
    if (!hex && l->at < l->end && *l->at == 'e') {
        for (real = true, l->at += 2; l->at < l->end && is_digit(*l->at);) l->at++;
    }
    suffix = l->at;
    while (l->at < l->end && is_name(*l->at)) l->at++;
    int64_t value = 0;
    if (real) {
        float f = strtof(begin, NULL);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        value = bits;
    } else if (!hex) {
        value = strtoll(begin, NULL, 10);
    }
    int kind = hex ? 0 : classify(l, begin, suffix, (size_t)(l->at - suffix), real, value);
    if (!kind) {
        dl_putn(&l->out, begin, (size_t)(l->at - begin));
        return;
    }
    dl_putf(&l->out, "%c%c", DL_TEMPLATE_PARAMETER,
            kind == DL_TEMPLATE_DIVISOR && divides_unit(l, begin) ? DL_TEMPLATE_SHIFT : kind);
    dl_push(l->arena, &l->s.parameters,
            (dl_template_parameter){(dl_template_kind)kind, value,
                                    dl_strndup(l->arena, begin, (size_t)(l->at - begin))});
}

static void take_text(lexer *l, const char *text, size_t n) {
    l->begin = l->at = l->fixed = text, l->end = text + n;
    while (l->at < l->end) {
        if (is_number(l)) {
            take_number(l);
        } else if (is_name(*l->at)) {
            take_name(l);
        } else {
            if (*l->at == '#') fix(l, find(l, '\n'));
            dl_putn(&l->out, l->at++, 1);
        }
    }
}

dl_phase_template dl_phase_template_of(dl_arena *arena, const char *name, const char *structs,
                                       size_t nstructs, const char *body, size_t nbody) {
    lexer l = {.arena = arena, .name = name, .length = strlen(name)};
    take_text(&l, structs, nstructs);
    l.s.structs = l.out.n, l.s.struct_parameters = l.s.parameters.n;
    static const char loop[] = " = ct_tile", fix_nans[] = "    ct_fix_nans<";
    const char *sums = memmem(body, nbody, loop, sizeof loop - 1),
               *end = sums ? strchr(sums, '\n') + 1 : body + nbody;
    if (strncmp(end, fix_nans, sizeof fix_nans - 1) == 0) end = strchr(end, '\n') + 1;
    take_text(&l, body, (size_t)(end - body));
    l.s.epilogue_start = l.out.n, l.s.epilogue_parameter = l.s.parameters.n,
    l.s.epilogue_args = l.s.args.n;
    take_text(&l, end, (size_t)(body + nbody - end));
    l.s.text = dl_strndup(arena, l.out.at ? l.out.at : "", l.out.n);
    dl_buf_free(&l.out);
    return l.s;
}

/* The holes of an emitted text: holes.h. */
#include "compiler/codegen/holes.h"

#include <stdlib.h>

/* Names that emitters number, and the first of them, parameters. */
enum { PARAMS, KINDS = 9 };
static const char *const names[KINDS] = {"p", "v", "l", "a", "s", "t", "x", "sums", "all"};

typedef struct {
    dl_arena *arena;
    dl_buf out;
    dl_template s;
    int known[KINDS];
    DL_ARRAY(int) number[KINDS]; /* by the emitter's number: the new one, from 1 on; 0: none */
} splitter;

/* The hole that begins after the next dollar sign from `at` on, which *n characters fill. NULL:
 * there is none. */
static const char *next_hole(const char *at, size_t *n) {
    at += strcspn(at, "$");
    if (!*at) return NULL;
    *n = strcspn(at + 1, "$");
    DL_CHECK(at[1 + *n]);
    return at + 1;
}

static bool is_word(const char *at, size_t n, const char *word) {
    return strlen(word) == n && memcmp(at, word, n) == 0;
}

/* ---- numbers ---- */

/* The form of a number as an argument; 0: it stays in the text. */
static int kind_of(const char *suffix, size_t n, bool real, bool divides, int64_t value) {
    bool is_unsigned = is_word(suffix, n, "U"), is_long = is_word(suffix, n, "L"),
         both = is_word(suffix, n, "UL");
    if (real) return is_word(suffix, n, "f") ? DL_TEMPLATE_FLOAT : 0;
    if (value < 0 && (is_unsigned || both)) return 0;
    if (divides && (is_long || both || value < 1 || value > INT32_MAX)) return 0;
    if (divides) return value & (value - 1) ? DL_TEMPLATE_DIVISOR : DL_TEMPLATE_SHIFT;
    return both          ? DL_TEMPLATE_UNSIGNED_LONG
           : is_long     ? DL_TEMPLATE_LONG
           : is_unsigned ? DL_TEMPLATE_UNSIGNED
                         : DL_TEMPLATE_INT;
}

static void take_number(splitter *l, const char *at, size_t n) {
    bool by_item = *at == ':', divides = by_item || *at == '/';
    at += divides, n -= divides;
    size_t digits = strspn(at, "-0123456789"), decimal = strspn(at, "+-.e0123456789");
    bool real = decimal > digits;
    int64_t value = 0;
    if (real) {
        float f = strtof(at, NULL);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        value = bits;
    } else {
        value = strtoll(at, NULL, 10);
    }
    int kind = kind_of(at + decimal, n - decimal, real, divides, value);
    if (!kind) {
        dl_putn(&l->out, at, n);
        return;
    }
    dl_putf(&l->out, "%c%c", DL_HOLE_NUMBER,
            kind == DL_TEMPLATE_DIVISOR && by_item ? DL_TEMPLATE_SHIFT : kind);
    dl_push(l->arena, &l->s.parameters,
            (dl_template_parameter){(dl_template_kind)kind, value, dl_strndup(l->arena, at, n)});
}

/* ---- names ---- */

static void take_name(splitter *l, const char *at, size_t n) {
    bool alone = *at == '&';
    at += alone, n -= alone;
    int kind = 0, old, own = 0;
    size_t letters = strcspn(at, "0123456789");
    while (kind < KINDS && !is_word(at, letters, names[kind])) kind++;
    DL_CHECK(kind < KINDS && letters < n);
    old = atoi(at + letters);
    while (l->number[kind].n <= old) dl_push(l->arena, &l->number[kind], 0);
    int *number = alone ? &own : &l->number[kind].at[old];
    if (!*number) {
        *number = ++l->known[kind];
        if (kind == PARAMS) dl_push(l->arena, &l->s.args, old);
    }
    if (kind == PARAMS) dl_putf(&l->out, "%c", DL_HOLE_PARAM);
    dl_putf(&l->out, "%s%d", names[kind], *number - 1);
}

/* ---- texts ---- */

static void take_hole(splitter *l, const char *at, size_t n) {
    if (!n)
        dl_putf(&l->out, "%c", DL_HOLE_OWN);
    else if (is_word(at, n, "members"))
        dl_putf(&l->out, "%c", DL_HOLE_MEMBERS);
    else if (is_word(at, n, "values"))
        dl_putf(&l->out, "%c", DL_HOLE_VALUES);
    else if (strspn(at, "/:-0123456789"))
        take_number(l, at, n);
    else
        take_name(l, at, n);
}

static void take_text(splitter *l, const char *at, const char *end) {
    size_t n;
    for (const char *hole; (hole = next_hole(at, &n)) && hole < end; at = hole + n + 1) {
        dl_putn(&l->out, at, (size_t)(hole - 1 - at));
        take_hole(l, hole, n);
    }
    dl_putn(&l->out, at, (size_t)(end - at));
}

dl_template dl_template_of(dl_arena *arena, const dl_phase *p) {
    splitter l = {.arena = arena};
    const char *body = p->body;
    take_text(&l, p->structs, p->structs + strlen(p->structs));
    l.s.structs = l.out.n, l.s.struct_parameters = l.s.parameters.n;
    take_text(&l, body, body + p->epilogue);
    l.s.epilogue_start = l.out.n, l.s.epilogue_parameter = l.s.parameters.n,
    l.s.epilogue_args = l.s.args.n;
    take_text(&l, body + p->epilogue, body + strlen(body));
    l.s.text = dl_strndup(arena, l.out.at, l.out.n);
    dl_buf_free(&l.out);
    return l.s;
}

void dl_fill_holes(dl_buf *out, const char *text, const char *own) {
    size_t n;
    for (const char *hole; (hole = next_hole(text, &n)); text = hole + n + 1) {
        dl_putn(out, text, (size_t)(hole - 1 - text));
        size_t mark = strspn(hole, "/:&");
        if (!n)
            dl_puts(out, own);
        else if (!is_word(hole, n, "members") && !is_word(hole, n, "values"))
            dl_putn(out, hole + mark, n - mark);
    }
    dl_puts(out, text);
}

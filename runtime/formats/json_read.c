#include <stdio.h>
#include <stdlib.h>

#include "ir/base/utf8.h"
#include "runtime/formats/json.h"
#include "runtime/formats/utf8.h"

enum { MAX_NUMBER = 400 }; /* characters; the longest decimal form of a double has fewer */

typedef struct {
    const char *begin, *p, *end, *name;
    dl_arena *arena;
    dlr_json_limits left; /* remaining number of values; depth is passed down the recursion */
    bool bare;            /* accept NaN and infinities as numbers */
    dl_error *err;
} reader;

static bool fault(reader *r, const char *what) {
    return dl_fail(r->err, DL_INPUT, "%s: byte %zu: %s", r->name, (size_t)(r->p - r->begin), what);
}

static void skip_space(reader *r) {
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r'))
        r->p++;
}

static bool take(reader *r, char c) {
    skip_space(r);
    if (r->p == r->end || *r->p != c) return false;
    r->p++;
    return true;
}

static bool read_hex4(reader *r, unsigned *unit) {
    if (r->end - r->p < 4) return fault(r, "\\u needs four hexadecimal digits");
    *unit = 0;
    for (int i = 0; i < 4; i++, r->p++) {
        char c = *r->p, low = (char)(c | 0x20);
        int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (digit < 0) return fault(r, "\\u needs four hexadecimal digits");
        *unit = *unit << 4 | (unsigned)digit;
    }
    return true;
}

/* Reads the digits after "\u": one code point; code points above U+FFFF are written as a pair. */
static bool read_unicode(reader *r, unsigned *code) {
    unsigned low;
    if (!read_hex4(r, code)) return false;
    if (*code == 0) return fault(r, "a string holds the character U+0000");
    if (*code < 0xd800 || *code > 0xdfff) return true;
    if (*code > 0xdbff || r->end - r->p < 2 || r->p[0] != '\\' || r->p[1] != 'u')
        return fault(r, "half a surrogate pair");
    r->p += 2;
    if (!read_hex4(r, &low)) return false;
    if (low < 0xdc00 || low > 0xdfff) return fault(r, "half a surrogate pair");
    *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static bool read_escape(reader *r, char **out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->p == r->end) return fault(r, "the text ends within a string");
    char c = *r->p;
    const char *at = c ? strchr(from, c) : NULL;
    if (at) {
        *(*out)++ = to[at - from];
        r->p++;
        return true;
    }
    if (c != 'u') return fault(r, "no such escape");
    r->p++;
    unsigned code;
    if (!read_unicode(r, &code)) return false;
    *out += dlr_utf8_encode(code, *out);
    return true;
}

/* Reads a string after the opening quote. An escape is never shorter than its value, so the raw
 * length is enough space. */
static const char *read_string(reader *r) {
    const char *close = r->p;
    while (close < r->end && *close != '"') close += *close == '\\' && close + 1 < r->end ? 2 : 1;
    if (close == r->end) return fault(r, "a string without its closing quote"), NULL;
    char *s = dl_alloc(r->arena, (size_t)(close - r->p) + 1), *out = s;
    while (r->p < close) {
        if (*r->p == '\\') {
            r->p++;
            if (!read_escape(r, &out)) return NULL;
            continue;
        }
        if ((unsigned char)*r->p < 0x20) return fault(r, "a control character in a string"), NULL;
        int n = dl_utf8_length(r->p, (size_t)(close - r->p));
        if (n == 0) return fault(r, "a string is not valid UTF-8"), NULL;
        memcpy(out, r->p, (size_t)n);
        out += n, r->p += n;
    }
    r->p = close + 1;
    return s;
}

static int digits(reader *r) {
    const char *from = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') r->p++;
    return (int)(r->p - from > MAX_NUMBER ? MAX_NUMBER : r->p - from);
}

static bool read_number(reader *r, dlr_json *v) {
    const char *from = r->p;
    bool whole = true;
    if (*r->p == '-') r->p++;
    const char *first = r->p;
    int n = digits(r);
    if (n == 0) return fault(r, "expected a value");
    if (n > 1 && *first == '0') return fault(r, "a number with a leading zero");
    if (r->p < r->end && *r->p == '.') {
        r->p++, whole = false;
        if (digits(r) == 0) return fault(r, "expected a digit after the decimal point");
    }
    if (r->p < r->end && (*r->p == 'e' || *r->p == 'E')) {
        r->p++, whole = false;
        if (r->p < r->end && (*r->p == '+' || *r->p == '-')) r->p++;
        if (digits(r) == 0) return fault(r, "expected a digit in the exponent");
    }
    char text[MAX_NUMBER + 1];
    size_t length = (size_t)(r->p - from);
    if (length > MAX_NUMBER) return fault(r, "a number of more than 400 characters");
    memcpy(text, from, length);
    text[length] = 0;
    if (whole && length <= 18 && strcmp(text, "-0") != 0) {
        *v = (dlr_json){.kind = DLR_JSON_INT, .integer = strtoll(text, NULL, 10)};
        return true;
    }
    /* Up to 18 characters always fit; 19- and 20-digit integers are checked by converting them
     * back. */
    long long exact = whole && length <= 20 ? strtoll(text, NULL, 10) : 0;
    char back[32];
    snprintf(back, sizeof back, "%lld", exact);
    if (strcmp(back, text) == 0)
        *v = (dlr_json){.kind = DLR_JSON_INT, .integer = exact};
    else
        *v = (dlr_json){.kind = DLR_JSON_REAL,
                        .real = strtod(text, NULL),
                        .digits = whole ? dl_strdup(r->arena, text) : NULL};
    return true;
}

static bool read_value(reader *r, dlr_json *v, int depth);

static bool read_array(reader *r, dlr_json *v, int depth) {
    DL_ARRAY(dlr_json) items = {0};
    if (!take(r, ']')) {
        do {
            dlr_json item;
            if (!read_value(r, &item, depth)) return false;
            dl_push(r->arena, &items, item);
        } while (take(r, ','));
        if (!take(r, ']')) return fault(r, "expected ',' or ']'");
    }
    *v = (dlr_json){.kind = DLR_JSON_ARRAY, .n = items.n, .items = items.at};
    return true;
}

static int compare_keys(const void *a, const void *b, void *members) {
    const dlr_json_member *m = members;
    return strcmp(m[*(const int *)a].key, m[*(const int *)b].key);
}

static bool read_object(reader *r, dlr_json *v, int depth) {
    DL_ARRAY(dlr_json_member) members = {0};
    if (!take(r, '}')) {
        do {
            dlr_json_member m;
            if (!take(r, '"')) return fault(r, "expected a key in quotes");
            if (!(m.key = read_string(r))) return false;
            if (!take(r, ':')) return fault(r, "expected ':' after the key");
            if (!read_value(r, &m.value, depth)) return false;
            dl_push(r->arena, &members, m);
        } while (take(r, ','));
        if (!take(r, '}')) return fault(r, "expected ',' or '}'");
    }
    int *order = DL_NEWS(r->arena, int, members.n);
    for (int i = 0; i < members.n; i++) order[i] = i;
    if (members.n > 1) qsort_r(order, (size_t)members.n, sizeof *order, compare_keys, members.at);
    for (int i = 1; i < members.n; i++)
        if (strcmp(members.at[order[i - 1]].key, members.at[order[i]].key) == 0)
            return dl_fail(r->err, DL_INPUT, "%s: the key '%.200s' stands twice in an object",
                           r->name, members.at[order[i]].key);
    *v =
        (dlr_json){.kind = DLR_JSON_OBJECT, .n = members.n, .members = members.at, .by_key = order};
    return true;
}

static bool read_word(reader *r, dlr_json *v) {
    static const struct {
        const char *text;
        dlr_json value;
    } words[] = {{"true", {.kind = DLR_JSON_BOOL, .boolean = true}},
                 {"false", {.kind = DLR_JSON_BOOL, .boolean = false}},
                 {"null", {.kind = DLR_JSON_NULL}},
                 {"NaN", {.kind = DLR_JSON_REAL, .real = __builtin_nan("")}},
                 {"Infinity", {.kind = DLR_JSON_REAL, .real = __builtin_inf()}},
                 {"-Infinity", {.kind = DLR_JSON_REAL, .real = -__builtin_inf()}}};
    for (int i = 0; i < (r->bare ? 6 : 3); i++) {
        size_t n = strlen(words[i].text);
        if ((size_t)(r->end - r->p) < n || memcmp(r->p, words[i].text, n) != 0) continue;
        *v = words[i].value;
        r->p += n;
        return true;
    }
    return fault(r, "expected a value");
}

static bool read_value(reader *r, dlr_json *v, int depth) {
    skip_space(r);
    if (r->p == r->end) return fault(r, "the text ends where a value was expected");
    if (r->left.values-- <= 0) return fault(r, "more values than such a file may have");
    char c = *r->p;
    if ((c == '[' || c == '{') && depth <= 0) return fault(r, "nested too deeply");
    switch (c) {
    case '{': return r->p++, read_object(r, v, depth - 1);
    case '[': return r->p++, read_array(r, v, depth - 1);
    case '"':
        r->p++;
        return (*v = (dlr_json){.kind = DLR_JSON_STRING, .string = read_string(r)}).string != NULL;
    case '-':
        if (r->bare && r->p + 1 < r->end && r->p[1] == 'I') return read_word(r, v);
        return read_number(r, v);
    default: return c >= '0' && c <= '9' ? read_number(r, v) : read_word(r, v);
    }
}

static const dlr_json *parse(reader *r) {
    dlr_json *v = DL_NEW(r->arena, dlr_json);
    if (!read_value(r, v, r->left.depth)) return NULL;
    skip_space(r);
    if (r->p != r->end) return fault(r, "something follows the value"), NULL;
    return v;
}

const dlr_json *dlr_json_parse(dl_arena *arena, const char *text, size_t n, dlr_json_limits limits,
                               const char *name, dl_error *err) {
    reader r = {.begin = text,
                .p = text,
                .end = text + n,
                .name = name,
                .arena = arena,
                .left = limits,
                .err = err};
    return parse(&r);
}

const dlr_json *dlr_json_parse_python(dl_arena *arena, const char *text, size_t n,
                                      dlr_json_limits limits, const char *name, dl_error *err) {
    reader r = {.begin = text,
                .p = text,
                .end = text + n,
                .name = name,
                .arena = arena,
                .left = limits,
                .bare = true,
                .err = err};
    return parse(&r);
}

const dlr_json *dlr_json_get(const dlr_json *object, const char *key) {
    if (!object || object->kind != DLR_JSON_OBJECT) return NULL;
    for (int low = 0, high = object->n; low < high;) {
        int middle = low + (high - low) / 2;
        const dlr_json_member *m = &object->members[object->by_key[middle]];
        int c = strcmp(key, m->key);
        if (c == 0) return &m->value;
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool dlr_json_number(const dlr_json *value, double *number) {
    static const struct {
        const char *text;
        double value;
    } words[] = {{"nan", __builtin_nan("")}, {"inf", __builtin_inf()}, {"-inf", -__builtin_inf()}};
    if (!value) return false;
    if (value->kind == DLR_JSON_INT) return *number = (double)value->integer, true;
    if (value->kind == DLR_JSON_REAL) return *number = value->real, true;
    if (value->kind == DLR_JSON_STRING)
        for (int i = 0; i < 3; i++)
            if (strcmp(value->string, words[i].text) == 0) return *number = words[i].value, true;
    return false;
}

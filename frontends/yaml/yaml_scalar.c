/* Scalars: the core schema of YAML 1.2, and printing values as text. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontends/yaml/yaml_tree.h"

static bool is_one_of(const char *s, const char *const *words) {
    for (; *words; words++)
        if (strcmp(s, *words) == 0) return true;
    return false;
}

static const char *const NULLS[] = {"", "~", "null", "Null", "NULL", "None", NULL};
static const char *const TRUES[] = {"true", "True", "TRUE", NULL};
static const char *const FALSES[] = {"false", "False", "FALSE", NULL};
/* Booleans of YAML 1.1, accepted only after `!!bool`. */
static const char *const OLD_TRUES[] = {"yes", "Yes", "YES", "on", "On", "ON", "y", "Y", NULL};
static const char *const OLD_FALSES[] = {"no", "No", "NO", "off", "Off", "OFF", "n", "N", NULL};
static const char *const INFINITIES[] = {".inf", ".Inf", ".INF", NULL};
static const char *const NANS[] = {".nan", ".NaN", ".NAN", NULL};

static const char *skip_digits(const char *s) {
    while (isdigit((unsigned char)*s)) s++;
    return s;
}

/* [-+]?[0-9]+ | 0o[0-7]+ | 0x[0-9a-fA-F]+, if it fits in 64 bits. */
static bool parse_int(const char *s, int64_t *v) {
    static const struct {
        const char *prefix, *digits;
        int base;
    } forms[] = {
        {"0o", "01234567", 8}, {"0x", "0123456789abcdefABCDEF", 16}, {"", "0123456789", 10}};
    int form = 0;
    while (strncmp(s, forms[form].prefix, strlen(forms[form].prefix)) != 0) form++;
    s += strlen(forms[form].prefix);
    const char *digits = s + (forms[form].base == 10 && (*s == '-' || *s == '+'));
    if (!*digits || digits[strspn(digits, forms[form].digits)]) return false;
    errno = 0;
    *v = strtoll(s, NULL, forms[form].base);
    return errno == 0;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? | [-+]?\.inf | \.nan */
static bool parse_float(const char *s, double *v) {
    const char *p = s + (*s == '-' || *s == '+');
    if (is_one_of(p, INFINITIES)) {
        *v = *s == '-' ? -HUGE_VAL : HUGE_VAL;
        return true;
    }
    if (is_one_of(s, NANS)) {
        *v = NAN;
        return true;
    }
    const char *whole = p, *end;
    p = skip_digits(p);
    bool has_digits = p > whole;
    if (*p == '.') {
        end = skip_digits(++p);
        has_digits |= end > p;
        p = end;
    }
    if (!has_digits) return false;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        end = skip_digits(p);
        if (end == p) return false;
        p = end;
    }
    *v = strtod(s, NULL);
    return *p == 0;
}

static dl_yaml *new_scalar(dl_arena *arena, const char *text, dl_yaml_place place) {
    dl_yaml *v = DL_NEW(arena, dl_yaml);
    v->kind = DL_YAML_STRING, v->text = text, v->place = place;
    v->size = v->height = 1;
    return v;
}

dl_yaml *dl_yaml_string(dl_arena *arena, const char *text, dl_yaml_place place) {
    return new_scalar(arena, dl_strdup(arena, text), place);
}

dl_yaml *dl_yaml_plain(dl_arena *arena, const char *text, dl_yaml_place place) {
    dl_yaml *v = dl_yaml_string(arena, text, place);
    if (is_one_of(text, NULLS))
        v->kind = DL_YAML_NULL;
    else if (is_one_of(text, TRUES))
        v->kind = DL_YAML_BOOL, v->truth = true;
    else if (is_one_of(text, FALSES))
        v->kind = DL_YAML_BOOL;
    else if (parse_int(text, &v->integer))
        v->kind = DL_YAML_INT, v->number = (double)v->integer;
    else if (parse_float(text, &v->number))
        v->kind = DL_YAML_FLOAT;
    return v;
}

bool dl_yaml_is_old_bool(const char *text) {
    return is_one_of(text, OLD_TRUES) || is_one_of(text, OLD_FALSES);
}

dl_yaml *dl_yaml_tagged(dl_arena *arena, const char *text, const char *type, dl_yaml_place place) {
    static const struct {
        const char *tag;
        dl_yaml_kind kind;
    } types[] = {{"null", DL_YAML_NULL},
                 {"bool", DL_YAML_BOOL},
                 {"int", DL_YAML_INT},
                 {"float", DL_YAML_FLOAT}};
    if (strcmp(type, "str") == 0) return dl_yaml_string(arena, text, place);
    dl_yaml *v = dl_yaml_plain(arena, text, place);
    if (strcmp(type, "bool") == 0 && dl_yaml_is_old_bool(text))
        v->kind = DL_YAML_BOOL, v->truth = is_one_of(text, OLD_TRUES);
    if (strcmp(type, "float") == 0 && v->kind == DL_YAML_INT) v->kind = DL_YAML_FLOAT;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].tag) == 0) return v->kind == types[i].kind ? v : NULL;
    return NULL;
}

/* ---- values as text ---- */

/* The shortest digits that read back, formatted as Python's repr: always with a point or an
 * exponent. */
static void put_finite(dl_buf *b, double v) {
    char s[64];
    int digits = 0;
    snprintf(s, sizeof s, "%.*e", digits, v);
    while (strtod(s, NULL) != v && digits < 17) snprintf(s, sizeof s, "%.*e", ++digits, v);
    int exponent = atoi(strchr(s, 'e') + 1), decimals = digits - exponent;
    if (exponent < -4 || exponent >= 16)
        dl_puts(b, s);
    else
        dl_putf(b, "%.*f", decimals > 1 ? decimals : 1, v);
}

static void put_double(dl_buf *b, double v, bool python) {
    if (isnan(v))
        dl_puts(b, python ? "nan" : ".nan");
    else if (isinf(v))
        dl_putf(b, "%s%s", v < 0 ? "-" : "", python ? "inf" : ".inf");
    else
        put_finite(b, v);
}

static void put_single_quoted(dl_buf *b, const char *s, const char *quote) {
    dl_puts(b, "'");
    for (; *s; s++) {
        if (*s == '\'')
            dl_puts(b, quote);
        else
            dl_putn(b, s, 1);
    }
    dl_puts(b, "'");
}

/* Prints in single quotes, or in double quotes if there are characters that need an escape. */
static void put_yaml_string(dl_buf *b, const char *s) {
    const char *p = s;
    while (*p && (unsigned char)*p >= 0x20 && *p != 0x7f) p++;
    if (!*p) {
        put_single_quoted(b, s, "''");
        return;
    }
    dl_puts(b, "\"");
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            dl_putf(b, "\\x%02x", (unsigned char)*s);
        else
            dl_putf(b, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    dl_puts(b, "\"");
}

static void put_scalar(dl_buf *b, const dl_yaml *v, bool python, bool nested) {
    static const char *const words[2][3] = {{"null", "false", "true"}, {"None", "False", "True"}};
    switch (v->kind) {
    case DL_YAML_NULL: dl_puts(b, words[python][0]); break;
    case DL_YAML_BOOL: dl_puts(b, words[python][1 + v->truth]); break;
    case DL_YAML_INT: dl_putf(b, "%lld", (long long)v->integer); break;
    case DL_YAML_FLOAT: put_double(b, v->number, python); break;
    default:
        if (!python)
            put_yaml_string(b, v->text);
        else if (nested)
            put_single_quoted(b, v->text, "\\'");
        else
            dl_puts(b, v->text);
    }
}

static void put(dl_buf *b, const dl_yaml *v, bool python, bool nested) {
    if (v->kind != DL_YAML_LIST && v->kind != DL_YAML_MAP) {
        put_scalar(b, v, python, nested);
        return;
    }
    bool is_map = v->kind == DL_YAML_MAP;
    int n = is_map ? v->entries.n : v->items.n;
    dl_puts(b, is_map ? "{" : "[");
    for (int i = 0; i < n; i++) {
        if (i) dl_puts(b, ", ");
        if (is_map) {
            put_single_quoted(b, v->entries.at[i].key, python ? "\\'" : "''");
            dl_puts(b, ": ");
        }
        put(b, is_map ? v->entries.at[i].value : v->items.at[i], python, true);
    }
    dl_puts(b, is_map ? "}" : "]");
}

void dl_yaml_put(dl_buf *b, const dl_yaml *v) { put(b, v, false, false); }
void dl_yaml_put_python(dl_buf *b, const dl_yaml *v) { put(b, v, true, false); }

const char *dl_yaml_quote(dl_arena *arena, const char *text) {
    enum { LONGEST = 80 };
    char s[LONGEST + 1];
    size_t n = 0;
    for (; text[n] && n < LONGEST; n++)
        s[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
    bool cut = text[n] != 0;
    /* do not cut within a UTF-8 character */
    while (cut && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    s[n] = 0;
    return dl_format(arena, cut ? "'%s...'" : "'%s'", s);
}

const char *dl_yaml_show(dl_arena *arena, const dl_yaml *v) {
    if (v->kind == DL_YAML_MAP) return "a map";
    if (v->kind == DL_YAML_NULL) return *v->text ? "null" : "an empty value";
    if (v->kind != DL_YAML_LIST) return dl_yaml_quote(arena, v->text);
    if (v->size > 20) return "a list";
    dl_buf b = {0};
    dl_yaml_put(&b, v);
    const char *s = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return s;
}

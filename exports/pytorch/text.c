/* Python's text: expressions with their levels, numbers, statements in lines. */
#include <ctype.h>
#include <math.h>

#include "exports/pytorch/parts.h"

enum { WIDTH = 100, MOST_DEPTH = 64, SHORT = 14 /* an item that shares its line */ };

torch_text dl_torch_at(torch_export *t, torch_level level, const char *format, ...) {
    dl_buf b = {0};
    va_list args;
    va_start(args, format);
    dl_vputf(&b, format, args);
    va_end(args);
    torch_text x = {.s = dl_strdup(t->arena, b.at ? b.at : ""), .level = level};
    dl_buf_free(&b);
    return x;
}

torch_text dl_torch_atom(torch_export *t, const char *format, ...) {
    dl_buf b = {0};
    va_list args;
    va_start(args, format);
    dl_vputf(&b, format, args);
    va_end(args);
    torch_text x = {.s = dl_strdup(t->arena, b.at ? b.at : ""), .level = TORCH_ATOM};
    dl_buf_free(&b);
    return x;
}

const char *dl_torch_within(torch_export *t, torch_text x, torch_level level) {
    return x.level < level ? dl_format(t->arena, "(%s)", x.s) : x.s;
}

const char *dl_torch_number(torch_export *t, double v, dl_dtype dtype) {
    if (dtype == DL_BOOL) return v != 0 ? "True" : "False";
    if (!isfinite(v))
        return isnan(v) ? "float(\"nan\")" : v > 0 ? "float(\"inf\")" : "float(\"-inf\")";
    if (!dl_dtype_is_float(dtype)) return dl_format(t->arena, "%lld", (long long)v);
    if (v == rint(v) && fabs(v) < 1e6) return dl_format(t->arena, "%.1f", v);
    dl_buf b = {0};
    dl_put_double(&b, v);
    if (!strpbrk(b.at, ".e")) dl_puts(&b, ".0");
    const char *s = dl_strdup(t->arena, b.at);
    dl_buf_free(&b);
    return s;
}

const char *dl_torch_dtype(dl_dtype dtype) {
    static const char *const names[DL_NDTYPES] = {
        [DL_F32] = "torch.float32",   [DL_F64] = "torch.float64", [DL_F16] = "torch.float16",
        [DL_BF16] = "torch.bfloat16", [DL_I32] = "torch.int32",   [DL_I64] = "torch.int64",
        [DL_BOOL] = "torch.bool"};
    return names[dtype];
}

const char *dl_torch_ints(torch_export *t, int n, const int64_t *v) {
    bool alike = true;
    for (int i = 1; i < n; i++) alike &= v[i] == v[0];
    if (n && alike) return dl_format(t->arena, "%lld", (long long)v[0]);
    const char *s = "(";
    for (int i = 0; i < n; i++)
        s = dl_format(t->arena, "%s%s%lld", s, i ? ", " : "", (long long)v[i]);
    return dl_format(t->arena, "%s)", s);
}

/* ---- statements ---- */

/* The longest pair of brackets at the top of a text. */
typedef struct {
    size_t open, close;
} pair;

static const char *after_string(const char *s) {
    for (char quote = *s++; *s && *s != quote; s++) s += *s == '\\' && s[1];
    return *s ? s + 1 : s;
}

static pair longest_pair(const char *text, size_t n) {
    pair best = {0, 0}, now = {0, 0};
    int depth = 0;
    for (const char *s = text; s < text + n;) {
        if (*s == '"') {
            s = after_string(s);
            continue;
        }
        if (strchr("([{", *s) && depth++ == 0) now.open = (size_t)(s - text);
        if (strchr(")]}", *s) && --depth == 0) {
            now.close = (size_t)(s - text);
            if (now.close - now.open > best.close - best.open) best = now;
        }
        s++;
    }
    return best;
}

/* The length of the first of the items that commas part. */
static size_t first_item(const char *text, size_t n) {
    int depth = 0;
    for (const char *s = text; s < text + n;) {
        if (*s == '"') {
            s = after_string(s);
            continue;
        }
        depth += strchr("([{", *s) != NULL;
        depth -= strchr(")]}", *s) != NULL;
        if (*s == ',' && !depth) return (size_t)(s - text);
        s++;
    }
    return n;
}

static void put_part(dl_buf *to, int indent, const char *text, size_t n, const char *end);

/* The length of as many items as a line holds: one, unless it is short. */
static size_t line_of_items(int indent, const char *text, size_t n) {
    size_t line = first_item(text, n);
    while (line < n && line + (size_t)indent < WIDTH) {
        size_t one = first_item(text + line + 1, n - line - 1);
        if (one > SHORT || line + 1 + one + (size_t)indent > WIDTH || first_item(text, n) > SHORT)
            break;
        line += 1 + one;
    }
    return line;
}

static void put_items(dl_buf *to, int indent, const char *text, size_t n) {
    while (n) {
        size_t line = line_of_items(indent, text, n);
        put_part(to, indent, text, line, ",");
        text += line, n -= line;
        while (n && (*text == ',' || *text == ' ')) text++, n--;
    }
}

static void put_part(dl_buf *to, int indent, const char *text, size_t n, const char *end) {
    pair p = longest_pair(text, n);
    dl_putf(to, "%*s", indent, "");
    if ((size_t)indent + n <= WIDTH || p.close <= p.open + 1 || indent > MOST_DEPTH) {
        dl_putn(to, text, n);
        dl_putf(to, "%s\n", end);
        return;
    }
    dl_putn(to, text, p.open + 1);
    dl_puts(to, "\n");
    const char *inside = text + p.open + 1;
    size_t inner = p.close - p.open - 1;
    if (first_item(inside, inner) == inner)
        put_part(to, indent + 4, inside, inner, "");
    else
        put_items(to, indent + 4, inside, inner);
    dl_putf(to, "%*s", indent, "");
    dl_putn(to, text + p.close, n - p.close);
    dl_putf(to, "%s\n", end);
}

void dl_torch_put(dl_buf *to, int indent, const char *text) {
    put_part(to, indent, text, strlen(text), "");
}

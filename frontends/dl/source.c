#include "frontends/dl/source.h"
#include "ir/base/input.h"

#include <ctype.h>

dl_source *dl_source_new(dl_arena *arena, const char *name, const char *text, size_t n) {
    dl_source *s = DL_NEW(arena, dl_source);
    s->name = dl_intern(name);
    s->n = n;
    char *copy = dl_alloc(arena, n + 1);
    memcpy(copy, text, n);
    s->text = copy;
    dl_push(arena, &s->lines, 0);
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\n') dl_push(arena, &s->lines, (uint32_t)(i + 1));
    return s;
}

dl_source *dl_source_read(dl_arena *arena, const char *path, dl_error *err) {
    size_t n;
    dl_arena *scratch = dl_arena_new(NULL);
    char *text = dl_read_input(scratch, path, DL_SOURCE_LIMIT, &n, err);
    dl_source *s = text ? dl_source_new(arena, path, text, n) : NULL;
    dl_arena_free(scratch);
    return s;
}

static int line_of(const dl_source *s, uint32_t at) {
    int lo = 0, hi = s->lines.n;
    while (hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;
        if (s->lines.at[mid] <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int dl_source_line_number(const dl_source *s, uint32_t at) { return line_of(s, at) + 1; }

dl_loc dl_source_loc(const dl_source *s, uint32_t at) {
    if (at > s->n) at = (uint32_t)s->n;
    int line = line_of(s, at), column = 1;
    for (uint32_t i = s->lines.at[line]; i < at; i++)
        if (((unsigned char)s->text[i] & 0xC0) != 0x80) column++;
    return (dl_loc){s->name, line + 1, column};
}

dl_span dl_source_word(const dl_source *s, dl_loc at) {
    dl_span w = {0, 0};
    if (at.line < 1 || at.line > s->lines.n) return w;
    w.begin = s->lines.at[at.line - 1];
    for (int column = 1; column < at.column && w.begin < s->n; column++) do
            w.begin++;
        while (w.begin < s->n && ((unsigned char)s->text[w.begin] & 0xC0) == 0x80);
    w.end = w.begin;
    while (w.end < s->n && (isalnum((unsigned char)s->text[w.end]) || s->text[w.end] == '_'))
        w.end++;
    if (w.end == w.begin) w.end++;
    return w;
}

const char *dl_source_line(const dl_source *s, int line, size_t *n) {
    uint32_t from = s->lines.at[line - 1];
    uint32_t to = line < s->lines.n ? s->lines.at[line] : (uint32_t)s->n;
    while (to > from && (s->text[to - 1] == '\n' || s->text[to - 1] == '\r')) to--;
    *n = to - from;
    return s->text + from;
}

/* Length of the UTF-8 character at p (n bytes left), or 0; overlong forms and surrogates are
 * invalid. */
static size_t utf8_length(const unsigned char *p, size_t n) {
    if (p[0] < 0x80) return 1;
    size_t len = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
    if (p[0] < 0xC2 || p[0] > 0xF4 || len > n) return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F)) return 0;
    if ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F)) return 0;
    return len;
}

int64_t dl_source_bad_byte(const dl_source *s) {
    const unsigned char *p = (const unsigned char *)s->text;
    for (size_t i = 0; i < s->n;) {
        size_t len = utf8_length(p + i, s->n - i);
        if (len == 0 || p[i] == 0) return (int64_t)i;
        i += len;
    }
    return -1;
}

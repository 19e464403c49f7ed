#include "frontends/dl/diag.h"

#include "ir/base/foreign.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name, *code, *explanation;
} kinds[DL_NDIAGS] = {
#define DIAG(id, code, explanation) {#id, code, explanation},
#include "frontends/dl/diag.def"
#undef DIAG
};

bool dl_diag_is_warning(dl_diag_id id) { return kinds[id].code[0] == 'W'; }

dl_diags *dl_diags_new(dl_arena *arena, const dl_source *source) {
    dl_diags *d = DL_NEW(arena, dl_diags);
    d->arena = arena, d->source = source;
    return d;
}

static const char *format_in(dl_arena *arena, const char *format, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    DL_CHECK(n >= 0);
    char *s = dl_alloc(arena, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, format, again);
    va_end(again);
    return dl_shown(arena, s);
}

bool dl_diags_has(const dl_diags *d, const dl_diag *g) {
    for (int i = 0; i < d->list.n; i++)
        if (d->list.at[i]->id == g->id && d->list.at[i]->where.begin == g->where.begin) return true;
    return false;
}

static void add(dl_diags *d, dl_diag *g) {
    if (dl_diags_has(d, g)) return;
    /* Reports far beyond the printed limit are dropped: a malicious file has a million faults.
     * Errors and warnings are counted apart, so that no number of warnings hides an error. */
    int *n = dl_diag_is_warning(g->id) ? &d->warnings : &d->errors;
    if (*n < 50 * DL_DIAG_SHOWN) dl_push(d->arena, &d->list, g);
    ++*n;
}

dl_diag *dl_report(dl_diags *d, dl_span where, dl_diag_id id, const char *format, ...) {
    dl_diag *g = DL_NEW(d->arena, dl_diag);
    g->id = id, g->where = where;
    va_list ap;
    va_start(ap, format);
    g->message = format_in(d->arena, format, ap);
    va_end(ap);
    add(d, g);
    return g;
}

void dl_diag_add_note(dl_diags *d, dl_diag *g, dl_span where, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    const char *text = format_in(d->arena, format, ap);
    va_end(ap);
    for (int i = 0; i < g->notes.n; i++)
        if (g->notes.at[i].where.begin == where.begin && strcmp(g->notes.at[i].text, text) == 0)
            return;
    dl_push(d->arena, &g->notes, (dl_diag_note){where, text});
}

void dl_diag_set_help(dl_diags *d, dl_diag *g, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    g->help = format_in(d->arena, format, ap);
    va_end(ap);
}

void dl_diags_merge(dl_diags *to, const dl_diags *from) {
    for (int i = 0; i < from->list.n; i++) add(to, from->list.at[i]);
}

/* Printing */

typedef struct {
    const char *error, *warning, *note, *help, *caret, *bold, *off;
} palette;
static const palette plain = {"", "", "", "", "", "", ""};
static const palette coloured = {"\033[1;31m", "\033[1;35m", "\033[1;36m", "\033[1;32m",
                                 "\033[1;32m", "\033[1m",    "\033[0m"};

enum { LINE_SHOWN = 160 };

/* Prints the source line and a caret under the fault. Long lines are cut to a window around it;
 * control characters are shown as '?'. */
static void print_line(dl_buf *out, const dl_source *s, dl_span where, const palette *c) {
    dl_loc at = dl_source_loc(s, where.begin);
    size_t n;
    const char *line = dl_source_line(s, at.line, &n);
    size_t from = 0, caret = where.begin - (size_t)(line - s->text);
    if (caret > n) caret = n;
    if (n > LINE_SHOWN && caret > LINE_SHOWN / 2) from = caret - LINE_SHOWN / 2;
    while (from > 0 && ((unsigned char)line[from] & 0xC0) == 0x80) from--;
    size_t to = n - from > LINE_SHOWN ? from + LINE_SHOWN : n;
    while (to < n && ((unsigned char)line[to] & 0xC0) == 0x80) to++;
    size_t end = where.end - (size_t)(line - s->text);
    if (end > to) end = to;
    bool utf8 = dl_source_bad_byte(s) < 0;
    dl_putf(out, "%5d | ", at.line);
    for (size_t i = from; i < to; i++) {
        unsigned char b = (unsigned char)line[i];
        dl_putf(out, "%c",
                b == '\t'                                       ? ' '
                : b < 0x20 || b == 0x7F || (b >= 0x80 && !utf8) ? '?'
                                                                : b);
    }
    dl_puts(out, "\n      | ");
    for (size_t i = from; i < caret; i++)
        if (!utf8 || ((unsigned char)line[i] & 0xC0) != 0x80) dl_puts(out, " ");
    dl_putf(out, "%s^", c->caret);
    for (size_t i = caret + 1; i < end; i++)
        if (!utf8 || ((unsigned char)line[i] & 0xC0) != 0x80) dl_puts(out, "~");
    dl_putf(out, "%s\n", c->off);
}

static void print_place(dl_buf *out, const dl_source *s, dl_span where, const palette *c) {
    dl_loc at = dl_source_loc(s, where.begin);
    dl_puts(out, c->bold);
    dl_put_foreign(out, DL_IN_LINE, at.file);
    dl_putf(out, ":%d:%d:%s ", at.line, at.column, c->off);
}

static void print_diag(dl_buf *out, const dl_diags *d, const dl_diag *g, const palette *c) {
    bool warning = dl_diag_is_warning(g->id);
    print_place(out, d->source, g->where, c);
    dl_putf(out, "%s%s:%s %s [%s]\n", warning ? c->warning : c->error,
            warning ? "warning" : "error", c->off, g->message, dl_diag_code(g->id));
    print_line(out, d->source, g->where, c);
    for (int i = 0; i < g->notes.n; i++) {
        print_place(out, d->source, g->notes.at[i].where, c);
        dl_putf(out, "%snote:%s %s\n", c->note, c->off, g->notes.at[i].text);
    }
    if (g->help)
        dl_putf(out, "%shelp:%s %s; see `dlc explain %s`\n", c->help, c->off, g->help,
                dl_diag_code(g->id));
}

static int by_position(const void *a, const void *b) {
    const dl_diag *x = *(dl_diag *const *)a, *y = *(dl_diag *const *)b;
    if (x->where.begin != y->where.begin) return x->where.begin < y->where.begin ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Reports that were not printed. */
static void put_rest(dl_buf *out, const char *name, int n, const char *what) {
    if (n > 0) dl_putf(out, "%s: %d more %s%s not shown\n", name, n, what, n == 1 ? "" : "s");
}

void dl_diags_print(dl_buf *out, const dl_diags *d, bool colour) {
    dl_arena *scratch = dl_arena_new(NULL);
    dl_diag **sorted = DL_NEWS(scratch, dl_diag *, d->list.n + 1);
    if (d->list.n) memcpy(sorted, d->list.at, sizeof *sorted * (size_t)d->list.n);
    qsort(sorted, (size_t)d->list.n, sizeof *sorted, by_position);
    int shown[2] = {0, 0}; /* errors, warnings */
    for (int i = 0; i < d->list.n; i++) {
        int *n = &shown[dl_diag_is_warning(sorted[i]->id)];
        if (*n == DL_DIAG_SHOWN) continue;
        print_diag(out, d, sorted[i], colour ? &coloured : &plain);
        ++*n;
    }
    const char *name = dl_shown(scratch, d->source->name);
    put_rest(out, name, d->errors - shown[0], "error");
    put_rest(out, name, d->warnings - shown[1], "warning");
    dl_arena_free(scratch);
}

int dl_diag_find(const char *name) {
    for (int i = 0; i < DL_NDIAGS; i++)
        if (strcmp(kinds[i].name, name) == 0) return i;
    return -1;
}

const char *dl_diag_code(dl_diag_id id) { return dl_internf("DL-%s", kinds[id].code); }

bool dl_diag_explain(dl_buf *out, const char *code) {
    const char *bare = strncmp(code, "DL-", 3) == 0 ? code + 3 : code;
    for (int i = 0; i < DL_NDIAGS; i++)
        if (strcmp(kinds[i].code, bare) == 0 || strcmp(kinds[i].name, bare) == 0) {
            dl_putf(out, "DL-%s %s\n\n%s\n", kinds[i].code, kinds[i].name, kinds[i].explanation);
            return true;
        }
    return false;
}

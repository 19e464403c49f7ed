/* Columns of numbers of .csv, .tsv and .tab files: each an array. Fields are separated by commas,
 * semicolons or tabs, and may be quoted (RFC 4180). Empty fields, NA and nan are missing. The file
 * is held in memory: small data. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#include "ir/base/input.h"
#include "runtime/data/array_format.h"

/* Classes may be words: a number for each. */
#define NUMBER_WORDS                                                                               \
    ": number its words by python3 -c \"import pandas as p; t = p.read_csv('IN', sep=None, "       \
    "engine='python'); [t.isetitem(i, p.factorize(t.iloc[:, i], sort=True)[0]) for i in "          \
    "range(t.shape[1]) if not p.api.types.is_numeric_dtype(t.iloc[:, i])]; t.to_csv('OUT.csv', "   \
    "index=False)\" (package pandas)"

enum { MOST_BYTES = 256 << 20, MOST_COLUMNS = 4096, MOST_SHOWN = 20 };

typedef struct {
    char *at;
    size_t n;
} field;

typedef struct {
    dlr_array_file *f;
    char *at, *end;
    char separator;
    int64_t line; /* of the record that was read last */
    DL_ARRAY(field) fields;
    dl_error *err;
} parser;

typedef struct {
    double *numbers;
    int64_t n, room;
} column;

static bool owns_csv(const dlr_array_head *h) {
    static const char *const ends[] = {".csv", ".tsv", ".tab"};
    const size_t n = h->folder ? 0 : strlen(h->path);
    for (int i = 0; i < 3; i++)
        if (n > 4 && strcasecmp(h->path + n - 4, ends[i]) == 0)
            return h->n > 0 && !memchr(h->bytes, 0, h->n);
    return false;
}

/* ---- records ---- */

/* Takes a field up to its separator or the line's end; quotes are removed in place. */
static bool take_field(parser *p) {
    while (p->at < p->end && *p->at == ' ') p->at++;
    field found = {.at = p->at};
    if (p->at < p->end && *p->at == '"') {
        for (found.at = ++p->at;; p->at++) {
            if (p->at == p->end)
                return dl_fail(p->err, DL_INPUT, "%s:%lld: a quote does not end", p->f->path,
                               (long long)p->line);
            if (*p->at == '"' && (p->at + 1 == p->end || p->at[1] != '"')) break;
            p->at += *p->at == '"';
            found.at[found.n++] = *p->at;
        }
        p->at++;
        while (p->at < p->end && *p->at == ' ') p->at++;
        if (p->at < p->end && *p->at != p->separator && *p->at != '\n' && *p->at != '\r')
            return dl_fail(p->err, DL_INPUT, "%s:%lld: text after a quote", p->f->path,
                           (long long)p->line);
    } else
        while (p->at < p->end && *p->at != p->separator && *p->at != '\n' && *p->at != '\r')
            p->at++, found.n++;
    while (found.n > 0 && found.at[found.n - 1] == ' ') found.n--;
    if (p->fields.n == MOST_COLUMNS)
        return dl_fail(p->err, DL_INPUT, "%s has more than %d columns", p->f->path, MOST_COLUMNS);
    dl_push(p->f->arena, &p->fields, found);
    return true;
}

/* Takes the next line that is not empty; no fields: there is none. */
static bool take_record(parser *p) {
    p->fields.n = 0;
    while (p->at < p->end && (*p->at == '\n' || *p->at == '\r')) p->line += *p->at++ == '\n';
    if (p->at == p->end) return true;
    for (;; p->at++) {
        if (!take_field(p)) return false;
        if (p->at == p->end || *p->at != p->separator) return true;
    }
}

/* The separator: a tab, or else a semicolon, of the first line; or else a comma. */
static char find_separator(const parser *p) {
    const char *end = memchr(p->at, '\n', (size_t)(p->end - p->at));
    const size_t n = (size_t)((end ? end : p->end) - p->at);
    return memchr(p->at, '\t', n) ? '\t' : memchr(p->at, ';', n) ? ';' : ',';
}

/* The fields of the line, by its separators: quotes may hide some. */
static int count_fields(const parser *p) {
    int n = 1;
    for (const char *at = p->at; at < p->end && *at != '\n'; at++) n += *at == p->separator;
    return n;
}

/* ---- columns ---- */

/* Whether a field is the word, in letters of either case. */
static bool is_word(const field *f, const char *word) {
    return f->n == strlen(word) && strncasecmp(f->at, word, f->n) == 0;
}

static bool is_missing(const field *f) {
    /* those of pandas.read_csv; "-nan" and the like are numbers */
    static const char *const words[] = {"",       "NA",      "N/A",     "NaN",     "null",
                                        "None",   "<NA>",    "#N/A",    "#NA",     "#N/A N/A",
                                        "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(f, words[i])) return true;
    return false;
}

/* The number of a field, or NaN where it is missing; true and false are 1 and 0. Where semicolons
 * separate fields, a comma may stand for the point. NULL, or why it is none. */
static const char *take_number(const parser *p, const field *f, double *out) {
    dlr_number n;
    char text[64];
    *out = NAN;
    if (is_missing(f)) return NULL;
    if (is_word(f, "true") || is_word(f, "false")) return *out = f->n == strlen("true"), NULL;
    const char *comma = p->separator == ';' ? memchr(f->at, ',', f->n) : NULL;
    const bool replace = comma && f->n < sizeof text && !memchr(f->at, '.', f->n);
    if (replace) memcpy(text, f->at, f->n), text[comma - f->at] = '.';
    if (!dlr_number_parse(replace ? text : f->at, f->n, &n)) return "text";
    *out = dlr_number_double(&n);
    const bool whole = n.kind == 'u' ? n.u <= 1ULL << 53 : n.kind == 'f' || llabs(n.i) <= 1LL << 53;
    return whole ? NULL : "a whole number beyond 2^53,";
}

/* Whether the first line names the columns: one of its fields is no number. */
static bool is_heading(const parser *p) {
    double ignored;
    for (int i = 0; i < p->fields.n; i++)
        if (take_number(p, &p->fields.at[i], &ignored)) return true;
    return false;
}

static void name_columns(parser *p, dlr_array_facts *a, bool named) {
    for (int i = 0; i < p->fields.n; i++) {
        const field *f = &p->fields.at[i];
        const char *name =
            named && f->n ? dl_strndup(p->f->arena, f->at, f->n) : dl_format(p->f->arena, "%d", i);
        for (int k = 0; k < i; k++)
            if (strcmp(a[k].name, name) == 0) name = dl_format(p->f->arena, "%s,%d", name, i);
        a[i] = (dlr_array_facts){.name = name, .stored = "decimal numbers", .type = DLR_EL_F64};
        a[i].rank = 1, a[i].packing = "none", a[i].axis[0] = "row";
    }
}

static void add_number(parser *p, column *c, double number) {
    if (c->n == c->room) {
        c->room = c->room ? 2 * c->room : 64;
        double *more = DL_NEWS(p->f->arena, double, c->room);
        if (c->n) memcpy(more, c->numbers, (size_t)c->n * sizeof *more);
        c->numbers = more;
    }
    c->numbers[c->n++] = number;
}

static bool take_row(parser *p, dlr_array_facts *a, column *c, int columns) {
    if (p->fields.n != columns)
        return dl_fail(p->err, DL_INPUT, "%s:%lld: %d fields, and the first line has %d",
                       p->f->path, (long long)p->line, p->fields.n, columns);
    for (int i = 0; i < columns; i++) {
        const field *f = &p->fields.at[i];
        double number;
        const char *why = take_number(p, f, &number);
        if (why && !a[i].refused)
            a[i].refused =
                dl_format(p->f->arena, "holds %s '%.*s' in line %lld%s", why,
                          f->n < MOST_SHOWN ? (int)f->n : MOST_SHOWN, f->at, (long long)p->line,
                          strcmp(why, "text") == 0 ? NUMBER_WORDS : "");
        add_number(p, &c[i], number);
    }
    return true;
}

/* Takes the first record. Lines before it that begin with # are comments, but for the last one
 * where it has as many fields: numpy.savetxt's heading. */
static bool take_heading(parser *p) {
    int64_t line = p->line;
    char *last = NULL;
    while (p->at < p->end && *p->at == '#') {
        last = p->at + 1, line = p->line;
        while (p->at < p->end && *p->at != '\n') p->at++;
        while (p->at < p->end && (*p->at == '\n' || *p->at == '\r')) p->line += *p->at++ == '\n';
    }
    p->separator = find_separator(p);
    char *next = p->at;
    const int64_t next_line = p->line;
    if (!last) return take_record(p);
    const int fields = count_fields(p);
    p->at = last, p->line = line;
    if (next == p->end || count_fields(p) == fields) return take_record(p);
    p->at = next, p->line = next_line;
    return take_record(p);
}

static bool list_csv(dlr_array_file *f, dl_error *err) {
    static const char mark[] = "\xef\xbb\xbf"; /* UTF-8's byte order mark */
    size_t n = 0;
    char *text = dl_read_input(f->arena, f->path, MOST_BYTES, &n, err);
    if (!text) return false;
    parser p = {.f = f, .at = text, .end = text + n, .line = 1, .err = err};
    if (n >= 3 && memcmp(text, mark, 3) == 0) p.at += 3;
    if (!take_heading(&p)) return false;
    const int columns = p.fields.n;
    dlr_array_facts *a = DL_NEWS(f->arena, dlr_array_facts, columns + 1);
    column *c = DL_NEWS(f->arena, column, columns + 1);
    bool named = is_heading(&p), ok = true;
    name_columns(&p, a, named);
    if (!named) ok = take_row(&p, a, c, columns);
    while (ok && (ok = take_record(&p)) && p.fields.n > 0) ok = take_row(&p, a, c, columns);
    for (int i = 0; i < columns; i++) {
        a[i].dims[0] = c[i].n;
        if (c[i].n == 0) a[i].refused = "is empty: the file has no rows";
    }
    f->arrays = a, f->n = columns, f->state = c;
    return ok;
}

/* ---- as a source ---- */

static bool load_column(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                        bool *absent, dl_error *err) {
    (void)index, (void)err;
    *absent = false;
    if (!s->on_paper) memcpy(out, how->state, (size_t)s->dims[0] * sizeof(double));
    return true;
}

static bool open_csv(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a, size_t cache,
                     dl_error *err) {
    const column *c = (const column *)f->state + (a - f->arrays);
    const size_t bytes = (size_t)c->n * sizeof(double);
    dlr_chunking how = {.load = load_column, .close = free, .state = malloc(bytes)};
    if (!how.state) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    memcpy(how.state, c->numbers, bytes);
    return dlr_whole_open(s, &how, cache, err);
}

const dlr_array_format dlr_csv_format = {
    .name = "CSV", .by_name = true, .owns = owns_csv, .list = list_csv, .open = open_csv};

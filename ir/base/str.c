#include "ir/base/str.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "ir/base/hash.h"

static void reserve(dl_buf *b, size_t more) {
    if (b->n + more + 1 <= b->cap) return;
    if (more > SIZE_MAX / 4) dl_no_memory(more);
    size_t cap = b->cap ? b->cap * 2 : 256;
    while (cap < b->n + more + 1) cap *= 2;
    b->at = dl_realloc(b->at, cap);
    b->cap = cap;
}

void dl_putn(dl_buf *b, const char *s, size_t n) {
    reserve(b, n);
    memcpy(b->at + b->n, s, n);
    b->at[b->n += n] = 0;
}

void dl_puts(dl_buf *b, const char *s) { dl_putn(b, s, strlen(s)); }

/* Once, as a rule: into room that most have enough of. */
void dl_vputf(dl_buf *b, const char *format, va_list ap) {
    enum { MOST = 120 };
    va_list again;
    va_copy(again, ap);
    reserve(b, MOST);
    int n = vsnprintf(b->at + b->n, MOST + 1, format, ap);
    DL_CHECK(n >= 0);
    if (n > MOST) {
        reserve(b, (size_t)n);
        vsnprintf(b->at + b->n, (size_t)n + 1, format, again);
    }
    va_end(again);
    b->n += (size_t)n;
}

void dl_putf(dl_buf *b, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    dl_vputf(b, format, ap);
    va_end(ap);
}

void dl_put_double(dl_buf *b, double v) {
    char s[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, v);
        if (strtod(s, NULL) == v || v != v) break;
    }
    dl_puts(b, s);
}

void dl_buf_free(dl_buf *b) {
    free(b->at);
    *b = (dl_buf){0};
}

/* Interned strings live in an open-addressing table that only grows. */
static struct {
    pthread_mutex_t lock;
    dl_arena *arena;
    const char **slot;
    size_t n, cap;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char **find(const char **slot, size_t cap, const char *s, size_t n) {
    size_t i = dl_hash(s, n, 0) & (cap - 1);
    while (slot[i] && (strncmp(slot[i], s, n) || slot[i][n])) i = (i + 1) & (cap - 1);
    return &slot[i];
}

const char *dl_intern_n(const char *s, size_t n) {
    dl_lock_guarded(&pool.lock);
    if (!pool.arena) pool.arena = dl_arena_new(NULL);
    if (2 * (pool.n + 1) > pool.cap) {
        size_t cap = pool.cap ? 2 * pool.cap : 1024;
        const char **slot = DL_NEWS(pool.arena, const char *, cap);
        for (size_t i = 0; i < pool.cap; i++)
            if (pool.slot[i]) *find(slot, cap, pool.slot[i], strlen(pool.slot[i])) = pool.slot[i];
        pool.slot = slot, pool.cap = cap;
    }
    const char **p = find(pool.slot, pool.cap, s, n);
    if (!*p) *p = dl_strndup(pool.arena, s, n), pool.n++;
    const char *r = *p;
    dl_unlock_guarded(&pool.lock);
    return r;
}

const char *dl_intern(const char *s) { return dl_intern_n(s, strlen(s)); }

const char *dl_internf(const char *format, ...) {
    dl_buf b = {0};
    va_list ap;
    va_start(ap, format);
    dl_vputf(&b, format, ap);
    va_end(ap);
    const char *name = dl_intern_n(b.at, b.n);
    dl_buf_free(&b);
    return name;
}

enum { NEAR_MAX = 64 };

static int distance(const char *a, const char *b) {
    int n = (int)strlen(a), m = (int)strlen(b), row[NEAR_MAX + 1];
    if (n > NEAR_MAX || m > NEAR_MAX) return NEAR_MAX;
    for (int j = 0; j <= m; j++) row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int keep = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            int best = keep;
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m];
}

static bool has_digit(const char *s) { return strpbrk(s, "0123456789") != NULL; }

/* Can `word` be a slip of `name`? People hit the first letter, swap it with the second, leave it
 * out or, of a long word, miss it alone; a letter more in front (prelu, relu) or a digit
 * (dropout2d) names another thing. */
static bool is_slip(const char *word, const char *name) {
    if (has_digit(word) != has_digit(name)) return false;
    bool swapped = word[0] && name[0] && word[0] == name[1] && word[1] == name[0];
    return tolower((unsigned char)*word) == tolower((unsigned char)*name) || swapped ||
           (*name && strcmp(word, name + 1) == 0) ||
           (strlen(word) >= 5 && *name && strcmp(word + 1, name + 1) == 0);
}

const char *dl_nearest(const char *word, const char *const *names, int n) {
    const char *best = NULL;
    size_t length = strlen(word);
    int limit = length <= 3 ? 1 : length < 12 ? 2 : 3;
    for (int i = 0; i < n; i++) {
        if (!is_slip(word, names[i])) continue;
        int d = distance(word, names[i]);
        if (d <= limit) best = names[i], limit = d - 1;
    }
    return best;
}

bool dl_is_file_name(const char *s) {
    if (!*s || strlen(s) > 255 || !strcmp(s, ".") || !strcmp(s, "..")) return false;
    for (; *s; s++)
        if (*s == '/' || (unsigned char)*s < ' ' || *s == 0x7F) return false;
    return true;
}

static bool begins_number(const char *text) { return *text && !isspace((unsigned char)*text); }

bool dl_ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

bool dl_parse_int(const char *text, int64_t *value) {
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (!begins_number(text) || end == text || *end || errno) return false;
    return *value = n, true;
}

bool dl_parse_real(const char *text, double *value) {
    char *end;
    errno = 0;
    double x = strtod(text, &end);
    if (!begins_number(text) || end == text || *end || errno) return false;
    return *value = x, true;
}

bool dl_parse_size(const char *text, int64_t *bytes) {
    static const char *const units[] = {"", "K", "M", "G", "T"};
    char *end;
    double n = strtod(text, &end);
    for (int i = 0; i < 5 && end != text; i++) {
        size_t k = strlen(units[i]);
        if (k && strncasecmp(end, units[i], k) != 0) continue;
        if (end[k] && strcasecmp(end + k, "B") != 0 && strcasecmp(end + k, "iB") != 0) continue;
        n *= (double)((int64_t)1 << 10 * i);
        if (!(n >= 1 && n < 0x1p62)) return false;
        return *bytes = (int64_t)n, true;
    }
    return false;
}

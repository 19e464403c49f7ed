/* The mutators, and the one file that targets write. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

void fuzz_fail(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

uint64_t fuzz_next(fuzz_random *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

size_t fuzz_below(fuzz_random *r, size_t n) { return n ? (size_t)(fuzz_next(r) % n) : 0; }

/* ---- text ---- */

typedef struct {
    size_t at, n;
} piece;

/* Replaces `old` by n bytes of `with`, which may lie in the text itself; nothing where there is no
 * room. */
static size_t replace(char *text, size_t length, size_t max, piece old, const char *with,
                      size_t n) {
    if (length - old.n + n > max) return length;
    char *copy = malloc(n + 1);
    if (!copy) return length;
    memcpy(copy, with, n);
    memmove(text + old.at + n, text + old.at + old.n, length - old.at - old.n);
    memcpy(text + old.at, copy, n);
    free(copy);
    return length - old.n + n;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

/* The token at or after a place: a word or number, or a single character that is no space. */
static piece token_at(const char *text, size_t n, size_t at) {
    while (at < n && isspace((unsigned char)text[at])) at++;
    size_t from = at;
    while (from > 0 && at < n && is_word(text[at]) && is_word(text[from - 1])) from--;
    size_t to = from;
    while (to < n && is_word(text[to])) to++;
    if (to == from && to < n) to++;
    return (piece){from, to - from};
}

static piece line_at(const char *text, size_t n, size_t at) {
    size_t from = at, to = at;
    while (from > 0 && text[from - 1] != '\n') from--;
    while (to < n && text[to] != '\n') to++;
    return (piece){from, to - from + (to < n)};
}

static const char *const numbers[] = {"0",
                                      "1",
                                      "-1",
                                      "2",
                                      "3",
                                      "7",
                                      "8",
                                      "16",
                                      "65",
                                      "1000003",
                                      "2147483647",
                                      "2147483648",
                                      "-2147483648",
                                      "4294967296",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "99999999999999999999",
                                      "0.5",
                                      "1e308",
                                      "1e-320",
                                      "inf",
                                      "nan",
                                      "[]",
                                      "[0]",
                                      "\"\""};

size_t fuzz_mutate_text(char *text, size_t n, size_t max, const char *const *words,
                        fuzz_random *r) {
    size_t n_words = 0;
    while (words && words[n_words]) n_words++;
    for (size_t times = 1 + fuzz_below(r, 4); times > 0; times--) {
        piece token = token_at(text, n, fuzz_below(r, n)),
              other = token_at(text, n, fuzz_below(r, n));
        piece line = line_at(text, n, fuzz_below(r, n)), line2 = line_at(text, n, fuzz_below(r, n));
        const char *word = n_words ? words[fuzz_below(r, n_words)] : "x";
        const char *number = numbers[fuzz_below(r, sizeof numbers / sizeof *numbers)];
        switch (fuzz_below(r, 14)) {
        case 0: n = replace(text, n, max, token, "", 0); break;
        case 1: n = replace(text, n, max, (piece){token.at, 0}, text + token.at, token.n); break;
        case 2:
        case 3: n = replace(text, n, max, token, text + other.at, other.n); break;
        case 4: n = replace(text, n, max, token, word, strlen(word)); break;
        case 5: n = replace(text, n, max, (piece){token.at, 0}, word, strlen(word)); break;
        case 6: n = replace(text, n, max, line, "", 0); break;
        case 7: n = replace(text, n, max, (piece){line2.at, 0}, text + line.at, line.n); break;
        case 8: n = replace(text, n, max, line, text + line2.at, line2.n); break;
        case 9: n = fuzz_below(r, 8) ? n : fuzz_below(r, n + 1); break;
        case 10:
            if (n) text[fuzz_below(r, n)] = (char)fuzz_next(r);
            break;
        default: { /* a number nearby */
            size_t at = token.at;
            while (at < n && !isdigit((unsigned char)text[at])) at++;
            size_t end = at;
            while (end < n && isdigit((unsigned char)text[end])) end++;
            n = replace(text, n, max, (piece){at, end - at}, number, strlen(number));
        }
        }
    }
    return n;
}

/* ---- bytes ---- */

size_t fuzz_mutate_bytes(uint8_t *data, size_t n, size_t max, fuzz_random *r) {
    static const int64_t edges[] = {0,         1,         -1,        2,         7,
                                    64,        255,       256,       INT32_MAX, INT32_MIN,
                                    INT64_MAX, INT64_MIN, 1LL << 32, 1 << 20,   0x7ff0LL << 48};
    for (size_t times = 1 + fuzz_below(r, 4); times > 0 && n > 0; times--) {
        size_t at = fuzz_below(r, n), width = (size_t)1 << fuzz_below(r, 4);
        if (fuzz_below(r, 2)) at &= ~(size_t)3;
        if (width > n - at) width = n - at;
        uint64_t value = 0;
        memcpy(&value, data + at, width);
        switch (fuzz_below(r, 8)) {
        case 0: value ^= 1u << fuzz_below(r, 8); break;
        case 1: value = (uint64_t)edges[fuzz_below(r, sizeof edges / sizeof *edges)]; break;
        case 2: value += 1 + fuzz_below(r, 64); break;
        case 3: value -= 1 + fuzz_below(r, 64); break;
        case 4: value = fuzz_next(r); break;
        case 5: memcpy(&value, data + fuzz_below(r, n - width + 1), width); break;
        case 6: /* a stretch is gone */
            width = 1 + fuzz_below(r, n - at < 64 ? n - at : 64);
            if (width > n - at) width = n - at;
            memmove(data + at, data + at + width, n - at - width);
            n -= width;
            continue;
        default: { /* a stretch stands twice */
            size_t more = 1 + fuzz_below(r, n - at < 64 ? n - at : 64);
            if (more > n - at) more = n - at;
            if (n + more > max) continue;
            memmove(data + at + more, data + at, n - at);
            n += more;
            continue;
        }
        }
        memcpy(data + at, &value, width);
    }
    return n;
}

/* ---- the file ---- */

static char path[64];

static void remove_file(void) { unlink(path); }

const char *fuzz_file(const void *data, size_t n) {
    static int fd = -1;
    if (fd < 0) {
        snprintf(path, sizeof path, "/tmp/dlc-fuzz-XXXXXX");
        fd = mkstemp(path);
        FUZZ_CHECK(fd >= 0);
        atexit(remove_file);
    }
    FUZZ_CHECK(ftruncate(fd, 0) == 0);
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(fd, (const char *)data + done, n - done, (off_t)done);
        FUZZ_CHECK(k > 0);
        done += (size_t)k;
    }
    return path;
}

/* Text: a growing buffer for printers, interned names, and the nearest name for "did you mean". */
#ifndef DL_STR_H
#define DL_STR_H
#include <stdarg.h>

#include "ir/base/arena.h"

/* A growing text buffer on the heap; always NUL-terminated once written to. Zero-initialise; free
 * with dl_buf_free. */
typedef struct {
    char *at;
    size_t n, cap;
} dl_buf;
void dl_puts(dl_buf *b, const char *s);
void dl_putn(dl_buf *b, const char *s, size_t n);
void dl_putf(dl_buf *b, const char *format, ...) DL_PRINTF(2, 3);
void dl_vputf(dl_buf *b, const char *format, va_list args) DL_PRINTF(2, 0);
/* The shortest decimal that reads back as the same double ("0.02", "1e-08"). */
void dl_put_double(dl_buf *b, double v);
void dl_buf_free(dl_buf *b);

/* One pointer for equal strings, for the life of the process: names compare with ==. Thread-safe.
 */
const char *dl_intern(const char *s);
const char *dl_intern_n(const char *s, size_t n);
const char *dl_internf(const char *format, ...) DL_PRINTF(1, 2);

/* The name of names[0..n-1] of which `word` is likely a misspelling, by edit distance; NULL when
 * there is none: a name that is merely alike may do another thing. */
const char *dl_nearest(const char *word, const char *const *names, int n);

/* Numbers as a user writes them: the whole text, without blanks. False: the text is something else,
 * or beyond the type. A real may be infinite or NaN where it is written so. */
bool dl_parse_int(const char *text, int64_t *value);
bool dl_parse_real(const char *text, double *value);

/* Whether the text ends so, and has more than the ending. */
bool dl_ends_with(const char *text, const char *end);

/* A size in bytes: "8GiB", "512MiB", "1.5G", "4096". False: none, below 1 or above 2^62. */
bool dl_parse_size(const char *text, int64_t *bytes);

/* Whether s can name a file in a folder: 1 to 255 bytes, no '/', no control character, not "." or
 * "..". */
bool dl_is_file_name(const char *s);
#endif

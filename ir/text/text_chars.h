/* The characters of the IR's text, as printer and parser share them (private to them). */
#ifndef DL_TEXT_CHARS_H
#define DL_TEXT_CHARS_H
#include <stdbool.h>

static inline bool dl_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static inline bool dl_is_digit(char c) { return c >= '0' && c <= '9'; }

/* Characters of a bare word (axis, op, attribute): C's, and a dot or a prime after the first. */
static inline bool dl_is_word(char c) {
    return dl_is_letter(c) || dl_is_digit(c) || c == '.' || c == '\'';
}

/* Characters of a bare name after %, $ or @, and of a bare file name in a location. */
static inline bool dl_is_name(char c) {
    return dl_is_letter(c) || dl_is_digit(c) || c == '.' || c == '/' || c == '-';
}
#endif

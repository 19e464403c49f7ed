/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef DLR_UTF8_H
#define DLR_UTF8_H
#include <stddef.h>

/* The bytes of the character that starts the n bytes at s (1 to 4), or 0 when it is not valid. */
int dlr_utf8_length(const char *s, size_t n);
/* Writes a valid code point (1 to 4 bytes, returned). */
int dlr_utf8_encode(unsigned code, char *out);
#endif

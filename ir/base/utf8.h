/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef DL_UTF8_H
#define DL_UTF8_H
#include <stdbool.h>
#include <stddef.h>

/* Length of the well-formed UTF-8 sequence at s (1 to 4; `left` bytes may be read), 0 when it is
 * malformed. */
static inline int dl_utf8_length(const char *s, size_t left) {
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80) return 1;
    int n = u[0] >= 0xC2 && u[0] <= 0xDF   ? 2
            : (u[0] & 0xF0) == 0xE0        ? 3
            : u[0] >= 0xF0 && u[0] <= 0xF4 ? 4
                                           : 0;
    if (n == 0 || (size_t)n > left) return 0;
    for (int i = 1; i < n; i++)
        if ((u[i] & 0xC0) != 0x80) return 0;
    bool overlong = (u[0] == 0xE0 && u[1] < 0xA0) || (u[0] == 0xF0 && u[1] < 0x90);
    bool surrogate = u[0] == 0xED && u[1] > 0x9F, beyond = u[0] == 0xF4 && u[1] > 0x8F;
    return overlong || surrogate || beyond ? 0 : n;
}
#endif

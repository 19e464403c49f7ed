#include "runtime/io/utf8.h"

int dlr_utf8_length(const char *s, size_t n) {
    const unsigned char *p = (const unsigned char *)s;
    if (n == 0) return 0;
    if (p[0] < 0x80) return 1;
    int length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
    if (length == 0 || p[0] > 0xf4 || n < (size_t)length) return 0;
    for (int i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    /* The second byte's range is narrower where the first would allow overlong forms or too large a code
     * point. */
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] > 0x9f) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0;
    return length;
}

int dlr_utf8_encode(unsigned code, char *out) {
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (code < 0x80) return out[0] = (char)code, 1;
    int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

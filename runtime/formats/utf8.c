#include "runtime/formats/utf8.h"

int dlr_utf8_encode(unsigned code, char *out) {
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (code < 0x80) return out[0] = (char)code, 1;
    int n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

#include <math.h>

#include "runtime/io/json.h"
#include "runtime/io/utf8.h"

void dlr_json_put_string(dl_buf *b, const char *s) {
    static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    dl_puts(b, "\"");
    for (size_t left = strlen(s); left > 0;) {
        const char *at = strchr(special, *s);
        int n = dlr_utf8_length(s, left);
        if (at) {
            dl_putf(b, "\\%c", letter[at - special]);
        } else if (n == 0) {
            dl_puts(b, "\xef\xbf\xbd"); /* U+FFFD for one bad byte */
            n = 1;
        } else if ((unsigned char)*s < 0x20) {
            dl_putf(b, "\\u%04x", (unsigned)*s);
        } else {
            dl_putn(b, s, (size_t)n);
        }
        s += n, left -= (size_t)n;
    }
    dl_puts(b, "\"");
}

void dlr_json_put_key(dl_buf *b, const char *key) {
    size_t n = b->n;
    while (n > 0 && (b->at[n - 1] == ' ' || b->at[n - 1] == '\n')) n--;
    if (n > 0 && b->at[n - 1] != '{' && b->at[n - 1] != ',') dl_puts(b, ", ");
    dlr_json_put_string(b, key);
    dl_puts(b, ": ");
}

void dlr_json_put_double(dl_buf *b, double v) {
    if (isfinite(v))
        dl_put_double(b, v);
    else
        dl_puts(b, "null");
}

void dlr_json_put_exact(dl_buf *b, double v) {
    if (isfinite(v))
        dl_put_double(b, v);
    else
        dl_puts(b, isnan(v) ? "\"nan\"" : v > 0 ? "\"inf\"" : "\"-inf\"");
}

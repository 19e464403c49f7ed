#include <math.h>

#include "ir/base/foreign.h"
#include "runtime/io/json.h"

void dlr_json_put_string(dl_buf *b, const char *s) {
    dl_puts(b, "\"");
    dl_put_foreign(b, DL_IN_JSON, s);
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

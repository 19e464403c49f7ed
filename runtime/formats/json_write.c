#include <math.h>

#include "ir/base/foreign.h"
#include "runtime/formats/json.h"

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

/* The recursion is bounded by the reader's limit of depth. */
void dlr_json_put(dl_buf *b, const dlr_json *v) {
    switch (v->kind) {
    case DLR_JSON_NULL: dl_puts(b, "null"); return;
    case DLR_JSON_BOOL: dl_puts(b, v->boolean ? "true" : "false"); return;
    case DLR_JSON_INT: dl_putf(b, "%lld", (long long)v->integer); return;
    case DLR_JSON_REAL: dlr_json_put_double(b, v->real); return;
    case DLR_JSON_STRING: dlr_json_put_string(b, v->string); return;
    case DLR_JSON_ARRAY:
        for (int i = 0; i < v->n; i++) dl_puts(b, i ? ", " : "["), dlr_json_put(b, &v->items[i]);
        dl_puts(b, v->n ? "]" : "[]");
        return;
    case DLR_JSON_OBJECT:
        dl_puts(b, "{");
        for (int i = 0; i < v->n; i++)
            dlr_json_put_key(b, v->members[i].key), dlr_json_put(b, &v->members[i].value);
        dl_puts(b, "}");
        return;
    }
}

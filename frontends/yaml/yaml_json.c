/* Prints values as JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "frontends/yaml/yaml_tree.h"

void dl_yaml_put_json_string(dl_buf *b, const char *text) {
    dl_puts(b, "\"");
    for (const char *s = text; *s; s++) {
        unsigned char ch = (unsigned char)*s;
        if (ch == '"' || ch == '\\')
            dl_putf(b, "\\%c", ch);
        else if (ch < 0x20 || ch == 0x7f)
            dl_putf(b, "\\u%04x", ch);
        else
            dl_putn(b, s, 1);
    }
    dl_puts(b, "\"");
}

static void put_number(dl_buf *b, double x) {
    /* the shortest that reads back as the same number */
    for (int digits = 6; digits <= 17; digits++) {
        char text[40];
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (digits < 17 && strtod(text, NULL) != x) continue;
        dl_puts(b, text);
        return;
    }
}

void dl_yaml_put_json(dl_buf *b, const dl_yaml *v) {
    switch (v->kind) {
    case DL_YAML_NULL: dl_puts(b, "null"); return;
    case DL_YAML_BOOL: dl_puts(b, v->truth ? "true" : "false"); return;
    case DL_YAML_INT: dl_putf(b, "%lld", (long long)v->integer); return;
    case DL_YAML_FLOAT: /* JSON has only finite numbers */
        if (isfinite(v->number))
            put_number(b, v->number);
        else
            dl_puts(b, "null");
        return;
    case DL_YAML_STRING: dl_yaml_put_json_string(b, v->text); return;
    case DL_YAML_LIST:
        dl_puts(b, "[");
        for (int i = 0; i < v->items.n; i++)
            dl_puts(b, i ? ", " : ""), dl_yaml_put_json(b, v->items.at[i]);
        dl_puts(b, "]");
        return;
    case DL_YAML_MAP:
        dl_puts(b, "{");
        for (int i = 0; i < v->entries.n; i++) {
            dl_puts(b, i ? ", " : "");
            dl_yaml_put_json_string(b, v->entries.at[i].key);
            dl_puts(b, ": ");
            dl_yaml_put_json(b, v->entries.at[i].value);
        }
        dl_puts(b, "}");
        return;
    }
}

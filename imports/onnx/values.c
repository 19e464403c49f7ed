/* Values by their names, attributes of nodes, and messages with their place. */
#include <stdio.h>

#include "imports/onnx/parts.h"
#include "ir/base/hash.h"

bool dl_ox_bad(const dl_ox *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    dl_foreign_bad(r->err, r->path, r->place, format, args);
    va_end(args);
    return false;
}

const char *dl_ox_text(const dl_ox *r, dlr_pb_view v) {
    return v.at ? dl_strndup(r->arena, (const char *)v.at, (size_t)(v.end - v.at)) : "";
}

dl_ox_value *dl_ox_find(dl_ox *r, const char *name) {
    dl_ox_value **at = &r->bucket[dl_hash_str(name, 0) % DL_OX_BUCKETS];
    for (; *at; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0) return *at;
    *at = DL_NEW(r->arena, dl_ox_value);
    **at = (dl_ox_value){.name = dl_strdup(r->arena, name), .by = -1};
    return *at;
}

/* ---- attributes ---- */

const dl_ox_attr *dl_ox_attribute(const dl_ox_node *n, const char *name) {
    for (int i = 0; i < n->n_attrs; i++)
        if (strcmp(n->attrs[i].name, name) == 0) return &n->attrs[i];
    return NULL;
}

int64_t dl_ox_int(const dl_ox_node *n, const char *name, int64_t standard) {
    const dl_ox_attr *a = dl_ox_attribute(n, name);
    return a && a->has_int ? a->whole : standard;
}

double dl_ox_real(const dl_ox_node *n, const char *name, double standard) {
    const dl_ox_attr *a = dl_ox_attribute(n, name);
    return a ? a->real : standard;
}

const char *dl_ox_word(const dl_ox_node *n, const char *name, const char *standard) {
    const dl_ox_attr *a = dl_ox_attribute(n, name);
    return a && a->text ? a->text : standard;
}

double dl_ox_shortest(float v) {
    char text[32];
    for (int digits = 1; digits < 10; digits++) {
        double shorter;
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (dl_parse_real(text, &shorter) && (float)shorter == v) return shorter;
    }
    return (double)v;
}

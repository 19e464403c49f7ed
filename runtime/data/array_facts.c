#include "runtime/data/array_facts.h"

const dlr_attribute *dlr_array_attribute(const dlr_array_facts *a, const char *name) {
    for (int i = 0; i < a->attribute_count; i++)
        if (strcmp(a->attributes[i].name, name) == 0) return &a->attributes[i];
    return NULL;
}

void dlr_array_put_shape(dl_buf *out, const dlr_array_facts *a) {
    dl_puts(out, "[");
    for (int i = 0; i < a->rank && i < DLR_ARRAY_RANK; i++)
        dl_putf(out, "%s%lld", i ? ", " : "", (long long)a->dims[i]);
    dl_putf(out, "%s] %s", a->rank > DLR_ARRAY_RANK ? ", ..." : "", a->stored);
}

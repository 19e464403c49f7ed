#include "runtime/data/array_facts.h"

#include <math.h>

#include "ir/base/status.h"

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

static dlr_attribute *add(dl_arena *arena, dlr_array_facts *a, const char *name) {
    if (!a->attributes) a->attributes = DL_NEWS(arena, dlr_attribute, DLR_ADDED);
    DL_CHECK(a->attribute_count < DLR_ADDED);
    dlr_attribute *new = (dlr_attribute *)(uintptr_t)&a->attributes[a->attribute_count++];
    *new = (dlr_attribute){.name = name, .number = NAN};
    return new;
}

void dlr_array_add_text(dl_arena *arena, dlr_array_facts *a, const char *name, const char *text) {
    add(arena, a, name)->text = text;
}

void dlr_array_add_number(dl_arena *arena, dlr_array_facts *a, const char *name, double number) {
    dlr_attribute *new = add(arena, a, name);
    dlr_number *exact = DL_NEW(arena, dlr_number);
    dl_buf text = {0};
    *exact = (dlr_number){.kind = 'f', .f = number};
    dl_put_double(&text, number);
    new->text = dl_strdup(arena, text.at), new->number = number, new->numbers = exact, new->n = 1;
    dl_buf_free(&text);
}

const char *dlr_array_stored(dl_arena *arena, dlr_element type, bool swapped) {
    return swapped ? dl_format(arena, "%s BE", dlr_element_name(type)) : dlr_element_name(type);
}

int64_t dlr_array_stored_bytes(const dlr_array_facts *a) {
    int64_t bytes = (int64_t)dlr_element_bytes(a->type);
    for (int i = 0; i < a->rank && i < DLR_ARRAY_RANK; i++)
        if (a->dims[i] < 0 || __builtin_mul_overflow(bytes, a->dims[i], &bytes)) return -1;
    return bytes;
}

void dlr_array_must_end(dl_arena *arena, dlr_array_facts *a, int64_t at, int64_t size) {
    const int64_t bytes = dlr_array_stored_bytes(a);
    if (a->refused || a->rank > DLR_ARRAY_RANK) return;
    if (bytes < 0 || at < 0 || at > size || bytes > size - at)
        a->refused = dl_format(arena,
                               "is not whole: it has %lld bytes from byte %lld on, and the file "
                               "has %lld",
                               (long long)bytes, (long long)at, (long long)size);
}

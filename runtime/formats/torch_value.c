/* Values of a PyTorch file's tree: names of kinds, entries and keys of dictionaries. */
#include "runtime/formats/torch_internal.h"

const char *dlr_torch_kind_name(dlr_torch_kind kind) {
    static const char *const names[] = {
        "None",   "a truth value", "a whole number",      "a number", "text", "a tensor", "a tuple",
        "a list", "a dictionary",  "a class or function", "a storage"};
    return names[kind];
}

const dlr_torch_value *dlr_torch_get(const dlr_torch_value *dict, const char *key) {
    if (!dict || dict->kind != DLR_TORCH_DICT) return NULL;
    for (int i = 0; i < dict->items->n; i += 2) {
        const dlr_torch_value *k = &dict->items->at[i];
        if (k->kind == DLR_TORCH_TEXT && strcmp(k->text, key) == 0) return k + 1;
    }
    return NULL;
}

int dlr_torch_compare_keys(const dlr_torch_value *a, const dlr_torch_value *b) {
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->kind == DLR_TORCH_TEXT) return strcmp(a->text, b->text);
    return (a->integer > b->integer) - (a->integer < b->integer);
}

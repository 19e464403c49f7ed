#include "passes/core/wide_cat.h"

enum { MOST_PARTS = 16 };

bool dl_cat_is_wide(int n) { return n > MOST_PARTS; }

/* The smallest number whose square is at least n; MOST_PARTS for more than can be joined in two
 * steps. */
static int group_size(int n) {
    int size = 1;
    while (size < MOST_PARTS && size * size < n) size++;
    return size;
}

static dl_value *join(dl_builder *b, int n, dl_value *const *parts, const char *axis) {
    if (n == 1) return parts[0];
    dl_attr along = dl_attr_name(DL_ATTR_axis, axis);
    return dl_build(b, DL_OP_cat, n, parts, 1, &along);
}

dl_value *dl_build_wide_cat(dl_builder *b, int n, dl_value *const *parts, const char *axis) {
    if (!dl_cat_is_wide(n)) return join(b, n, parts, axis);
    int size = group_size(n), groups = (n + size - 1) / size;
    dl_value **group = DL_NEWS(b->graph->module->arena, dl_value *, groups);
    for (int i = 0; i < groups; i++) {
        int first = i * size;
        group[i] = join(b, first + size < n ? size : n - first, parts + first, axis);
    }
    return dl_build_wide_cat(b, groups, group, axis);
}

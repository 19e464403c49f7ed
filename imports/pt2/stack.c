/* A node's module stack, and the user's line that calls it. */
#include <stdlib.h>

#include "imports/pt2/parts.h"

/* "blocks.0" of the entry "L__self__blocks.0,blocks.0,my.Block", and its class. */
static bool read_module(dl_pt2_reader *r, const char *entry, size_t n, dl_foreign_module *m) {
    const char *end = entry + n, *comma = memchr(entry, ',', n);
    const char *second = comma ? memchr(comma + 1, ',', (size_t)(end - comma - 1)) : NULL;
    if (!second) return dl_pt2_bad(r, "its module stack breaks off");
    char *path = dl_strndup(r->arena, comma + 1, (size_t)(second - comma - 1));
    const char *again = memchr(entry, '@', (size_t)(comma - entry)); /* of "L__self__fc@1" */
    m->call = again ? atoi(again + 1) : 0;
    m->path = dl_intern(path);
    m->class = dl_intern_n(second + 1, (size_t)(end - second - 1));
    return true;
}

bool dl_pt2_read_stack(dl_pt2_reader *r, const dlr_json *metadata, dl_foreign_node *n) {
    const dlr_json *stack = dlr_json_get(metadata, "nn_module_stack");
    const dlr_json *trace = dlr_json_get(metadata, "stack_trace");
    if (trace && trace->kind == DLR_JSON_STRING)
        dl_foreign_user_line(r->arena, trace->string, &n->function, &n->line);
    if (!stack || stack->kind != DLR_JSON_STRING || !*stack->string) return true;
    DL_ARRAY(dl_foreign_module) found = {0};
    for (const char *at = stack->string; *at;) {
        size_t length = strcspn(at, ";");
        dl_foreign_module m;
        if (!read_module(r, at, length, &m)) return false;
        if (*m.path && strncmp(m.path, "_empty", 6) != 0)
            dl_push(r->arena, &found, m);
        else if (!*m.path && !r->archive->graph.class)
            r->archive->graph.class = m.class;
        at += length + (at[length] == ';');
    }
    n->stack = found.at, n->depth = found.n;
    return true;
}

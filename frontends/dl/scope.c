/* Names: variables, local functions and the sizes bound to axis names. */
#include "frontends/dl/elab.h"

#include <strings.h>

dl_scope *dl_scope_new(dl_elab *E, dl_scope *parent) {
    dl_scope *s = DL_NEW(E->arena, dl_scope);
    s->parent = parent;
    return s;
}

static dl_binding *find_here(const dl_scope *s, const char *name) {
    for (int i = s->names.n - 1; i >= 0; i--)
        if (s->names.at[i].name == name) return &s->names.at[i];
    return NULL;
}

const dl_val *dl_scope_find(const dl_scope *s, const char *name) {
    for (; s; s = s->parent) {
        const dl_binding *b = find_here(s, name);
        if (b) return &b->value;
    }
    return NULL;
}

void dl_scope_set(dl_elab *E, const char *name, dl_val v) {
    dl_binding *b = find_here(E->scope, name);
    v.name = name;
    dl_tell(E, v.origin, v);
    if (b)
        b->value = v;
    else
        dl_push(E->arena, &E->scope->names, (dl_binding){name, v});
}

const dl_ast *dl_scope_function(const dl_scope *s, const char *name, dl_scope **home) {
    for (; s; s = s->parent)
        for (int i = s->functions.n - 1; i >= 0; i--)
            if (s->functions.at[i]->name == name) return *home = (dl_scope *)s, s->functions.at[i];
    return NULL;
}

void dl_scope_bind_size(dl_elab *E, const char *name, int64_t size, dl_span where) {
    for (int i = 0; i < E->scope->sizes.n; i++) {
        dl_size_binding *b = &E->scope->sizes.at[i];
        if (b->name != name) continue;
        if (b->size != size && !b->sizes_differ)
            b->sizes_differ = true, b->other = size, b->where_other = where;
        return;
    }
    dl_push(E->arena, &E->scope->sizes,
            (dl_size_binding){.name = name, .size = size, .where = where});
}

/* Sizes are not inherited by modules: a module binds those of its own argument. */
const dl_size_binding *dl_scope_size(const dl_scope *s, const char *name) {
    for (; s; s = s->parent)
        for (int i = 0; i < s->sizes.n; i++)
            if (s->sizes.at[i].name == name) return &s->sizes.at[i];
    return NULL;
}

bool dl_is_poisoned(const dl_elab *E, const char *name) {
    if (*name == '?') return true; /* a name that indent.c made for a syntax error */
    for (int i = 0; i < E->poisoned.n; i++)
        if (E->poisoned.at[i] == name) return true;
    return false;
}

/* Short words are similar to all others. With one or two letters only a difference in case counts,
 * and with three or four the first letter must match. */
const char *dl_suggest(const char *word, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (strcasecmp(word, names[i]) == 0) return names[i];
    if (strlen(word) < 3) return NULL;
    const char *near = dl_nearest(word, names, n);
    return near && strlen(word) < 5 && *near != *word ? NULL : near;
}

const char *dl_scope_nearest(dl_elab *E, const char *name) {
    DL_ARRAY(const char *) all = {0};
    for (const dl_scope *s = E->scope; s; s = s->parent) {
        for (int i = 0; i < s->names.n; i++) dl_push(E->arena, &all, s->names.at[i].name);
        for (int i = 0; i < s->sizes.n; i++) dl_push(E->arena, &all, s->sizes.at[i].name);
    }
    return dl_suggest(name, all.at, all.n);
}

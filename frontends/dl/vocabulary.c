#include "frontends/dl/vocabulary.h"

#include <ctype.h>

#include "frontends/dl/elab.h"

static const char *const words[] = {
#define KEYWORD(word, token) word,
#define OPENER(word, token)  word,
#include "frontends/dl/keywords.def"
#undef KEYWORD
#undef OPENER
};
enum {
#define KEYWORD(word, token) +1
#define OPENER(word, token)
    N_NEVER = 0
#include "frontends/dl/keywords.def"
#undef KEYWORD
#undef OPENER
};

const char *const *dl_keywords(int *n, int *never) {
    *n = (int)(sizeof words / sizeof *words), *never = N_NEVER;
    return words;
}

bool dl_is_name(const char *text) {
    if (!isalpha((unsigned char)*text) && *text != '_') return false;
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_') return false;
    for (int i = 0; i < N_NEVER; i++)
        if (strcmp(words[i], text) == 0) return false;
    return strlen(text) <= 255;
}

const char *dl_vocabulary_at(int i, bool *makes) {
    if (i >= dl_builtin_count()) return NULL;
    *makes = dl_builtin_at(i)->makes != NULL;
    return dl_builtin_at(i)->name;
}

const char *dl_vocabulary_usage(dl_arena *arena, const char *name) {
    const dl_builtin *f = dl_builtin_find(name);
    return f ? dl_builtin_usage(arena, f) : NULL;
}

const char *dl_vocabulary_argument(const char *name, int i, const char **otherwise) {
    const dl_builtin *f = dl_builtin_find(name);
    if (!f || i >= DL_MAX_PARAMS || !f->params[i].name) return NULL;
    *otherwise = f->params[i].otherwise;
    return f->params[i].name;
}

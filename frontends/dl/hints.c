#include "frontends/dl/hints.h"

#include <string.h>

static const struct {
    dl_hint_kind kind;
    const char *word, *help, *ours;
} hints[] = {
#define HINT(kind, word, help)  {DL_HINT_##kind, word, help, NULL},
#define ALIAS(kind, word, ours) {DL_HINT_##kind, word, NULL, ours},
#include "frontends/dl/hints.def"
};
enum { NHINTS = sizeof hints / sizeof *hints };

const char *dl_hint_find(dl_hint_kind kind, const char *word, size_t n) {
    for (int i = 0; i < NHINTS; i++)
        if (hints[i].kind == kind && hints[i].help && strncmp(hints[i].word, word, n) == 0 &&
            !hints[i].word[n])
            return hints[i].help;
    return NULL;
}

const char *dl_hint_alias(dl_hint_kind kind, const char *word) {
    for (int i = 0; i < NHINTS; i++)
        if (hints[i].kind == kind && hints[i].ours && strcmp(hints[i].word, word) == 0)
            return hints[i].ours;
    return NULL;
}

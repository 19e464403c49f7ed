#include "runtime/debug.h"

#include <stdlib.h>
#include <string.h>

bool dlr_debugs(const char *word) {
    const char *all = getenv("DLR_DEBUG");
    size_t n = strlen(word);
    for (const char *at = all; at && (at = strstr(at, word)); at += n)
        if ((at == all || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
    return false;
}

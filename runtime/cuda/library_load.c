/* Libraries that are called, found and loaded. */
#include <string.h>

#include "ir/base/search.h"
#include "runtime/cuda/library.h"

/* NULL, or why it will not do. */
static const char *try_load(dl_arena *arena, const dlr_library_source *from, const char *file,
                            const char **path, int64_t *version) {
    const char *why = dlr_functions_load(arena, file, from->n, from->functions, from->table, path);
    if (why) return why;
    *version = from->version(from->table);
    if (*version >= from->least) return NULL;
    return dl_format(arena, "%s: its version is %s, and %s is needed", file,
                     dl_library_version(arena, *version), dl_library_version(arena, from->least));
}

int64_t dlr_library_load(const dlr_library_source *from, const char **path, dl_error *err) {
    static dl_arena *kept[DL_NLIBRARIES]; /* with the libraries */
    dl_arena *arena = kept[from->library] = dl_arena_new(NULL);
    const char *override = dlr_libraries[from->library]->override, *rejected = "";
    dl_candidates c = dl_cuda_search(arena, from->files, override, NULL);
    for (int i = 0; i < c.n; i++) {
        int64_t version = 0;
        const char *why = try_load(arena, from, c.at[i].path, path, &version);
        if (!why) return version;
        if (strchr(c.at[i].path, '/')) rejected = dl_format(arena, "%s; %s", rejected, why);
    }
    dl_fail(err, DL_RESOURCE,
            "no %s (%s) found, looked at: %s%s; install it (pip install %s), or set %s to the library's path",
            dl_library_names[from->library], from->called, dl_cuda_places(arena, override, NULL), rejected,
            from->package, override);
    return 0;
}

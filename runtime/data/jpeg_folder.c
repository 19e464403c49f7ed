#include "runtime/data/jpeg_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "ir/base/file_calls.h"

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool dlr_folder_list(dl_arena *arena, const char *key, const char *folder, bool folders,
                     dlr_names *out, dl_error *err) {
    DIR *at = dl_opendir(folder);
    if (!at) return dl_fail_errno(err, DL_IO, "%s: cannot read the folder %s", key, folder);
    const struct dirent *e;
    while (errno = 0, (e = dl_readdir(at))) {
        struct stat st;
        bool is_folder = e->d_type == DT_DIR;
        if (e->d_name[0] == '.') continue;
        if (e->d_type == DT_LNK || e->d_type == DT_UNKNOWN)
            is_folder = dl_fstatat(dirfd(at), e->d_name, &st) == 0 && S_ISDIR(st.st_mode);
        if (is_folder == folders) dl_push(arena, out, dl_strdup(arena, e->d_name));
    }
    bool ok = errno == 0 ||
              dl_fail_errno(err, DL_IO, "%s: cannot read all of the folder %s", key, folder);
    closedir(at);
    if (ok && out->n) qsort(out->at, (size_t)out->n, sizeof *out->at, by_name);
    return ok;
}

static bool ends_with(const char *name, const char *const *endings) {
    const char *dot = strrchr(name, '.');
    for (; dot && *endings; endings++)
        if (strcasecmp(dot, *endings) == 0) return true;
    return false;
}

bool dlr_folder_jpegs(dl_arena *arena, const char *key, const char *folder, dlr_names *out,
                      dl_error *err) {
    static const char *const jpeg[] = {".jpg", ".jpeg", ".jpe", ".jfif", NULL};
    static const char *const others[] = {".png",  ".bmp", ".gif",  ".tif",
                                         ".tiff", ".ppm", ".webp", NULL};
    dlr_names all = {0};
    if (!dlr_folder_list(arena, key, folder, false, &all, err)) return false;
    for (int i = 0; i < all.n; i++) {
        if (ends_with(all.at[i], others))
            return dl_fail(err, DL_INPUT, "%s: %s/%s: only JPEG pictures are read", key, folder,
                           all.at[i]);
        if (ends_with(all.at[i], jpeg)) dl_push(arena, out, all.at[i]);
    }
    return true;
}

bool dlr_names_have(const dlr_names *names, const char *name) {
    return names->n &&
           bsearch(&name, names->at, (size_t)names->n, sizeof *names->at, by_name) != NULL;
}

/* Follows links of HDF5 files. Only for child processes (hdf5_contents.h). */
#include <hdf5.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "ir/base/file_calls.h"
#include "runtime/data/hdf5_contents.h"

enum { MOST_LINKS = 16, REST = 1024 };

typedef struct {
    const char *main;
    dlr_hdf5_place *at;
    char rest[REST]; /* of the path, which is still to be walked */
    int links;       /* that were followed */
    char seen[MOST_LINKS][2 * DLR_HDF5_FILE];
    char *why;
    size_t room;
} walk;

#define FAIL(w, ...) dlr_hdf5_say((w)->why, (w)->room, __VA_ARGS__)

bool dlr_hdf5_say(char *why, size_t room, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(why, room, format, args);
    va_end(args);
    return false;
}

bool dlr_hdf5_near(const char *from, const char *named, char in[DLR_HDF5_FILE], char *why,
                   size_t room) {
    const char *slash = strrchr(from, '/');
    const int folder = slash ? (int)(slash - from) + 1 : 0;
    bool leaves = named[0] == '/' || named[0] == 0;
    for (const char *part = named; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        leaves |= strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == 0);
    if (leaves)
        return dlr_hdf5_say(
            why, room,
            "lies out of the folder of the file and is not followed: give that file "
            "itself, or put it next to this one and name it without a folder");
    if (snprintf(in, DLR_HDF5_FILE, "%.*s%s", folder, from, named) >= DLR_HDF5_FILE)
        return dlr_hdf5_say(why, room, "has a longer name than is read");
    return true;
}

bool dlr_hdf5_place_open(const char *main, const char *in, dlr_hdf5_place *out, char *why,
                         size_t room) {
    const char *slash = strrchr(main, '/');
    char path[4096];
    struct stat st;
    int n = in[0] == 0 ? snprintf(path, sizeof path, "%s", main)
                       : snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - main) + 1 : 0,
                                  main, in);
    *out = (dlr_hdf5_place){.file = -1};
    if (n < 0 || n >= (int)sizeof path || dl_stat(path, &st) != 0)
        return dlr_hdf5_say(why, room, "is not there");
    if (!S_ISREG(st.st_mode)) return dlr_hdf5_say(why, room, "is no file");
    snprintf(out->in, sizeof out->in, "%s", in);
    out->file = dlr_hdf5_open(path);
    return out->file >= 0 || dlr_hdf5_say(why, room, "is no HDF5 file, or damaged");
}

/* Puts the path that a link names before the rest of it. */
static bool put_before_rest(walk *w, const char *path) {
    char more[REST];
    const bool joined = w->rest[0] == 0 || w->rest[0] == '/';
    int n = snprintf(more, sizeof more, "%s%s%s", path, joined ? "" : "/", w->rest);
    if (n < 0 || n >= REST) return FAIL(w, "leads along a path of more than %d letters", REST - 1);
    memcpy(w->rest, more, (size_t)n + 1);
    return true;
}

/* Counts a link; false where the same link is met with the same rest of the path. */
static bool count_link(walk *w, const char *link) {
    if (w->links == MOST_LINKS) return FAIL(w, "leads through more than %d links", MOST_LINKS);
    char *now = w->seen[w->links];
    snprintf(now, sizeof w->seen[0], "%s:%s:%.200s", w->at->in, link, w->rest);
    for (int i = 0; i < w->links; i++)
        if (strcmp(w->seen[i], now) == 0) return FAIL(w, "is a link that leads back to itself");
    w->links++;
    return true;
}

static bool follow_soft(walk *w, const char *target) {
    if (target[0] == '/') w->at->path[0] = 0;
    return put_before_rest(w, target);
}

static bool follow_external(walk *w, const char *value, size_t n) {
    const char *file = NULL, *path = NULL;
    char in[DLR_HDF5_FILE], why[200] = "";
    dlr_hdf5_place next = {.file = -1};
    if (H5Lunpack_elink_val(value, n, NULL, &file, &path) < 0)
        return FAIL(w, "is a damaged link to another file");
    if (!dlr_hdf5_near(w->at->in, file, in, why, sizeof why) ||
        !dlr_hdf5_place_open(w->main, in, &next, why, sizeof why))
        return FAIL(w, "is a link to the file '%.120s', which %s", file, why);
    H5Fclose(w->at->file);
    *w->at = next;
    return put_before_rest(w, path);
}

/* Follows the link of that path, which is no hard one. */
static bool follow_link(walk *w, const char *link, const H5L_info_t *info) {
    enum { MOST_VALUE = 1024 };
    char value[MOST_VALUE + 1] = {0};
    if (info->type != H5L_TYPE_SOFT && info->type != H5L_TYPE_EXTERNAL)
        return FAIL(w, "is a link of a kind that is not known");
    if (info->u.val_size > MOST_VALUE ||
        H5Lget_val(w->at->file, link, value, MOST_VALUE, H5P_DEFAULT) < 0)
        return FAIL(w, "is a link that cannot be read");
    if (!count_link(w, link)) return false;
    return info->type == H5L_TYPE_SOFT ? follow_soft(w, value)
                                       : follow_external(w, value, info->u.val_size);
}

/* Takes the next name of the rest into `path`, which is at->path with it; false: there is none. */
static bool take_name(walk *w, char path[DLR_HDF5_NAME], bool *fits) {
    char *name = w->rest + strspn(w->rest, "/");
    const size_t n = strcspn(name, "/");
    const bool here = n == 1 && name[0] == '.';
    const int all = snprintf(path, DLR_HDF5_NAME, "%s%s%.*s", w->at->path,
                             here || w->at->path[0] == 0 ? "" : "/", here ? 0 : (int)n, name);
    *fits = all < DLR_HDF5_NAME;
    memmove(w->rest, name + n, strlen(name + n) + 1);
    return n > 0;
}

bool dlr_hdf5_follow(const char *main, dlr_hdf5_place *at, const char *path, char *why,
                     size_t room) {
    walk *w = calloc(1, sizeof *w);
    char next[DLR_HDF5_NAME];
    bool ok = w && strlen(path) < REST, fits = true;
    if (!ok) snprintf(why, room, "cannot be followed");
    if (ok) {
        w->main = main, w->at = at, w->why = why, w->room = room;
        snprintf(w->rest, sizeof w->rest, "%s", path);
    }
    while (ok && take_name(w, next, &fits)) {
        H5L_info_t info;
        if (!fits)
            ok = FAIL(w, "leads to a path of more than %d letters", DLR_HDF5_NAME - 1);
        else if (H5Lget_info(at->file, next, &info, H5P_DEFAULT) < 0)
            ok = FAIL(w, "is a link to '%s%s%s', which is not there", at->in, at->in[0] ? ":" : "",
                      next);
        else if (info.type == H5L_TYPE_HARD)
            memcpy(at->path, next, sizeof next);
        else
            ok = follow_link(w, next, &info);
    }
    free(w);
    return ok;
}

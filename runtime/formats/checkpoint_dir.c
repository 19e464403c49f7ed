/* Names in a directory of checkpoints. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/formats/checkpoint_internal.h"

/* Parses step-DIGITS followed by `suffix`: the step, or -1. */
static int64_t step_with(const char *name, const char *suffix) {
    if (strncmp(name, "step-", 5) != 0) return -1;
    const char *number = name + 5;
    size_t n = strspn(number, "0123456789");
    if (n < 8 || n > 18 || strcmp(number + n, suffix) != 0) return -1;
    return strtoll(number, NULL, 10);
}

int64_t dlr_checkpoint_step(const char *name, bool *aside) {
    int64_t step = step_with(name, "");
    if (!aside) return step;
    *aside = step < 0;
    return *aside ? step_with(name, ".old") : step;
}

/* By descending step; of one step, the current one before the one that was moved aside. */
static int newest_first(const void *a, const void *b) {
    const dlr_checkpoint_entry *x = a, *y = b;
    if (x->step != y->step) return x->step > y->step ? -1 : 1;
    return x->aside - y->aside;
}

bool dlr_checkpoint_scan(dl_arena *arena, const char *dir, dlr_checkpoint_list *list,
                         dlr_checkpoint_list *dead) {
    DIR *d = opendir(dir);
    if (!d) return false;
    const struct dirent *e;
    for (errno = 0; (e = readdir(d)); errno = 0) {
        dlr_checkpoint_entry entry = {.name = dl_strdup(arena, e->d_name)};
        entry.step = dlr_checkpoint_step(entry.name, &entry.aside);
        if (entry.step >= 0) dl_push(arena, list, entry);
        if (dead && step_with(entry.name, ".tmp") >= 0) dl_push(arena, dead, entry);
    }
    int why = errno;
    closedir(d);
    errno = why;
    if (list->n > 1) qsort(list->at, (size_t)list->n, sizeof *list->at, newest_first);
    return why == 0;
}

const char *dlr_checkpoint_target(dl_arena *arena, const char *dir, const char *which) {
    char target[PATH_MAX];
    if (dlr_checkpoint_step(which, NULL) >= 0) return which;
    ssize_t n = readlink(dl_format(arena, "%s/%s", dir, which), target, sizeof target - 1);
    if (n < 0) return NULL;
    target[n] = 0;
    /* our links are plain names; links to other places are not followed */
    return dlr_checkpoint_step(target, NULL) >= 0 ? dl_strdup(arena, target) : NULL;
}

bool dlr_checkpoint_any(const char *dir) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_checkpoint_list list = {0};
    bool any = dlr_checkpoint_scan(arena, dir, &list, NULL) && list.n > 0;
    any = any || dlr_checkpoint_target(arena, dir, "last");
    dl_arena_free(arena);
    return any;
}

/* The run whose checkpoints are in `dir`, by the folder's name; NULL: it has another name. */
static const char *run_of(dl_arena *arena, const char *dir) {
    static const char name[] = "/checkpoints";
    size_t n = strlen(dir), tail = sizeof name - 1;
    return n > tail && strcmp(dir + n - tail, name) == 0 ? dl_strndup(arena, dir, n - tail) : NULL;
}

bool dlr_checkpoint_find(dl_arena *arena, const char *path, dlr_checkpoint_place *place,
                         dl_error *err) {
    char whole[PATH_MAX];
    struct stat st;
    if (!realpath(path, whole)) return dl_fail_errno(err, DL_IO, "cannot open %s", path);
    const char *below = dl_format(arena, "%s/checkpoints", whole);
    if (access(dl_format(arena, "%s/state.json", whole), F_OK) == 0) {
        const char *name = strrchr(whole, '/');
        *place =
            (dlr_checkpoint_place){dl_strdup(arena, whole), NULL,
                                   run_of(arena, dl_strndup(arena, whole, (size_t)(name - whole)))};
    } else if (stat(below, &st) == 0 && S_ISDIR(st.st_mode)) {
        *place = (dlr_checkpoint_place){below, "last", dl_strdup(arena, whole)};
    } else if (dlr_checkpoint_any(whole)) {
        const char *dir = dl_strdup(arena, whole);
        *place = (dlr_checkpoint_place){dir, "last", run_of(arena, dir)};
    } else {
        return dl_fail(
            err, DL_INPUT,
            "%s has nothing to go on from: it is neither a run's directory, nor its folder "
            "checkpoints, nor a checkpoint in that",
            path);
    }
    return true;
}

#include "runtime/formats/weights.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "ir/base/input.h"
#include "ir/base/str.h"
#include "runtime/formats/checkpoint.h"
#include "runtime/formats/json.h"

struct dlr_weights_private {
    dl_arena *arena;
    dlr_st_file *file;          /* or the joined file of the checkpoint */
    dlr_checkpoint *checkpoint; /* NULL: none */
};

enum { MOST_INDEX = 100 * 1000 * 1000 /* bytes */, MOST_VALUES = 16 << 20 };

static bool is_index(const char *path) {
    static const char end[] = ".index.json";
    size_t n = strlen(path), tail = sizeof end - 1;
    return n > tail && strcmp(path + n - tail, end) == 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files that an index names, in its own folder, each once. */
static const char **list_files(dl_arena *arena, const char *path, int *n, dl_error *err) {
    size_t length;
    char *text = dl_read_file(arena, path, MOST_INDEX, &length, err);
    const dlr_json *root =
        text ? dlr_json_parse(arena, text, length, (dlr_json_limits){8, MOST_VALUES}, path, err)
             : NULL;
    const dlr_json *map = dlr_json_get(root, "weight_map");
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    if (!root) return NULL;
    if (!map || map->kind != DLR_JSON_OBJECT || map->n == 0)
        return dl_fail(err, DL_INPUT, "%s: no index of files: 'weight_map' is missing", path), NULL;
    const char **files = DL_NEWS(arena, const char *, map->n);
    for (int i = 0; i < map->n; i++) {
        const dlr_json *file = &map->members[i].value;
        if (file->kind != DLR_JSON_STRING || !dl_is_file_name(file->string))
            return dl_fail(err, DL_INPUT, "%s: '%.200s' has no file's name", path,
                           map->members[i].key),
                   NULL;
        files[i] = file->string;
    }
    qsort(files, (size_t)map->n, sizeof *files, by_text);
    *n = 0;
    for (int i = 0; i < map->n; i++)
        if (i == 0 || strcmp(files[i], files[i - 1]) != 0) files[(*n)++] = files[i];
    for (int i = 0; i < *n; i++) files[i] = dl_format(arena, "%.*s%s", folder, path, files[i]);
    return files;
}

static bool open_index(struct dlr_weights_private *p, const char *path, dl_error *err) {
    int n;
    const char **files = list_files(p->arena, path, &n, err);
    p->file = files ? dlr_st_open_joined(files, n, path, DLR_ST_STRIP | DLR_ST_INPUT, err) : NULL;
    return p->file != NULL;
}

static bool open_checkpoint(dlr_weights *w, const char *path, dl_error *err) {
    dlr_checkpoint_place place;
    dl_error none = {0};
    if (!dlr_checkpoint_find(w->private->arena, path, &place, &none))
        return none.code == DL_INPUT ? dl_fail(err, DL_INPUT,
                                               "%s is a directory, and no checkpoint: name a file "
                                               "of weights, their index, or a "
                                               "checkpoint's directory",
                                               path)
                                     : dl_fail(err, none.code, "%s", none.message);
    if (place.which)
        return dl_fail(
            err, DL_INPUT,
            "%s is a folder of checkpoints: name one of them, as %s/%s, or a file of weights", path,
            place.dir, place.which);
    if (dlr_checkpoint_open(place.dir, NULL, NULL, &w->private->checkpoint, err) !=
        DLR_CHECKPOINT_LOADED)
        return false;
    w->file = dlr_checkpoint_part_file(w->private->checkpoint, "model", err);
    return w->file != NULL;
}

bool dlr_weights_open(const char *path, dlr_weights *w, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    struct stat st;
    bool ok;
    *w = (dlr_weights){.private = DL_NEW(arena, struct dlr_weights_private)};
    w->private->arena = arena;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        ok = open_checkpoint(w, path, err);
    } else {
        ok = is_index(path)
                 ? open_index(w->private, path, err)
                 : (w->private->file = dlr_st_open(path, DLR_ST_STRIP | DLR_ST_INPUT, err)) != NULL;
        w->file = w->private->file;
    }
    if (!ok) dlr_weights_close(w);
    return ok;
}

void dlr_weights_close(dlr_weights *w) {
    if (!w->private) return;
    dlr_st_close(w->private->file);
    dlr_checkpoint_close(w->private->checkpoint);
    dl_arena_free(w->private->arena);
    *w = (dlr_weights){0};
}

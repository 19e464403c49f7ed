/* A folder of pictures, FOLDER/train/CLASS/NAME.jpg and FOLDER/val/CLASS/NAME.jpg, as samples. */
#include <string.h>
#include <unistd.h>

#include "runtime/data/jpeg_folder.h"
#include "runtime/scaffold/scaffold_data.h"

enum { SIDE = 64 /* pictures are resized to the model's size */ };

static const char *inside(dl_arena *arena, const char *dir, const char *name) {
    const char *path = dl_format(arena, "%s/%s", dir, name);
    return access(dl_format(arena, "%s/.", path), R_OK) == 0 ? path : NULL;
}

bool dl_scaffold_is_pictures(dl_arena *arena, const char *path) {
    return inside(arena, path, "train") != NULL;
}

/* The pictures in a folder's folders; -1: an error. */
static int64_t count_pictures(dl_arena *arena, const char *folder, const dlr_names *classes,
                              dl_error *err) {
    int64_t n = 0;
    for (int i = 0; i < classes->n; i++) {
        dlr_names files = {0};
        const char *class = dl_format(arena, "%s/%s", folder, classes->at[i]);
        if (!dlr_folder_jpegs(arena, "--data", class, &files, err)) return -1;
        n += files.n;
    }
    return n;
}

bool dl_scaffold_find_pictures(dl_arena *arena, const char *path, const char *task,
                               dl_scaffold_data *d, dl_error *err) {
    static const char *const valid[] = {"val", "valid", "validation", "test"};
    dlr_names classes = {0};
    *d = (dl_scaffold_data){.task = DL_TASK_CLASSIFICATION,
                            .path = dl_strdup(arena, path),
                            .input = {.spatial = 2, .size = {SIDE, SIDE}, .channels = 3},
                            .train_dir = inside(arena, path, "train")};
    for (size_t i = 0; i < sizeof valid / sizeof *valid && !d->valid_dir; i++)
        d->valid_dir = inside(arena, path, valid[i]);
    if (task && strcmp(task, dl_task_names[DL_TASK_CLASSIFICATION]) != 0)
        return dl_fail(err, DL_USAGE, "%s has pictures, which are for --task=classification", path);
    if (!d->valid_dir)
        return dl_fail(err, DL_INPUT,
                       "%s has a folder train, and none to validate on: val, valid, validation or "
                       "test, with a folder for each class",
                       path);
    if (!dlr_folder_list(arena, "--data", d->train_dir, true, &classes, err)) return false;
    if (classes.n < 2)
        return dl_fail(err, DL_INPUT, "%s holds %d folders: pictures have one for each class",
                       d->train_dir, classes.n);
    d->classes = classes.n;
    d->samples = count_pictures(arena, d->train_dir, &classes, err);
    if (d->samples) return d->samples > 0;
    return dl_fail(err, DL_INPUT, "the folders of %s have no file .jpg or .jpeg", d->train_dir);
}

#include "runtime/data/picture_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ir/base/arena.h"
#include "ir/base/file_calls.h"
#include "ir/base/str.h"
#include "runtime/data/cifar.h"
#include "runtime/data/jpeg.h"
#include "runtime/data/jpeg_folder.h"

struct dlr_picture_files {
    dl_arena *arena;
    const char *path;
    int64_t height, width;
    dlr_scaling scaling;
    dlr_names files;        /* paths of JPEG files; or: */
    unsigned char *records; /* CIFAR-10's */
    int64_t n_records;
};

enum { DEPTH = 32 /* of folders: a link may lead back */ };

static bool list_folder(dlr_picture_files *f, const char *folder, int depth, dl_error *err) {
    dlr_names files = {0}, folders = {0};
    if (depth == DEPTH)
        return dl_fail(err, DL_INPUT, "%s: %s: more than %d folders within each other", f->path,
                       folder, DEPTH);
    if (!dlr_folder_jpegs(f->arena, f->path, folder, &files, err) ||
        !dlr_folder_list(f->arena, f->path, folder, true, &folders, err))
        return false;
    for (int i = 0; i < files.n; i++)
        dl_push(f->arena, &f->files, dl_format(f->arena, "%s/%s", folder, files.at[i]));
    for (int i = 0; i < folders.n; i++)
        if (!list_folder(f, dl_format(f->arena, "%s/%s", folder, folders.at[i]), depth + 1, err))
            return false;
    return true;
}

static bool open_records(dlr_picture_files *f, dl_error *err) {
    if (f->height != DLR_CIFAR_SIDE || f->width != DLR_CIFAR_SIDE)
        return dl_fail(err, DL_INPUT,
                       "%s: pictures of CIFAR-10 are 32 x 32, and the model takes %lld x %lld",
                       f->path, (long long)f->height, (long long)f->width);
    f->records = dlr_cifar_read(f->path, &f->n_records, err);
    return f->records != NULL;
}

static bool open_path(dlr_picture_files *f, dl_error *err) {
    struct stat st;
    const char *dot = strrchr(f->path, '.');
    if (dl_stat(f->path, &st) < 0) return dl_fail_errno(err, DL_IO, "%s: cannot be read", f->path);
    if (!S_ISDIR(st.st_mode) && dot && strcmp(dot, ".bin") == 0) return open_records(f, err);
    if (!S_ISDIR(st.st_mode)) {
        dl_push(f->arena, &f->files, f->path);
        return dlr_jpeg_check(f->path, err);
    }
    if (!list_folder(f, f->path, 0, err)) return false;
    return f->files.n > 0 ||
           dl_fail(err, DL_INPUT, "%s: neither it nor a folder in it has a file .jpg or .jpeg",
                   f->path);
}

dlr_picture_files *dlr_picture_files_open(const char *path, int64_t height, int64_t width,
                                          dlr_scaling scaling, dl_error *err) {
    dlr_picture_files *f = calloc(1, sizeof *f);
    if (!f) {
        dl_fail(err, DL_RESOURCE, "no memory for the names of pictures");
        return NULL;
    }
    *f = (dlr_picture_files){
        .arena = dl_arena_new(NULL), .height = height, .width = width, .scaling = scaling};
    f->path = dl_strdup(f->arena, path);
    if (open_path(f, err)) return f;
    dlr_picture_files_close(f);
    return NULL;
}

void dlr_picture_files_close(dlr_picture_files *f) {
    if (!f) return;
    dl_arena_free(f->arena);
    free(f->records), free(f);
}

int64_t dlr_picture_files_count(const dlr_picture_files *f) {
    return f->records ? f->n_records : f->files.n;
}

const char *dlr_picture_files_name(const dlr_picture_files *f, int64_t i) {
    return f->records ? f->path : f->files.at[i];
}

bool dlr_picture_files_class(const dlr_picture_files *f, int64_t i, const dlr_names *classes,
                             int64_t *class, dl_error *err) {
    if (f->records) return *class = f->records[i * DLR_CIFAR_RECORD], true;
    const char *path = f->files.at[i], *slash = strrchr(path, '/');
    const char *folder = slash ? slash : path;
    while (folder > path && folder[-1] != '/') folder--;
    size_t n = slash ? (size_t)(slash - folder) : 0;
    for (int k = 0; k < classes->n; k++)
        if (strlen(classes->at[k]) == n && strncmp(classes->at[k], folder, n) == 0)
            return *class = k, true;
    return dl_fail(err, DL_INPUT,
                   "%s lies in no folder of one of the run's %d classes, %.80s to %.80s", path,
                   classes->n, classes->at[0], classes->at[classes->n - 1]);
}

static bool read_planes(const dlr_picture_files *f, int64_t i, float *planes, dl_error *err) {
    if (f->records) {
        const unsigned char *from = f->records + i * DLR_CIFAR_RECORD + 1;
        for (int k = 0; k < DLR_CIFAR_PLANES; k++) planes[k] = from[k];
        return true;
    }
    dlr_jpeg picture;
    if (!dlr_jpeg_read(f->files.at[i], f->height, f->width, &picture, err)) return false;
    bool ok = dlr_jpeg_resize(&picture, f->height, f->width, planes, err);
    free(picture.rgb);
    return ok;
}

bool dlr_picture_files_read(const dlr_picture_files *f, int64_t i, float *out, dl_error *err) {
    static const dlr_move none = {.zoom = {1, 1}};
    size_t planes = (size_t)(3 * f->height * f->width) * sizeof(float);
    char *room = malloc(planes + dlr_picture_scratch(f->height, f->width));
    if (!room) return dl_fail(err, DL_RESOURCE, "no memory for a picture");
    bool ok = read_planes(f, i, (float *)room, err);
    if (ok)
        dlr_picture_write((float *)room, f->height, f->width, &none, f->scaling, out,
                          room + planes);
    free(room);
    return ok;
}

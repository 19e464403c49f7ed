#include "runtime/data/cifar.h"

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "ir/base/str.h"
#include "runtime/data/loader.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIDE = DLR_CIFAR_SIDE, RECORD = DLR_CIFAR_RECORD, CLASSES = 10 };

typedef struct {
    dlr_pictures pictures;
    unsigned char *records;
} cifar;

/* ---- files ---- */

static int is_training(const struct dirent *e) {
    return fnmatch("data_batch_*.bin", e->d_name, FNM_PERIOD) == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool check_labels(const char *path, const unsigned char *at, int64_t n, dl_error *err) {
    for (int64_t i = 0; i < n; i++)
        if (at[i * RECORD] >= CLASSES)
            return dl_fail(err, DL_INPUT,
                           "%s: record %lld (at byte %lld) has the label %d; CIFAR-10's are 0 to 9",
                           path, (long long)i, (long long)(i * RECORD), at[i * RECORD]);
    return true;
}

static bool count_records(int fd, const char *path, int64_t *n, dl_error *err) {
    struct stat st;
    if (dl_fstat(fd, &st) < 0) return dl_fail_errno(err, DL_IO, "%s: cannot be read", path);
    *n = st.st_size / RECORD;
    return (*n > 0 && st.st_size % RECORD == 0) ||
           dl_fail(err, DL_INPUT,
                   "%s is %lld bytes: records of CIFAR-10 are %d (a label and 3 x 32 x 32), so "
                   "that it was cut "
                   "short or is something else",
                   path, (long long)st.st_size, RECORD);
}

unsigned char *dlr_cifar_read(const char *path, int64_t *n, dl_error *err) {
    int fd = dl_input_open(path, err);
    if (fd < 0) return NULL;
    unsigned char *at = NULL;
    bool ok = count_records(fd, path, n, err);
    size_t bytes = ok ? (size_t)*n * RECORD : 0;
    ok = ok && ((at = malloc(bytes)) != NULL ||
                dl_fail(err, DL_RESOURCE, "no memory for the pictures of %s", path));
    ok = ok && dl_read_at(fd, path, at, bytes, 0, err) && check_labels(path, at, *n, err);
    close(fd);
    if (ok) return at;
    free(at);
    return NULL;
}

static bool read_open(dlr_dataset *d, cifar *s, int fd, const char *path, dl_error *err) {
    int64_t n = 0, limit = s->pictures.o.limit;
    if (!count_records(fd, path, &n, err)) return false;
    int64_t room = limit ? limit - d->samples : n;
    if (n > room) n = room;
    if (n == 0) return true;
    if (d->samples + n > UINT32_MAX)
        return dl_fail(err, DL_INPUT, "%s: more pictures than can be numbered", path);
    size_t before = (size_t)d->samples * RECORD, bytes = (size_t)n * RECORD;
    d->samples += n;
    if (d->on_paper) dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = (int64_t)bytes});
    if (d->probe) return true;
    unsigned char *more = realloc(s->records, before + bytes);
    if (!more) return dl_fail(err, DL_RESOURCE, "no memory for the pictures of %s", path);
    s->records = more;
    return dl_read_at(fd, path, more + before, bytes, 0, err) &&
           check_labels(path, more + before, n, err);
}

static bool read_file(dlr_dataset *d, const char *path, dl_error *err) {
    int fd = dl_input_open(path, err);
    if (fd < 0) return false;
    bool ok = read_open(d, d->state, fd, path, err);
    close(fd);
    return ok;
}

static bool read_training(dlr_dataset *d, const char *folder, dl_error *err) {
    struct dirent **found = NULL;
    int n = dl_scandir(folder, &found, is_training, by_name);
    if (n < 0) return dl_fail_errno(err, DL_IO, "data_dir: cannot read the folder %s", folder);
    bool ok = n > 0 ||
              dl_fail(err, DL_IO, "data_dir: the folder %s has no file data_batch_*.bin", folder);
    for (int i = 0; i < n; i++) {
        dl_buf path = {0};
        dl_putf(&path, "%s/%s", folder, found[i]->d_name);
        ok = ok && read_file(d, path.at, err);
        dl_buf_free(&path);
        free(found[i]);
    }
    free(found);
    return ok;
}

static bool read_validation(dlr_dataset *d, const char *folder, dl_error *err) {
    dl_buf path = {0};
    dl_putf(&path, "%s/test_batch.bin", folder);
    bool ok = read_file(d, path.at, err);
    dl_buf_free(&path);
    return ok;
}

/* ---- the loader ---- */

static bool read_picture(const dlr_dataset *d, int64_t picture, int64_t epoch, int64_t sample,
                         void *planes, int64_t *label, dl_error *err) {
    (void)epoch, (void)sample, (void)err;
    const unsigned char *record = ((const cifar *)d->state)->records + picture * RECORD;
    memcpy(planes, record + 1, DLR_CIFAR_PLANES);
    *label = record[0];
    return true;
}

static bool open_cifar(dlr_dataset *d, const void *options, dl_error *err) {
    const dlr_cifar_options *o = options;
    cifar *s = d->state = calloc(1, sizeof *s);
    if (!s) return dl_fail(err, DL_RESOURCE, "no memory for a data set");
    dlr_pictures *p = &s->pictures;
    *p = (dlr_pictures){.o = o->pictures, .points = DLR_EL_U8, .read = read_picture};
    if (!dlr_picture_check(d, p, err)) return false;
    if (p->height != SIDE || p->width != SIDE)
        return dl_fail(err, DL_INPUT,
                       "a sample of the model's '%s' is %s; pictures of CIFAR-10 are f32[3, 32, "
                       "32] (input_shape: "
                       "[32, 32, 3])",
                       d->arrays.at[0].name, dl_type_text(&d->arrays.at[0].type));
    if (p->o.classes && p->o.classes < CLASSES)
        return dl_fail(err, DL_INPUT,
                       "the model tells %lld classes apart; CIFAR-10 has 10 (n_classes)",
                       (long long)p->o.classes);
    if (p->o.moves.crop > 0)
        return dl_fail(err, DL_USAGE,
                       "crop_scale is for folders of pictures; CIFAR-10's are moved by shift_range "
                       "and zoom_range");
    if (!o->folder || !o->folder[0])
        return dl_fail(
            err, DL_USAGE,
            "data_dir is not set: a folder of CIFAR-10's binary files, data_batch_*.bin and "
            "test_batch.bin (or --data_loader_config=synthetic)");
    if (!(d->split == DLR_TRAIN ? read_training : read_validation)(d, o->folder, err)) return false;
    d->held = d->samples * RECORD, d->in_memory = true, d->left_out = d->probe;
    return true;
}

static void close_cifar(dlr_dataset *d) {
    cifar *s = d->state;
    if (!s) return;
    free(s->records), free(s);
}

const dlr_loader dlr_cifar_loader = {.name = "cifar10",
                                     .open = open_cifar,
                                     .sample = dlr_pictures_sample,
                                     .raw = dlr_pictures_raw,
                                     .numbers = dlr_pictures_numbers,
                                     .store = dlr_pictures_store,
                                     .piece = dlr_pictures_piece,
                                     .locate = dlr_pictures_locate,
                                     .close = close_cifar};

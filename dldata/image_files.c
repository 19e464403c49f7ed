#include "dldata/image_files.h"

#include "dldata/jpeg_file.h"
#include "dldata/output_tree.h"
#include "dldata/parallel.h"
#include "dldata/scene.h"
#include "ir/base/memory.h"
#include "runtime/base/rng.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE, BATCHES = 5 };
enum { CHUNK = 256 };      /* pictures drawn between two checks of the clock */
enum { DRAW_SIZES = 100 }; /* a step number of the random stream that scene.c does not use */

uint64_t image_bytes(const image_setup *s) {
    uint64_t n = (uint64_t)s->train + (uint64_t)s->valid;
    return n * (s->jpeg ? 3 * (uint64_t)s->side * (uint64_t)s->side / 2 + 4096 : RECORD) + 65536;
}

void image_size(const image_setup *s, uint32_t split, uint32_t number, int *width, int *height) {
    dlr_rng r = dlr_rng_at((dlr_rng_place){s->seed, DLR_STREAM_IMAGES, DRAW_SIZES + split, number});
    int least = s->side * 7 / 10, most = s->side * 13 / 10;
    int side = least + (int)dlr_rng_below(&r, (uint32_t)(most - least + 1));
    static const int ratio[3][2] = {{1, 1}, {4, 3}, {3, 4}};
    const int *of = ratio[dlr_rng_below(&r, 3)];
    *width = of[0] > of[1] ? side * of[0] / of[1] : side;
    *height = of[1] > of[0] ? side * of[1] / of[0] : side;
}

typedef struct {
    const image_setup *s;
    dl_output_dir *dir;
    image_watch *watch;
    void *ctx;
    long long done;
    /* Arguments of the parallel loop over pictures. */
    uint32_t split, first;
    unsigned char *records;
    dl_buf *files;
    dl_error *errors;
} job;

static bool count(job *j, int n) {
    j->done += n;
    return !j->watch || j->watch(j->ctx, j->done, (long long)j->s->train + j->s->valid);
}

/* ---- CIFAR-10's format ---- */

static void draw_record(void *ctx, int i) {
    job *j = ctx;
    uint32_t number = j->first + (uint32_t)i;
    unsigned char rgb[3 * PLANE], *record = j->records + (size_t)number * RECORD;
    scene_draw(j->s->seed, j->split, number, SIDE, SIDE, rgb);
    record[0] = (unsigned char)scene_label(j->s->seed, j->split, number);
    for (int k = 0; k < 3 * PLANE; k++) record[1 + k % 3 * PLANE + k / 3] = rgb[k];
}

static bool write_records(job *j, uint32_t split, dl_error *err) {
    int n = split ? j->s->valid : j->s->train, files = split ? 1 : BATCHES;
    char path[PATH_MAX];
    j->split = split;
    j->records = malloc((size_t)n * RECORD + 1);
    if (!j->records) return dl_fail(err, DL_RESOURCE, "no memory for %d pictures", n);
    bool ok = true;
    for (int i = 0; ok && i < n; i += CHUNK) {
        int k = n - i < CHUNK ? n - i : CHUNK;
        j->first = (uint32_t)i;
        parallel_for(j->s->threads, k, draw_record, j);
        ok = count(j, k);
    }
    for (int f = 0; ok && f < files; f++) {
        size_t bytes = (size_t)(n / files) * RECORD;
        ok = (split
                  ? output_tree_path(j->dir, path, sizeof path, err, "test_batch.bin")
                  : output_tree_path(j->dir, path, sizeof path, err, "data_batch_%d.bin", f + 1)) &&
             dl_write_file(path, j->records + (size_t)f * bytes, bytes, err);
    }
    free(j->records);
    return ok;
}

static bool write_cifar(job *j, dl_error *err) {
    dl_buf names = {0};
    char path[PATH_MAX];
    for (int i = 0; i < SCENE_CLASSES; i++) dl_putf(&names, "%s\n", scene_class_names[i]);
    bool ok = write_records(j, 0, err) && write_records(j, 1, err) &&
              output_tree_path(j->dir, path, sizeof path, err, "batches.meta.txt") &&
              dl_write_file(path, names.at, names.n, err);
    dl_buf_free(&names);
    return ok;
}

/* ---- class folders ---- */

static void draw_jpeg(void *ctx, int i) {
    job *j = ctx;
    uint32_t number = j->first + (uint32_t)i;
    int width, height;
    image_size(j->s, j->split, number, &width, &height);
    unsigned char *rgb = dl_malloc((size_t)width * (size_t)height * 3);
    scene_draw(j->s->seed, j->split, number, width, height, rgb);
    jpeg_encode(rgb, width, height, 80 + (int)(number % 16), &j->files[i], &j->errors[i]);
    free(rgb);
}

static bool write_jpegs(job *j, uint32_t split, dl_error *err) {
    int n = split ? j->s->valid : j->s->train;
    dl_buf files[CHUNK] = {0};
    dl_error errors[CHUNK] = {0};
    char path[PATH_MAX];
    bool ok = true;
    j->split = split, j->files = files, j->errors = errors;
    for (int i = 0; ok && i < n; i += CHUNK) {
        int k = n - i < CHUNK ? n - i : CHUNK;
        j->first = (uint32_t)i;
        parallel_for(j->s->threads, k, draw_jpeg, j);
        for (int f = 0; f < k; f++) {
            const char *name = scene_class_names[scene_label(j->s->seed, split, (uint32_t)(i + f))];
            if (ok && errors[f].code != DL_OK)
                ok = dl_fail(err, errors[f].code, "%s", errors[f].message);
            ok = ok &&
                 output_tree_path(j->dir, path, sizeof path, err, "%s/%s/%06d.jpg",
                                  split ? "val" : "train", name, i + f) &&
                 dl_write_file(path, files[f].at, files[f].n, err);
            dl_buf_free(&files[f]);
            files[f] = (dl_buf){0};
        }
        ok = ok && count(j, k);
    }
    return ok;
}

bool image_write(const char *path, const image_setup *s, image_watch *watch, void *ctx,
                 dl_error *err) {
    job j = {.s = s, .watch = watch, .ctx = ctx, .dir = dl_output_dir_open(path, err)};
    if (!j.dir) return false;
    bool ok = count(&j, 0) &&
              (s->jpeg ? write_jpegs(&j, 0, err) && write_jpegs(&j, 1, err) : write_cifar(&j, err));
    if (ok) return dl_output_dir_commit(j.dir, err);
    dl_output_dir_discard(j.dir);
    return false;
}

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "runtime/io/checkpoint_internal.h"
#include "runtime/io/checksum.h"

struct dlr_checkpoint_private {
    dl_arena *arena;
    dlr_state_part *parts;
    dlr_st_file **files;
    int n_parts;
};

/* Reads a file through and compares size and checksum with what was recorded. */
static bool verify(const char *path, dlr_st_written want, dl_error *err) {
    enum { PIECE = 1 << 20 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0) return dl_fail_errno(err, DL_IO, "cannot open %s", path);
    char *piece = malloc(PIECE);
    bool ok = piece != NULL || dl_fail(err, DL_RESOURCE, "out of memory");
    if (ok && fstat(fd, &st) != 0) ok = dl_fail_errno(err, DL_IO, "cannot read %s", path);
    if (ok && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != want.bytes))
        ok = dl_fail(err, DL_INPUT, "%s is damaged: %lld bytes, not %llu", path, (long long)st.st_size,
                     (unsigned long long)want.bytes);
    dlr_checksum sum;
    dlr_checksum_start(&sum);
    for (uint64_t at = 0; ok && at < want.bytes; at += PIECE) {
        size_t n = want.bytes - at < PIECE ? (size_t)(want.bytes - at) : PIECE;
        ok = dl_read_at(fd, path, piece, n, (int64_t)at, err);
        if (ok) dlr_checksum_add(&sum, piece, n);
    }
    if (ok && dlr_checksum_value(&sum) != want.checksum)
        ok = dl_fail(err, DL_INPUT, "%s is damaged: its checksum is not the recorded one", path);
    free(piece);
    close(fd);
    return ok;
}

static bool open_one(dlr_checkpoint *c, const char *whole, dl_error *err) {
    struct dlr_checkpoint_private *p = c->private;
    c->path = dl_strdup(p->arena, whole);
    if (!dlr_checkpoint_state_read(p->arena, dl_format(p->arena, "%s/state.json", c->path), &c->state,
                                   &p->parts, &p->n_parts, err))
        return false;
    p->files = DL_NEWS(p->arena, dlr_st_file *, p->n_parts);
    for (int i = 0; i < p->n_parts; i++) {
        const char *path = dl_format(p->arena, "%s/%s.safetensors", c->path, p->parts[i].name);
        if (!verify(path, p->parts[i].written, err)) return false;
        if (!(p->files[i] = dlr_st_open(path, DLR_ST_PLAIN, err))) return false;
    }
    return true;
}

static void close_files(dlr_checkpoint *c) {
    struct dlr_checkpoint_private *p = c->private;
    for (int i = 0; p->files && i < p->n_parts; i++) dlr_st_close(p->files[i]);
    p->files = NULL, p->n_parts = 0;
}

/* What to try, in order: the link's target, then the older ones from the newest, then later ones, which a
 * crash before their commit or a given-up future left. */
static dlr_checkpoint_list order_candidates(dl_arena *arena, const dlr_checkpoint_list *all,
                                            const char *target) {
    dlr_checkpoint_list order = {0};
    int64_t step = target ? dlr_checkpoint_step(target, NULL) : INT64_MAX;
    if (target) dl_push(arena, &order, (dlr_checkpoint_entry){.name = target, .step = step});
    for (int later = 0; later < 2; later++)
        for (int i = 0; i < all->n; i++) {
            const dlr_checkpoint_entry *e = &all->at[i];
            if ((e->step > step) == later && (!target || strcmp(e->name, target) != 0))
                dl_push(arena, &order, *e);
        }
    return order;
}

typedef DL_ARRAY(const char *) text_list;

static dlr_checkpoint_outcome try_all(dlr_checkpoint *c, const char *dir, const char *which, dl_error *err) {
    dl_arena *arena = c->private->arena;
    dlr_checkpoint_list all = {0};
    text_list warnings = {0};
    if (!dlr_checkpoint_scan(arena, dir, &all, NULL)) {
        if (errno == ENOENT) return DLR_CHECKPOINT_NONE;
        dl_fail_errno(err, DL_IO, "cannot read directory %s", dir);
        return DLR_CHECKPOINT_FAILED;
    }
    const char *target = dlr_checkpoint_target(arena, dir, which);
    if (all.n == 0 && !target) return DLR_CHECKPOINT_NONE;
    if (!target)
        dl_push(arena, &warnings,
                dl_format(arena, "%s has no link '%s': the newest checkpoint is taken", dir, which));
    dlr_checkpoint_list order = order_candidates(arena, &all, target);
    for (int i = 0; i < order.n; i++) {
        dl_error fault = {0};
        if (open_one(c, dl_format(arena, "%s/%s", dir, order.at[i].name), &fault)) {
            c->warnings = warnings.at, c->n_warnings = warnings.n;
            return DLR_CHECKPOINT_LOADED;
        }
        close_files(c);
        dl_push(arena, &warnings,
                dl_format(arena, "checkpoint %s passed over: %s", order.at[i].name, fault.message));
    }
    dl_fail(err, DL_INPUT, "none of the %d checkpoints in %.200s can be loaded; the best candidate: %.600s",
            order.n, dir, warnings.at[target ? 0 : 1]);
    return DLR_CHECKPOINT_FAILED;
}

dlr_checkpoint_outcome dlr_checkpoint_open(const char *dir, const char *which, dlr_checkpoint **checkpoint,
                                           dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_checkpoint *c = DL_NEW(arena, dlr_checkpoint);
    c->private = DL_NEW(arena, struct dlr_checkpoint_private);
    c->private->arena = arena;
    dlr_checkpoint_outcome outcome = which                   ? try_all(c, dir, which, err)
                                     : open_one(c, dir, err) ? DLR_CHECKPOINT_LOADED
                                                             : DLR_CHECKPOINT_FAILED;
    *checkpoint = outcome == DLR_CHECKPOINT_LOADED ? c : NULL;
    if (!*checkpoint) dlr_checkpoint_close(c);
    return outcome;
}

void dlr_checkpoint_close(dlr_checkpoint *c) {
    if (!c) return;
    close_files(c);
    dl_arena_free(c->private->arena);
}

const dlr_st_file *dlr_checkpoint_part_file(const dlr_checkpoint *c, const char *name, dl_error *err) {
    for (int i = 0; i < c->private->n_parts; i++)
        if (strcmp(c->private->parts[i].name, name) == 0) return c->private->files[i];
    dl_fail(err, DL_INPUT, "the checkpoint %s has no file %s.safetensors", c->path, name);
    return NULL;
}

const dlr_state_value *dlr_checkpoint_value(const dlr_checkpoint *c, const char *key) {
    for (int i = 0; i < c->state.n_values; i++)
        if (strcmp(c->state.values[i].key, key) == 0) return &c->state.values[i];
    return NULL;
}

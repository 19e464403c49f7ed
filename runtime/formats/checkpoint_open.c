#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "runtime/formats/checkpoint_internal.h"
#include "runtime/formats/checksum.h"

/* A part, which the caller sees as one file. */
typedef struct {
    const char *name;
    dlr_st_file *file;
} part;

struct dlr_checkpoint_private {
    dl_arena *arena;
    const dlr_checkpoint_readers *readers;
    dlr_state_part *files; /* as in state.json */
    int n_files;
    part *parts;
    int n_parts;
};

/* Reads a whole file and compares size and checksum with the recorded ones. */
static bool verify(const char *path, dlr_st_written want, dl_error *err) {
    enum { PIECE = 1 << 20 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0) return dl_fail_errno(err, DL_IO, "cannot open %s", path);
    char *piece = malloc(PIECE);
    bool ok = piece != NULL || dl_fail(err, DL_RESOURCE, "out of memory");
    if (ok && fstat(fd, &st) != 0) ok = dl_fail_errno(err, DL_IO, "cannot read %s", path);
    if (ok && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != want.bytes))
        ok = dl_fail(err, DL_INPUT, "%s is damaged: %lld bytes, not %llu", path,
                     (long long)st.st_size, (unsigned long long)want.bytes);
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

/* Opens the part that file number i begins: one file, or several as one. Returns true without
 * effect for a file that does not begin a part. */
static bool open_part(dlr_checkpoint *c, int i, dl_error *err) {
    struct dlr_checkpoint_private *p = c->private;
    const char *name = p->files[i].name;
    size_t n, length;
    int number, of, other, others, found = 0;
    dlr_checkpoint_parse_name(name, &n, &number, &of);
    if (name[n] == '.' || number > 1) return true; /* the index is for other programs */
    part *to = &p->parts[p->n_parts];
    to->name = dl_strndup(p->arena, name, n);
    if (of == 0) {
        to->file = dlr_st_open(dlr_checkpoint_path(p->arena, c->path, name), DLR_ST_PLAIN, err);
    } else {
        const char **paths = DL_NEWS(p->arena, const char *, of);
        for (int k = 0; k < p->n_files; k++) {
            dlr_checkpoint_parse_name(p->files[k].name, &length, &other, &others);
            if (length != n || strncmp(p->files[k].name, name, n) != 0 || others != of) continue;
            found += paths[other - 1] == NULL;
            paths[other - 1] = dlr_checkpoint_path(p->arena, c->path, p->files[k].name);
        }
        if (found < of)
            return dl_fail(err, DL_INPUT, "%s/state.json has %d of the %d files of '%s'", c->path,
                           found, of, to->name);
        to->file = dlr_st_open_joined(paths, of, dl_format(p->arena, "%s/%s", c->path, to->name),
                                      DLR_ST_PLAIN, err);
    }
    p->n_parts += to->file != NULL;
    return to->file != NULL;
}

/* Verifies this rank's share of the files, and opens all. *fault: the faulty file, counted from 2;
 * 1: another fault. */
static bool open_files(dlr_checkpoint *c, int64_t *fault, dl_error *err) {
    struct dlr_checkpoint_private *p = c->private;
    int rank = p->readers ? p->readers->rank : 0, n = p->readers ? p->readers->n : 1;
    p->parts = DL_NEWS(p->arena, part, p->n_files + 1);
    for (int i = rank; i < p->n_files; i += n) {
        *fault = i + 2;
        if (!verify(dlr_checkpoint_path(p->arena, c->path, p->files[i].name), p->files[i].written,
                    err))
            return false;
    }
    *fault = 1;
    for (int i = 0; i < p->n_files; i++)
        if (!open_part(c, i, err)) return false;
    *fault = 0;
    return true;
}

/* Checks that all ranks have the same state.json, or none has one, and exchanges the faults that
 * they found. False with *broken: the ranks no longer work together. */
static bool agree(const dlr_checkpoint *c, bool ok, uint64_t sum, int64_t fault, bool *broken,
                  dl_error *err) {
    const struct dlr_checkpoint_private *p = c->private;
    const dlr_checkpoint_readers *r = p->readers;
    dl_error lost = {0};
    int64_t most;
    const char *what = dl_format(p->arena, "the file %s/state.json", c->path);
    *broken =
        r && !(r->same(r->context, sum, what, &lost) && r->most(r->context, fault, &most, &lost));
    if (*broken) return dl_fail(err, lost.code, "%s", lost.message);
    if (!r || !ok || most == 0) return ok;
    const char *path =
        most == 1 ? c->path : dlr_checkpoint_path(p->arena, c->path, p->files[most - 2].name);
    return dl_fail(err, DL_INPUT, "%s is damaged, or cannot be read by another rank", path);
}

static bool open_one(dlr_checkpoint *c, const char *whole, bool *broken, dl_error *err) {
    struct dlr_checkpoint_private *p = c->private;
    int64_t fault = 1;
    uint64_t sum = 0;
    c->path = dl_strdup(p->arena, whole);
    bool ok = dlr_checkpoint_state_read(p->arena, dl_format(p->arena, "%s/state.json", c->path),
                                        &c->state, &p->files, &p->n_files, &sum, err) &&
              open_files(c, &fault, err);
    return agree(c, ok, sum, fault, broken, err);
}

static void close_files(dlr_checkpoint *c) {
    struct dlr_checkpoint_private *p = c->private;
    for (int i = 0; i < p->n_parts; i++) dlr_st_close(p->parts[i].file);
    p->n_parts = p->n_files = 0;
}

/* The candidates in order: the link's target, then older ones from the newest on, then later ones,
 * which a crash before their commit or an abandoned run left. */
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

/* Ranks that see different names do not share the file system. */
static bool same_candidates(const dlr_checkpoint *c, const char *dir, bool there,
                            const dlr_checkpoint_list *list, dl_error *err) {
    const dlr_checkpoint_readers *r = c->private->readers;
    dlr_checksum sum;
    dlr_checksum_start(&sum);
    if (there) dlr_checksum_add(&sum, ".", 1);
    for (int i = 0; i < list->n; i++)
        dlr_checksum_add(&sum, list->at[i].name, strlen(list->at[i].name) + 1);
    return !r || r->same(r->context, dlr_checksum_value(&sum),
                         dl_format(c->private->arena, "the list of checkpoints in %s", dir), err);
}

static dlr_checkpoint_outcome try_all(dlr_checkpoint *c, const char *dir, const char *which,
                                      dl_error *err) {
    dl_arena *arena = c->private->arena;
    dlr_checkpoint_list all = {0};
    text_list warnings = {0};
    bool there = dlr_checkpoint_scan(arena, dir, &all, NULL);
    int why = errno;
    const char *target = there ? dlr_checkpoint_target(arena, dir, which) : NULL;
    dlr_checkpoint_list order = order_candidates(arena, &all, target);
    if (!same_candidates(c, dir, there, &order, err)) return DLR_CHECKPOINT_FAILED;
    if (!there) {
        errno = why;
        if (errno == ENOENT) return DLR_CHECKPOINT_NONE;
        dl_fail_errno(err, DL_IO, "cannot read directory %s", dir);
        return DLR_CHECKPOINT_FAILED;
    }
    if (order.n == 0) return DLR_CHECKPOINT_NONE;
    if (!target)
        dl_push(
            arena, &warnings,
            dl_format(arena, "%s has no link '%s': the newest checkpoint is taken", dir, which));
    for (int i = 0; i < order.n; i++) {
        dl_error fault = {0};
        bool broken;
        if (open_one(c, dl_format(arena, "%s/%s", dir, order.at[i].name), &broken, &fault)) {
            c->warnings = warnings.at, c->n_warnings = warnings.n;
            return DLR_CHECKPOINT_LOADED;
        }
        close_files(c);
        if (broken) {
            *err = fault;
            return DLR_CHECKPOINT_FAILED;
        }
        dl_push(arena, &warnings,
                dl_format(arena, "checkpoint %s passed over: %s", order.at[i].name, fault.message));
    }
    dl_fail(err, DL_INPUT,
            "none of the %d checkpoints in %.200s can be loaded; the best candidate: %.600s",
            order.n, dir, warnings.at[target ? 0 : 1]);
    return DLR_CHECKPOINT_FAILED;
}

dlr_checkpoint_outcome dlr_checkpoint_open(const char *dir, const char *which,
                                           const dlr_checkpoint_readers *readers,
                                           dlr_checkpoint **checkpoint, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_checkpoint *c = DL_NEW(arena, dlr_checkpoint);
    bool broken;
    c->private = DL_NEW(arena, struct dlr_checkpoint_private);
    c->private->arena = arena, c->private->readers = readers;
    dlr_checkpoint_outcome outcome = which                            ? try_all(c, dir, which, err)
                                     : open_one(c, dir, &broken, err) ? DLR_CHECKPOINT_LOADED
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

const dlr_st_file *dlr_checkpoint_part_file(const dlr_checkpoint *c, const char *name,
                                            dl_error *err) {
    for (int i = 0; i < c->private->n_parts; i++)
        if (strcmp(c->private->parts[i].name, name) == 0) return c->private->parts[i].file;
    dl_fail(err, DL_INPUT, "the checkpoint %s has no file %s.safetensors", c->path, name);
    return NULL;
}

const dlr_state_value *dlr_checkpoint_value(const dlr_checkpoint *c, const char *key) {
    for (int i = 0; i < c->state.n_values; i++)
        if (strcmp(c->state.values[i].key, key) == 0) return &c->state.values[i];
    return NULL;
}

int64_t dlr_checkpoint_integer(const dlr_checkpoint *c, const char *key) {
    const dlr_state_value *v = dlr_checkpoint_value(c, key);
    return v && v->kind == DLR_STATE_INT ? v->integer : 0;
}

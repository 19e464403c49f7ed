#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/output.h"
#include "runtime/formats/checkpoint_internal.h"
#include "runtime/formats/checksum.h"

/* A save in progress. */
typedef struct {
    dl_arena *arena;
    const char *dir, *name; /* the directory of checkpoints; step-N */
    const char *tmp, *path; /* dir/step-N.tmp, dir/step-N */
    const dlr_checkpoint_content *content;
    dl_error *err;
} saver;

static const char *in_dir(saver *s, const char *name, const char *suffix) {
    return dl_format(s->arena, "%s/%s%s", s->dir, name, suffix);
}

/* The parent of a path, as text. */
static const char *parent(dl_arena *arena, const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    return n == 0 ? "." : dl_strndup(arena, path, n);
}

static bool make_store(saver *s) {
    struct stat st;
    if (stat(s->dir, &st) == 0 && S_ISDIR(st.st_mode)) return true;
    return dl_make_dirs(s->dir, 0755, s->err) && dl_sync_dir(parent(s->arena, s->dir), s->err);
}

/* Cleans up after crashed runs: removes unfinished directories, and moves a checkpoint back that
 * was moved aside if its successor was never published. */
static bool tidy(saver *s) {
    dlr_checkpoint_list list = {0}, dead = {0};
    if (!dlr_checkpoint_scan(s->arena, s->dir, &list, &dead))
        return dl_fail_errno(s->err, DL_IO, "cannot read directory %s", s->dir);
    for (int i = 0; i < dead.n; i++)
        if (!dl_remove_tree(in_dir(s, dead.at[i].name, ""), s->err)) return false;
    for (int i = 0; i < list.n; i++) {
        const dlr_checkpoint_entry *e = &list.at[i];
        if (!e->aside || (i > 0 && list.at[i - 1].step == e->step)) continue;
        const char *path = in_dir(s, e->name, "");
        if (rename(path, dl_strndup(s->arena, path, strlen(path) - strlen(".old"))) != 0)
            return dl_fail_errno(s->err, DL_IO, "cannot rename %s", path);
    }
    return true;
}

/* Reads the state back as a resumed run will: a key given twice or an invalid part name would
 * otherwise show only then. */
static bool read_back(saver *s) {
    dlr_state state;
    dlr_state_part *parts;
    int n;
    uint64_t sum;
    return dlr_checkpoint_state_read(s->arena, dl_format(s->arena, "%s/state.json", s->tmp), &state,
                                     &parts, &n, &sum, s->err);
}

static bool make_temporary(saver *s) {
    return mkdir(s->tmp, 0755) == 0 ||
           dl_fail_errno(s->err, DL_IO, "cannot make directory %s", s->tmp);
}

static bool write_parts(saver *s, dlr_st_written *written) {
    const dlr_checkpoint_content *c = s->content;
    for (int i = 0; i < c->n_parts; i++)
        if (!dlr_st_write(dlr_checkpoint_path(s->arena, s->tmp, c->parts[i].name),
                          &c->parts[i].content, &written[i], s->err))
            return false;
    return true;
}

/* Writes state.json, the directory's last file, which lists the others. */
static bool write_state(saver *s, const dlr_checkpoint_file *files, int n) {
    dl_buf text = {0};
    dlr_checkpoint_state_print(&text, &s->content->state, files, n);
    bool ok = dl_write_file(dl_format(s->arena, "%s/state.json", s->tmp), text.at, text.n, s->err);
    dl_buf_free(&text);
    return ok && read_back(s) && dl_sync_dir(s->tmp, s->err);
}

static bool write_files(saver *s) {
    const dlr_checkpoint_content *c = s->content;
    dlr_checkpoint_file *files = DL_NEWS(s->arena, dlr_checkpoint_file, c->n_parts);
    dlr_st_written *written = DL_NEWS(s->arena, dlr_st_written, c->n_parts);
    if (!make_temporary(s) || !write_parts(s, written)) return false;
    for (int i = 0; i < c->n_parts; i++)
        files[i] = (dlr_checkpoint_file){c->parts[i].name, written[i]};
    return write_state(s, files, c->n_parts);
}

/* Checks that other ranks' files are here, too: otherwise those ranks write to another file
 * system. */
static bool find_files(saver *s, const dlr_checkpoint_file *files, int n) {
    for (int i = 0; i < n; i++) {
        const char *path = dlr_checkpoint_path(s->arena, s->tmp, files[i].name);
        struct stat st;
        if (stat(path, &st) != 0)
            return dl_fail_errno(s->err, DL_IO,
                                 "%s, which a rank has written, cannot be found by rank 0", path);
        if ((uint64_t)st.st_size != files[i].written.bytes)
            return dl_fail(s->err, DL_IO, "%s has %lld bytes, of %llu that a rank has written",
                           path, (long long)st.st_size, (unsigned long long)files[i].written.bytes);
    }
    return true;
}

/* Writes the index of a part's files, and adds it to the files that state.json lists. */
static bool add_index(saver *s, dlr_checkpoint_file *files, int *n, const char *index) {
    size_t length = index ? strlen(index) : 0;
    dlr_checksum sum;
    if (!index) return true;
    dlr_checksum_start(&sum);
    dlr_checksum_add(&sum, index, length);
    files[(*n)++] =
        (dlr_checkpoint_file){DLR_CHECKPOINT_INDEX, {length, dlr_checksum_value(&sum), NULL}};
    return dl_write_file(dlr_checkpoint_path(s->arena, s->tmp, DLR_CHECKPOINT_INDEX), index, length,
                         s->err);
}

/* Renames the finished directory to its final name. Another checkpoint of the same step (a second
 * save at one step, or one that a crash left without its link) is moved aside first and removed at
 * the end; the reader knows .old. */
static bool publish(saver *s) {
    const char *old = in_dir(s, s->name, ".old");
    if (access(s->path, F_OK) == 0) {
        if (!dl_remove_tree(old, s->err)) return false;
        if (rename(s->path, old) != 0)
            return dl_fail_errno(s->err, DL_IO, "cannot rename %s", s->path);
    }
    if (rename(s->tmp, s->path) != 0)
        return dl_fail_errno(s->err, DL_IO, "cannot rename %s", s->tmp);
    return dl_sync_dir(s->dir, s->err);
}

static bool point(saver *s, const char *which) {
    return dl_replace_link(in_dir(s, which, ""), s->name, s->err);
}

/* Removes a checkpoint, which is renamed to a temporary name first: a crash during the removal must
 * not leave half a checkpoint. */
static bool discard(saver *s, const char *name) {
    const char *path = in_dir(s, name, ""), *dying = in_dir(s, name, ".tmp");
    if (dlr_checkpoint_step(name, NULL) >= 0) {
        if (rename(path, dying) != 0) return dl_fail_errno(s->err, DL_IO, "cannot rename %s", path);
        path = dying;
    }
    return dl_remove_tree(path, s->err);
}

/* Whether a checkpoint is kept however old it is: it is one of the best. */
static bool is_kept(const saver *s, const dlr_checkpoint_entry *e, const char *best) {
    bool named = best && strcmp(e->name, best) == 0;
    for (int i = 0; i < s->content->n_keep_steps; i++)
        named = named || s->content->keep_steps[i] == e->step;
    return named && !e->aside;
}

static bool prune(saver *s) {
    dlr_checkpoint_list list = {0};
    int64_t step = s->content->state.iteration;
    int keep = s->content->keep > 1 ? s->content->keep : 1;
    const char *best = dlr_checkpoint_target(s->arena, s->dir, "best");
    if (!dlr_checkpoint_scan(s->arena, s->dir, &list, NULL))
        return dl_fail_errno(s->err, DL_IO, "cannot read directory %s", s->dir);
    for (int i = 0; i < list.n; i++) {
        const dlr_checkpoint_entry *e = &list.at[i];
        if (is_kept(s, e, best)) {
            keep -= e->step <= step;
            continue;
        }
        if (!e->aside && e->step <= step && keep-- > 0) continue;
        if (!discard(s, e->name)) return false;
    }
    return true;
}

static saver saver_of(dl_arena *arena, const char *dir, int64_t iteration,
                      const dlr_checkpoint_content *content, dl_error *err) {
    saver s = {.arena = arena, .dir = dir, .content = content, .err = err};
    s.name = dl_format(arena, "step-%08lld", (long long)iteration);
    s.tmp = in_dir(&s, s.name, ".tmp");
    s.path = in_dir(&s, s.name, "");
    return s;
}

/* Publishes the temporary directory if it is complete (ok); otherwise removes it. */
static bool finish(saver *s, bool ok) {
    if (!ok) {
        dl_error ignored = {0}; /* the first fault is the one that is reported */
        dl_remove_tree(s->tmp, &ignored);
    }
    return ok && publish(s) && point(s, "last") && (!s->content->is_best || point(s, "best")) &&
           prune(s);
}

bool dlr_checkpoint_save(const char *dir, const dlr_checkpoint_content *content, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    saver s = saver_of(arena, dir, content->state.iteration, content, err);
    bool ok = finish(&s, make_store(&s) && tidy(&s) && write_files(&s));
    dl_arena_free(arena);
    return ok;
}

bool dlr_checkpoint_begin(const char *dir, int64_t iteration, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    saver s = saver_of(arena, dir, iteration, NULL, err);
    bool ok = make_store(&s) && tidy(&s) && make_temporary(&s);
    dl_arena_free(arena);
    return ok;
}

bool dlr_checkpoint_write(const char *dir, const dlr_checkpoint_content *content,
                          dlr_st_written *written, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    saver s = saver_of(arena, dir, content->state.iteration, content, err);
    bool ok =
        access(s.tmp, F_OK) == 0 ||
        dl_fail(
            err, DL_IO,
            "%s is not there, where rank 0 has made it: all ranks need the run's directory on one "
            "file system",
            s.tmp);
    ok = ok && write_parts(&s, written) && dl_sync_dir(s.tmp, err);
    dl_arena_free(arena);
    return ok;
}

bool dlr_checkpoint_commit(const char *dir, const dlr_checkpoint_content *content,
                           const dlr_checkpoint_file *files, int n, const char *index,
                           dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    saver s = saver_of(arena, dir, content->state.iteration, content, err);
    dlr_checkpoint_file *all = DL_NEWS(arena, dlr_checkpoint_file, n + 1);
    memcpy(all, files, (size_t)n * sizeof *all);
    bool ok = find_files(&s, all, n) && add_index(&s, all, &n, index) && write_state(&s, all, n);
    ok = finish(&s, ok);
    dl_arena_free(arena);
    return ok;
}

bool dlr_checkpoint_adopt(const char *dir, const dlr_checkpoint *c, bool is_best, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    const char *slash = strrchr(c->path, '/');
    saver s = {.arena = arena, .dir = dir, .name = slash ? slash + 1 : c->path, .err = err};
    const char *last = dlr_checkpoint_target(arena, dir, "last"),
               *best = dlr_checkpoint_target(arena, dir, "best");
    /* a leftover is moved aside: the next save removes it */
    bool ok = dlr_checkpoint_step(s.name, NULL) < 0 ||
              (((last && strcmp(last, s.name) == 0) || point(&s, "last")) &&
               (!is_best || (best && strcmp(best, s.name) == 0) || point(&s, "best")));
    dl_arena_free(arena);
    return ok;
}

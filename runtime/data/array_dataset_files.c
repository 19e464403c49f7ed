/* Finds the files of an array, and selects those of a part of the split. */
#include <fnmatch.h>
#include <glob.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "ir/base/file_calls.h"
#include "runtime/data/array_dataset_private.h"
#include "runtime/data/levels.h"
#include "runtime/formats/log.h"

static const char *const parts[] = {[DLR_TRAIN] = "train", [DLR_VALID] = "valid"};

bool dataset_fail(const dataset_variable *v, const dataset_file *f, dl_error *err,
                  const char *format, ...) {
    char message[sizeof err->message];
    va_list ap;
    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    dl_buf shape = {0};
    const char *name = (f ? f : v->files.at)->array;
    for (int i = 0; i < v->rank; i++)
        dl_putf(&shape, "%s%lld", i ? ", " : "", (long long)(f ? f : v->files.at)->dims[i]);
    dl_fail(err, DL_INPUT, "%s: %.300s: '%.100s' is [%s]; %s", v->of->from.key,
            (f ? f : v->files.at)->path, name ? name : "(its only array)", shape.at ? shape.at : "",
            message);
    dl_buf_free(&shape);
    return false;
}

/* ---- names ---- */

static void *open_folder(const char *path) { return dl_opendir(path); }
static struct dirent *read_folder(void *folder) { return dl_readdir(folder); }
static void close_folder(void *folder) { closedir(folder); }

/* Lists the paths that a word names, in the order of their names: a file, a folder (Zarr), or the
 * matches of a pattern. */
static bool find_paths(array_dataset *w, const char *key, const char *word, dataset_paths *out,
                       dl_error *err) {
    glob_t found = {.gl_opendir = open_folder,
                    .gl_readdir = read_folder,
                    .gl_closedir = close_folder,
                    .gl_stat = dl_stat,
                    .gl_lstat = dl_lstat};
    if (!strpbrk(word, "*?[")) {
        dl_push(w->arena, out, dl_strdup(w->arena, word));
        return true;
    }
    int rc = glob(word, GLOB_ALTDIRFUNC, NULL, &found); /* sorted */
    if (rc == GLOB_NOSPACE)
        return dl_fail(err, DL_RESOURCE, "%s: no memory to look for %.300s", key, word);
    if (rc != 0) return dl_fail(err, DL_IO, "%s: no file fits the pattern %.300s", key, word);
    bool ok = found.gl_pathc <= DLR_OWN_MAX_FILES;
    for (size_t i = 0; ok && i < found.gl_pathc; i++)
        dl_push(w->arena, out, dl_strdup(w->arena, found.gl_pathv[i]));
    globfree(&found);
    return ok || dl_fail(err, DL_RESOURCE, "%s: more than %d files fit %.300s", key,
                         DLR_OWN_MAX_FILES, word);
}

bool dataset_find_paths(array_dataset *w, const char *key, const dlr_array_dataset_names *words,
                        dataset_paths *out, dl_error *err) {
    for (int i = 0; i < words->n; i++)
        if (!find_paths(w, key, words->at[i], out, err)) return false;
    return true;
}

static bool fits(const dlr_array_dataset_names *patterns, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (int i = 0; i < patterns->n; i++)
        if (fnmatch(patterns->at[i], path, 0) == 0 || fnmatch(patterns->at[i], name, 0) == 0)
            return true;
    return false;
}

/* Whether one of the files given for both parts belongs to a part: it matches the part's patterns;
 * training without patterns takes the files that validation does not match. */
static bool belongs(const dlr_array_dataset_split *s, dlr_split part, const char *path) {
    if (s->files[part].n) return fits(&s->files[part], path);
    return !fits(&s->files[!part], path);
}

static bool choose_paths(array_dataset *w, const dataset_variable *v, dlr_split part,
                         dataset_paths *out, dl_error *err) {
    const char *key = v->of->from.key;
    const dlr_array_dataset_split *split = &w->o->split;
    if (!v->from.files.n) { /* use the files of the split */
        if (!split->files[part].n)
            return dl_fail(err, DL_USAGE,
                           "%s.file and data.split.%s are missing: where are its files?", key,
                           parts[part]);
        return dataset_find_paths(w, key, &split->files[part], out, err);
    }
    dataset_paths all = {0};
    if (!dataset_find_paths(w, key, &v->from.files, &all, err)) return false;
    /* one file belongs to both parts: an array that all samples share, or labels of all files */
    bool split_here = split->kind == DLR_SPLIT_FILES && all.n > 1;
    for (int i = 0; i < all.n; i++)
        if (!split_here || belongs(split, part, all.at[i])) dl_push(w->arena, out, all.at[i]);
    return out->n > 0 || dl_fail(err, DL_INPUT, "%s: none of its %d files belongs to data.split.%s",
                                 key, all.n, parts[part]);
}

/* ---- arrays ---- */

/* Reads the rules of a file's attributes. They are mostly the same in all files of an array, and
 * then stored once. */
static bool read_packing(array_dataset *w, const dataset_variable *v, dataset_file *f,
                         const dlr_array_facts *facts, dl_error *err) {
    const char *key = v->of->from.key;
    dlr_packing p;
    dl_error reason = {0};
    dl_buf warnings = {0};
    if (!dlr_packing_of(facts, &p, &warnings, &reason))
        dl_fail(err, reason.code, "%s: %.300s: %s", key, f->path, reason.message);
    const bool first = f == v->files.at && w->warns;
    for (char *line = warnings.at, *end; first && line && *line && !reason.code; line = end + 1) {
        *(end = strchr(line, '\n')) = 0;
        dlr_log_warning("%s: %.300s: %s", key, f->path, line);
    }
    dl_buf_free(&warnings);
    if (reason.code) return false;
    f->packing = f > v->files.at ? f[-1].packing : NULL;
    if (f->packing && memcmp(f->packing, &p, sizeof p) == 0) return true;
    dlr_packing *kept = DL_NEW(w->arena, dlr_packing);
    *kept = p;
    f->packing = kept;
    return true;
}

/* Finds the indices of the variable's levels, which must be those of its first file. */
static bool find_levels(array_dataset *w, dataset_variable *v, const dataset_file *f,
                        const dlr_array_file *file, const dlr_array_facts *facts, dl_error *err) {
    const dlr_array_dataset_numbers *levels = &v->from.levels;
    int64_t *indices = DL_NEWS(w->arena, int64_t, levels->n);
    dl_error reason = {0};
    int axis;
    if (!dlr_levels_find(file, facts, v->from.level_axis, levels->at, levels->n, &axis, indices,
                         &reason))
        return dataset_fail(v, f, err, "%s", reason.message);
    if (f == v->files.at) {
        v->channel = axis, v->from.channels = indices, v->from.n_channels = levels->n;
        return true;
    }
    return (axis == v->channel &&
            memcmp(indices, v->from.channels, (size_t)levels->n * sizeof *indices) == 0) ||
           dataset_fail(v, f, err, "its levels along %s are at other indices than those of %.300s",
                        v->from.level_axis, v->files.at[0].path);
}

/* Opens a variable's array in one of its files, which is open as `file`. */
static bool open_array(array_dataset *w, dataset_variable *v, dataset_file *f,
                       const dlr_array_file *file, dl_error *err) {
    /* samples come in any order: only the chunks of one sample are worth caching */
    enum { CHUNKS = 16 << 20 };
    const char *key = v->of->from.key;
    const dlr_array_facts *facts = dlr_array_file_find(file, f->array);
    dl_error reason = {0};
    if (!facts) {
        dl_buf holds = {0};
        dlr_array_file_put(&holds, file, 8);
        if (f->array)
            dl_fail(err, DL_INPUT, "%s: %.300s has no array '%.100s'; it holds: %.400s", key,
                    f->path, f->array, holds.at);
        else
            dl_fail(err, DL_INPUT,
                    "%s: %.300s holds several arrays: say which (array: NAME); it holds: %.400s",
                    key, f->path, holds.at);
        dl_buf_free(&holds);
        return false;
    }
    if (!read_packing(w, v, f, facts, err)) return false;
    f->source = dlr_source_open(file, facts, CHUNKS, &reason);
    if (!f->source) return dl_fail(err, reason.code, "%s: %s", key, reason.message);
    int rank = dlr_source_rank(f->source);
    memcpy(f->dims, dlr_source_dims(f->source), (size_t)rank * sizeof *f->dims);
    if (f == v->files.at) v->rank = rank;
    return (rank == v->rank ||
            dataset_fail(v, NULL, err, "%.300s has %d axes: files of one array have the same",
                         f->path, rank)) &&
           (!v->from.level_axis || find_levels(w, v, f, file, facts, err));
}

/* Opens file i of variable j of array k, and of later variables in the same file: listing a file's
 * contents may take a process. */
static bool open_file(array_dataset *w, int k, int j, int i, dl_error *err) {
    const dataset_file *first = &w->at[k].variables.at[j].files.at[i];
    dl_error reason = {0};
    if (first->source) return true;
    dlr_array_file *file = dlr_array_file_open(first->path, &reason);
    if (!file) return dl_fail(err, reason.code, "%s: %s", w->at[k].from.key, reason.message);
    bool ok = true;
    file->mapped = w->mapped;
    for (int other = k; ok && other < w->n; other++)
        for (int at = other == k ? j : 0; ok && at < w->at[other].variables.n; at++) {
            dataset_variable *v = &w->at[other].variables.at[at];
            for (int n = i; ok && n < v->files.n; n++) {
                if (strcmp(v->files.at[n].path, first->path) != 0) break;
                ok = v->files.at[n].source || open_array(w, v, &v->files.at[n], file, err);
            }
        }
    dlr_array_file_close(file);
    return ok;
}

/* Lists the arrays of a file that fit the variable's pattern, in the file's order. */
static bool list_fitting(array_dataset *w, dataset_variable *v, const char *path, dl_error *err) {
    dl_error reason = {0};
    const int before = v->files.n;
    dlr_array_file *file = dlr_array_file_open(path, &reason);
    if (!file) return dl_fail(err, reason.code, "%s: %s", v->of->from.key, reason.message);
    for (int i = 0; i < file->n; i++) {
        const char *name = file->arrays[i].name;
        if (strcmp(name, v->from.array) == 0 || fnmatch(v->from.array, name, FNM_PATHNAME) == 0)
            dl_push(w->arena, &v->files,
                    ((dataset_file){.path = path, .array = dl_strdup(w->arena, name)}));
    }
    dl_buf holds = {0};
    dlr_array_file_put(&holds, file, 8);
    if (file->more)
        dl_fail(err, DL_INPUT,
                "%s: %.300s has more arrays than are listed: a pattern would miss some",
                v->of->from.key, path);
    else if (v->files.n == before)
        dl_fail(err, DL_INPUT, "%s: no array of %.300s fits the pattern '%.100s'; it holds: %.400s",
                v->of->from.key, path, v->from.array, holds.at);
    const bool ok = !file->more && v->files.n > before;
    dl_buf_free(&holds);
    dlr_array_file_close(file);
    return ok;
}

/* Lists the files of a variable; *parted: whether it has files of both parts. */
static bool list_files(array_dataset *w, dataset_variable *v, dlr_split part, bool *parted,
                       dl_error *err) {
    dataset_paths paths = {0};
    if (!choose_paths(w, v, part, &paths, err)) return false;
    const bool pattern = v->from.array && strpbrk(v->from.array, "*?[");
    for (int i = 0; i < paths.n; i++)
        if (!pattern)
            dl_push(w->arena, &v->files,
                    ((dataset_file){.path = paths.at[i], .array = v->from.array}));
        else if (!list_fitting(w, v, paths.at[i], err))
            return false;
    *parted |= v->from.files.n != 1 || strpbrk(v->from.files.at[0], "*?[");
    return true;
}

bool dataset_open_files(array_dataset *w, dlr_split part, dl_error *err) {
    bool parted = false;
    for (int k = 0; k < w->n; k++)
        for (int j = 0; j < w->at[k].variables.n; j++)
            if (!list_files(w, &w->at[k].variables.at[j], part, &parted, err)) return false;
    if (!parted && w->o->split.kind == DLR_SPLIT_FILES)
        return dl_fail(
            err, DL_INPUT,
            "data.split.%s names files, and no input or target has several: give all in file, or "
            "leave file out",
            parts[part]);
    for (int k = 0; k < w->n; k++)
        for (int j = 0; j < w->at[k].variables.n; j++)
            for (int i = 0; i < w->at[k].variables.at[j].files.n; i++)
                if (!open_file(w, k, j, i, err)) return false;
    return true;
}

const dataset_file *dataset_find_file(const dataset_variable *v, int64_t i) {
    int low = 0, high = v->files.n - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (v->files.at[middle].first <= i)
            low = middle;
        else
            high = middle - 1;
    }
    return &v->files.at[low];
}

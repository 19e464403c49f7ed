#include "runtime/job/run_dir.h"

#include <dirent.h>
#include <string.h>
#include <strings.h>

#include "frontends/yaml/data_file.h"
#include "ir/base/str.h"

/* The layout of all runs before others than the default model's had the model's name in theirs. */
static const char former[] = "{expdir}/{config}/{ranks}GPU/{run_num}";

/* The name of a model's file without its folder and ending, or the name that a preset has for it.
 */
static const char *stem(dl_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    return dot && dot != name ? dl_strndup(arena, name, (size_t)(dot - name)) : name;
}

static bool is_default_model(dl_arena *arena, const char *model) {
    dl_error none = {0};
    const char *otherwise = dl_key_default(DL_KEY_model),
               *found = dl_find_data_file(arena, otherwise, &none);
    return strcmp(model, otherwise) == 0 || (found && strcmp(model, found) == 0);
}

/* {name}: of the configuration, after that of the model where it is another: models of the user's
 * own do not meet in one directory. */
static const char *name_of(dl_arena *arena, const dl_config *c) {
    const char *model = dl_config_str(c, DL_KEY_model), *own = stem(arena, model);
    return is_default_model(arena, model) || strcasecmp(own, c->name) == 0
               ? c->name
               : dl_format(arena, "%s-%s", own, c->name);
}

/* The names of folders that a pattern may have, and the keys in it, are in order. */
static bool check_names(dl_arena *arena, const dl_config *c, dl_key key, dl_error *err) {
    const char *run_num = dl_config_str(c, DL_KEY_run_num),
               *model = stem(arena, dl_config_str(c, DL_KEY_model));
    if (!dl_is_file_name(c->name) || !dl_is_file_name(run_num))
        return dl_fail(err, DL_USAGE,
                       "no run can be kept under '%.80s' and '%.80s': both name a folder", c->name,
                       run_num);
    if (!dl_is_file_name(model))
        return dl_fail(err, DL_USAGE,
                       "no run can be kept under '%.80s': a model's name names a folder", model);
    const dl_key written[] = {key, DL_KEY_expdir, DL_KEY_run_num};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (!dl_config_check_written(c, written[i], err)) return false;
    return true;
}

/* The pattern of a key with its words filled in, `ranks` for {ranks}. */
static const char *fill_in(dl_arena *arena, const dl_config *c, dl_key key, const char *pattern,
                           const char *ranks, dl_error *err) {
    if (!check_names(arena, c, key, err)) return NULL;
    const struct {
        const char *name, *value;
    } words[] = {{"expdir", dl_config_str(c, DL_KEY_expdir)},
                 {"config", c->name},
                 {"model", stem(arena, dl_config_str(c, DL_KEY_model))},
                 {"name", name_of(arena, c)},
                 {"ranks", ranks},
                 {"run_num", dl_config_str(c, DL_KEY_run_num)}};
    enum { WORDS = sizeof words / sizeof *words };
    const char *s = pattern;
    dl_buf b = {0};
    bool ok = true;
    while (ok && *s) {
        size_t n = strcspn(s, "{"), length = s[n] ? strcspn(s + n + 1, "}") : 0;
        dl_putn(&b, s, n);
        s += n;
        if (!*s) break;
        int k = 0;
        while (k < WORDS &&
               (strlen(words[k].name) != length || strncmp(words[k].name, s + 1, length) != 0))
            k++;
        ok = k < WORDS && s[1 + length] == '}';
        if (ok) dl_puts(&b, words[k].value), s += length + 2;
    }
    const char *text = ok ? dl_strndup(arena, b.at ? b.at : "", b.n) : NULL;
    if (!ok)
        dl_config_fail(
            c, key, err,
            "%.60s is none of {expdir}, {name}, {model}, {config}, {ranks} and {run_num}", s);
    dl_buf_free(&b);
    return text;
}

const char *dl_run_fill(dl_arena *arena, const dl_config *c, dl_key key, int ranks, dl_error *err) {
    return fill_in(arena, c, key, dl_config_str(c, key), dl_format(arena, "%d", ranks), err);
}

/* The directory by a pattern, without slashes at its end. */
static const char *directory(dl_arena *arena, const dl_config *c, const char *pattern,
                             const char *ranks, dl_error *err) {
    const char *path = fill_in(arena, c, DL_KEY_run_dir, pattern, ranks, err);
    size_t n = path ? strlen(path) : 0;
    while (n > 1 && path[n - 1] == '/') n--;
    return path ? dl_strndup(arena, path, n) : NULL;
}

static const char *own_directory(dl_arena *arena, const dl_config *c, const char *ranks,
                                 dl_error *err) {
    return directory(arena, c, dl_config_str(c, DL_KEY_run_dir), ranks, err);
}

const char *dl_run_dir(dl_arena *arena, const dl_config *c, int ranks, dl_error *err) {
    return own_directory(arena, c, dl_format(arena, "%d", ranks), err);
}

const char *dl_run_dir_former(dl_arena *arena, const dl_config *c, int ranks) {
    dl_error none = {0};
    const char *own = dl_run_dir(arena, c, ranks, &none),
               *was = directory(arena, c, former, dl_format(arena, "%d", ranks), &none);
    return dl_config_is_given(c, DL_KEY_run_dir) || !own || !was || strcmp(own, was) == 0 ? NULL
                                                                                          : was;
}

/* The digits that an entry has where the folder's name has the mark; NULL: it is called otherwise.
 */
static const char *digits_at(dl_arena *arena, const char *name, const char *entry, char mark) {
    const char *at = strchr(name, mark);
    size_t before = (size_t)(at - name), after = strlen(at + 1), n = strlen(entry);
    if (n <= before + after || strncmp(entry, name, before) != 0 ||
        strcmp(entry + n - after, at + 1) != 0)
        return NULL;
    size_t digits = n - before - after;
    return strspn(entry + before, "0123456789") >= digits
               ? dl_strndup(arena, entry + before, digits)
               : NULL;
}

dl_run_dirs dl_other_run_dirs(dl_arena *arena, const dl_config *c, int ranks) {
    static const char mark[] = "\001"; /* no folder of a run is called so */
    dl_run_dirs dirs = {0};
    dl_error none = {0};
    const char *own = dl_run_dir(arena, c, ranks, &none),
               *form = own_directory(arena, c, mark, &none);
    const char *at = form ? strchr(form, *mark) : NULL;
    if (!own || !at) return dirs;
    const char *name = at; /* of the folder with the mark */
    while (name > form && name[-1] != '/') name--;
    const char *parent = name > form ? dl_strndup(arena, form, (size_t)(name - form)) : ".";
    name = dl_strndup(arena, name, strcspn(name, "/"));
    DIR *d = opendir(parent);
    for (const struct dirent *e; d && (e = readdir(d));) {
        const char *number = digits_at(arena, name, e->d_name, *mark);
        const char *dir = number ? own_directory(arena, c, number, &none) : NULL;
        if (dir && strcmp(dir, own) != 0) dl_push(arena, &dirs, dir);
    }
    if (d) closedir(d);
    return dirs;
}

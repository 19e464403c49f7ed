#include "runtime/job/run_dir.h"

#include <dirent.h>
#include <string.h>

#include "ir/base/str.h"

/* A key's value with its words filled in, `ranks` for {ranks}. */
static const char *fill_in(dl_arena *arena, const dl_config *c, dl_key key, const char *ranks,
                           dl_error *err) {
    const struct {
        const char *name, *value;
    } words[] = {{"expdir", dl_config_str(c, DL_KEY_expdir)},
                 {"config", c->name},
                 {"ranks", ranks},
                 {"run_num", dl_config_str(c, DL_KEY_run_num)}};
    enum { WORDS = sizeof words / sizeof *words };
    const char *run_num = dl_config_str(c, DL_KEY_run_num), *s = dl_config_str(c, key);
    if (!dl_is_file_name(c->name) || !dl_is_file_name(run_num))
        return dl_fail(err, DL_USAGE,
                       "no run can be kept under '%.80s' and '%.80s': both name a folder", c->name,
                       run_num),
               NULL;
    const dl_key written[] = {key, DL_KEY_expdir, DL_KEY_run_num};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (!dl_config_check_written(c, written[i], err)) return NULL;
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
        dl_config_fail(c, key, err, "%.60s is none of {expdir}, {config}, {ranks} and {run_num}",
                       s);
    dl_buf_free(&b);
    return text;
}

const char *dl_run_fill(dl_arena *arena, const dl_config *c, dl_key key, int ranks, dl_error *err) {
    return fill_in(arena, c, key, dl_format(arena, "%d", ranks), err);
}

/* The directory, without slashes at its end. */
static const char *directory(dl_arena *arena, const dl_config *c, const char *ranks,
                             dl_error *err) {
    const char *path = fill_in(arena, c, DL_KEY_run_dir, ranks, err);
    size_t n = path ? strlen(path) : 0;
    while (n > 1 && path[n - 1] == '/') n--;
    return path ? dl_strndup(arena, path, n) : NULL;
}

const char *dl_run_dir(dl_arena *arena, const dl_config *c, int ranks, dl_error *err) {
    return directory(arena, c, dl_format(arena, "%d", ranks), err);
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
    const char *own = dl_run_dir(arena, c, ranks, &none), *form = directory(arena, c, mark, &none);
    const char *at = form ? strchr(form, *mark) : NULL;
    if (!own || !at) return dirs;
    const char *name = at; /* of the folder with the mark */
    while (name > form && name[-1] != '/') name--;
    const char *parent = name > form ? dl_strndup(arena, form, (size_t)(name - form)) : ".";
    name = dl_strndup(arena, name, strcspn(name, "/"));
    DIR *d = opendir(parent);
    for (const struct dirent *e; d && (e = readdir(d));) {
        const char *number = digits_at(arena, name, e->d_name, *mark);
        const char *dir = number ? directory(arena, c, number, &none) : NULL;
        if (dir && strcmp(dir, own) != 0) dl_push(arena, &dirs, dir);
    }
    if (d) closedir(d);
    return dirs;
}

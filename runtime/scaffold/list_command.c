/* `dlc list`: the models of a directory, the configurations of their YAML files, and presets. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontends/yaml/config.h"
#include "frontends/yaml/data_file.h"
#include "ir/base/foreign.h"
#include "ir/base/input.h"
#include "runtime/scaffold/scaffold.h"

static const dl_option options[] = {
    {"json", 0, NULL, "print one JSON object"}, DL_OPTION_HELP, {0}};

static const char usage[] =
    "usage: dlc list [DIR] [--json]\n\n"
    "Lists the models (.dl) of a directory and of the folders in it, with the first sentence of\n"
    "each; the configurations of its YAML files (config/*.yaml); and the presets of\n"
    "configurations. Without DIR: the models that are installed with dlc.\n\noptions:\n";

typedef struct {
    const char *path, *text; /* of a model its first comment, of a YAML file its configurations */
} entry;
typedef DL_ARRAY(entry) entry_list;

typedef struct {
    dl_arena *arena;
    const dl_config *keys; /* that all configurations have */
    entry_list models, files;
} listing;

static int by_path(const void *a, const void *b) {
    return strcmp(((const entry *)a)->path, ((const entry *)b)->path);
}

/* Whether a sentence ends with the character, and not the words "et al." alone. */
static bool is_stop(const char *line, size_t at) {
    return line[at] == '.' && line[at + 1] == ' ' && isupper((unsigned char)line[at + 2]) &&
           !(at > 1 && strncmp(line + at - 2, "al", 2) == 0);
}

/* The first sentence of the comment at a model's head; "": it has none. */
static const char *comment_of(dl_arena *arena, const char *text) {
    if (*text != '#') return "";
    dl_buf b = {0};
    for (const char *line = text; *line == '#' && !(b.n && b.at[b.n - 1] == '.');) {
        size_t n = strcspn(line, "\n"), skip = strspn(line, "# "), end = 0;
        while (end < n && !is_stop(line, end)) end++;
        if (skip > n) skip = n;
        end += end < n; /* with the stop */
        dl_putf(&b, "%s%.*s", b.n ? " " : "", (int)(end > skip ? end - skip : 0), line + skip);
        line += n + (line[n] == '\n');
    }
    const char *sentence = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return sentence;
}

/* The names of a file's configurations, "base, tiny"; "one" where its top has keys. */
static const char *names_of(const listing *l, const dl_yaml *file) {
    dl_buf b = {0};
    dl_arena *arena = l->arena;
    for (int i = 0; file->kind == DL_YAML_MAP && i < file->entries.n; i++) {
        const dl_yaml_entry *e = &file->entries.at[i];
        dl_error none = {0};
        bool usual = strcmp(e->key, "base") == 0 || strcmp(e->key, "default") == 0;
        if (!usual && dl_config_key_of(l->keys, e->key, e->place, &none)) return "one";
    }
    for (int i = 0; file->kind == DL_YAML_MAP && i < file->entries.n; i++)
        if (file->entries.at[i].value->kind == DL_YAML_MAP)
            dl_putf(&b, "%s%s", b.n ? ", " : "", file->entries.at[i].key);
    const char *text = dl_strndup(arena, b.n ? b.at : "", b.n);
    dl_buf_free(&b);
    return text;
}

static bool is_in_config(dl_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && dl_ends_with(dl_strndup(arena, path, (size_t)(slash - path)), "/config");
}

static bool take_file(listing *l, const char *path, dl_error *err) {
    enum { MOST = 16 << 20 };
    size_t n;
    if (dl_ends_with(path, ".dl")) {
        const char *text = dl_read_file(l->arena, path, MOST, &n, err);
        if (text) dl_push(l->arena, &l->models, (entry){path, comment_of(l->arena, text)});
        return text != NULL;
    }
    if (!dl_ends_with(path, ".yaml") || !is_in_config(l->arena, path) ||
        dl_ends_with(path, "/names.yaml"))
        return true;
    const dl_yaml *file = dl_yaml_read_file(l->arena, path, err);
    if (file) dl_push(l->arena, &l->files, (entry){path, names_of(l, file)});
    return file != NULL;
}

/* The files of a directory and, `inside`, of the folders in it. */
static bool take_dir(listing *l, const char *dir, bool inside, dl_error *err) {
    DIR *d = opendir(dir);
    bool ok = d || dl_fail_errno(err, DL_IO, "cannot list %s", dir);
    for (struct dirent *e; ok && (e = readdir(d));) {
        if (*e->d_name == '.') continue;
        const char *path = dl_format(l->arena, "%s/%s", dir, e->d_name);
        bool is_file = dl_ends_with(path, ".dl") || dl_ends_with(path, ".yaml");
        if (is_file)
            ok = take_file(l, path, err);
        else if (inside && access(dl_format(l->arena, "%s/.", path), R_OK) == 0)
            ok = take_dir(l, path, false, err);
    }
    if (d) closedir(d);
    return ok;
}

static void put_entries(const dl_invocation *call, const char *title, const entry_list *all) {
    int width = 0;
    for (int i = 0; i < all->n; i++) {
        int n = (int)strlen(dl_shown(call->arena, all->at[i].path));
        if (n > width) width = n;
    }
    dl_console_text(call->out, "%s\n", title);
    for (int i = 0; i < all->n; i++)
        dl_console_text(call->out, "  %-*s  %s\n", width, dl_shown(call->arena, all->at[i].path),
                        dl_shown(call->arena, all->at[i].text));
}

static void put_json_entries(dl_buf *b, const char *key, const char *path, const char *value,
                             const entry_list *all) {
    dl_putf(b, "\"%s\": [", key);
    for (int i = 0; i < all->n; i++) {
        dl_putf(b, "%s{\"%s\": ", i ? ", " : "", path);
        dl_yaml_put_json_string(b, all->at[i].path);
        dl_putf(b, ", \"%s\": ", value);
        dl_yaml_put_json_string(b, all->at[i].text);
        dl_puts(b, "}");
    }
    dl_puts(b, "]");
}

static bool list(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    char *none[] = {"dlc", NULL};
    listing l = {.arena = call->arena, .keys = dl_config_open(call->arena, 1, none, NULL, err)};
    entry_list chosen = {0};
    const char *dir =
        c->positional.n ? c->positional.at[0] : dl_find_data_file(call->arena, "models", err);
    if (!l.keys || !dir || !take_dir(&l, dir, true, err)) return false;
    if (l.models.n) qsort(l.models.at, (size_t)l.models.n, sizeof *l.models.at, by_path);
    if (l.files.n) qsort(l.files.at, (size_t)l.files.n, sizeof *l.files.at, by_path);
    const char *name, *marks;
    for (int i = 0; dl_config_preset(i, &name, &marks); i++)
        dl_push(call->arena, &chosen,
                (entry){name, *marks ? dl_format(call->arena, "by the keys %s", marks)
                                     : "where no other is chosen"});
    if (!dl_config_option(c, "json")) {
        put_entries(call, "models", &l.models);
        put_entries(call, "configurations (--config NAME)", &l.files);
        put_entries(call, "presets (preset: NAME)", &chosen);
        return true;
    }
    dl_buf b = {0};
    dl_puts(&b, "{");
    put_json_entries(&b, "models", "path", "about", &l.models), dl_puts(&b, ", ");
    put_json_entries(&b, "configurations", "path", "names", &l.files), dl_puts(&b, ", ");
    put_json_entries(&b, "presets", "name", "chosen", &chosen);
    dl_puts(&b, "}\n");
    dl_console_puts(call->out, b.at);
    dl_buf_free(&b);
    return true;
}

const dl_subcommand dl_subcommand_list_models = {
    .name = "list",
    .help = "list models, their configurations, and presets",
    .usage = usage,
    .options = options,
    .options_only = true,
    .most_files = 1,
    .run = list,
};

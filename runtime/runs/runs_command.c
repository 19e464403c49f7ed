/* `dlrun list`, `show` and `compare`. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/foreign.h"
#include "runtime/runs/run_facts.h"
#include "runtime/runs/runs.h"

static const dl_option options[] = {DL_OPTION_HELP, {0}};

enum { MOST_DEPTH = 6, MOST_RUNS = 10000 };

/* ---- dlrun list ---- */

typedef struct {
    dl_arena *arena;
    DL_ARRAY(const char *) dirs;
} run_list;

/* Directories with a metrics.jsonl, down to some depth; links are not followed. */
static void find_runs(run_list *all, const char *dir, int depth) {
    if (!access(dl_format(all->arena, "%s/metrics.jsonl", dir), F_OK))
        dl_push(all->arena, &all->dirs, dir);
    DIR *d = depth ? opendir(dir) : NULL;
    for (struct dirent *e; d && all->dirs.n < MOST_RUNS && (e = readdir(d));) {
        struct stat st;
        const char *path = dl_format(all->arena, "%s/%s", dir, e->d_name);
        if (*e->d_name != '.' && strcmp(e->d_name, "checkpoints") != 0 && !lstat(path, &st) &&
            S_ISDIR(st.st_mode))
            find_runs(all, path, depth - 1);
    }
    if (d) closedir(d);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool list(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    run_list all = {.arena = call->arena};
    const char *root = c->positional.n ? c->positional.at[0] : "runs";
    if (access(root, R_OK)) return dl_fail(err, DL_IO, "no directory %s", root);
    find_runs(&all, root, MOST_DEPTH);
    if (!all.dirs.n) return dl_fail(err, DL_INPUT, "no run in %s", root);
    qsort(all.dirs.at, (size_t)all.dirs.n, sizeof *all.dirs.at, by_name);
    int width = 3;
    for (int i = 0; i < all.dirs.n; i++) {
        int n = (int)strlen(dl_shown(call->arena, all.dirs.at[i]));
        width = n > width ? n : width;
    }
    dl_console_text(call->out, "%-*s  %6s  %9s  %12s  %-19s  state\n", width, "run", "epochs",
                    "steps", "best loss", "ended");
    for (int i = 0; i < all.dirs.n; i++) {
        dl_run_facts r;
        if (!dl_run_read(call->arena, all.dirs.at[i], &r, err)) return false;
        dl_console_text(call->out, "%-*s  %6lld  %9lld  %12.6g  %-19s  %s\n", width,
                        dl_shown(call->arena, r.dir), (long long)r.epochs, (long long)r.steps,
                        dl_run_least(dl_run_loss(&r)), r.ended, r.done ? "done" : "not done");
    }
    return true;
}

const dl_subcommand dl_subcommand_list = {
    .name = "list",
    .help = "list runs: epochs, steps, best loss, end",
    .usage = "usage: dlrun list [DIR]\n\nLists the runs in a directory (runs), and in those below "
             "it.\n\noptions:\n",
    .options = options,
    .options_only = true,
    .most_files = 1,
    .run = list,
};

/* ---- dlrun show ---- */

static bool show(dl_invocation *call, dl_error *err) {
    dl_run_facts r;
    dl_buf b = {0};
    if (call->config->positional.n != 1) return dl_fail(err, DL_USAGE, "usage: dlrun show RUN");
    if (!dl_run_read(call->arena, call->config->positional.at[0], &r, err)) return false;
    dl_putf(&b, "%s: %lld epochs, %lld steps, %s to %s, %s\n", r.dir, (long long)r.epochs,
            (long long)r.steps, r.begun, r.ended, r.done ? "done" : "not done");
    dl_puts(&b, "\nsettings that are not the default\n");
    for (int i = 0; i < r.settings.n; i++)
        if (!dl_run_is_default(&r.settings.at[i]))
            dl_putf(&b, "  %-26s %s\n", r.settings.at[i].key, r.settings.at[i].value);
    dl_puts(&b, "\nvalue                               last          least\n");
    for (int i = 0; i < r.curves.n; i++) {
        const dl_run_curve *c = &r.curves.at[i];
        dl_putf(&b, "  %-26s %12.6g   %12.6g\n", c->tag, c->values.at[c->values.n - 1],
                dl_run_least(c));
    }
    dl_puts(&b, "\nfrom the log\n");
    for (int i = 0; i < r.about.n; i++) dl_putf(&b, "  %s\n", r.about.at[i]);
    for (char *p = b.at, *end; *p; p = end + 1) { /* text of files is shown line by line */
        end = strchr(p, '\n'), *end = 0;
        dl_console_text(call->out, "%s\n", dl_shown(call->arena, p));
    }
    dl_buf_free(&b);
    return true;
}

const dl_subcommand dl_subcommand_show = {
    .name = "show",
    .help = "show a run: settings that are not the default, last and least values",
    .usage = "usage: dlrun show RUN\n\nShows a run's directory: its settings that are not the "
             "default, the last and the least\nof each value, and what its log says before the "
             "first step.\n\noptions:\n",
    .options = options,
    .options_only = true,
    .most_files = 1,
    .run = show,
};

/* ---- dlrun compare ---- */

static void put_row(const dl_invocation *call, const char *name, const char *a, const char *b) {
    dl_console_text(call->out, "%-26s  %-28s  %s\n", dl_shown(call->arena, name),
                    dl_shown(call->arena, a ? a : "-"), dl_shown(call->arena, b ? b : "-"));
}

/* Every setting of a that b has otherwise or lacks; `only`: those that it lacks. */
static void put_differences(const dl_invocation *call, const dl_run_facts *a, const dl_run_facts *b,
                            bool only) {
    for (int i = 0; i < a->settings.n; i++) {
        const dl_run_setting *s = &a->settings.at[i];
        const char *other = dl_run_find_setting(b, s->key);
        if (only ? other != NULL : other && !strcmp(other, s->value)) continue;
        if (only)
            put_row(call, s->key, NULL, s->value);
        else
            put_row(call, s->key, s->value, other);
    }
}

static const char *least_text(dl_arena *arena, const dl_run_facts *r, const char *tag) {
    const dl_run_curve *c = dl_run_find_curve(r, tag);
    return c ? dl_format(arena, "%.6g (least %.6g)", c->values.at[c->values.n - 1], dl_run_least(c))
             : NULL;
}

static bool compare(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    dl_run_facts r[2];
    if (c->positional.n != 2) return dl_fail(err, DL_USAGE, "usage: dlrun compare RUN RUN");
    for (int i = 0; i < 2; i++)
        if (!dl_run_read(call->arena, c->positional.at[i], &r[i], err)) return false;
    put_row(call, "", r[0].dir, r[1].dir);
    put_row(call, "steps", dl_format(call->arena, "%lld", (long long)r[0].steps),
            dl_format(call->arena, "%lld", (long long)r[1].steps));
    dl_console_puts(call->out, "settings that differ\n");
    put_differences(call, &r[0], &r[1], false);
    put_differences(call, &r[1], &r[0], true);
    dl_console_puts(call->out, "values\n");
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < r[k].curves.n; i++) {
            const char *tag = r[k].curves.at[i].tag;
            if (k && dl_run_find_curve(&r[0], tag)) continue;
            put_row(call, tag, least_text(call->arena, &r[0], tag),
                    least_text(call->arena, &r[1], tag));
        }
    return true;
}

const dl_subcommand dl_subcommand_compare = {
    .name = "compare",
    .help = "compare two runs: settings that differ, values",
    .usage = "usage: dlrun compare RUN RUN\n\nShows the settings in which two runs differ, and the "
             "last and least of their values.\n\noptions:\n",
    .options = options,
    .options_only = true,
    .most_files = 2,
    .run = compare,
};

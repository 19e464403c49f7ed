/* `dlc cache`: lists compiled kernels and plans on disk, removes those that were not used for
 * longest, and fills a folder with the loops that models share. */
#include <string.h>
#include <time.h>

#include "compiler/jit/cache_prune.h"
#include "compiler/target/backend.h"
#include "ir/base/dirs.h"
#include "ir/base/foreign.h"
#include "runtime/analyze/analyze.h"

static const dl_option options[] = {
    {"max", 0, "SIZE", "prune: what is left at most, such as 1MiB (DLR_CACHE_MAX, or 1GiB)"},
    {"target", 0, "NAME", "fill: the CPUs, such as cpu:avx2 (cpu: this one); several with commas"},
    DL_OPTION_HELP,
    {0}};

static const char usage[] =
    "usage: dlc cache list\n"
    "       dlc cache prune [--max=SIZE]\n"
    "       dlc cache fill FOLDER [--target=NAME,...]\n\n"
    "Compiled kernels and plans are kept in DLR_CACHE_DIR, or $XDG_CACHE_HOME/dlc, or "
    "~/.cache/dlc.\n"
    "A command that has added some removes those that were not used for longest beyond a bound: "
    "DLR_CACHE_MAX,\n"
    "1 GiB without; 0 is no bound. Whatever is removed is compiled again when it is needed. "
    "Folders of\n"
    "DLR_CACHE_PATH, and lib/dlc/kernels of the installation, are only read.\n\n"
    "commands:\n"
    "  list   each file, what it holds, its size and its last use; then the total\n"
    "  prune  remove the files that were not used for longest, until the rest is no larger than "
    "--max\n"
    "  fill   write the loops that most models share to FOLDER, which then belongs in "
    "DLR_CACHE_PATH\n\n";

static const char *size_text(dl_arena *arena, int64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    double n = (double)bytes / 1024;
    int i = 0;
    if (bytes < 1024) return dl_format(arena, "%lld bytes", (long long)bytes);
    for (; n >= 1024 && i < 2; i++) n /= 1024;
    return dl_format(arena, "%.1f %s", n, units[i]);
}

static bool list_one(const dl_invocation *call, const char *dir, const char *rest, dl_error *err) {
    dl_arena *arena = call->arena;
    int64_t total = 0;
    int n;
    const dl_cache_entry *entries = dl_cache_list(arena, dir, true, &n, err);
    if (!entries) return false;
    for (int i = 0; i < n; i++) {
        char used[32] = "";
        struct tm at;
        if (localtime_r(&entries[i].used, &at)) strftime(used, sizeof used, "%Y-%m-%d %H:%M", &at);
        dl_console_text(call->out, "%-22s %-17s %12s  %s\n", entries[i].name, entries[i].kind,
                        size_text(arena, entries[i].bytes), used);
        total += entries[i].bytes;
    }
    dl_console_text(call->out, "%s: %d file%s, %s%s\n", dl_shown(arena, dir), n, n == 1 ? "" : "s",
                    size_text(arena, total), rest);
    return true;
}

/* The loops of each of the targets that --target names. */
static bool fill(const dl_invocation *call, const char *dir, dl_error *err) {
    const char *said = dl_config_option(call->config, "target");
    dl_arena *arena = call->arena;
    if (!dl_make_dirs(dir, 0755, err)) return false;
    for (const char *at = said ? said : "cpu"; at;) {
        const char *name = dl_strndup(arena, at, strcspn(at, ","));
        const dl_target *t = dl_target_find(arena, name, err);
        if (!t) return false;
        if (!t->backend->put_libraries)
            return dl_fail(err, DL_USAGE, "--target=%.60s: kernels of this target share no loops",
                           name);
        if (!t->backend->put_libraries(arena, t, dir, call->out, err)) return false;
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return list_one(call, dir, "", err);
}

static bool list(const dl_invocation *call, const char *dir, dl_error *err) {
    dl_arena *arena = call->arena;
    int64_t bound;
    if (!dl_cache_bound(&bound, err)) return false;
    const char *most = bound ? dl_format(arena, "; at most %s are kept", size_text(arena, bound))
                             : "; without a bound";
    if (!list_one(call, dir, most, err)) return false;
    const dl_cache *c = dl_cache_open_shared(arena, call->out);
    for (int i = 0; i < c->ndirs; i++)
        if (!list_one(call, c->dirs[i], "; only read", err)) return false;
    return true;
}

static bool prune(const dl_invocation *call, const char *dir, dl_error *err) {
    const char *said = dl_config_option(call->config, "max");
    dl_arena *arena = call->arena;
    dl_cache_pruned done;
    int64_t most;
    if (!dl_cache_bound(&most, err)) return false;
    if (said && !strcmp(said, "0"))
        most = 0;
    else if (said && !dl_parse_size(said, &most))
        return dl_fail(err, DL_USAGE, "--max=%.100s: a size such as 1GiB or 512MiB", said);
    else if (!said && !most)
        return dl_fail(err, DL_USAGE,
                       "how much may be left? --max=1GiB (DLR_CACHE_MAX=0 is no bound)");
    if (!dl_cache_prune(arena, dir, most, &done, err)) return false;
    dl_console_text(call->out, "%s: removed %d of %d files, %s; %s are left\n",
                    dl_shown(arena, dir), done.removed, done.files,
                    size_text(arena, done.removed_bytes),
                    size_text(arena, done.bytes - done.removed_bytes));
    return true;
}

static bool run(dl_invocation *call, dl_error *err) {
    const int n = call->config->positional.n;
    const char *dir = dl_cache_own_path(call->arena),
               *what = n ? call->config->positional.at[0] : "",
               *folder = n > 1 ? call->config->positional.at[1] : NULL;
    bool lists = !strcmp(what, "list"), prunes = !strcmp(what, "prune"),
         fills = !strcmp(what, "fill");
    if (!lists && !prunes && !fills)
        return dl_fail(err, DL_USAGE,
                       "%s%.60s%s`dlc cache list`, `dlc cache prune` or `dlc cache fill`?",
                       *what ? "cache has no command '" : "", what, *what ? "': " : "");
    if (!prunes && dl_config_option(call->config, "max"))
        return dl_fail(err, DL_USAGE, "--max is an option of `dlc cache prune`");
    if (!fills && dl_config_option(call->config, "target"))
        return dl_fail(err, DL_USAGE, "--target is an option of `dlc cache fill`");
    if (fills != (folder != NULL))
        return dl_fail(err, DL_USAGE,
                       fills ? "which folder? `dlc cache fill FOLDER`"
                             : "a folder goes with `dlc cache fill`");
    if (fills) return fill(call, folder, err);
    if (!dir) return dl_fail(err, DL_IO, "there is no cache: HOME is not set");
    return lists ? list(call, dir, err) : prune(call, dir, err);
}

const dl_subcommand dl_subcommand_cache = {
    .name = "cache",
    .help = "list compiled kernels and plans that are kept, remove the oldest, or ship loops",
    .usage = usage,
    .options = options,
    .options_only = true,
    .most_files = 2,
    .run = run,
};

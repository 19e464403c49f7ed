/* `dlc cache`: lists compiled kernels and plans on disk, and removes those that were not used for
 * longest. */
#include <string.h>
#include <time.h>

#include "compiler/jit/cache_prune.h"
#include "ir/base/foreign.h"
#include "runtime/analyze/analyze.h"

static const dl_option options[] = {
    {"max", 0, "SIZE", "prune: what is left at most, such as 1MiB (DLR_CACHE_MAX, or 1GiB)"},
    DL_OPTION_HELP,
    {0}};

static const char usage[] =
    "usage: dlc cache list\n"
    "       dlc cache prune [--max=SIZE]\n\n"
    "Compiled kernels and plans are kept in DLR_CACHE_DIR, or $XDG_CACHE_HOME/dlc, or "
    "~/.cache/dlc.\n"
    "A command that has added some removes those that were not used for longest beyond a bound: "
    "DLR_CACHE_MAX,\n"
    "1 GiB without; 0 is no bound. Whatever is removed is compiled again when it is needed. "
    "Folders of\n"
    "DLR_CACHE_PATH are only read.\n\n"
    "commands:\n"
    "  list   each file, what it holds, its size and its last use; then the total\n"
    "  prune  remove the files that were not used for longest, until the rest is no larger than "
    "--max\n\n";

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

static bool list(const dl_invocation *call, const char *dir, dl_error *err) {
    dl_arena *arena = call->arena;
    int64_t bound;
    if (!dl_cache_bound(&bound, err)) return false;
    const char *most = bound ? dl_format(arena, "; at most %s are kept", size_text(arena, bound))
                             : "; without a bound";
    if (!list_one(call, dir, most, err)) return false;
    const dl_cache *c = dl_cache_open_shared(arena, call->out);
    for (int i = 0; i < c->ndirs; i++)
        if (!list_one(call, c->dirs[i], "; only read (DLR_CACHE_PATH)", err)) return false;
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
    const char *dir = dl_cache_own_path(call->arena),
               *what = call->config->positional.n ? call->config->positional.at[0] : "";
    bool lists = !strcmp(what, "list"), prunes = !strcmp(what, "prune");
    if (!lists && !prunes)
        return dl_fail(err, DL_USAGE, "%s%.60s%s`dlc cache list` or `dlc cache prune`?",
                       *what ? "cache has no command '" : "", what, *what ? "': " : "");
    if (lists && dl_config_option(call->config, "max"))
        return dl_fail(err, DL_USAGE, "--max is an option of `dlc cache prune`");
    if (!dir) return dl_fail(err, DL_IO, "there is no cache: HOME is not set");
    return lists ? list(call, dir, err) : prune(call, dir, err);
}

const dl_subcommand dl_subcommand_cache = {
    .name = "cache",
    .help = "list compiled kernels and plans that are kept, or remove the oldest",
    .usage = usage,
    .options = options,
    .options_only = true,
    .most_files = 1,
    .run = run,
};

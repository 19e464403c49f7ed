/* `dlrun report`: runs read, their steps planned, one page written. */
#include <unistd.h>

#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/runs/report_page.h"
#include "runtime/runs/runs.h"

static const dl_option options[] = {
    {"output", 'o', "FILE", "the page to write (.html)"}, DL_OPTION_HELP, {0}};

enum { MOST_RUNS = 8, MOST_PICTURE = 16 << 20 };

static const char usage[] =
    "usage: dlrun report RUN... -o FILE.html\n"
    "       dlrun report SWEEP -o FILE.html\n\n"
    "Writes one page about runs, side by side: curves, the configuration and what differs, the "
    "log's\nlines before the first step, statistics of the data, kernels with their lines of the "
    "model and a\nroofline (measured where the run had --profile), memory over a step, pictures. "
    "Of "
    "a sweep's directory:\nits trials over parallel axes, their curves, a table, and the best run. "
    "The page loads nothing, so\nthat it can be mailed.\n\noptions:\n";

static const char *base64_of(dl_arena *arena, const unsigned char *p, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = dl_alloc(arena, (n + 2) / 3 * 4 + 1), *to = text;
    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) |
                     (i + 2 < n ? p[i + 2] : 0);
        for (int k = 0; k < 4; k++)
            *to++ = i + (size_t)k > n ? '=' : digits[v >> (18 - 6 * k) & 63];
    }
    return *to = 0, text;
}

static bool read_picture(dl_arena *arena, dl_reported_run *r, dl_error *err) {
    size_t n;
    const char *path = dl_format(arena, "%s/prediction.png", r->facts.dir);
    if (access(path, F_OK)) return true;
    const char *bytes = dl_read_file(arena, path, MOST_PICTURE, &n, err);
    if (bytes) r->picture = base64_of(arena, (const unsigned char *)bytes, n);
    return bytes != NULL;
}

/* A run whose step cannot be planned (it has no checkpoint yet) is reported without it. */
static bool read_run(dl_invocation *call, const char *dir, dl_reported_run *r, dl_error *err) {
    dl_error no = {0};
    *r = (dl_reported_run){0};
    if (!dl_run_read(call->arena, dir, &r->facts, err)) return false;
    if (!dl_run_cost_find(call->arena, &r->facts, call->out, &r->cost, &no)) {
        r->no_cost = dl_strdup(call->arena, no.message);
        dl_console_warning(
            call->out, dl_format(call->arena, "no kernels and memory of %s: %s", dir, no.message));
    }
    return read_picture(call->arena, r, err);
}

static bool run(dl_invocation *call, dl_error *err) {
    const dl_config *c = call->config;
    const char *to = dl_config_option(c, "output");
    if (!c->positional.n || !to)
        return dl_fail(err, DL_USAGE, "usage: dlrun report RUN... -o FILE.html");
    if (!dl_output_check(to, err)) return false;
    dl_reported_run runs[MOST_RUNS];
    const dl_reported_sweep *sweep = NULL;
    int n = 0;
    for (int i = 0; i < c->positional.n; i++) {
        const char *dir = c->positional.at[i];
        bool is_sweep = dl_is_sweep(call->arena, dir);
        if (is_sweep && sweep)
            return dl_fail(err, DL_USAGE, "%s is a second sweep; a page has one", dir);
        if (is_sweep && !(sweep = dl_report_sweep_read(call->arena, dir, &dir, err))) return false;
        if (dir && !read_run(call, dir, &runs[n++], err)) return false;
    }
    dl_buf b = {0};
    dl_put_report(&b, call->arena, sweep, n, runs);
    bool ok = dl_write_file(to, b.at, b.n, err);
    dl_buf_free(&b);
    return ok;
}

const dl_subcommand dl_subcommand_report = {
    .name = "report",
    .help = "write a page about runs: curves, configuration, kernels, memory",
    .usage = usage,
    .options = options,
    .options_only = true,
    .most_files = MOST_RUNS,
    .run = run,
};

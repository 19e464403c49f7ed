/* `dlc compile --memory=SIZE`: the largest batch whose step fits into so much memory, in each
 * precision. */
#include <stdio.h>
#include <stdlib.h>

#include "ir/base/cpus.h"
#include "runtime/analyze/max_batch.h"

static const int64_t most_batch = (int64_t)1 << 24;
static const char *const modes[] = {"none", "bf16", "fp16"};
enum { NMODES = sizeof modes / sizeof *modes };

static bool parse_size(const char *text, int64_t *bytes, dl_error *err) {
    return dl_parse_size(text, bytes) ||
           dl_fail(err, DL_USAGE, "--memory=%.100s: a size such as 8GiB or 512MiB", text);
}

/* Planned bytes of a step of `batch` samples in a precision; -1 with an error. */
static int64_t find_peak(const dl_invocation *call, const char *mode, int64_t batch,
                         dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    const char *const own[] = {dl_format(arena, "--amp_mode=%s", mode), "--enable_amp=false",
                               dl_format(arena, "--local_batch_size=%lld", (long long)batch),
                               dl_format(arena, "--global_batch_size=%lld", (long long)batch)};
    dl_invocation inner = *call;
    inner.arena = arena;
    dl_session *s = dl_open_session_with(&inner, (int)(sizeof own / sizeof *own), own, err);
    dl_compile_options opt;
    int64_t peak = -1;
    if (s && dl_session_options(s, dl_config_option(s->config, "target"), &opt, err)) {
        opt.link = false;
        dl_plan *p = dl_session_compile(s, &opt, err);
        if (p) peak = dl_plan_peak(p, dl_cpus_allowed());
    }
    dl_session_close(s);
    dl_arena_free(arena);
    return peak;
}

/* The largest batch that fits, 0: not even one sample does. *peak: its bytes, or those of one
 * sample. -1 with an error. */
static int64_t find_batch(const dl_invocation *call, const char *mode, int64_t bytes, int64_t *peak,
                          dl_error *err) {
    int64_t fits = 0, beyond = 1;
    for (; beyond < most_batch; fits = beyond, beyond *= 2) {
        int64_t of = find_peak(call, mode, beyond, err);
        if (of < 0) return -1;
        if (of <= bytes || !fits) *peak = of;
        if (of > bytes) break;
    }
    while (fits && beyond - fits > 1) {
        int64_t middle = fits + (beyond - fits) / 2, of = find_peak(call, mode, middle, err);
        if (of < 0) return -1;
        if (of <= bytes) *peak = of;
        *(of <= bytes ? &fits : &beyond) = middle;
    }
    return fits;
}

bool dl_print_max_batch(const dl_invocation *call, const char *memory, bool json, dl_error *err) {
    const dl_console *out = call->out;
    int64_t bytes = 0;
    if (!parse_size(memory, &bytes, err)) return false;
    if (json)
        dl_console_text(out, "{\"memory_bytes\": %lld, \"largest_batch\": {", (long long)bytes);
    else
        dl_console_text(out, "largest batch in %.2f GiB, with %d threads\n",
                        (double)bytes / (1 << 30), dl_cpus_allowed());
    for (int i = 0; i < NMODES; i++) {
        int64_t peak = 0, batch = find_batch(call, modes[i], bytes, &peak, err);
        if (batch < 0) return false;
        if (json)
            dl_console_text(out, "%s\"%s\": {\"batch\": %lld, \"peak_bytes\": %lld}", i ? ", " : "",
                            modes[i], (long long)batch, (long long)peak);
        else
            dl_console_text(out, "  amp_mode %-4s  %6lld  %10.1f MiB%s\n", modes[i],
                            (long long)batch, (double)peak / (1 << 20),
                            batch ? "" : " for one sample");
    }
    if (json) dl_console_text(out, "}}\n");
    return true;
}

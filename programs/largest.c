/* `dlc compile --memory=SIZE`: the largest batch whose step fits into so much memory, in each
 * precision. */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "ir/base/cpus.h"
#include "programs/dlc.h"

enum { OWN = 4 /* keys that the search sets itself */ };
static const int64_t most_batch = (int64_t)1 << 24;
static const char *const modes[] = {"none", "bf16", "fp16"};
enum { NMODES = sizeof modes / sizeof *modes };

/* 8GiB, 512MiB, 1.5G, a number of bytes. */
static bool parse_size(const char *text, int64_t *bytes, dl_error *err) {
    static const char *const units[] = {"", "K", "M", "G", "T"};
    char *end;
    double n = strtod(text, &end);
    for (int i = 0; i < 5 && end != text; i++) {
        size_t k = strlen(units[i]);
        if (k && strncasecmp(end, units[i], k) != 0) continue;
        if (end[k] && strcasecmp(end + k, "B") != 0 && strcasecmp(end + k, "iB") != 0) continue;
        n *= (double)((int64_t)1 << 10 * i);
        if (!(n >= 1 && n < 0x1p62)) break;
        return *bytes = (int64_t)n, true;
    }
    return dl_fail(err, DL_USAGE, "--memory=%.100s: a size such as 8GiB or 512MiB", text);
}

typedef struct {
    int argc;
    char **argv;
    const dl_option *options;
    const char *mode;
} search;

/* Planned bytes of a step of `batch` samples; -1: printed, *code is the exit code. */
static int64_t find_peak(const search *s, int64_t batch, int *code) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *const own[OWN] = {dl_format(arena, "--amp_mode=%s", s->mode), "--enable_amp=false",
                                  dl_format(arena, "--local_batch_size=%lld", (long long)batch),
                                  dl_format(arena, "--global_batch_size=%lld", (long long)batch)};
    int argc = s->argc; /* what stands last holds */
    char **argv = DL_NEWS(arena, char *, argc + OWN + 1);
    memcpy(argv, s->argv, sizeof *argv * (size_t)argc);
    for (int i = 0; i < OWN; i++) argv[argc++] = (char *)own[i];
    dl_config *c = dl_config_open(arena, argc, argv, s->options, &err);
    dl_session *session = c ? dlc_session_again(arena, c, code) : NULL;
    dl_compile_options opt;
    int64_t peak = -1;
    if (!c) *code = dlc_fail(&err);
    if (session && dl_session_options(session, dl_config_option(c, "target"), &opt, &err)) {
        opt.link = false;
        dl_plan *p = dl_session_compile(session, &opt, &err);
        if (p) peak = dl_plan_peak(p, dl_cpus_allowed());
    }
    if (session && peak < 0) *code = dlc_fail(&err);
    dl_session_close(session);
    dl_arena_free(arena);
    return peak;
}

/* The largest batch that fits, 0: not even one sample does. *peak: its bytes, or those of one
 * sample. -1: printed. */
static int64_t find_batch(const search *s, int64_t bytes, int64_t *peak, int *code) {
    int64_t fits = 0, beyond = 1;
    for (; beyond < most_batch; fits = beyond, beyond *= 2) {
        int64_t of = find_peak(s, beyond, code);
        if (of < 0) return -1;
        if (of <= bytes || !fits) *peak = of;
        if (of > bytes) break;
    }
    while (fits && beyond - fits > 1) {
        int64_t middle = fits + (beyond - fits) / 2, of = find_peak(s, middle, code);
        if (of < 0) return -1;
        if (of <= bytes) *peak = of;
        *(of <= bytes ? &fits : &beyond) = middle;
    }
    return fits;
}

int dlc_largest(const char *memory, int argc, char **argv, const dl_option *options, bool json) {
    dl_error err = {0};
    int64_t bytes = 0;
    int code = 0;
    if (!parse_size(memory, &bytes, &err)) return dlc_fail(&err);
    if (json)
        printf("{\"memory_bytes\": %lld, \"largest_batch\": {", (long long)bytes);
    else
        printf("largest batch in %.2f GiB, with %d threads\n", (double)bytes / (1 << 30),
               dl_cpus_allowed());
    for (int i = 0; i < NMODES; i++) {
        search s = {argc, argv, options, modes[i]};
        int64_t peak = 0, batch = find_batch(&s, bytes, &peak, &code);
        if (batch < 0) return code;
        if (json)
            printf("%s\"%s\": {\"batch\": %lld, \"peak_bytes\": %lld}", i ? ", " : "", modes[i],
                   (long long)batch, (long long)peak);
        else
            printf("  amp_mode %-4s  %6lld  %10.1f MiB%s\n", modes[i], (long long)batch,
                   (double)peak / (1 << 20), batch ? "" : " for one sample");
    }
    if (json) puts("}}");
    return 0;
}

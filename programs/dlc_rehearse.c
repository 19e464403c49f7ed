/* `dlc rehearse`: all ranks of a job in one process, step by step side by side, beside one rank
 * that does all of it. What it proves: the plans' collectives meet, in order and size, and what
 * they make is what one rank makes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs/dlc.h"
#include "programs/rehearsal.h"

static const dl_option options[] = {
    {"ranks", 0, "N", "how many processes the job has"},
    {"json", 0, NULL, "print the figures as one JSON object"},
    {"help", 'h', NULL, "this text"},
    {0},
};

static const char usage[] =
    "usage: dlc rehearse [MODEL.dl] --ranks=N [OPTION...] [--key=value...]\n\n"
    "Compiles the plans of all ranks of a job, runs some training steps of all of them in this one "
    "process, "
    "and\n"
    "the same steps on one rank: every collective must find its partners, and losses and gradients "
    "must be "
    "those\n"
    "of one rank. Takes the memory of all ranks together: small sizes. Exit status 7 when they "
    "differ by "
    "more than\n"
    "1e-4 (fp16: 1e-3), 8 where ranks would wait for each other for ever.\n\n";

static void print(const dl_session *s, const dl_rehearsal *r, bool json) {
    if (json) {
        printf("{\"ranks\": %d, \"steps\": %d, \"collectives\": %lld, \"worst_loss\": %.3g, "
               "\"worst_gradient\": %.3g, \"gradient\": \"%s\", \"bytes_a_step\": %lld}\n",
               r->ranks, r->steps, (long long)r->collectives, r->worst_loss, r->worst_gradient,
               r->gradient ? r->gradient : "", (long long)r->bytes);
        return;
    }
    printf("%s, %d ranks beside one, %d steps\n"
           "  collectives       %lld a rank and step, all of which met; %.2f MiB\n"
           "  losses            differ by %.1e at most\n"
           "  gradients         differ by %.1e at most%s%s\n",
           dl_shown(s->arena, s->model_path), r->ranks, r->steps, (long long)r->collectives,
           (double)r->bytes / 0x1p20, r->worst_loss, r->worst_gradient,
           r->gradient ? ", that of " : "", r->gradient ? r->gradient : "");
}

typedef struct {
    dl_arena *arena;
    int argc;
    char **argv;
} line;

static dl_session *open_again(void *context, dl_error *err) {
    const line *l = context;
    int code = 0;
    dl_session *s = dlc_session_of(l->arena, l->argc, l->argv, options, 0, &code);
    if (!s) dl_fail(err, (dl_code)code, "see above");
    return s;
}

int dlc_rehearse(dl_arena *arena, int argc, char **argv) {
    dl_error err = {0};
    dl_config *c = dl_config_open(arena, argc, argv, options, &err);
    if (!c) return dlc_fail(&err);
    if (dl_config_option(c, "help")) return dlc_help(usage, options, c);
    if (!dl_config_option(c, "ranks")) {
        dl_fail(&err, DL_USAGE, "rehearse wants --ranks=N: how many processes the job has");
        return dlc_fail(&err);
    }
    int code = 0;
    dl_session *one = dlc_session_of(arena, argc, argv, options, 1, &code),
               *each = one ? dlc_session_of(arena, argc, argv, options, 0, &code) : NULL;
    if (!each) return code;
    dlc_tell_warnings(each);
    dl_rehearsal r = {0};
    line l = {arena, argc, argv};
    bool ok =
        one->global_batch == each->global_batch ||
        dl_config_fail(each->config, DL_KEY_local_batch_size, &err,
                       "one rank would have %lld samples, and the job %lld: give global_batch_size",
                       (long long)one->global_batch, (long long)each->global_batch);
    ok = ok && dl_rehearse(arena, one, &(dl_sessions){each, open_again, &l}, &r, &err);
    if (ok) print(each, &r, dl_config_option(c, "json") != NULL);
    dl_session_close(one);
    dl_session_close(each);
    if (!ok) return dlc_fail(&err);
    return r.worst_loss <= r.most && r.worst_gradient <= r.most ? DL_OK : DL_NUMERIC;
}

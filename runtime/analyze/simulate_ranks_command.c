/* `dlc simulate-ranks`: all ranks of a job in one process, step by step, compared with one rank
 * that does all of it. What it proves: the plans' collectives meet, in order and size, and what
 * they make is what one rank makes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/base/foreign.h"
#include "runtime/analyze/analyze.h"
#include "runtime/analyze/simulate_ranks.h"

static const dl_option options[] = {
    {"ranks", 0, "N", "how many processes the job has"},
    {"json", 0, NULL, "print the figures as one JSON object"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dlc simulate-ranks [MODEL.dl] --ranks=N [OPTION...] [--key=value...]\n\n"
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

static void print(const dl_console *out, const dl_session *s, const dl_rank_simulation *r,
                  bool json) {
    if (json) {
        dl_console_text(
            out,
            "{\"ranks\": %d, \"steps\": %d, \"collectives\": %lld, \"worst_loss\": %.3g, "
            "\"worst_gradient\": %.3g, \"gradient\": \"%s\", \"bytes_a_step\": %lld}\n",
            r->ranks, r->steps, (long long)r->collectives, r->worst_loss, r->worst_gradient,
            r->gradient ? r->gradient : "", (long long)r->bytes);
        return;
    }
    dl_console_text(out,
                    "%s, %d ranks compared with one, %d steps\n"
                    "  collectives       %lld a rank and step, all of which met; %.2f MiB\n"
                    "  losses            differ by %.1e at most\n"
                    "  gradients         differ by %.1e at most%s%s\n",
                    dl_shown(s->arena, s->model_path), r->ranks, r->steps,
                    (long long)r->collectives, (double)r->bytes / 0x1p20, r->worst_loss,
                    r->worst_gradient, r->gradient ? ", that of " : "",
                    r->gradient ? r->gradient : "");
}

static dl_session *open_again(void *context, dl_error *err) {
    return dl_reopen_session(context, 0, err);
}

static bool run(dl_invocation *call, dl_error *err) {
    if (!dl_config_option(call->config, "ranks"))
        return dl_fail(err, DL_USAGE,
                       "simulate-ranks wants --ranks=N: how many processes the job has");
    dl_session *one = dl_reopen_session(call, 1, err),
               *each = one ? dl_reopen_session(call, 0, err) : NULL;
    dl_rank_simulation r = {0};
    if (each) dl_pass_on_warnings(call, each);
    bool ok = each &&
              (one->global_batch == each->global_batch ||
               dl_config_fail(each->config, DL_KEY_local_batch_size, err,
                              "one rank would have %lld samples, and the job %lld: give "
                              "global_batch_size",
                              (long long)one->global_batch, (long long)each->global_batch)) &&
              dl_simulate_ranks(call->arena, one, &(dl_sessions){each, open_again, call}, &r, err);
    if (ok) print(call->out, each, &r, dl_config_option(call->config, "json") != NULL);
    if (ok && !(r.worst_loss <= r.most && r.worst_gradient <= r.most)) call->status = DL_NUMERIC;
    dl_session_close(one);
    dl_session_close(each);
    return ok;
}

const dl_subcommand dl_subcommand_simulate_ranks = {
    .name = "simulate-ranks",
    .former_name = "rehearse",
    .help = "run all ranks of a job in this process, compared with one that does all of it",
    .usage = usage,
    .options = options,
    .takes_keys = true,
    .run = run,
};

#include "runtime/report/profile.h"

#include <string.h>

#include "ir/base/clock.h"
#include "ir/base/output.h"
#include "runtime/formats/log.h"

dlr_profile *dlr_profile_new(dl_arena *arena, const dlr_profile_options *options) {
    dlr_profile *p = DL_NEW(arena, dlr_profile);
    *p = (dlr_profile){.arena = arena, .options = *options};
    return p;
}

/* Short epochs have a shorter warm-up, or none, so that there is something to see. */
void dlr_profile_epoch(dlr_profile *p, dlr_exec *exec, int program, int64_t epoch, int64_t first,
                       int64_t steps) {
    if (p->open || p->done || (p->options.epoch >= 0 && epoch != p->options.epoch)) return;
    int64_t skip = steps - DLR_PROFILE_STEPS;
    if (skip < 0) skip = 0;
    if (skip > DLR_PROFILE_WARM_UP) skip = DLR_PROFILE_WARM_UP;
    p->plan = dlr_exec_plan(exec), p->program = &p->plan->programs.at[program];
    p->threads = dlr_pool_threads(dlr_exec_pool(exec));
    p->epoch = epoch, p->first = first + skip;
    p->end = first + (steps < skip + DLR_PROFILE_STEPS ? steps : skip + DLR_PROFILE_STEPS);
    p->open = true;
}

bool dlr_profile_wants(const dlr_profile *p, int64_t number) {
    return p->open && number >= p->first && number < p->end;
}

dlr_timeline *dlr_profile_step(dlr_profile *p, int64_t number) {
    if (!dlr_profile_wants(p, number)) return NULL;
    dlr_profile_run *run = DL_NEW(p->arena, dlr_profile_run);
    run->number = number;
    run->timeline.launches = DL_NEWS(p->arena, dlr_time, p->program->launches.n + 1);
    if (p->program->collectives.n) {
        run->timeline.collectives = DL_NEWS(p->arena, dlr_time, p->program->collectives.n);
        run->timeline.waits = DL_NEWS(p->arena, dlr_time, p->program->collectives.n);
    }
    dl_push(p->arena, &p->runs, run);
    return &run->timeline;
}

/* Steps, and what is within them, where they are recorded; all that is outside of steps. */
static bool is_wanted(const dlr_profile *p, dlr_part part, int64_t number) {
    if (!p->open || p->depth == (int)(sizeof p->stack / sizeof *p->stack)) return false;
    if (part == DLR_PART_STEP) return dlr_profile_wants(p, number);
    if (p->depth > 0) return p->stack[p->depth - 1] >= 0;
    return part == DLR_PART_VALIDATION || part == DLR_PART_CHECKPOINT;
}

void dlr_profile_begin(dlr_profile *p, dlr_part part, int64_t number) {
    int at = -1;
    if (is_wanted(p, part, number)) {
        dlr_profile_range r = {part, number, {dl_clock_ns(), 0}};
        at = p->ranges.n;
        dl_push(p->arena, &p->ranges, r);
    }
    if (p->depth < (int)(sizeof p->stack / sizeof *p->stack)) p->stack[p->depth] = at;
    p->depth++;
}

void dlr_profile_end(dlr_profile *p) {
    if (p->depth == 0) return;
    p->depth--;
    if (p->depth < (int)(sizeof p->stack / sizeof *p->stack) && p->stack[p->depth] >= 0)
        p->ranges.at[p->stack[p->depth]].time.ended = dl_clock_ns();
}

static void log_table(const char *text) {
    for (const char *line = text ? text : ""; *line;) {
        size_t n = strcspn(line, "\n");
        dlr_log_info("%.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

/* A step that failed has no times. */
static void drop_unfinished(dlr_profile *p) {
    int n = p->program->launches.n;
    while (n > 0 && p->runs.n > 0 && p->runs.at[p->runs.n - 1]->timeline.launches[n - 1].ended == 0)
        p->runs.n--;
}

bool dlr_profile_write(dlr_profile *p, dl_error *err) {
    if (!p->open || p->done) return true;
    while (p->depth > 0) dlr_profile_end(p);
    p->open = false;
    drop_unfinished(p);
    if (p->runs.n == 0) return true;
    p->done = true;
    dlr_peak_rates peak_rates = {0};
    dl_error why = {0};
    if (!p->options.peak_rates(p->options.context, &peak_rates, &why)) {
        dlr_log_warning("the profile has no ceilings: %s", why.message);
        peak_rates = (dlr_peak_rates){0};
    }
    dl_buf trace = {0}, table = {0};
    dlr_profile_put_trace(p, &trace), dlr_profile_put_table(p, &peak_rates, &table);
    bool ok = dl_write_file(p->options.trace, trace.at, trace.n, err) &&
              dl_write_file(p->options.table, table.at, table.n, err);
    log_table(table.at);
    if (ok) dlr_log_info("profile written to %s and %s", p->options.trace, p->options.table);
    dl_buf_free(&trace), dl_buf_free(&table);
    return ok;
}

bool dlr_profile_done(const dlr_profile *p) { return p->done; }

/* The roofline as a table: by kernel what it does, how long it takes, and which of the two ceilings
 * holds it down. Twins, which run the same code, are one row. */
#include <stdlib.h>
#include <string.h>

#include "runtime/report/profile.h"

typedef struct {
    const dl_plan_kernel *kernel; /* the first of them */
    int calls, sources;           /* a step; kernels with other source lines */
    double ms, predicted_ms;      /* a step, all calls */
    double mflop, mbyte;          /* likewise: 1e6 */
    bool memory;                  /* bound by it, else by arithmetic */
    double share;                 /* of that ceiling; 0: it is not known */
    double gap_ms; /* above what it would take at that ceiling; all of it where none is known */
} row;

typedef struct {
    row *at;
    int n;
    row all;
} rows;

static double ms_of(const dlr_profile *p, int launch) {
    double ns = 0;
    for (int i = 0; i < p->runs.n; i++) {
        dlr_time t = p->runs.at[i]->timeline.launches[launch];
        ns += (double)(t.ended - t.began);
    }
    return ns * 1e-6 / p->runs.n;
}

static row *row_of(rows *r, const dl_plan_kernel *k) {
    for (int i = 0; i < r->n; i++) {
        const dl_plan_kernel *other = r->at[i].kernel;
        if (other->object != k->object || strcmp(other->symbol, k->symbol) != 0) continue;
        r->at[i].sources += strcmp(other->where, k->where) != 0;
        return &r->at[i];
    }
    r->at[r->n] = (row){.kernel = k};
    return &r->at[r->n++];
}

static void add(row *r, const dl_plan_kernel *k, double ms) {
    r->calls++, r->ms += ms, r->predicted_ms += k->predicted_us * 1e-3;
    r->mflop += (double)k->flops * 1e-6, r->mbyte += (double)k->bytes * 1e-6;
}

/* Where arithmetic at its ceiling would take longer than the traffic at its own, it is the bound.
 */
static void find_bound(row *r, const dlr_peak_rates *c) {
    r->gap_ms = r->ms;
    if (c->gflops <= 0 || c->gbytes <= 0) return;
    double compute = r->mflop / c->gflops, memory = r->mbyte / c->gbytes;
    r->memory = memory >= compute;
    r->share = r->ms > 0 ? (r->memory ? memory : compute) / r->ms : 0;
    r->gap_ms -= r->memory ? memory : compute;
}

static int wider_gap_first(const void *a, const void *b) {
    const row *x = a, *y = b;
    return x->gap_ms != y->gap_ms ? (x->gap_ms < y->gap_ms) - (x->gap_ms > y->gap_ms)
                                  : strcmp(x->kernel->name, y->kernel->name);
}

static rows make_rows(dl_arena *arena, const dlr_profile *p, const dlr_peak_rates *c) {
    rows r = {.at = DL_NEWS(arena, row, p->program->launches.n + 1)};
    for (int i = 0; i < p->program->launches.n; i++) {
        const dl_plan_kernel *k = &p->plan->kernels.at[p->program->launches.at[i].kernel];
        double ms = ms_of(p, i);
        add(row_of(&r, k), k, ms), add(&r.all, k, ms);
    }
    for (int i = 0; i < r.n; i++) find_bound(&r.at[i], c);
    find_bound(&r.all, c);
    r.all.gap_ms = 0;
    for (int i = 0; i < r.n; i++) r.all.gap_ms += r.at[i].gap_ms;
    qsort(r.at, (size_t)r.n, sizeof *r.at, wider_gap_first);
    return r;
}

/* The mean of a range over the steps that were recorded, in ms. */
static double mean_of(const dlr_profile *p, dlr_part part) {
    double ns = 0;
    for (int i = 0; i < p->ranges.n; i++)
        if (p->ranges.at[i].part == part)
            ns += (double)(p->ranges.at[i].time.ended - p->ranges.at[i].time.began);
    return ns * 1e-6 / p->runs.n;
}

static void put_head(dl_buf *b, const dlr_profile *p, const rows *r, const dlr_peak_rates *c) {
    dl_putf(b,
            "profile of %s, batch %lld, %s, %d threads: steps %lld to %lld of epoch %lld, launch "
            "by launch\n",
            p->plan->model, (long long)p->plan->batch, p->plan->target, p->threads,
            (long long)p->first + 1, (long long)p->runs.at[p->runs.n - 1]->number + 1,
            (long long)p->epoch + 1);
    dl_putf(b,
            "a step takes %.3f ms: %.3f in kernels, %.3f waiting for data, %.3f copying the batch, "
            "%.3f "
            "taking results\n",
            mean_of(p, DLR_PART_STEP), r->all.ms, mean_of(p, DLR_PART_WAIT),
            mean_of(p, DLR_PART_COPY_IN), mean_of(p, DLR_PART_RESULTS));
    if (c->gflops > 0 && c->gbytes > 0)
        dl_putf(b,
                "ceilings %s: %.1f GFLOP/s and %.1f GB/s, which meet at %.1f FLOP a byte: below "
                "that a kernel is "
                "bound by memory\n",
                c->from, c->gflops, c->gbytes, c->gflops / c->gbytes);
    else
        dl_puts(b, "ceilings of this device are not known: no kernel's bound is told\n");
}

static void put_row(dl_buf *b, const rows *r, const row *x, const char *name, const char *source) {
    double intensity = x->mbyte > 0 ? x->mflop / x->mbyte : 0;
    dl_putf(b, "%-14s %5d %10.4f %10.4f %6.1f%% %12.3f %10.3f %8.2f %9.1f %8.1f ", name, x->calls,
            x->ms, x->predicted_ms, r->all.ms > 0 ? 100 * x->ms / r->all.ms : 0, x->mflop, x->mbyte,
            intensity, x->ms > 0 ? x->mflop / x->ms : 0, x->ms > 0 ? x->mbyte / x->ms : 0);
    if (x->share > 0)
        dl_putf(b, "%-8s %6.1f%%", x->memory ? "memory" : "compute", 100 * x->share);
    else
        dl_putf(b, "%-8s %7s", "-", "-");
    dl_putf(b, " %10.4f%s%s\n", x->gap_ms, *source ? "  " : "", source);
}

/* A kernel above the ceiling of arithmetic refutes it (that of memory it may pass within a cache).
 */
static void put_refuted(dl_buf *b, const rows *r, const dlr_peak_rates *c) {
    int above = 0;
    for (int i = 0; i < r->n; i++)
        above += c->gflops > 0 && r->at[i].ms > 0 && r->at[i].mflop / r->at[i].ms > c->gflops;
    if (above)
        dl_putf(b,
                "%d of these kernels ran above the ceiling of arithmetic: the machine was busy "
                "when it was "
                "measured, and what was reached is told too high\n",
                above);
}

/* How long collectives were under way in a step, one over the other counted once, and how much of
 * that the program stood still. */
static void put_collectives(dl_buf *b, const dlr_profile *p) {
    double under_way = 0, waited = 0;
    int n = p->program->collectives.n;
    if (!n) return;
    for (int r = 0; r < p->runs.n; r++) {
        const dlr_timeline *t = &p->runs.at[r]->timeline;
        int64_t end = 0; /* they were begun in this order */
        for (int i = 0; i < n; i++) {
            int64_t from = t->collectives[i].began > end ? t->collectives[i].began : end;
            if (t->collectives[i].ended > from)
                under_way += (double)(t->collectives[i].ended - from) * 1e-6;
            if (t->collectives[i].ended > end) end = t->collectives[i].ended;
            waited += (double)(t->waits[i].ended - t->waits[i].began) * 1e-6;
        }
    }
    dl_putf(b,
            "collectives: %d a step, under way for %.3f ms, of which the program waited %.3f "
            "(%.0f%%)\n",
            n, under_way / p->runs.n, waited / p->runs.n,
            under_way > 0 ? 100 * waited / under_way : 0);
}

void dlr_profile_put_table(const dlr_profile *p, const dlr_peak_rates *c, dl_buf *b) {
    dl_arena *arena = dl_arena_new(p->arena);
    rows r = make_rows(arena, p, c);
    put_head(b, p, &r, c);
    dl_putf(b, "%-14s %5s %10s %10s %7s %12s %10s %8s %9s %8s %-8s %7s %10s  %s\n", "kernel",
            "calls", "measured", "predicted", "of all", "MFLOP", "MB", "FLOP/B", "GFLOP/s", "GB/s",
            "bound", "reached", "gap", "source");
    for (int i = 0; i < r.n; i++) {
        const row *x = &r.at[i];
        const char *more = x->sources ? dl_format(arena, " and %d more", x->sources) : "";
        put_row(b, &r, x, dl_format(arena, "@%s", x->kernel->name),
                dl_format(arena, "%s%s", x->kernel->where, more));
    }
    put_row(b, &r, &r.all, "all", "");
    put_refuted(b, &r, c);
    put_collectives(b, p);
    dl_arena_free(arena);
}

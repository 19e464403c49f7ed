#include "runtime/analyze/io_estimate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/base/clock.h"
#include "ir/base/foreign.h"
#include "runtime/setup/dataset_options.h"

/* ---- samples ---- */

/* So many samples are read, and no fewer than some where that takes long. */
enum { MOST_SAMPLES = 256, LEAST_SAMPLES = 4, ENOUGH_MS = 1000, ALIGN = 64 };

static size_t round_up(size_t bytes) { return (bytes + ALIGN) / ALIGN * ALIGN; }

typedef struct {
    const dlr_dataset *data;
    bool numbers; /* as a device takes them */
    void *out[DLR_MAX_ARRAYS];
    void *scratch;
} reader;

static bool read_sample(const reader *r, int64_t i, dl_error *err) {
    dlr_layout_map how[DLR_MAX_ARRAYS] = {0};
    return r->numbers ? dlr_dataset_numbers(r->data, 0, i, r->out, r->scratch, how, err)
                      : dlr_dataset_sample(r->data, 0, i, r->out, r->scratch, err);
}

static bool count_samples(const reader *r, dl_io_part *p, dl_error *err) {
    double began = dl_clock_ms(), sum = 0, squares = 0;
    for (int64_t i = 0; i < p->samples && i < MOST_SAMPLES; i++) {
        if (i >= LEAST_SAMPLES && dl_clock_ms() - began > ENOUGH_MS) break;
        dl_file_calls before = dl_file_calls_so_far();
        if (!read_sample(r, i, err)) return false;
        dl_file_calls calls = dl_file_calls_since(&before);
        dl_file_calls_sum(&p->of, &calls, 1);
        sum += (double)calls.bytes, squares += (double)calls.bytes * (double)calls.bytes;
        p->looked++;
    }
    double n = (double)p->looked, mean = sum / n, variance = squares / n - mean * mean;
    if (n > 1 && mean > 0 && variance > 0) p->error = sqrt(variance / (n - 1)) / mean;
    return true;
}

/* Samples as they come from the data set's first numbers on. */
static bool read_some(const dlr_dataset *d, bool by_device, dl_io_part *p, dl_error *err) {
    dlr_raw raw[DLR_MAX_ARRAYS];
    const dlr_arrays *arrays = dlr_dataset_arrays(d);
    reader r = {.data = d, .numbers = by_device && dlr_dataset_raw(d, raw)};
    bool ok = (r.scratch = aligned_alloc(ALIGN, round_up(dlr_dataset_scratch(d))));
    for (int k = 0; k < arrays->n; k++)
        ok = (r.out[k] = aligned_alloc(ALIGN, round_up(dlr_array_bytes(&arrays->at[k])))) && ok;
    ok = ok ? count_samples(&r, p, err) : dl_fail(err, DL_RESOURCE, "no memory for a sample");
    for (int k = 0; k < arrays->n; k++) free(r.out[k]);
    free(r.scratch);
    return ok;
}

/* ---- all of it ---- */

/* A run looks at its data before it compiles, and opens afterwards, for use, what was not whole
 * then: what only the latter reads is what opening on paper counts. */
static bool look_at(dl_session *s, dlr_split split, bool by_device, dl_io_part *p,
                    dl_file_calls *start, dl_error *err) {
    static const dlr_opening openings[] = {DLR_OPEN_PROBE, DLR_OPEN_ON_PAPER};
    bool whole = false;
    for (int i = 0; i < 2 && !whole; i++) {
        dl_file_calls before = dl_file_calls_so_far();
        dlr_dataset *d = dl_samples_open(s->arena, s, split, openings[i], err);
        if (!d) return false;
        dl_file_calls calls = dl_file_calls_since(&before);
        dl_file_calls_sum(start, &calls, 1);
        p->samples = dlr_dataset_samples(d);
        whole = i == 1 || dlr_dataset_whole(d);
        bool ok = !whole || dlr_dataset_in_memory(d) || read_some(d, by_device, p, err);
        dlr_dataset_close(d);
        if (!ok) return false;
    }
    return true;
}

void dl_io_estimate_of(dl_session *s, bool by_device, dl_io_estimate *out) {
    dl_error err = {0};
    *out = (dl_io_estimate){0};
    by_device = by_device && dl_samples_by_device(s->config);
    bool ok = dl_samples_resolve(s->config, &err) &&
              look_at(s, DLR_TRAIN, by_device, &out->train, &out->start, &err) &&
              look_at(s, DLR_VALID, by_device, &out->valid, &out->start, &err);
    if (!ok)
        out->missing = dl_strdup(s->arena, err.message);
    else if (out->start.unknown || out->train.of.unknown || out->valid.of.unknown)
        out->missing = "this kernel does not count what libhdf5 reads (/proc/self/io)";
}

static void add_samples(const dl_io_part *p, int64_t n, dl_file_calls *to) {
    if (p->looked) dl_file_calls_sum(to, &p->of, (double)n / (double)p->looked);
}

dl_io_load dl_io_load_of(const dl_io_estimate *r, const dl_io_job *job) {
    int64_t global = job->batch * job->data_ranks, steps = r->train.samples / global,
            validated = r->valid.samples / global;
    dl_io_load rank = {.steps = validated ? steps : 0};
    add_samples(&r->train, job->batch, &rank.step);
    add_samples(&r->train, steps * job->batch, &rank.epoch);
    add_samples(&r->valid, validated * job->batch, &rank.epoch);
    return rank;
}

/* ---- telling ---- */

static bool is_nothing(const dl_io_estimate *r) {
    return !r->start.opens && !r->start.listings && !r->start.stats && !r->train.looked &&
           !r->valid.looked;
}

static void print_part(const dl_console *out, const char *name, const dl_io_part *p) {
    if (!p->looked) {
        dl_console_text(out, "  %s: %lld samples, from memory\n", name, (long long)p->samples);
        return;
    }
    double n = (double)p->looked;
    dl_console_text(
        out,
        "  %s: %lld samples of %.3f MiB, in %.4g reads of %.4g files that it opens (of %lld "
        "samples",
        name, (long long)p->samples, (double)p->of.bytes / n / 0x1p20, (double)p->of.reads / n,
        (double)p->of.opens / n, (long long)p->looked);
    if (p->error > 0) dl_console_text(out, "; bytes within %.1f%%", 100 * p->error);
    dl_console_text(out, ")\n");
}

/* All ranks' together, while they train. */
static double bytes_a_second(const dl_io_load *one, const dl_io_job *job) {
    return job->step_ms > 0 ? 1e3 * job->ranks * (double)one->step.bytes / job->step_ms : 0;
}

static void print_table(const dl_console *out, const dl_io_estimate *r, const dl_io_job *jobs,
                        int n, bool all) {
    dl_console_text(out, "%8s %12s %12s %12s %12s %12s %12s\n", all ? "all" : "a rank",
                    "MiB a step", all ? "MiB/s" : "start MiB", "start opens", "metadata",
                    "epoch opens", "metadata");
    for (int i = 0; i < n; i++) {
        const dl_io_job *job = &jobs[i];
        dl_io_load one = dl_io_load_of(r, job);
        double times = all ? job->ranks : 1, bytes = times * (double)one.step.bytes / 0x1p20;
        dl_console_text(out, "%8d %12.3f %12.2f %12.0f %12.0f", job->ranks, bytes,
                        (all ? bytes_a_second(&one, job) : (double)r->start.bytes) / 0x1p20,
                        times * (double)r->start.opens,
                        times * (double)dl_file_calls_metadata(&r->start));
        if (one.steps)
            dl_console_text(out, " %12.0f %12.0f\n", times * (double)one.epoch.opens,
                            times * (double)dl_file_calls_metadata(&one.epoch));
        else
            dl_console_text(out, " %25s\n", "too few samples");
    }
}

void dl_io_print(const dl_console *out, const dl_io_estimate *r, const dl_io_job *jobs, int n) {
    if (r->missing) {
        dl_buf text = {0};
        dl_put_foreign(&text, DL_IN_LINE, r->missing);
        dl_console_text(out, "data: not looked at: %s\n", text.at ? text.at : "");
        dl_buf_free(&text);
        return;
    }
    if (is_nothing(r)) {
        dl_console_text(out, "data: nothing is read: samples are made in memory\n");
        return;
    }
    dl_console_text(out, "data, at most (a page cache may have them):\n");
    print_part(out, "training", &r->train), print_part(out, "validation", &r->valid);
    dl_console_text(
        out,
        "  start: %lld files opened, %lld looked at, %lld folders listed with %lld names, %.3f "
        "MiB in %lld "
        "reads\n",
        (long long)r->start.opens, (long long)r->start.stats, (long long)r->start.listings,
        (long long)r->start.entries, (double)r->start.bytes / 0x1p20, (long long)r->start.reads);
    print_table(out, r, jobs, n, false), print_table(out, r, jobs, n, true);
}

static void print_calls(const dl_console *out, const char *name, const dl_file_calls *c,
                        double times) {
    dl_console_text(
        out,
        "\"%s\": {\"opens\": %.0f, \"stats\": %.0f, \"listings\": %.0f, \"entries\": %.0f, "
        "\"metadata\": %.0f, \"reads\": %.0f, \"bytes\": %.0f}",
        name, times * (double)c->opens, times * (double)c->stats, times * (double)c->listings,
        times * (double)c->entries, times * (double)dl_file_calls_metadata(c),
        times * (double)c->reads, times * (double)c->bytes);
}

static void print_json_part(const dl_console *out, const char *name, const dl_io_part *p) {
    dl_console_text(
        out,
        "\"%s\": {\"samples\": %lld, \"looked\": %lld, \"bytes_a_sample\": %.8g, \"error\": "
        "%.3g}, ",
        name, (long long)p->samples, (long long)p->looked,
        p->looked ? (double)p->of.bytes / (double)p->looked : 0, p->error);
}

static void print_json_calls(const dl_console *out, const dl_io_estimate *r, const dl_io_load *one,
                             double times) {
    print_calls(out, "step", &one->step, times), dl_console_text(out, ", ");
    print_calls(out, "start", &r->start, times), dl_console_text(out, ", ");
    if (one->steps)
        print_calls(out, "epoch", &one->epoch, times);
    else
        dl_console_text(out, "\"epoch\": null");
}

void dl_io_print_json(const dl_console *out, const dl_io_estimate *r, const dl_io_job *jobs,
                      int n) {
    if (r->missing) {
        dl_buf text = {0};
        dl_put_foreign(&text, DL_IN_JSON, r->missing);
        dl_console_text(out, "\"data\": null, \"data_missing\": \"%s\"", text.at ? text.at : "");
        dl_buf_free(&text);
        return;
    }
    dl_console_text(out, "\"data\": {\"nothing\": %s, ", is_nothing(r) ? "true" : "false");
    print_json_part(out, "train", &r->train), print_json_part(out, "valid", &r->valid);
    dl_console_text(out, "\"scale\": [");
    for (int i = 0; i < n; i++) {
        dl_io_load one = dl_io_load_of(r, &jobs[i]);
        dl_console_text(out, "%s{\"ranks\": %d, \"steps\": %lld, \"rank\": {", i ? ", " : "",
                        jobs[i].ranks, (long long)one.steps);
        print_json_calls(out, r, &one, 1);
        dl_console_text(out, "}, \"all\": {");
        print_json_calls(out, r, &one, jobs[i].ranks);
        dl_console_text(out, "}, \"bytes_a_second\": %.6g}", bytes_a_second(&one, &jobs[i]));
    }
    dl_console_text(out, "]}");
}

/* The profile as Chrome's trace events: "X" is an event with a beginning and a duration, in
 * microseconds; "b" and "e" are the ends of one that others may overlap; "M" names a row. */

#include "runtime/formats/json.h"
#include "runtime/report/profile.h"

enum { PROCESS = 1, HOST_ROW = 1, DEVICE_ROW = 2, COPY_ROW = 3, COLLECTIVE_ROW = 4 };

static void put_row(dl_buf *b, const char *what, int row, const char *name) {
    dl_putf(b, "{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"%s\", \"args\": {\"name\": ",
            PROCESS, row, what);
    dlr_json_put_string(b, name);
    dl_puts(b, "}},\n");
}

/* To the nanosecond, so that what does not overlap does not. */
static void put_us(dl_buf *b, const char *key, int64_t ns) {
    dl_putf(b, ", \"%s\": %lld.%03lld", key, (long long)(ns / 1000), (long long)(ns % 1000));
}

/* The fields that all events have; the caller adds `args` and the closing braces. */
static void open_event(dl_buf *b, int row, const char *kind, const char *name, dlr_time t,
                       int64_t zero) {
    dl_putf(b, ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"cat\": \"%s\", \"name\": ", PROCESS,
            row, kind);
    dlr_json_put_string(b, name);
    put_us(b, "ts", t.began - zero), put_us(b, "dur", t.ended - t.began);
    dl_puts(b, ", \"args\": {");
}

static void put_rate(dl_buf *b, const char *key, int64_t count, dlr_time t) {
    if (t.ended <= t.began) return;
    dlr_json_put_key(b, key);
    dl_putf(b, "%.6g",
            (double)count / (double)(t.ended - t.began)); /* a nanosecond: 1e9 a second */
}

static void put_int(dl_buf *b, const char *key, int64_t value) {
    dlr_json_put_key(b, key);
    dl_putf(b, "%lld", (long long)value);
}

static void put_kernel(dl_buf *b, const dl_plan_kernel *k, const dlr_profile_run *run, int number,
                       int64_t zero) {
    dlr_time t = run->timeline.launches[number];
    open_event(b, DEVICE_ROW, "kernel", k->name, t, zero);
    dlr_json_put_key(b, "where"), dlr_json_put_string(b, k->where);
    put_int(b, "step", run->number), put_int(b, "launch", number);
    put_int(b, "flops", k->flops), put_int(b, "bytes", k->bytes);
    put_rate(b, "GFLOP/s", k->flops, t), put_rate(b, "GB/s", k->bytes, t);
    dlr_json_put_key(b, "predicted_us"), dl_putf(b, "%.6g", k->predicted_us);
    dlr_json_put_key(b, "symbol"), dlr_json_put_string(b, k->symbol);
    dl_puts(b, "}}");
}

/* A collective while it is under way, and in the row of kernels what the program stood still for
 * it. */
static void put_collective(dl_buf *b, const dl_plan_collective *c, const dlr_profile_run *run,
                           int number, int64_t zero) {
    const dlr_time t = run->timeline.collectives[number];
    const char *name = dl_ops[c->op].name;
    dl_buf of = {0};
    dl_plan_put_of(&of, c);
    for (int end = 0; end < 2; end++) {
        dl_putf(b,
                ",\n{\"ph\": \"%s\", \"pid\": %d, \"tid\": %d, \"cat\": \"collective\", \"id\": "
                "\"%lld.%d\", "
                "\"name\": ",
                end ? "e" : "b", PROCESS, COLLECTIVE_ROW, (long long)run->number, number);
        dlr_json_put_string(b, name);
        put_us(b, "ts", (end ? t.ended : t.began) - zero);
        dl_puts(b, ", \"args\": {");
        dlr_json_put_key(b, "of"), dlr_json_put_string(b, of.at);
        dlr_json_put_key(b, "where"), dlr_json_put_string(b, c->where);
        dlr_json_put_key(b, "group"), dlr_json_put_string(b, c->group);
        put_int(b, "step", run->number), put_int(b, "ranks", c->ranks);
        put_int(b, "bytes", dl_plan_elements_from(c) * dl_dtype_bytes(c->dtype));
        dl_puts(b, "}}");
    }
    open_event(b, DEVICE_ROW, "wait", "wait", run->timeline.waits[number], zero);
    dlr_json_put_key(b, "for"), dlr_json_put_string(b, name);
    dlr_json_put_key(b, "of"), dlr_json_put_string(b, of.at);
    put_int(b, "step", run->number);
    dl_puts(b, "}}");
    dl_buf_free(&of);
}

static void put_run(dl_buf *b, const dlr_profile *p, const dlr_profile_run *run, int64_t zero) {
    for (int i = 0; i < p->program->launches.n; i++)
        put_kernel(b, &p->plan->kernels.at[p->program->launches.at[i].kernel], run, i, zero);
    for (int i = 0; i < p->program->collectives.n && run->timeline.collectives; i++)
        put_collective(b, &p->program->collectives.at[i], run, i, zero);
    for (int i = 0; i < run->timeline.ncopies; i++) {
        const dlr_timed_copy *c = &run->timeline.copies[i];
        open_event(b, COPY_ROW, "copy", c->to_host ? "to the host" : "to the device", c->time,
                   zero);
        put_int(b, "step", run->number), put_int(b, "bytes", c->bytes),
            put_rate(b, "GB/s", c->bytes, c->time);
        dl_puts(b, "}}");
    }
}

/* The earliest time of all: the trace begins there. */
static int64_t begin_of(const dlr_profile *p) {
    int64_t zero = p->program->launches.n ? p->runs.at[0]->timeline.launches[0].began : INT64_MAX;
    for (int i = 0; i < p->ranges.n; i++)
        if (p->ranges.at[i].time.began < zero) zero = p->ranges.at[i].time.began;
    for (int i = 0; i < p->runs.at[0]->timeline.ncopies; i++)
        if (p->runs.at[0]->timeline.copies[i].time.began < zero)
            zero = p->runs.at[0]->timeline.copies[i].time.began;
    return zero;
}

static void put_about(dl_buf *b, const dlr_profile *p) {
    dl_puts(b, "\n], \"displayTimeUnit\": \"ms\", \"otherData\": {");
    dlr_json_put_key(b, "program"), dlr_json_put_string(b, "dlrun " DL_VERSION);
    dlr_json_put_key(b, "model"), dlr_json_put_string(b, p->plan->model);
    dlr_json_put_key(b, "target"), dlr_json_put_string(b, p->plan->target);
    put_int(b, "batch", p->plan->batch), put_int(b, "threads", p->threads);
    put_int(b, "epoch", p->epoch), put_int(b, "steps", p->runs.n);
    put_int(b, "launches", p->program->launches.n);
    dl_puts(b, "}}\n");
}

void dlr_profile_put_trace(const dlr_profile *p, dl_buf *b) {
    bool cpu = !dl_target_is_gpu(p->plan->target);
    int64_t zero = begin_of(p);
    dl_puts(b, "{\"traceEvents\": [\n");
    put_row(b, "process_name", 0, p->plan->model);
    put_row(b, "thread_name", HOST_ROW, "host");
    put_row(b, "thread_name", DEVICE_ROW, cpu ? "cpu" : "device");
    if (!cpu) put_row(b, "thread_name", COPY_ROW, "copies");
    if (p->program->collectives.n) put_row(b, "thread_name", COLLECTIVE_ROW, "collectives");
    b->n -= 2; /* the comma between events goes before them */
    for (int i = 0; i < p->ranges.n; i++) {
        char name[64];
        dlr_part_name(p->ranges.at[i].part, p->ranges.at[i].number, name);
        open_event(b, HOST_ROW, "host", name, p->ranges.at[i].time, zero);
        dl_puts(b, "}}");
    }
    for (int i = 0; i < p->runs.n; i++) put_run(b, p, p->runs.at[i], zero);
    put_about(b, p);
}

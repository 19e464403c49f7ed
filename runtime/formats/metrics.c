#include "runtime/formats/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "ir/base/output.h"

enum { MAX_BYTES = 1 << 30 };

struct dlr_metrics {
    dl_arena *arena;
    const char *path;
    int fd;
    int64_t end;
};

typedef enum { KEEP, LATER, TORN } verdict;

static verdict judge(const char *line, size_t n, int64_t iteration) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error ignored = {0};
    const dlr_json *point =
        dlr_json_parse(arena, line, n, (dlr_json_limits){8, 100000}, "", &ignored);
    const dlr_json *at = dlr_json_get(point, "iteration");
    verdict v = !at || at->kind != DLR_JSON_INT ? TORN : at->integer > iteration ? LATER : KEEP;
    dl_arena_free(arena);
    return v;
}

/* Rewrites the file with only the kept lines; does nothing when all are kept. */
static bool repair_file(dlr_metrics *m, int64_t iteration, dlr_metrics_repair *repair,
                        dl_error *err) {
    if (access(m->path, F_OK) != 0) return true;
    size_t size;
    char *text = dl_read_file(m->arena, m->path, MAX_BYTES, &size, err);
    if (!text) return false;
    dl_buf kept = {0};
    int counts[3] = {0};
    for (size_t at = 0; at < size;) {
        const char *line = text + at, *newline = memchr(line, '\n', size - at);
        size_t n = newline ? (size_t)(newline - line) : size - at;
        verdict v = newline ? judge(line, n, iteration) : TORN;
        if (v == KEEP) dl_putn(&kept, line, n + 1);
        counts[v]++;
        at += n + 1;
    }
    *repair = (dlr_metrics_repair){counts[KEEP], counts[LATER], counts[TORN]};
    bool ok = kept.n == size || dl_write_file(m->path, kept.at ? kept.at : "", kept.n, err);
    dl_buf_free(&kept);
    return ok;
}

dlr_metrics *dlr_metrics_open(const char *path, int64_t iteration, dlr_metrics_repair *repair,
                              dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_metrics *m = DL_NEW(arena, dlr_metrics);
    dlr_metrics_repair done = {0};
    *m = (dlr_metrics){.arena = arena, .path = dl_strdup(arena, path), .fd = -1};
    bool ok = iteration < 0 || repair_file(m, iteration, &done, err);
    if (ok) {
        m->fd = dl_append_open(path, iteration < 0 ? DL_APPEND_NEW : DL_APPEND, err);
        ok = m->fd >= 0;
        /* a device or FIFO has no size; it is never truncated */
        if (ok) m->end = lseek(m->fd, 0, SEEK_END);
    }
    if (repair) *repair = done;
    if (ok) return m;
    dlr_metrics_close(m);
    return NULL;
}

bool dlr_metrics_put(dlr_metrics *m, int64_t epoch, int64_t iteration, const dlr_metric *values,
                     int n, dl_error *err) {
    dl_buf b = {0};
    dl_putf(&b, "{\"epoch\": %lld, \"iteration\": %lld", (long long)epoch, (long long)iteration);
    for (int i = 0; i < n; i++) {
        dlr_json_put_key(&b, values[i].tag);
        dlr_json_put_double(&b, values[i].value);
    }
    dl_puts(&b, "}\n");
    bool ok = dl_append(m->fd, m->path, b.at, b.n, &m->end, err);
    dl_buf_free(&b);
    return ok;
}

bool dlr_metrics_flush(dlr_metrics *m, dl_error *err) {
    return fdatasync(m->fd) == 0 || dl_fail_errno(err, DL_IO, "cannot make %s durable", m->path);
}

void dlr_metrics_close(dlr_metrics *m) {
    if (!m) return;
    if (m->fd >= 0) close(m->fd);
    dl_arena_free(m->arena);
}

bool dlr_metrics_read(const char *path, dlr_metrics_each *each, void *ctx, dl_error *err) {
    if (access(path, F_OK) != 0) return true;
    dl_arena *arena = dl_arena_new(NULL);
    size_t size;
    const char *text = dl_read_file(arena, path, MAX_BYTES, &size, err);
    for (const char *at = text, *end = text + (text ? size : 0); at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        dl_arena *one = dl_arena_new(arena);
        dl_error ignored = {0};
        const dlr_json *point = dlr_json_parse(one, at, (size_t)(stop - at),
                                               (dlr_json_limits){8, 100000}, "", &ignored);
        if (point) each(ctx, point);
        dl_arena_free(one);
        at = stop + 1;
    }
    dl_arena_free(arena);
    return text != NULL;
}

bool dlr_metrics_value(const dlr_json *point, const char *tag, double *value) {
    const dlr_json *v = tag ? dlr_json_get(point, tag) : NULL;
    if (!v || (v->kind != DLR_JSON_INT && v->kind != DLR_JSON_REAL)) return false;
    *value = v->kind == DLR_JSON_INT ? (double)v->integer : v->real;
    return true;
}

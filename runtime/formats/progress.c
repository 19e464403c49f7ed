#include "runtime/formats/progress.h"

#include <math.h>
#include <stdio.h>

#include "ir/base/clock.h"
#include "ir/base/str.h"
#include "runtime/formats/terminal.h"

static const double BAR_SECONDS = 0.1, LINE_SECONDS = 10;

/* m:ss or h:mm:ss */
static void put_duration(dl_buf *b, double seconds) {
    long s = lround(seconds);
    if (s >= 3600)
        dl_putf(b, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        dl_putf(b, "%ld:%02ld", s / 60, s % 60);
}

/* Appends samples per second, loss, time left, as far as they are known, each after `gap`. */
static void put_figures(dl_buf *b, const dlr_progress *p, double t, const char *gap) {
    double elapsed = t - p->started;
    if (elapsed > 0) dl_putf(b, "%s%.3g samples/s", gap, (double)p->samples / elapsed);
    if (!isnan(p->loss)) dl_putf(b, "%sloss %.4g", gap, p->loss);
    if (p->total > 0 && p->done > 0) {
        dl_puts(b, gap);
        put_duration(b, elapsed * (double)(p->total - p->done) / (double)p->done);
        dl_puts(b, " left");
    }
}

static void put_bar(dl_buf *b, const dlr_progress *p, int width, bool colour) {
    enum { MAX_BAR = 120 };
    char bar[MAX_BAR + 1];
    if (width > MAX_BAR) width = MAX_BAR;
    int filled = (int)(p->done * width / p->total);
    if (filled > width) filled = width;
    for (int i = 0; i < width; i++) bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    dl_putf(b, "[%s%.*s%s%.*s]", colour ? "\033[32m" : "", filled, bar, colour ? "\033[0m" : "",
            width - filled, bar + filled);
}

static void draw_bar(const dlr_progress *p, double t) {
    dl_buf head = {0}, tail = {0}, line = {0};
    enum { LEAST_BAR = 5 };
    dl_putf(&head, "%s  ", p->label);
    if (p->total > 0) dl_putf(&head, "%3d%% ", (int)(100 * p->done / p->total));
    dl_putf(&tail, " %lld", (long long)p->done);
    if (p->total > 0) dl_putf(&tail, "/%lld", (long long)p->total);
    put_figures(&tail, p, t, "  ");
    /* The last column stays empty, since some terminals wrap there. On a narrow terminal the bar is
     * dropped first, then the end is cut. */
    int room = dlr_terminal_width() - 1, left = room - (int)(head.n + tail.n) - 2;
    dl_puts(&line, head.at);
    if (p->total > 0 && left >= LEAST_BAR) put_bar(&line, p, left, dlr_terminal_has_colour());
    dl_puts(&line, tail.at);
    if (left < LEAST_BAR && line.n > (size_t)room) line.at[room] = 0;
    dlr_terminal_set_bar(line.at);
    dl_buf_free(&line);
    dl_buf_free(&tail);
    dl_buf_free(&head);
}

static void write_line(const dlr_progress *p, double t) {
    dl_buf line = {0};
    dl_putf(&line, "%s: %lld", p->label, (long long)p->done);
    if (p->total > 0) dl_putf(&line, "/%lld", (long long)p->total);
    dl_puts(&line, p->done == 1 ? " batch" : " batches");
    put_figures(&line, p, t, ", ");
    dl_puts(&line, "\n");
    dlr_terminal_write(line.at, line.n);
    dl_buf_free(&line);
}

void dlr_progress_start(dlr_progress *p, const char *label, int64_t total) {
    *p = (dlr_progress){.total = total, .loss = NAN, .live = dlr_terminal_is_live()};
    snprintf(p->label, sizeof p->label, "%s", label);
    p->started = dl_clock_seconds();
    p->drawn = p->live ? -INFINITY : p->started;
}

void dlr_progress_step(dlr_progress *p, int64_t samples, double loss) {
    p->done++, p->samples += samples, p->loss = loss;
    double t = dl_clock_seconds();
    bool tenth = p->total == 0 || (p->done - p->drawn_at) * 10 >= p->total;
    if (p->live ? t - p->drawn < BAR_SECONDS : t - p->drawn < LINE_SECONDS || !tenth) return;
    if (p->live)
        draw_bar(p, t);
    else
        write_line(p, t);
    p->drawn = t, p->drawn_at = p->done;
}

void dlr_progress_finish(dlr_progress *p) {
    if (p->live) dlr_terminal_set_bar(NULL);
    p->live = false;
}

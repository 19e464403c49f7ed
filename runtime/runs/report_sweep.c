#include "runtime/runs/report_sweep.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/foreign.h"
#include "runtime/runs/report_plots.h"
#include "runtime/sweep/sweep.h"

struct dl_reported_sweep {
    const char *dir;
    const dl_sweep_file *file;
    dlr_trials trials;
    const dl_yaml **values;      /* of each trial */
    const dl_sweep_curve *curve; /* of each trial: losses, smaller is better */
};

bool dl_is_sweep(dl_arena *arena, const char *dir) {
    return access(dl_format(arena, "%s/trials.jsonl", dir), F_OK) == 0;
}

const dl_reported_sweep *dl_report_sweep_read(dl_arena *arena, const char *dir, const char **best,
                                              dl_error *err) {
    dl_reported_sweep *s = DL_NEW(arena, dl_reported_sweep);
    s->dir = dir, s->file = dl_sweep_open(arena, dir, err);
    *best = NULL;
    if (!s->file ||
        !dlr_trials_read(arena, dir, s->file->metric, s->file->maximize, &s->trials, err))
        return NULL;
    int n = s->trials.list.n;
    dl_sweep_curve *curve = DL_NEWS(arena, dl_sweep_curve, n + 1);
    s->values = DL_NEWS(arena, const dl_yaml *, n + 1), s->curve = curve;
    for (int i = 0; i < n; i++) {
        const dlr_trial *t = &s->trials.list.at[i];
        const char *path = dl_format(arena, "%s/%s/metrics.jsonl", dir, t->run);
        s->values[i] = dl_yaml_read(arena, t->values, strlen(t->values), t->name, err);
        if (!s->values[i] || !dlr_trial_curve(arena, path, s->file->metric, false, &curve[i], err))
            return NULL;
    }
    const dlr_trial *of = dlr_trials_best(&s->trials, s->file->maximize);
    if (of && of->state != DLR_TRIAL_ASKED) *best = dl_format(arena, "%s/%s", dir, of->run);
    return s;
}

static const char *text_of(dl_arena *arena, const dl_yaml *v) {
    return v->kind == DL_YAML_LIST || v->kind == DL_YAML_MAP ? dl_yaml_show(arena, v) : v->text;
}

static bool is_same(dl_arena *arena, const dl_yaml *a, const dl_yaml *b) {
    bool numbers = (a->kind == DL_YAML_INT || a->kind == DL_YAML_FLOAT) &&
                   (b->kind == DL_YAML_INT || b->kind == DL_YAML_FLOAT);
    return numbers ? a->number == b->number : strcmp(text_of(arena, a), text_of(arena, b)) == 0;
}

/* ---- axes ---- */

/* Pixels. */
enum { WIDTH = 1080, HEIGHT = 360, LEFT = 70, RIGHT = 70, TOP = 46, BOTTOM = 24 };

/* An axis: a parameter with several values, or the metric. */
typedef struct {
    const char *name;
    const dl_sweep_parameter *p; /* NULL: the metric */
    double low, high;            /* of logarithms where it is logarithmic */
    bool log;
} axis;

/* The number of a trial on the axis; NAN: it has none. */
static double number_of(dl_arena *arena, const dl_reported_sweep *s, const axis *a, int trial) {
    const dlr_trial *t = &s->trials.list.at[trial];
    if (!a->p) return t->result.any && t->state != DLR_TRIAL_FAILED ? t->result.best : NAN;
    const dl_yaml *v = dl_yaml_get(s->values[trial], a->p->name);
    if (!v) return NAN;
    if (!a->p->n) return v->number;
    for (int i = 0; i < a->p->n; i++)
        if (is_same(arena, a->p->values[i], v)) return i;
    return NAN;
}

static axis axis_of(dl_arena *arena, const dl_reported_sweep *s, const dl_sweep_parameter *p) {
    axis a = {.name = p ? p->name : s->file->metric, .p = p, .low = INFINITY, .high = -INFINITY};
    for (int i = 0; i < s->trials.list.n; i++) {
        double x = number_of(arena, s, &a, i);
        if (isfinite(x)) a.low = fmin(a.low, x), a.high = fmax(a.high, x);
    }
    bool ranged = p && !p->n && p->draw != DL_DRAW_NORMAL;
    if (ranged) a.low = fmin(a.low, p->low), a.high = fmax(a.high, p->high);
    if (p && p->n) a.low = 0, a.high = p->n - 1;
    /* values of several decades need a logarithmic axis to be read */
    a.log = p ? p->draw == DL_DRAW_LOG_UNIFORM_VALUES || p->draw == DL_DRAW_Q_LOG_UNIFORM_VALUES
              : a.low > 0 && a.high > 30 * a.low;
    if (a.log) a.low = log10(a.low), a.high = log10(a.high);
    if (!(a.low < a.high)) a.low -= 1, a.high += 1;
    return a;
}

static double height_of(const axis *a, double x) {
    double share = ((a->log ? log10(x) : x) - a->low) / (a->high - a->low);
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

static void put_xml(dl_buf *b, const char *text) { dl_put_foreign(b, DL_IN_XML, text); }

static void put_mark(dl_buf *b, double x, double y, const char *text) {
    dl_putf(b,
            "<path class=\"axis\" d=\"M%.1f %.1f h-5\"/><text x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"end\">",
            x, y, x - 8, y + 4);
    put_xml(b, text), dl_puts(b, "</text>\n");
}

static void put_axis(dl_buf *b, dl_arena *arena, const axis *a, double x) {
    enum { MARKS = 5 };
    dl_putf(b, "<path class=\"axis\" d=\"M%.1f %d V%d\"/>", x, TOP, HEIGHT - BOTTOM);
    dl_putf(b, "<text class=\"title\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x, TOP - 18);
    put_xml(b, a->name), dl_puts(b, "</text>\n");
    if (a->p && a->p->n) {
        int stride = 1 + a->p->n / 20;
        for (int i = 0; i < a->p->n; i += stride)
            put_mark(b, x, height_of(a, i), text_of(arena, a->p->values[i]));
        return;
    }
    for (int i = 0; i < MARKS; i++) {
        double v = a->low + (a->high - a->low) * i / (MARKS - 1);
        if (a->log) v = pow(10, v);
        put_mark(b, x, height_of(a, v), dl_format(arena, "%.3g", v));
    }
}

/* ---- lines ---- */

/* The trials from the worst to the best, so that the best are drawn last; those without a result
 * come first. */
typedef struct {
    int trial;
    double badness;
} ordered;

static int by_badness(const void *a, const void *b) {
    const ordered *x = a, *y = b;
    if (x->badness != y->badness) return x->badness > y->badness ? -1 : 1;
    return (x->trial > y->trial) - (x->trial < y->trial);
}

static ordered *order(dl_arena *arena, const dl_reported_sweep *s) {
    int n = s->trials.list.n;
    ordered *all = DL_NEWS(arena, ordered, n + 1);
    for (int i = 0; i < n; i++) {
        const dlr_trial *t = &s->trials.list.at[i];
        bool any = t->result.any && t->state != DLR_TRIAL_FAILED;
        all[i] = (ordered){i, any ? (s->file->maximize ? -1 : 1) * t->result.best : INFINITY};
    }
    qsort(all, (size_t)n, sizeof *all, by_badness);
    return all;
}

/* From the worst, light, to the best, dark. */
static const char *colour_of(dl_arena *arena, double share) {
    static const double worst[] = {253, 200, 60}, best[] = {50, 20, 120};
    int c[3];
    for (int i = 0; i < 3; i++) c[i] = (int)(worst[i] + share * (best[i] - worst[i]));
    return dl_format(arena, "#%02x%02x%02x", c[0], c[1], c[2]);
}

static void put_trial(dl_buf *b, dl_arena *arena, const dl_reported_sweep *s, const axis *axes,
                      int n, int trial, const char *colour) {
    const dlr_trial *t = &s->trials.list.at[trial];
    bool drawn = false;
    dl_putf(b, "<path class=\"trial\" stroke=\"%s\" d=\"", colour);
    for (int k = 0; k < n; k++) {
        double x = number_of(arena, s, &axes[k], trial);
        bool shown = isfinite(x) && (!axes[k].log || x > 0);
        if (shown)
            dl_putf(b, "%s%.1f %.1f", drawn ? "L" : "M",
                    LEFT + (double)k * (WIDTH - LEFT - RIGHT) / (n - 1), height_of(&axes[k], x));
        drawn = shown;
    }
    dl_putf(b, "\"><title>trial %lld: ", (long long)t->number);
    put_xml(b, t->name);
    if (t->result.any) dl_putf(b, ", %.6g", t->result.best);
    dl_puts(b, "</title></path>\n");
}

static void put_parallel(dl_buf *b, dl_arena *arena, const dl_reported_sweep *s) {
    const dl_sweep_file *f = s->file;
    axis *axes = DL_NEWS(arena, axis, f->n + 1);
    int n = 0, trials = s->trials.list.n, known = 0;
    for (int i = 0; i < f->n; i++)
        if (f->parameters[i].n != 1) axes[n++] = axis_of(arena, s, &f->parameters[i]);
    if (f->metric) axes[n++] = axis_of(arena, s, NULL);
    if (n < 2 || !trials) {
        dl_puts(b, "<p>Parallel axes need two: a parameter with several values, and a metric or "
                   "another parameter.</p>\n");
        return;
    }
    const ordered *all = order(arena, s);
    for (int i = 0; i < trials; i++) known += isfinite(all[i].badness);
    dl_putf(b, "<svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n", WIDTH, HEIGHT, WIDTH,
            HEIGHT);
    for (int i = 0; i < trials; i++) {
        int place = i - (trials - known); /* among those with a result */
        const char *colour = place < 0 || !f->metric
                                 ? "#bbbbbb"
                                 : colour_of(arena, known > 1 ? (double)place / (known - 1) : 1);
        put_trial(b, arena, s, axes, n, all[i].trial, colour);
    }
    for (int k = 0; k < n; k++)
        put_axis(b, arena, &axes[k], LEFT + (double)k * (WIDTH - LEFT - RIGHT) / (n - 1));
    dl_puts(b,
            "</svg>\n<p>A line is a trial; dark ones are the best, grey ones have no result. The "
            "mouse shows names.</p>\n");
}

/* ---- curves and table ---- */

static void put_curves(dl_buf *b, dl_arena *arena, const dl_reported_sweep *s) {
    enum { MOST = 8 };
    DL_ARRAY(dl_plot_line) lines = {0};
    const ordered *all = order(arena, s);
    for (int i = s->trials.list.n - 1; i >= 0 && lines.n < MOST; i--) {
        const dl_sweep_curve *c = &s->curve[all[i].trial];
        if (!c->n) continue;
        double *x = DL_NEWS(arena, double, c->n);
        for (int k = 0; k < c->n; k++) x[k] = k + 1;
        dl_push(arena, &lines,
                (dl_plot_line){.name = s->trials.list.at[all[i].trial].name,
                               .x = x,
                               .y = c->at,
                               .n = c->n,
                               .colour = lines.n});
    }
    dl_plot_style style = {
        .title = dl_format(arena, "%s of the best %d trials", s->file->metric, lines.n),
        .x_label = "evaluation",
        .y_label = s->file->metric};
    if (lines.n) dl_put_plot(b, &style, lines.at, lines.n);
}

static void put_cell(dl_buf *b, const char *tag, const char *text) {
    dl_putf(b, "<%s>", tag), put_xml(b, text), dl_putf(b, "</%s>", tag);
}

static void put_table(dl_buf *b, dl_arena *arena, const dl_reported_sweep *s) {
    static const char *const head[] = {"trial", "state", "epochs", "best", "last"};
    const ordered *all = order(arena, s);
    dl_puts(b, "<table><tr>");
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) put_cell(b, "th", head[i]);
    for (int k = 0; k < s->file->n; k++) put_cell(b, "th", s->file->parameters[k].name);
    dl_puts(b, "</tr>\n");
    for (int i = s->trials.list.n - 1; i >= 0; i--) {
        const dlr_trial *t = &s->trials.list.at[all[i].trial];
        const char *cells[] = {dl_format(arena, "%lld", (long long)t->number), dl_sweep_state(t),
                               dl_format(arena, "%lld", (long long)t->result.epochs),
                               t->result.any ? dl_format(arena, "%.6g", t->result.best) : "-",
                               t->result.any ? dl_format(arena, "%.6g", t->result.last) : "-"};
        dl_puts(b, "<tr>");
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) put_cell(b, "td", cells[k]);
        for (int k = 0; k < s->file->n; k++) {
            const dl_yaml *v = dl_yaml_get(s->values[all[i].trial], s->file->parameters[k].name);
            put_cell(b, "td", v ? text_of(arena, v) : "-");
        }
        dl_puts(b, "</tr>\n");
    }
    dl_puts(b, "</table>\n");
}

void dl_put_sweep(dl_buf *b, dl_arena *arena, const dl_reported_sweep *s) {
    dl_puts(b, "<h2>Sweep "), put_xml(b, s->dir), dl_puts(b, "</h2>\n<p>");
    put_xml(b, s->file->method->name);
    if (s->file->metric)
        dl_puts(b, s->file->maximize ? ", maximize " : ", minimize "), put_xml(b, s->file->metric);
    if (s->file->stop.rule)
        dl_puts(b, ", early_terminate "), put_xml(b, dl_sweep_stop_name(&s->file->stop));
    dl_putf(b, ": %d trials so far</p>\n", s->trials.list.n);
    put_parallel(b, arena, s);
    if (s->file->metric) put_curves(b, arena, s);
    dl_puts(b, "<details open><summary>Trials</summary>\n"), put_table(b, arena, s);
    dl_puts(b, "</details>\n");
}

#include "runtime/runs/report_plots.h"

#include <math.h>

#include "ir/base/foreign.h"

/* Pixels. */
enum {
    WIDTH = 520,
    HEIGHT = 300,
    LEFT = 66,
    RIGHT = 14,
    TOP = 30,
    BOTTOM = 44,
    MOST_POINTS = 2000
};

const char *dl_plot_colour(int number) {
    static const char *const colours[] = {"#1f77b4", "#d95f02", "#2ca02c", "#9467bd",
                                          "#d62728", "#17777f", "#8c564b", "#7f7f7f"};
    return colours[number % (int)(sizeof colours / sizeof *colours)];
}

typedef struct {
    double least, most; /* of logarithms where it is logarithmic */
    bool log;
} scale;

static bool is_shown(double v, bool log) { return isfinite(v) && (!log || v > 0); }
static double on(const scale *s, double v) {
    return ((s->log ? log10(v) : v) - s->least) / (s->most - s->least);
}

/* From the least to the largest of all values that both axes show, with some room. */
static scale scale_of(const dl_plot_line *lines, int n, const dl_plot_style *style, bool of_x) {
    scale s = {.least = INFINITY, .most = -INFINITY, .log = of_x ? style->log_x : style->log_y};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < lines[i].n; k++) {
            if (!is_shown(lines[i].x[k], style->log_x) || !is_shown(lines[i].y[k], style->log_y))
                continue;
            double v = of_x ? lines[i].x[k] : lines[i].y[k];
            if (s.log) v = log10(v);
            s.least = fmin(s.least, v), s.most = fmax(s.most, v);
        }
    if (!(s.least <= s.most)) s.least = 0, s.most = 1;
    double room = (s.most - s.least) * (of_x && !s.log ? 0 : 0.06);
    if (s.most == s.least) room = s.least == 0 ? 1 : fabs(s.least) * 0.1;
    s.least -= room, s.most += room;
    return s;
}

static double x_of(const scale *s, double v) { return LEFT + on(s, v) * (WIDTH - LEFT - RIGHT); }
static double y_of(const scale *s, double v) {
    return HEIGHT - BOTTOM - on(s, v) * (HEIGHT - TOP - BOTTOM);
}

/* The step between ticks: 1, 2 or 5 times a power of ten. */
static double tick_step(const scale *s) {
    double raw = (s->most - s->least) / 5, power = pow(10, floor(log10(raw)));
    double step = raw / power < 1.5 ? power : raw / power < 3.5 ? 2 * power : 5 * power;
    return s->log && step < 1 ? 1 : step;
}

static void put_tick(dl_buf *b, bool of_x, double at, double value) {
    if (of_x)
        dl_putf(b,
                "<path class=\"grid\" d=\"M%.1f %d V%d\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%.4g</text>\n",
                at, TOP, HEIGHT - BOTTOM, at, HEIGHT - BOTTOM + 15, value);
    else
        dl_putf(b,
                "<path class=\"grid\" d=\"M%d %.1f H%d\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%.4g</text>\n",
                LEFT, at, WIDTH - RIGHT, LEFT - 6, at + 4, value);
}

static void put_ticks(dl_buf *b, const scale *s, bool of_x) {
    double step = tick_step(s);
    int n = 0;
    for (double t = ceil(s->least / step) * step; t <= s->most && n < 20; t += step, n++) {
        double v = s->log ? pow(10, t) : fabs(t) < step * 1e-9 ? 0 : t;
        put_tick(b, of_x, of_x ? x_of(s, v) : y_of(s, v), v);
    }
    if (n || !s->log) return; /* a logarithmic axis within one decade has its ends alone */
    for (int end = 0; end < 2; end++) {
        double v = pow(10, end ? s->most : s->least);
        put_tick(b, of_x, of_x ? x_of(s, v) : y_of(s, v), v);
    }
}

static void put_xml(dl_buf *b, const char *text) { dl_put_foreign(b, DL_IN_XML, text); }

static void put_points(dl_buf *b, const dl_plot_line *l, const dl_plot_style *style, const scale *x,
                       const scale *y) {
    for (int k = 0; k < l->n; k++) {
        if (!is_shown(l->x[k], style->log_x) || !is_shown(l->y[k], style->log_y)) continue;
        dl_putf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"><title>", x_of(x, l->x[k]),
                y_of(y, l->y[k]), dl_plot_colour(l->colour));
        put_xml(b, l->titles ? l->titles[k] : l->name);
        dl_puts(b, "</title></circle>\n");
    }
}

/* At most MOST_POINTS of them, evenly. */
static void put_path(dl_buf *b, const dl_plot_line *l, const dl_plot_style *style, const scale *x,
                     const scale *y) {
    int stride = 1 + l->n / MOST_POINTS;
    bool drawn = false;
    double before = 0;
    dl_putf(b, "<path class=\"line\" stroke=\"%s\"%s d=\"", dl_plot_colour(l->colour),
            l->dashed ? " stroke-dasharray=\"5 3\"" : "");
    for (int k = 0; k < l->n; k += stride) {
        bool shown = is_shown(l->x[k], style->log_x) && is_shown(l->y[k], style->log_y);
        if (shown && drawn && l->stairs) dl_putf(b, "L%.1f %.1f", x_of(x, l->x[k]), before);
        if (shown) {
            before = y_of(y, l->y[k]);
            dl_putf(b, "%s%.1f %.1f", drawn ? "L" : "M", x_of(x, l->x[k]), before);
        }
        drawn = shown;
    }
    dl_puts(b, "\"/>\n");
    if (l->n == 1) put_points(b, l, style, x, y);
}

static void put_legend(dl_buf *b, const dl_plot_line *lines, int n) {
    dl_puts(b, "<div class=\"legend\">");
    for (int i = 0; i < n; i++) {
        dl_putf(b, "<span><i style=\"border-top:2px %s %s\"></i>",
                lines[i].dashed ? "dashed" : "solid", dl_plot_colour(lines[i].colour));
        put_xml(b, lines[i].name), dl_puts(b, "</span>");
    }
    dl_puts(b, "</div>");
}

void dl_put_plot(dl_buf *b, const dl_plot_style *style, const dl_plot_line *lines, int n) {
    scale x = scale_of(lines, n, style, true), y = scale_of(lines, n, style, false);
    x.log = style->log_x, y.log = style->log_y;
    dl_putf(b, "<figure><svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n", WIDTH, HEIGHT,
            WIDTH, HEIGHT);
    dl_putf(b, "<text class=\"title\" x=\"%d\" y=\"18\">", LEFT), put_xml(b, style->title);
    dl_puts(b, "</text>\n"), put_ticks(b, &x, true), put_ticks(b, &y, false);
    dl_putf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 8);
    put_xml(b, style->x_label);
    dl_putf(b, "</text><text text-anchor=\"middle\" transform=\"translate(13 %d) rotate(-90)\">",
            (TOP + HEIGHT - BOTTOM) / 2);
    put_xml(b, style->y_label), dl_puts(b, "</text>\n");
    for (int i = 0; i < n; i++)
        if (style->points && lines[i].titles)
            put_points(b, &lines[i], style, &x, &y);
        else
            put_path(b, &lines[i], style, &x, &y);
    dl_puts(b, "</svg>"), put_legend(b, lines, n), dl_puts(b, "</figure>\n");
}

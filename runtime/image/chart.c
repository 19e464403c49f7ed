#include "runtime/image/chart.h"

#include <math.h>
#include <stdio.h>

static const uint8_t paper[3] = {255, 255, 255}, ink[3] = {30, 30, 40}, rule[3] = {225, 225, 230};

enum { LEFT = 62, RIGHT = 16, TOP = 34, BOTTOM = 34, MAX_TICKS = 24 };

/* One axis: values low..high are drawn at pixels from..to. A logarithmic axis works on log10 of the
 * values. */
typedef struct {
    double low, high, from, to;
    bool log;
    int n;
    double tick[MAX_TICKS];
} axis;

static double scaled(const axis *a, double v) { return a->log ? (v > 0 ? log10(v) : NAN) : v; }
static double place(const axis *a, double v) {
    return a->from + (scaled(a, v) - a->low) / (a->high - a->low) * (a->to - a->from);
}

/* Ticks at 1, 2 or 5 times a power of ten, about `wanted` of them. */
static void choose_ticks(axis *a, int wanted) {
    double raw = (a->high - a->low) / wanted, power = pow(10, floor(log10(raw))), step = power;
    if (raw > 5 * power)
        step = 10 * power;
    else if (raw > 2 * power)
        step = 5 * power;
    else if (raw > power)
        step = 2 * power;
    for (double i = ceil(a->low / step - 1e-9);
         i * step <= a->high + 1e-9 * step && a->n < MAX_TICKS; i++)
        a->tick[a->n++] = i * step + 0.0; /* -0 becomes 0 */
}

/* On a logarithmic axis: powers of ten, and 2 and 5 times them when there are few. */
static void choose_log_ticks(axis *a) {
    double decades = a->high - a->low, every = ceil(decades / 8);
    static const double within[] = {1, 2, 5};
    for (double e = floor(a->low); e <= a->high; e += every < 1 ? 1 : every)
        for (int i = 0; i < (decades < 3 ? 3 : 1); i++) {
            double v = within[i] * pow(10, e);
            if (log10(v) >= a->low && log10(v) <= a->high && a->n < MAX_TICKS) a->tick[a->n++] = v;
        }
}

static bool find_range(axis *a, const dlr_series *series, int n, bool x) {
    a->low = INFINITY, a->high = -INFINITY;
    for (int s = 0; s < n; s++)
        for (int i = 0; i < series[s].n; i++) {
            double v = scaled(a, x ? series[s].x[i] : series[s].y[i]);
            if (!isfinite(v)) continue;
            if (v < a->low) a->low = v;
            if (v > a->high) a->high = v;
        }
    if (!(a->low <= a->high)) return false;
    double pad = a->high > a->low ? 0.04 * (a->high - a->low) : fmax(fabs(a->low) * 0.1, 1e-9);
    if (!x || a->low == a->high) a->low -= pad, a->high += pad;
    return true;
}

/* Blends a pixel towards a colour. */
static void blend(dlr_image *image, int x, int y, const uint8_t rgb[3], double alpha) {
    if (x < 0 || y < 0 || x >= image->width || y >= image->height) return;
    uint8_t *p = image->rgb + 3 * ((size_t)y * (size_t)image->width + (size_t)x);
    for (int c = 0; c < 3; c++) p[c] = (uint8_t)(p[c] + alpha * (rgb[c] - p[c]) + 0.5);
}

/* A line two pixels wide; a pixel is covered by its distance from the line. */
static void draw_line(dlr_image *image, double x0, double y0, double x1, double y1,
                      const uint8_t rgb[3]) {
    double dx = x1 - x0, dy = y1 - y0, length2 = dx * dx + dy * dy;
    for (int y = (int)fmin(y0, y1) - 2; y <= (int)fmax(y0, y1) + 2; y++)
        for (int x = (int)fmin(x0, x1) - 2; x <= (int)fmax(x0, x1) + 2; x++) {
            double t = length2 > 0 ? ((x - x0) * dx + (y - y0) * dy) / length2 : 0;
            t = t < 0 ? 0 : t > 1 ? 1 : t;
            double cover = 1.5 - hypot(x - x0 - t * dx, y - y0 - t * dy);
            if (cover > 0) blend(image, x, y, rgb, cover < 1 ? cover : 1);
        }
}

static void text_at(dlr_image *image, double x, double y, double align, const char *text) {
    int width = (int)strlen(text) * DLR_TEXT_WIDTH;
    dlr_image_text(image, (int)(x - align * width), (int)y, text, ink);
}

static void draw_axes(dlr_image *image, const axis *x, const axis *y) {
    char text[32];
    int left = (int)x->from, bottom = (int)y->from, width = (int)(x->to - x->from),
        height = (int)(y->from - y->to);
    for (int i = 0; i < y->n; i++) {
        int at = (int)place(y, y->tick[i]);
        dlr_image_fill(image, left, at, width, 1, rule);
        snprintf(text, sizeof text, "%.4g", y->tick[i]);
        text_at(image, left - 6, at - 3, 1, text);
    }
    for (int i = 0; i < x->n; i++) {
        int at = (int)place(x, x->tick[i]);
        dlr_image_fill(image, at, bottom, 1, 4, ink);
        snprintf(text, sizeof text, "%.6g", x->tick[i]);
        text_at(image, at, bottom + 7, 0.5, text);
    }
    dlr_image_fill(image, left, bottom, width + 1, 1, ink);
    dlr_image_fill(image, left, bottom - height, 1, height, ink);
}

static void draw_series(dlr_image *image, const axis *x, const axis *y, const dlr_series *s) {
    double x0 = NAN, y0 = NAN;
    for (int i = 0; i < s->n; i++) {
        double x1 = place(x, s->x[i]), y1 = place(y, s->y[i]);
        bool here = isfinite(x1) && isfinite(y1);
        if (here) draw_line(image, isfinite(x0) ? x0 : x1, isfinite(x0) ? y0 : y1, x1, y1, s->rgb);
        x0 = here ? x1 : NAN, y0 = y1;
    }
}

static void draw_legend(dlr_image *image, const dlr_series *series, int n, double right) {
    double x = right;
    for (int i = n - 1; i >= 0; i--) {
        if (!series[i].name) continue;
        x -= (double)strlen(series[i].name) * DLR_TEXT_WIDTH;
        text_at(image, x, 20, 0, series[i].name);
        draw_line(image, x - 22, 23, x - 6, 23, series[i].rgb);
        x -= 36;
    }
}

dlr_image *dlr_chart(dl_arena *arena, const dlr_chart_style *style, const dlr_series *series, int n,
                     dl_error *err) {
    axis x = {.from = LEFT, .to = style->width - RIGHT};
    axis y = {.from = style->height - BOTTOM, .to = TOP, .log = style->log_y};
    if (style->width < 160 || style->height < 120 || !find_range(&x, series, n, true) ||
        !find_range(&y, series, n, false)) {
        dl_fail(err, DL_INPUT, "cannot draw a chart of %d curves in %d x %d pixels", n,
                style->width, style->height);
        return NULL;
    }
    dlr_image *image = dlr_image_new(arena, style->width, style->height, paper, err);
    if (!image) return NULL;
    choose_ticks(&x, style->width / 90);
    if (y.log) choose_log_ticks(&y);
    if (y.n < 2) { /* linear, or the axis spans less than a step of the logarithmic ticks */
        axis plain = {.low = y.log ? pow(10, y.low) : y.low,
                      .high = y.log ? pow(10, y.high) : y.high};
        choose_ticks(&plain, style->height / 50);
        memcpy(y.tick, plain.tick, sizeof y.tick);
        y.n = plain.n;
    }
    draw_axes(image, &x, &y);
    for (int i = 0; i < n; i++) draw_series(image, &x, &y, &series[i]);
    draw_legend(image, series, n, x.to);
    if (style->title) text_at(image, LEFT + (x.to - LEFT) / 2, 6, 0.5, style->title);
    if (style->x_label)
        text_at(image, LEFT + (x.to - LEFT) / 2, style->height - 12, 0.5, style->x_label);
    if (style->y_label) text_at(image, 6, 20, 0, style->y_label);
    return image;
}

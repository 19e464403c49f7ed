/* A line chart: training curves for a report, without a plotting library. */
#ifndef DLR_CHART_H
#define DLR_CHART_H
#include "runtime/image/image.h"

/* Points in drawing order; values that are not finite (and values <= 0 on a logarithmic axis) leave
 * a gap. */
typedef struct {
    const double *x, *y;
    int n;
    const char *name; /* in the legend; NULL for none */
    uint8_t rgb[3];
} dlr_series;

typedef struct {
    int width, height;                     /* pixels, at least 160 x 120 */
    const char *title, *x_label, *y_label; /* NULL for none; y_label is drawn above the axis */
    bool log_y;
} dlr_chart_style;

/* In the arena; NULL with DL_INPUT when it is too small or nothing can be drawn. */
dlr_image *dlr_chart(dl_arena *arena, const dlr_chart_style *style, const dlr_series *series, int n,
                     dl_error *err);
#endif

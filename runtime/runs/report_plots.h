/* Plots of a report as SVG text: lines over steps, and a roofline. */
#ifndef DL_REPORT_PLOTS_H
#define DL_REPORT_PLOTS_H
#include "ir/base/arena.h"
#include "ir/base/str.h"

typedef struct {
    const char *name; /* in the legend */
    const double *x, *y;
    int n;
    int colour; /* from 0 */
    bool dashed, stairs;
    const char *const *titles; /* of each point, for the mouse; or NULL */
} dl_plot_line;

typedef struct {
    const char *title, *x_label, *y_label;
    bool log_x, log_y;
    bool points; /* each by itself, without lines */
} dl_plot_style;

/* Appends the plot. Values that are not finite (of a logarithmic axis: not above 0) leave a gap. */
void dl_put_plot(dl_buf *b, const dl_plot_style *style, const dl_plot_line *lines, int n);
/* The colour of a number, "#1f77b4". */
const char *dl_plot_colour(int number);
#endif

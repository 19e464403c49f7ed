/* Pictures of a run: inputs, targets and predictions. */
#ifndef DLR_FIGURES_H
#define DLR_FIGURES_H
#include "runtime/exec/exec.h"
#include "runtime/image/image.h"

enum { DLR_FIGURE_COLUMNS = 8 };

/* A row of a picture: sample 0 of a tensor [N, C, H, W] or [N, C, D, H, W] (there the middle plane
 * of D), a panel a channel, at most DLR_FIGURE_COLUMNS. */
typedef struct {
    const char *label; /* before each channel's number: "input x" */
    const dl_type *type;
    const float *data; /* the first channel's plane, row-major */
    int64_t step;      /* from there to the next channel's */
    int like;          /* the row whose colours it takes, channel by channel; -1: its own */
} dlr_figure_row;

/* Whether a tensor can be such a row. */
bool dlr_figure_can_show(const dl_type *type);
/* Where the plane of a channel lies in a whole tensor of sample 0, row-major. */
int64_t dlr_figure_plane(const dl_type *type, int channel);
/* In the arena; NULL with DL_INPUT when nothing can be drawn. */
dlr_image *dlr_figure_rows(dl_arena *arena, const dlr_figure_row *rows, int n, dl_error *err);

/* Figures that the model itself declares (`figure "name" = [...]`): number `index` of program's
 * figures, its panels side by side; *name is its name. NULL with err->code DL_OK when there is no
 * such one. */
dlr_image *dlr_figure_of_model(dl_arena *arena, const dlr_exec *exec, int program, int index,
                               const char **name, dl_error *err);
#endif

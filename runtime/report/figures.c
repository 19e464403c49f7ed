#include "runtime/report/figures.h"

#include <math.h>

#include "runtime/exec/state.h"

enum { PANEL_PIXELS = 128 };

bool dlr_figure_can_show(const dl_type *t) {
    bool ok = t->dtype == DL_F32 && (t->rank == 4 || t->rank == 5);
    for (int i = 0; ok && i < t->rank; i++) ok = t->axis[i].size > 0 && t->axis[i].size < 1 << 14;
    return ok;
}

/* Around zero, in two colours, only what has its mean there; the rest from dark to light. */
static dlr_map choose_map(const float *at, int64_t n) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++) sum += at[i], square += (double)at[i] * at[i];
    double mean = sum / (double)n, variance = square / (double)n - mean * mean;
    return fabs(mean) < 0.2 * sqrt(fmax(variance, 0)) ? DLR_MAP_DIVERGING : DLR_MAP_SEQUENTIAL;
}

int64_t dlr_figure_plane(const dl_type *t, int channel) {
    int64_t depth = t->rank == 5 ? t->axis[2].size : 1;
    return ((int64_t)channel * depth + depth / 2) * t->axis[t->rank - 2].size *
           t->axis[t->rank - 1].size;
}

static dlr_field panel(dl_arena *arena, const dlr_figure_row *row, int c) {
    const dl_axis *axis = row->type->axis;
    int64_t height = axis[row->type->rank - 2].size, width = axis[row->type->rank - 1].size;
    const float *at = row->data + c * row->step;
    dlr_field f = {.at = at, .height = (int)height, .width = (int)width, .row = width, .column = 1};
    f.label = dl_format(arena, "%s[%d]", row->label, c);
    f.map = choose_map(at, height * width);
    dlr_field_range(&f);
    return f;
}

static int channels(const dlr_figure_row *row) {
    int64_t n = row->type->axis[1].size;
    return n < DLR_FIGURE_COLUMNS ? (int)n : DLR_FIGURE_COLUMNS;
}

dlr_image *dlr_figure_rows(dl_arena *arena, const dlr_figure_row *rows, int n, dl_error *err) {
    int columns = 0;
    for (int r = 0; r < n; r++)
        if (channels(&rows[r]) > columns) columns = channels(&rows[r]);
    dlr_field *fields = DL_NEWS(arena, dlr_field, n * columns + 1); /* zeroed: an empty panel */
    for (int r = 0; r < n; r++) {
        for (int c = 0; c < channels(&rows[r]); c++) {
            dlr_field *f = &fields[r * columns + c];
            const dlr_field *like = rows[r].like < 0 ? f : &fields[rows[r].like * columns + c];
            *f = panel(arena, &rows[r], c);
            if (like->at) f->low = like->low, f->high = like->high, f->map = like->map;
        }
    }
    return dlr_image_panels(arena, fields, n * columns, columns, PANEL_PIXELS, err);
}

/* Is `result` a panel of the figure `name`: NAME itself, or NAME/0, NAME/1, ...? */
static bool is_panel(const char *result, const char *name, size_t n) {
    return strncmp(result, name, n) == 0 && (result[n] == 0 || result[n] == '/');
}

/* The length of the figure's name in that of one of its panels. */
static size_t stem(const char *result) {
    const char *slash = strrchr(result, '/');
    return slash && slash[1] && strspn(slash + 1, "0123456789") == strlen(slash + 1)
               ? (size_t)(slash - result)
               : strlen(result);
}

static dlr_field plane(dl_arena *arena, const dlr_exec *exec, int program, const char *name) {
    dlr_view v = dlr_exec_result(exec, program, DL_RESULT_FIGURE, name);
    float *at = DL_NEWS(arena, float, dl_type_count(v.type) + 1);
    dlr_state_read(exec, v, DL_F32, at);
    int64_t height = 1, width = 1;
    for (int i = 0; i < v.type->rank; i++) height *= width, width = v.type->axis[i].size;
    dlr_field f = {.at = at,
                   .height = (int)height,
                   .width = (int)width,
                   .row = width,
                   .column = 1,
                   .label = name};
    f.map = choose_map(at, height * width);
    dlr_field_range(&f);
    return f;
}

dlr_image *dlr_figure_of_model(dl_arena *arena, const dlr_exec *exec, int program, int index,
                               const char **name, dl_error *err) {
    const dl_plan_program *p = &dlr_exec_plan(exec)->programs.at[program];
    DL_ARRAY(dlr_field) fields = {0};
    *name = NULL;
    for (int i = 0, seen = -1; i < p->results.n; i++) {
        const dl_plan_result *r = &p->results.at[i];
        if (r->role != DL_RESULT_FIGURE) continue;
        if (!*name) {
            bool first =
                i == 0 || p->results.at[i - 1].role != DL_RESULT_FIGURE ||
                !is_panel(r->name, p->results.at[i - 1].name, stem(p->results.at[i - 1].name));
            if (first) seen++;
            if (seen != index) continue;
            *name = dl_strndup(arena, r->name, stem(r->name));
        }
        if (is_panel(r->name, *name, strlen(*name)))
            dl_push(arena, &fields, plane(arena, exec, program, r->name));
    }
    for (int i = 1; i < fields.n; i++) { /* one colour for one quantity: that of the first panel */
        dlr_field *f = &fields.at[i];
        f->low = fields.at[0].low, f->high = fields.at[0].high, f->map = fields.at[0].map;
    }
    return fields.n ? dlr_image_panels(arena, fields.at, fields.n, fields.n, 2 * PANEL_PIXELS, err)
                    : NULL;
}

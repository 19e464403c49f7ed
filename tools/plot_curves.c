/* plot_curves METRICS.jsonl OUT.png [TITLE]: the losses of a run over its steps, as a line chart.
 *
 * For the project's own pictures (scripts/make-pictures). */
#include "cli/streams.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "runtime/formats/json.h"
#include "runtime/image/chart.h"

#include <stdio.h>
#include <string.h>

enum { LIMIT = 256 << 20, WIDTH = 640, HEIGHT = 400 };

typedef DL_ARRAY(double) numbers;

typedef struct {
    const char *tag, *name;
    uint8_t rgb[3];
    numbers x, y;
} curve;

/* Adds a line's point to each curve whose tag it holds. */
static bool add_point(dl_arena *arena, const char *line, size_t n, const char *path, curve *curves,
                      int ncurves, dl_error *err) {
    const dlr_json *point =
        dlr_json_parse(arena, line, n, (dlr_json_limits){.depth = 4, .values = 1000}, path, err);
    if (!point) return false;
    double x, y;
    if (!dlr_json_number(dlr_json_get(point, "iteration"), &x))
        return dl_fail(err, DL_INPUT,
                       "%s: a line has no iteration: is it the metrics.jsonl of a run?", path);
    for (int i = 0; i < ncurves; i++) {
        if (!dlr_json_number(dlr_json_get(point, curves[i].tag), &y)) continue;
        dl_push(arena, &curves[i].x, x);
        dl_push(arena, &curves[i].y, y);
    }
    return true;
}

static bool read_curves(dl_arena *arena, const char *path, curve *curves, int ncurves,
                        dl_error *err) {
    size_t size;
    char *text = dl_read_input(arena, path, LIMIT, &size, err);
    if (!text) return false;
    for (char *line = text, *end; (end = memchr(line, '\n', (size_t)(text + size - line)));
         line = end + 1)
        if (!add_point(arena, line, (size_t)(end - line), path, curves, ncurves, err)) return false;
    return true;
}

static bool plot(dl_arena *arena, const char *in, const char *out, const char *title,
                 dl_error *err) {
    curve curves[] = {{.tag = "Loss/train", .name = "training", .rgb = {120, 150, 190}},
                      {.tag = "Loss/valid", .name = "validation", .rgb = {200, 70, 40}}};
    enum { N = sizeof curves / sizeof *curves };
    if (!read_curves(arena, in, curves, N, err)) return false;
    dlr_series series[N];
    for (int i = 0; i < N; i++) {
        curve *c = &curves[i];
        series[i] = (dlr_series){.x = c->x.at, .y = c->y.at, .n = c->x.n, .name = c->name};
        memcpy(series[i].rgb, c->rgb, sizeof c->rgb);
    }
    dlr_chart_style style = {WIDTH, HEIGHT, title, "step", "L1 loss", true};
    dlr_image *image = dlr_chart(arena, &style, series, N, err);
    if (!image) return false;
    dl_buf png = {0};
    bool ok = dlr_png_encode(image, &png, err) && dl_write_file(out, png.at, png.n, err);
    dl_buf_free(&png);
    return ok;
}

int main(int argc, char **argv) {
    cli_streams_start();
    if (argc < 3 || argc > 4) {
        fputs("usage: plot_curves METRICS.jsonl OUT.png [TITLE]\n", stderr);
        return DL_USAGE;
    }
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    if (!plot(arena, argv[1], argv[2], argc > 3 ? argv[3] : NULL, &err))
        fprintf(stderr, "plot_curves: error: %s\n", err.message);
    dl_arena_free(arena);
    return cli_streams_end("plot_curves", (int)err.code);
}

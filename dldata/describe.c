#include "dldata/describe.h"

#include "dldata/array.h"
#include "dldata/cf_time.h"
#include "runtime/image/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHANNELS = 64, MAX_DRAWN = 8, MAX_ROWS = 8, PANEL = 256 };
#define BLOCK_ELEMENTS ((uint64_t)1 << 21)
#define MOST_ELEMENTS                                                                              \
    ((uint64_t)1 << 28) /* most bytes that are read of an array; of a larger one, blocks spread    \
                           over it are read */

/* The meaning of an array's axes. Without channels or depth the axis is -1. */
typedef struct {
    int channel, depth, height, width;
    uint64_t channels;
} axes;

static axes axes_of(const array *a) {
    int r = a->rank;
    axes x = {-1, -1, r - 2, r - 1, 1};
    const char *slash = strrchr(a->name, '/'), *name = slash ? slash + 1 : a->name;
    const bool times = r == 4 && a->axis[0] && strcasestr(a->axis[0], "time");
    if (times)
        x = (axes){1, 0, 2, 3, 0}; /* time, level, latitude, longitude */
    else if (r >= 5 && a->dims[r - 1] <= 4 && a->dims[r - 1] < a->dims[r - 2])
        x = (axes){r - 1, r - 4, r - 3, r - 2, 0}; /* components last */
    else if (r == 4 && a->dims[3] <= 16 && a->dims[3] < a->dims[0] && strcmp(name, "fields") != 0)
        x = (axes){3, 0, 1, 2, 0}; /* channels last: DHWC */
    else if (r == 4 && (a->dims[0] > 16 || !strcmp(name, "fields")))
        x = (axes){1, 0, 2, 3, 0}; /* time, channel, latitude, longitude */
    else if (r >= 4)
        x = (axes){r - 4, r - 3, r - 2, r - 1, 0};
    else if (r == 3)
        x.depth = 0;
    if (x.channel >= 0) x.channels = a->dims[x.channel];
    if (x.channels > MAX_CHANNELS) x.channel = -1, x.channels = 1;
    return x;
}

typedef struct {
    double low, high, sum, square, shift;
    uint64_t n, nan, infinite; /* finite values; others */
} statistics;

static void add_value(statistics *s, double v) {
    if (!isfinite(v)) {
        s->nan += isnan(v) != 0, s->infinite += isinf(v) != 0;
        return;
    }
    /* sums relative to the first value do not cancel */
    if (s->n++ == 0) s->low = s->high = s->shift = v;
    if (v < s->low) s->low = v;
    if (v > s->high) s->high = v;
    s->sum += v - s->shift;
    s->square += (v - s->shift) * (v - s->shift);
}

/* Measures the array in blocks: whole trailing axes, a range of axis `cut`, single indices of the
 * axes before it. */
static bool measure(const array *a, const axes *x, statistics *s, bool *sampled, dl_error *err) {
    int cut = a->rank - 1;
    uint64_t inner = 1, outer = 1, after_channel = 1;
    while (cut > 0 && inner * a->dims[cut] <= BLOCK_ELEMENTS) inner *= a->dims[cut--];
    uint64_t range = BLOCK_ELEMENTS / (inner ? inner : 1),
             pieces = (a->dims[cut] + range - 1) / range;
    for (int i = 0; i < cut; i++) outer *= a->dims[i];
    for (int i = x->channel + 1; i < a->rank; i++) after_channel *= a->dims[i];
    uint64_t blocks = outer * pieces, most = MOST_ELEMENTS / BLOCK_ELEMENTS, stride = 1;
    *sampled = a->count > MOST_ELEMENTS;
    if (*sampled) stride = (blocks / most + 1) | 1; /* odd, so that it covers all channels */
    double *v = malloc(BLOCK_ELEMENTS * sizeof *v);
    if (!v) return dl_fail(err, DL_RESOURCE, "no memory to read '%s'", a->name);
    bool ok = true;
    for (uint64_t b = 0; ok && b < blocks; b += stride) {
        uint64_t start[ARRAY_MAX_RANK] = {0}, size[ARRAY_MAX_RANK], n = 1, first = 0,
                 rest = b / pieces;
        for (int i = a->rank - 1; i >= 0; i--) {
            size[i] = i > cut ? a->dims[i] : 1;
            if (i < cut) start[i] = rest % a->dims[i], rest /= a->dims[i];
        }
        start[cut] = b % pieces * range;
        size[cut] = a->dims[cut] - start[cut] < range ? a->dims[cut] - start[cut] : range;
        for (int i = 0; i < a->rank; i++) first = first * a->dims[i] + start[i], n *= size[i];
        ok = a->read(a, start, size, v, err);
        for (uint64_t i = 0; ok && i < n; i++)
            add_value(&s[x->channel < 0 ? 0 : (first + i) / after_channel % x->channels], v[i]);
    }
    free(v);
    return ok;
}

/* Reads one plane of a channel as floats, in the arena. */
static bool read_plane(dl_arena *arena, const array *a, const axes *x, uint64_t channel,
                       uint64_t depth, dlr_field *out, dl_error *err) {
    uint64_t start[ARRAY_MAX_RANK] = {0}, size[ARRAY_MAX_RANK];
    for (int i = 0; i < a->rank; i++) size[i] = 1;
    if (x->channel >= 0) start[x->channel] = channel;
    if (x->depth >= 0) start[x->depth] = depth;
    uint64_t height = x->height >= 0 ? a->dims[x->height] : 1, width = a->dims[x->width];
    float *plane = dl_alloc(arena, height * width * sizeof *plane);
    /* With channels last, rows are read with all channels, in contiguous blocks. */
    bool last = x->channel > x->width;
    uint64_t n = last ? x->channels * width : width;
    double *row = dl_alloc(arena, n * sizeof *row);
    size[x->width] = width;
    if (last) start[x->channel] = 0, size[x->channel] = x->channels;
    for (uint64_t y = 0; y < height; y++) {
        if (x->height >= 0) start[x->height] = y;
        if (!a->read(a, start, size, row, err)) return false;
        for (uint64_t i = 0; i < width; i++)
            plane[y * width + i] = (float)row[last ? i * x->channels + channel : i];
    }
    *out = (dlr_field){.at = plane,
                       .height = (int)height,
                       .width = (int)width,
                       .row = (ptrdiff_t)width,
                       .column = 1};
    return true;
}

/* The slices of an array, one row of the picture. */
typedef struct {
    dlr_field channel[MAX_DRAWN];
    int n;
} row;
typedef DL_ARRAY(row) row_list;

/* The line of `labels` for a channel; `brief`: without its explanation. */
static const char *label_of(dl_arena *arena, const array *a, uint64_t channel, bool brief) {
    const char *line = a->labels;
    for (uint64_t i = 0; line && i < channel; i++) {
        line = strchr(line, '\n');
        if (line) line++;
    }
    return line ? dl_strndup(arena, line, strcspn(line, brief ? ":\n" : "\n")) : "";
}

/* Whether a channel's values are distributed about evenly around zero, as velocities are. */
static bool around_zero(const statistics *s) {
    if (!s->n) return false;
    double mean = s->sum / (double)s->n, variance = s->square / (double)s->n - mean * mean;
    return fabs(mean + s->shift) < 0.2 * sqrt(fmax(variance, 0)) &&
           fmin(-s->low, s->high) > 0.4 * fmax(-s->low, s->high);
}

static bool draw(dl_arena *arena, const array *a, const axes *x, const statistics *s,
                 long long slice, row_list *rows, bool *slice_found, dl_error *err) {
    uint64_t deep = x->depth >= 0 ? a->dims[x->depth] : 1,
             k = slice < 0 ? deep / 2 : (uint64_t)slice;
    if (a->rank < 2 || a->count == 0 || a->dims[x->width] > 16384 || a->dims[x->height] > 16384)
        return true;
    if (k >= deep || a->dims[x->width] * a->dims[x->height] < 4) return true;
    *slice_found = true;
    if (rows->n == MAX_ROWS) return true;
    row r = {.n = 0};
    while (r.n < MAX_DRAWN && (uint64_t)r.n < x->channels) {
        dlr_field *f = &r.channel[r.n];
        if (!read_plane(arena, a, x, (uint64_t)r.n, k, f, err)) return false;
        f->label =
            dl_format(arena, "%s %d %s", a->name, r.n, label_of(arena, a, (uint64_t)r.n, true));
        if (around_zero(&s[r.n])) f->map = DLR_MAP_DIVERGING;
        r.n++;
    }
    dl_push(arena, rows, r);
    return true;
}

static bool encode(dl_arena *arena, const row_list *rows, dl_buf *png, dl_error *err) {
    dlr_field fields[MAX_ROWS * MAX_DRAWN];
    int columns = 1, n = 0;
    for (int i = 0; i < rows->n; i++)
        if (rows->at[i].n > columns) columns = rows->at[i].n;
    for (int i = 0; i < rows->n; i++)
        for (int c = 0; c < columns; c++)
            fields[n++] = c < rows->at[i].n ? rows->at[i].channel[c] : (dlr_field){0};
    dlr_image *image = dlr_image_panels(arena, fields, n, columns, PANEL, err);
    return image && dlr_png_encode(image, png, err);
}

static void put_shape(dl_buf *text, const array *a) {
    dl_puts(text, "[");
    for (int i = 0; i < a->rank; i++)
        dl_putf(text, "%s%llu", i ? ", " : "", (unsigned long long)a->dims[i]);
    dl_puts(text, "]");
}

static void put_statistics(dl_arena *arena, dl_buf *text, const array *a, const axes *x,
                           const statistics *s) {
    dl_putf(text, "  channel %11s %11s %11s %11s\n", "min", "max", "mean", "std");
    for (uint64_t c = 0; c < x->channels; c++) {
        double n = (double)s[c].n, mean = s[c].n ? s[c].sum / n : NAN;
        double variance = s[c].n ? s[c].square / n - mean * mean : NAN;
        dl_putf(text, "  %7llu %11.5g %11.5g %11.5g %11.5g%s%s", (unsigned long long)c,
                s[c].n ? s[c].low : NAN, s[c].n ? s[c].high : NAN, mean + s[c].shift,
                sqrt(fmax(variance, 0)), a->labels ? "  " : "", label_of(arena, a, c, false));
        if (s[c].nan)
            dl_putf(text, a->packing ? "  %llu missing" : "  %llu NaN!",
                    (unsigned long long)s[c].nan);
        if (s[c].infinite) dl_putf(text, "  %llu infinite!", (unsigned long long)s[c].infinite);
        dl_puts(text, "\n");
    }
}

static void put_number(dl_buf *text, const char *before, const dlr_number *n) {
    dl_puts(text, before);
    if (n->kind == 'f')
        dl_put_double(text, n->f);
    else
        dl_putf(text, n->kind == 'u' ? "%llu" : "%lld", (unsigned long long)n->u);
}

/* Appends "  stands for: stored * 0.01 + 280; missing: -32767, below 0". */
static void put_packing(dl_buf *text, const array *a) {
    const dlr_packing *p = a->packing;
    const char *before = "; missing: ";
    for (const char *line = a->warnings; line && *line; line = strchr(line, '\n') + 1)
        dl_putf(text, "  warning: %.*s\n", (int)strcspn(line, "\n"), line);
    if (!p) return;
    dl_puts(text, "  by its attributes: stored");
    if (p->type != p->stored) dl_putf(text, " as %s", dlr_element_name(p->type));
    if (p->scaled) {
        dl_puts(text, " * "), dl_put_double(text, p->scale);
        dl_puts(text, " + "), dl_put_double(text, p->offset);
    }
    for (int i = 0; i < p->n_missing; i++, before = ", ") put_number(text, before, &p->missing[i]);
    if (p->has_least) dl_puts(text, before), before = ", ", put_number(text, "below ", &p->least);
    if (p->has_most) dl_puts(text, before), put_number(text, "above ", &p->most);
    dl_puts(text, "\n");
}

static bool is_volume(const array *a, const char *name, uint64_t channels) {
    return !strcmp(a->name, name) && a->rank == 4 && a->f32 && a->dims[0] == channels &&
           a->dims[1] == a->dims[2] && a->dims[2] == a->dims[3] && !a->unreadable;
}

/* Appends the loaders that can read the file, or the obstacle if the file nearly matches one. */
static void put_loaders(dl_buf *text, const array_file *f) {
    const array *nbody = NULL, *hydro = NULL, *fields = NULL, *channels_last = NULL;
    for (int i = 0; i < f->arrays.n; i++) {
        const array *a = &f->arrays.at[i];
        if (is_volume(a, "Nbody", 4)) nbody = a;
        if (is_volume(a, "Hydro", 5)) hydro = a;
        if (!strcmp(a->name, "fields") && a->rank == 4 && a->f32) fields = a;
        if (f->format[0] == 'N' && a->rank == 4 && a->f32 && (a->dims[3] == 4 || a->dims[3] == 5))
            channels_last = a;
    }
    if (nbody && hydro && nbody->dims[1] == hydro->dims[1])
        dl_putf(
            text,
            "loaders: %sinmem of the 3-D U-Net (train_path, val_path), a box of %llu^3 cells%s\n",
            nbody->contiguous && hydro->contiguous ? "lowmem, " : "",
            (unsigned long long)nbody->dims[1],
            nbody->contiguous && hydro->contiguous ? "" : "; lowmem needs contiguous data");
    else if (fields)
        dl_puts(text, "loaders: pytorch of the vision transformer (train_data_path): a year of "
                      "weather fields\n");
    else if (channels_last)
        dl_puts(
            text,
            "loaders: none in this version; the layout is dali-lowmem's (train_path_npy_*) of the "
            "3-D U-Net\n");
    else
        dl_puts(text, "loaders: own, as far as the arrays can be read (docs/guide/data.md; with a "
                      "model's file "
                      "after this one "
                      "the section is proposed)\n");
}

static bool describe_array(dl_arena *arena, const array *a, long long slice, dl_buf *text,
                           row_list *rows, bool *slice_found, dl_error *err) {
    dl_putf(text, "\n%s  %s ", a->name, a->type);
    put_shape(text, a);
    dl_putf(text, "  %s", a->storage);
    dl_puts(text, "\n");
    if (a->unreadable) {
        dl_putf(text, "  not read: %s\n", a->unreadable);
        return true;
    }
    if (a->about) dl_puts(text, a->about);
    put_packing(text, a);
    if (!a->numeric || a->count == 0) return true;
    /* Assumes that a slow machine reads ten million elements a second. */
    dl_sandbox_allow(2 + (int)((a->count < MOST_ELEMENTS ? a->count : MOST_ELEMENTS) / 10000000));
    axes x = axes_of(a);
    statistics s[MAX_CHANNELS] = {0};
    if (a->rank == 0) {
        double v;
        if (!a->read(a, NULL, NULL, &v, err)) return false;
        dl_putf(text, "  value %.9g\n", v);
        return true;
    }
    bool sampled;
    if (!measure(a, &x, s, &sampled, err)) return false;
    put_statistics(arena, text, a, &x, s);
    char first[32], last[32];
    if (a->since && a->rank == 1 && s->n && cf_time(a->since, s->low, first, sizeof first) &&
        cf_time(a->since, s->high, last, sizeof last))
        dl_putf(text, "  from %s to %s\n", first, last);
    if (sampled) dl_puts(text, "  (of a sample: blocks spread over the whole array)\n");
    return draw(arena, a, &x, s, slice, rows, slice_found, err);
}

bool describe_file(void *request, dl_sandbox_result *out, dl_error *err) {
    const describe_request *r = request;
    dl_arena *arena = dl_arena_new(NULL);
    array_file f;
    row_list rows = {0};
    bool slice_found = false;
    bool ok = array_file_open(arena, r->path, &f, err);
    if (ok) {
        dl_putf(&out->text, "%s: %s, %.1f MiB, %d array%s\n", r->path, f.format,
                (double)f.bytes / (1 << 20), f.arrays.n, f.arrays.n == 1 ? "" : "s");
        for (int i = 0; i < f.attributes.n; i++) dl_putf(&out->text, "  %s\n", f.attributes.at[i]);
    }
    for (int i = 0; ok && i < f.arrays.n; i++)
        ok = describe_array(arena, &f.arrays.at[i], r->slice, &out->text, &rows, &slice_found, err);
    if (ok && r->slice >= 0 && !slice_found)
        ok = dl_fail(err, DL_USAGE, "--slice %lld: no array of %s is that deep", r->slice, r->path);
    if (ok) {
        dl_puts(&out->text, "\n");
        put_loaders(&out->text, &f);
    }
    if (ok && rows.n > 0) ok = encode(arena, &rows, &out->bytes, err);
    array_file_close(&f);
    dl_arena_free(arena);
    return ok;
}

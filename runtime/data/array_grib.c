/* GRIB files (grib_arrays.h), by ecCodes in child processes. */
#include <math.h>
#include <stdlib.h>

#include "ir/base/file_calls.h"
#include "runtime/data/array_format.h"
#include "runtime/data/byte_order.h"
#include "runtime/data/grib_arrays.h"

enum { CPU_SECONDS = 120 };

/* ---- what the child found ---- */

static void end_text(char *text, size_t room) { text[room - 1] = 0; }

/* Ends texts, and bounds sizes, whatever they are. */
static bool check_field(dlr_grib_about *a) {
    end_text(a->name, sizeof a->name), end_text(a->level_type, sizeof a->level_type);
    end_text(a->step_type, sizeof a->step_type), end_text(a->units, sizeof a->units);
    end_text(a->long_name, sizeof a->long_name), end_text(a->packing, sizeof a->packing);
    end_text(a->standard_name, sizeof a->standard_name), end_text(a->why, sizeof a->why);
    dlr_check_bool(&a->geographic);
    const int64_t far = INT64_C(1) << 50;
    if (a->why[0]) { /* nothing of it is read */
        a->rows = 0, a->columns = 1, a->base = a->valid = 0, a->level = 0;
        return true;
    }
    return a->rows >= 0 && a->columns > 0 && a->rows <= 1 << 27 && a->columns <= 1 << 27 &&
           (a->rows ? a->rows : 1) * a->columns <= 1 << 27 && llabs(a->base) < far &&
           llabs(a->valid) < far && isfinite(a->level) && a->field.bytes > 0;
}

static bool check_grids(const dlr_grib_found *m) {
    const char *at = m->grid;
    for (int64_t i = 0; i < m->grids; i++) {
        dlr_grib_grid g;
        if (m->end - at < (ptrdiff_t)sizeof g) return false;
        memcpy(&g, at, sizeof g);
        at += sizeof g;
        if (g.rows < 0 || g.columns < 0 || g.rows > 1 << 27 || g.columns > 1 << 27) return false;
        const ptrdiff_t bytes = (ptrdiff_t)((g.rows + g.columns) * (int64_t)sizeof(double));
        if (m->end - at < bytes) return false;
        at += bytes;
    }
    return true;
}

static bool check_contents(dl_arena *arena, const dl_buf *bytes, dlr_grib_found *m) {
    dlr_grib_counts counts;
    if (bytes->n < sizeof counts) return false;
    memcpy(&counts, bytes->at, sizeof counts);
    const int64_t room = (int64_t)((bytes->n - sizeof counts) / sizeof *m->field);
    if (counts.fields <= 0 || counts.fields > room || counts.grids < 0) return false;
    m->fields = counts.fields, m->grids = counts.grids;
    m->field = DL_NEWS(arena, dlr_grib_about, m->fields);
    memcpy(m->field, bytes->at + sizeof counts, (size_t)m->fields * sizeof *m->field);
    m->grid = bytes->at + sizeof counts + (size_t)m->fields * sizeof *m->field;
    m->end = bytes->at + bytes->n;
    for (int64_t i = 0; i < m->fields; i++)
        if (!check_field(&m->field[i])) return false;
    return check_grids(m);
}

static bool list_grib(dlr_array_file *f, dl_error *err) {
    dl_sandbox_result r = {0};
    dlr_grib_found found = {0};
    if (!dl_sandbox_run(f->path, CPU_SECONDS, dlr_grib_read_contents, (void *)(uintptr_t)f->path,
                        &r, err))
        return false;
    bool ok = check_contents(f->arena, &r.bytes, &found) ||
              dl_fail(err, DL_INPUT, "%s is damaged: its fields are none that a file has", f->path);
    if (ok) dlr_grib_make_arrays(f, &found);
    dl_buf_free(&r.text), dl_buf_free(&r.bytes);
    return ok;
}

/* ---- as a source ---- */

/* The fields of a source: a child reads them. Or its numbers. */
typedef struct {
    dlr_child *child;
    int64_t points;
    int64_t *bytes; /* of each field's message, for dry runs */
    double *numbers;
} opened;

static bool load(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                 bool *absent, dl_error *err) {
    const opened *o = how->state;
    const dlr_grib_question q = {.field = index, .numbers = o->points};
    dlr_child_answer a;
    *absent = false;
    if (s->on_paper && o->child)
        dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = o->bytes[index]});
    if (s->on_paper) return true;
    if (o->child)
        return dlr_child_ask(o->child, &q, &out, (uint64_t)o->points * sizeof(double), &a, err);
    memcpy(out, o->numbers, (size_t)o->points * sizeof(double));
    return true;
}

static void close_opened(void *state) {
    opened *o = state;
    dlr_child_close(o->child);
    free(o->bytes), free(o->numbers), free(o);
}

static bool fill_opened(dlr_source *s, const dlr_array_file *f, const dlr_grib_content *c,
                        opened *o, dl_error *err) {
    o->points = c->points;
    if (c->coordinate) {
        o->numbers = malloc((size_t)c->points * sizeof *o->numbers);
        if (!o->numbers) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
        memcpy(o->numbers, c->coordinate->at, (size_t)c->points * sizeof *o->numbers);
        return true;
    }
    o->bytes = malloc((size_t)c->fields * sizeof *o->bytes);
    if (!o->bytes) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    for (int64_t i = 0; i < c->fields; i++) o->bytes[i] = c->field[i].bytes;
    o->child =
        dlr_child_start(s->label, f->path, &dlr_grib_work,
                        &(dlr_grib_opened){.path = f->path, .field = c->field, .fd = -1}, err);
    return o->child != NULL;
}

static bool open_grib(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                      size_t cache, dl_error *err) {
    const dlr_grib_content *c = (const dlr_grib_content *)f->state + (a - f->arrays);
    opened *o = calloc(1, sizeof *o);
    if (!o) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    dlr_chunking how = {.load = load, .close = close_opened, .state = o};
    if (!fill_opened(s, f, c, o, err)) return close_opened(o), false;
    if (c->coordinate) return dlr_whole_open(s, &how, cache, err);
    memcpy(how.chunk, a->chunk, sizeof how.chunk);
    return dlr_chunks_open(s, &how, cache, err);
}

static bool owns_grib(const dlr_array_head *h) {
    return h->n >= 16 && memcmp(h->bytes, "GRIB", 4) == 0;
}

const dlr_array_format dlr_grib_format = {
    .name = "GRIB", .owns = owns_grib, .list = list_grib, .open = open_grib};

/* ecCodes in a child process. Its functions are found when it is loaded: no header of it is needed
 * to build, and this process never runs its code. */
#include "runtime/data/grib_contents.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/hash.h"
#include "ir/base/input.h"

enum { MISSING_LONG = 2147483647, MOST_GRIDS = 256, MOST_SIDE = 1 << 20 };
#define MISSING (-DBL_MAX) /* stands for missing numbers while ecCodes unpacks */

/* The functions of ecCodes' C interface that are used; they return 0 on success. */
typedef struct dlr_grib_library {
    void *(*open)(void *context, const void *message, size_t bytes);
    int (*close)(void *handle);
    int (*get_long)(const void *handle, const char *key, long *value);
    int (*get_double)(const void *handle, const char *key, double *value);
    int (*get_string)(const void *handle, const char *key, char *text, size_t *room);
    int (*get_size)(const void *handle, const char *key, size_t *n);
    int (*get_doubles)(const void *handle, const char *key, double *values, size_t *n);
    int (*set_double)(void *handle, const char *key, double value);
    const char *(*error)(int code);
} library;

static bool load(library *l, char *why, size_t room) {
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
        {"codes_handle_new_from_message", offsetof(library, open)},
        {"codes_handle_delete", offsetof(library, close)},
        {"codes_get_long", offsetof(library, get_long)},
        {"codes_get_double", offsetof(library, get_double)},
        {"codes_get_string", offsetof(library, get_string)},
        {"codes_get_size", offsetof(library, get_size)},
        {"codes_get_double_array", offsetof(library, get_doubles)},
        {"codes_set_double", offsetof(library, set_double)},
        {"codes_get_error_message", offsetof(library, error)},
    };
    const char *named = getenv("DLC_ECCODES");
    void *handle = dlopen(named && *named ? named : "libeccodes.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle && !(named && *named)) handle = dlopen("libeccodes.so", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; handle && i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(handle, functions[i].name);
        if (!found) return snprintf(why, room, "it has no %s", functions[i].name), false;
        memcpy((char *)l + functions[i].at, &found, sizeof found);
    }
    if (!handle) snprintf(why, room, "%s", dlerror());
    return handle != NULL;
}

/* ---- keys of a field ---- */

static int64_t get_long(const library *l, const void *h, const char *key) {
    long v;
    return l->get_long(h, key, &v) == 0 ? v : MISSING_LONG;
}

/* A text, or "" where there is none. */
static void get_text(const library *l, const void *h, const char *key, char *out, size_t room) {
    char text[256] = "";
    size_t n = sizeof text;
    if (l->get_string(h, key, text, &n) != 0 || strcmp(text, "unknown") == 0) text[0] = 0;
    text[sizeof text - 1] = 0;
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = ' ';
    snprintf(out, room, "%.*s", (int)room - 1, text);
}

/* A parameter that ecCodes' tables do not name has its numbers. */
static void get_name(const library *l, const void *h, dlr_grib_about *a) {
    static const char *const keys[2][3] = {
        {"table2Version", "indicatorOfParameter", NULL},
        {"discipline", "parameterCategory", "parameterNumber"},
    };
    get_text(l, h, "shortName", a->name, sizeof a->name);
    if (a->name[0]) return;
    size_t n = (size_t)snprintf(a->name, sizeof a->name, "parameter");
    for (int i = 0; i < 3; i++) {
        const char *key = keys[a->field.edition == 2][i];
        if (key)
            n += (size_t)snprintf(a->name + n, sizeof a->name - n, "_%lld",
                                  (long long)get_long(l, h, key));
    }
}

/* Seconds since 1970 of a date such as 20200131 and a time such as 1800. */
static int64_t seconds_of(int64_t date, int64_t time) {
    const int64_t month = date / 100 % 100, day = date % 100, year = date / 10000 - (month <= 2);
    if (month < 1 || month > 12 || day < 1 || day > 31 || date > 99999999) return INT64_MIN;
    /* days before the month, of a year that begins with March; and before the year */
    const int64_t before = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1,
                  days = 365 * year + year / 4 - year / 100 + year / 400 + before - 719468;
    return days * 86400 + time / 100 * 3600 + time % 100 * 60;
}

static void get_times(const library *l, const void *h, dlr_grib_about *a) {
    a->base = seconds_of(get_long(l, h, "dataDate"), get_long(l, h, "dataTime"));
    a->valid = seconds_of(get_long(l, h, "validityDate"), get_long(l, h, "validityTime"));
    if (a->base == INT64_MIN || a->valid == INT64_MIN)
        snprintf(a->why, sizeof a->why, "has a date that is none");
}

static void get_grid(const library *l, const void *h, dlr_grib_about *a) {
    char type[40];
    const int64_t points = get_long(l, h, "numberOfDataPoints");
    get_text(l, h, "gridType", type, sizeof type);
    a->rows = get_long(l, h, "Ny"), a->columns = get_long(l, h, "Nx");
    const bool grid = a->rows > 0 && a->columns > 0 && a->rows < MISSING_LONG &&
                      a->columns < MISSING_LONG && a->rows * a->columns == points;
    a->geographic = grid && a->rows <= MOST_SIDE && a->columns <= MOST_SIDE &&
                    (strcmp(type, "regular_ll") == 0 || strcmp(type, "regular_gg") == 0);
    if (!grid) a->rows = 0, a->columns = points;
    if (strncmp(a->packing, "spectral", 8) == 0 || strncmp(a->packing, "bifourier", 9) == 0)
        snprintf(a->why, sizeof a->why,
                 "has coefficients of a spectral transform, not values at points");
    else if (points <= 0 || points >= MISSING_LONG)
        snprintf(a->why, sizeof a->why, "has points of a grid that ecCodes does not know");
    else if (grid && (get_long(l, h, "jPointsAreConsecutive") == 1 ||
                      get_long(l, h, "alternativeRowScanning") == 1))
        snprintf(a->why, sizeof a->why, "has points column by column or in alternating rows");
}

/* The bytes that define the grid, as a number: of edition 2 without the local section. */
static bool hash_grid(const unsigned char *message, const dlr_grib_field *f, uint64_t *out) {
    const int defines = f->edition == 2 ? 3 : 2;
    int64_t at = f->edition == 2 ? 16 : 8;
    for (int i = 1; i < defines; i++) at += f->length[i];
    *out = dl_hash(message + at, (size_t)f->length[defines], (uint64_t)f->edition);
    return f->length[defines] > 0;
}

static bool take_keys(const library *l, int fd, const char *path, dlr_grib_about *a,
                      dl_error *err) {
    size_t n;
    unsigned char *message = dlr_grib_message(fd, path, &a->field, true, &n, err);
    if (!message) return false;
    void *h = l->open(NULL, message, n);
    if (!h || !hash_grid(message, &a->field, &a->grid))
        snprintf(a->why, sizeof a->why, "has a field that %s",
                 h ? "defines no grid" : "ecCodes does not open");
    if (h) {
        get_name(l, h, a);
        get_text(l, h, "typeOfLevel", a->level_type, sizeof a->level_type);
        get_text(l, h, "stepType", a->step_type, sizeof a->step_type);
        get_text(l, h, "units", a->units, sizeof a->units);
        get_text(l, h, "name", a->long_name, sizeof a->long_name);
        get_text(l, h, "cfName", a->standard_name, sizeof a->standard_name);
        get_text(l, h, "packingType", a->packing, sizeof a->packing);
        get_times(l, h, a), get_grid(l, h, a);
        a->number = get_long(l, h, "number");
        if (l->get_double(h, "level", &a->level) != 0 || !isfinite(a->level)) a->level = 0;
        l->close(h);
    }
    free(message);
    return true;
}

/* ---- all fields of a file ---- */

/* The array of that key, of n numbers, in memory that the caller frees; NULL: there is none. */
static double *get_array(const library *l, const void *h, const char *key, int64_t n) {
    size_t found = 0;
    if (l->get_size(h, key, &found) != 0 || (int64_t)found != n) return NULL;
    double *at = malloc(found * sizeof *at);
    if (at && l->get_doubles(h, key, at, &found) == 0 && (int64_t)found == n) return at;
    free(at);
    return NULL;
}

/* Appends the coordinates of the grid of a field. */
static bool put_grid(const library *l, int fd, const char *path, const dlr_grib_about *a,
                     dl_buf *out, int64_t *grids, dl_error *err) {
    size_t n;
    unsigned char *message = dlr_grib_message(fd, path, &a->field, false, &n, err);
    if (!message) return false;
    void *h = l->open(NULL, message, n);
    double *rows = h ? get_array(l, h, "distinctLatitudes", a->rows) : NULL,
           *columns = h ? get_array(l, h, "distinctLongitudes", a->columns) : NULL;
    if (rows && columns) {
        const dlr_grib_grid grid = {a->grid, a->rows, a->columns};
        dl_putn(out, (const char *)&grid, sizeof grid);
        dl_putn(out, (const char *)rows, (size_t)a->rows * sizeof *rows);
        dl_putn(out, (const char *)columns, (size_t)a->columns * sizeof *columns);
        ++*grids;
    }
    free(rows), free(columns);
    if (h) l->close(h);
    free(message);
    return true;
}

static bool put_fields(const library *l, int fd, const char *path, const dlr_grib_fields *fields,
                       dl_buf *out, dl_error *err) {
    uint64_t seen[MOST_GRIDS];
    int n_seen = 0;
    dlr_grib_counts counts = {.fields = fields->n};
    dl_buf grids = {0};
    bool ok = true;
    dl_putn(out, (const char *)&counts, sizeof counts);
    for (int i = 0; ok && i < fields->n; i++) {
        dlr_grib_about a = {.field = fields->at[i]};
        ok = take_keys(l, fd, path, &a, err);
        dl_putn(out, (const char *)&a, sizeof a);
        int k = 0;
        while (k < n_seen && seen[k] != a.grid) k++;
        if (!ok || k < n_seen || n_seen == MOST_GRIDS || !a.geographic || a.why[0]) continue;
        seen[n_seen++] = a.grid;
        ok = put_grid(l, fd, path, &a, &grids, &counts.grids, err);
    }
    memcpy(out->at, &counts, sizeof counts);
    dl_putn(out, grids.at ? grids.at : "", grids.n);
    dl_buf_free(&grids);
    return ok;
}

bool dlr_grib_read_contents(void *context, dl_sandbox_result *out, dl_error *err) {
    const char *path = context;
    char why[160];
    library l;
    struct stat st;
    dlr_grib_fields fields = {0};
    if (!load(&l, why, sizeof why))
        return dl_fail(err, DL_INPUT,
                       "%s is of the format GRIB, which ecCodes reads, and that does not load: %s. "
                       "Install it (package libeccodes0; DLC_ECCODES names its library), or "
                       "convert the file: cdo -f nc4 copy IN OUT.nc (package cdo)",
                       path, why);
    int fd = dl_file_open_stat(path, &st, err);
    if (fd < 0) return false;
    dl_arena *arena = dl_arena_new(NULL);
    bool ok = dlr_grib_find(arena, fd, path, st.st_size, &fields, err) &&
              put_fields(&l, fd, path, &fields, &out->bytes, err);
    dl_arena_free(arena);
    close(fd);
    return ok;
}

/* ---- the numbers of a field ---- */

static bool open_child(void *context, dlr_child_answer *a) {
    dlr_grib_opened *o = context;
    dl_error err = {0};
    library *l = calloc(1, sizeof *l);
    if (!l || !load(l, a->reason, sizeof a->reason)) return false;
    o->library = l;
    o->fd = dl_file_open(o->path, &err);
    if (o->fd < 0) snprintf(a->reason, sizeof a->reason, "%.190s", err.message);
    return o->fd >= 0;
}

static bool unpack(const library *l, void *h, double *out, const dlr_grib_question *q,
                   dlr_child_answer *a) {
    size_t n = (size_t)q->numbers, found = 0;
    int code = l->set_double(h, "missingValue", MISSING);
    if (code == 0) code = l->get_size(h, "values", &found);
    if (code == 0 && found != n)
        return snprintf(a->reason, sizeof a->reason, "its message has %zu numbers, not %zu", found,
                        n),
               false;
    if (code == 0) code = l->get_doubles(h, "values", out, &n);
    if (code != 0 || (int64_t)n != q->numbers)
        return snprintf(a->reason, sizeof a->reason, "ecCodes does not unpack a message: %.120s",
                        l->error(code)),
               false;
    for (size_t i = 0; i < n; i++)
        if (out[i] == MISSING) out[i] = NAN;
    return true;
}

static void *read_child(void *context, const void *asked, dlr_child_answer *a) {
    const dlr_grib_opened *o = context;
    const dlr_grib_question *q = asked;
    dl_error err = {0};
    size_t n;
    unsigned char *message = dlr_grib_message(o->fd, o->path, &o->field[q->field], false, &n, &err);
    double *out = malloc((size_t)q->numbers * sizeof *out);
    void *h = message && out ? o->library->open(NULL, message, n) : NULL;
    if (!message)
        snprintf(a->reason, sizeof a->reason, "%.190s", err.message);
    else if (out && !h)
        snprintf(a->reason, sizeof a->reason, "ecCodes does not open a message");
    a->ok = h && unpack(o->library, h, out, q, a);
    a->bytes = (uint64_t)q->numbers * sizeof *out;
    if (h) o->library->close(h);
    free(message);
    return out;
}

const dlr_child_work dlr_grib_work = {
    .question = sizeof(dlr_grib_question), .open = open_child, .read = read_child};

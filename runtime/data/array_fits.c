/* Images of FITS files: "Definition of the Flexible Image Transport System", version 4.0. A file is
 * a list of units, each a header of 80 characters a card and data, in blocks of 2,880 bytes.
 * Numbers are big-endian, and the header's first axis is the fastest. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/byte_order.h"

enum {
    BLOCK = 2880,
    CARD = 80,
    VALUE = 10,
    MOST_UNITS = 4096,
    MOST_BLOCKS = 4096,
    MOST_AXES = 999
};

/* A unit of the file, from its header. */
typedef struct {
    int64_t bits, axes, dims[DLR_ARRAY_RANK], product, parameters, groups;
    double scale, zero, blank;
    bool scaled, has_blank, random_groups, compressed, ended;
    char kind[16], name[72], unit[72];
} unit;

static bool owns_fits(const dlr_array_head *h) { return memcmp(h->bytes, "SIMPLE  =", 9) == 0; }

/* ---- cards ---- */

static bool is_key(const char *card, const char *key) {
    size_t n = strlen(key);
    return memcmp(card, key, n) == 0 && strspn(card + n, " ") >= 8 - n && card[8] == '=';
}

/* The text of 'a quoted value', without blanks at its end. */
static void take_text(const char *card, char *out, size_t room) {
    size_t n = 0;
    const char *at = card + VALUE, *end = card + CARD;
    while (at < end && *at == ' ') at++;
    if (at == end || *at++ != '\'') return;
    for (; at < end && n + 1 < room; at++) {
        if (*at == '\'' && (at + 1 == end || at[1] != '\'')) break;
        at += *at == '\'';
        out[n++] = *at;
    }
    while (n > 0 && out[n - 1] == ' ') n--;
    out[n] = 0;
}

/* A number; Fortran's exponents may have a D. False: it is none. */
static bool take_number(const char *card, double *out) {
    char text[CARD - VALUE + 1], *end;
    memcpy(text, card + VALUE, CARD - VALUE);
    text[CARD - VALUE] = 0;
    text[strcspn(text, "/")] = 0;
    for (char *c = text; *c; c++)
        if (*c == 'D' || *c == 'd') *c = 'E';
    *out = strtod(text, &end);
    return end != text && *(end + strspn(end, " ")) == 0;
}

static bool take_size(const char *card, int64_t *out) {
    double v;
    if (!take_number(card, &v) || v != rint(v) || fabs(v) > 9e15) return false;
    *out = (int64_t)v;
    return true;
}

static bool is_true(const char *card) { return card[VALUE + strspn(card + VALUE, " ")] == 'T'; }

/* Takes one card; false: its value is none. */
static bool take_card(const char *card, unit *u) {
    int64_t size;
    if (memcmp(card, "END     ", 8) == 0) return u->ended = true;
    if (is_key(card, "XTENSION")) take_text(card, u->kind, sizeof u->kind);
    if (is_key(card, "EXTNAME")) take_text(card, u->name, sizeof u->name);
    if (is_key(card, "BUNIT")) take_text(card, u->unit, sizeof u->unit);
    if (is_key(card, "GROUPS")) u->random_groups = is_true(card);
    if (is_key(card, "ZIMAGE")) u->compressed = is_true(card);
    if (is_key(card, "BITPIX")) return take_size(card, &u->bits);
    if (is_key(card, "NAXIS")) return take_size(card, &u->axes);
    if (is_key(card, "PCOUNT")) return take_size(card, &u->parameters);
    if (is_key(card, "GCOUNT")) return take_size(card, &u->groups);
    if (is_key(card, "BSCALE")) return u->scaled = true, take_number(card, &u->scale);
    if (is_key(card, "BZERO")) return u->scaled = true, take_number(card, &u->zero);
    if (is_key(card, "BLANK")) return u->has_blank = true, take_number(card, &u->blank);
    if (memcmp(card, "NAXIS", 5) != 0 || card[5] < '1' || card[5] > '9' || card[8] != '=')
        return true;
    const int axis = atoi(card + 5);
    if (!take_size(card, &size) || size < 0 || axis > u->axes) return false;
    if (axis <= DLR_ARRAY_RANK) u->dims[axis - 1] = size;
    if (axis == 1 && size == 0) return true; /* random groups */
    return !__builtin_mul_overflow(u->product, size, &u->product);
}

/* Reads a header from `at`, and moves `at` beyond it. */
static bool read_header(int fd, const char *path, int64_t *at, int64_t size, unit *u,
                        dl_error *err) {
    char block[BLOCK + 1] = {0};
    *u = (unit){.product = 1, .groups = 1, .scale = 1};
    for (int blocks = 0; !u->ended; blocks++, *at += BLOCK) {
        if (blocks == MOST_BLOCKS || size - *at < BLOCK)
            return dl_fail(err, DL_INPUT, "%s is damaged: a header does not end", path);
        if (!dl_read_at(fd, path, block, BLOCK, *at, err)) return false;
        for (int i = 0; i < BLOCK && !u->ended; i += CARD)
            if (!take_card(block + i, u))
                return dl_fail(err, DL_INPUT, "%s is damaged: its card '%.30s' at byte %lld", path,
                               block + i, (long long)*at + i);
    }
    return (u->axes >= 0 && u->axes <= MOST_AXES && u->parameters >= 0 && u->groups >= 0) ||
           dl_fail(err, DL_INPUT, "%s is damaged: its header before byte %lld", path,
                   (long long)*at);
}

/* ---- units as arrays ---- */

typedef DL_ARRAY(dlr_array_facts) fact_list;
typedef DL_ARRAY(dlr_run) run_list;

static const char *name_unit(dl_arena *arena, const fact_list *list, const unit *u, int number) {
    const char *name = u->name[0] ? dl_strdup(arena, u->name) : dl_format(arena, "hdu%d", number);
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->at[i].name, name) == 0) return dl_format(arena, "%s,%d", name, number);
    return name;
}

static dlr_array_facts describe(dl_arena *arena, const unit *u, int number, dlr_run *run) {
    dlr_array_facts a = {.packing = "none", .rank = (int)u->axes};
    const size_t bytes = (size_t)llabs(u->bits) / 8;
    a.type = dlr_element_of(u->bits < 0 ? 'f' : u->bits == 8 ? 'u' : 'i', bytes);
    if (u->bits % 8 || (u->bits < 0 && bytes < 4)) a.type = DLR_EL_NONE;
    run->swapped = dlr_is_swapped(true, bytes);
    a.stored = a.type == DLR_EL_NONE ? "of no type of FITS"
                                     : dlr_array_stored(arena, a.type, run->swapped);
    for (int i = 0; i < a.rank && a.rank <= DLR_ARRAY_RANK; i++)
        a.dims[i] = u->dims[a.rank - 1 - i];
    if (u->compressed)
        a.refused =
            dl_format(arena,
                      "is a packed image, which is not read. Unpack it: python3 -c \"from "
                      "astropy.io import fits; fits.writeto('OUT.fits', fits.getdata('IN', %d))\" "
                      "(package astropy)",
                      number);
    else if (u->kind[0] && strcmp(u->kind, "IMAGE") != 0)
        a.refused =
            dl_format(arena,
                      "is a table, not an image. Save its columns: python3 -c \"import numpy; from "
                      "astropy.io import fits; t = fits.getdata('IN', %d); numpy.savez('OUT.npz', "
                      "**{n: t[n] for n in t.names})\" (package astropy)",
                      number);
    else if (u->random_groups)
        a.refused =
            "has random groups, which are not read. Save their numbers: python3 -c \"import numpy; "
            "from astropy.io import fits; numpy.save('OUT.npy', fits.getdata('IN').data)\" "
            "(package astropy)";
    if (u->unit[0]) dlr_array_add_text(arena, &a, "units", dl_strdup(arena, u->unit));
    if (u->scaled && (u->scale != 1 || u->zero != 0)) {
        dlr_array_add_number(arena, &a, "scale_factor", u->scale);
        dlr_array_add_number(arena, &a, "add_offset", u->zero);
    }
    if (u->has_blank && u->bits > 0) dlr_array_add_number(arena, &a, "_FillValue", u->blank);
    return a;
}

/* The bytes of a unit's data; -1: more than can be counted. */
static int64_t data_bytes(const unit *u) {
    int64_t n = u->axes ? u->product : 0;
    if (__builtin_add_overflow(n, u->parameters, &n) || __builtin_mul_overflow(n, u->groups, &n) ||
        __builtin_mul_overflow(n, llabs(u->bits) / 8, &n) || n > INT64_MAX - BLOCK)
        return -1;
    return (n + BLOCK - 1) / BLOCK * BLOCK;
}

static bool list_units(dlr_array_file *f, int fd, int64_t size, dl_error *err) {
    fact_list facts = {0};
    run_list runs = {0};
    unit u;
    int64_t at = 0;
    /* a file may end with blocks of other content */
    for (int number = 0; number < MOST_UNITS && (number == 0 || size - at >= BLOCK); number++) {
        if (!read_header(fd, f->path, &at, size, &u, err)) return false;
        const int64_t bytes = data_bytes(&u);
        dlr_run run = {.offset = at};
        if (u.axes > 0 && bytes != 0) {
            dlr_array_facts a = describe(f->arena, &u, number, &run);
            a.name = name_unit(f->arena, &facts, &u, number);
            if (a.type != DLR_EL_NONE) dlr_array_must_end(f->arena, &a, at, size);
            dl_push(f->arena, &facts, a);
            dl_push(f->arena, &runs, run);
        }
        if (bytes < 0 || bytes > size - at) break;
        at += bytes;
    }
    f->arrays = facts.at, f->n = facts.n, f->state = runs.at;
    return true;
}

static bool list_fits(dlr_array_file *f, dl_error *err) {
    struct stat st;
    int fd = dl_input_open(f->path, err);
    if (fd < 0) return false;
    bool ok = dl_fstat(fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", f->path);
    ok = ok && list_units(f, fd, st.st_size, err);
    close(fd);
    return ok;
}

static bool open_fits(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                      size_t cache, dl_error *err) {
    (void)cache;
    return dlr_run_open(s, f->path, (const dlr_run *)f->state + (a - f->arrays), err);
}

const dlr_array_format dlr_fits_format = {
    .name = "FITS", .owns = owns_fits, .list = list_fits, .open = open_fits};

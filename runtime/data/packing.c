#include "runtime/data/packing.h"

#include <math.h>
#include <strings.h>

#include "runtime/formats/log.h"

/* The rules. Where readers differ this follows the text of CF 1.11: xarray ignores valid ranges and
 * NetCDF's default fill values, netCDF4-python applies both. */

static const char *const known[] = {"_FillValue",  "missing_value", "scale_factor", "add_offset",
                                    "valid_range", "valid_min",     "valid_max",    "_Unsigned"};
enum { KNOWN = sizeof known / sizeof *known };

bool dlr_packing_knows(const char *attribute) {
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(attribute, known[i]) == 0) return true;
    return false;
}

const char *dlr_packing_attribute(int i) { return i < KNOWN ? known[i] : NULL; }

typedef struct {
    const dlr_array_facts *facts;
    dlr_packing *p;
    dl_buf *warnings;
    dl_error *err;
} book;

static bool refuse(const book *b, const dlr_attribute *at, const char *why) {
    return dl_fail(b->err, DL_INPUT,
                   "'%.100s': its attribute %s is '%.60s': %s (correct it in the file)",
                   b->facts->name, at->name, at->text, why);
}

static void warn(const book *b, const dlr_attribute *at, const char *what) {
    if (!b->warnings) return;
    dl_putf(b->warnings, "'%.100s': its attribute %s is '%.60s': %s\n", b->facts->name, at->name,
            at->text, what);
}

/* The numbers of an attribute, at most DLR_MISSING; a text is parsed as numbers separated by commas
 * or blanks. */
static bool take_numbers(const book *b, const dlr_attribute *at, dlr_number *out, int *n) {
    *n = 0;
    if (at->unread) return refuse(b, at, "no number, and no short list of numbers");
    for (; *n < at->n && *n < DLR_MISSING; ++*n) out[*n] = at->numbers[*n];
    if (at->n > DLR_MISSING) return refuse(b, at, "more than 16 numbers");
    if (at->n) return true;
    for (const char *word = at->text, *end; *word; word = end) {
        word += strspn(word, " \t\n\r,");
        end = word + strcspn(word, " \t\n\r,");
        if (end == word) break;
        if (*n == DLR_MISSING) return refuse(b, at, "more than 16 numbers");
        if (!dlr_number_parse(word, (size_t)(end - word), &out[(*n)++]))
            return refuse(b, at, "this is no number");
    }
    return *n > 0 || refuse(b, at, "this is no number");
}

/* Converts to the type of the stored numbers. With _Unsigned the number may be written with the
 * other signedness, with the same bits. */
static bool fit(const book *b, const dlr_number *n, dlr_number *out) {
    static const int bits[DLR_NELEMENTS] = {
        [DLR_EL_I8] = 8, [DLR_EL_I16] = 16, [DLR_EL_I32] = 32, [DLR_EL_I64] = 64,
        [DLR_EL_U8] = 8, [DLR_EL_U16] = 16, [DLR_EL_U32] = 32, [DLR_EL_U64] = 64};
    const dlr_packing *p = b->p;
    if (dlr_number_fit(n, b->facts->type == DLR_EL_F16 ? DLR_EL_F16 : p->type, out)) return true;
    if (p->type == p->stored || !dlr_number_fit(n, p->stored, out)) return false;
    int unused = 64 - bits[p->type];
    *out = p->type < DLR_EL_U8
               ? (dlr_number){.kind = 'i', .i = (int64_t)(out->u << unused) >> unused}
               : (dlr_number){.kind = 'u', .u = (uint64_t)out->i << unused >> unused};
    return true;
}

/* ---- one attribute after another ---- */

/* Reads _Unsigned: "true", as the convention has it, or 1; types that are not integers keep their
 * sign. */
static bool take_sign(const book *b) {
    const dlr_attribute *at = dlr_array_attribute(b->facts, "_Unsigned");
    dlr_packing *p = b->p;
    dlr_number n[DLR_MISSING];
    int count;
    if (!at) return true;
    bool yes = !at->unread && at->n == 0 && strcasecmp(at->text, "true") == 0,
         no = !at->unread && at->n == 0 && strcasecmp(at->text, "false") == 0;
    if (!yes && !no) {
        if (!take_numbers(b, at, n, &count)) return false;
        double v = dlr_number_double(n);
        yes = count == 1 && v == 1, no = count == 1 && v == 0;
        if (!yes && !no) return refuse(b, at, "neither true nor false");
    }
    if (p->stored < DLR_EL_I8 || p->stored > DLR_EL_U64 || b->facts->type == DLR_EL_BOOL) {
        warn(b, at, "the numbers are no integers, and taken as they are");
        return true;
    }
    if (yes && p->stored <= DLR_EL_I64) p->type = p->stored + (DLR_EL_U8 - DLR_EL_I8);
    if (no && p->stored >= DLR_EL_U8) p->type = p->stored - (DLR_EL_U8 - DLR_EL_I8);
    return true;
}

static bool take_factor(const book *b, const char *name, double *out) {
    const dlr_attribute *at = dlr_array_attribute(b->facts, name);
    dlr_number n[DLR_MISSING];
    int count;
    if (!at) return true;
    if (!take_numbers(b, at, n, &count)) return false;
    if (count != 1) return refuse(b, at, "several numbers where there must be one");
    *out = dlr_number_double(n);
    return isfinite(*out) || refuse(b, at, "it must be finite");
}

static bool add_missing(const book *b, const dlr_attribute *at, bool one) {
    dlr_packing *p = b->p;
    dlr_number n[DLR_MISSING], v;
    int count;
    if (!at) return true;
    if (!take_numbers(b, at, n, &count)) return false;
    if (one && count > 1)
        warn(b, at, "several numbers where there must be one: all are taken as missing");
    for (int i = 0; i < count; i++) {
        if (!fit(b, &n[i], &v)) {
            warn(b, at, "no number of the array's type, so that no number is equal to it");
            continue;
        }
        if (v.kind == 'f' && isnan(v.f)) continue; /* NaN in the data is missing already */
        if (p->n_missing == DLR_MISSING) return refuse(b, at, "more than 16 numbers");
        p->missing[p->n_missing++] = v;
    }
    return true;
}

/* The default fill values of netcdf.h. Bytes have none that readers treat as missing. */
static void add_default_fill(const book *b) {
    static const dlr_number fills[DLR_NELEMENTS] = {
        [DLR_EL_I16] = {'i', {.i = -32767}},        [DLR_EL_U16] = {'u', {.u = 65535}},
        [DLR_EL_I32] = {'i', {.i = -2147483647}},   [DLR_EL_U32] = {'u', {.u = 4294967295u}},
        [DLR_EL_I64] = {'i', {.i = INT64_MIN + 2}}, [DLR_EL_U64] = {'u', {.u = UINT64_MAX - 1}},
        [DLR_EL_F32] = {'f', {.f = 0x1.ep+122}},    [DLR_EL_F64] = {'f', {.f = 0x1.ep+122}}};
    dlr_packing *p = b->p;
    dlr_number v;
    if (!b->facts->default_fills || dlr_array_attribute(b->facts, "_FillValue")) return;
    if (!fills[b->facts->type].kind || p->n_missing == DLR_MISSING) return;
    if (fit(b, &fills[b->facts->type], &v)) p->missing[p->n_missing++] = v;
}

static void take_bound(const book *b, const dlr_attribute *at, const dlr_number *n, bool *has,
                       dlr_number *out) {
    *has = fit(b, n, out) && !(out->kind == 'f' && isnan(out->f));
    if (!*has) warn(b, at, "no number of the array's type: no bound");
}

static bool take_range(const book *b) {
    const dlr_attribute *range = dlr_array_attribute(b->facts, "valid_range"),
                        *least = dlr_array_attribute(b->facts, "valid_min"),
                        *most = dlr_array_attribute(b->facts, "valid_max");
    dlr_packing *p = b->p;
    dlr_number n[DLR_MISSING];
    int count;
    if (range) {
        if (!take_numbers(b, range, n, &count)) return false;
        if (count != 2) return refuse(b, range, "it must be two numbers");
        take_bound(b, range, &n[0], &p->has_least, &p->least);
        take_bound(b, range, &n[1], &p->has_most, &p->most);
        if (least) warn(b, least, "ignored, since there is a valid_range");
        if (most) warn(b, most, "ignored, since there is a valid_range");
        return true;
    }
    if (least && !take_numbers(b, least, n, &count)) return false;
    if (least && count != 1) return refuse(b, least, "several numbers where there must be one");
    if (least) take_bound(b, least, n, &p->has_least, &p->least);
    if (most && !take_numbers(b, most, n, &count)) return false;
    if (most && count != 1) return refuse(b, most, "several numbers where there must be one");
    if (most) take_bound(b, most, n, &p->has_most, &p->most);
    return true;
}

static void check_range(const book *b) {
    const dlr_packing *p = b->p;
    const dlr_attribute *at = dlr_array_attribute(b->facts, "valid_range");
    if (!p->has_least || !p->has_most) return;
    bool none = p->least.kind == 'f'   ? p->least.f > p->most.f
                : p->least.kind == 'u' ? p->least.u > p->most.u
                                       : p->least.i > p->most.i;
    if (!at) at = dlr_array_attribute(b->facts, "valid_min");
    if (none) warn(b, at, "above the largest valid number: all numbers are missing");
}

bool dlr_packing_of(const dlr_array_facts *facts, dlr_packing *p, dl_buf *warnings, dl_error *err) {
    const dlr_attribute *fill = dlr_array_attribute(facts, "_FillValue"),
                        *missing = dlr_array_attribute(facts, "missing_value"),
                        *scale = dlr_array_attribute(facts, "scale_factor");
    book b = {facts, p, warnings, err};
    dlr_element stored = facts->type == DLR_EL_F16    ? DLR_EL_F32
                         : facts->type == DLR_EL_BOOL ? DLR_EL_U8
                                                      : facts->type;
    *p = (dlr_packing){.scale = 1, .stored = stored, .type = stored};
    if (stored == DLR_EL_NONE || facts->refused) return true;
    if (!take_sign(&b) || !take_factor(&b, "scale_factor", &p->scale) ||
        !take_factor(&b, "add_offset", &p->offset))
        return false;
    if (scale && p->scale == 0) warn(&b, scale, "all numbers stand for add_offset");
    if (!add_missing(&b, fill, true) || !add_missing(&b, missing, false) ||
        !add_missing(&b, facts->fill, true) || !take_range(&b))
        return false;
    add_default_fill(&b);
    check_range(&b);
    p->scaled = p->scale != 1 || p->offset != 0;
    p->shifted = p->scaled && p->scale == 1 && p->type >= DLR_EL_I8 && p->type <= DLR_EL_U64 &&
                 facts->type != DLR_EL_BOOL && p->offset == rint(p->offset) &&
                 fabs(p->offset) <= 0x1p63;
    p->any = p->scaled || p->n_missing || p->has_least || p->has_most || p->type != p->stored;
    return true;
}

bool dlr_packing_open(const char *path, const dlr_array_facts *facts, dlr_packing *out,
                      dl_error *err) {
    dl_buf warnings = {0};
    dl_error reason = {0};
    bool ok = dlr_packing_of(facts, out, &warnings, &reason) ||
              dl_fail(err, reason.code, "%s: %s", path, reason.message);
    for (char *line = warnings.at, *end; ok && line && *line; line = end + 1) {
        *(end = strchr(line, '\n')) = 0;
        dlr_log_warning("%s: %s", path, line);
    }
    dl_buf_free(&warnings);
    return ok;
}

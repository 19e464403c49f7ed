#include "runtime/data/array_file.h"

#include "runtime/data/array_format.h"
#include "runtime/data/foreign_formats.h"

#include <stdlib.h>
#include <unistd.h>

/* The first that owns a file reads it. A user block of HDF5 may begin like what follows it here. */
static const dlr_array_format *const formats[] = {
    &dlr_zarr_format,    &dlr_npy_format,     &dlr_npz_format,  &dlr_hdf5_format,
    &dlr_netcdf3_format, &dlr_nifti_format,   &dlr_fits_format, &dlr_tiff_format,
    &dlr_matlab_format,  &dlr_parquet_format, &dlr_grib_format, &dlr_csv_format,
};

static const dlr_array_format *find_owner(const dlr_array_head *h, bool by_name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i]->by_name == by_name && formats[i]->owns(h)) return formats[i];
    return NULL;
}

/* Recognizes the format; the error names a known format that is not read. libhdf5 decides on files
 * of no known format. */
static const dlr_array_format *recognise(const char *path, dl_error *err) {
    dlr_array_head h;
    bool ok = dlr_array_head_read(path, &h, err);
    const dlr_array_format *found = ok ? find_owner(&h, false) : NULL;
    if (ok && !found) ok = dlr_refuse_foreign(path, h.bytes, h.n, DLR_FOREIGN_BYTES, err);
    if (ok && !found) found = find_owner(&h, true);
    if (ok && !found && h.n) ok = dlr_refuse_foreign(path, h.bytes, h.n, DLR_FOREIGN_NAME, err);
    if (h.fd >= 0) close(h.fd);
    return !ok ? NULL : found ? found : &dlr_hdf5_format;
}

bool dlr_array_file_known(const char *path) {
    dlr_array_head h;
    dl_error ignored = {0};
    bool known = dlr_array_head_read(path, &h, &ignored) &&
                 (find_owner(&h, false) ||
                  (dlr_refuse_foreign(path, h.bytes, h.n, DLR_FOREIGN_BYTES, &ignored) &&
                   find_owner(&h, true)));
    if (h.fd >= 0) close(h.fd);
    return known;
}

dlr_array_file *dlr_array_file_open(const char *path, dl_error *err) {
    const dlr_array_format *format = recognise(path, err);
    if (!format) return NULL;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_array_file *f = DL_NEW(arena, dlr_array_file);
    *f = (dlr_array_file){.path = dl_strdup(arena, path), .format = format, .arena = arena};
    if (!format->list(f, err)) {
        dlr_array_file_close(f);
        return NULL;
    }
    for (int i = 0; i < f->n; i++)
        dlr_refuse_odd(arena, format, (dlr_array_facts *)(uintptr_t)&f->arrays[i]);
    return f;
}

void dlr_array_file_close(dlr_array_file *f) {
    if (f) dl_arena_free(f->arena);
}

const char *dlr_array_file_format(const dlr_array_file *f) { return f->format->name; }

const dlr_array_facts *dlr_array_file_find(const dlr_array_file *f, const char *name) {
    if (!name || !name[0]) return f->n == 1 && !f->more ? f->arrays : NULL;
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->arrays[i].name, name) == 0) return &f->arrays[i];
    return NULL;
}

void dlr_array_file_put(dl_buf *out, const dlr_array_file *f, int most) {
    if (f->n == 0) dl_puts(out, "no array");
    for (int i = 0; i < f->n && i < most; i++) {
        dl_putf(out, "%s%s%s", i ? ", " : "", f->arrays[i].name, f->arrays[i].name[0] ? " " : "");
        dlr_array_put_shape(out, &f->arrays[i]);
    }
    if (f->more || f->n > most) dl_puts(out, ", ...");
}

/* ---- opening an array ---- */

dlr_source *dlr_source_open(const dlr_array_file *f, const dlr_array_facts *a, size_t cache,
                            dl_error *err) {
    dl_buf label = {0};
    dlr_source *s = calloc(1, sizeof *s);
    if (!s) return dl_fail(err, DL_RESOURCE, "no memory to open %s", f->path), NULL;
    if (a->name[0])
        dl_putf(&label, "%s: '%s'", f->path, a->name);
    else
        dl_puts(&label, f->path);
    s->label = label.at, s->type = a->type, s->mapped = f->mapped;
    s->rank = a->rank < DLR_ARRAY_RANK ? a->rank : DLR_ARRAY_RANK;
    memcpy(s->dims, a->dims, sizeof s->dims);
    bool ok = true;
    int64_t bytes = (int64_t)dlr_element_bytes(a->type);
    for (int i = 0; i < s->rank; i++)
        if (a->dims[i] < 0 || __builtin_mul_overflow(bytes, a->dims[i] ? a->dims[i] : 1, &bytes))
            ok = false;
    if (!ok)
        dl_fail(err, DL_INPUT, "%s has more numbers than can be counted: the file is damaged",
                s->label);
    else if (a->refused)
        ok = dl_fail(err, DL_INPUT, "%s %s", s->label, a->refused);
    if (ok && f->format->open(s, f, a, cache, err)) return s;
    dlr_source_close(s);
    return NULL;
}

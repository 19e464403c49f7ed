/* Attributes of an HDF5 file that the readers of arrays leave out: the file's own, and the names of
 * channels. In a sandbox's child. */
#include "dldata/array.h"
#include "ir/base/input.h"
#include "runtime/data/hdf5_facts.h"

#include <hdf5.h>
#include <math.h>

enum { MOST_ATTRIBUTES = 200 };

static hid_t open_file(const char *path, dl_error *err) {
    if (!dl_check_descriptors(2, path, err)) return -1;
    dlr_hdf5_quiet();
    hid_t file = dlr_hdf5_open(path);
    if (file < 0) {
        char why[DLR_HDF5_WHY];
        dlr_hdf5_why_closed(why, sizeof why);
        dl_fail(err, DL_INPUT, "%s is an HDF5 file that %s", path, why);
    }
    return file;
}

/* A scalar string or number as text; arrays of up to four numbers; NULL for longer ones or other
 * kinds. */
static const char *attribute_value(dl_arena *arena, hid_t attribute) {
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    H5T_class_t class = H5Tget_class(type);
    const char *value = NULL;
    if (class == H5T_STRING && n == 1 && H5Tis_variable_str(type) > 0) {
        char *text = NULL;
        if (H5Aread(attribute, type, &text) >= 0 && text) value = dl_strdup(arena, text);
    } else if (class == H5T_STRING && n == 1 && H5Tget_size(type) < 1 << 16) {
        size_t size = H5Tget_size(type);
        char *text = dl_alloc(arena, size + 1);
        if (H5Aread(attribute, type, text) >= 0) value = text;
    } else if ((class == H5T_INTEGER || class == H5T_FLOAT) && n >= 1 && n <= 4 &&
               H5Tget_size(type) <= 8) {
        double v[4] = {0};
        dl_buf text = {0};
        if (H5Aread(attribute, H5T_NATIVE_DOUBLE, v) >= 0)
            for (int i = 0; i < (int)n; i++) {
                dl_puts(&text, i ? ", " : "");
                if (v[i] == rint(v[i]) && fabs(v[i]) < 1e15)
                    dl_putf(&text, "%.0f", v[i]);
                else
                    dl_put_double(&text, v[i]);
            }
        value = text.at ? dl_strdup(arena, text.at) : NULL;
        dl_buf_free(&text);
    }
    H5Sclose(space);
    H5Tclose(type);
    return value;
}

static const char *named_attribute(dl_arena *arena, hid_t at, const char *name) {
    if (H5Aexists(at, name) <= 0) return NULL;
    hid_t attribute = H5Aopen(at, name, H5P_DEFAULT);
    const char *value = attribute >= 0 ? attribute_value(arena, attribute) : NULL;
    if (attribute >= 0) H5Aclose(attribute);
    return value;
}

typedef struct {
    dl_arena *arena;
    array_file *f;
} walk;

static herr_t add_attribute(hid_t at, const char *name, const H5A_info_t *info, void *ctx) {
    walk *w = ctx;
    (void)info;
    const char *value = named_attribute(w->arena, at, name);
    dl_push(w->arena, &w->f->attributes,
            dl_format(w->arena, "%s = %s", name, value ? value : "(not shown)"));
    return w->f->attributes.n >= MOST_ATTRIBUTES;
}

bool hdf5_take_attributes(dl_arena *arena, const char *path, array_file *f, dl_error *err) {
    hid_t file = open_file(path, err);
    if (file < 0) return false;
    walk w = {arena, f};
    if (H5Aiterate2(file, H5_INDEX_NAME, H5_ITER_INC, NULL, add_attribute, &w) < 0) {
        char why[DLR_HDF5_WHY];
        dlr_hdf5_why_closed(why, sizeof why);
        dl_push(arena, &f->attributes, dl_format(arena, "an attribute of the file %s", why));
    }
    for (int i = 0; i < f->arrays.n; i++) {
        array *a = &f->arrays.at[i];
        hid_t set = a->unreadable ? -1 : H5Oopen(file, a->name, H5P_DEFAULT);
        if (set < 0) continue;
        a->labels = named_attribute(arena, set, "channels");
        H5Oclose(set);
    }
    H5Fclose(file);
    return true;
}

bool hdf5_read_generator(const char *path, dl_buf *out, dl_error *err) {
    hid_t file = open_file(path, err);
    if (file < 0) return false;
    dl_arena *arena = dl_arena_new(NULL);
    const char *value = named_attribute(arena, file, "generator");
    if (value) dl_puts(out, value);
    dl_arena_free(arena);
    H5Fclose(file);
    return value || dl_fail(err, DL_INPUT, "%s does not say what made it", path);
}

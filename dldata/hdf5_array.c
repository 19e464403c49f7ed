/* The arrays of an HDF5 file. Only hard links are followed. Data outside the file, virtual data
 * sets, and data that need a third-party filter are listed and not read. */
#include "dldata/array.h"
#include "ir/base/input.h"
#include "runtime/data/chunk_codec.h"
#include "runtime/data/hdf5_facts.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_ARRAYS = 256, MAX_OBJECTS = 4096, MAX_DEPTH = 16, MAX_TEXT = 200 };

/* h5py's filter, for reading: its third parameter is the size of a chunk. Checksums of earlier
 * filters are compressed, too. */
static size_t unpack_lzf(unsigned flags, size_t n, const unsigned *values, size_t bytes,
                         size_t *room, void **data) {
    enum { CHECKSUM = 4, MOST = 4 };
    dlr_codec lzf = {.kind = DLR_CODEC_LZF};
    size_t size = n > 2 ? values[2] : 0;
    const char *why;
    void *out =
        flags & H5Z_FLAG_REVERSE && size ? H5allocate_memory(size + MOST * CHECKSUM, false) : NULL;
    for (int i = 0; out && i <= MOST; i++, size += CHECKSUM) {
        if (!dlr_chunk_unpack(&lzf, 1, 0, *data, bytes, out, size, &why)) continue;
        H5free_memory(*data);
        *data = out, *room = size;
        return size;
    }
    H5free_memory(out);
    return 0;
}
static const H5Z_class2_t lzf_filter = {.version = H5Z_CLASS_T_VERS,
                                        .id = DLR_HDF5_LZF,
                                        .decoder_present = 1,
                                        .name = "lzf",
                                        .filter = unpack_lzf};

static hid_t open_file(const char *path, dl_error *err) {
    if (!dl_check_descriptors(2, path, err)) return -1;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5PLset_loading_state(0); /* no filter plugins */
    H5Zregister(&lzf_filter);
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) {
        char why[DLR_HDF5_WHY];
        dlr_hdf5_why_closed(why, sizeof why);
        dl_fail(err, DL_INPUT, "%s is an HDF5 file that %s", path, why);
    }
    return file;
}

/* "f32", "i16", ... for numbers; a description for other types. */
static const char *type_name(dl_arena *arena, hid_t type, bool *numeric) {
    H5T_class_t class = H5Tget_class(type);
    size_t bits = 8 * H5Tget_size(type);
    *numeric = (class == H5T_FLOAT || class == H5T_INTEGER) && bits <= 64;
    if (class == H5T_FLOAT) return dl_format(arena, "f%zu", bits);
    if (class == H5T_INTEGER)
        return dl_format(arena, "%s%zu", H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "i", bits);
    return class == H5T_STRING     ? "text"
           : class == H5T_COMPOUND ? "compound"
                                   : "of a type that is not a number";
}

static hid_t memory_type(dlr_element e) {
    const hid_t types[DLR_NELEMENTS] = {
        [DLR_EL_F32] = H5T_NATIVE_FLOAT,  [DLR_EL_F64] = H5T_NATIVE_DOUBLE,
        [DLR_EL_I8] = H5T_NATIVE_INT8,    [DLR_EL_I16] = H5T_NATIVE_INT16,
        [DLR_EL_I32] = H5T_NATIVE_INT32,  [DLR_EL_I64] = H5T_NATIVE_INT64,
        [DLR_EL_U8] = H5T_NATIVE_UINT8,   [DLR_EL_U16] = H5T_NATIVE_UINT16,
        [DLR_EL_U32] = H5T_NATIVE_UINT32, [DLR_EL_U64] = H5T_NATIVE_UINT64};
    return types[e];
}

static bool read_block(const array *a, const uint64_t *start, const uint64_t *size, double *out,
                       dl_error *err) {
    hsize_t from[ARRAY_MAX_RANK], n[ARRAY_MAX_RANK], total = 1;
    for (int i = 0; i < a->rank; i++) from[i] = start[i], n[i] = size[i], total *= size[i];
    hid_t space = H5Dget_space(a->handle), memory = H5Screate_simple(1, &total, NULL);
    bool ok = a->rank == 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, n, NULL) >= 0;
    /* stored numbers go to the end of the values' buffer */
    const dlr_packing *p = a->packing;
    void *to = (char *)out + (p ? total * (sizeof *out - dlr_element_bytes(p->stored)) : 0);
    ok = ok && H5Dread(a->handle, p ? memory_type(p->stored) : H5T_NATIVE_DOUBLE, memory, space,
                       H5P_DEFAULT, to) >= 0;
    if (ok && p) dlr_unpack(p, to, total, DLR_EL_F64, out);
    H5Sclose(memory);
    H5Sclose(space);
    return ok ||
           dl_fail(err, DL_INPUT,
                   "the data of '%s' cannot be read: the file is damaged or truncated", a->name);
}

static void describe_filters(hid_t how, uint64_t chunk_bytes, dl_buf *text,
                             const char **unreadable) {
    for (int i = 0, n = H5Pget_nfilters(how); i < n && i < 16; i++) {
        char name[64] = "";
        unsigned flags, config, value[3] = {0};
        size_t values = 3;
        H5Z_filter_t id =
            H5Pget_filter2(how, (unsigned)i, &flags, &values, value, sizeof name, name, &config);
        bool known = id == H5Z_FILTER_DEFLATE || id == H5Z_FILTER_SHUFFLE ||
                     id == H5Z_FILTER_FLETCHER32 || id == DLR_HDF5_LZF;
        dl_putf(text, ", %s", known ? name : "unknown filter");
        if (!known)
            *unreadable = "it needs a filter other than deflate, lzf, shuffle and fletcher32";
        if (id == DLR_HDF5_LZF && value[2] != chunk_bytes)
            *unreadable = "its filter lzf is for chunks of another size: the file is damaged";
    }
}

static void describe_storage(dl_arena *arena, hid_t set, array *a) {
    hid_t how = H5Dget_create_plist(set);
    dl_buf text = {0};
    H5D_layout_t layout = H5Pget_layout(how);
    if (H5Pget_external_count(how) > 0) {
        dl_puts(&text, "in other files");
        a->unreadable = "its data lie outside the file";
    } else if (layout == H5D_CONTIGUOUS) {
        a->contiguous = dlr_hdf5_address(set, &a->offset);
        dl_puts(&text, a->contiguous ? "contiguous" : "contiguous, nothing written yet");
    } else if (layout == H5D_CHUNKED) {
        hsize_t chunk[ARRAY_MAX_RANK];
        int rank = H5Pget_chunk(how, ARRAY_MAX_RANK, chunk);
        hid_t type = H5Dget_type(set);
        uint64_t bytes = H5Tget_size(type);
        H5Tclose(type);
        dl_puts(&text, "chunks of [");
        for (int i = 0; i < rank && i < ARRAY_MAX_RANK; i++) {
            dl_putf(&text, "%s%llu", i ? ", " : "", (unsigned long long)chunk[i]);
            bytes *= chunk[i];
        }
        dl_puts(&text, "]");
        describe_filters(how, bytes, &text, &a->unreadable);
    } else if (layout == H5D_COMPACT)
        dl_puts(&text, "compact");
    else {
        dl_puts(&text, "composed from other data sets");
        a->unreadable = "it is composed from other data sets, perhaps of other files";
    }
    H5Pclose(how);
    a->storage = dl_strdup(arena, text.at);
    dl_buf_free(&text);
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

/* A traversal of the file's groups, which may contain themselves: each level knows the groups above
 * it. */
typedef struct walk walk;
struct walk {
    dl_arena *arena;
    array_file *f;
    const char *prefix;
    haddr_t group;
    const walk *above;
    int depth, *objects;
    bool netcdf; /* the NetCDF library wrote the file */
};

static bool is_inside(const walk *w, haddr_t group) {
    for (; w; w = w->above)
        if (w->group == group) return true;
    return false;
}

static herr_t add_attribute(hid_t at, const char *name, const H5A_info_t *info, void *ctx) {
    walk *w = ctx;
    (void)info;
    const char *value = named_attribute(w->arena, at, name);
    dl_push(w->arena, &w->f->attributes,
            dl_format(w->arena, "%s = %s", name, value ? value : "(not shown)"));
    return w->f->attributes.n >= 200;
}

/* The type in which libhdf5 returns numbers of `a->type`: the next type that represents all of
 * them. */
static dlr_element element_of(const array *a) {
    int bits = atoi(a->type + 1), bytes = 1;
    while (8 * bytes < bits) bytes *= 2;
    if (a->type[0] == 'f' && bytes < 4 && bits != 16) bytes = 4;
    return dlr_element_of(a->type[0], (size_t)bytes);
}

/* Whether the NetCDF library filled the set with its default fill value. */
static bool has_default_fill(const walk *w, hid_t set) {
    hid_t how = H5Dget_create_plist(set);
    H5D_fill_value_t fill;
    bool asked = H5Pfill_value_defined(how, &fill) >= 0 && fill == H5D_FILL_VALUE_USER_DEFINED;
    H5Pclose(how);
    return asked && (w->netcdf || H5Aexists(set, "_Netcdf4Dimid") > 0);
}

static void take_packing(walk *w, array *a, hid_t set) {
    dlr_attribute found[16];
    dlr_hdf5_attribute raw[16];
    dlr_number numbers[16][DLR_MISSING + 1];
    dlr_array_facts facts = {.name = a->name,
                             .type = element_of(a),
                             .attributes = found,
                             .default_fills = has_default_fill(w, set)};
    const char *name;
    for (int i = 0; (name = dlr_packing_attribute(i)) && facts.attribute_count < 16; i++) {
        int k = facts.attribute_count;
        if (!dlr_hdf5_read_attribute(set, name, &raw[k], numbers[k], DLR_MISSING + 1)) continue;
        dl_buf text = {0};
        dl_put_double(&text, raw[k].number);
        found[k] = (dlr_attribute){.name = name,
                                   .text = raw[k].is_text  ? raw[k].text
                                           : raw[k].unread ? "(neither numbers nor text)"
                                                           : dl_strdup(w->arena, text.at),
                                   .number = raw[k].number,
                                   .numbers = numbers[k],
                                   .n = raw[k].count,
                                   .unread = raw[k].unread};
        dl_buf_free(&text);
        facts.attribute_count++;
    }
    array_take_packing(w->arena, a, &facts);
}

static void add_array(walk *w, const char *name, hid_t set) {
    array a = {.name = name, .handle = set, .read = read_block};
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    a.type = type_name(w->arena, type, &a.numeric);
    a.f32 = H5Tequal(type, H5T_IEEE_F32LE) > 0;
    hsize_t dims[H5S_MAX_RANK];
    a.rank = H5Sget_simple_extent_ndims(space);
    if (H5Sget_simple_extent_type(space) == H5S_NULL || a.rank < 0 || a.rank > ARRAY_MAX_RANK) {
        a.unreadable = "it has no elements, or more than 8 axes";
        a.rank = 0;
    } else if (a.rank > 0)
        H5Sget_simple_extent_dims(space, dims, NULL);
    a.count = a.unreadable ? 0 : 1;
    for (int i = 0; i < a.rank; i++) {
        a.dims[i] = dims[i];
        if (__builtin_mul_overflow(a.count, dims[i], &a.count) || a.count > (uint64_t)1 << 47) {
            a.unreadable = "its size is not possible";
            a.count = 0;
            break;
        }
    }
    describe_storage(w->arena, set, &a);
    if (a.contiguous && !a.unreadable &&
        (a.offset > w->f->bytes || a.count * H5Tget_size(type) > w->f->bytes - a.offset))
        a.unreadable = "it reaches beyond the end of the file, which is truncated";
    a.labels = named_attribute(w->arena, set, "channels");
    if (a.numeric && !a.unreadable) take_packing(w, &a, set);
    H5Tclose(type);
    H5Sclose(space);
    dl_push(w->arena, &w->f->arrays, a);
}

/* Lists an object that libhdf5 cannot open, with the reason; unless it is a group or type, it may
 * be an array. */
static void add_closed(walk *w, hid_t group, const char *name, const char *full) {
    char why[DLR_HDF5_WHY];
    H5O_info_t about;
    dlr_hdf5_why_closed(why, sizeof why);
    bool known = H5Oget_info_by_name2(group, name, &about, H5O_INFO_BASIC, H5P_DEFAULT) >= 0;
    if (known && about.type != H5O_TYPE_DATASET)
        dl_push(w->arena, &w->f->attributes, dl_format(w->arena, "%s %s", full, why));
    else
        dl_push(w->arena, &w->f->arrays,
                ((array){.name = full,
                         .type = "?",
                         .storage = "",
                         .unreadable = dl_format(w->arena, "it %s", why),
                         .read = read_block}));
}

static herr_t add_link(hid_t group, const char *name, const H5L_info_t *info, void *ctx) {
    walk *w = ctx;
    if (++*w->objects > MAX_OBJECTS || w->f->arrays.n >= MAX_ARRAYS) return 1;
    const char *full = dl_format(w->arena, "%s%.*s", w->prefix, MAX_TEXT, name);
    if (info->type != H5L_TYPE_HARD) {
        dl_push(w->arena, &w->f->attributes,
                dl_format(w->arena, "%s is a link to elsewhere, which is not followed", full));
        return 0;
    }
    hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (object < 0) {
        add_closed(w, group, name, full);
        return 0;
    }
    H5I_type_t kind = H5Iget_type(object);
    if (kind == H5I_DATASET) {
        add_array(w, full, object); /* stays open for reading */
        return 0;
    }
    H5O_info_t about;
    if (kind == H5I_GROUP && w->depth < MAX_DEPTH &&
        H5Oget_info2(object, &about, H5O_INFO_BASIC) >= 0 && !is_inside(w, about.addr)) {
        walk inner = *w;
        inner.group = about.addr;
        inner.above = w;
        inner.prefix = dl_format(w->arena, "%s/", full);
        inner.depth++;
        H5Literate(object, H5_INDEX_NAME, H5_ITER_INC, NULL, add_link, &inner);
    }
    H5Oclose(object);
    return 0;
}

bool hdf5_open(dl_arena *arena, const char *path, array_file *f, dl_error *err) {
    hid_t file = open_file(path, err);
    if (file < 0) return false;
    int objects = 0;
    H5O_info_t root;
    if (H5Oget_info2(file, &root, H5O_INFO_BASIC) < 0)
        return dl_fail(err, DL_INPUT, "%s is damaged: its root group cannot be read", path);
    walk w = {.arena = arena,
              .f = f,
              .prefix = "",
              .group = root.addr,
              .objects = &objects,
              .netcdf = H5Aexists(file, "_NCProperties") > 0};
    f->format = "HDF5";
    if (H5Aiterate2(file, H5_INDEX_NAME, H5_ITER_INC, NULL, add_attribute, &w) < 0) {
        char why[DLR_HDF5_WHY];
        dlr_hdf5_why_closed(why, sizeof why);
        dl_push(arena, &f->attributes, dl_format(arena, "an attribute of the file %s", why));
    }
    if (H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, NULL, add_link, &w) < 0)
        return dl_fail(err, DL_INPUT, "%s is damaged: its list of data sets cannot be read", path);
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

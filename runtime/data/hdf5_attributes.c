/* The attributes of one set of an HDF5 file, by libhdf5. Only for child processes
 * (hdf5_contents.h). */
#include "runtime/data/hdf5_contents.h"
#include "runtime/data/packing.h"

#include <hdf5.h>

typedef struct {
    dlr_hdf5_facts *facts;
    dlr_hdf5_set *set;
} attribute_visit;

/* Reads a string of fixed or variable length into `text`; "" when it does not fit. */
static bool read_text(hid_t at, hid_t type, char *text, size_t room) {
    size_t size = H5Tget_size(type);
    if (H5Tis_variable_str(type) > 0) {
        char *found = NULL;
        hid_t memory = H5Tcopy(H5T_C_S1);
        H5Tset_size(memory, H5T_VARIABLE), H5Tset_cset(memory, H5Tget_cset(type));
        bool ok = H5Aread(at, memory, &found) >= 0 && found && strlen(found) < room;
        if (ok) strcpy(text, found);
        if (found) H5free_memory(found);
        H5Tclose(memory);
        return ok;
    }
    if (size >= room || H5Aread(at, type, text) < 0) return false;
    text[size] = 0;
    return true;
}

/* The names of the axes, by the scales that netCDF and h5py attach to them: references to their
 * sets. */
static void read_axes(hid_t at, hid_t type, hid_t space, dlr_hdf5_set *set) {
    hid_t base = H5Tget_class(type) == H5T_VLEN ? H5Tget_super(type) : -1;
    hvl_t list[DLR_ARRAY_RANK] = {{0}};
    if (base < 0 || set->rank > DLR_ARRAY_RANK || H5Sget_simple_extent_npoints(space) != set->rank)
        return;
    hid_t memory = H5Tvlen_create(H5T_STD_REF_OBJ);
    if (H5Tequal(base, H5T_STD_REF_OBJ) > 0 && H5Aread(at, memory, list) >= 0) {
        for (int i = 0; i < set->rank; i++) {
            hid_t scale =
                list[i].len ? H5Rdereference2(at, H5P_DEFAULT, H5R_OBJECT, list[i].p) : -1;
            char name[256];
            ssize_t n = scale < 0 ? 0 : H5Iget_name(scale, name, sizeof name);
            const char *last = n > 0 && n < (ssize_t)sizeof name ? strrchr(name, '/') : NULL;
            if (last && strlen(last + 1) < sizeof set->axis[i]) strcpy(set->axis[i], last + 1);
            if (scale >= 0) H5Oclose(scale);
        }
        H5Dvlen_reclaim(memory, space, H5P_DEFAULT, list);
    }
    H5Tclose(memory), H5Tclose(base);
}

/* Reads numbers of one type, exactly; bools of h5py are an enumeration of 0 and 1. */
static bool read_numbers(hid_t at, hid_t type, hssize_t count, dlr_number *out) {
    H5T_class_t class = H5Tget_class(type);
    bool whole = class == H5T_INTEGER || class == H5T_ENUM;
    bool sign = class == H5T_ENUM || (whole && H5Tget_sign(type) == H5T_SGN_2);
    uint64_t raw[DLR_MISSING + 1];
    hid_t memory = !whole ? H5T_NATIVE_DOUBLE : sign ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64;
    if ((!whole && class != H5T_FLOAT) || count < 1 || count > DLR_MISSING + 1) return false;
    if (H5Aread(at, memory, raw) < 0) return false;
    for (int i = 0; i < (int)count; i++) {
        out[i] = (dlr_number){.kind = !whole ? 'f' : sign ? 'i' : 'u'};
        memcpy(&out[i].u, &raw[i], sizeof raw[i]);
    }
    return true;
}

bool dlr_hdf5_read_attribute(int64_t object, const char *name, dlr_hdf5_attribute *out,
                             dlr_number *numbers, int most) {
    *out = (dlr_hdf5_attribute){.unread = true};
    hid_t at = H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT) : -1;
    if (at < 0) return false;
    hid_t type = H5Aget_type(at), space = H5Aget_space(at);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    snprintf(out->name, sizeof out->name, "%s", name);
    if (H5Tget_class(type) == H5T_STRING && count == 1) {
        out->is_text = read_text(at, type, out->text, sizeof out->text);
        out->unread = !out->is_text;
    } else if (count <= most && read_numbers(at, type, count, numbers)) {
        out->unread = false, out->count = (int)count;
        out->number = dlr_number_double(numbers);
    }
    H5Sclose(space), H5Tclose(type), H5Aclose(at);
    return true;
}

/* Stores an attribute that packing.h knows. */
static void keep_packing(hid_t object, const char *name, dlr_hdf5_facts *facts,
                         dlr_hdf5_attribute *a) {
    if (!dlr_hdf5_read_attribute(object, name, a, facts->number + facts->numbers,
                                 DLR_HDF5_NUMBERS - facts->numbers))
        return;
    a->first = facts->numbers;
    facts->numbers += a->count;
}

static herr_t visit_attribute(hid_t object, const char *name, const H5A_info_t *info,
                              void *context) {
    attribute_visit *v = context;
    dlr_hdf5_facts *facts = v->facts;
    (void)info;
    if (facts->attributes == DLR_HDF5_ATTRIBUTES) return 1;
    dlr_hdf5_attribute *a = &facts->attribute[facts->attributes];
    if (strcmp(name, "_Netcdf4Dimid") == 0 || strcmp(name, "_Netcdf4Coordinates") == 0)
        facts->netcdf = true;
    if (dlr_packing_knows(name)) {
        keep_packing(object, name, facts, a);
        a->set = (int)(v->set - facts->set);
        return facts->attributes++, 0;
    }
    hid_t at = H5Aopen(object, name, H5P_DEFAULT);
    if (at < 0) return 0;
    hid_t type = H5Aget_type(at), space = H5Aget_space(at);
    H5T_class_t class = H5Tget_class(type);
    hssize_t count = H5Sget_simple_extent_npoints(space);
    enum { MOST = 64 };
    double numbers[MOST];
    bool kept = false;
    if (strcmp(name, "DIMENSION_LIST") == 0)
        read_axes(at, type, space, v->set);
    else if (class == H5T_STRING && count == 1)
        kept = a->is_text = read_text(at, type, a->text, sizeof a->text);
    else if ((class == H5T_INTEGER || class == H5T_FLOAT) && count >= 1 && count <= MOST)
        kept = H5Aread(at, H5T_NATIVE_DOUBLE, numbers) >= 0, a->number = numbers[0];
    if (kept && strlen(name) < sizeof a->name) {
        strcpy(a->name, name);
        a->set = (int)(v->set - facts->set);
        facts->attributes++;
    } else
        *a = (dlr_hdf5_attribute){0};
    H5Sclose(space), H5Tclose(type), H5Aclose(at);
    return 0;
}

/* libhdf5 returns none of an object's attributes when it cannot read one of them. A scale or fill
 * value may be among them, so such a set is not read. */
void dlr_hdf5_keep_attributes(int64_t object, dlr_hdf5_facts *facts, dlr_hdf5_set *set) {
    herr_t ended = H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, NULL, visit_attribute,
                               &(attribute_visit){facts, set});
    set->cut_attributes = ended > 0;
    if (ended >= 0) return;
    enum { WHY = sizeof set->why - 40 };
    char why[WHY];
    if (dlr_hdf5_why_closed(why, sizeof why)) set->odd = DLR_ODD_NUMBERS;
    snprintf(set->why, sizeof set->why, "has an attribute that %s", why);
    set->layout = DLR_HDF5_CLOSED;
}

#include "runtime/data/hdf5_facts.h"

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "ir/base/sandbox.h"
#include "runtime/data/packing.h"

#include <hdf5.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CPU_SECONDS = 5 };

/* ---- in the child: attributes ---- */

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
static void visit_attributes(hid_t object, dlr_hdf5_facts *facts, dlr_hdf5_set *set) {
    herr_t ended = H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, NULL, visit_attribute,
                               &(attribute_visit){facts, set});
    set->cut_attributes = ended > 0;
    if (ended >= 0) return;
    enum { WHY = sizeof set->why - 40 };
    char why[WHY];
    dlr_hdf5_why_closed(why, sizeof why);
    snprintf(set->why, sizeof set->why, "has an attribute that %s", why);
    set->layout = DLR_HDF5_CLOSED;
}

/* Whether an object that cannot be opened is an array, as far as its header shows. */
static bool may_be_array(hid_t file, const char *name) {
    H5O_info_t about;
    return H5Oget_info_by_name2(file, name, &about, H5O_INFO_BASIC, H5P_DEFAULT) < 0 ||
           about.type == H5O_TYPE_DATASET;
}

/* Visits one link of the file: a data set is described, a link to elsewhere is recorded and not
 * followed, a group is skipped. */
static herr_t visit(hid_t file, const char *name, const H5L_info_t *link, void *context) {
    dlr_hdf5_facts *facts = context;
    if (facts->n == DLR_HDF5_SETS) return facts->more = true;
    dlr_hdf5_set *set = &facts->set[facts->n];
    if (strlen(name) >= sizeof set->name) {
        facts->more = true;
        return 0;
    }
    strcpy(set->name, name);
    if (link->type != H5L_TYPE_HARD) {
        set->layout = DLR_HDF5_LINK;
        facts->n++;
        return 0;
    }
    hid_t object = H5Oopen(file, name, H5P_DEFAULT);
    if (object < 0) {
        dlr_hdf5_why_closed(set->why, sizeof set->why);
        set->layout = DLR_HDF5_CLOSED, set->element = DLR_EL_NONE;
        strcpy(set->type, "?");
        facts->n += may_be_array(file, name);
        return 0;
    }
    if (H5Iget_type(object) == H5I_DATASET) {
        dlr_hdf5_describe(object, set);
        visit_attributes(object, facts, set);
        facts->n++;
    }
    H5Oclose(object);
    return 0;
}

void dlr_hdf5_quiet(void) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* libhdf5 must not print its errors */
    H5PLset_loading_state(0);              /* no third-party filter code */
}

int64_t dlr_hdf5_open(const char *path) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_file_locking(access, false, true);
    /* counted as libhdf5's driver sec2 opens it */
    dl_file_calls_add(&(dl_file_calls){.opens = 1, .stats = 2});
    /* the last call: any other call would clear the error */
    return H5Fopen(path, H5F_ACC_RDONLY, access);
}

static bool inspect(void *path, dl_sandbox_result *out, dl_error *err) {
    char reason[200];
    dlr_hdf5_facts *facts = calloc(1, sizeof *facts);
    if (!facts) return dl_fail(err, DL_RESOURCE, "no memory to read %s", (char *)path);
    dlr_hdf5_quiet();
    hid_t file = dlr_hdf5_open(path);
    facts->netcdf = file >= 0 && H5Aexists(file, "_NCProperties") > 0;
    if (file < 0 || H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, visit, facts) < 0) {
        dlr_hdf5_reason(reason, sizeof reason);
        if (!strstr(reason, "version"))
            return dl_fail(err, DL_INPUT, "%s is damaged or no HDF5 file: %s", (char *)path,
                           reason);
        char why[DLR_HDF5_WHY];
        dlr_hdf5_why_closed(why, sizeof why);
        return dl_fail(err, DL_INPUT, "%s %s", (char *)path, why);
    }
    dl_putn(&out->bytes, (const char *)facts, sizeof *facts);
    return true;
}

/* ---- in this process ---- */

/* Checks the child's facts, which come from an untrusted file: every string is terminated, every
 * number put in range. */
static bool check_facts(dlr_hdf5_facts *facts, const char *path, dl_error *err) {
    if (facts->n < 0 || facts->n > DLR_HDF5_SETS || facts->attributes < 0 ||
        facts->attributes > DLR_HDF5_ATTRIBUTES || facts->numbers < 0 ||
        facts->numbers > DLR_HDF5_NUMBERS)
        return dl_fail(err, DL_INPUT, "%s is damaged", path);
    for (int i = 0; i < facts->attributes; i++) {
        dlr_hdf5_attribute *a = &facts->attribute[i];
        a->name[sizeof a->name - 1] = a->text[sizeof a->text - 1] = 0;
        if (a->count < 0 || a->first < 0 || a->first > facts->numbers - a->count)
            a->first = a->count = 0;
    }
    for (int i = 0; i < facts->n; i++) {
        dlr_hdf5_set *set = &facts->set[i];
        for (int k = 0; k < DLR_ARRAY_RANK; k++) set->axis[k][sizeof set->axis[k] - 1] = 0;
        set->name[sizeof set->name - 1] = set->type[sizeof set->type - 1] =
            set->why[DLR_HDF5_WHY - 1] = 0;
        if (set->rank < 0) set->rank = 0;
        if (set->filter_count < 0) set->filter_count = 0;
        if (set->element < 0 || set->element > DLR_EL_NONE) set->element = DLR_EL_NONE;
        int64_t bytes = (int64_t)dlr_element_bytes(set->element);
        for (int k = 0; k < set->rank && k < DLR_ARRAY_RANK; k++)
            if (set->dims[k] < 0 || __builtin_mul_overflow(bytes, set->dims[k], &bytes))
                bytes = INT64_MAX;
        if (set->layout == DLR_HDF5_CONTIGUOUS && set->plain && set->rank <= DLR_ARRAY_RANK &&
            (set->offset <= 0 || set->offset > facts->file_bytes ||
             bytes > facts->file_bytes - set->offset))
            return dl_fail(err, DL_INPUT,
                           "%s is damaged: '%s' reaches beyond the file's %lld bytes", path,
                           set->name, (long long)facts->file_bytes);
        if (set->layout == DLR_HDF5_CONTIGUOUS && set->plain && set->rank <= DLR_ARRAY_RANK &&
            set->stored < (uint64_t)bytes)
            return dl_fail(
                err, DL_INPUT,
                "%s is damaged: '%s' has %llu bytes, which are fewer than its numbers take", path,
                set->name, (unsigned long long)set->stored);
    }
    return true;
}

dlr_hdf5_facts *dlr_hdf5_inspect(const char *path, dl_error *err) {
    struct stat st;
    int fd = dl_input_open(path, err);
    if (fd < 0) return NULL;
    bool known = dl_fstat(fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", path);
    close(fd);
    /* the socket's ends, the null device, and the files that libhdf5 opens at once */
    enum { CHILD_FILES = 6 };
    if (!known || !dl_check_descriptors(CHILD_FILES, path, err)) return NULL;
    dl_sandbox_result r;
    if (!dl_sandbox_run(path, CPU_SECONDS, inspect, (char *)(uintptr_t)path, &r, err)) return NULL;
    dlr_hdf5_facts *facts = malloc(sizeof *facts);
    bool ok = facts || dl_fail(err, DL_RESOURCE, "no memory to read %s", path);
    ok = ok && (r.bytes.n == sizeof *facts || dl_fail(err, DL_INPUT, "%s is damaged", path));
    if (ok) {
        memcpy(facts, r.bytes.at, sizeof *facts);
        facts->file_bytes = st.st_size;
        ok = check_facts(facts, path, err);
    }
    dl_buf_free(&r.text);
    dl_buf_free(&r.bytes);
    if (ok) return facts;
    free(facts);
    return NULL;
}

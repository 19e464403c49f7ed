#include "runtime/data/hdf5_facts.h"

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "ir/base/sandbox.h"

#include <hdf5.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CPU_SECONDS = 5 };

static herr_t innermost(unsigned depth, const H5E_error2_t *e, void *text) {
    if (depth == 0 && e->desc) snprintf(text, 200, "%s", e->desc);
    return 0;
}

void dlr_hdf5_reason(char *text, size_t size) {
    char reason[200] = "no reason given";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, reason);
    snprintf(text, size, "%s", reason);
}

/* ---- in the child ---- */

/* Half precision, which libhdf5 has no name for. */
static bool is_half(hid_t type) {
    size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
    return H5Tget_size(type) == 2 &&
           H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 &&
           sign == 15 && exponent == 10 && exponent_bits == 5 && mantissa == 0 && mantissa_bits == 10 &&
           H5Tget_ebias(type) == 15;
}

/* What h5py and PyTables make of a bool. */
static bool is_truth(hid_t type) {
    int8_t no = -1, yes = -1;
    return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && H5Tenum_valueof(type, "FALSE", &no) >= 0 &&
           H5Tenum_valueof(type, "TRUE", &yes) >= 0 && no == 0 && yes == 1;
}

static bool is_ieee(hid_t type) {
    const hid_t ieee[] = {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE};
    for (int i = 0; i < 4; i++)
        if (H5Tequal(type, ieee[i]) > 0) return true;
    return is_half(type);
}

/* The element, and the letter of its kind or 0. What libhdf5 must convert goes to the next wider one. */
static char find_element(hid_t type, dlr_hdf5_set *set) {
    size_t bytes = H5Tget_size(type), whole = 1;
    while (whole < bytes) whole *= 2;
    switch (H5Tget_class(type)) {
    case H5T_FLOAT:
        set->plain = is_ieee(type);
        set->element = set->plain ? dlr_element_of('f', bytes) : bytes <= 4 ? DLR_EL_F32 : DLR_EL_F64;
        return 'f';
    case H5T_ENUM:
        if (is_truth(type)) {
            set->plain = true, set->element = DLR_EL_BOOL;
            return 'b';
        }
        type = H5Tget_super(type); /* fall through: its numbers */
        __attribute__((fallthrough));
    case H5T_INTEGER: {
        char letter = H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i';
        set->plain = bytes == whole && H5Tget_precision(type) == 8 * bytes;
        set->element = dlr_element_of(letter, whole);
        return letter;
    }
    default: set->element = DLR_EL_NONE; return 0;
    }
}

/* What is no number. h5py's complex numbers are records of r and i. */
static const char *name_other(hid_t type) {
    switch (H5Tget_class(type)) {
    case H5T_STRING: return "strings";
    case H5T_COMPOUND:
        return H5Tget_nmembers(type) == 2 && H5Tget_member_index(type, "r") == 0 &&
                       H5Tget_member_index(type, "i") == 1
                   ? "complex numbers"
                   : "records";
    default: return "other";
    }
}

static void name_type(hid_t type, dlr_hdf5_set *set) {
    char letter = find_element(type, set);
    bool big = H5Tget_order(type) == H5T_ORDER_BE;
    set->swapped = H5Tget_size(type) > 1 && big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    if (!letter)
        snprintf(set->type, sizeof set->type, "%s", name_other(type));
    else if (letter == 'b')
        snprintf(set->type, sizeof set->type, "bool");
    else
        snprintf(set->type, sizeof set->type, "%c%zu%s", letter, 8 * H5Tget_size(type),
                 H5Tget_size(type) > 1 && big ? " BE" : "");
}

static void describe_chunks(hid_t plist, hid_t type, dlr_hdf5_set *set) {
    hsize_t chunk[H5S_MAX_RANK];
    unsigned options = 0;
    int rank = H5Pget_chunk(plist, H5S_MAX_RANK, chunk);
    for (int i = 0; i < rank && i < DLR_ARRAY_RANK; i++) set->chunk[i] = (int64_t)chunk[i];
    set->odd_edges = H5Pget_chunk_opts(plist, &options) < 0 || options != 0;
    if (H5Tget_size(type) <= sizeof set->fill) H5Pget_fill_value(plist, type, set->fill);
}

static void describe_storage(hid_t data, hid_t plist, hid_t type, dlr_hdf5_set *set) {
    haddr_t at = H5Dget_offset(data);
    set->offset = -1;
    set->filter_count = H5Pget_nfilters(plist);
    for (int i = 0; i < set->filter_count && i < DLR_HDF5_FILTERS; i++) {
        unsigned flags;
        size_t values = 0;
        set->filter[i] = (int)H5Pget_filter2(plist, (unsigned)i, &flags, &values, NULL, 0, NULL, NULL);
    }
    switch (H5Pget_layout(plist)) {
    case H5D_CONTIGUOUS:
        if (H5Pget_external_count(plist) > 0)
            set->layout = DLR_HDF5_EXTERNAL;
        else if (at == HADDR_UNDEF)
            set->layout = DLR_HDF5_EMPTY;
        else
            set->layout = DLR_HDF5_CONTIGUOUS, set->offset = (int64_t)at;
        break;
    case H5D_CHUNKED:
        set->layout = H5Dget_storage_size(data) ? DLR_HDF5_CHUNKED : DLR_HDF5_EMPTY;
        describe_chunks(plist, type, set);
        break;
    case H5D_COMPACT: set->layout = DLR_HDF5_COMPACT; break;
    default: set->layout = DLR_HDF5_VIRTUAL;
    }
}

static void describe(hid_t data, dlr_hdf5_set *set) {
    hid_t space = H5Dget_space(data), type = H5Dget_type(data), plist = H5Dget_create_plist(data);
    hsize_t dims[H5S_MAX_RANK];
    set->rank = H5Sget_simple_extent_dims(space, dims, NULL);
    for (int i = 0; i < set->rank && i < DLR_ARRAY_RANK; i++) set->dims[i] = (int64_t)dims[i];
    name_type(type, set);
    describe_storage(data, plist, type, set);
    H5Pclose(plist), H5Tclose(type), H5Sclose(space);
}

/* ---- attributes ---- */

typedef struct {
    dlr_hdf5_facts *facts;
    dlr_hdf5_set *set;
} attribute_visit;

/* A string of fixed or variable length into `text`, cut to nothing when it does not fit. */
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

/* The names of the axes by the scales that netCDF and h5py attach to them: references to their sets. */
static void read_axes(hid_t at, hid_t type, hid_t space, dlr_hdf5_set *set) {
    hid_t base = H5Tget_class(type) == H5T_VLEN ? H5Tget_super(type) : -1;
    hvl_t list[DLR_ARRAY_RANK] = {{0}};
    if (base < 0 || set->rank > DLR_ARRAY_RANK || H5Sget_simple_extent_npoints(space) != set->rank) return;
    hid_t memory = H5Tvlen_create(H5T_STD_REF_OBJ);
    if (H5Tequal(base, H5T_STD_REF_OBJ) > 0 && H5Aread(at, memory, list) >= 0) {
        for (int i = 0; i < set->rank; i++) {
            hid_t scale = list[i].len ? H5Rdereference2(at, H5P_DEFAULT, H5R_OBJECT, list[i].p) : -1;
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

static herr_t visit_attribute(hid_t object, const char *name, const H5A_info_t *info, void *context) {
    attribute_visit *v = context;
    dlr_hdf5_facts *facts = v->facts;
    (void)info;
    if (facts->attributes == DLR_HDF5_ATTRIBUTES) return 1;
    dlr_hdf5_attribute *a = &facts->attribute[facts->attributes];
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

/* One link of the file: a data set is described, a link to elsewhere noted and not followed, a group passed
 * over. */
static herr_t visit(hid_t file, const char *name, const H5L_info_t *link, void *context) {
    dlr_hdf5_facts *facts = context;
    if (facts->n == DLR_HDF5_SETS) return facts->more = true;
    dlr_hdf5_set *set = &facts->set[facts->n];
    if (strlen(name) >= sizeof set->name) return 0;
    strcpy(set->name, name);
    if (link->type != H5L_TYPE_HARD) {
        set->layout = DLR_HDF5_LINK;
        facts->n++;
        return 0;
    }
    hid_t object = H5Oopen(file, name, H5P_DEFAULT);
    if (object < 0) return -1;
    if (H5Iget_type(object) == H5I_DATASET) {
        describe(object, set);
        H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, NULL, visit_attribute,
                    &(attribute_visit){facts, set});
        facts->n++;
    }
    H5Oclose(object);
    return 0;
}

void dlr_hdf5_quiet(void) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* it prints nothing itself */
    H5PLset_loading_state(0);              /* no foreign filter code */
}

int64_t dlr_hdf5_open(const char *path) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_file_locking(access, false, true);
    dl_file_calls_add(&(dl_file_calls){.opens = 1, .stats = 2}); /* of its driver sec2 */
    return H5Fopen(path, H5F_ACC_RDONLY, access); /* the last call: any other forgets why it failed */
}

static bool inspect(void *path, dl_sandbox_result *out, dl_error *err) {
    char reason[200];
    dlr_hdf5_facts *facts = calloc(1, sizeof *facts);
    if (!facts) return dl_fail(err, DL_RESOURCE, "no memory to read %s", (char *)path);
    dlr_hdf5_quiet();
    hid_t file = dlr_hdf5_open(path);
    if (file < 0 || H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, visit, facts) < 0) {
        dlr_hdf5_reason(reason, sizeof reason);
        return dl_fail(err, DL_INPUT, "%s is damaged or no HDF5 file: %s", (char *)path, reason);
    }
    dl_putn(&out->bytes, (const char *)facts, sizeof *facts);
    return true;
}

/* ---- in this process ---- */

/* The child's facts come from a file that nobody vouches for: every string is ended, every number put in
 * range. */
static bool check_facts(dlr_hdf5_facts *facts, const char *path, dl_error *err) {
    if (facts->n < 0 || facts->n > DLR_HDF5_SETS || facts->attributes < 0 ||
        facts->attributes > DLR_HDF5_ATTRIBUTES)
        return dl_fail(err, DL_INPUT, "%s is damaged", path);
    for (int i = 0; i < facts->attributes; i++) {
        dlr_hdf5_attribute *a = &facts->attribute[i];
        a->name[sizeof a->name - 1] = a->text[sizeof a->text - 1] = 0;
    }
    for (int i = 0; i < facts->n; i++) {
        dlr_hdf5_set *set = &facts->set[i];
        for (int k = 0; k < DLR_ARRAY_RANK; k++) set->axis[k][sizeof set->axis[k] - 1] = 0;
        set->name[sizeof set->name - 1] = set->type[sizeof set->type - 1] = 0;
        if (set->rank < 0) set->rank = 0;
        if (set->filter_count < 0) set->filter_count = 0;
        if (set->element < 0 || set->element > DLR_EL_NONE) set->element = DLR_EL_NONE;
        int64_t bytes = (int64_t)dlr_element_bytes(set->element);
        for (int k = 0; k < set->rank && k < DLR_ARRAY_RANK; k++)
            if (set->dims[k] < 0 || __builtin_mul_overflow(bytes, set->dims[k], &bytes)) bytes = INT64_MAX;
        if (set->layout == DLR_HDF5_CONTIGUOUS && set->plain && set->rank <= DLR_ARRAY_RANK &&
            (set->offset < 0 || set->offset > facts->file_bytes || bytes > facts->file_bytes - set->offset))
            return dl_fail(err, DL_INPUT, "%s is damaged: '%s' reaches beyond the file's %lld bytes", path,
                           set->name, (long long)facts->file_bytes);
    }
    return true;
}

dlr_hdf5_facts *dlr_hdf5_inspect(const char *path, dl_error *err) {
    struct stat st;
    int fd = dl_input_open(path, err);
    if (fd < 0) return NULL;
    bool known = dl_fstat(fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", path);
    close(fd);
    enum { CHILD_FILES = 6 }; /* the socket's ends, its null device, and what libhdf5 opens at once */
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

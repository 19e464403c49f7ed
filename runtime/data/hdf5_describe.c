/* Describes one data set of an HDF5 file by libhdf5: type, shape, where its numbers lie. Only for
 * child processes (hdf5_facts.h). */
#include "runtime/data/hdf5_facts.h"

#include <hdf5.h>

/* ---- libhdf5's errors ---- */

static herr_t innermost(unsigned depth, const H5E_error2_t *e, void *text) {
    if (depth == 0 && e->desc) snprintf(text, 200, "%s", e->desc);
    return 0;
}

void dlr_hdf5_reason(char *text, size_t size) {
    char reason[200] = "no reason given";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, reason);
    snprintf(text, size, "%s", reason);
}

/* Parts of a file have versions of their own, and libhdf5 1.10 reports "bad version number for
 * layout message" and the like. The layout of filtered chunks by libver='latest' has a new version
 * since 2.0, types since 1.12 and 2.0. */
bool dlr_hdf5_why_closed(char *text, size_t size) {
    char reason[200];
    unsigned major = 0, minor = 0, release = 0;
    dlr_hdf5_reason(reason, sizeof reason);
    H5get_libversion(&major, &minor, &release);
    const bool newer = strstr(reason, "version") != NULL;
    if (newer)
        snprintf(text, size,
                 "needs HDF5 %s, and this program has libhdf5 %u.%u.%u (%s): write it with "
                 "libver=('earliest', 'v110') in place of libver='latest'",
                 strstr(reason, "datatype") ? "1.12 or newer (2.0 where 2.x wrote it)"
                                            : "2.0 or newer, as h5py 3.16 has it",
                 major, minor, release, reason);
    else
        snprintf(text, size, "cannot be opened, it is damaged: %s", reason);
    return newer;
}

/* ---- types ---- */

/* Half precision, for which libhdf5 has no name. */
static bool is_half(hid_t type) {
    size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
    return H5Tget_size(type) == 2 &&
           H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 &&
           sign == 15 && exponent == 10 && exponent_bits == 5 && mantissa == 0 &&
           mantissa_bits == 10 && H5Tget_ebias(type) == 15;
}

/* The enumeration by which h5py and PyTables store a bool. */
static bool is_truth(hid_t type) {
    int8_t no = -1, yes = -1;
    return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 &&
           H5Tenum_valueof(type, "FALSE", &no) >= 0 && H5Tenum_valueof(type, "TRUE", &yes) >= 0 &&
           no == 0 && yes == 1;
}

static bool is_ieee(hid_t type) {
    const hid_t ieee[] = {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE};
    for (int i = 0; i < 4; i++)
        if (H5Tequal(type, ieee[i]) > 0) return true;
    return is_half(type);
}

/* The element type, and the letter of its kind or 0. A type that libhdf5 must convert becomes the
 * next wider one. */
static char find_element(hid_t type, dlr_hdf5_set *set) {
    size_t bytes = H5Tget_size(type), whole = 1;
    while (whole < bytes) whole *= 2;
    switch (H5Tget_class(type)) {
    case H5T_FLOAT:
        set->plain = is_ieee(type);
        set->element = set->plain   ? dlr_element_of('f', bytes)
                       : bytes <= 4 ? DLR_EL_F32
                                    : DLR_EL_F64;
        return 'f';
    case H5T_ENUM:
        if (is_truth(type)) {
            set->plain = true, set->element = DLR_EL_BOOL;
            return 'b';
        }
        type = H5Tget_super(type); /* fall through: the base type's numbers */
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

/* h5py stores complex numbers as records of r and i. */
static bool is_complex(hid_t type) {
    return H5Tget_nmembers(type) == 2 && H5Tget_member_index(type, "r") == 0 &&
           H5Tget_member_index(type, "i") == 1;
}

/* The name of a type that is no number. */
static const char *name_other(hid_t type, int *odd) {
    static const struct {
        H5T_class_t class;
        dlr_odd odd;
        const char *name;
    } rows[] = {{H5T_STRING, DLR_ODD_TEXT, "strings"},
                {H5T_COMPOUND, DLR_ODD_RECORDS, "records"},
                {H5T_ARRAY, DLR_ODD_NUMBERS, "small arrays"},
                {H5T_VLEN, DLR_ODD_LISTS, "lists"},
                {H5T_BITFIELD, DLR_ODD_NUMBERS, "fields of bits"},
                {H5T_REFERENCE, DLR_ODD_OTHER, "references"},
                {H5T_OPAQUE, DLR_ODD_OTHER, "opaque bytes"}};
    const H5T_class_t class = H5Tget_class(type);
    *odd = DLR_ODD_OTHER;
    if (class == H5T_COMPOUND && is_complex(type)) return *odd = DLR_ODD_COMPLEX, "complex numbers";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].class == class) return *odd = rows[i].odd, rows[i].name;
    return "no numbers";
}

static void name_type(hid_t type, dlr_hdf5_set *set) {
    char letter = find_element(type, set);
    bool big = H5Tget_order(type) == H5T_ORDER_BE;
    set->swapped = H5Tget_size(type) > 1 && big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    if (!letter)
        snprintf(set->type, sizeof set->type, "%s", name_other(type, &set->odd));
    else if (letter == 'b')
        snprintf(set->type, sizeof set->type, "bool");
    else
        snprintf(set->type, sizeof set->type, "%c%zu%s", letter, 8 * H5Tget_size(type),
                 H5Tget_size(type) > 1 && big ? " BE" : "");
}

/* ---- storage ---- */

/* The value of elements that are not stored. Without a fill value, or where files are told never to
 * write it, libhdf5 leaves the reader's memory unset, which is zero here and in h5py. */
static void describe_fill(hid_t plist, hid_t type, dlr_hdf5_set *set) {
    H5D_fill_value_t defined = H5D_FILL_VALUE_ERROR;
    H5D_fill_time_t when = H5D_FILL_TIME_ERROR;
    if (H5Tget_size(type) > sizeof set->fill || H5Pfill_value_defined(plist, &defined) < 0 ||
        H5Pget_fill_time(plist, &when) < 0 || defined == H5D_FILL_VALUE_UNDEFINED ||
        when == H5D_FILL_TIME_NEVER)
        return;
    H5Pget_fill_value(plist, type, set->fill);
}

static void describe_chunks(hid_t plist, dlr_hdf5_set *set) {
    hsize_t chunk[H5S_MAX_RANK];
    unsigned options = 0;
    int rank = H5Pget_chunk(plist, H5S_MAX_RANK, chunk);
    for (int i = 0; i < rank && i < DLR_ARRAY_RANK; i++) set->chunk[i] = (int64_t)chunk[i];
    set->odd_edges = H5Pget_chunk_opts(plist, &options) < 0 || options != 0;
}

bool dlr_hdf5_address(int64_t data, uint64_t *at) {
    *at = 0;
    /* H5Dget_offset adds the size of the user block even to the address that means "none"
     * (HADDR_UNDEF). */
    if (H5Dget_storage_size(data) == 0) return false;
    *at = H5Dget_offset(data);
    return *at != HADDR_UNDEF;
}

static void describe_storage(hid_t data, hid_t plist, hid_t type, dlr_hdf5_set *set) {
    uint64_t at;
    set->offset = -1, set->stored = H5Dget_storage_size(data);
    set->filter_count = H5Pget_nfilters(plist);
    for (int i = 0; i < set->filter_count && i < DLR_HDF5_FILTERS; i++) {
        unsigned flags;
        size_t values = 0;
        set->filter[i] =
            (int)H5Pget_filter2(plist, (unsigned)i, &flags, &values, NULL, 0, NULL, NULL);
        if (H5Zfilter_avail(set->filter[i]) <= 0) set->missing |= 1U << i;
    }
    describe_fill(plist, type, set);
    switch (H5Pget_layout(plist)) {
    case H5D_CONTIGUOUS:
        if (H5Pget_external_count(plist) > 0)
            set->layout = DLR_HDF5_EXTERNAL;
        else if (!dlr_hdf5_address(data, &at))
            set->layout = DLR_HDF5_EMPTY;
        else
            set->layout = DLR_HDF5_CONTIGUOUS, set->offset = (int64_t)at;
        break;
    case H5D_CHUNKED:
        set->layout = set->stored ? DLR_HDF5_CHUNKED : DLR_HDF5_EMPTY;
        describe_chunks(plist, set);
        break;
    case H5D_COMPACT: set->layout = DLR_HDF5_COMPACT; break;
    default: set->layout = DLR_HDF5_VIRTUAL;
    }
}

void dlr_hdf5_describe(int64_t data, dlr_hdf5_set *set) {
    hid_t space = H5Dget_space(data), type = H5Dget_type(data), plist = H5Dget_create_plist(data);
    hsize_t dims[H5S_MAX_RANK];
    H5D_fill_value_t fill;
    set->has_fill = H5Pfill_value_defined(plist, &fill) >= 0 && fill == H5D_FILL_VALUE_USER_DEFINED;
    set->rank = H5Sget_simple_extent_dims(space, dims, NULL);
    for (int i = 0; i < set->rank && i < DLR_ARRAY_RANK; i++) set->dims[i] = (int64_t)dims[i];
    if (H5Sget_simple_extent_type(space) == H5S_NULL) set->rank = 1, set->dims[0] = 0;
    name_type(type, set);
    describe_storage(data, plist, type, set);
    H5Pclose(plist), H5Tclose(type), H5Sclose(space);
}

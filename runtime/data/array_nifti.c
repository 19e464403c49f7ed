/* NIfTI-1 and NIfTI-2 in one file (.nii), also packed with gzip (.nii.gz): nifti1.h and nifti2.h of
 * the NIfTI working group. The first axis, x, is the fastest. */
#include <math.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/byte_order.h"

enum { HEADER_1 = 348, HEADER_2 = 540, MOST_AXES = 7 };

typedef struct {
    dlr_run run;
    dlr_packed packed; /* 0 bytes: the file is not packed */
} nifti_state;

/* The bytes of one header, of either version: offsets of its fields. */
typedef struct {
    int dim, dim_bytes, type, voxel, voxel_bytes, offset, slope, unit, unit_bytes;
} layout;
static const layout layouts[] = {{40, 2, 70, 76, 4, 108, 112, 123, 1},
                                 {16, 8, 12, 104, 8, 168, 176, 500, 4}};

static bool is_gzip(const char *path, const char *bytes) {
    static const char end[] = ".nii.gz";
    size_t n = strlen(path);
    return memcmp(bytes, "\x1f\x8b", 2) == 0 && n > sizeof end - 1 &&
           strcasecmp(path + n - (sizeof end - 1), end) == 0;
}

/* The version, and the byte order; 0: no header of a single file. */
static int version_of(const char *bytes, bool *big) {
    for (int order = 0; order < 2; order++) {
        *big = order == 1;
        uint64_t size = dlr_load(bytes, 4, *big);
        if (size == HEADER_1 && memcmp(bytes + 344, "n+1", 4) == 0) return 1;
        if (size == HEADER_2 && memcmp(bytes + 4, "n+2", 4) == 0) return 2;
    }
    return 0;
}

static bool owns_nifti(const dlr_array_head *h) {
    bool big;
    return !h->folder && (version_of(h->bytes, &big) > 0 || is_gzip(h->path, h->bytes));
}

static dlr_element element_of(int64_t type) {
    switch (type) {
    case 2: return DLR_EL_U8;
    case 4: return DLR_EL_I16;
    case 8: return DLR_EL_I32;
    case 16: return DLR_EL_F32;
    case 64: return DLR_EL_F64;
    case 256: return DLR_EL_I8;
    case 512: return DLR_EL_U16;
    case 768: return DLR_EL_U32;
    case 1024: return DLR_EL_I64;
    case 1280: return DLR_EL_U64;
    default: return DLR_EL_NONE;
    }
}

/* Data types of the standard that are no numbers of ours. */
static dlr_odd odd_of(int64_t type) {
    switch (type) {
    case 32:
    case 1792:
    case 2048: return DLR_ODD_COMPLEX;
    case 128:
    case 2304: return DLR_ODD_RECORDS; /* red, green, blue */
    case 1536: return DLR_ODD_WIDE;
    default: return DLR_ODD_OTHER;
    }
}

/* Units of lengths and times, by three bits each. */
static void put_units(dl_arena *arena, dlr_array_facts *a, const char *bytes, const layout *at,
                      bool big) {
    static const char *const lengths[] = {"", " m", " mm", " um"}, *const times[] = {"", " s",
                                                                                     " ms", " us"};
    uint64_t units = dlr_load(bytes + at->unit, (size_t)at->unit_bytes, big);
    dl_buf text = {0};
    for (int i = 0; i < a->rank && i < 4; i++) {
        size_t k = i < 3 ? units & 7 : units >> 3 & 7;
        dl_putf(&text, "%s%g%s", i ? " x " : "",
                dlr_load_float(bytes + at->voxel + (i + 1) * at->voxel_bytes,
                               (size_t)at->voxel_bytes, big),
                k < 4 ? (i < 3 ? lengths : times)[k] : "");
    }
    if (text.n) dlr_array_add_text(arena, a, "voxel", dl_strdup(arena, text.at));
    dl_buf_free(&text);
}

static bool take_header(dlr_array_file *f, const char *bytes, dlr_array_facts *a, nifti_state *n,
                        dl_error *err) {
    static const char *const axes[] = {"x", "y", "z", "t", "u", "v", "w"};
    bool big;
    const int version = version_of(bytes, &big);
    if (!version) return dl_fail(err, DL_INPUT, "%s is no NIfTI file of one piece", f->path);
    const layout *at = &layouts[version - 1];
    const size_t wide = (size_t)at->voxel_bytes;
    int64_t type = dlr_load_signed(bytes + at->type, 2, big);
    int64_t rank = dlr_load_signed(bytes + at->dim, (size_t)at->dim_bytes, big);
    if (rank < 1 || rank > MOST_AXES)
        return dl_fail(err, DL_INPUT, "%s is damaged: its header has %lld axes", f->path,
                       (long long)rank);
    *a = (dlr_array_facts){
        .name = "", .rank = (int)rank, .type = element_of(type), .odd = odd_of(type)};
    a->packing = n->packed.bytes ? "gzip" : "none";
    n->run = (dlr_run){.swapped = dlr_is_swapped(big, dlr_element_bytes(a->type)), .fortran = true};
    a->stored = a->type == DLR_EL_NONE ? dl_format(f->arena, "data type %lld", (long long)type)
                                       : dlr_array_stored(f->arena, a->type, n->run.swapped);
    for (int i = 0; i < a->rank; i++) {
        a->dims[i] =
            dlr_load_signed(bytes + at->dim + (i + 1) * at->dim_bytes, (size_t)at->dim_bytes, big);
        a->axis[i] = axes[i];
        if (a->dims[i] < 1)
            return dl_fail(err, DL_INPUT, "%s is damaged: an axis of it has %lld voxels", f->path,
                           (long long)a->dims[i]);
    }
    double begin = version == 1 ? dlr_load_float(bytes + at->offset, wide, big)
                                : (double)dlr_load_signed(bytes + at->offset, wide, big);
    if (!(begin >= (version == 1 ? HEADER_1 : HEADER_2)) || begin > 1e15)
        return dl_fail(err, DL_INPUT, "%s is damaged: its voxels begin at byte %g", f->path, begin);
    n->run.offset = (int64_t)begin;
    double slope = dlr_load_float(bytes + at->slope, wide, big),
           intercept = dlr_load_float(bytes + at->slope + wide, wide, big);
    put_units(f->arena, a, bytes, at, big);
    if (slope == 0 || !isfinite(slope) || (slope == 1 && intercept == 0)) return true;
    dlr_array_add_number(f->arena, a, "scale_factor", slope);
    dlr_array_add_number(f->arena, a, "add_offset", intercept);
    return true;
}

static bool list_nifti(dlr_array_file *f, dl_error *err) {
    struct stat st;
    char bytes[HEADER_2 + 4] = {0};
    size_t got = 0;
    dlr_array_facts *a = DL_NEW(f->arena, dlr_array_facts);
    nifti_state *n = DL_NEW(f->arena, nifti_state);
    int fd = dl_input_open(f->path, err);
    if (fd < 0) return false;
    bool ok = dl_fstat(fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", f->path);
    size_t most = ok && st.st_size < (off_t)sizeof bytes ? (size_t)st.st_size : sizeof bytes;
    ok = ok && (most >= 2 || dl_fail(err, DL_INPUT, "%s ends within its header", f->path)) &&
         dl_read_at(fd, f->path, bytes, most, 0, err);
    if (ok && is_gzip(f->path, bytes)) {
        n->packed.bytes = st.st_size;
        memset(bytes, 0, sizeof bytes);
        ok = dlr_inflate(fd, f->path, &n->packed, false, bytes, sizeof bytes, &got, err);
    }
    close(fd);
    ok = ok && take_header(f, bytes, a, n, err);
    if (ok && a->type != DLR_EL_NONE && !n->packed.bytes)
        dlr_array_must_end(f->arena, a, n->run.offset, st.st_size);
    n->packed.skip = n->run.offset;
    f->arrays = a, f->n = 1, f->state = n;
    return ok;
}

static bool open_nifti(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                       size_t cache, dl_error *err) {
    const nifti_state *n = f->state;
    (void)a;
    return n->packed.bytes ? dlr_inflated_open(s, f->path, &n->packed, &n->run, cache, err)
                           : dlr_run_open(s, f->path, &n->run, err);
}

const dlr_array_format dlr_nifti_format = {.name = "NIfTI",
                                           .modules = "nibabel",
                                           .load = "numpy.asarray(nibabel.load('IN').dataobj)",
                                           .owns = owns_nifti,
                                           .list = list_nifti,
                                           .open = open_nifti};

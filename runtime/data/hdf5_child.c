/* Sets that only libhdf5 can unpack: a child process reads them (reader_child.h). */
#include "ir/base/file_calls.h"
#include "runtime/data/array_format.h"
#include "runtime/data/hdf5_facts.h"
#include "runtime/data/reader_child.h"

#include <hdf5.h>
#include <stdlib.h>

enum { MAX_PACKED = 1 << 30 };

typedef struct {
    dlr_child *child;
    dlr_element as;
} reader;

/* A set, as its child opens it. */
typedef struct {
    const char *path, *name;
    size_t cache;
    hid_t set;
} opened;

typedef struct {
    bool packed; /* request the packed chunk at block.start; otherwise the block */
    int rank;
    dlr_element as;
    dlr_block block;
} question;

/* ---- in the child ---- */

static bool open_set(void *context, dlr_child_answer *a) {
    opened *o = context;
    const size_t cache_slots = 12421;
    dlr_hdf5_quiet();
    hid_t chunks = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk_cache(chunks, cache_slots, o->cache, 1.0);
    hid_t file = dlr_hdf5_open(o->path);
    o->set = file < 0 ? file : H5Dopen2(file, o->name, chunks);
    if (o->set < 0) dlr_hdf5_reason(a->reason, sizeof a->reason);
    return o->set >= 0;
}

/* Enumerations are read in their stored form, since libhdf5 converts them to no other numbers. */
static hid_t type_of(hid_t set, dlr_element as) {
    const hid_t native[] = {
        [DLR_EL_F32] = H5T_NATIVE_FLOAT,  [DLR_EL_F64] = H5T_NATIVE_DOUBLE,
        [DLR_EL_I8] = H5T_NATIVE_INT8,    [DLR_EL_I16] = H5T_NATIVE_INT16,
        [DLR_EL_I32] = H5T_NATIVE_INT32,  [DLR_EL_I64] = H5T_NATIVE_INT64,
        [DLR_EL_U8] = H5T_NATIVE_UINT8,   [DLR_EL_U16] = H5T_NATIVE_UINT16,
        [DLR_EL_U32] = H5T_NATIVE_UINT32, [DLR_EL_U64] = H5T_NATIVE_UINT64,
        [DLR_EL_BOOL] = H5T_NATIVE_INT8,
    };
    hid_t type = H5Dget_type(set);
    return H5Tget_class(type) == H5T_ENUM ? H5Tget_native_type(type, H5T_DIR_ASCEND) : native[as];
}

static bool read_block(hid_t set, const question *q, void *out) {
    hsize_t start[DLR_ARRAY_RANK], count[DLR_ARRAY_RANK], stride[DLR_ARRAY_RANK];
    for (int i = 0; i < q->rank; i++)
        start[i] = (hsize_t)q->block.start[i], count[i] = (hsize_t)q->block.count[i],
        stride[i] = (hsize_t)q->block.stride[i];
    hid_t from = H5Dget_space(set), type = type_of(set, q->as);
    hid_t to = q->rank ? H5Screate_simple(q->rank, count, NULL) : H5Screate(H5S_SCALAR);
    bool ok = from >= 0 && to >= 0 && H5Tget_size(type) == dlr_element_bytes(q->as) &&
              (q->rank == 0 ||
               H5Sselect_hyperslab(from, H5S_SELECT_SET, start, stride, count, NULL) >= 0) &&
              H5Dread(set, type, to, from, H5P_DEFAULT, out) >= 0;
    if (to >= 0) H5Sclose(to);
    if (from >= 0) H5Sclose(from);
    return ok;
}

static size_t block_bytes(const question *q) {
    size_t n = dlr_element_bytes(q->as);
    for (int i = 0; i < q->rank; i++) n *= (size_t)q->block.count[i];
    return n;
}

static void *read_numbers(hid_t set, const question *q, dlr_child_answer *a) {
    /* zeroed: libhdf5 leaves elements unset that were never written */
    void *out = calloc(1, block_bytes(q));
    a->bytes = block_bytes(q);
    a->ok = out && read_block(set, q, out);
    return out;
}

/* libhdf5 1.10 fails for a chunk that is not stored. (H5Dget_chunk_info_by_coord does not, but
 * finds another chunk in some indexes: hdf5_chunks.c.) */
static bool is_absent(void) {
    char reason[200];
    dlr_hdf5_reason(reason, sizeof reason);
    return strcmp(reason, "chunk storage is not allocated") == 0;
}

/* Looks the chunk up by its coordinates, as H5Dread does. A chunk that is not stored has no
 * bytes. */
static void *read_packed(hid_t set, const question *q, dlr_child_answer *a) {
    hsize_t start[DLR_ARRAY_RANK], bytes = 0;
    for (int i = 0; i < q->rank; i++) start[i] = (hsize_t)q->block.start[i];
    bool found = H5Dget_chunk_storage_size(set, start, &bytes) >= 0,
         absent = found ? bytes == 0 : is_absent();
    bool read = found && !absent && bytes <= MAX_PACKED;
    void *out = malloc(read ? bytes + 1 : 1);
    read = read && out && H5Dread_chunk(set, H5P_DEFAULT, start, &a->skipped, out) >= 0;
    a->ok = read || (out && absent);
    a->bytes = read ? bytes : 0;
    return out;
}

static void *answer(void *context, const void *asked, dlr_child_answer *a) {
    const opened *o = context;
    const question *q = asked;
    void *out = q->packed ? read_packed(o->set, q, a) : read_numbers(o->set, q, a);
    if (out && !a->ok) dlr_hdf5_reason(a->reason, sizeof a->reason);
    return out;
}

/* ---- in this process ---- */

bool dlr_hdf5_child_chunk(const dlr_source *s, const int64_t *start, char **packed, size_t *bytes,
                          uint32_t *skipped, dl_error *err) {
    const reader *r = s->state;
    question q = {.packed = true, .rank = s->rank, .as = s->type};
    dlr_child_answer a = {0};
    void *at = NULL;
    memcpy(q.block.start, start, (size_t)s->rank * sizeof *start);
    bool ok = dlr_child_ask(r->child, &q, &at, MAX_PACKED, &a, err);
    *packed = at, *bytes = a.bytes, *skipped = a.skipped;
    return ok;
}

static bool read_by_child(const dlr_source *s, const dlr_block *b, dlr_element to, void *out,
                          dl_error *err) {
    const reader *r = s->state;
    const question q = {false, s->rank, r->as, *b};
    const size_t bytes = block_bytes(&q);
    dlr_child_answer a;
    if (s->on_paper) { /* dry run: libhdf5 decides what it reads, which is at least this many bytes
                        */
        dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = (int64_t)bytes});
        return true;
    }
    if (to == r->as && to != DLR_EL_BOOL && dlr_block_is_ordered(s, b, NULL))
        return dlr_child_ask(r->child, &q, &out, bytes, &a, err);
    void *packed = malloc(bytes);
    if (!packed) return dl_fail(err, DL_RESOURCE, "no memory to read %s", s->label);
    dlr_element_move m = dlr_block_move(s, b, to, out);
    m.from = packed, m.from_type = r->as;
    dlr_packed_steps(s->rank, b->count, NULL, dlr_element_bytes(r->as), m.from_step);
    int64_t bad[DLR_ARRAY_RANK];
    double value;
    bool ok = dlr_child_ask(r->child, &q, &packed, bytes, &a, err) &&
              (dlr_elements_move(&m, bad, &value) || dlr_refuse_number(s, b, bad, value, to, err));
    free(packed);
    return ok;
}

static void close_child(dlr_source *s) {
    reader *r = s->state;
    dlr_child_close(r->child);
    free(r);
}

bool dlr_hdf5_child_open(dlr_source *s, const char *path, const char *set, dlr_element as,
                         size_t cache, dl_error *err) {
    static const dlr_child_work work = {
        .question = sizeof(question), .open = open_set, .read = answer};
    reader *r = s->state = calloc(1, sizeof *r);
    if (!r) return dl_fail(err, DL_RESOURCE, "no memory to open %s", path);
    r->as = as;
    s->read = read_by_child, s->close = close_child, s->held = (int64_t)cache, s->chunked = true;
    r->child = dlr_child_start(s->label, path, &work, &(opened){path, set, cache, -1}, err);
    return r->child != NULL;
}

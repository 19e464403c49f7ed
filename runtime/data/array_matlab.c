/* MATLAB's files of version 5 to 7 (.mat): "MAT-File Format", R2023. Elements of a type, a size and
 * bytes; an array is an element of elements, and may be packed with zlib. The first axis is the
 * fastest. Version 7.3 is HDF5. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/byte_order.h"

enum { HEADER = 128, TAG = 8, PREFIX = 4096, MOST = 4096, MATRIX = 14, COMPRESSED = 15 };

typedef struct {
    dlr_run run;
    dlr_packed packed; /* 0 bytes: it is not packed */
} matlab_state;

/* The begin of an array's element, unpacked; bytes beyond its end are not there. */
typedef struct {
    unsigned char bytes[PREFIX];
    size_t n, next;
    bool big, cut;
} prefix;

typedef struct {
    uint64_t type, bytes;
    size_t at; /* of its data, in the prefix */
} element;

static bool owns_matlab(const dlr_array_head *h) {
    const char *order = h->bytes + HEADER - 2;
    return h->n >= HEADER && memcmp(h->bytes, "MATLAB", 6) == 0 &&
           (memcmp(order, "IM", 2) == 0 || memcmp(order, "MI", 2) == 0);
}

/* An element of at most four bytes has its size in the upper half of the type. `whole`: its data
 * are in the prefix, too. */
static element take_element(prefix *p, bool whole) {
    element e = {0};
    if (p->cut || p->n - p->next < TAG) {
        p->cut = true;
        return e;
    }
    e.type = dlr_load(p->bytes + p->next, 4, p->big);
    const bool small = e.type >> 16 != 0;
    e.bytes = small ? e.type >> 16 : dlr_load(p->bytes + p->next + 4, 4, p->big);
    e.type &= 0xffff, e.at = p->next + (small ? 4 : TAG);
    size_t all = small ? TAG : TAG + (e.bytes + 7) / 8 * 8;
    p->cut = (small && e.bytes > 4) || (whole && (all > p->n - p->next));
    p->next = p->cut ? p->n : p->next + (all < p->n - p->next ? all : p->n - p->next);
    return e;
}

static dlr_element element_of(uint64_t type) {
    static const dlr_element types[] = {
        DLR_EL_NONE, DLR_EL_I8,   DLR_EL_U8,  DLR_EL_I16,  DLR_EL_U16,  DLR_EL_I32, DLR_EL_U32,
        DLR_EL_F32,  DLR_EL_NONE, DLR_EL_F64, DLR_EL_NONE, DLR_EL_NONE, DLR_EL_I64, DLR_EL_U64};
    return type < sizeof types / sizeof *types ? types[type] : DLR_EL_NONE;
}

/* Classes that are no numbers; NULL: the class is one of numbers. */
static const char *class_of(unsigned kind, dlr_odd *odd) {
    static const struct {
        const char *name;
        dlr_odd odd;
    } rows[] = {[1] = {"cells", DLR_ODD_CELLS},
                [2] = {"records", DLR_ODD_STRUCTS},
                [3] = {"objects", DLR_ODD_OTHER},
                [4] = {"text", DLR_ODD_TEXT},
                [5] = {"a sparse matrix", DLR_ODD_SPARSE},
                [16] = {"functions", DLR_ODD_OTHER},
                [17] = {"objects", DLR_ODD_OTHER}};
    if (kind >= sizeof rows / sizeof *rows) return "objects";
    *odd = rows[kind].odd;
    return rows[kind].name;
}

/* Takes an array from the begin of its element. *begin is where its numbers lie in it. */
static bool take_array(dl_arena *arena, prefix *p, dlr_array_facts *a, size_t *begin) {
    element flags = take_element(p, true), dims = take_element(p, true),
            name = take_element(p, true);
    if (p->cut || flags.bytes < 8 || dims.bytes % 4 || dims.bytes < 8) return false;
    const uint64_t about = dlr_load(p->bytes + flags.at, 4, p->big);
    const unsigned kind = about & 0xff;
    a->name = dl_strndup(arena, (const char *)p->bytes + name.at, name.bytes);
    a->packing = "none", a->stored = class_of(kind, &a->odd), a->rank = (int)(dims.bytes / 4);
    a->type = DLR_EL_NONE;
    bool empty = false;
    for (int i = 0; i < a->rank && i < DLR_ARRAY_RANK; i++) {
        a->dims[i] = dlr_load_signed(p->bytes + dims.at + 4 * i, 4, p->big);
        if (a->dims[i] < 0) return false;
        empty |= a->dims[i] == 0;
    }
    if (a->stored) return true;
    if (about & 0x800) {
        a->stored = "complex numbers", a->odd = DLR_ODD_COMPLEX;
        return true;
    }
    element data = take_element(p, false);
    if (p->cut) return false;
    a->type = element_of(data.type), *begin = data.at;
    a->stored =
        dlr_array_stored(arena, a->type, dlr_is_swapped(p->big, dlr_element_bytes(a->type)));
    if (empty) a->refused = "is empty: an axis of it has no elements";
    return a->type != DLR_EL_NONE &&
           (empty || a->rank > DLR_ARRAY_RANK || dlr_array_stored_bytes(a) == (int64_t)data.bytes);
}

typedef struct {
    dlr_array_file *f;
    int fd;
    int64_t size;
    bool big;
    DL_ARRAY(dlr_array_facts) facts;
    DL_ARRAY(matlab_state) states;
} reading;

static bool bad_element(const reading *r, int64_t at, dl_error *err) {
    return dl_fail(err, DL_INPUT, "%s is damaged: its element at byte %lld", r->f->path,
                   (long long)at);
}

/* Adds the array of an element whose data are `bytes` from `at` on. */
static bool add_array(reading *r, int64_t at, int64_t bytes, bool packed, dl_error *err) {
    matlab_state m = {.run.fortran = true};
    dlr_array_facts a = {0};
    prefix p = {.big = r->big};
    size_t begin = 0;
    if (packed) {
        m.packed = (dlr_packed){.at = at, .bytes = bytes};
        if (!dlr_inflate(r->fd, r->f->path, &m.packed, false, p.bytes, PREFIX, &p.n, err))
            return false;
        if (p.n < TAG || dlr_load(p.bytes, 4, r->big) != MATRIX) return bad_element(r, at, err);
        p.next = TAG;
    } else {
        p.n = bytes < PREFIX ? (size_t)bytes : PREFIX;
        if (!dl_read_at(r->fd, r->f->path, p.bytes, p.n, at, err)) return false;
    }
    if (!take_array(r->f->arena, &p, &a, &begin)) return bad_element(r, at, err);
    m.run.offset = at + (int64_t)begin, m.packed.skip = (int64_t)begin;
    m.run.swapped = dlr_is_swapped(r->big, dlr_element_bytes(a.type));
    if (packed) a.packing = "zlib";
    if (!packed && a.type != DLR_EL_NONE)
        dlr_array_must_end(r->f->arena, &a, m.run.offset, at + bytes);
    if (a.name[0]) { /* those without are MATLAB's own */
        dl_push(r->f->arena, &r->facts, a);
        dl_push(r->f->arena, &r->states, m);
    }
    return true;
}

static bool list_elements(reading *r, dl_error *err) {
    unsigned char tag[TAG];
    char order[2];
    if (!dl_read_at(r->fd, r->f->path, order, sizeof order, HEADER - 2, err)) return false;
    r->big = order[0] == 'M';
    for (int64_t at = HEADER; r->size - at >= TAG && r->facts.n < MOST;) {
        if (!dl_read_at(r->fd, r->f->path, tag, TAG, at, err)) return false;
        const uint64_t type = dlr_load(tag, 4, r->big);
        const int64_t bytes = (int64_t)dlr_load(tag + 4, 4, r->big);
        if ((type != MATRIX && type != COMPRESSED) || bytes > r->size - at - TAG)
            return bad_element(r, at, err);
        if (!add_array(r, at + TAG, bytes, type == COMPRESSED, err)) return false;
        at += TAG + bytes;
    }
    return true;
}

static bool list_matlab(dlr_array_file *f, dl_error *err) {
    struct stat st;
    reading r = {.f = f, .fd = dl_input_open(f->path, err)};
    if (r.fd < 0) return false;
    bool ok = dl_fstat(r.fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", f->path);
    r.size = ok ? st.st_size : 0;
    ok = ok && list_elements(&r, err);
    close(r.fd);
    f->arrays = r.facts.at, f->n = r.facts.n, f->state = r.states.at;
    return ok;
}

static bool open_matlab(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                        size_t cache, dl_error *err) {
    const matlab_state *m = (const matlab_state *)f->state + (a - f->arrays);
    return m->packed.bytes ? dlr_inflated_open(s, f->path, &m->packed, &m->run, cache, err)
                           : dlr_run_open(s, f->path, &m->run, err);
}

const dlr_array_format dlr_matlab_format = {.name = "MATLAB",
                                            .modules = "scipy.io",
                                            .load = "scipy.io.loadmat('IN')%s",
                                            .owns = owns_matlab,
                                            .list = list_matlab,
                                            .open = open_matlab};

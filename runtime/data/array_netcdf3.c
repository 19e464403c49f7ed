/* NetCDF-3 files: classic (CDF-1), with 64-bit offsets (CDF-2) and with 64-bit data (CDF-5), by the
 * NetCDF Users Guide's "File Format Specifications". The header lists dimensions, attributes and
 * variables; numbers are big-endian. Variables along the unlimited dimension lie record by
 * record. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/byte_order.h"
#include "runtime/data/packing.h"

enum {
    FIRST_HEADER = 1 << 16,
    MOST_HEADER = 64 << 20,
    DIMENSIONS = 10,
    VARIABLES = 11,
    ATTRIBUTES = 12,
    CHAR = 2
};

/* The header, read from its begin. `cut`: it ended too early; later numbers are 0. */
typedef struct {
    const unsigned char *at;
    size_t n, next;
    int version; /* 1, 2 or 5 */
    bool cut, damaged;
    dl_arena *arena;
} header;

typedef struct {
    const char *name;
    int64_t size; /* 0: the unlimited dimension */
} dimension;

/* ---- parts of the header ---- */

static uint64_t take_number(header *h, int bytes) {
    uint64_t v = 0;
    if (h->n - h->next < (size_t)bytes) {
        h->cut = true, h->next = h->n;
        return 0;
    }
    for (int i = 0; i < bytes; i++) v = v << 8 | h->at[h->next++];
    return v;
}

/* A count or a size: 4 bytes, 8 of CDF-5; none is negative. */
static int64_t take_size(header *h) {
    uint64_t v = take_number(h, h->version == 5 ? 8 : 4);
    h->damaged |= v > INT64_MAX || (h->version != 5 && v > INT32_MAX);
    return h->damaged ? 0 : (int64_t)v;
}

/* The number of elements of a list, each of which has at least 8 bytes: no more than the header
 * holds. A list that is absent has the tag 0. */
static int64_t take_list(header *h, uint64_t tag) {
    uint64_t found = take_number(h, 4);
    int64_t n = take_size(h);
    h->damaged |= found != tag && (found != 0 || n != 0);
    h->cut |= n > (int64_t)(h->n - h->next) / 8;
    return h->damaged || h->cut ? 0 : n;
}

/* The number of axes of a variable, whose dimensions follow. */
static int64_t take_rank(header *h) {
    int64_t n = take_size(h);
    h->cut |= n > (int64_t)(h->n - h->next) / 4;
    return h->damaged || h->cut ? 0 : n;
}

/* So many bytes and their padding to 4. */
static const unsigned char *take_bytes(header *h, int64_t n) {
    int64_t all = n > INT64_MAX - 3 ? n : (n + 3) & ~3LL;
    if (n < 0 || all > (int64_t)(h->n - h->next)) {
        h->cut = true, h->next = h->n;
        return NULL;
    }
    h->next += (size_t)all;
    return h->at + h->next - all;
}

static const char *take_name(header *h) {
    int64_t n = take_size(h);
    const unsigned char *at = take_bytes(h, n);
    if (!at) return "";
    const char *name = dl_strndup(h->arena, (const char *)at, (size_t)n);
    h->damaged |= strlen(name) != (size_t)n || n == 0;
    return name;
}

static dlr_element element_of(uint64_t type) {
    static const dlr_element types[] = {DLR_EL_NONE, DLR_EL_I8,  DLR_EL_NONE, DLR_EL_I16,
                                        DLR_EL_I32,  DLR_EL_F32, DLR_EL_F64,  DLR_EL_U8,
                                        DLR_EL_U16,  DLR_EL_U32, DLR_EL_I64,  DLR_EL_U64};
    return type < sizeof types / sizeof *types ? types[type] : DLR_EL_NONE;
}

static bool is_type(const header *h, uint64_t type) {
    return type >= 1 && type <= (h->version == 5 ? 11 : 6);
}

/* A big-endian number of an attribute. */
static dlr_number number_at(const unsigned char *at, dlr_element type) {
    const size_t bytes = dlr_element_bytes(type);
    if (dlr_element_is_float(type))
        return (dlr_number){.kind = 'f', .f = dlr_load_float(at, bytes, true)};
    if (type == DLR_EL_U8 || type == DLR_EL_U16 || type == DLR_EL_U32 || type == DLR_EL_U64)
        return (dlr_number){.kind = 'u', .u = dlr_load(at, bytes, true)};
    return (dlr_number){.kind = 'i', .i = dlr_load_signed(at, bytes, true)};
}

static dlr_attribute take_attribute(header *h) {
    dlr_attribute a = {.name = take_name(h), .text = "", .number = NAN};
    uint64_t type = take_number(h, 4);
    int64_t n = take_size(h);
    const dlr_element element = element_of(type);
    const int64_t bytes = type == CHAR ? 1 : (int64_t)dlr_element_bytes(element);
    h->damaged |= !is_type(h, type) || n > INT32_MAX;
    const unsigned char *at = h->damaged ? NULL : take_bytes(h, n * bytes);
    if (!at) return a;
    if (type == CHAR) {
        a.text = dl_strndup(h->arena, (const char *)at, (size_t)n);
        return a;
    }
    a.unread = n > DLR_MISSING;
    a.n = a.unread ? 0 : (int)n;
    dlr_number *numbers = DL_NEWS(h->arena, dlr_number, a.n + 1);
    for (int i = 0; i < a.n; i++) numbers[i] = number_at(at + i * bytes, element);
    a.numbers = numbers;
    if (n > 0) {
        dlr_number first = number_at(at, element);
        dl_buf text = {0};
        a.number = dlr_number_double(&first);
        dl_put_double(&text, a.number);
        a.text = dl_strdup(h->arena, text.at);
        dl_buf_free(&text);
    }
    return a;
}

static const dlr_attribute *take_attributes(header *h, int *n) {
    int64_t count = take_list(h, ATTRIBUTES);
    dlr_attribute *all = DL_NEWS(h->arena, dlr_attribute, count + 1);
    *n = 0;
    for (int64_t i = 0; i < count && !h->cut && !h->damaged; i++) all[(*n)++] = take_attribute(h);
    return all;
}

/* ---- variables ---- */

/* A variable as it lies in the file. */
typedef struct {
    dlr_run run;
    bool records;  /* it has the unlimited dimension, as its first */
    int64_t bytes; /* of a record, or of all of it; -1: more than can be counted */
} placed;

/* Takes the dimensions of a variable: its sizes, and the bytes of a record or of all of it. */
static void take_shape(header *h, const dimension *dims, int64_t n_dims, dlr_array_facts *a,
                       placed *p) {
    int64_t rank = take_rank(h);
    p->bytes = 1;
    for (int64_t j = 0; j < rank && !h->cut && !h->damaged; j++) {
        int64_t id = take_size(h);
        if (id >= n_dims || (dims[id].size == 0 && j > 0)) {
            h->damaged = true;
            return;
        }
        if (j == 0) p->records = dims[id].size == 0;
        if (j < DLR_ARRAY_RANK) a->dims[j] = dims[id].size, a->axis[j] = dims[id].name;
        if (dims[id].size && __builtin_mul_overflow(p->bytes, dims[id].size, &p->bytes))
            p->bytes = -1, h->damaged = true;
    }
    a->rank = (int)rank;
}

static void take_variable(header *h, const dimension *dims, int64_t n_dims, dlr_array_facts *a,
                          placed *p) {
    static const char *const names[] = {"",       "i8", "char",   "i16 BE", "i32 BE", "f32 BE",
                                        "f64 BE", "u8", "u16 BE", "u32 BE", "i64 BE", "u64 BE"};
    *a = (dlr_array_facts){.name = take_name(h), .packing = "none", .stored = ""};
    *p = (placed){0};
    take_shape(h, dims, n_dims, a, p);
    a->attributes = take_attributes(h, &a->attribute_count);
    uint64_t type = take_number(h, 4);
    take_number(h, h->version == 5 ? 8 : 4); /* its bytes, of which the shape says more */
    uint64_t begin = take_number(h, h->version == 1 ? 4 : 8);
    h->damaged |= !is_type(h, type) || begin > INT64_MAX;
    if (h->damaged || h->cut || type >= sizeof names / sizeof *names) return;
    a->type = element_of(type), a->stored = names[type], a->default_fills = true;
    a->odd = DLR_ODD_TEXT;
    int64_t each = type == CHAR ? 1 : (int64_t)dlr_element_bytes(a->type);
    h->damaged |= __builtin_mul_overflow(p->bytes, each, &p->bytes);
    p->run.offset = (int64_t)begin;
    p->run.swapped = each > 1 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

/* Bytes from a record to the next: each variable's padded to 4, but not where there is only one. */
static bool measure_record(const placed *at, int64_t n, int64_t *record) {
    int64_t alone = -1, count = 0;
    *record = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!at[i].records) continue;
        alone = i, count++;
        if (at[i].bytes > INT64_MAX - 3 ||
            __builtin_add_overflow(*record, (at[i].bytes + 3) & ~3LL, record))
            return false;
    }
    if (count == 1) *record = at[alone].bytes;
    return true;
}

/* The number of records where a writer did not count them: as many as the file holds. */
static int64_t count_records(const placed *at, int64_t n, int64_t record, int64_t size) {
    int64_t first = INT64_MAX;
    for (int64_t i = 0; i < n; i++)
        if (at[i].records && at[i].run.offset < first) first = at[i].run.offset;
    return record > 0 && first < size ? (size - first) / record : 0;
}

/* Sets the records of a variable, and refuses it where it has no numbers, or the file ends before
 * them. */
static void finish(header *h, dlr_array_facts *a, placed *p, int64_t records, int64_t record,
                   int64_t size) {
    int64_t last = 0;
    bool empty = p->records && records == 0;
    if (p->records) a->dims[0] = records, p->run.record = record;
    if (empty) a->refused = "is empty: no record was written";
    if (empty || a->rank > DLR_ARRAY_RANK) return;
    bool far = p->records && __builtin_mul_overflow(records - 1, record, &last);
    far |= __builtin_add_overflow(last, p->bytes, &last) ||
           __builtin_add_overflow(last, p->run.offset, &last);
    if (far || last > size)
        a->refused =
            dl_format(h->arena, "is not whole: its numbers end at byte %lld, and the file has %lld",
                      far ? -1LL : (long long)last, (long long)size);
}

/* ---- the file ---- */

/* Reads at most `most` bytes of the file's begin. */
static bool read_header(const dlr_array_file *f, header *h, int64_t most, int64_t *size,
                        dl_error *err) {
    struct stat st;
    int fd = dl_input_open(f->path, err);
    if (fd < 0) return false;
    bool ok = dl_fstat(fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", f->path);
    *size = ok ? st.st_size : 0;
    h->n = (size_t)(*size < most ? *size : most);
    unsigned char *at = ok ? malloc(h->n + 1) : NULL;
    if (ok && !at) ok = dl_fail(err, DL_RESOURCE, "no memory to read %s", f->path);
    size_t got = 0;
    while (ok && got < h->n) {
        ssize_t n = pread(fd, at + got, h->n - got, (off_t)got);
        dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = n > 0 ? n : 0});
        if (n < 0) ok = dl_fail_errno(err, DL_IO, "cannot read %s", f->path);
        if (n <= 0) break;
        got += (size_t)n;
    }
    close(fd);
    h->at = at, h->n = got;
    return ok;
}

static bool list_header(dlr_array_file *f, header *h, int64_t size, dl_error *err) {
    h->next = 4;
    if (h->n < 4) return dl_fail(err, DL_INPUT, "%s ends within its header", f->path);
    h->version = h->at[3];
    uint64_t counted = take_number(h, h->version == 5 ? 8 : 4);
    bool streamed = counted == (h->version == 5 ? UINT64_MAX : UINT32_MAX);
    int64_t n_dims = take_list(h, DIMENSIONS);
    dimension *dims = DL_NEWS(h->arena, dimension, n_dims + 1);
    for (int64_t i = 0; i < n_dims && !h->cut && !h->damaged; i++)
        dims[i].name = take_name(h), dims[i].size = take_size(h);
    int ignored;
    take_attributes(h, &ignored); /* of the file */
    int64_t n = take_list(h, VARIABLES), record;
    dlr_array_facts *arrays = DL_NEWS(h->arena, dlr_array_facts, n + 1);
    placed *at = DL_NEWS(h->arena, placed, n + 1);
    for (int64_t i = 0; i < n && !h->cut && !h->damaged; i++)
        take_variable(h, dims, n_dims, &arrays[i], &at[i]);
    if (!h->cut &&
        (h->damaged || (!streamed && counted > INT64_MAX) || !measure_record(at, n, &record)))
        return dl_fail(err, DL_INPUT, "%s is damaged: its NetCDF-3 header is none at byte %zu",
                       f->path, h->next);
    if (h->cut)
        return dl_fail(err, DL_INPUT, "%s %s within its header", f->path,
                       size > MOST_HEADER ? "has more than 64 MiB" : "ends");
    int64_t records = streamed ? count_records(at, n, record, size) : (int64_t)counted;
    for (int64_t i = 0; i < n; i++) finish(h, &arrays[i], &at[i], records, record, size);
    f->arrays = arrays, f->n = (int)n, f->state = at;
    return true;
}

static bool list_netcdf3(dlr_array_file *f, dl_error *err) {
    int64_t size = 0, most = FIRST_HEADER;
    for (;; most *= 4) { /* a long header is read again, in a larger piece */
        header h = {.arena = f->arena};
        dl_error reason = {0};
        bool ok = read_header(f, &h, most, &size, &reason) && list_header(f, &h, size, &reason);
        free((void *)h.at);
        if (ok) return true;
        if (h.cut && most < size && most < MOST_HEADER) continue;
        *err = reason;
        return false;
    }
}

static bool open_netcdf3(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                         size_t cache, dl_error *err) {
    (void)cache;
    const placed *all = f->state;
    return dlr_run_open(s, f->path, &all[a - f->arrays].run, err);
}

static bool owns_netcdf3(const dlr_array_head *h) { return dlr_is_netcdf3(h->bytes); }

bool dlr_is_netcdf3(const char head[4]) {
    return memcmp(head, "CDF", 3) == 0 && (head[3] == 1 || head[3] == 2 || head[3] == 5);
}

const dlr_array_format dlr_netcdf3_format = {
    .name = "NetCDF-3",
    .modules = "netCDF4",
    .load = "netCDF4.chartostring(netCDF4.Dataset('IN')%s[:])", /* text alone is refused */
    .owns = owns_netcdf3,
    .list = list_netcdf3,
    .open = open_netcdf3};

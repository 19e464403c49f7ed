#include "runtime/data/array_file.h"

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/foreign_formats.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- the contents of a file ---- */

static ssize_t read_head(int fd, void *head, size_t n, off_t at) {
    ssize_t got = pread(fd, head, n, at);
    dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = got > 0 ? got : 0});
    return got;
}

/* HDF5's signature is at the file's begin, or after a user block of 512 bytes times a power of
 * two. */
static bool has_hdf5(int fd, const char *head, ssize_t n) {
    static const char hdf5[8] = "\x89HDF\r\n\x1a\n";
    char there[sizeof hdf5];
    if (n >= (ssize_t)sizeof hdf5 && memcmp(head, hdf5, sizeof hdf5) == 0) return true;
    for (off_t at = 512; read_head(fd, there, sizeof there, at) == sizeof there; at *= 2)
        if (memcmp(there, hdf5, sizeof hdf5) == 0) return true;
    return false;
}

/* A zip file begins with an entry, or, when it is empty, with its end record. */
static bool is_zip(const char *head) {
    return memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0;
}

bool dlr_is_netcdf3(const char head[4]) {
    return memcmp(head, "CDF", 3) == 0 && (head[3] == 1 || head[3] == 2 || head[3] == 5);
}

/* Recognizes the format by the first bytes; the error names a known format that is not read.
 * libhdf5 decides on files of no known format. */
static const dlr_array_format *recognise(const char *path, dl_error *err) {
    char head[DLR_FOREIGN_HEAD] = {0};
    struct stat st;
    if (dl_stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return &dlr_zarr_format;
    int fd = dl_input_open(path, err);
    if (fd < 0) return NULL;
    ssize_t n = read_head(fd, head, sizeof head, 0);
    const dlr_array_format *format = memcmp(head, "\x93NUMPY", 6) == 0 ? &dlr_npy_format
                                     : is_zip(head)                    ? &dlr_npz_format
                                     : dlr_is_netcdf3(head)            ? &dlr_netcdf3_format
                                                                       : &dlr_hdf5_format;
    /* an HDF5 file's user block may begin so */
    if (format == &dlr_netcdf3_format && has_hdf5(fd, head, n)) format = &dlr_hdf5_format;
    bool ok = n >= 0 || dl_fail_errno(err, DL_IO, "cannot read %s", path);
    if (ok && format == &dlr_hdf5_format && !has_hdf5(fd, head, n))
        ok = dlr_refuse_foreign(path, head, (size_t)n, DLR_FOREIGN_BYTES, err) &&
             (n == 0 || dlr_refuse_foreign(path, head, (size_t)n, DLR_FOREIGN_NAME, err));
    close(fd);
    return ok ? format : NULL;
}

dlr_array_file *dlr_array_file_open(const char *path, dl_error *err) {
    const dlr_array_format *format = recognise(path, err);
    if (!format) return NULL;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_array_file *f = DL_NEW(arena, dlr_array_file);
    *f = (dlr_array_file){.path = dl_strdup(arena, path), .format = format, .arena = arena};
    if (format->list(f, err)) return f;
    dlr_array_file_close(f);
    return NULL;
}

void dlr_array_file_close(dlr_array_file *f) {
    if (f) dl_arena_free(f->arena);
}

const char *dlr_array_file_format(const dlr_array_file *f) { return f->format->name; }

const dlr_array_facts *dlr_array_file_find(const dlr_array_file *f, const char *name) {
    if (!name || !name[0]) return f->n == 1 && !f->more ? f->arrays : NULL;
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->arrays[i].name, name) == 0) return &f->arrays[i];
    return NULL;
}

void dlr_array_file_put(dl_buf *out, const dlr_array_file *f, int most) {
    if (f->n == 0) dl_puts(out, "no array");
    for (int i = 0; i < f->n && i < most; i++) {
        dl_putf(out, "%s%s%s", i ? ", " : "", f->arrays[i].name, f->arrays[i].name[0] ? " " : "");
        dlr_array_put_shape(out, &f->arrays[i]);
    }
    if (f->more || f->n > most) dl_puts(out, ", ...");
}

/* ---- opening an array ---- */

dlr_source *dlr_source_open(const dlr_array_file *f, const dlr_array_facts *a, size_t cache,
                            dl_error *err) {
    dl_buf label = {0};
    dlr_source *s = calloc(1, sizeof *s);
    if (!s) return dl_fail(err, DL_RESOURCE, "no memory to open %s", f->path), NULL;
    if (a->name[0])
        dl_putf(&label, "%s: '%s'", f->path, a->name);
    else
        dl_puts(&label, f->path);
    s->label = label.at, s->type = a->type, s->mapped = f->mapped;
    s->rank = a->rank < DLR_ARRAY_RANK ? a->rank : DLR_ARRAY_RANK;
    memcpy(s->dims, a->dims, sizeof s->dims);
    bool ok = true;
    int64_t bytes = (int64_t)dlr_element_bytes(a->type);
    for (int i = 0; i < s->rank; i++)
        if (a->dims[i] < 0 || __builtin_mul_overflow(bytes, a->dims[i] ? a->dims[i] : 1, &bytes))
            ok = false;
    if (!ok)
        dl_fail(err, DL_INPUT, "%s has more numbers than can be counted: the file is damaged",
                s->label);
    else if (a->refused)
        ok = dl_fail(err, DL_INPUT, "%s %s", s->label, a->refused);
    else if (a->rank > DLR_ARRAY_RANK)
        ok = dl_fail(err, DL_INPUT, "%s has %d axes; %d can be read", s->label, a->rank,
                     DLR_ARRAY_RANK);
    else if (a->type == DLR_EL_NONE)
        ok = dl_fail(err, DL_INPUT, "%s holds %s, not numbers that can be read", s->label,
                     a->stored);
    if (ok && f->format->open(s, f, a, cache, err)) return s;
    dlr_source_close(s);
    return NULL;
}

void dlr_source_close(dlr_source *s) {
    if (!s) return;
    if (s->close) s->close(s);
    free(s->label);
    free(s);
}

int dlr_source_rank(const dlr_source *s) { return s->rank; }
const int64_t *dlr_source_dims(const dlr_source *s) { return s->dims; }
dlr_element dlr_source_type(const dlr_source *s) { return s->type; }
const char *dlr_source_label(const dlr_source *s) { return s->label; }
int64_t dlr_source_held(const dlr_source *s) { return s->held; }
bool dlr_source_chunked(const dlr_source *s) { return s->chunked; }
bool dlr_source_is_on_paper(const dlr_source *s) { return s->on_paper; }

void dlr_source_put_on_paper(dlr_source *s, bool on) {
    s->on_paper = on;
    if (s->forget) s->forget(s);
}

bool dlr_source_read(const dlr_source *s, const dlr_block *block, dlr_element to, void *out,
                     dl_error *err) {
    dlr_block b = *block;
    bool empty = false;
    DL_CHECK(to < DLR_NELEMENTS && to != DLR_EL_F16);
    for (int i = 0; i < s->rank; i++) {
        if (b.stride[i] < 1 || b.count[i] == 1) b.stride[i] = 1;
        DL_CHECK(b.start[i] >= 0 && b.count[i] >= 0 && b.start[i] <= s->dims[i]);
        DL_CHECK(b.count[i] == 0 ||
                 (s->dims[i] > b.start[i] &&
                  b.count[i] - 1 <= (s->dims[i] - 1 - b.start[i]) / b.stride[i]));
        empty = empty || b.count[i] == 0;
    }
    return empty || s->read(s, &b, to, out, err);
}

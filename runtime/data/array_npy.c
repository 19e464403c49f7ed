/* NumPy's .npy: a header followed by one array. */
#include "runtime/data/array_npy.h"
#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "ir/base/npy.h"
#include "runtime/data/array_format.h"

#include <stdlib.h>
#include <unistd.h>

dlr_element dlr_npy_element(const char *code, bool *swapped) {
    char *end;
    unsigned long bytes = code[0] && code[1] ? strtoul(code + 2, &end, 10) : 0;
    *swapped = false;
    if (bytes < 1 || bytes > 8 || *end || !strchr("<>|=", code[0])) return DLR_EL_NONE;
    const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    *swapped = bytes > 1 && code[0] == (little ? '>' : '<');
    return dlr_element_of(code[1], bytes);
}

dlr_odd dlr_npy_odd(const char *code) {
    if (!strchr("<>|=", code[0])) return DLR_ODD_RECORDS; /* the words for a list of fields */
    switch (code[1]) {
    case 'c': return DLR_ODD_COMPLEX;
    case 'U':
    case 'S': return DLR_ODD_TEXT;
    case 'M':
    case 'm': return DLR_ODD_TIMES;
    case 'f': return DLR_ODD_WIDE;
    case 'O': return DLR_ODD_OBJECTS;
    default: return DLR_ODD_OTHER;
    }
}

bool dlr_npy_facts(dl_arena *arena, const dl_npy *header, uint64_t bytes, const char *path,
                   dlr_array_facts *a, dlr_run *run, dl_error *err) {
    a->name = "", a->packing = "none", a->rank = header->rank;
    a->type = dlr_npy_element(header->code, &run->swapped);
    a->odd = dlr_npy_odd(header->code);
    a->stored = a->type == DLR_EL_NONE ? dl_format(arena, "'%s'", header->code)
                : run->swapped         ? dl_format(arena, "%s BE", dlr_element_name(a->type))
                                       : dlr_element_name(a->type);
    for (int i = 0; i < header->rank; i++) a->dims[i] = (int64_t)header->dims[i];
    run->offset = (int64_t)header->offset, run->fortran = header->fortran;
    uint64_t end =
        header->offset + header->count * dlr_element_bytes(a->type); /* count is 2^47 at most */
    return end <= bytes ||
           dl_fail(err, DL_INPUT,
                   "%s is truncated: its header promises %llu bytes, and it has %llu", path,
                   (unsigned long long)end, (unsigned long long)bytes);
}

static bool list_npy(dlr_array_file *f, dl_error *err) {
    struct stat st;
    dl_npy header;
    dlr_array_facts *a = DL_NEW(f->arena, dlr_array_facts);
    dlr_run *run = DL_NEW(f->arena, dlr_run);
    int fd = dl_input_open(f->path, err);
    if (fd < 0) return false;
    bool ok = dl_fstat(fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", f->path);
    ok = ok && dl_npy_header(fd, f->path, (uint64_t)st.st_size, &header, err) &&
         dlr_npy_facts(f->arena, &header, (uint64_t)st.st_size, f->path, a, run, err);
    close(fd);
    f->arrays = a, f->n = 1, f->state = run;
    return ok;
}

static bool open_npy(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a, size_t cache,
                     dl_error *err) {
    (void)a, (void)cache;
    return dlr_run_open(s, f->path, f->state, err);
}

static bool owns_npy(const dlr_array_head *h) { return memcmp(h->bytes, "\x93NUMPY", 6) == 0; }

const dlr_array_format dlr_npy_format = {.name = "NumPy array",
                                         .modules = "",
                                         .load = "numpy.load('IN', allow_pickle=True)",
                                         .owns = owns_npy,
                                         .list = list_npy,
                                         .open = open_npy};

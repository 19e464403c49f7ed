#include "runtime/data/hdf5_facts.h"

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "ir/base/sandbox.h"
#include "runtime/data/byte_order.h"
#include "runtime/data/hdf5_contents.h"

#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CPU_SECONDS = 5 };

void dlr_hdf5_put_file(dl_buf *out, const char *main, const dlr_hdf5_set *set) {
    const char *slash = strrchr(main, '/');
    if (set->file[0])
        dl_putf(out, "%.*s%s", slash ? (int)(slash - main) + 1 : 0, main, set->file);
    else
        dl_puts(out, main);
}

/* Whether a contiguous set's numbers lie within the file. */
static bool check_extent(const dlr_hdf5_set *set, const char *path, int64_t size, dl_error *err) {
    int64_t bytes = (int64_t)dlr_element_bytes(set->element);
    for (int k = 0; k < set->rank; k++)
        if (set->dims[k] < 0 || __builtin_mul_overflow(bytes, set->dims[k], &bytes))
            bytes = INT64_MAX;
    if (set->offset <= 0 || set->offset > size || bytes > size - set->offset)
        return dl_fail(err, DL_INPUT, "%s is damaged: '%s' reaches beyond the file's %lld bytes",
                       path, set->path, (long long)size);
    if (set->stored < (uint64_t)bytes)
        return dl_fail(err, DL_INPUT,
                       "%s is damaged: '%s' has %llu bytes, which are fewer than its numbers take",
                       path, set->path, (unsigned long long)set->stored);
    return true;
}

bool dlr_hdf5_check_set(dlr_hdf5_set *set, const char *main, int64_t main_bytes, dl_error *err) {
    char in[DLR_HDF5_FILE], why[DLR_HDF5_WHY];
    for (int k = 0; k < DLR_ARRAY_RANK; k++) set->axis[k][sizeof set->axis[k] - 1] = 0;
    set->name[DLR_HDF5_NAME - 1] = set->path[DLR_HDF5_NAME - 1] = set->file[DLR_HDF5_FILE - 1] = 0;
    set->type[sizeof set->type - 1] = set->why[DLR_HDF5_WHY - 1] = 0;
    dlr_check_bool(&set->plain), dlr_check_bool(&set->swapped), dlr_check_bool(&set->has_fill);
    dlr_check_bool(&set->cut_attributes), dlr_check_bool(&set->odd_edges);
    if (set->rank < 0) set->rank = 0;
    if (set->filter_count < 0) set->filter_count = 0;
    if (set->element < 0 || set->element > DLR_EL_NONE) set->element = DLR_EL_NONE;
    if (set->odd < 0 || set->odd >= DLR_NODD) set->odd = DLR_ODD_OTHER;
    if (set->file[0] && !dlr_hdf5_near("", set->file, in, why, sizeof why))
        return dl_fail(err, DL_INPUT, "%s: the file '%s' %s", main, set->file, why);
    if (set->layout != DLR_HDF5_CONTIGUOUS || !set->plain || set->rank > DLR_ARRAY_RANK)
        return true;
    if (!set->file[0]) return check_extent(set, main, main_bytes, err);
    struct stat st;
    dl_buf path = {0};
    dlr_hdf5_put_file(&path, main, set);
    bool ok = dl_stat(path.at, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", path.at);
    ok = ok && check_extent(set, path.at, st.st_size, err);
    dl_buf_free(&path);
    return ok;
}

/* Takes so many elements from the child's bytes; NULL: they are not all there. */
static void *take(dl_arena *arena, dl_buf *from, size_t *at, int n, size_t each) {
    const size_t bytes = (size_t)n * each;
    if (bytes > from->n - *at) return NULL;
    void *kept = dl_alloc(arena, bytes + 1);
    if (bytes) memcpy(kept, from->at + *at, bytes);
    *at += bytes;
    return kept;
}

/* Takes what dlr_hdf5_read_contents wrote; false: it is something else. */
static bool take_facts(dl_arena *arena, dl_buf *from, dlr_hdf5_facts *f) {
    size_t at = sizeof *f;
    if (from->n < sizeof *f) return false;
    memcpy(f, from->at, sizeof *f);
    if (f->n < 0 || f->n > DLR_HDF5_SETS || f->attributes < 0 ||
        f->attributes > DLR_HDF5_ATTRIBUTES || f->numbers < 0 || f->numbers > DLR_HDF5_NUMBERS)
        return false;
    f->number = take(arena, from, &at, f->numbers, sizeof *f->number);
    f->attribute = take(arena, from, &at, f->attributes, sizeof *f->attribute);
    f->set = take(arena, from, &at, f->n, sizeof *f->set);
    return f->number && f->attribute && f->set && at == from->n;
}

static bool check_facts(dlr_hdf5_facts *facts, const char *path, int64_t bytes, dl_error *err) {
    dlr_check_bool(&facts->more), dlr_check_bool(&facts->netcdf);
    for (int i = 0; i < facts->attributes; i++) {
        dlr_hdf5_attribute *a = &facts->attribute[i];
        dlr_check_bool(&a->is_text), dlr_check_bool(&a->unread);
        a->name[sizeof a->name - 1] = a->text[sizeof a->text - 1] = 0;
        if (a->count < 0 || a->first < 0 || a->first > facts->numbers - a->count)
            a->first = a->count = 0;
    }
    for (int i = 0; i < facts->n; i++)
        if (!dlr_hdf5_check_set(&facts->set[i], path, bytes, err)) return false;
    return true;
}

dlr_hdf5_facts *dlr_hdf5_inspect(dl_arena *arena, const char *path, dl_error *err) {
    struct stat st;
    int fd = dl_input_open(path, err);
    if (fd < 0) return NULL;
    bool known = dl_fstat(fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", path);
    close(fd);
    /* the socket's ends, the null device, and the files that libhdf5 opens at once */
    enum { CHILD_FILES = 7 };
    if (!known || !dl_check_descriptors(CHILD_FILES, path, err)) return NULL;
    dl_sandbox_result r;
    if (!dl_sandbox_run(path, CPU_SECONDS, dlr_hdf5_read_contents, (char *)(uintptr_t)path, &r,
                        err))
        return NULL;
    dlr_hdf5_facts *facts = DL_NEW(arena, dlr_hdf5_facts);
    const bool ok =
        (take_facts(arena, &r.bytes, facts) || dl_fail(err, DL_INPUT, "%s is damaged", path)) &&
        check_facts(facts, path, st.st_size, err);
    dl_buf_free(&r.text);
    dl_buf_free(&r.bytes);
    return ok ? facts : NULL;
}

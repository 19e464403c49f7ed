/* The arrays of files by the readers of training. */
#include "dldata/array.h"
#include "runtime/data/array_file.h"

static bool read_block(const array *a, const uint64_t *start, const uint64_t *size, double *out,
                       dl_error *err) {
    dlr_block b = {0};
    for (int i = 0; i < a->rank; i++) b.start[i] = (int64_t)start[i], b.count[i] = (int64_t)size[i];
    return a->packing ? dlr_packing_read(a->packing, a->handle, &b, DLR_EL_F64, out, err)
                      : dlr_source_read(a->handle, &b, DLR_EL_F64, out, err);
}

void array_take_packing(dl_arena *arena, array *a, const dlr_array_facts *facts) {
    dlr_packing p;
    dl_buf warnings = {0};
    dl_error reason = {0};
    if (!dlr_packing_of(facts, &p, &warnings, &reason))
        a->unreadable = dl_strdup(arena, reason.message);
    else if (p.any) {
        dlr_packing *kept = DL_NEW(arena, dlr_packing);
        *kept = p;
        a->packing = kept;
    }
    if (warnings.n) a->warnings = dl_strdup(arena, warnings.at);
    dl_buf_free(&warnings);
}

static const char *storage_of(dl_arena *arena, const dlr_array_facts *facts) {
    dl_buf text = {0};
    dl_puts(&text, facts->chunked ? "chunks of [" : "contiguous");
    for (int i = 0; facts->chunked && i < facts->rank; i++)
        dl_putf(&text, "%s%lld", i ? ", " : "", (long long)facts->chunk[i]);
    if (facts->chunked) dl_puts(&text, "]");
    if (facts->packing && strcmp(facts->packing, "none") != 0)
        dl_putf(&text, ", %s", facts->packing);
    const char *s = dl_strdup(arena, text.at);
    dl_buf_free(&text);
    return s;
}

/* Lines about names of axes, and what the attributes say that are not of packing. */
static void describe_axes(dl_arena *arena, const dlr_array_facts *facts, array *a) {
    static const char *const said[] = {"long_name", "standard_name", "units", "calendar", "voxel"};
    dl_buf text = {0};
    bool named = false;
    for (int i = 0; i < facts->rank && i < DLR_ARRAY_RANK; i++) named |= facts->axis[i] != NULL;
    for (int i = 0; named && i < facts->rank && i < DLR_ARRAY_RANK; i++)
        dl_putf(&text, "%s%s", i ? ", " : "  axes: ", facts->axis[i] ? facts->axis[i] : "?");
    if (named) dl_puts(&text, "\n");
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        const dlr_attribute *found = dlr_array_attribute(facts, said[i]);
        if (!found || !found->text || found->n) continue;
        dl_putf(&text, "  %s: %s\n", found->name, found->text);
        if (strcmp(said[i], "units") == 0 && strstr(found->text, " since "))
            a->since = dl_strdup(arena, found->text);
    }
    for (int i = 0; i < facts->rank && i < ARRAY_MAX_RANK; i++)
        if (facts->axis[i]) a->axis[i] = dl_strdup(arena, facts->axis[i]);
    if (text.n) a->about = dl_strdup(arena, text.at);
    dl_buf_free(&text);
}

static bool add_array(dl_arena *arena, const dlr_array_file *file, const dlr_array_facts *facts,
                      array_file *f, dl_error *err) {
    enum { CHUNKS = 64 << 20 };
    array a = {.name = dl_strdup(arena, *facts->name ? facts->name : "array"),
               .type = dl_strdup(arena, facts->stored),
               .storage = storage_of(arena, facts),
               .rank = facts->rank < ARRAY_MAX_RANK ? facts->rank : ARRAY_MAX_RANK,
               .count = 1,
               .numeric = facts->type != DLR_EL_NONE,
               .f32 = facts->type == DLR_EL_F32,
               .read = read_block};
    for (int i = 0; i < a.rank; i++) a.dims[i] = (uint64_t)facts->dims[i], a.count *= a.dims[i];
    a.contiguous = !facts->chunked, describe_axes(arena, facts, &a);
    if (facts->refused) a.unreadable = dl_strdup(arena, facts->refused);
    if (!a.unreadable) array_take_packing(arena, &a, facts);
    if (a.numeric && !a.unreadable) {
        dlr_source *source = dlr_source_open(file, facts, CHUNKS, err);
        if (!source) return false;
        a.handle = source;
    }
    dl_push(arena, &f->arrays, a);
    return true;
}

bool source_open(dl_arena *arena, const char *path, array_file *f, dl_error *err) {
    dlr_array_file *file = dlr_array_file_open(path, err);
    if (!file) return false;
    f->format = dlr_array_file_format(file);
    bool ok = true;
    for (int i = 0; ok && i < file->n; i++) ok = add_array(arena, file, &file->arrays[i], f, err);
    dlr_array_file_close(file);
    if (ok && strcmp(f->format, "HDF5") == 0) ok = hdf5_take_attributes(arena, path, f, err);
    return ok;
}

void array_file_close(const array_file *f) {
    for (int i = 0; i < f->arrays.n; i++)
        if (f->arrays.at[i].read == read_block) dlr_source_close(f->arrays.at[i].handle);
}

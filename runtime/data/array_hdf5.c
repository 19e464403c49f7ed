/* HDF5 files (including NetCDF-4): which sets can be read, and by which reader. */
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/hdf5_facts.h"
#include "runtime/data/hdf5_filters.h"
#include "runtime/data/hdf5_virtual.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>

static bool is_empty(const dlr_hdf5_set *set) {
    for (int i = 0; i < set->rank && i < DLR_ARRAY_RANK; i++)
        if (set->dims[i] == 0) return true;
    return false;
}

/* Whether the set was never written, so that no data are read. */
static bool is_fill_alone(const dlr_hdf5_set *set) {
    return set->layout == DLR_HDF5_EMPTY && set->plain;
}

/* The reason as the end of a sentence, or NULL. */
static const char *refuse(dl_arena *arena, const dlr_hdf5_set *set) {
    if (set->why[0])
        return set->layout == DLR_HDF5_CLOSED && set->odd == DLR_ODD_NUMBERS
                   ? dlr_add_remedy(arena, &dlr_hdf5_format, set->name, set->odd, set->why)
                   : set->why;
    if (set->layout == DLR_HDF5_EMPTY && is_empty(set))
        return "is empty: an axis of it has no elements";
    if (set->layout == DLR_HDF5_EXTERNAL)
        return dl_format(
            arena, "keeps its data in other files (external storage), which is not followed. %s",
            dlr_convert_odd(arena, &dlr_hdf5_format, set->name, DLR_ODD_NUMBERS));
    if (set->cut_attributes)
        return "has attributes that were not read: the file has more than 65536 of them";
    int missing = is_fill_alone(set) ? -1 : dlr_hdf5_missing_filter(set);
    if (missing >= 0) return dlr_hdf5_refuse_filter(arena, set, missing);
    return NULL;
}

/* NetCDF stores its default fill value in HDF5's fill value, unless filling was switched off. */
static void put_facts(dl_arena *arena, const dlr_hdf5_set *set, bool netcdf, dlr_array_facts *a) {
    dl_buf packing = {0};
    for (int i = 0; i < set->filter_count && i < DLR_HDF5_FILTERS; i++)
        dl_putf(&packing, "%s%s", i ? ", " : "",
                dlr_hdf5_filter_name(set, i) ? dlr_hdf5_filter_name(set, i) : "unknown");
    *a = (dlr_array_facts){
        .name = set->name,
        .stored = set->type,
        .type = set->element,
        .odd = (dlr_odd)set->odd,
        .rank = set->rank,
        .chunked = set->layout == DLR_HDF5_CHUNKED,
        .packing = set->layout == DLR_HDF5_EMPTY     ? "nothing written"
                   : set->layout == DLR_HDF5_VIRTUAL ? "virtual"
                   : packing.n                       ? dl_strdup(arena, packing.at)
                                                     : "none",
        .refused = refuse(arena, set),
    };
    dl_buf_free(&packing);
    memcpy(a->dims, set->dims, sizeof a->dims);
    memcpy(a->chunk, set->chunk, sizeof a->chunk);
    for (int i = 0; i < DLR_ARRAY_RANK; i++) a->axis[i] = set->axis[i][0] ? set->axis[i] : NULL;
    a->default_fills = netcdf && set->has_fill;
}

/* The attributes of one set are contiguous. */
static void put_attributes(dl_arena *arena, const dlr_hdf5_facts *facts, dlr_array_facts *arrays) {
    dlr_attribute *all = DL_NEWS(arena, dlr_attribute, facts->attributes + 1);
    for (int i = 0; i < facts->attributes; i++) {
        const dlr_hdf5_attribute *found = &facts->attribute[i];
        if (found->set < 0 || found->set >= facts->n) continue;
        dlr_array_facts *a = &arrays[found->set];
        if (a->attribute_count == 0) a->attributes = &all[i];
        if (&a->attributes[a->attribute_count] != &all[i]) continue;
        dl_buf text = {0};
        dl_put_double(&text, found->number);
        all[i] = (dlr_attribute){.name = found->name,
                                 .text = found->is_text  ? found->text
                                         : found->unread ? "(neither numbers nor text)"
                                                         : dl_strdup(arena, text.at),
                                 .number = found->is_text || found->unread ? NAN : found->number,
                                 .numbers = facts->number + found->first,
                                 .n = found->count,
                                 .unread = found->unread};
        a->attribute_count++;
        dl_buf_free(&text);
    }
}

/* The file's state: its facts, and the parts of its virtual sets. */
typedef struct {
    dlr_hdf5_facts *facts;
    dlr_hdf5_virtual *parts; /* of each set */
} hdf5_state;

static bool find_parts(dlr_array_file *f, hdf5_state *state, dl_error *err) {
    for (int i = 0; i < state->facts->n; i++) {
        dlr_hdf5_set *set = &state->facts->set[i];
        if (set->layout == DLR_HDF5_VIRTUAL && set->rank <= DLR_ARRAY_RANK && !set->why[0] &&
            set->element != DLR_EL_NONE &&
            !dlr_hdf5_virtual_inspect(f->arena, f->path, set, &state->parts[i], err))
            return false;
    }
    return true;
}

static bool list_hdf5(dlr_array_file *f, dl_error *err) {
    dlr_hdf5_facts *facts = dlr_hdf5_inspect(f->arena, f->path, err);
    if (!facts) return false;
    hdf5_state *state = DL_NEW(f->arena, hdf5_state);
    dlr_array_facts *arrays = DL_NEWS(f->arena, dlr_array_facts, facts->n + 1);
    *state = (hdf5_state){facts, DL_NEWS(f->arena, dlr_hdf5_virtual, facts->n + 1)};
    if (!find_parts(f, state, err)) return false;
    for (int i = 0; i < facts->n; i++)
        put_facts(f->arena, &facts->set[i], facts->netcdf, &arrays[i]);
    put_attributes(f->arena, facts, arrays);
    f->arrays = arrays, f->n = facts->n, f->more = facts->more, f->state = state;
    return true;
}

/* Opens a set that is not virtual; `path` is the file that holds it. */
static bool open_set(dlr_source *s, const char *path, const dlr_hdf5_set *set, size_t cache,
                     dl_error *err) {
    if (set->layout == DLR_HDF5_CONTIGUOUS && set->plain && set->filter_count == 0)
        return dlr_run_open(s, path, &(dlr_run){.offset = set->offset, .swapped = set->swapped},
                            err);
    if (dlr_hdf5_unpacked_here(set)) return dlr_hdf5_chunks_open(s, path, set, cache, err);
    if (is_fill_alone(set)) return dlr_fill_open(s, set->fill, set->swapped, err);
    dlr_element as = set->element == DLR_EL_F16 ? DLR_EL_F32 : set->element;
    return dlr_hdf5_child_open(s, path, set->path, as, cache, err);
}

static bool open_in(dlr_source *s, const dlr_array_file *f, const dlr_hdf5_set *set, size_t cache,
                    dl_error *err) {
    dl_buf path = {0};
    dlr_hdf5_put_file(&path, f->path, set);
    if (set->file[0]) dl_input_remember(path.at);
    bool ok = open_set(s, path.at, set, cache, err);
    dl_buf_free(&path);
    return ok;
}

/* A source of a virtual set; NULL with an error. */
static dlr_source *open_source(const dlr_array_file *f, const dlr_hdf5_set *set, bool mapped,
                               size_t cache, dl_error *err) {
    dlr_source *s = calloc(1, sizeof *s);
    if (!s) return dl_fail(err, DL_RESOURCE, "no memory to open %s", f->path), NULL;
    dl_buf label = {0};
    dlr_hdf5_put_file(&label, f->path, set);
    dl_putf(&label, ": '%s'", set->path);
    s->label = label.at, s->type = set->element, s->rank = set->rank, s->mapped = mapped;
    memcpy(s->dims, set->dims, sizeof s->dims);
    const char *why = refuse(f->arena, set);
    bool ok = !why || dl_fail(err, DL_INPUT, "%s %s", s->label, why);
    if (ok && open_in(s, f, set, cache, err)) return s;
    dlr_source_close(s);
    return NULL;
}

static bool open_virtual(dlr_source *s, const dlr_array_file *f, const dlr_hdf5_set *set,
                         const dlr_hdf5_virtual *v, size_t cache, dl_error *err) {
    dlr_source_parts how = {.parts = v->parts,
                            .part = v->part,
                            .source = calloc((size_t)v->sources + 1, sizeof *how.source),
                            .gaps = v->gaps,
                            .swapped = set->swapped};
    if (!how.source) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    memcpy(how.fill, set->fill, sizeof how.fill);
    bool ok = true;
    for (int i = 0; ok && i < v->sources; i++) {
        how.source[i] = open_source(f, &v->source[i], s->mapped, cache / (size_t)v->sources, err);
        ok = how.source[i] != NULL;
        how.sources += ok;
    }
    if (ok) return dlr_parts_open(s, &how, err);
    for (int i = 0; i < how.sources; i++) dlr_source_close(how.source[i]);
    free(how.source);
    return false;
}

static bool open_hdf5(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                      size_t cache, dl_error *err) {
    const hdf5_state *state = f->state;
    const dlr_hdf5_set *set = &state->facts->set[a - f->arrays];
    if (set->layout == DLR_HDF5_VIRTUAL)
        return open_virtual(s, f, set, &state->parts[a - f->arrays], cache, err);
    return open_in(s, f, set, cache, err);
}

const dlr_array_format dlr_hdf5_format = {.name = "HDF5",
                                          .modules = "h5py",
                                          .load = "h5py.File('IN')%s[()]",
                                          .owns = dlr_owns_hdf5,
                                          .list = list_hdf5,
                                          .open = open_hdf5};

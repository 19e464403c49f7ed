/* HDF5 files (including NetCDF-4): which sets can be read, and by which reader. */
#include "runtime/data/array_format.h"
#include "runtime/data/hdf5_facts.h"
#include "runtime/data/hdf5_filters.h"

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
    static const char *const layouts[] = {
        [DLR_HDF5_EXTERNAL] =
            "keeps its data in other files (external storage), which is not followed: copy it into "
            "one file with h5repack",
        [DLR_HDF5_VIRTUAL] =
            "is a virtual data set, which is not followed: copy it into one file with h5repack",
        [DLR_HDF5_LINK] =
            "is a link to somewhere else, which is not followed: name the data set itself",
    };
    if (set->layout == DLR_HDF5_CLOSED) return set->why;
    if (set->layout == DLR_HDF5_EMPTY && is_empty(set))
        return "is empty: an axis of it has no elements";
    if ((size_t)set->layout < sizeof layouts / sizeof *layouts && layouts[set->layout])
        return layouts[set->layout];
    if (set->cut_attributes)
        return "has attributes that were not read: the file has more than 4096 of them";
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
        .stored = set->layout == DLR_HDF5_LINK ? "(a link)" : set->type,
        .type = set->element,
        .rank = set->rank,
        .chunked = set->layout == DLR_HDF5_CHUNKED,
        .packing = set->layout == DLR_HDF5_EMPTY ? "nothing written"
                   : packing.n                   ? dl_strdup(arena, packing.at)
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

static bool list_hdf5(dlr_array_file *f, dl_error *err) {
    dlr_hdf5_facts *found = dlr_hdf5_inspect(f->path, err);
    if (!found) return false;
    dlr_hdf5_facts *facts = DL_NEW(f->arena, dlr_hdf5_facts);
    dlr_array_facts *arrays = DL_NEWS(f->arena, dlr_array_facts, found->n + 1);
    *facts = *found;
    free(found);
    for (int i = 0; i < facts->n; i++)
        put_facts(f->arena, &facts->set[i], facts->netcdf, &arrays[i]);
    put_attributes(f->arena, facts, arrays);
    f->arrays = arrays, f->n = facts->n, f->more = facts->more, f->state = facts;
    return true;
}

static bool open_hdf5(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                      size_t cache, dl_error *err) {
    const dlr_hdf5_facts *facts = f->state;
    const dlr_hdf5_set *set = &facts->set[a - f->arrays];
    if (set->layout == DLR_HDF5_CONTIGUOUS && set->plain && set->filter_count == 0)
        return dlr_run_open(s, f->path, &(dlr_run){.offset = set->offset, .swapped = set->swapped},
                            err);
    if (dlr_hdf5_unpacked_here(set)) return dlr_hdf5_chunks_open(s, f->path, set, cache, err);
    if (is_fill_alone(set)) return dlr_fill_open(s, set->fill, set->swapped, err);
    dlr_element as = set->element == DLR_EL_F16 ? DLR_EL_F32 : set->element;
    return dlr_hdf5_child_open(s, f->path, set->name, as, cache, err);
}

const dlr_array_format dlr_hdf5_format = {
    .name = "HDF5", .owns = dlr_owns_hdf5, .list = list_hdf5, .open = open_hdf5};

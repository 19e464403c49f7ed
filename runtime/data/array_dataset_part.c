/* Opens one part of the split of an array dataset: its files, its axes and its number of samples.
 * For the loader, and for the statistics of the training part. */
#include "runtime/data/array_dataset_private.h"

bool dataset_open_part(array_dataset *w, const dlr_dataset *d, const dlr_array_dataset_options *o,
                       dlr_split part, dl_error *err) {
    /* the part that a run and `dlc check` open once */
    const bool first = part == DLR_TRAIN && d->split == DLR_TRAIN && d->probe;
    *w = (array_dataset){
        .arena = dl_arena_new(NULL), .o = o, .n = d->arrays.n, .mapped = d->mapped, .warns = first};
    for (int k = 0; k < w->n; k++) {
        w->at[k].to = d->arrays.at[k], w->at[k].from = o->source[k];
        for (int i = 0; i < o->source[k].n_variables; i++)
            dl_push(w->arena, &w->at[k].variables,
                    ((dataset_variable){.of = &w->at[k],
                                        .from = o->source[k].variables[i],
                                        .channel = -1,
                                        .like = -1}));
    }
    if (!dataset_open_files(w, part, err)) return false;
    for (int k = 0; k < w->n; k++)
        if (!dataset_spread_times(w, &w->at[k], err) || !dataset_match_axes(w, &w->at[k], err))
            return false;
    return dataset_share_axes(w, err) && dataset_count_samples(w, d, part, err);
}

void dataset_close(array_dataset *w) {
    for (int k = 0; k < w->n; k++)
        for (int j = 0; j < w->at[k].variables.n; j++) {
            const dataset_variable *v = &w->at[k].variables.at[j];
            for (int i = 0; v->like < 0 && i < v->files.n; i++)
                dlr_source_close(v->files.at[i].source);
        }
    dl_arena_free(w->arena);
}

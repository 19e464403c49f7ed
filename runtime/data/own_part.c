/* Opens one part of the split of an array dataset: its files, its axes and its number of samples.
 * For the loader, and for the statistics of the training part. */
#include "runtime/data/own_private.h"

bool own_open_part(own *w, const dlr_dataset *d, const dlr_own_options *o, dlr_split part,
                   dl_error *err) {
    /* the part that a run and `dlc check` open once */
    const bool first = part == DLR_TRAIN && d->split == DLR_TRAIN && d->probe;
    *w = (own){
        .arena = dl_arena_new(NULL), .o = o, .n = d->arrays.n, .mapped = d->mapped, .warns = first};
    for (int k = 0; k < w->n; k++) w->at[k].to = d->arrays.at[k], w->at[k].from = o->source[k];
    if (!own_open_files(w, part, err)) return false;
    for (int k = 0; k < w->n; k++)
        if (!own_match_axes(&w->at[k], err)) return false;
    return own_share_axes(w, err) && own_count_samples(w, part, err);
}

void own_close(own *w) {
    for (int k = 0; k < w->n; k++)
        for (int i = 0; i < w->at[k].files.n; i++) dlr_source_close(w->at[k].files.at[i].source);
    dl_arena_free(w->arena);
}

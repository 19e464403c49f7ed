/* A loader: a table of functions that implements a data set, in a file of its own, with its own
 * options.
 *
 * README.md describes how to add one. */
#ifndef DLR_LOADER_H
#define DLR_LOADER_H
#include "runtime/data/dataset.h"

struct dlr_loader {
    const char *name;
    const char *host; /* the host's work on raw samples, for messages; NULL: "reads them" */
    /* Checks d->arrays (the model's tensors) and the loader's options, which are not valid later,
     * and sets d->samples, scratch, held and state. With d->probe it may leave out what only
     * samples need. */
    bool (*open)(dlr_dataset *d, const void *options, dl_error *err);
    /* Writes out[k] with type d->arrays.at[k].type. The result must depend on d, epoch and sample
     * alone; many threads may call it at once. */
    bool (*sample)(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                   void *scratch, dl_error *err);
    /* Implement dlr_dataset_raw (the description is preset to unscaled numbers) and
     * dlr_dataset_numbers: a loader may leave both NULL. */
    bool (*raw)(const dlr_dataset *d, dlr_raw *raw);
    bool (*numbers)(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                    void *scratch, dlr_layout_map *how, dl_error *err);
    /* Implement dlr_dataset_store, _piece and _locate: a loader may leave all three NULL. */
    void (*store)(const dlr_dataset *d, dlr_store *store);
    bool (*piece)(const dlr_dataset *d, int64_t i, void *out, void *scratch, int64_t *at,
                  int64_t *bytes, dl_error *err);
    void (*locate)(const dlr_dataset *d, int64_t epoch, int64_t sample, dlr_layout_map *how);
    /* Frees d->state, also the partial state of a failed `open` (or NULL). */
    void (*close)(dlr_dataset *d);
};

struct dlr_dataset {
    const dlr_loader *loader;
    dlr_arrays arrays;
    dlr_split split;
    uint64_t seed;
    bool mapped;
    bool probe;    /* no sample will be requested, except in a dry run, whose values are not used */
    bool on_paper; /* the probe counts what opening it for use would read in addition
                      (ir/base/file_calls.h) */
    bool left_out; /* the probe has left out what samples need; set by `open` */
    bool in_memory;  /* samples read no file; set by `open` */
    int64_t samples; /* in an epoch, at least 1 */
    size_t scratch;  /* bytes that `sample` needs */
    int64_t held;    /* most bytes of `state`, with its child processes */
    void *state;
};

/* Checks that the model takes one input and one target, in this order. Errors (DL_INPUT): it takes
 * others. */
bool dlr_loader_pair(const dlr_dataset *d, dl_error *err);
#endif

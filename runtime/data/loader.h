/* What a loader is: the functions behind a data set, in a file of its own, with options of its own.
 *
 * README.md says how to add one. */
#ifndef DLR_LOADER_H
#define DLR_LOADER_H
#include "runtime/data/dataset.h"

struct dlr_loader {
    const char *name;
    const char *host; /* what the host does to numbers for a device; NULL: "reads them" */
    /* Checks d->arrays (what the model takes) and the loader's options, which are gone afterwards,
     * and fills d->samples, scratch, held and state. With d->probe it may leave out what only
     * samples need. */
    bool (*open)(dlr_dataset *d, const void *options, dl_error *err);
    /* Writes out[k] as d->arrays.at[k].type says: a function of d, epoch and sample, for many
     * threads at once. */
    bool (*sample)(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                   void *scratch, dl_error *err);
    /* Fills in what dlr_dataset_raw says of each array (as they are, before), and writes a sample's
     * numbers: a loader may leave both NULL. */
    bool (*raw)(const dlr_dataset *d, dlr_raw *raw);
    bool (*numbers)(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                    void *scratch, dlr_placing *how, dl_error *err);
    /* What dlr_dataset_store, _piece and _locate say: a loader may leave all three NULL. */
    void (*store)(const dlr_dataset *d, dlr_store *store);
    bool (*piece)(const dlr_dataset *d, int64_t i, void *out, void *scratch, int64_t *at,
                  int64_t *bytes, dl_error *err);
    void (*locate)(const dlr_dataset *d, int64_t epoch, int64_t sample, dlr_placing *how);
    /* Frees d->state, also what a failed `open` left of it (or NULL). */
    void (*close)(dlr_dataset *d);
};

struct dlr_dataset {
    const dlr_loader *loader;
    dlr_arrays arrays;
    dlr_split split;
    uint64_t seed;
    bool mapped;
    bool probe;      /* no sample will be asked for, but on paper, whose numbers nobody looks at */
    bool on_paper;   /* a probe that counts what opening it for use would read besides
                        (ir/base/file_calls.h) */
    bool left_out;   /* a probe has left out what samples need; set by `open` */
    bool in_memory;  /* samples read no file; set by `open` */
    int64_t samples; /* in an epoch, at least 1 */
    size_t scratch;  /* bytes that `sample` needs */
    int64_t held;    /* bytes that `state` takes at most, its children included */
    void *state;
};

/* For a loader of one input and one target, in this order. Errors (DL_INPUT): the model takes
 * others. */
bool dlr_loader_pair(const dlr_dataset *d, dl_error *err);
#endif

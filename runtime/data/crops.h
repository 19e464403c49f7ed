/* Recipe volumes' data: crops of a simulated box, the same region of the model's input [C,S,S,S]
 * and target [K,S,S,S], turned by one of 24 rotations.
 *
 * Corner and rotation are drawn from (seed, split, epoch, sample). Validation draws without the
 * epoch: each epoch is validated on the same crops, so that its losses compare. (Recipe volumes
 * draws anew.) As there, a corner is uniform in [0, L - size) on each axis: the last position is
 * never drawn, and only when L = size is there a choice of one. */
#ifndef DLR_CROPS_H
#define DLR_CROPS_H
#include "runtime/data/dataset.h"

typedef struct {
    const char *path; /* of a file of arrays (array_file.h) */
    const char *input_name,
        *target_name;        /* the arrays [C,L,L,L] and [K,L,L,L]; NULL: "Nbody", "Hydro" */
    const char *target_path; /* channels last: another file; of both the only array is [L,L,L,C].
                                Else NULL */
    int64_t box_size;        /* crops stay within [0, box_size)^3; 0: the file's whole box */
    int64_t samples;         /* in an epoch: Nsamples or Nsamples_val */
    bool in_memory;          /* the box is loaded once; else crops are read from the file */
} dlr_crops_options;

extern const dlr_loader dlr_crops_loader;

typedef struct {
    int64_t corner[3];
    int rotation; /* 1..24, of rotate.h */
} dlr_draw;
dlr_draw dlr_crops_draw(const dlr_dataset *d, int64_t epoch, int64_t sample);
int64_t dlr_crops_box(const dlr_dataset *d); /* L, as crops are drawn */
#endif

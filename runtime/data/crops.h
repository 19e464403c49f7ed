/* The loader of 3-D crops. A sample is the same region of two volumes, as the model's input
 * [C,S,S,S] and target [K,S,S,S], transformed by one of 24 rotations (rotate.h).
 *
 * Corner and rotation are drawn from (seed, split, epoch, sample). Validation draws without the
 * epoch: each epoch is validated on the same crops, so that its losses can be compared. A corner is
 * uniform in [0, L - size) on each axis: the last position is never drawn, unless L = size leaves
 * no other. The program whose data format this is draws so, too, but draws new crops at each
 * validation. */
#ifndef DLR_CROPS_H
#define DLR_CROPS_H
#include "runtime/data/dataset.h"

typedef struct {
    const char *path; /* a file of arrays (array_file.h) */
    /* the arrays [C,L,L,L] and [K,L,L,L]; NULL: "Nbody", "Hydro" */
    const char *input_name, *target_name;
    const char *target_path; /* channels-last files: the second file; the only array of each is
                                [L,L,L,C]. Otherwise NULL */
    int64_t box_size;        /* crops stay within [0, box_size)^3; 0: within the file's whole box */
    int64_t samples;         /* samples in an epoch: Nsamples or Nsamples_val */
    bool in_memory;          /* the box is loaded once; otherwise crops are read from the file */
} dlr_crops_options;

extern const dlr_loader dlr_crops_loader;

typedef struct {
    int64_t corner[3];
    int rotation; /* 1..24, the numbers of rotate.h */
} dlr_draw;
dlr_draw dlr_crops_draw(const dlr_dataset *d, int64_t epoch, int64_t sample);
int64_t dlr_crops_box(const dlr_dataset *d); /* L, the edge of the box that crops are drawn from */
#endif

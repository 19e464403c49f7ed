/* Virtual data sets of HDF5: arrays whose numbers lie in other data sets (format specification,
 * "Virtual dataset"). */
#ifndef DLR_HDF5_VIRTUAL_H
#define DLR_HDF5_VIRTUAL_H
#include "runtime/data/array_file.h"
#include "runtime/data/hdf5_facts.h"

/* One mapping: the elements `at` of the virtual set are those at `from` of a source. Axes of more
 * than one element have the same counts in both, in the same order. */
typedef struct {
    int source;
    dlr_block at, from;
} dlr_hdf5_part;

typedef struct {
    int parts, sources;
    bool gaps; /* some elements are in no part: they have the set's fill value */
    dlr_hdf5_part *part;
    dlr_hdf5_set *source;
} dlr_hdf5_virtual;

/* The parts of a virtual set of the file `main`, in the arena: all within the set and their
 * sources, and none over another. It sets v->parts to 0 and set->why, the end of a sentence, where
 * the set cannot be read: a source is not there or lies out of the folder of the file, parts
 * overlap or are no boxes. Errors: those of dlr_hdf5_inspect; forks as that. */
bool dlr_hdf5_virtual_inspect(dl_arena *arena, const char *main, dlr_hdf5_set *set,
                              dlr_hdf5_virtual *v, dl_error *err);

/* The indices of a block along one axis that also lie in another block: `first`, `first` + step,
 * ... of the block, which are `in_other`, `in_other` + other_step, ... of the other one. The other
 * block's stride is at most DLR_MOST_STRIDE. */
enum { DLR_MOST_STRIDE = 4096 };
typedef struct {
    int64_t first, step, count, in_other, other_step;
} dlr_common;
/* False: there are none. */
bool dlr_find_common(const dlr_block *block, const dlr_block *other, int axis, dlr_common *c);

/* The sources of such a set, opened, and the parts in which they have its numbers (array_parts.c).
 */
typedef struct {
    int parts, sources;
    const dlr_hdf5_part *part;
    dlr_source **source; /* closed with `s`, also on failure */
    char fill[8];        /* of elements in no part, in its stored form */
    bool gaps, swapped;
} dlr_source_parts;
/* Copies `how`, but for the sources. */
bool dlr_parts_open(dlr_source *s, const dlr_source_parts *how, dl_error *err);
#endif

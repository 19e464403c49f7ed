/* A volume: an array [C, L, L, L] from which crops are cut as f32, in memory or in a file; in a
 * file it may be [L, L, L, C], too. */
#ifndef DLR_VOLUME_H
#define DLR_VOLUME_H
#include "runtime/base/rng.h"
#include "runtime/data/packing.h"
#include "runtime/data/rotate.h"

/* A slab: planes of one channel, x .. x+planes-1, y .. y+size-1, z .. z+size-1. The reader returns
 * a pointer to each plane, with rows `row` floats apart, in its own memory or in `scratch`. The
 * channels of one slab are requested in order from 0, with the same scratch. */
enum { DLR_SLAB_PLANES = 16 }; /* as many voxels as a cache line */
typedef struct {
    int channel, planes, size;
    int64_t x, y, z;
    float *scratch;
    const float *plane[DLR_SLAB_PLANES];
    ptrdiff_t row;
} dlr_slab;

typedef struct dlr_volume dlr_volume;
struct dlr_volume {
    int channels;
    int64_t edge; /* L */
    /* Reads a slab; called by many threads at once. */
    bool (*read)(const dlr_volume *v, dlr_slab *slab, dl_error *err);
    size_t (*scratch)(const dlr_volume *v, int size); /* NULL: none */
    /* The raw numbers of a crop: [C, S, S, S], or [S, S, S, C] where channels are last. NULL: they
     * cannot be read without a copy. */
    bool (*numbers)(const dlr_volume *v, const int64_t corner[3], int size, float *out,
                    dl_error *err);
    bool channels_last;
    void (*close)(dlr_volume *v);
    float *memory;      /* for a volume in memory */
    dlr_source *source; /* for a volume in a file */
    dlr_packing packing;
    int64_t held; /* most bytes of memory that it takes, in this process or its child */
};

/* Opens an array [channels, L, L, L] of a file, or [L, L, L, channels]. Errors: dlr_source_open's.
 */
dlr_volume *dlr_volume_open(const dlr_array_file *file, const dlr_array_facts *array,
                            bool channels_last, dl_error *err);
/* Reads the first edge^3 voxels of every channel of `from` into memory. */
dlr_volume *dlr_volume_load(const dlr_volume *from, int64_t edge, dl_error *err);
/* Counts the reads of dlr_volume_load in a dry run (dlr_source_put_on_paper). */
bool dlr_volume_load_on_paper(const dlr_volume *from, int64_t edge, dl_error *err);
void dlr_volume_close(dlr_volume *v); /* NULL is fine */

/* Floats of scratch that reading a slab of that size needs. */
size_t dlr_volume_scratch(const dlr_volume *v, int size);
/* Cuts the crop of size^3 at `corner` from every channel, rotated (1..24), into out [C, size, size,
 * size]. */
bool dlr_volume_crop(const dlr_volume *v, const int64_t corner[3], int size, int rotation,
                     float *out, float *scratch, dl_error *err);
#endif

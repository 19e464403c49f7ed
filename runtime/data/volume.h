/* A volume: one array [C, L, L, L] of f32 that crops are cut from, in memory or in a file. */
#ifndef DLR_VOLUME_H
#define DLR_VOLUME_H
#include "runtime/data/hdf5_facts.h"
#include "runtime/data/rotate.h"
#include "runtime/rng.h"

/* A run of planes of one channel: x .. x+planes-1, y .. y+size-1, z .. z+size-1. The reader answers with a
 * pointer to each plane, rows `row` floats apart, in its own memory or in `scratch`. */
enum { DLR_SLAB_PLANES = 16 }; /* as many voxels as a cache line */
typedef struct {
    int channel, planes, size;
    int64_t x, y, z;
    float *scratch;
    const float *plane[DLR_SLAB_PLANES];
    ptrdiff_t row;
} dlr_slab;

typedef struct dlr_volume dlr_volume;
typedef struct dlr_reader dlr_reader;
struct dlr_volume {
    int channels;
    int64_t edge; /* L */
    /* Reads a slab; called by many threads at once. */
    bool (*read)(const dlr_volume *v, dlr_slab *slab, dl_error *err);
    void (*close)(dlr_volume *v);
    float *memory;      /* kind memory */
    int fd;             /* kind file: the data set's bytes begin at `offset` */
    int64_t offset;     /* */
    dlr_reader *reader; /* kind library: the child that reads it */
    int64_t held;       /* bytes of memory that it takes at most, in this process or its child */
    char *label;        /* "path: 'Nbody'", for messages; NULL for memory */
};

enum { DLR_READER_CHUNKS = 64 << 20 }; /* bytes that it keeps of unpacked chunks */
/* A child process in which libhdf5 reads one data set: 2 GiB of memory, and for each slab 20 s of processor
 * time and 80 s in all. `label` opens messages and must live as long. Errors: DL_INPUT, DL_RESOURCE. */
dlr_reader *dlr_reader_open(const char *path, const char *set, const char *label, dl_error *err);
/* Reads a slab into slab->scratch, rows packed; for many threads, one at a time. Errors: DL_INPUT: the data
 * are damaged, or the child passed a limit (no later read succeeds then). */
bool dlr_reader_read(dlr_reader *r, const dlr_slab *slab, dl_error *err);
void dlr_reader_close(dlr_reader *r); /* NULL is fine */

/* Opens a data set of a file: read at its offset when it is contiguous native f32, else by libhdf5 in a child
 * with limits (chunked, compressed, compact, other floats: slower, and one thread at a time). Only `facts`
 * decide. Errors (DL_INPUT): what cannot or may not be read, saying why and what would help. */
dlr_volume *dlr_volume_open(const char *path, const dlr_hdf5_set *set, dl_error *err);
/* The first edge^3 voxels of every channel of `from`, read into memory. */
dlr_volume *dlr_volume_load(const dlr_volume *from, int64_t edge, dl_error *err);
void dlr_volume_close(dlr_volume *v); /* NULL is fine */

/* Floats of scratch that reading slabs of that size takes, for any volume of that edge. */
size_t dlr_volume_scratch(int64_t edge, int size);
/* Cuts the crop of size^3 at `corner` from every channel, rotated (1..24), into out [C, size, size, size]. */
bool dlr_volume_crop(const dlr_volume *v, const int64_t corner[3], int size, int rotation, float *out,
                     float *scratch, dl_error *err);
#endif

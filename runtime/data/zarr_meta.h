/* Reads the metadata of a Zarr array: .zarray of version 2, zarr.json of version 3.
 *
 * Sources: zarr-specs, "Zarr storage specification version 2" and "Zarr core specification version
 * 3.0". */
#ifndef DLR_ZARR_META_H
#define DLR_ZARR_META_H
#include "ir/base/arena.h"
#include "runtime/data/array_facts.h"
#include "runtime/data/chunk_codec.h"

typedef struct {
    int version;
    bool swapped;
    bool transposed;           /* the numbers of a chunk lie in another order of axes: */
    int order[DLR_ARRAY_RANK]; /* the one that varies slowest first */
    char separator;            /* separates the numbers in a chunk's name */
    bool prefixed;             /* a chunk's name begins with "c" and the separator */
    char fill[8];              /* in its stored form */
    dlr_codec codec[DLR_MAX_CODECS];
    int codecs;
    /* With shards, a file holds a grid of chunks and an index of where they lie (and `a->chunk` is
     * the shape of one): the chunks of a file along each axis; 0: a file holds one chunk. */
    int64_t shard[DLR_ARRAY_RANK];
    bool sharded, index_first, index_swapped, index_checked; /* checked: by a CRC-32C */
} dlr_zarr_how;

/* Reads the metadata of one array (`n` bytes; `path` is for messages) of that version into its
 * facts and its storage; name and attributes of version 2 are set by the caller. a->refused
 * describes arrays that cannot be read. Errors (DL_INPUT): the text is no metadata of an array. */
bool dlr_zarr_array(dl_arena *arena, const char *text, size_t n, int version, const char *path,
                    dlr_array_facts *a, dlr_zarr_how *how, dl_error *err);
/* Reads attributes of version 2 from .zattrs: adds them, and the axes that xarray names there.
 * Clears a->fill where they do not show that the array follows the CF conventions. */
bool dlr_zarr_attributes(dl_arena *arena, const char *text, size_t n, const char *path,
                         dlr_array_facts *a, dl_error *err);
/* The `node_type` of a zarr.json. */
typedef enum { DLR_ZARR_OTHER, DLR_ZARR_GROUP, DLR_ZARR_ARRAY } dlr_zarr_node;
bool dlr_zarr_node_of(dl_arena *arena, const char *text, size_t n, const char *path,
                      dlr_zarr_node *node, dl_error *err);
#endif

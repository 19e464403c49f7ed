/* The codecs of an array's chunks, and unpacking. */
#ifndef DLR_CHUNK_CODEC_H
#define DLR_CHUNK_CODEC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    DLR_CODEC_DEFLATE, /* without a header, as in zip files (RFC 1951) */
    DLR_CODEC_ZLIB,    /* RFC 1950; HDF5's "deflate" */
    DLR_CODEC_GZIP,    /* RFC 1952 */
    DLR_CODEC_ZSTD,
    DLR_CODEC_BLOSC,
    DLR_CODEC_LZ4,       /* the "lz4" of HDF5: blocks with their sizes */
    DLR_CODEC_LZ4_BLOCK, /* one block, without sizes */
    DLR_CODEC_LZ4_SIZED, /* the "lz4" of numcodecs: the size, four bytes, and one block */
    DLR_CODEC_BZIP2,
    DLR_CODEC_SNAPPY,
    DLR_CODEC_LZF,        /* M. Lehmann's LibLZF, the "lzf" of h5py */
    DLR_CODEC_SHUFFLE,    /* the first byte of every element, then the second of every one, ... */
    DLR_CODEC_FLETCHER32, /* HDF5's checksum of four bytes, after the data */
    DLR_CODEC_CRC32C      /* CRC-32C of Zarr v3 */
} dlr_codec_kind;

typedef struct {
    dlr_codec_kind kind;
    size_t element; /* shuffle: bytes of an element */
} dlr_codec;

enum { DLR_MAX_CODECS = 8 };

/* Unpacks `bytes` bytes into exactly `out_bytes`; it overwrites the input. `codecs` are in the
 * order in which they packed; those whose bit is set in `skipped` were not applied. Returns false,
 * with the reason as the end of a sentence, when the data are damaged or there is no memory. */
bool dlr_chunk_unpack(const dlr_codec *codecs, int n, uint32_t skipped, void *packed, size_t bytes,
                      void *out, size_t out_bytes, const char **why);

/* Unpacks all of a stream of DLR_CODEC_DEFLATE, _ZLIB or _GZIP, whose members may follow one
 * another (RFC 1952), with zeros after them as gzip takes them, into at most `room` bytes; *done is
 * how many these are. Returns false when it is damaged, cut or longer. */
bool dlr_inflate_whole(dlr_codec_kind kind, const void *from, size_t bytes, void *to, size_t room,
                       size_t *done);
#endif

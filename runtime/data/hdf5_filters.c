/* Filters of HDF5: which our codecs undo, which libhdf5 undoes, and which nothing does. */
#include "runtime/data/hdf5_filters.h"

#include <hdf5.h>

#include "runtime/data/chunk_codec.h"

/* Filters by their registered numbers. `codec`: our threads undo it; -1: libhdf5 alone does. */
static const struct {
    int filter, codec;
    const char *name;
} filters[] = {
    {H5Z_FILTER_DEFLATE, DLR_CODEC_ZLIB, "deflate"},
    {H5Z_FILTER_SHUFFLE, DLR_CODEC_SHUFFLE, "shuffle"},
    {H5Z_FILTER_FLETCHER32, DLR_CODEC_FLETCHER32, "fletcher32"},
    {H5Z_FILTER_SZIP, -1, "szip"},
    {H5Z_FILTER_NBIT, -1, "nbit"},
    {H5Z_FILTER_SCALEOFFSET, -1, "scaleoffset"},
    {307, DLR_CODEC_BZIP2, "bzip2"},
    {DLR_HDF5_LZF, DLR_CODEC_LZF, "lzf"},
    {32001, DLR_CODEC_BLOSC, "blosc"},
    {32004, DLR_CODEC_LZ4, "lz4"},
    {32015, DLR_CODEC_ZSTD, "zstd"},
};
enum { N_FILTERS = sizeof filters / sizeof *filters };

/* The row of filter i of a set; -1: none has it. */
static int row_of(const dlr_hdf5_set *set, int i) {
    for (int k = 0; i < DLR_HDF5_FILTERS && k < N_FILTERS; k++)
        if (set->filter[i] == filters[k].filter) return k;
    return -1;
}

int dlr_hdf5_codec(const dlr_hdf5_set *set, int i) {
    int row = row_of(set, i);
    return row < 0 ? -1 : filters[row].codec;
}

/* Whether our codecs undo all filters. After a compression, another filter than a checksum is not
 * undone: its size is not known. */
static bool has_codecs(const dlr_hdf5_set *set) {
    bool packed = false;
    for (int i = 0; i < set->filter_count; i++) {
        int codec = dlr_hdf5_codec(set, i);
        if (codec < 0 || (packed && codec != DLR_CODEC_FLETCHER32)) return false;
        packed = packed || (codec != DLR_CODEC_FLETCHER32 && codec != DLR_CODEC_SHUFFLE);
    }
    return true;
}

bool dlr_hdf5_unpacked_here(const dlr_hdf5_set *set) {
    return set->layout == DLR_HDF5_CHUNKED && set->plain && !set->odd_edges && has_codecs(set);
}

const char *dlr_hdf5_filter_name(const dlr_hdf5_set *set, int i) {
    int row = row_of(set, i);
    return row < 0 ? NULL : filters[row].name;
}

int dlr_hdf5_missing_filter(const dlr_hdf5_set *set) {
    if (dlr_hdf5_unpacked_here(set)) return -1;
    for (int i = 0; i < set->filter_count; i++)
        if (i >= DLR_HDF5_FILTERS || set->missing >> i & 1) return i;
    return -1;
}

const char *dlr_hdf5_refuse_filter(dl_arena *arena, const dlr_hdf5_set *set, int i) {
    static const struct {
        int filter;
        const char *name;
    } others[] = {{32008, ", bitshuffle"}, {32013, ", zfp"},    {32017, ", sz"},
                  {32022, ", jpegls"},     {32026, ", blosc2"}, {32027, ", sz3"}};
    const char *name = dlr_hdf5_filter_name(set, i), *other = "";
    int filter = i < DLR_HDF5_FILTERS ? set->filter[i] : -1;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (others[k].filter == filter) other = others[k].name;
    if (name)
        return dl_format(arena,
                         "is packed with %s and has numbers, edges or filters that libhdf5 alone "
                         "reads, which has no %s: write it again with gzip",
                         name, name);
    return dl_format(arena,
                     "is packed with filter %d%s, which is not supported. Unpack it: python3 -c "
                     "\"import h5py, hdf5plugin; h5py.File('OUT.h5', 'a')['NAME'] = "
                     "h5py.File('IN.h5')['NAME'][()]\" (package hdf5plugin)",
                     filter, other);
}

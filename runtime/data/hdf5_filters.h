/* Filters of an HDF5 set: which our codecs undo, which libhdf5 undoes, and which nothing does. */
#ifndef DLR_HDF5_FILTERS_H
#define DLR_HDF5_FILTERS_H
#include "ir/base/arena.h"
#include "runtime/data/hdf5_facts.h"

/* The name of filter i; NULL: it is not known here. */
const char *dlr_hdf5_filter_name(const dlr_hdf5_set *set, int i);
/* The codec (dlr_codec_kind) that undoes filter i; -1: none does. */
int dlr_hdf5_codec(const dlr_hdf5_set *set, int i);
/* Whether our threads unpack its chunks; otherwise libhdf5 does, with the filters that it has. */
bool dlr_hdf5_unpacked_here(const dlr_hdf5_set *set);
/* The first filter that neither undoes; -1: there is none. */
int dlr_hdf5_missing_filter(const dlr_hdf5_set *set);
/* Why filter i is not undone and the remedy, as the end of a sentence. */
const char *dlr_hdf5_refuse_filter(dl_arena *arena, const dlr_hdf5_set *set, int i);
#endif

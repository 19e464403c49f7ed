/* Arrays that are unpacked as a whole: one chunk. */
#include "runtime/data/array_format.h"

bool dlr_whole_open(dlr_source *s, dlr_chunking *how, size_t cache, dl_error *err) {
    for (int i = 0; i < s->rank; i++) how->chunk[i] = s->dims[i] ? s->dims[i] : 1;
    return dlr_chunks_open(s, how, cache, err);
}

/* Arrays that are unpacked as a whole: one chunk, which is kept. */
#include "runtime/data/array_format.h"

bool dlr_whole_open(dlr_source *s, dlr_chunking *how, size_t cache, dl_error *err) {
    size_t bytes = dlr_element_bytes(s->type);
    how->whole = true;
    for (int i = 0; i < s->rank; i++) {
        how->chunk[i] = s->dims[i] ? s->dims[i] : 1;
        bytes *= (size_t)how->chunk[i];
    }
    /* unpacked once, and not for every block */
    return dlr_chunks_open(s, how, bytes > cache ? bytes : cache, err);
}

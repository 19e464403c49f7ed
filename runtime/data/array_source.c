/* An open array: reading, closing, its facts. array_file.c opens it by its format. */
#include <stdlib.h>

#include "runtime/data/array_format.h"

void dlr_source_close(dlr_source *s) {
    if (!s) return;
    if (s->close) s->close(s);
    free(s->label);
    free(s);
}

int dlr_source_rank(const dlr_source *s) { return s->rank; }
const int64_t *dlr_source_dims(const dlr_source *s) { return s->dims; }
dlr_element dlr_source_type(const dlr_source *s) { return s->type; }
const char *dlr_source_label(const dlr_source *s) { return s->label; }
int64_t dlr_source_held(const dlr_source *s) { return s->held; }
bool dlr_source_chunked(const dlr_source *s) { return s->chunked; }
bool dlr_source_is_on_paper(const dlr_source *s) { return s->on_paper; }

void dlr_source_put_on_paper(dlr_source *s, bool on) {
    s->on_paper = on;
    if (s->forget) s->forget(s);
}

bool dlr_source_read(const dlr_source *s, const dlr_block *block, dlr_element to, void *out,
                     dl_error *err) {
    dlr_block b = *block;
    bool empty = false;
    DL_CHECK(to < DLR_NELEMENTS && to != DLR_EL_F16);
    for (int i = 0; i < s->rank; i++) {
        if (b.stride[i] < 1 || b.count[i] == 1) b.stride[i] = 1;
        DL_CHECK(b.start[i] >= 0 && b.count[i] >= 0 && b.start[i] <= s->dims[i]);
        DL_CHECK(b.count[i] == 0 ||
                 (s->dims[i] > b.start[i] &&
                  b.count[i] - 1 <= (s->dims[i] - 1 - b.start[i]) / b.stride[i]));
        empty = empty || b.count[i] == 0;
    }
    return empty || s->read(s, &b, to, out, err);
}

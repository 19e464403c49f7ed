/* Arrays that were declared and never written: every element is the fill value. */
#include "runtime/data/array_format.h"

#include <stdlib.h>

typedef struct {
    char fill[8];
    bool swapped;
} fill_state;

static bool read_fill(const dlr_source *s, const dlr_block *b, dlr_element to, void *out,
                      dl_error *err) {
    const fill_state *f = s->state;
    if (s->on_paper) return true;
    dlr_element_move m = dlr_block_move(s, b, to, out);
    m.from = f->fill, m.swapped = f->swapped;
    int64_t bad[DLR_ARRAY_RANK];
    double value;
    return dlr_elements_move(&m, bad, &value) || dlr_refuse_number(s, b, bad, value, to, err);
}

static void close_fill(dlr_source *s) { free(s->state); }

bool dlr_fill_open(dlr_source *s, const char fill[8], bool swapped, dl_error *err) {
    fill_state *f = s->state = calloc(1, sizeof *f);
    if (!f) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    memcpy(f->fill, fill, sizeof f->fill), f->swapped = swapped;
    s->read = read_fill, s->close = close_fill;
    return true;
}

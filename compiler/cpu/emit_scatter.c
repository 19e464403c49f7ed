/* Scatter-add on CPUs: one work item sorts the points, then each item sums some destinations. */
#include "compiler/codegen/scatter.h"
#include "compiler/cpu/emit_cpu.h"

bool dl_emit_scatter(dl_emitter *e, dl_emitted *code, dl_error *err) {
    enum { ITEMS = 64 }; /* enough for all threads */
    dl_scatter s;
    if (!dl_scatter_find(e, &s, err)) return false;
    e->mode = DL_SINGLE, e->flat = false, e->lane_axis = -1;
    int64_t each = dl_ceil_div(s.places ? s.places : 1, ITEMS);
    dl_emit_function(e, "", DL_OWN_NAME "_0"), dl_scatter_sort(&s), dl_puts(e->out, "}\n");
    dl_emit_function(e, "", DL_OWN_NAME "_1"), dl_scatter_sums(&s, each), dl_puts(e->out, "}\n");
    code->phases = 2;
    code->items[0] = 1, code->items[1] = dl_ceil_div(s.places, each);
    code->workspace = dl_scatter_sorted_bytes(&s);
    return true;
}

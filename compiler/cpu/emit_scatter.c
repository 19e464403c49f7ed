/* Scatters on CPUs. Where there are many rows that numbers and result share, or a point brings few
 * numbers, an item has rows. Otherwise one work item sorts the points, and then each item sums some
 * destinations. */
#include "compiler/codegen/scatter.h"
#include "compiler/cpu/emit_cpu.h"

bool dl_emit_scatter(dl_emitter *e, dl_emitted *code, dl_error *err) {
    /* ITEMS: enough for all threads. ROOM: bytes of a thread's own memory. FEW: numbers of a point,
     * which are added sooner than points are sorted */
    enum { ITEMS = 64, ROOM = 1 << 24, FEW = 4 };
    dl_scatter s;
    if (!dl_scatter_find(e, &s, err)) return false;
    e->mode = DL_SINGLE, e->flat = false, e->lane_axis = -1;
    if ((s.kept.points >= ITEMS / 2 || s.rest.points <= FEW) && dl_scatter_row_bytes(&s) <= ROOM) {
        int64_t rows = dl_ceil_div(s.kept.points ? s.kept.points : 1, ITEMS);
        dl_emit_function(e, "", DL_OWN_NAME "_0"), dl_scatter_rows(&s, rows);
        dl_puts(e->out, "}\n");
        code->phases = 1, code->items[0] = dl_ceil_div(s.kept.points, rows);
        code->scratch = dl_scatter_row_bytes(&s);
        return true;
    }
    int64_t each = dl_ceil_div(s.places ? s.places : 1, ITEMS);
    dl_emit_function(e, "", DL_OWN_NAME "_0"), dl_scatter_sort(&s), dl_puts(e->out, "}\n");
    dl_emit_function(e, "", DL_OWN_NAME "_1"), dl_scatter_sums(&s, each), dl_puts(e->out, "}\n");
    code->phases = 2;
    code->items[0] = 1, code->items[1] = dl_ceil_div(s.places, each);
    code->workspace = dl_scatter_sorted_bytes(&s);
    return true;
}

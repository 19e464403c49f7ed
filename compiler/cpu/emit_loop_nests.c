/* The phases of a kernel's loop nests; finalizing loop nests, which combine the items' partial
 * results in order; and kernels without a contraction, which consist of loop nests alone. */
#include "compiler/codegen/finalize.h"
#include "compiler/cpu/emit_cpu.h"
#include "compiler/cpu/partials.h"

/* A finalizing nest is small: one value at a time. */
static int64_t put_finalize(dl_emitter *e) {
    e->mode = DL_SINGLE, e->flat = false, e->lane_axis = -1;
    dl_emit_nest_head(e);
    int64_t items = dl_emit_finalize(e, 1);
    dl_puts(e->out, "}\n");
    return items;
}

static int64_t put_nest(dl_emitter *e, const dl_loop_nest *s, dl_emitted *code) {
    e->now = s;
    return s->finalize ? put_finalize(e)
           : s->row    ? dl_emit_resident(e, code)
                       : dl_emit_points(e, code);
}

/* Loop nests [from, to), which do not depend on each other, as one phase. */
static void put_phase(dl_emitter *e, int from, int to, dl_emitted *code) {
    int phase = code->phases++;
    const char *whole = dl_format(e->arena, "%s_%d", DL_OWN_NAME, phase);
    dl_buf items = {0};
    e->own_phase = to - from == 1;
    for (int i = from; i < to; i++) {
        e->name = e->own_phase ? whole : dl_format(e->arena, "%s_%d", whole, i - from);
        int64_t n = put_nest(e, &e->nests.at[i], code);
        dl_putf(&items,
                "    if (item < %lldL) {\n        %s(arg, item, scratch, workspace);\n        "
                "return;\n    }\n    item -= %lldL;\n",
                (long long)n, e->name, (long long)n);
        code->items[phase] += n;
    }
    if (!e->own_phase) dl_emit_function(e, "", whole), dl_putf(e->out, "%s}\n", items.at);
    dl_buf_free(&items);
}

bool dl_emit_loop_nests(dl_emitter *e, int from, dl_emitted *code, dl_error *err) {
    for (int to; from < e->nests.n; from = to) {
        to = dl_loop_nests_independent(&e->nests, from);
        if (!dl_emit_has_phase(e, code, err)) return false;
        put_phase(e, from, to, code);
    }
    return true;
}

bool dl_emit_pointwise(dl_emitter *e, dl_emitted *code, dl_error *err) {
    dl_emit_find_kept(e, code);
    return dl_emit_loop_nests(e, 0, code, err);
}

/* Calls of a recurrent layer's steps and of their gradient: writes their sizes as constants. The
 * loops are in compiler/cpu/kernels/recurrence.c. */
#include "compiler/cpu/emit_cpu.h"
#include "compiler/cpu/operands.h"
#include "ir/recurrence.h"

/* Vectors of a panel; register tiles of up to TALL sequences, as in the loops. */
enum { WIDTH = 4, TALL = 6 };

bool dl_emit_recurrence(dl_emitter *e, dl_emitted *code, dl_error *err) {
    enum { ITEMS = 32, ROWS_MOST = 48 }; /* work items that all threads have work with */
    (void)err;
    const dl_node *n = dl_kernel_call(e->k);
    const dl_recurrence r = dl_recurrence_of(n);
    bool back = n->op == DL_OP_recurrent_grad;
    dl_dtype type = e->k->params.at[0].type.dtype;
    bool wide = type == DL_F64;
    const char *suffix = wide ? "f64" : "f32";
    int64_t lanes = wide ? e->t->lanes / 2 : e->t->lanes, bytes = wide ? 8 : 4;
    int64_t vectors = dl_ceil_div(r.size, lanes), stride = vectors * lanes;
    int64_t rows = dl_ceil_div(r.batch, ITEMS);
    rows = rows < TALL ? TALL : rows > ROWS_MOST ? ROWS_MOST : dl_round_up(rows, TALL);
    int width = !back && r.gates == 3 ? 3 : WIDTH, units = back ? width : width / r.gates;
    int64_t panels = dl_ceil_div(vectors, units), terms = back ? r.gates * r.size : r.size;
    dl_putf(e->out,
            "static const struct recurrence_%s %s_shape = {.batch = %lld, .steps = %lld, .size = "
            "%lld, .rows = %lld, .stride = %lld, .cell = %s_%s, .gates = %d, .saved = %d, .states "
            "= %d, .started = %d, .ends = %d, .reverse = %d, .type = %s, .width = %d, .units = %d, "
            ".panels = %lld, .terms = %lld};\n",
            suffix, DL_OWN_NAME, (long long)r.batch, (long long)r.steps, (long long)r.size,
            (long long)rows, (long long)stride, dl_cells[r.cell].symbol, suffix, r.gates, r.saved,
            r.states, r.started, (int)r.ends, r.reverse, wide ? "0" : dl_emit_element(type), width,
            units, (long long)panels, (long long)terms);
    dl_emit_phase(e, code, panels,
                  dl_format(e->arena,
                            "pack_%s_item_%s(&%s_shape, arg[%d], item, (void *)workspace);",
                            back ? "states" : "gates", suffix, DL_OWN_NAME,
                            back ? DL_STEPS_GRAD_W : DL_STEPS_W));
    dl_emit_phase(e, code, dl_ceil_div(r.batch, rows),
                  dl_format(e->arena, "%s_item_%s(&%s_shape, arg, item, scratch, workspace);",
                            back ? "recurrent_grad" : "recurrent", suffix, DL_OWN_NAME));
    code->prepares = 1, code->prepared = back ? DL_STEPS_GRAD_W : DL_STEPS_W;
    code->workspace = panels * terms * width * lanes * bytes;
    code->scratch =
        (rows * (back ? 2 * stride + terms : 3 * stride) + TALL * width * lanes) * bytes;
    code->needs[DL_NEED_LOOPS] |= DL_LOOPS_RECURRENCE;
    return true;
}

/* Kernel IR -> C for the CPU: the sources' head, and which emitter serves a kernel. */
#include "compiler/emit_cpu.h"

#include "ir/base/foreign.h"

/* The texts of compiler/kernels/, embedded at build time (scripts/embed.py). */
extern const char dl_kernels_prelude[], dl_kernels_contract[], dl_kernels_fold[];

void dl_emit_prelude(dl_buf *out, const dl_target *t, bool contracts, unsigned grad_rows) {
    dl_putf(out,
            "#define LANES %d\n#define PANEL %d\n#define TILE_ROWS %d\n#define ROW_BLOCK %d\n#define K_BLOCK "
            "%d\n",
            t->lanes, t->panel, t->rows, DL_ROW_BLOCK, DL_K_BLOCK);
    dl_putf(out, "#define PACK_ROWS %d\n#define M_BLOCK %d\n#define GRAD_ROWS %u\n", DL_PACK_ROWS, DL_M_BLOCK,
            grad_rows);
    dl_puts(out, dl_kernels_prelude);
    if (!contracts) return;
    dl_puts(out, dl_kernels_contract);
    dl_puts(out, dl_kernels_fold);
}

bool dl_emit_kernel(dl_buf *out, const dl_kernel *k, const dl_target *t, dl_emitted *code, dl_error *err) {
    dl_emitter e = {.out = out, .k = k, .t = t, .lane_axis = -1};
    *code = (dl_emitted){0};
    if (!dl_is_c_name(k->name)) return dl_fail(err, DL_INPUT, "kernel @%s: not a name of C", k->name);
    dl_putf(out, "\n/* @%s", k->name);
    for (int i = 0; i < k->locs.n; i++) {
        dl_puts(out, " ");
        dl_put_foreign(out, DL_IN_COMMENT, k->locs.at[i].file);
        dl_putf(out, ":%d", k->locs.at[i].line);
    }
    dl_puts(out, " */\n");
    return dl_kernel_anchor(k) >= 0 ? dl_emit_contraction(&e, code, err) : dl_emit_pointwise(&e, code, err);
}

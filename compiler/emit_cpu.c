/* Kernel IR -> C for the CPU: the sources' head, and which emitter serves a kernel. */
#include "compiler/emit_cpu.h"

/* The texts of compiler/kernels/, embedded at build time (scripts/embed.py). */
extern const char dl_kernels_prelude[], dl_kernels_contract[], dl_kernels_fold[], dl_kernels_product[];

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
    dl_puts(out, dl_kernels_product);
}

/* What the loops around a contraction can address and compute. */
static bool check_contraction(const dl_kernel *k, const dl_kinstr *c, dl_error *err) {
    if (c->type != DL_F32)
        return dl_fail(err, DL_INPUT, "%s:%d: %s in %s; the CPU's kernels compute contractions in f32",
                       c->loc.file ? c->loc.file : k->name, c->loc.line, dl_ops[c->op].name,
                       dl_dtype_name(c->type));
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < c->nparts[o]; i++)
            if (dl_type_stored(&k->params.at[c->parts[o][i]].type) > INT32_MAX)
                return dl_fail(
                    err, DL_INPUT,
                    "%s:%d: an operand of %s has more than 2^31 elements; use a smaller batch or crop",
                    c->loc.file ? c->loc.file : k->name, c->loc.line, dl_ops[c->op].name);
    return true;
}

bool dl_emit_kernel(dl_buf *out, const dl_kernel *k, const dl_target *t, dl_emitted *code, dl_error *err) {
    dl_emitter e = {.out = out, .k = k, .t = t, .lane_axis = -1};
    *code = (dl_emitted){0};
    dl_putf(out, "\n/* @%s", k->name);
    for (int i = 0; i < k->locs.n; i++) dl_putf(out, " %s:%d", k->locs.at[i].file, k->locs.at[i].line);
    dl_puts(out, " */\n");
    int anchor = dl_kernel_anchor(k);
    if (anchor < 0) return dl_emit_pointwise(&e, code, err);
    if (!check_contraction(k, &k->instrs.at[anchor], err)) return false;
    return k->instrs.at[anchor].op == DL_OP_contract ? dl_emit_product(&e, code, err)
                                                     : dl_emit_contraction(&e, code, err);
}

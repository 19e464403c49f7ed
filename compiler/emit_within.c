/* Kernels that keep much and reduce little at each point that they keep, as windows of pooling do: each lane
 * adds up its own point's terms, one behind the other, and what stands behind the reductions follows at once.
 * No partial results go through memory. */
#include "compiler/emit_cpu.h"

#include <stdio.h>

enum {
    MOST_TERMS = 256,  /* in one chain of floats */
    LEAST_KEPT = 4096, /* with fewer points, partial results by unit use more threads */
    UNIT_TERMS = 65536 /* a unit's work */
};

/* The largest store behind the reductions that goes along all axes they keep. */
static const dl_kinstr *find_lead(const dl_kernel *k, unsigned reduced) {
    const dl_kinstr *lead = NULL;
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind != DL_K_STORE) continue;
        const dl_type *t = &k->params.at[in->param].type;
        unsigned axes = 0;
        for (int a = 0; a < t->rank; a++)
            if (in->index[a].axis >= 0) axes |= 1u << in->index[a].axis;
        for (int a = 0; a < k->nspace; a++)
            if (k->space[a].size == 1) axes |= 1u << a;
        bool all = (axes | reduced) == (1u << k->nspace) - 1 && !(t->layout.kind == DL_PANEL);
        if (all && (!lead || dl_type_count(t) > dl_type_count(&k->params.at[lead->param].type))) lead = in;
    }
    return lead;
}

/* The kept axes in order of the lead's memory, axes of one point that it leaves out first; the reduced ones
 * behind. */
static void choose_order(dl_emitter *e, const dl_kinstr *lead, unsigned reduced) {
    const dl_type *t = &e->k->params.at[lead->param].type;
    bool cl = t->layout.kind == DL_CL;
    unsigned seen = reduced;
    int order[DL_MAX_RANK], n = 0;
    for (int a = 0; a < t->rank; a++)
        if (lead->index[a].axis >= 0) seen |= 1u << lead->index[a].axis;
    for (int i = 0; i < e->k->nspace; i++)
        if (!(seen >> i & 1)) order[n++] = i;
    for (int a = 0; a < t->rank; a++)
        if (lead->index[a].axis >= 0 && !(cl && a == 1)) order[n++] = lead->index[a].axis;
    if (cl && lead->index[1].axis >= 0) order[n++] = lead->index[1].axis;
    for (int i = 0; i < e->k->nspace; i++)
        if (reduced >> i & 1) order[n++] = i;
    dl_emit_find_kept(e, order);
}

static bool fits(const dl_kernel *k, unsigned reduced) {
    int64_t terms = 1, kept = 1;
    for (int i = 0; i < k->nspace; i++) *(reduced >> i & 1 ? &terms : &kept) *= k->space[i].size;
    if (!reduced || terms > MOST_TERMS || kept < LEAST_KEPT) return false;
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->type == DL_F64 || in->type == DL_I64 || in->type == DL_I32) return false;
        if (in->kind == DL_K_STORE && i < dl_kernel_first_reduction(k)) return false;
    }
    return true;
}

/* All of one vector of kept points. */
static void put_points(dl_emitter *e, unsigned reduced) {
    const dl_kernel *k = e->k;
    int first = dl_kernel_first_reduction(k), behind = first;
    dl_putf(e->out, "INLINE void %s_point(char *const *arg, ", k->name);
    for (int i = 0; i < e->kept; i++) dl_putf(e->out, "long x%d, ", e->keep[i]);
    dl_puts(e->out, "long n) {\n    (void)arg, (void)n");
    for (int i = 0; i < e->kept; i++) dl_putf(e->out, ", (void)x%d", e->keep[i]);
    dl_puts(e->out, ";\n");
    while (behind < k->instrs.n && k->instrs.at[behind].kind == DL_K_REDUCE) behind++;
    for (int i = first; i < behind; i++) {
        dl_op op = k->instrs.at[i].op;
        dl_putf(e->out, "    vf v%d = splat(%s);\n", i,
                op == DL_OP_sum          ? "0"
                : op == DL_OP_reduce_max ? "-__builtin_inff()"
                                         : "__builtin_inff()");
    }
    for (int i = 0; i < k->nspace; i++)
        if (reduced >> i & 1)
            dl_putf(e->out, "    for (long x%d = 0; x%d < %lldL; x%d++)\n", i, i, (long long)k->space[i].size,
                    i);
    dl_puts(e->out, "    {\n");
    dl_emit_program(e, 0, first);
    for (int i = first; i < behind; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->op == DL_OP_sum)
            dl_putf(e->out, "    v%d += v%d;\n", i, in->args[0]);
        else
            dl_putf(e->out, "    v%d = v_%s(v%d, v%d);\n", i, in->op == DL_OP_reduce_max ? "max" : "min", i,
                    in->args[0]);
    }
    dl_puts(e->out, "    }\n");
    dl_emit_program(e, behind, k->instrs.n);
    dl_puts(e->out, "}\n");
}

bool dl_emit_within(dl_emitter *e, dl_emitted *code) {
    const dl_kernel *k = e->k;
    unsigned reduced = dl_kernel_reduced(k);
    const dl_kinstr *lead = fits(k, reduced) ? find_lead(k, reduced) : NULL;
    if (!lead) return false;
    choose_order(e, lead, reduced);
    e->mode = DL_LANES, e->lane_axis = e->keep[e->kept - 1];
    int64_t inner = k->space[e->lane_axis].size, rows = e->kept_count / inner, terms = inner, rest = rows;
    for (int i = 0; i < k->nspace; i++)
        if (reduced >> i & 1) terms *= k->space[i].size;
    int64_t each = terms < UNIT_TERMS ? UNIT_TERMS / (terms ? terms : 1) : 1;
    code->phases = 1, code->units[0] = dl_ceil_div(rows, each);
    put_points(e, reduced);
    dl_putf(e->out,
            "void %s_0(char *const *arg, long unit, char *scratch, char *workspace) {\n    (void)scratch, "
            "(void)workspace;\n    for (long row = unit * %lldL; row < (unit + 1) * %lldL && row < %lldL; "
            "row++) {\n",
            k->name, (long long)each, (long long)each, (long long)rows);
    for (int i = 0; i + 1 < e->kept; i++) {
        int64_t size = k->space[e->keep[i]].size;
        rest /= size;
        dl_putf(e->out, "        const long x%d = row / %lldL %% %lldL;\n", e->keep[i], (long long)rest,
                (long long)size);
    }
    const char *const counts[] = {"LANES", "n - i"};
    dl_putf(e->out,
            "        const long n = %lldL;\n        long i = 0;\n        for (; i + LANES <= n; i += LANES) ",
            (long long)inner);
    for (int part = 0; part < 2; part++) {
        dl_putf(e->out, "%s%s_point(arg, ", part ? "        if (i < n) " : "", k->name);
        for (int i = 0; i < e->kept; i++)
            if (i + 1 < e->kept)
                dl_putf(e->out, "x%d, ", e->keep[i]);
            else
                dl_puts(e->out, "i, ");
        dl_putf(e->out, "%s);\n", counts[part]);
    }
    dl_puts(e->out, "    }\n}\n");
    return true;
}

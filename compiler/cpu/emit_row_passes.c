/* One row of a resident reduction: each pass is a function of a point or a vector of points;
 * reductions are complete between passes. */
#include "compiler/cpu/emit_resident.h"

static const dl_kinstr *instr_of(const dl_cpu_resident *r, int i) { return &r->e->k->instrs.at[i]; }
static bool is_reduction_of_row(const dl_cpu_resident *r, int i) {
    return dl_emit_reduces_row(r->e, r->nest, i);
}

/* Is it a store, or a reduction over more than the row? */
static bool is_root(const dl_cpu_resident *r, int i) {
    return instr_of(r, i)->kind == DL_K_STORE ||
           (dl_emit_reduces_more(r->e, r->nest, i) && !r->passes.read[i]);
}

void dl_emit_row_mode(const dl_cpu_resident *r, bool points) {
    r->e->mode = r->lanes && (points || r->outer_lanes) ? DL_LANES : DL_SINGLE;
    r->e->lane_axis = r->e->mode == DL_LANES ? r->lane_axis : -1;
}

/* The accumulator type of a sum or maximum over the row. */
static const char *growing_type(const dl_cpu_resident *r, const dl_kinstr *in) {
    if (!r->lanes) return dl_emit_partial_type(in);
    return in->op == DL_OP_sum && !r->chains ? "struct sums" : "vf";
}

static void put_start(const dl_cpu_resident *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    const char *type = growing_type(r, in);
    if (!r->lanes)
        dl_putf(r->e->out, "    %s a%d = %s;\n", type, i, dl_emit_start(in));
    else if (in->op == DL_OP_sum)
        dl_putf(r->e->out, "    %s a%d = {0};\n", type, i);
    else
        dl_putf(r->e->out, "    vf a%d = splat(%s);\n", i, dl_emit_start(in));
}

static void put_growth(const dl_cpu_resident *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    dl_buf *out = r->e->out;
    const char *most = in->op == DL_OP_reduce_max ? "max" : "min";
    bool whole = r->outer_lanes || dl_emit_fills_vectors(r->e);
    if (!r->lanes && in->op == DL_OP_sum)
        dl_putf(out, "    *a%d += v%d;\n", i, in->args[0]);
    else if (!r->lanes)
        dl_putf(out, "    *a%d = %s(*a%d, v%d);\n", i, dl_emit_combine(in), i, in->args[0]);
    else if (in->op == DL_OP_sum && r->chains)
        dl_putf(out, "    *a%d += v%d;\n", i, in->args[0]);
    else if (in->op == DL_OP_sum)
        dl_putf(out,
                whole ? "    sum_in(a%d, v%d);\n"
                      : "    sum_in(a%d, n >= LANES ? v%d : keep(v%d, n));\n",
                i, in->args[0], in->args[0]);
    else if (whole)
        dl_putf(out, "    *a%d = v_%s(*a%d, v%d);\n", i, most, i, in->args[0]);
    else
        dl_putf(out,
                "    *a%d = v_%s(*a%d, n >= LANES ? v%d : v_pick(lane_numbers() < (int)n, v%d, "
                "*a%d));\n",
                i, most, i, in->args[0], in->args[0], i);
}

/* Writes the result of a reduction over the row. */
static void put_end(const dl_cpu_resident *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    const char *type = dl_emit_type(r->e, in->type);
    const char *of = !r->lanes             ? ""
                     : in->op != DL_OP_sum ? r->outer_lanes               ? ""
                                             : in->op == DL_OP_reduce_max ? "largest"
                                                                          : "smallest"
                     : r->chains           ? ""
                     : r->outer_lanes      ? "narrow"
                                           : "total";
    bool wide = !r->lanes || (in->op == DL_OP_sum && !r->chains);
    dl_cast c = dl_emit_rounding(r->e->mode, in->type, wide);
    if (!*c.open) c = (dl_cast){dl_format(r->e->arena, "(%s)", type), ""};
    dl_putf(r->e->out, "    const %s v%d = %s%s(a%d)%s;\n    (void)v%d;\n", type, i, c.open, of, i,
            c.close, i);
}

void dl_emit_row_coordinates(const dl_cpu_resident *r, bool inner, bool types) {
    for (int i = 0; i < r->nouter; i++)
        dl_putf(r->e->out, types ? "long x%d, " : "x%d, ", r->outer[i]);
    for (int i = 0; inner && i < r->ninner; i++)
        dl_putf(r->e->out, types ? "long x%d, " : "x%d, ", r->inner[i]);
}

/* Writes "const long x2 = 0;" for axes of size 1, and for axes that this loop does not have. */
static void put_zeros(const dl_cpu_resident *r, bool inner) {
    for (int i = 0; i < r->e->k->nspace; i++)
        if (!((r->nest->axes | (inner ? r->nest->row : 0)) >> i & 1))
            dl_putf(r->e->out, "    const long x%d = 0;\n    (void)x%d;\n", i, i);
        else
            dl_putf(r->e->out, "    (void)x%d;\n", i);
}

/* Does a pass use the row's value i? */
static bool uses_shared(const dl_cpu_resident *r, int pass, int i) {
    return r->passes.shared[i] && instr_of(r, i)->kind != DL_K_CONST && !is_root(r, i) &&
           r->passes.taken[pass][i];
}

static bool uses_saved(const dl_cpu_resident *r, int pass, int i) {
    return r->passes.saved[i] && r->e->nests.level[i] < pass && r->passes.taken[pass][i];
}

static bool grows_in(const dl_cpu_resident *r, int pass, int i) {
    return is_reduction_of_row(r, i) && r->passes.made[pass][i] && r->passes.pass[i] == pass;
}

/* Where vectors lie along the row, the row's values are passed as scalars. */
static void put_shared_values(const dl_cpu_resident *r, int pass, bool types) {
    for (int i = 0; i < r->e->k->instrs.n; i++) {
        if (!uses_shared(r, pass, i)) continue;
        if (types)
            dl_emit_row_mode(r, false),
                dl_putf(r->e->out, "%s r%d, ", dl_emit_type(r->e, instr_of(r, i)->type), i);
        else
            dl_putf(r->e->out, "v%d, ", i);
    }
    for (int i = 0; i < r->e->k->instrs.n; i++)
        if (grows_in(r, pass, i)) {
            if (types)
                dl_putf(r->e->out, "%s *a%d, ", growing_type(r, instr_of(r, i)), i);
            else
                dl_putf(r->e->out, "&a%d, ", i);
        }
}

static void put_pass_function(const dl_cpu_resident *r, int pass) {
    dl_emitter *e = r->e;
    dl_putf(e->out, "INLINE void %s_pass%d(char *const *arg, ", e->name, pass);
    dl_emit_row_coordinates(r, true, true);
    put_shared_values(r, pass, true);
    dl_puts(
        e->out,
        "long n, long at, double *sums, char *scratch, char *workspace) {\n    (void)arg, (void)n, "
        "(void)at, (void)sums, (void)scratch, (void)workspace;\n");
    put_zeros(r, true);
    dl_emit_row_mode(r, true);
    for (int i = 0; i < e->k->instrs.n; i++) {
        dl_dtype d = instr_of(r, i)->type;
        bool wide = e->mode == DL_LANES && !r->outer_lanes && d != DL_I64;
        if (uses_shared(r, pass, i))
            dl_putf(e->out, "    const %s v%d = %s%s(r%d);\n", dl_emit_type(e, d), i,
                    wide ? "splat" : "",
                    !wide          ? ""
                    : d == DL_I32  ? "_i"
                    : d == DL_BOOL ? "_b"
                                   : "",
                    i);
        if (uses_saved(r, pass, i))
            dl_putf(e->out, "    const %s v%d = *(const %s *)(scratch + %lldL + at * %d);\n",
                    dl_emit_type(e, d), i, dl_emit_type(e, d), (long long)r->at[i],
                    r->lanes ? 4 : 8);
        if (!r->passes.made[pass][i]) continue;
        if (is_reduction_of_row(r, i)) {
            if (grows_in(r, pass, i)) put_growth(r, i);
            continue;
        }
        if (r->passes.read[i])
            dl_emit_read(e, i);
        else
            dl_emit_instr(e, i);
        if (r->passes.saved[i] && e->nests.level[i] == pass)
            dl_putf(e->out, "    *(%s *)(scratch + %lldL + at * %d) = v%d;\n", dl_emit_type(e, d),
                    (long long)r->at[i], r->lanes ? 4 : 8, i);
    }
    dl_puts(e->out, "}\n");
}

static void put_call(const dl_cpu_resident *r, int pass, const char *n) {
    dl_emitter *e = r->e;
    dl_putf(e->out, "%s_pass%d(arg, ", e->name, pass);
    dl_emit_row_coordinates(r, true, false);
    put_shared_values(r, pass, false);
    dl_putf(e->out, "%s, at, sums, scratch, workspace)", n);
}

/* One pass over the row. */
static void put_pass(const dl_cpu_resident *r, int pass) {
    dl_emitter *e = r->e;
    bool along = r->lanes && !r->outer_lanes;
    int last = r->inner[r->ninner - 1], loops = along ? r->ninner - 1 : r->ninner;
    dl_puts(e->out, "    {\n        long at = 0;\n");
    for (int i = 0; i < loops; i++) {
        /* an axis that is collapsed with the next stays at 0 */
        int64_t size = e->k->space[r->inner[i]].size;
        while (i + 1 < loops && dl_emit_collapses(e, r->inner[i], r->inner[i + 1]))
            size *= e->k->space[r->inner[++i]].size;
        dl_putf(e->out, "        for (long x%d = 0; x%d < %lldL; x%d++)\n", r->inner[i],
                r->inner[i], (long long)size, r->inner[i]);
    }
    dl_puts(e->out, "        {\n");
    if (along) {
        int64_t size = e->k->space[last].size, whole = size / e->t->lanes * e->t->lanes;
        dl_putf(e->out, "            for (long x%d = 0; x%d < %lldL; x%d += LANES, at += LANES) ",
                last, last, (long long)whole, last);
        put_call(r, pass, "LANES");
        dl_puts(e->out, ";\n");
        if (size > whole) {
            dl_putf(e->out, "            const long x%d = %lldL;\n            ", last,
                    (long long)whole);
            dl_buf rest = {0};
            dl_putf(&rest, "%lldL", (long long)(size - whole));
            put_call(r, pass, rest.at);
            dl_buf_free(&rest);
            dl_puts(e->out, ", at += LANES;\n");
        }
    } else {
        dl_puts(e->out, "            ");
        put_call(r, pass, r->lanes ? "n" : "1");
        dl_putf(e->out, ", at += %s;\n", r->lanes ? "LANES" : "1");
    }
    dl_puts(e->out, "        }\n    }\n");
}

/* Writes the row's own values of a level, which the next pass may use. */
static void put_level(const dl_cpu_resident *r, int level) {
    dl_emitter *e = r->e;
    dl_emit_row_mode(r, false);
    for (int i = 0; i < r->nest->read.n && level == 0; i++)
        if (r->passes.shared[r->nest->read.at[i]]) dl_emit_read(e, r->nest->read.at[i]);
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        if (is_root(r, number) || !r->passes.shared[number] || e->nests.level[number] != level)
            continue;
        if (is_reduction_of_row(r, number))
            put_end(r, number);
        else
            dl_emit_instr(e, number), dl_putf(e->out, "    (void)v%d;\n", number);
    }
}

/* All of one row, or of the rows of n lanes. */
void dl_emit_row(const dl_cpu_resident *r) {
    dl_emitter *e = r->e;
    int levels = 0;
    for (int p = 0; p < r->passes.n; p++) put_pass_function(r, p);
    dl_putf(e->out, "INLINE void %s_row(char *const *arg, ", e->name);
    dl_emit_row_coordinates(r, false, true);
    dl_puts(e->out, "long n, double *sums, char *scratch, char *workspace) {\n    (void)arg, "
                    "(void)n, (void)sums, "
                    "(void)scratch, (void)workspace;\n");
    put_zeros(r, false);
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        if (is_reduction_of_row(r, number)) put_start(r, number);
        if (e->nests.level[number] > levels) levels = e->nests.level[number];
    }
    for (int level = 0; level <= levels; level++) {
        put_level(r, level);
        if (level < r->passes.n) put_pass(r, level);
    }
    dl_emit_row_mode(r, false);
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        if (is_root(r, number) && !(dl_emit_root_axes(r->e, number) & r->nest->row))
            dl_emit_instr(e, number);
    }
    dl_puts(e->out, "}\n");
}

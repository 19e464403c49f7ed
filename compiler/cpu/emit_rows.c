/* Sweeps over rows: at each point of the outer axes the whole row is gone over in several passes, one behind
 * the other, between which reductions over the row are known. What a pass made and a later one needs stays in
 * the thread's scratch, where it is not made again at once. No partial results go through memory.
 *
 * Vectors lie along an axis of the row, whose reductions then end in a sum over lanes; or along one of the
 * outer axes, where each lane has a row of its own. */
#include "compiler/cpu/emit_cpu.h"
#include "compiler/emit_passes.h"

enum { UNIT_POINTS = 16384 /* points a unit works on */ };

typedef struct {
    dl_emitter *e;
    const dl_sweep *sweep;
    int nouter, outer[DL_MAX_RANK], ninner, inner[DL_MAX_RANK]; /* outermost first */
    bool lanes, across;                                         /* vectors; along an outer axis */
    bool chains; /* sums are one float a lane: they are short */
    int lane_axis;
    unsigned wide; /* axes of other than one point */
    dl_row_passes passes;
    int64_t *at; /* by instruction: where in scratch what is saved lies, in bytes */
} rows;

static const dl_kinstr *instr_of(const rows *r, int i) { return &r->e->k->instrs.at[i]; }
static const dl_step *step_of(const rows *r, int i) { return &r->e->steps[i]; }

static bool is_reduction_of_row(const rows *r, int i) { return dl_emit_reduces_row(r->e, r->sweep, i); }

/* A store, or a reduction over more than the row. */
static bool is_root(const rows *r, int i) {
    return step_of(r, i)->kind == DL_K_STORE ||
           (dl_emit_reduces_more(r->e, r->sweep, i) && !r->passes.read[i]);
}

/* ---- which axis the vectors lie along ---- */

static const dl_type *touched(const rows *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    return in->kind == DL_K_LOAD || in->kind == DL_K_STORE ? &r->e->k->params.at[in->param].type : NULL;
}

/* The axis along which an access finds neighbours in memory, or -1. */
static int neighbours(const rows *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    const dl_type *t = touched(r, i);
    int64_t stride[DL_MAX_RANK];
    if (!t || t->layout.kind == DL_PANEL) return -1;
    dl_type_strides(t, stride);
    for (int a = 0; a < t->rank; a++) {
        int axis = in->index[a].axis;
        for (int k = 0; k < in->index[a].nterms; k++)
            if (in->index[a].term[k].div == 1 && in->index[a].term[k].mul == 1)
                axis = in->index[a].term[k].axis;
        if (axis >= 0 && r->wide >> axis & 1 && stride[a] == 1) return axis;
    }
    return -1;
}

/* The axis that most accesses find neighbours along, by points; a short one leaves lanes idle. */
static int choose_lanes(const rows *r) {
    const dl_kernel *k = r->e->k;
    unsigned mine = r->sweep->axes | r->sweep->row;
    int64_t most = 0;
    int best = -1;
    for (int a = 0; a < k->nspace; a++) {
        int64_t points = 0;
        for (int i = 0; i < r->sweep->run.n; i++)
            if (neighbours(r, r->sweep->run.at[i]) == a)
                points += dl_axes_points(k->nspace, k->space, step_of(r, r->sweep->run.at[i])->axes);
        if (k->space[a].size < r->e->t->lanes) points = points / r->e->t->lanes * k->space[a].size;
        if (mine >> a & 1 && points > most) most = points, best = a;
    }
    return best;
}

static bool can_have_lanes(const rows *r) {
    if (!dl_emit_has_lanes(r->e, r->sweep)) return false;
    for (int i = 0; i < r->sweep->run.n; i++) {
        int number = r->sweep->run.at[i];
        const dl_kinstr *in = instr_of(r, number);
        bool sum = in->op == DL_OP_sum && dl_emit_is_float(in->type);
        if (touched(r, number) && touched(r, number)->layout.kind == DL_PANEL) return false;
        if (step_of(r, number)->kind == DL_K_REDUCE &&
            !(is_reduction_of_row(r, number) ? dl_emit_is_float(in->type) : sum))
            return false;
    }
    return true;
}

/* Orders the axes: as they are, that of the lanes last. */
static void order_axes(rows *r) {
    const dl_kernel *k = r->e->k;
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < k->nspace; i++) {
            if ((i == r->lane_axis) != last) continue;
            if (r->sweep->row >> i & 1)
                r->inner[r->ninner++] = i;
            else if (r->sweep->axes >> i & 1)
                r->outer[r->nouter++] = i;
        }
}

static void find_scratch(rows *r, dl_emitted *code) {
    const dl_kernel *k = r->e->k;
    int64_t points = 1, bytes = 0;
    for (int i = 0; i < r->ninner; i++) {
        int64_t size = k->space[r->inner[i]].size, lanes = r->lanes ? r->e->t->lanes : 1;
        points *= i + 1 < r->ninner || r->across ? size : dl_ceil_div(size, lanes) * lanes;
    }
    if (r->across) points *= r->e->t->lanes;
    for (int i = 0; i < k->instrs.n; i++) {
        if (!r->passes.saved[i]) continue;
        r->at[i] = bytes;
        bytes += dl_plan_round(points * (r->lanes ? 4 : 8));
    }
    if (bytes > code->scratch) code->scratch = bytes;
}

/* ---- text ---- */

static void set_mode(const rows *r, bool points) {
    r->e->mode = r->lanes && (points || r->across) ? DL_LANES : DL_SINGLE;
    r->e->lane_axis = r->e->mode == DL_LANES ? r->lane_axis : -1;
}

/* What a sum or largest of the row is kept in while it grows. */
static const char *growing_type(const rows *r, const dl_kinstr *in) {
    if (!r->lanes) return dl_emit_partial_type(in);
    return in->op == DL_OP_sum && !r->chains ? "struct sums" : "vf";
}

static void put_start(const rows *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    const char *type = growing_type(r, in);
    if (!r->lanes)
        dl_putf(r->e->out, "    %s a%d = %s;\n", type, i, dl_emit_start(in));
    else if (in->op == DL_OP_sum)
        dl_putf(r->e->out, "    %s a%d = {0};\n", type, i);
    else
        dl_putf(r->e->out, "    vf a%d = splat(%s);\n", i, dl_emit_start(in));
}

static void put_growth(const rows *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    dl_buf *out = r->e->out;
    const char *most = in->op == DL_OP_reduce_max ? "max" : "min";
    bool whole = r->across || dl_emit_is_whole(r->e);
    if (!r->lanes && in->op == DL_OP_sum)
        dl_putf(out, "    *a%d += v%d;\n", i, in->args[0]);
    else if (!r->lanes)
        dl_putf(out, "    *a%d = %s(*a%d, v%d);\n", i, dl_emit_combine(in), i, in->args[0]);
    else if (in->op == DL_OP_sum && r->chains)
        dl_putf(out, "    *a%d += v%d;\n", i, in->args[0]);
    else if (in->op == DL_OP_sum)
        dl_putf(out,
                whole ? "    sum_in(a%d, v%d);\n" : "    sum_in(a%d, n >= LANES ? v%d : keep(v%d, n));\n", i,
                in->args[0], in->args[0]);
    else if (whole)
        dl_putf(out, "    *a%d = v_%s(*a%d, v%d);\n", i, most, i, in->args[0]);
    else
        dl_putf(out,
                "    *a%d = v_%s(*a%d, n >= LANES ? v%d : v_pick(lane_numbers() < (int)n, v%d, *a%d));\n", i,
                most, i, in->args[0], in->args[0], i);
}

/* The value of a reduction of the row. */
static void put_end(const rows *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    const char *type = dl_emit_type(r->e, in->type);
    const char *of = !r->lanes             ? ""
                     : in->op != DL_OP_sum ? r->across                    ? ""
                                             : in->op == DL_OP_reduce_max ? "largest"
                                                                          : "smallest"
                     : r->chains           ? ""
                     : r->across           ? "narrow"
                                           : "total";
    bool wide = !r->lanes || (in->op == DL_OP_sum && !r->chains);
    dl_cast c = dl_emit_rounding(r->e->mode, in->type, wide);
    if (!*c.open) c = (dl_cast){dl_format(r->e->arena, "(%s)", type), ""};
    dl_putf(r->e->out, "    const %s v%d = %s%s(a%d)%s;\n    (void)v%d;\n", type, i, c.open, of, i, c.close,
            i);
}

static void put_coordinates(const rows *r, bool inner, bool types) {
    for (int i = 0; i < r->nouter; i++) dl_putf(r->e->out, types ? "long x%d, " : "x%d, ", r->outer[i]);
    for (int i = 0; inner && i < r->ninner; i++)
        dl_putf(r->e->out, types ? "long x%d, " : "x%d, ", r->inner[i]);
}

/* "const long x2 = 0;" for the axes of one point, and of none here. */
static void put_zeros(const rows *r, bool inner) {
    for (int i = 0; i < r->e->k->nspace; i++)
        if (!((r->sweep->axes | (inner ? r->sweep->row : 0)) >> i & 1))
            dl_putf(r->e->out, "    const long x%d = 0;\n    (void)x%d;\n", i, i);
        else
            dl_putf(r->e->out, "    (void)x%d;\n", i);
}

/* Does a pass use the row's value i? */
static bool uses_shared(const rows *r, int pass, int i) {
    return r->passes.shared[i] && instr_of(r, i)->kind != DL_K_CONST && !is_root(r, i) &&
           r->passes.taken[pass][i];
}

static bool uses_saved(const rows *r, int pass, int i) {
    return r->passes.saved[i] && r->e->sweeps.level[i] < pass && r->passes.taken[pass][i];
}

static bool grows_in(const rows *r, int pass, int i) {
    return is_reduction_of_row(r, i) && r->passes.made[pass][i] && r->passes.pass[i] == pass;
}

/* In vectors along the row, the row's values come as single ones. */
static void put_shared_values(const rows *r, int pass, bool types) {
    for (int i = 0; i < r->e->k->instrs.n; i++) {
        if (!uses_shared(r, pass, i)) continue;
        if (types)
            set_mode(r, false), dl_putf(r->e->out, "%s r%d, ", dl_emit_type(r->e, instr_of(r, i)->type), i);
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

static void put_pass_function(const rows *r, int pass) {
    dl_emitter *e = r->e;
    dl_putf(e->out, "INLINE void %s_pass%d(char *const *arg, ", e->name, pass);
    put_coordinates(r, true, true);
    put_shared_values(r, pass, true);
    dl_puts(e->out,
            "long n, long at, double *sums, char *scratch, char *workspace) {\n    (void)arg, (void)n, "
            "(void)at, (void)sums, (void)scratch, (void)workspace;\n");
    put_zeros(r, true);
    set_mode(r, true);
    for (int i = 0; i < e->k->instrs.n; i++) {
        dl_dtype d = instr_of(r, i)->type;
        bool wide = e->mode == DL_LANES && !r->across && d != DL_I64;
        if (uses_shared(r, pass, i))
            dl_putf(e->out, "    const %s v%d = %s%s(r%d);\n", dl_emit_type(e, d), i, wide ? "splat" : "",
                    !wide          ? ""
                    : d == DL_I32  ? "_i"
                    : d == DL_BOOL ? "_b"
                                   : "",
                    i);
        if (uses_saved(r, pass, i))
            dl_putf(e->out, "    const %s v%d = *(const %s *)(scratch + %lldL + at * %d);\n",
                    dl_emit_type(e, d), i, dl_emit_type(e, d), (long long)r->at[i], r->lanes ? 4 : 8);
        if (!r->passes.made[pass][i]) continue;
        if (is_reduction_of_row(r, i)) {
            if (grows_in(r, pass, i)) put_growth(r, i);
            continue;
        }
        if (r->passes.read[i])
            dl_emit_read(e, i);
        else
            dl_emit_instr(e, i);
        if (r->passes.saved[i] && e->sweeps.level[i] == pass)
            dl_putf(e->out, "    *(%s *)(scratch + %lldL + at * %d) = v%d;\n", dl_emit_type(e, d),
                    (long long)r->at[i], r->lanes ? 4 : 8, i);
    }
    dl_puts(e->out, "}\n");
}

static void put_call(const rows *r, int pass, const char *n) {
    dl_emitter *e = r->e;
    dl_putf(e->out, "%s_pass%d(arg, ", e->name, pass);
    put_coordinates(r, true, false);
    put_shared_values(r, pass, false);
    dl_putf(e->out, "%s, at, sums, scratch, workspace)", n);
}

/* One pass over the row. */
static void put_pass(const rows *r, int pass) {
    dl_emitter *e = r->e;
    bool along = r->lanes && !r->across;
    int last = r->inner[r->ninner - 1], loops = along ? r->ninner - 1 : r->ninner;
    dl_puts(e->out, "    {\n        long at = 0;\n");
    for (int i = 0; i < loops; i++) {
        int64_t size = e->k->space[r->inner[i]].size; /* an axis that joins the next stays at 0 */
        while (i + 1 < loops && dl_emit_joins(e, r->inner[i], r->inner[i + 1]))
            size *= e->k->space[r->inner[++i]].size;
        dl_putf(e->out, "        for (long x%d = 0; x%d < %lldL; x%d++)\n", r->inner[i], r->inner[i],
                (long long)size, r->inner[i]);
    }
    dl_puts(e->out, "        {\n");
    if (along) {
        int64_t size = e->k->space[last].size, whole = size / e->t->lanes * e->t->lanes;
        dl_putf(e->out, "            for (long x%d = 0; x%d < %lldL; x%d += LANES, at += LANES) ", last, last,
                (long long)whole, last);
        put_call(r, pass, "LANES");
        dl_puts(e->out, ";\n");
        if (size > whole) {
            dl_putf(e->out, "            const long x%d = %lldL;\n            ", last, (long long)whole);
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

/* The row's own values of a level: what the next pass may use. */
static void put_level(const rows *r, int level) {
    dl_emitter *e = r->e;
    set_mode(r, false);
    for (int i = 0; i < r->sweep->read.n && level == 0; i++)
        if (r->passes.shared[r->sweep->read.at[i]]) dl_emit_read(e, r->sweep->read.at[i]);
    for (int i = 0; i < r->sweep->run.n; i++) {
        int number = r->sweep->run.at[i];
        if (is_root(r, number) || !r->passes.shared[number] || e->sweeps.level[number] != level) continue;
        if (is_reduction_of_row(r, number))
            put_end(r, number);
        else
            dl_emit_instr(e, number), dl_putf(e->out, "    (void)v%d;\n", number);
    }
}

/* All of one row, or of the rows of n lanes. */
static void put_row_function(const rows *r) {
    dl_emitter *e = r->e;
    int levels = 0;
    for (int p = 0; p < r->passes.n; p++) put_pass_function(r, p);
    dl_putf(e->out, "INLINE void %s_row(char *const *arg, ", e->name);
    put_coordinates(r, false, true);
    dl_puts(e->out,
            "long n, double *sums, char *scratch, char *workspace) {\n    (void)arg, (void)n, (void)sums, "
            "(void)scratch, (void)workspace;\n");
    put_zeros(r, false);
    for (int i = 0; i < r->sweep->run.n; i++) {
        int number = r->sweep->run.at[i];
        if (is_reduction_of_row(r, number)) put_start(r, number);
        if (e->sweeps.level[number] > levels) levels = e->sweeps.level[number];
    }
    for (int level = 0; level <= levels; level++) {
        put_level(r, level);
        if (level < r->passes.n) put_pass(r, level);
    }
    set_mode(r, false);
    for (int i = 0; i < r->sweep->run.n; i++) {
        int number = r->sweep->run.at[i];
        if (is_root(r, number) && !(dl_emit_root_axes(r->e, number) & r->sweep->row))
            dl_emit_instr(e, number);
    }
    dl_puts(e->out, "}\n");
}

static void put_row_call(const rows *r, const char *n) {
    dl_putf(r->e->out, "%s_row(arg, ", r->e->name);
    put_coordinates(r, false, false);
    dl_putf(r->e->out, "%s, sums, scratch, workspace);\n", n);
}

/* Units of `each` rows; across, `group` lanes of a row at a time count as one. */
static void put_units(const rows *r, int64_t each, int64_t count, int64_t group) {
    dl_emitter *e = r->e;
    dl_putf(e->out, "    for (long row = unit * %lldL; row < (unit + 1) * %lldL && row < %lldL; row++) {\n",
            (long long)each, (long long)each, (long long)count);
    dl_emit_split(e, "row", count, r->nouter - r->across, r->outer);
    if (!r->across) {
        dl_puts(e->out, "        "), put_row_call(r, "1");
    } else {
        int64_t size = e->k->space[r->lane_axis].size;
        int x = r->lane_axis;
        dl_putf(
            e->out,
            "        long x%d = row %% %lldL * %lldL;\n        const long to = x%d + %lldL < %lldL ? x%d + "
            "%lldL : %lldL;\n",
            x, (long long)dl_ceil_div(size, group), (long long)group, x, (long long)group, (long long)size, x,
            (long long)group, (long long)size);
        dl_putf(e->out, "        for (; x%d + LANES <= to; x%d += LANES) ", x, x);
        put_row_call(r, "LANES");
        if (size % e->t->lanes) {
            dl_buf n = {0};
            dl_putf(&n, "to - x%d", x);
            dl_putf(e->out, "        if (x%d < to) ", x);
            put_row_call(r, n.at);
            dl_buf_free(&n);
        }
    }
    dl_puts(e->out, "    }\n}\n");
}

int64_t dl_emit_rows(dl_emitter *e, dl_emitted *code) {
    const dl_kernel *k = e->k;
    rows r = {.e = e, .sweep = e->now, .lane_axis = -1, .at = DL_NEWS(e->arena, int64_t, k->instrs.n + 1)};
    r.passes = dl_emit_find_passes(e, e->now, true, true);
    for (int i = 0; i < k->nspace; i++) r.wide |= k->space[i].size != 1 ? 1u << i : 0;
    e->flat = false;
    if (can_have_lanes(&r)) {
        r.lane_axis = choose_lanes(&r);
        r.lanes = r.lane_axis >= 0;
        r.across = r.lanes && e->now->axes >> r.lane_axis & 1;
    }
    order_axes(&r);
    int64_t points = dl_axes_points(k->nspace, k->space, e->now->row),
            count = dl_axes_points(k->nspace, k->space, e->now->axes);
    r.chains = r.across && points <= DL_CHAIN;
    int64_t group = 1;
    if (r.across) {
        int64_t size = k->space[r.lane_axis].size,
                vectors = UNIT_POINTS / (points ? points : 1) / e->t->lanes;
        group = vectors > 1 ? vectors * e->t->lanes : e->t->lanes;
        if (group > size) group = dl_ceil_div(size, e->t->lanes) * e->t->lanes;
        count = count / size * dl_ceil_div(size, group), points *= group;
    }
    find_scratch(&r, code);

    int order[DL_MAX_RANK], norder = 0;
    for (int i = 0; i < r.nouter - r.across; i++) order[norder++] = r.outer[i];
    for (int i = 0; i < r.ninner; i++) order[norder++] = r.inner[i];
    if (r.across) order[norder++] = r.lane_axis;
    set_mode(&r, true);
    int64_t partial = dl_emit_find_partial(e, norder, order),
            each = points < UNIT_POINTS ? UNIT_POINTS / (points ? points : 1) : 1,
            units = dl_ceil_div(count, each), most = partial ? (1 << 20) / partial : units;
    if (most < 16) most = 16;
    if (units > most) units = most;
    if (units < 1) units = 1;
    each = dl_ceil_div(count, units);
    put_row_function(&r);
    set_mode(&r, true);
    dl_emit_sweep_head(e);
    dl_emit_unit_sums(e, units, code);
    put_units(&r, each, count, group);
    return units;
}

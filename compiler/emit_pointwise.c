/* Kernels without a contraction: a loop nest, its innermost axis in vectors where the types allow. */
#include "compiler/emit_cpu.h"

#include <stdio.h>

enum {
    UNIT_POINTS = 16384
}; /* points a unit works on: some 20 us, and never dependent on the number of threads */

/* The loop over the space. It runs the instructions [0, end) at every point and takes what they compute into
 * the reductions; it is these instructions alone that decide how the loop goes. What stands behind the
 * reductions runs on the axes that they keep, in a phase of its own (dl_emit_reduced_phase), and reads other
 * places. */
typedef struct {
    const dl_kernel *k;
    int end;
    unsigned reduced; /* space axes that the reductions remove */
    const dl_type
        *flat; /* how all that the loop touches lies when it goes straight through memory, or NULL */
    int order[DL_MAX_RANK]; /* space axes, outermost first */
    int64_t rows, inner;    /* product of the outer axes; size of the innermost, or all of memory when flat */
    int64_t inner_chunk;    /* points of the innermost axis a unit takes when one row is long */
} nest;

/* The type that instruction `i` of the loop reads or writes, or NULL when it touches no memory. */
static const dl_type *touched(const nest *s, int i) {
    const dl_kinstr *in = &s->k->instrs.at[i];
    return in->kind == DL_K_LOAD || in->kind == DL_K_STORE ? &s->k->params.at[in->param].type : NULL;
}

/* The space axes that an access follows, a bit each; 0 when it follows one twice or leaves out one that has
 * more than one point. */
static unsigned followed(const nest *s, const dl_type *t, const dl_index *at) {
    unsigned axes = 0;
    for (int a = 0; a < t->rank; a++) {
        unsigned bit = at[a].axis >= 0 ? 1u << at[a].axis : 0;
        if ((axes & bit) || at[a].by || at[a].nterms || at[a].div > 1) return 0;
        axes |= bit;
    }
    for (int i = 0; i < s->k->nspace; i++)
        if (!(axes >> i & 1) && s->k->space[i].size != 1) return 0;
    return axes;
}

/* Are random numbers drawn by the number of the point, or the same one at all points? */
static bool counts_points(const dl_kernel *k, const dl_kinstr *in) {
    bool same = true, counts = true;
    int64_t step = 1;
    for (int i = k->nspace - 1; i >= 0; step *= k->space[i--].size) {
        same = same && !in->along[i];
        counts = counts && (in->along[i] == step || k->space[i].size == 1);
    }
    return same || counts;
}

/* All of the loop runs straight through memory: equal layouts, every point at its own place. Scalars may be
 * read beside it; a sum must not see the fill of a panel. */
static const dl_type *find_flat(const nest *s) {
    const dl_kernel *k = s->k;
    const dl_type *first = NULL;
    bool draws = false, numbered = true; /* random numbers, by points in the order of rows */
    if (s->reduced && s->reduced != (1u << k->nspace) - 1) return NULL;
    for (int i = 0; i < s->end; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        const dl_type *t = touched(s, i);
        if (in->kind == DL_K_COORD) return NULL;
        if (in->kind == DL_K_RANDOM) numbered = numbered && counts_points(k, in), draws = true;
        if (!t || !t->rank) continue;
        if (t->rank != k->nspace) return NULL;
        for (int a = 0; a < t->rank; a++) {
            bool follows = in->index[a].axis == a || (in->index[a].axis < 0 && k->space[a].size == 1);
            if (!follows || in->index[a].by || in->index[a].nterms || in->index[a].offset ||
                in->index[a].div > 1 || t->axis[a].size != k->space[a].size)
                return NULL;
        }
        if (first && !dl_layout_same(first->layout, t->layout)) return NULL;
        first = t;
    }
    if (draws && (!numbered || !first || first->layout.kind != DL_ROW)) return NULL;
    return first && s->reduced && dl_type_stored(first) != dl_type_count(first) ? NULL : first;
}

/* Vectors need types that have them, accesses inside their bounds, strided layouts, and sums of f32 as
 * reductions. */
static bool is_vector(const nest *s) {
    const dl_kernel *k = s->k;
    if (!dl_emit_has_lanes(k, s->end)) return false;
    for (int i = 0; i < s->end && !s->flat; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        const dl_type *t = touched(s, i);
        if (!t) continue;
        if (t->layout.kind == DL_PANEL) return false;
        for (int a = 0; a < t->rank; a++) {
            if (!dl_index_inside(k->space, &in->index[a], t->axis[a].size)) return false;
        }
    }
    for (int i = s->end; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind == DL_K_REDUCE && (in->op != DL_OP_sum || in->type != DL_F32)) return false;
    }
    return true;
}

/* The axes in order of the memory of the largest access that follows all of them, stores before loads; axes
 * of one point that it leaves out stand outside. */
static void choose_order(nest *s) {
    const dl_type *lead = NULL;
    const dl_index *at = NULL;
    unsigned axes = 0;
    for (int i = s->end - 1; i >= 0; i--) {
        const dl_type *t = touched(s, i);
        const dl_index *index = s->k->instrs.at[i].index;
        unsigned follows = t && t->layout.kind != DL_PANEL ? followed(s, t, index) : 0;
        if (follows && (!lead || dl_type_count(t) > dl_type_count(lead)))
            lead = t, at = index, axes = follows;
    }
    bool cl = lead && lead->layout.kind == DL_CL;
    int n = 0;
    for (int i = 0; i < s->k->nspace; i++)
        if (!(axes >> i & 1)) s->order[n++] = i;
    for (int i = 0; lead && i < lead->rank; i++)
        if (at[i].axis >= 0 && !(cl && i == 1)) s->order[n++] = at[i].axis;
    if (cl && at[1].axis >= 0) s->order[n] = at[1].axis;
}

/* The scalar program at one place, for `n` lanes (or one point). */
static void put_point_function(dl_emitter *e) {
    dl_putf(e->out, "INLINE void %s_point(char *const *arg, ", e->k->name);
    for (int i = 0; i < (e->flat ? 1 : e->k->nspace); i++) dl_putf(e->out, "long x%d, ", i);
    dl_puts(e->out, "long n, double *sums) {\n    (void)arg, (void)n, (void)sums");
    for (int i = 0; i < (e->flat ? 1 : e->k->nspace); i++) dl_putf(e->out, ", (void)x%d", i);
    dl_puts(e->out, ";\n");
    int end = dl_kernel_first_reduction(e->k);
    while (end < e->k->instrs.n && e->k->instrs.at[end].kind == DL_K_REDUCE) end++;
    dl_emit_program(e, 0, end);
    dl_puts(e->out, "}\n");
}

static void put_call(dl_emitter *e, const char *lane, const char *count) {
    dl_putf(e->out, "%s_point(arg, ", e->k->name);
    for (int i = 0; i < (e->flat ? 1 : e->k->nspace); i++)
        if (e->flat || i == e->lane_axis)
            dl_putf(e->out, "%s, ", lane);
        else
            dl_putf(e->out, "x%d, ", i);
    dl_putf(e->out, "%s, sums);\n", count);
}

static void put_inner_loop(dl_emitter *e, const char *from, const char *to) {
    int step = e->mode == DL_LANES ? e->t->lanes : 1;
    if (step == 1) {
        dl_putf(e->out, "        for (long i = %s; i < %s; i++) ", from, to);
        put_call(e, "i", "1");
        return;
    }
    dl_putf(e->out, "        long i = %s;\n        for (; i + LANES <= %s; i += LANES) ", from, to);
    put_call(e, "i", "LANES");
    dl_putf(e->out, "        if (i < %s) ", to);
    dl_buf rest = {0};
    dl_putf(&rest, "%s - i", to);
    put_call(e, "i", rest.at);
    dl_buf_free(&rest);
}

static void plan_units(nest *s, dl_emitted *code) {
    s->inner_chunk = s->rows == 1 ? UNIT_POINTS : s->inner;
    int64_t each = s->inner ? UNIT_POINTS / s->inner : 1;
    if (each < 1) each = 1;
    code->units[0] =
        s->rows == 1 ? (s->inner + s->inner_chunk - 1) / s->inner_chunk : (s->rows + each - 1) / each;
}

static nest plan_nest(dl_emitter *e) {
    const dl_kernel *k = e->k;
    nest s = {.k = k, .end = dl_kernel_first_reduction(k), .reduced = dl_kernel_reduced(k)};
    s.flat = k->nspace ? find_flat(&s) : NULL;
    s.rows = s.inner = 1;
    choose_order(&s);
    e->flat = s.flat != NULL;
    e->mode = k->nspace && is_vector(&s) ? DL_LANES : DL_SINGLE;
    e->lane_axis = e->flat || !k->nspace ? -1 : s.order[k->nspace - 1];
    if (e->flat) {
        s.inner = dl_type_stored(s.flat);
        return s;
    }
    for (int i = 0; i + 1 < k->nspace; i++) s.rows *= k->space[s.order[i]].size;
    if (k->nspace) s.inner = k->space[s.order[k->nspace - 1]].size;
    return s;
}

bool dl_emit_pointwise(dl_emitter *e, dl_emitted *code, dl_error *err) {
    (void)err;
    const dl_kernel *k = e->k;
    if (dl_emit_within(e, code)) return true;
    nest s = plan_nest(e);
    plan_units(&s, code);
    dl_emit_find_kept(e, s.order);

    /* Many small partial results cost more than they gain: a reduction into much uses few units. */
    int64_t partial = dl_emit_partial(e), most = partial ? (1 << 20) / partial : code->units[0];
    if (most < 16) most = 16;
    if (code->units[0] > most) code->units[0] = most;
    if (code->units[0] < 1) code->units[0] = 1;
    int64_t each = (s.rows + code->units[0] - 1) / code->units[0];
    if (s.rows == 1) s.inner_chunk = ((s.inner + code->units[0] - 1) / code->units[0] + 63) / 64 * 64;
    code->phases = 1;

    put_point_function(e);
    dl_putf(e->out,
            "void %s_0(char *const *arg, long unit, char *scratch, char *workspace) {\n    (void)scratch, "
            "(void)workspace;\n",
            k->name);
    dl_putf(e->out, "    double *sums = (double *)workspace + unit * %lldL;\n    (void)sums;\n",
            (long long)partial);
    if (partial) dl_emit_clear_sums(e);
    if (s.rows == 1) {
        dl_putf(e->out, "    long from = unit * %lldL, to = from + %lldL < %lldL ? from + %lldL : %lldL;\n",
                (long long)s.inner_chunk, (long long)s.inner_chunk, (long long)s.inner,
                (long long)s.inner_chunk, (long long)s.inner);
        for (int i = 0; !e->flat && i + 1 < k->nspace; i++)
            dl_putf(e->out, "    const long x%d = 0;\n", s.order[i]);
        dl_puts(e->out, "    {\n");
        put_inner_loop(e, "from", "to");
        dl_puts(e->out, "    }\n}\n");
    } else {
        dl_putf(e->out,
                "    for (long row = unit * %lldL; row < (unit + 1) * %lldL && row < %lldL; row++) {\n",
                (long long)each, (long long)each, (long long)s.rows);
        int64_t rest = s.rows;
        for (int i = 0; i + 1 < k->nspace; i++) {
            int64_t size = k->space[s.order[i]].size;
            rest /= size ? size : 1;
            dl_putf(e->out, "        const long x%d = row / %lldL %% %lldL;\n", s.order[i], (long long)rest,
                    (long long)(size ? size : 1));
        }
        char inner[32];
        snprintf(inner, sizeof inner, "%lldL", (long long)s.inner);
        put_inner_loop(e, "0", inner);
        dl_puts(e->out, "    }\n}\n");
    }
    code->workspace = partial * code->units[0] * (int64_t)sizeof(double);
    if (s.reduced) dl_emit_reduced_phase(e, code->units[0], 0, code);
    return true;
}

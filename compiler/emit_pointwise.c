/* Kernels without a contraction: a loop nest, its innermost axis in vectors where the types allow. */
#include "compiler/emit_cpu.h"

#include <stdio.h>

enum {
    UNIT_POINTS = 16384
}; /* points a unit works on: some 20 us, and never dependent on the number of threads */

typedef struct {
    int order[DL_MAX_RANK]; /* space axes, outermost first */
    int64_t rows, inner;    /* product of the outer axes; size of the innermost */
    int64_t inner_chunk;    /* points of the innermost axis a unit takes when one row is long */
} nest;

/* The parameter that decides the order of the loops: the largest of full rank, outputs before inputs. */
static const dl_type *leading_type(const dl_kernel *k) {
    const dl_type *best = NULL;
    for (int i = k->params.n - 1; i >= 0; i--) {
        const dl_type *t = &k->params.at[i].type;
        if (t->rank == k->nspace && t->layout.kind != DL_PANEL &&
            (!best || dl_type_count(t) > dl_type_count(best)))
            best = t;
    }
    return best;
}

/* All of the kernel runs straight through memory: equal layouts, points read where they are written. */
static bool is_flat(const dl_kernel *k, unsigned reduced) {
    const dl_type *first = NULL;
    bool all_reduced = reduced && reduced == (1u << k->nspace) - 1;
    if (reduced && !all_reduced) return false;
    int behind = dl_emit_reduce_at(k);
    for (int i = 0; i < behind; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind == DL_K_COORD) return false;
        if (in->kind != DL_K_LOAD && in->kind != DL_K_STORE) continue;
        const dl_type *t = &k->params.at[in->param].type;
        for (int a = 0; a < t->rank; a++)
            if (in->index[a].axis != a || in->index[a].offset || t->axis[a].size != k->space[a].size)
                return false;
        if (!t->rank) continue;
        if (t->rank != k->nspace) return false;
        if (first && !dl_layout_same(first->layout, t->layout)) return false;
        first = t;
    }
    if (!first) return false;
    return !reduced ||
           dl_type_stored(first) == dl_type_count(first); /* a sum must not see the fill of a panel */
}

/* Vectors need f32 parameters, accesses inside their bounds, and strided layouts. */
static bool is_vector(const dl_kernel *k, bool flat) {
    int behind = dl_emit_reduce_at(k);
    for (int i = 0; i < behind; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind != DL_K_LOAD && in->kind != DL_K_STORE) continue;
        const dl_type *t = &k->params.at[in->param].type;
        if (t->rank && t->dtype != DL_F32) return false;
        if (flat) continue;
        if (t->layout.kind == DL_PANEL) return false;
        for (int a = 0; a < t->rank; a++) {
            int64_t size = in->index[a].axis < 0 ? 1 : k->space[in->index[a].axis].size;
            if (in->index[a].offset < 0 || in->index[a].offset + size > t->axis[a].size) return false;
        }
    }
    for (int i = 0; i < k->instrs.n; i++)
        if (k->instrs.at[i].kind == DL_K_REDUCE && k->instrs.at[i].op != DL_OP_sum) return false;
    return true;
}

static bool is_wide(const dl_kernel *k) {
    for (int i = 0; i < k->instrs.n; i++) {
        dl_dtype d = k->instrs.at[i].type;
        if (d == DL_F64 || d == DL_I64 || d == DL_I32) return true;
    }
    return false;
}

static void choose_order(const dl_kernel *k, int *order) {
    const dl_type *lead = leading_type(k);
    int at[DL_MAX_RANK], n = 0;
    for (int i = 0; lead && i < lead->rank;
         i++) { /* by the space axis that each axis of the leading type follows */
        at[i] = -1;
        for (int s = 0; s < k->nspace; s++)
            if (k->space[s].name == lead->axis[i].name) at[i] = s;
        if (at[i] < 0) lead = NULL;
    }
    bool cl = lead && lead->layout.kind == DL_CL;
    for (int i = 0; i < k->nspace; i++)
        if (!cl || i != 1) order[n++] = lead ? at[i] : i;
    if (cl) order[n] = at[1];
}

/* The scalar program at one place, for `n` lanes (or one point). */
static void put_point_function(dl_emitter *e) {
    dl_putf(e->out, "INLINE void %s_point(char *const *arg, ", e->k->name);
    for (int i = 0; i < (e->flat ? 1 : e->k->nspace); i++) dl_putf(e->out, "long x%d, ", i);
    dl_puts(e->out, "long n, double *sums) {\n    (void)arg, (void)n, (void)sums");
    for (int i = 0; i < (e->flat ? 1 : e->k->nspace); i++) dl_putf(e->out, ", (void)x%d", i);
    dl_puts(e->out, ";\n");
    int reduce = dl_emit_reduce_at(e->k), end = reduce;
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

static nest plan_nest(dl_emitter *e, dl_emitted *code) {
    const dl_kernel *k = e->k;
    nest s = {.rows = 1, .inner = 1};
    choose_order(k, s.order);
    if (e->flat) {
        for (int i = 0; i < k->params.n; i++)
            if (k->params.at[i].type.rank) s.inner = dl_type_stored(&k->params.at[i].type);
    } else {
        for (int i = 0; i < k->nspace; i++) {
            if (i + 1 < k->nspace)
                s.rows *= k->space[s.order[i]].size;
            else
                s.inner = k->space[s.order[i]].size;
        }
        e->lane_axis = k->nspace ? s.order[k->nspace - 1] : -1;
    }
    s.inner_chunk = s.rows == 1 ? UNIT_POINTS : s.inner;
    int64_t each = s.inner ? UNIT_POINTS / s.inner : 1;
    if (each < 1) each = 1;
    code->units[0] = s.rows == 1 ? (s.inner + s.inner_chunk - 1) / s.inner_chunk : (s.rows + each - 1) / each;
    return s;
}

bool dl_emit_pointwise(dl_emitter *e, dl_emitted *code, dl_error *err) {
    (void)err;
    const dl_kernel *k = e->k;
    unsigned reduced = dl_kernel_reduced(k);
    bool wide = is_wide(k);
    e->flat = !wide && k->nspace > 0 && is_flat(k, reduced);
    e->mode = wide ? DL_DOUBLE : is_vector(k, e->flat) && k->nspace ? DL_LANES : DL_SINGLE;
    e->lane_axis = -1;
    nest s = plan_nest(e, code);
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
    if (reduced) dl_emit_reduced_phase(e, code->units[0], 0, code);
    return true;
}

/* The scalar program of a kernel as C statements. */
#include "compiler/emit_cpu.h"

#include <ctype.h>

const char *dl_emit_value_type(const dl_emitter *e) {
    static const char *const names[] = {"vf", "float", "double"};
    return names[e->mode];
}

static const char *element_type(dl_dtype d) {
    static const char *const names[DL_NDTYPES] = {[DL_F32] = "float",
                                                  [DL_F64] = "double",
                                                  [DL_I32] = "int",
                                                  [DL_I64] = "long",
                                                  [DL_BOOL] = "unsigned char"};
    DL_CHECK(names[d]);
    return names[d];
}

static void put_number(dl_emitter *e, double v) {
    const char *suffix = e->mode == DL_DOUBLE ? "" : "f";
    if (v != v)
        dl_putf(e->out, "__builtin_nan%s(\"\")", suffix);
    else if (v - v != 0)
        dl_putf(e->out, "%s__builtin_inf%s()", v < 0 ? "-" : "", suffix);
    else
        dl_putf(e->out, "%.17g%s%s", v, v == (double)(int64_t)v && v < 1e15 && v > -1e15 ? ".0" : "", suffix);
}

/* The op's expression with a, b, c as operand values, p as its attribute, k_f as this mode's f. */
static void put_expression(dl_emitter *e, const dl_kinstr *in) {
    static const char *const prefix[] = {"v_", "s_", "d_"};
    if (in->op == DL_OP_cast) {
        dl_dtype from = e->k->instrs.at[in->args[0]].type;
        if (in->type == DL_BOOL)
            dl_putf(e->out, "%sne(v%d, 0)", prefix[e->mode], in->args[0]);
        else if (!dl_dtype_is_float(in->type) && dl_dtype_is_float(from))
            dl_putf(e->out, "%strunc(v%d)", prefix[e->mode], in->args[0]);
        else if (in->type == DL_F32 && e->mode == DL_DOUBLE)
            dl_putf(e->out, "(double)(float)v%d", in->args[0]);
        else
            dl_putf(e->out, "v%d", in->args[0]);
        return;
    }
    for (const char *s = dl_ops[in->op].expr; *s;) {
        if (!isalpha((unsigned char)*s)) {
            dl_putn(e->out, s++, 1);
            continue;
        }
        const char *end = s;
        while (isalnum((unsigned char)*end) || *end == '_') end++;
        if (end - s == 1 && *s >= 'a' && *s <= 'c')
            dl_putf(e->out, "v%d", in->args[*s - 'a']);
        else if (end - s == 1 && *s == 'p')
            put_number(e, in->p);
        else if (s[0] == 'k' && s[1] == '_')
            dl_putf(e->out, "%s%.*s", prefix[e->mode], (int)(end - s - 2), s + 2);
        else
            dl_putn(e->out, s, (size_t)(end - s));
        s = end;
    }
}

static void put_term(dl_emitter *e, const dl_term *t) {
    dl_putf(e->out, "x%d", t->axis);
    if (t->div != 1) dl_putf(e->out, " / %lldL", (long long)t->div);
    if (t->mod) dl_putf(e->out, " %% %lldL", (long long)t->mod);
    if (t->mul != 1) dl_putf(e->out, " * %lldL", (long long)t->mul);
}

static void put_coordinate(dl_emitter *e, dl_index at) {
    if (at.nterms) {
        for (int i = 0; i < at.nterms; i++) dl_puts(e->out, i ? " + " : "("), put_term(e, &at.term[i]);
        if (at.offset) dl_putf(e->out, " + %lldL", (long long)at.offset);
        dl_puts(e->out, ")");
    } else if (at.axis < 0)
        dl_putf(e->out, "%lldL", (long long)at.offset);
    else if (at.offset)
        dl_putf(e->out, "(x%d + %lldL)", at.axis, (long long)at.offset);
    else
        dl_putf(e->out, "x%d", at.axis);
}

/* Where a parameter is read or written, in elements. */
static void put_address(dl_emitter *e, const dl_type *t, const dl_index *at) {
    if (e->flat) {
        dl_puts(e->out, t->rank ? "x0" : "0");
    } else if (t->layout.kind == DL_PANEL) {
        int64_t taps = 1;
        for (int i = 2; i < t->rank; i++) taps *= t->axis[i].size;
        dl_puts(e->out, "((");
        put_coordinate(e, at[0]);
        dl_putf(e->out, " / %d * %lldL", t->layout.width, (long long)taps);
        for (int i = 2; i < t->rank; i++) {
            int64_t rest = 1;
            for (int j = i + 1; j < t->rank; j++) rest *= t->axis[j].size;
            dl_puts(e->out, " + ");
            put_coordinate(e, at[i]);
            dl_putf(e->out, " * %lldL", (long long)rest);
        }
        dl_putf(e->out, ") * %lldL + ", (long long)t->axis[1].size);
        put_coordinate(e, at[1]);
        dl_putf(e->out, ") * %dL + ", t->layout.width);
        put_coordinate(e, at[0]);
        dl_putf(e->out, " %% %dL", t->layout.width);
    } else {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(t, stride);
        bool any = false;
        for (int i = 0; i < t->rank; i++) {
            if (at[i].axis < 0 && !at[i].offset && !at[i].nterms) continue;
            dl_puts(e->out, any ? " + " : "");
            put_coordinate(e, at[i]);
            if (stride[i] != 1) dl_putf(e->out, " * %lldL", (long long)stride[i]);
            any = true;
        }
        if (!any) dl_puts(e->out, "0");
    }
}

/* Does a term stay the same over a vector? Vectors begin at multiples of their width. */
static bool is_same(const dl_emitter *e, const dl_term *t) {
    return t->axis != e->lane_axis || t->div % e->t->lanes == 0;
}

/* Does it go from lane to lane in even steps? */
static bool is_even(const dl_emitter *e, const dl_term *t) {
    return is_same(e, t) || (t->div == 1 && t->mod % e->t->lanes == 0);
}

/* Steps a parameter takes from lane to lane: 0: the same element. */
static int64_t lane_step(const dl_emitter *e, const dl_type *t, const dl_index *at) {
    if (e->flat) return t->rank ? 1 : 0;
    int64_t stride[DL_MAX_RANK], step = 0;
    dl_type_strides(t, stride);
    for (int i = 0; i < t->rank; i++) {
        if (at[i].axis == e->lane_axis && !at[i].nterms) step += stride[i];
        for (int k = 0; k < at[i].nterms; k++)
            if (!is_same(e, &at[i].term[k])) step += at[i].term[k].mul * stride[i];
    }
    return step;
}

/* The condition that an access stays inside its parameter; nothing when it always does. */
static bool put_bounds(dl_emitter *e, const dl_type *t, const dl_index *at) {
    bool any = false;
    for (int i = 0; !e->flat && i < t->rank; i++) {
        if (at[i].offset >= 0 && dl_index_most(e->k, &at[i]) < t->axis[i].size) continue;
        dl_puts(e->out, any ? " && " : "");
        dl_puts(e->out, "(unsigned long)");
        put_coordinate(e, at[i]);
        dl_putf(e->out, " < %lldUL", (long long)t->axis[i].size);
        any = true;
    }
    return any;
}

/* Accesses that no vector instruction serves: other element types, panels read across, places that may lie
 * outside. */
static bool is_slow(dl_emitter *e, const dl_type *t, const dl_index *at) {
    if (e->flat || !t->rank) return false;
    if (t->dtype != DL_F32 || t->layout.kind == DL_PANEL) return true;
    for (int i = 0; i < t->rank; i++) {
        if (at[i].offset < 0 || dl_index_most(e->k, &at[i]) >= t->axis[i].size) return true;
        for (int k = 0; k < at[i].nterms; k++)
            if (!is_even(e, &at[i].term[k])) return true;
    }
    return false;
}

/* "if (...) " around what follows, where an access may lie outside. */
static void put_guard(dl_emitter *e, const dl_type *t, const dl_index *at) {
    size_t mark = e->out->n;
    dl_puts(e->out, "if (");
    if (put_bounds(e, t, at))
        dl_puts(e->out, ") ");
    else
        e->out->n = mark, e->out->at[mark] = 0;
}

/* Lane by lane: the loop's head; x<lane axis> is the lane's own coordinate in it. */
static void put_lane_loop(dl_emitter *e) {
    if (e->lane_axis >= 0) dl_putf(e->out, "const long lane0 = x%d; ", e->lane_axis);
    dl_puts(e->out, "for (long j = 0; j < n; j++) { ");
    if (e->lane_axis >= 0)
        dl_putf(e->out, "const long x%d = lane0 + j; (void)x%d; ", e->lane_axis, e->lane_axis);
}

static void put_load(dl_emitter *e, const dl_kinstr *in) {
    const dl_kparam *p = &e->k->params.at[in->param];
    const char *type = element_type(p->type.dtype);
    if (e->mode == DL_LANES && is_slow(e, &p->type, in->index)) {
        dl_puts(e->out, "({ vf r = {0}; ");
        put_lane_loop(e);
        put_guard(e, &p->type, in->index);
        dl_putf(e->out, "r[j] = (float)((const %s *)arg[%d])[", type, in->param);
        put_address(e, &p->type, in->index);
        dl_puts(e->out, "]; } r; })");
        return;
    }
    if (e->mode == DL_LANES) {
        int64_t step = lane_step(e, &p->type, in->index);
        dl_puts(e->out, step == 0 ? "splat(" : step == 1 ? "ldn(" : "ld_step(");
        dl_putf(e->out, "%s((const %s *)arg[%d])%s", step ? "" : "(float)", type, in->param,
                step ? " + " : "[");
        put_address(e, &p->type, in->index);
        if (step == 0)
            dl_puts(e->out, "])");
        else if (step == 1)
            dl_puts(e->out, ", n)");
        else
            dl_putf(e->out, ", %lldL, n)", (long long)step);
        return;
    }
    bool bounded = put_bounds(e, &p->type, in->index);
    dl_putf(e->out, "%s(%s)((const %s *)arg[%d])[", bounded ? " ? " : "", dl_emit_value_type(e), type,
            in->param);
    put_address(e, &p->type, in->index);
    dl_puts(e->out, bounded ? "] : 0" : "]");
}

static void put_store(dl_emitter *e, const dl_kinstr *in) {
    const dl_kparam *p = &e->k->params.at[in->param];
    const char *type = element_type(p->type.dtype), *truth = p->type.dtype == DL_BOOL ? " != 0" : "";
    dl_puts(e->out, "    ");
    if (e->mode == DL_LANES && is_slow(e, &p->type, in->index)) {
        dl_puts(e->out, "{ ");
        put_lane_loop(e);
        put_guard(e, &p->type, in->index);
        dl_putf(e->out, "((%s *)arg[%d])[", type, in->param);
        put_address(e, &p->type, in->index);
        dl_putf(e->out, "] = (%s)(v%d[j]%s); } }\n", type, in->args[0], truth);
        return;
    }
    if (e->mode == DL_LANES) {
        int64_t step = lane_step(e, &p->type, in->index);
        if (step == 0) { /* along an axis of one point: one lane is in use */
            DL_CHECK(e->k->space[e->lane_axis].size == 1);
            step = 1;
        }
        dl_putf(e->out, "%s((%s *)arg[%d] + ", step == 1 ? "stn" : "st_step", type, in->param);
        put_address(e, &p->type, in->index);
        if (step != 1) dl_putf(e->out, ", %lldL", (long long)step);
        dl_putf(e->out, ", v%d, n);\n", in->args[0]);
        return;
    }
    put_guard(e, &p->type, in->index);
    dl_putf(e->out, "((%s *)arg[%d])[", type, in->param);
    put_address(e, &p->type, in->index);
    dl_putf(e->out, "] = (%s)(v%d%s);\n", type, in->args[0], truth);
}

/* ---- reductions ---- */

int dl_emit_reductions(const dl_kernel *k) {
    int n = 0;
    for (int i = 0; i < k->instrs.n; i++) n += k->instrs.at[i].kind == DL_K_REDUCE;
    return n;
}

void dl_emit_find_kept(dl_emitter *e, const int *order) {
    unsigned over = dl_kernel_reduced(e->k);
    e->kept = 0, e->kept_count = 1;
    for (int i = 0; over && i < e->k->nspace; i++)
        if (!(over >> order[i] & 1))
            e->keep[e->kept++] = order[i], e->kept_count *= e->k->space[order[i]].size;
}

/* Doubles of one reduction's partial results: one a kept point, or a vector's worth when nothing is kept. */
static int64_t partial_of_one(const dl_emitter *e) {
    if (e->kept || e->mode != DL_LANES) return e->kept_count;
    return e->t->lanes;
}

int64_t dl_emit_partial(const dl_emitter *e) { return dl_emit_reductions(e->k) * partial_of_one(e); }

static void put_start(dl_emitter *e, dl_op op) {
    dl_puts(e->out, op == DL_OP_reduce_max   ? "-__builtin_inff()"
                    : op == DL_OP_reduce_min ? "__builtin_inff()"
                                             : "0");
}

void dl_emit_clear_sums(const dl_emitter *e) {
    int r = 0;
    for (int i = 0; i < e->k->instrs.n; i++) {
        if (e->k->instrs.at[i].kind != DL_K_REDUCE) continue;
        dl_putf(e->out,
                "    for (long i = 0; i < %lldL; i++) sums[%lldL + i] = ", (long long)partial_of_one(e),
                (long long)(r++ * partial_of_one(e)));
        put_start((dl_emitter *)e, e->k->instrs.at[i].op);
        dl_puts(e->out, ";\n");
    }
}

static void put_kept_index(dl_emitter *e) {
    int64_t stride = e->kept_count;
    for (int i = 0; i < e->kept; i++) {
        stride /= e->k->space[e->keep[i]].size ? e->k->space[e->keep[i]].size : 1;
        dl_putf(e->out, "%sx%d", i ? " + " : "", e->keep[i]);
        if (stride != 1) dl_putf(e->out, " * %lldL", (long long)stride);
    }
    if (!e->kept) dl_puts(e->out, "0");
}

/* One reduction's step: into this unit's partial results, which are doubles whatever the values are:
 * thousands of terms in one chain of floats would lose digits. */
static void put_reduce(dl_emitter *e, const dl_kinstr *in, int which) {
    bool sum = in->op == DL_OP_sum;
    const char *f = in->op == DL_OP_reduce_max ? "max" : "min";
    bool lanes_kept = e->kept && e->keep[e->kept - 1] == e->lane_axis;
    dl_putf(e->out, "    {\n        double *s = sums + %lldL", (long long)(which * partial_of_one(e)));
    if (e->kept) dl_puts(e->out, " + "), put_kept_index(e);
    dl_puts(e->out, ";\n        ");
    if (e->mode != DL_LANES) {
        if (sum)
            dl_putf(e->out, "*s += v%d;\n", in->args[0]);
        else
            dl_putf(e->out, "*s = d_%s(*s, v%d);\n", f, in->args[0]);
    } else if (e->kept && !lanes_kept) {
        DL_CHECK(sum);
        dl_putf(e->out, "*s += sum_lanes(keep(v%d, n));\n", in->args[0]);
    } else if (sum) {
        dl_putf(e->out, "add_to(s, v%d, n);\n", in->args[0]);
    } else {
        dl_putf(e->out, "for (long j = 0; j < n; j++) s[j] = d_%s(s[j], v%d[j]);\n", f, in->args[0]);
    }
    dl_puts(e->out, "    }\n");
}

void dl_emit_program(dl_emitter *e, int from, int to) {
    int reductions = 0;
    for (int i = from; i < to; i++) {
        const dl_kinstr *in = &e->k->instrs.at[i];
        if (in->kind == DL_K_STORE) {
            put_store(e, in);
            continue;
        }
        if (in->kind == DL_K_REDUCE) {
            put_reduce(e, in, reductions++);
            continue;
        }
        dl_putf(e->out, "    %s v%d = ", dl_emit_value_type(e), i);
        switch (in->kind) {
        case DL_K_CONTRACT: dl_puts(e->out, e->mode == DL_LANES ? "ld(acc)" : "*acc"); break;
        case DL_K_LOAD: put_load(e, in); break;
        case DL_K_CONST:
            dl_puts(e->out, e->mode == DL_LANES ? "splat(" : "");
            put_number(e, in->p);
            dl_puts(e->out, e->mode == DL_LANES ? ")" : "");
            break;
        case DL_K_COORD:
            if (e->mode != DL_LANES)
                dl_putf(e->out, "(%s)x%d", dl_emit_value_type(e), in->axis);
            else
                dl_putf(e->out, "splat((float)x%d)%s", in->axis,
                        in->axis == e->lane_axis ? " + lane_numbers()" : "");
            break;
        default: put_expression(e, in); break;
        }
        dl_puts(e->out, ";\n");
    }
}

/* What stands behind the reductions runs one value at a time: it is small. */
void dl_emit_reduced_phase(dl_emitter *e, int64_t units, int64_t at, dl_emitted *code) {
    enum { CHUNK = 256 };
    const dl_kernel *k = e->k;
    int64_t one = partial_of_one(e), all = dl_emit_partial(e), each = e->kept ? 1 : one;
    dl_emitter s = *e;
    s.mode = e->mode == DL_DOUBLE ? DL_DOUBLE : DL_SINGLE;
    s.flat = false, s.lane_axis = -1;
    int phase = code->phases++;
    code->units[phase] = (e->kept_count + CHUNK - 1) / CHUNK;
    dl_putf(e->out,
            "void %s_%d(char *const *arg, long unit, char *scratch, char *workspace) {\n    (void)scratch;\n",
            k->name, phase);
    dl_putf(e->out, "    const double *sums = (const double *)(workspace + %lldL);\n", (long long)at);
    dl_putf(e->out, "    for (long at = unit * %d; at < (unit + 1) * %d && at < %lldL; at++) {\n", CHUNK,
            CHUNK, (long long)e->kept_count);
    int64_t stride = e->kept_count;
    for (int i = 0; i < e->kept; i++) {
        int64_t size = k->space[e->keep[i]].size;
        stride /= size ? size : 1;
        dl_putf(e->out, "    long x%d = at / %lldL %% %lldL;\n", e->keep[i], (long long)stride,
                (long long)(size ? size : 1));
        dl_putf(e->out, "    (void)x%d;\n", e->keep[i]);
    }
    int which = 0, behind = 0;
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind != DL_K_REDUCE) continue;
        dl_putf(e->out, "    double t%d = ", i);
        put_start(e, in->op);
        dl_putf(e->out,
                ";\n    for (long u = 0; u < %lldL; u++)\n        for (long j = 0; j < %lldL; j++) {\n",
                (long long)units, (long long)each);
        dl_putf(e->out, "            double one = sums[u * %lldL + %lldL + at * %lldL + j];\n",
                (long long)all, (long long)(which++ * one), (long long)each);
        if (in->op == DL_OP_sum)
            dl_putf(e->out, "            t%d += one;\n", i);
        else
            dl_putf(e->out, "            t%d = d_%s(t%d, one);\n", i,
                    in->op == DL_OP_reduce_max ? "max" : "min", i);
        dl_putf(e->out, "        }\n    %s v%d = (%s)t%d;\n", dl_emit_value_type(&s), i,
                dl_emit_value_type(&s), i);
        behind = i + 1;
    }
    for (int i = dl_kernel_first_reduction(k); i < behind; i++) DL_CHECK(k->instrs.at[i].kind == DL_K_REDUCE);
    dl_emit_program(&s, behind, k->instrs.n);
    dl_puts(e->out, "    }\n}\n");
}

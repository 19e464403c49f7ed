/* The scalar program of a kernel as C statements. */
#include "compiler/codegen/emit_parts.h"

#include <stdarg.h>
#include <stdio.h>

#include "ir/base/foreign.h"

bool dl_emit_refuse(const dl_kernel *k, const dl_kinstr *at, dl_error *err, const char *format,
                    ...) {
    va_list ap;
    char text[400];
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return dl_fail(err, DL_INPUT, "%s:%d:%d: error: %s", at->loc.file ? at->loc.file : k->name,
                   at->loc.line, at->loc.column, text);
}

/* Does an integer type hold this number exactly? It is given as a double. */
static bool is_whole(dl_dtype d, double v) {
    double above = d == DL_BOOL  ? 2
                   : d == DL_I32 ? 0x1p31
                                 : 0x1p63,
           least = d == DL_BOOL ? 0 : -above;
    return dl_dtype_is_float(d) || (v >= least && v < above && v == (double)(int64_t)v);
}

bool dl_check_constants(const dl_kernel *k, dl_error *err) {
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (in->kind == DL_K_CONST && !is_whole(in->type, in->p))
            return dl_emit_refuse(k, in, err, "the constant %g is no number of %s [DL-E0803]",
                                  in->p, dl_dtype_name(in->type));
    }
    return true;
}

const dl_dialect dl_dialect_c = {.index = "long",
                                 .natural = "unsigned long",
                                 .whole = "L",
                                 .not_signed = "UL",
                                 .coordinate = "x",
                                 .truth = "int",
                                 .memory = "scratch"};

dl_axis_list dl_emit_list_axes(const dl_emitter *e, const dl_axis_list *order, unsigned axes) {
    dl_axis_list l = {.points = 1};
    for (int i = 0; i < order->n; i++)
        if (axes >> order->axis[i] & 1)
            l.axis[l.n++] = order->axis[i], l.points *= e->k->space[order->axis[i]].size;
    return l;
}

dl_axis_list dl_emit_space_axes(const dl_emitter *e, unsigned axes) {
    dl_axis_list all = {.n = e->k->nspace};
    for (int i = 0; i < all.n; i++) all.axis[i] = i;
    return dl_emit_list_axes(e, &all, axes);
}

/* One step of a reduction into this item's partial result. Partial results are doubles for all
 * floats, since a long chain of float additions would lose digits. */
static void put_reduce(dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    const dl_partial *p = &e->partial[number];
    const dl_axis_list *by = &p->by;
    bool sum = in->op == DL_OP_sum, lanes_kept = by->n && by->axis[by->n - 1] == e->lane_axis;
    const char *type = dl_emit_partial_type(in), *some = e->points ? e->points : "n";
    bool whole = !e->points && dl_emit_fills_vectors(e);
    dl_putf(e->out, "    {\n        %s *s = (%s *)sums + $%lldL$", type, type, (long long)p->at);
    if (by->n) dl_puts(e->out, " + "), dl_emit_linear_index(e, by);
    dl_puts(e->out, ";\n        ");
    if (e->mode != DL_LANES) {
        if (sum)
            dl_putf(e->out, "*s += $v%d$;\n", in->args[0]);
        else
            dl_putf(e->out, "*s = %s(*s, $v%d$);\n", dl_emit_combine(in), in->args[0]);
    } else if (by->n && !lanes_kept) {
        DL_CHECK(sum);
        dl_putf(e->out, whole ? "*s += sum_lanes($v%d$);\n" : "*s += sum_lanes(keep($v%d$, n));\n",
                in->args[0]);
    } else if (sum) {
        dl_putf(e->out, "add_to(s, $v%d$, %s);\n", in->args[0], whole ? "LANES" : some);
    } else {
        dl_putf(e->out, "for (long j = 0; j < %s; j++) s[j] = %s(s[j], $v%d$[j]);\n", some,
                dl_emit_combine(in), in->args[0]);
    }
    dl_puts(e->out, "    }\n");
}

static void put_const(dl_emitter *e, const dl_kinstr *in) {
    bool lanes = e->mode == DL_LANES && !dl_emit_is_shared(e->k, in);
    dl_cast c = dl_emit_rounding(DL_SINGLE, in->type, true);
    if (lanes) dl_putf(e->out, "splat%s(", dl_emit_suffix(dl_kernel_type(in->type)));
    dl_puts(e->out, c.open);
    dl_emit_constant(e, dl_dtype_is_half(in->type) ? DL_F64 : in->type, in->p);
    dl_putf(e->out, "%s%s", c.close, lanes ? ")" : "");
}

/* Computed exactly in integers, then converted. */
static void put_coord(dl_emitter *e, const dl_kinstr *in) {
    if (e->mode != DL_LANES) {
        dl_cast c = dl_emit_cast(DL_SINGLE, DL_I64, in->type);
        dl_putf(e->out, "%s%s%s", c.open, dl_emit_coordinate(e, in->axis), c.close);
        return;
    }
    dl_cast c = dl_emit_cast(DL_LANES, DL_I32, in->type);
    dl_putf(e->out, "%ssplat_i((int)%s)%s%s", c.open, dl_emit_coordinate(e, in->axis),
            in->axis == e->lane_axis ? " + lane_numbers()" : "", c.close);
}

/* The position at which a random number is drawn determines how many numbers share a Philox
 * block (kernels/random.c). */
static void put_random(dl_emitter *e, const dl_kinstr *in) {
    int64_t step = 0, any = 0;
    for (int i = 0; i < e->k->nspace; i++) any |= in->along[i];
    if (e->mode == DL_LANES)
        step = e->flat ? any != 0 : e->lane_axis >= 0 ? in->along[e->lane_axis] : 0;
    dl_cast c = dl_emit_cast(step ? DL_LANES : DL_SINGLE, DL_F32, in->type);
    dl_puts(e->out, e->mode == DL_LANES && !step ? "splat(" : c.open);
    dl_putf(e->out, "%s($%lldL$",
            step == 0   ? "s_random"
            : step == 1 ? "v_random_row"
                        : "v_random_step",
            (long long)in->first);
    if (e->flat && any) dl_putf(e->out, " + %s", dl_emit_coordinate(e, 0));
    for (int i = 0; i < e->k->nspace && !e->flat; i++)
        if (in->along[i])
            dl_putf(e->out, " + %s * $%lldL$", dl_emit_coordinate(e, i), (long long)in->along[i]);
    if (in->nargs > 2)
        dl_putf(e->out, " + (unsigned long)$v%d$ * $%lldUL$", in->args[2], (long long)in->part);
    if (step > 1) dl_putf(e->out, ", $%lldL$", (long long)step);
    dl_putf(e->out, ", $v%d$, $v%d$, $%d$)", in->args[0], in->args[1], in->number);
    dl_puts(e->out, e->mode == DL_LANES && !step ? ")" : c.close);
}

void dl_emit_instr(dl_emitter *e, int number) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    if (in->kind == DL_K_STORE) {
        dl_emit_store(e, in);
        return;
    }
    if (e->steps[number].kind == DL_K_REDUCE) {
        put_reduce(e, number);
        return;
    }
    dl_putf(e->out, "    %s $v%d$ = ", dl_emit_type(e, in->type), number);
    /* casts round their results themselves */
    bool rounds = in->kind == DL_K_CONTRACT || (in->kind == DL_K_ELEM && in->op != DL_OP_cast);
    dl_cast rounding = rounds ? dl_emit_rounding(e->mode, in->type, false) : (dl_cast){"", ""};
    dl_puts(e->out, rounding.open);
    switch (in->kind) {
    case DL_K_CONTRACT:
        dl_puts(e->out, e->array ? e->array[number] : e->mode == DL_LANES ? "ld(acc)" : "*acc");
        break;
    case DL_K_LOAD: dl_emit_load(e, in); break;
    case DL_K_CONST: put_const(e, in); break;
    case DL_K_COORD: put_coord(e, in); break;
    case DL_K_RANDOM: put_random(e, in); break;
    case DL_K_REDUCE: dl_emit_cast_operand(e, in); break; /* over one point */
    default: dl_emit_expression(e, in); break;
    }
    dl_putf(e->out, "%s;\n", rounding.close);
}

void dl_emit_kept_place(dl_emitter *e, int number) {
    const dl_kept *at = &e->kept[number];
    const char *type = dl_emit_element_type(dl_kernel_type(e->k->instrs.at[number].type));
    dl_putf(e->out, "((%s *)(workspace + $%lldL$))", type, (long long)at->base);
}

/* The stride of a kept value between lanes. */
static int64_t kept_step(const dl_emitter *e, const dl_axis_list *by) {
    int64_t step = 1;
    for (int i = by->n - 1; i >= 0; step *= e->k->space[by->axis[i--]].size)
        if (by->axis[i] == e->lane_axis) return step;
    return 0;
}

void dl_emit_read(dl_emitter *e, int number) {
    const dl_axis_list *by = &e->kept[number].by;
    dl_dtype type = dl_kernel_type(e->k->instrs.at[number].type);
    int64_t step = e->mode == DL_LANES ? kept_step(e, by) : 0;
    dl_putf(e->out, "    %s $v%d$ = ", dl_emit_type(e, type), number);
    if (e->array && e->array[number]) {
        dl_putf(e->out, "%s;\n", e->array[number]);
        return;
    }
    if (step > 1) { /* lane by lane */
        dl_putf(e->out, "({ %s r = {0}; for (long j = 0; j < n; j++) r[j] = %s",
                dl_emit_type(e, type), type == DL_BOOL ? "-" : "");
        dl_emit_kept_place(e, number);
        dl_puts(e->out, "["), dl_emit_linear_index(e, by);
        dl_putf(e->out, " + j * $%lldL$]; r; });\n", (long long)step);
        return;
    }
    if (e->mode == DL_LANES) dl_putf(e->out, "%s%s(", step ? "ldn" : "splat", dl_emit_suffix(type));
    dl_emit_kept_place(e, number);
    dl_puts(e->out, step ? " + " : "["), dl_emit_linear_index(e, by);
    dl_puts(e->out, step ? ", n)" : e->mode == DL_LANES ? "])" : "]");
    dl_puts(e->out, ";\n");
}

void dl_emit_keep(dl_emitter *e, int number) { /* one value at a time */
    dl_puts(e->out, "    "), dl_emit_kept_place(e, number);
    dl_puts(e->out, "["), dl_emit_linear_index(e, &e->kept[number].by);
    dl_putf(e->out, "] = $v%d$;\n", number);
}

void dl_emit_run(dl_emitter *e) {
    for (int i = 0; i < e->now->read.n; i++) dl_emit_read(e, e->now->read.at[i]);
    for (int i = 0; i < e->now->run.n; i++) dl_emit_instr(e, e->now->run.at[i]);
}

/* ---- kernels and phases ---- */

void dl_emit_title(const dl_emitter *e, dl_buf *out) {
    dl_putf(out, "/* @%s", e->k->name);
    for (int i = 0; i < e->k->locs.n; i++) {
        dl_puts(out, " ");
        dl_put_foreign(out, DL_IN_COMMENT, e->k->locs.at[i].file);
        dl_putf(out, ":%d", e->k->locs.at[i].line);
    }
    dl_puts(out, " */\n");
}

void dl_emit_by_schedule(dl_emitter *e, const dl_kernel *k) {
    dl_scheduled s = dl_kernel_scheduled(e->arena, k);
    e->k = s.k, e->steps = s.steps, e->nests = s.nests;
    e->partial = DL_NEWS(e->arena, dl_partial, e->k->instrs.n + 1);
    e->kept = DL_NEWS(e->arena, dl_kept, e->k->instrs.n + 1);
}

bool dl_emit_refuse_schedule(const dl_kernel *k, dl_error *err) {
    if (k->schedule.kind == DL_BY_NOTHING)
        return dl_fail(err, DL_INPUT, "kernel @%s has no schedule", k->name);
    return dl_fail(err, DL_INPUT, "kernel @%s: this target does not run it by schedule %s", k->name,
                   dl_schedule_name(k->schedule.kind));
}

bool dl_emit_refuse_variant(const dl_kernel *k, const dl_target *t, dl_error *err) {
    return dl_fail(err, DL_INPUT, "kernel @%s: %s has no variant '%.200s' of it", k->name, t->name,
                   k->schedule.variant);
}

bool dl_emit_check_floats(const dl_emitter *e, const char *kernels, dl_error *err) {
    const dl_kinstr *call = &e->k->instrs.at[0];
    for (int i = 0; i < call->call->nin + call->call->nout; i++) {
        const dl_type *t = &e->k->params.at[i].type;
        if (!dl_emit_is_float(t->dtype) && !(t->dtype == DL_I64 && t->rank == 0))
            return dl_emit_refuse(e->k, call, err,
                                  "'%s' is in %s, and %s compute it in f32 [DL-E0803]",
                                  dl_ops[call->op].name, dl_dtype_name(t->dtype), kernels);
    }
    return true;
}

void dl_emit_find_kept(dl_emitter *e, dl_emitted *code) {
    for (int i = 0; i < e->k->instrs.n; i++) {
        dl_kept *at = &e->kept[i];
        *at = (dl_kept){0};
        if (!e->nests.kept[i]) continue;
        *at = (dl_kept){dl_emit_space_axes(e, e->steps[i].axes), code->workspace};
        code->workspace += dl_plan_round(at->by.points * (int64_t)sizeof(double));
    }
}

bool dl_emit_has_phase(const dl_emitter *e, const dl_emitted *code, dl_error *err) {
    return code->phases < DL_MAX_PHASES ||
           dl_emit_refuse(e->k, &e->k->instrs.at[0], err,
                          "a kernel of more than %d phases: too many reductions wait for each "
                          "other [DL-E0803]",
                          (int)DL_MAX_PHASES);
}

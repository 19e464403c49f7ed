/* Memory accesses of a scalar program: addresses of elements, bounds, one value at a time or a
 * vector. */
#include "compiler/codegen/emit_parts.h"

enum {
    FROM_MEMORY = 1 << 18
}; /* arrays of this many bytes are no longer in a core's cache when they are read again */

const char *dl_emit_integer(const dl_emitter *e, int64_t v) {
    return dl_format(e->arena, "$%lld%s$", (long long)v, e->dialect->whole);
}

static const char *divisor(const dl_emitter *e, int64_t v) {
    return dl_format(e->arena, "$/%lld%s$", (long long)v, e->dialect->whole);
}

static const char *natural(const dl_emitter *e, int64_t v) {
    return dl_format(e->arena, "$%lld%s$", (long long)v, e->dialect->not_signed);
}

const char *dl_emit_coordinate(dl_emitter *e, int axis) {
    e->coordinates |= 1u << axis;
    return dl_format(e->arena, "$%s%d$", e->dialect->coordinate, axis);
}

static void put_term(dl_emitter *e, const dl_term *t) {
    dl_puts(e->out, dl_emit_coordinate(e, t->axis));
    if (t->div != 1) dl_putf(e->out, " / %s", divisor(e, t->div));
    if (t->mod) dl_putf(e->out, " %% %s", divisor(e, t->mod));
    if (t->mul != 1) dl_putf(e->out, " * %s", dl_emit_integer(e, t->mul));
}

/* The sum of an index, before its division. */
static void put_sum(dl_emitter *e, dl_index at) {
    if (at.nterms) {
        for (int i = 0; i < at.nterms; i++)
            dl_puts(e->out, i ? " + " : "("), put_term(e, &at.term[i]);
        if (at.offset) dl_putf(e->out, " + %s", dl_emit_integer(e, at.offset));
        dl_puts(e->out, ")");
    } else if (at.axis < 0)
        dl_putf(e->out, "%s", dl_emit_integer(e, at.offset));
    else if (at.offset)
        dl_putf(e->out, "(%s + %s)", dl_emit_coordinate(e, at.axis), dl_emit_integer(e, at.offset));
    else
        dl_puts(e->out, dl_emit_coordinate(e, at.axis));
}

/* The element along an axis of `size` that an index denotes. Where it may lie outside,
 * dl_emit_bounds has guarded it. */
static void put_coordinate(dl_emitter *e, dl_index at, int64_t size) {
    if (at.indirect) {
        dl_putf(e->out, e->mode == DL_LANES ? "$v%d$[j]" : "$v%d$", at.indirect - 1);
        return;
    }
    bool inside = dl_index_inside(e->k->space, &at, size),
         moves = !inside && !dl_outside_fills(at.outside);
    if (moves) dl_putf(e->out, "%s_place(", dl_outside_names[at.outside]);
    if (at.div > 1) {
        bool plain = at.outside == DL_OUT_EXACT || dl_index_natural(e->k->space, &at);
        dl_puts(e->out, plain ? "(" : "floor_div(");
        put_sum(e, at);
        if (plain)
            dl_putf(e->out, " / %s)", divisor(e, at.div));
        else
            dl_putf(e->out, ", %s)", dl_emit_integer(e, at.div));
    } else {
        put_sum(e, at);
    }
    if (moves) dl_putf(e->out, ", %s)", dl_emit_integer(e, size));
}

void dl_emit_address(dl_emitter *e, const dl_type *t, const dl_index *at) {
    if (e->flat) {
        int64_t start = 0; /* of a contiguous part */
        for (int i = 0; i < t->rank; i++) start += at[i].offset * dl_type_laid_around(t, i).inner;
        dl_puts(e->out, t->rank ? dl_emit_coordinate(e, 0) : "$0$");
        if (start) dl_putf(e->out, " + %s", dl_emit_integer(e, start));
    } else if (t->layout.kind == DL_PANEL) {
        int64_t taps = 1;
        for (int i = 2; i < t->rank; i++) taps *= t->axis[i].size;
        dl_puts(e->out, "((");
        put_coordinate(e, at[0], t->axis[0].size);
        dl_putf(e->out, " / $/%d$ * %s", t->layout.width, dl_emit_integer(e, taps));
        for (int i = 2; i < t->rank; i++) {
            int64_t rest = 1;
            for (int j = i + 1; j < t->rank; j++) rest *= t->axis[j].size;
            dl_puts(e->out, " + ");
            put_coordinate(e, at[i], t->axis[i].size);
            dl_putf(e->out, " * %s", dl_emit_integer(e, rest));
        }
        dl_putf(e->out, ") * %s + ", dl_emit_integer(e, t->axis[1].size));
        put_coordinate(e, at[1], t->axis[1].size);
        dl_putf(e->out, ") * %s + ", dl_emit_integer(e, t->layout.width));
        put_coordinate(e, at[0], t->axis[0].size);
        dl_putf(e->out, " %% %s", divisor(e, t->layout.width));
    } else {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(t, stride);
        bool any = false;
        for (int i = 0; i < t->rank; i++) {
            if (at[i].axis < 0 && !at[i].offset && !at[i].nterms && !at[i].indirect) continue;
            dl_puts(e->out, any ? " + " : "");
            put_coordinate(e, at[i], t->axis[i].size);
            if (stride[i] != 1) dl_putf(e->out, " * %s", dl_emit_integer(e, stride[i]));
            any = true;
        }
        if (!any) dl_puts(e->out, "$0$");
    }
}

/* Is a term constant over a vector? Vectors begin at multiples of their width. */
static bool is_same(const dl_emitter *e, const dl_term *t) {
    return t->axis != e->lane_axis || t->div % e->t->lanes == 0;
}

/* Does a term have the same stride between all lanes? */
static bool is_even(const dl_emitter *e, const dl_term *t) {
    return is_same(e, t) || (t->div == 1 && t->mod % e->t->lanes == 0);
}

/* Does an index change from lane to lane? */
static bool along_lanes(const dl_emitter *e, const dl_index *at) {
    bool along = e->lane_axis >= 0 && at->axis == e->lane_axis;
    for (int k = 0; k < at->nterms; k++) along |= !is_same(e, &at->term[k]);
    return along;
}

/* Is an index along the lanes in bounds for all lanes of a vector or for none? */
static bool is_inside_alike(const dl_emitter *e, const dl_index *at, int64_t size) {
    const int lanes = e->t->lanes;
    return dl_index_inside(e->k->space, at, size) ||
           (!at->indirect && !at->nterms && at->offset % lanes == 0 && size % lanes == 0);
}

/* Does it change by a constant stride, with one condition of bounds for a vector? */
static bool steps_evenly(const dl_emitter *e, const dl_index *at, int64_t size) {
    for (int k = 0; k < at->nterms; k++)
        if (!is_even(e, &at->term[k])) return false;
    return at->div <= 1 && is_inside_alike(e, at, size);
}

bool dl_emit_is_bounded_alike(const dl_emitter *e, const dl_type *t, const dl_index *at) {
    for (int i = 0; i < t->rank; i++)
        if (at[i].indirect ||
            (along_lanes(e, &at[i]) && !is_inside_alike(e, &at[i], t->axis[i].size)))
            return false;
    return true;
}

/* The stride of a parameter between lanes; 0: all lanes read the same element. */
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

bool dl_emit_bounds(dl_emitter *e, const dl_type *t, const dl_index *at) {
    bool any = false;
    for (int i = 0; !e->flat && i < t->rank; i++) {
        if (dl_index_inside(e->k->space, &at[i], t->axis[i].size) ||
            !dl_outside_fills(at[i].outside))
            continue;
        dl_puts(e->out, any ? " && " : "");
        if (at[i].outside == DL_OUT_EXACT && at[i].div > 1)
            put_sum(e, at[i]), dl_putf(e->out, " %% %s == 0 && ", divisor(e, at[i].div));
        dl_putf(e->out, "(%s)", e->dialect->natural);
        put_coordinate(e, at[i], t->axis[i].size);
        dl_putf(e->out, " < %s", natural(e, t->axis[i].size));
        any = true;
    }
    return any;
}

/* Is it an access without a vector instruction: strided reads of panels, lanes that may be out
 * of bounds or have irregular strides, strides in arrays that are not floats? */
static bool is_slow(dl_emitter *e, const dl_type *t, const dl_index *at) {
    if (e->flat || !t->rank) return false;
    if (t->layout.kind == DL_PANEL) return true;
    for (int i = 0; i < t->rank; i++)
        if (at[i].indirect) return true;
    for (int i = 0; i < t->rank; i++)
        if (along_lanes(e, &at[i]) && !steps_evenly(e, &at[i], t->axis[i].size)) return true;
    int64_t step = lane_step(e, t, at);
    return !dl_emit_is_float(t->dtype) && step != 0 && step != 1;
}

bool dl_emit_is_affine(dl_emitter *e, const dl_loop_nest *s) {
    for (int i = 0; i < s->run.n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[s->run.at[i]];
        if (!dl_emit_is_access(in) || dl_emit_is_shared(e->k, in)) continue;
        const dl_type *t = &e->k->params.at[in->param].type;
        if (e->mode != DL_LANES || is_slow(e, t, in->index)) return false;
        int64_t step = lane_step(e, t, in->index);
        if (step != 0 && step != 1) return false;
        for (int a = 0; a < t->rank; a++)
            if (in->index[a].nterms || in->index[a].div > 1) return false;
    }
    return true;
}

static bool has_axis(const dl_axis_list *list, int a, int b) {
    for (int i = 0; i < list->n; i++)
        if (list->axis[i] == a || list->axis[i] == b) return true;
    return false;
}

/* Can two axes be collapsed for an access: is the stride of axis a that of b times b's size? */
static bool joins_access(const dl_emitter *e, const dl_type *t, const dl_index *at, int a, int b) {
    int64_t stride[DL_MAX_RANK], by_a = 0, by_b = 0;
    if (t->layout.kind == DL_PANEL) return false;
    dl_type_strides(t, stride);
    for (int i = 0; i < t->rank; i++) {
        bool used = !at[i].nterms && (at[i].axis == a || at[i].axis == b);
        for (int k = 0; k < at[i].nterms; k++)
            if (at[i].term[k].axis == a || at[i].term[k].axis == b) return false;
        if (used && (at[i].div > 1 || !dl_index_inside(e->k->space, &at[i], t->axis[i].size)))
            return false;
        if (used) *(at[i].axis == a ? &by_a : &by_b) += stride[i];
    }
    return by_a == by_b * e->k->space[b].size;
}

bool dl_emit_collapses(const dl_emitter *e, int a, int b) {
    const dl_loop_nest *s = e->now;
    for (int i = 0; i < s->read.n; i++)
        if (has_axis(&e->kept[s->read.at[i]].by, a, b)) return false;
    for (int i = 0; i < s->run.n; i++) {
        int number = s->run.at[i];
        const dl_kinstr *in = &e->k->instrs.at[number];
        if (has_axis(&e->partial[number].by, a, b)) return false;
        if (in->kind == DL_K_COORD && (in->axis == a || in->axis == b)) return false;
        if (in->kind == DL_K_RANDOM && in->along[a] != in->along[b] * e->k->space[b].size)
            return false;
        if (dl_emit_is_access(in) &&
            !joins_access(e, &e->k->params.at[in->param].type, in->index, a, b))
            return false;
    }
    return true;
}

/* Writes "if (...) " before an access that may be out of bounds. */
static void put_guard(dl_emitter *e, const dl_type *t, const dl_index *at) {
    size_t mark = e->out->n;
    dl_puts(e->out, "if (");
    if (dl_emit_bounds(e, t, at))
        dl_puts(e->out, ") ");
    else
        e->out->n = mark, e->out->at[mark] = 0;
}

bool dl_emit_fills_vectors(const dl_emitter *e) {
    if (e->mode != DL_LANES) return false;
    if (!e->flat) return e->lane_axis >= 0 && e->k->space[e->lane_axis].size % e->t->lanes == 0;
    for (int i = 0; i < e->k->params.n; i++) {
        const dl_type *t = &e->k->params.at[i].type;
        if (t->rank && dl_type_stored(t) % e->t->lanes) return false;
    }
    return true;
}

/* Writes the head of a loop over lanes, in which x<lane axis> is the lane's coordinate. */
static void put_lane_loop(dl_emitter *e) {
    if (e->lane_axis >= 0)
        dl_putf(e->out, "const long lane0 = %s; ", dl_emit_coordinate(e, e->lane_axis));
    dl_puts(e->out, "for (long j = 0; j < n; j++) { ");
    if (e->lane_axis >= 0)
        dl_putf(e->out, "const long $x%d$ = lane0 + j; (void)$x%d$; ", e->lane_axis, e->lane_axis);
}

const char *dl_emit_param(const dl_emitter *e, int param) {
    if (e->dialect->named) return dl_format(e->arena, "$p%d$", param);
    return dl_format(e->arena, "((%s%s *)arg[%d])", param < e->k->nin ? "const " : "",
                     dl_emit_element_type(e->k->params.at[param].type.dtype), param);
}

/* The element that a load or store of one value accesses: its parameter's, or the emitter's
 * replacement. */
static void put_element(dl_emitter *e, const dl_kinstr *in) {
    const char *other = e->array ? e->array[in - e->k->instrs.at] : NULL;
    if (other) {
        dl_puts(e->out, other);
        return;
    }
    dl_putf(e->out, "%s[", dl_emit_param(e, in->param));
    dl_emit_address(e, &e->k->params.at[in->param].type, in->index);
    dl_puts(e->out, "]");
}

/* The function that widens an element of memory to a value of the program. */
static const char *widening(dl_dtype d) {
    return d == DL_F16 ? "s_widen_f16" : d == DL_BF16 ? "s_widen_bf16" : d == DL_BOOL ? "-" : "";
}

/* Can the addresses of all lanes be computed as a vector? All must be in bounds, with indices of
 * 32 bits. */
static bool is_gathered(const dl_emitter *e, const dl_type *t, const dl_index *at) {
    bool along = false, inside = dl_emit_is_float(t->dtype) && dl_type_stored(t) <= INT32_MAX;
    for (int i = 0; inside && i < t->rank; i++) {
        along |= along_lanes(e, &at[i]);
        inside = dl_index_inside(e->k->space, &at[i], t->axis[i].size);
    }
    return along && inside;
}

/* A gather: irregular strides between lanes, so the addresses are a vector, and each lane's
 * element is read. A loop nest over fewer axes than the kernel's space has no coordinates of the
 * others. */
static void put_gather(dl_emitter *e, const dl_kinstr *in) {
    static const dl_dialect of_lanes = {.index = "unsigned", .whole = "u", .coordinate = "u"};
    const dl_dialect *own = e->dialect;
    const dl_kparam *p = &e->k->params.at[in->param];
    dl_puts(e->out, "({ ");
    unsigned axes = dl_kinstr_followed(e->k, in);
    for (int i = 0; i < e->k->nspace; i++)
        if (axes >> i & 1)
            dl_putf(e->out, "const %s u%d = %s(unsigned)%s; ",
                    i == e->lane_axis ? "vw" : "unsigned", i,
                    i == e->lane_axis ? "(vw)lane_numbers() + " : "", dl_emit_coordinate(e, i));
    dl_putf(e->out, "gather%s((const %s *)arg[%d], ", dl_emit_suffix(p->type.dtype),
            dl_emit_element_type(p->type.dtype), in->param);
    e->dialect = &of_lanes;
    dl_emit_address(e, &p->type, in->index);
    e->dialect = own;
    dl_puts(e->out, ", n); })");
}

/* A vector load, in the element type of memory. */
static void put_load_lanes(dl_emitter *e, const dl_kinstr *in) {
    const dl_kparam *p = &e->k->params.at[in->param];
    const char *type = dl_emit_element_type(p->type.dtype), *suffix = dl_emit_suffix(p->type.dtype);
    double outside = dl_kinstr_outside(in, e->k->space, &p->type);
    bool slow = is_slow(e, &p->type, in->index);
    if (slow && is_gathered(e, &p->type, in->index)) {
        put_gather(e, in);
        return;
    }
    size_t mark = e->out->n; /* conditions that hold for all lanes are tested once */
    dl_putf(e->out, "({ %s r = splat%s(", dl_emit_type(e, p->type.dtype),
            dl_emit_suffix(dl_kernel_type(p->type.dtype)));
    dl_emit_constant(e, dl_kernel_type(p->type.dtype), outside);
    dl_puts(e->out, "); ");
    if (slow) {
        put_lane_loop(e);
        put_guard(e, &p->type, in->index);
        dl_putf(e->out, "r[j] = %s(((const %s *)arg[%d])[", widening(p->type.dtype), type,
                in->param);
        dl_emit_address(e, &p->type, in->index);
        dl_puts(e->out, "]); } r; })");
        return;
    }
    dl_puts(e->out, "if (");
    bool asked = dl_emit_bounds(e, &p->type, in->index);
    if (asked)
        dl_puts(e->out, ") r = ");
    else
        e->out->n = mark, e->out->at[mark] = 0;
    int64_t step = lane_step(e, &p->type, in->index);
    bool whole = step == 1 && dl_emit_is_float(p->type.dtype) && dl_emit_fills_vectors(e);
    bool prefetch = e->prefetch && dl_type_stored(&p->type) * (int64_t)sizeof(float) >= FROM_MEMORY;
    dl_putf(e->out, "%s%s(((const %s *)arg[%d])%s",
            step == 0   ? "splat"
            : whole     ? prefetch ? "ld_ahead" : "ld"
            : step == 1 ? "ldn"
                        : "ld_step",
            suffix, type, in->param, step ? " + " : "[");
    dl_emit_address(e, &p->type, in->index);
    if (step == 0)
        dl_puts(e->out, "])");
    else if (whole && prefetch)
        dl_putf(e->out, ", $%lldL$)", (long long)e->prefetch);
    else if (step == 1)
        dl_puts(e->out, whole ? ")" : ", n)");
    else
        dl_putf(e->out, ", $%lldL$, n)", (long long)step);
    if (asked) dl_puts(e->out, "; r; })");
}

void dl_emit_load(dl_emitter *e, const dl_kinstr *in) {
    const dl_kparam *p = &e->k->params.at[in->param];
    bool shared = dl_emit_is_shared(e->k, in);
    dl_cast c = dl_emit_cast(shared ? DL_SINGLE : e->mode, p->type.dtype, in->type);
    if (e->mode == DL_LANES && !shared) {
        dl_puts(e->out, c.open), put_load_lanes(e, in), dl_puts(e->out, c.close);
        return;
    }
    /* the emitter that sets the array has checked bounds */
    bool whole = e->array && e->array[in - e->k->instrs.at];
    bool bounded = !whole && dl_emit_bounds(e, &p->type, in->index);
    const char *half = dl_dtype_is_half(p->type.dtype) ? widening(p->type.dtype) : "";
    dl_putf(e->out, "%s%s%s(", bounded ? " ? " : "", c.open, half);
    put_element(e, in);
    dl_putf(e->out, ")%s", c.close);
    if (!bounded) return;
    dl_puts(e->out, " : ");
    dl_emit_constant(e, in->type, dl_kinstr_outside(in, e->k->space, &p->type));
}

void dl_emit_store(dl_emitter *e, const dl_kinstr *in) {
    const dl_kparam *p = &e->k->params.at[in->param];
    const char *type = dl_emit_element_type(p->type.dtype);
    dl_dtype from = e->k->instrs.at[in->args[0]].type;
    /* a float is rounded by the store */
    dl_cast c = dl_emit_is_float(from) && dl_dtype_is_half(p->type.dtype)
                    ? (dl_cast){"", ""}
                    : dl_emit_cast(e->mode, from, p->type.dtype);
    const char *narrow = p->type.dtype == DL_F16 ? "narrow_f16" : "narrow_bf16";
    dl_puts(e->out, "    ");
    if (e->mode == DL_LANES && is_slow(e, &p->type, in->index)) {
        bool half = dl_dtype_is_half(p->type.dtype);
        dl_putf(e->out, "{ const %s r = %s(%s$v%d$%s); ",
                half ? "vh" : dl_emit_type(e, p->type.dtype), half ? narrow : "", c.open,
                in->args[0], c.close);
        put_lane_loop(e);
        put_guard(e, &p->type, in->index);
        dl_putf(e->out, "((%s *)arg[%d])[", type, in->param);
        dl_emit_address(e, &p->type, in->index);
        dl_putf(e->out, "] = (%s)r[j]%s; } }\n", type, p->type.dtype == DL_BOOL ? " & 1" : "");
        return;
    }
    if (e->mode == DL_LANES) {
        int64_t step = lane_step(e, &p->type, in->index);
        if (step == 0) { /* along an axis of size 1 one lane is in use; size 0 has strides 0 */
            DL_CHECK(e->k->space[e->lane_axis].size <= 1 || !dl_type_count(&p->type));
            step = 1;
        }
        /* lanes that pad the panel of a one-element weight are no scalar's */
        const char *some = e->points && !p->type.rank ? e->points : NULL;
        bool whole =
            !some && step == 1 && dl_emit_is_float(p->type.dtype) && dl_emit_fills_vectors(e);
        put_guard(e, &p->type, in->index);
        dl_putf(e->out, "%s%s((%s *)arg[%d] + ",
                whole       ? "st"
                : step == 1 ? "stn"
                            : "st_step",
                dl_emit_suffix(p->type.dtype), type, in->param);
        dl_emit_address(e, &p->type, in->index);
        if (step != 1) dl_putf(e->out, ", $%lldL$", (long long)step);
        dl_putf(e->out, ", %s$v%d$%s", c.open, in->args[0], c.close);
        dl_putf(e->out, whole ? ");\n" : ", %s);\n", some ? some : "n");
        return;
    }
    put_guard(e, &p->type, in->index);
    put_element(e, in);
    if (dl_dtype_is_half(p->type.dtype))
        dl_putf(e->out, " = s_%s(%s$v%d$%s);\n", narrow, c.open, in->args[0], c.close);
    else
        dl_putf(e->out, " = %s$v%d$%s;\n", c.open, in->args[0], c.close);
}

/* Does a load or store access a large array, a vector at a time? */
static bool is_fetched(dl_emitter *e, const dl_kinstr *in) {
    if (!dl_emit_is_access(in) || dl_emit_is_shared(e->k, in)) return false;
    const dl_type *t = &e->k->params.at[in->param].type;
    if (dl_type_stored(t) * dl_dtype_bytes(t->dtype) < FROM_MEMORY || is_slow(e, t, in->index))
        return false;
    for (int i = 0; !e->flat && i < t->rank; i++)
        if (!dl_index_inside(e->k->space, &in->index[i], t->axis[i].size)) return false;
    return lane_step(e, t, in->index) == 1;
}

int dl_emit_prefetch(dl_emitter *e) {
    int most = 0;
    for (int i = 0; i < e->now->run.n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[e->now->run.at[i]];
        if (!is_fetched(e, in)) continue;
        dl_putf(e->out, "    __builtin_prefetch(%s + ", dl_emit_param(e, in->param));
        dl_emit_address(e, &e->k->params.at[in->param].type, in->index);
        dl_puts(e->out, ");\n");
        int bytes = dl_dtype_bytes(e->k->params.at[in->param].type.dtype);
        if (bytes > most) most = bytes;
    }
    return most;
}

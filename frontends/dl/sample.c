/* grid_sample: an image read at computed places (Jaderberg et al., Spatial transformer networks,
 * 2015), as PyTorch's. One gather over an axis of each image's elements reads all neighbours of a
 * place, which two taps for each spatial axis number; their weights are linear in the place.
 * Gradients follow: a scatter_add for the image, and the differences of neighbours for the grid. */
#include "frontends/dl/builtin.h"

enum { IMAGE, GRID, MODE, PADDING, CORNERS }; /* arguments: builtins.def */
enum { ZEROS, BORDER, REFLECTION, PADDINGS };
static const char *const paddings[PADDINGS] = {"zeros", "border", "reflection"};

typedef struct {
    dl_call *c;
    int spatial, padding;
    bool nearest, corners;
} sampler;

static dl_val number(const sampler *s, double v) { return dl_val_float(v, s->c->where); }
static dl_val op2(const sampler *s, dl_op op, dl_val a, dl_val b) {
    return dl_call_elem(s->c, op, a, b);
}
static dl_val op1(const sampler *s, dl_op op, dl_val a) {
    return dl_call_elem(s->c, op, a, (dl_val){.kind = DL_V_NONE});
}
static dl_val with_number(const sampler *s, dl_op op, dl_val a, double b) {
    return op2(s, op, a, number(s, b));
}
static dl_val choose(const sampler *s, dl_val condition, dl_val a, dl_val b) {
    dl_val in[] = {condition, a, b};
    return dl_tensor_elem(s->c->E, s->c->where, DL_OP_select, 3, in, 0, NULL);
}

/* ---- places along one axis ---- */

/* Places outside reflected at the first and last element, or at their outer edges. */
static dl_val reflect(const sampler *s, dl_val at, int64_t size) {
    double least = s->corners ? 0 : -0.5, span = (double)(s->corners ? size - 1 : size);
    if (span <= 0) return with_number(s, DL_OP_mul, at, 0);
    dl_val far = op1(s, DL_OP_abs, with_number(s, DL_OP_sub, at, least));
    dl_val turns = op1(s, DL_OP_floor, with_number(s, DL_OP_div, far, span));
    dl_val rest = op2(s, DL_OP_sub, far, with_number(s, DL_OP_mul, turns, span));
    dl_val half = op1(s, DL_OP_floor, with_number(s, DL_OP_mul, turns, 0.5));
    dl_val odd = op2(s, DL_OP_gt, turns, with_number(s, DL_OP_mul, half, 2));
    rest = choose(s, odd, op2(s, DL_OP_sub, number(s, span), rest), rest);
    return with_number(s, DL_OP_add, rest, least);
}

/* Into the axis; like PyTorch's, with a gradient strictly within it alone. */
static dl_val clip(const sampler *s, dl_val at, int64_t size) {
    dl_val last = number(s, (double)(size - 1));
    at = choose(s, op2(s, DL_OP_lt, at, last), at, last);
    return choose(s, with_number(s, DL_OP_gt, at, 0), at, number(s, 0));
}

/* From -1 to 1 to elements: -1 is the first, or the outer edge of it. */
static dl_val place_of(const sampler *s, dl_val grid, int64_t size) {
    double n = (double)size, by = s->corners ? (n - 1) / 2 : n / 2;
    dl_val at = with_number(s, DL_OP_mul, with_number(s, DL_OP_add, grid, 1), by);
    if (!s->corners) at = with_number(s, DL_OP_sub, at, 0.5);
    if (s->padding == REFLECTION) at = reflect(s, at, size);
    return s->padding == ZEROS ? at : clip(s, at, size);
}

/* To the nearest whole number, halves to the even one. */
static dl_val nearest(const sampler *s, dl_val at) {
    dl_val low = op1(s, DL_OP_floor, at), rest = op2(s, DL_OP_sub, at, low);
    dl_val half = op1(s, DL_OP_floor, with_number(s, DL_OP_mul, low, 0.5));
    dl_val odd = op2(s, DL_OP_gt, low, with_number(s, DL_OP_mul, half, 2));
    dl_val up = op2(s, DL_OP_or, with_number(s, DL_OP_gt, rest, 0.5),
                    op2(s, DL_OP_and, with_number(s, DL_OP_ge, rest, 0.5), odd));
    return choose(s, up, with_number(s, DL_OP_add, low, 1), low);
}

/* The elements along an axis that a place reads, and their weights (poison: all are 1). */
typedef struct {
    dl_val element, weight;
} neighbours;

static neighbours find_neighbours(const sampler *s, dl_val at, int64_t size, dl_axis taps) {
    neighbours r = {.weight = dl_poison()};
    dl_elab *E = s->c->E;
    if (s->nearest) {
        r.element = nearest(s, at);
    } else {
        dl_dtype type = at.t->type.dtype;
        dl_val tap = dl_count_along(E, s->c->where, taps, type), low = op1(s, DL_OP_floor, at);
        dl_val rest = op2(s, DL_OP_sub, at, low);
        r.element = op2(s, DL_OP_add, low, tap);
        r.weight = choose(s, with_number(s, DL_OP_gt, tap, 0), rest,
                          op2(s, DL_OP_sub, number(s, 1), rest));
    }
    double last = (double)(size - 1);
    if (s->padding == ZEROS) {
        dl_val inside = op2(s, DL_OP_and, with_number(s, DL_OP_ge, r.element, 0),
                            with_number(s, DL_OP_le, r.element, last));
        r.weight = choose(s, inside, s->nearest ? number(s, 1) : r.weight, number(s, 0));
        if (s->nearest) r.weight = dl_tensor_cast(E, s->c->where, r.weight, at.t->type.dtype);
    }
    r.element = with_number(s, DL_OP_max, with_number(s, DL_OP_min, r.element, last), 0);
    r.element = dl_tensor_cast(E, s->c->where, r.element, DL_I64);
    return r;
}

/* ---- arguments ---- */

static bool read_choice(dl_call *c, int i, int n, const char *const *names, int *to) {
    if (c->arg[i].kind == DL_V_NONE) return true;
    for (*to = 0; *to < n; ++*to)
        if (strcmp(c->arg[i].s, names[*to]) == 0) return true;
    dl_bad(c->E, c->ast[i]->span, DL_DIAG_bad_argument, "grid_sample: '%s' is not \"%s\"",
           c->what->params[i].name, c->arg[i].s);
    dl_buf b = {0};
    for (int k = 0; k < n; k++) dl_putf(&b, "%s\"%s\"", k ? ", " : "", names[k]);
    dl_help(c->E, "it is one of %s", b.at);
    dl_buf_free(&b);
    return false;
}

static bool refuse_grid(dl_call *c, const char *why) {
    const dl_type *x = &c->arg[IMAGE].t->type;
    dl_bad(c->E, c->ast[GRID]->span, DL_DIAG_axis_mismatch, "grid_sample: the grid is %s, %s",
           dl_type_text(&c->arg[GRID].t->type), why);
    dl_note_tensor(c->E, c->arg[GRID]);
    dl_help(c->E, "for %s it is [%s, one axis for each of the result's, %d]: x, y%s from -1 to 1",
            dl_type_text(x), x->axis[0].name, x->rank - 2, x->rank > 4 ? " and z" : "");
    return false;
}

static bool check_grid(dl_call *c) {
    const dl_type *x = &c->arg[IMAGE].t->type, *grid = &c->arg[GRID].t->type;
    int spatial = x->rank - 2;
    if (!dl_dtype_is_float(grid->dtype)) return refuse_grid(c, "whose elements are not floats");
    if (grid->rank != spatial + 2)
        return refuse_grid(c, dl_format(c->E->arena, "but the image has %d spatial axes", spatial));
    if (grid->axis[0].name != x->axis[0].name || grid->axis[0].size != x->axis[0].size)
        return refuse_grid(c, "whose first axis is not that of the image's samples");
    if (grid->axis[grid->rank - 1].size != spatial)
        return refuse_grid(c, "whose last axis has another number of coordinates");
    for (int i = 1; i < grid->rank - 1; i++)
        if (grid->axis[i].name == x->axis[1].name)
            return refuse_grid(c, "with an axis of the name of the image's channels");
    for (int i = 2; i < x->rank; i++)
        if (!x->axis[i].size) return refuse_grid(c, "but the image has no elements");
    return true;
}

/* Coordinate i of each place: the grid without its last axis. */
static dl_val coordinate(const sampler *s, dl_val grid, int i) {
    dl_axis last = grid.t->type.axis[grid.t->type.rank - 1];
    return dl_tensor_at(s->c->E, s->c->where, grid, last.name, i);
}

/* ---- the sum over the neighbours ---- */

/* Combines each tap of one axis with each of another. */
static dl_val all_taps(const sampler *s, dl_op op, dl_val a, dl_val b) {
    return dl_tensor_op(s->c->E, s->c->where, op, 2, (dl_val[]){a, b}, 0, NULL, NULL);
}

static dl_val sample(const sampler *s, dl_val x, dl_val grid) {
    dl_call *c = s->c;
    dl_type flat = x.t->type, to = x.t->type;
    const char *taps[3];
    dl_val index = dl_poison(), weight = dl_poison();
    int64_t apart = 1;
    for (int i = s->spatial - 1; i >= 0; i--) { /* the grid's first coordinate is the last axis */
        int64_t size = to.axis[2 + i].size;
        dl_val at = place_of(s, coordinate(s, grid, s->spatial - 1 - i), size);
        taps[i] = dl_internf("tap%d_", i);
        neighbours of = find_neighbours(s, at, size, (dl_axis){taps[i], 2});
        dl_val step = op2(s, DL_OP_mul, of.element, dl_val_int(apart, c->where));
        index = index.kind == DL_V_POISON ? step : all_taps(s, DL_OP_add, index, step);
        if (of.weight.kind != DL_V_POISON)
            weight =
                weight.kind == DL_V_POISON ? of.weight : all_taps(s, DL_OP_mul, weight, of.weight);
        apart *= size;
    }
    flat.rank = 2;
    const char *elements = dl_intern("element_");
    dl_type_push(&flat, elements, apart);
    dl_val y = dl_tensor_op(c->E, c->where, DL_OP_reshape, 1, &x, 0, NULL, &flat);
    dl_attr axis = dl_attr_name(DL_ATTR_axis, elements);
    y = dl_tensor_op(c->E, c->where, DL_OP_gather, 2, (dl_val[]){y, index}, 1, &axis, NULL);
    if (weight.kind != DL_V_POISON) y = op2(s, DL_OP_mul, y, weight);
    dl_attr over = dl_attr_names(DL_ATTR_over, s->spatial, taps);
    if (!s->nearest) y = dl_tensor_op(c->E, c->where, DL_OP_sum, 1, &y, 1, &over, NULL);
    for (int i = 2; i < to.rank; i++) to.axis[i] = grid.t->type.axis[i - 1];
    y = dl_tensor_op(c->E, c->where, DL_OP_broadcast, 1, &y, 0, NULL, &to);
    y.mixed = false; /* the order of its axes is the image's */
    return y;
}

dl_val dl_fn_grid_sample(dl_call *c) {
    static const char *const modes[] = {"bilinear", "nearest"};
    dl_val x = c->arg[IMAGE], grid = c->arg[GRID];
    int mode = 0;
    sampler s = {.c = c, .spatial = x.t->type.rank - 2, .corners = c->arg[CORNERS].b};
    if (!dl_call_float(c, &x) || !dl_call_image(c, &x.t->type) || !check_grid(c) ||
        !read_choice(c, MODE, 2, modes, &mode) ||
        !read_choice(c, PADDING, PADDINGS, paddings, &s.padding))
        return dl_poison();
    s.nearest = mode == 1;
    if (x.t->type.dtype != grid.t->type.dtype) /* in f64, if one of them is */
        x = dl_tensor_cast(c->E, c->where, x, grid.t->type.dtype == DL_F64 ? DL_F64 : DL_F32),
        grid = dl_tensor_cast(c->E, c->where, grid, x.t->type.dtype);
    return sample(&s, dl_tensor_pin(c->E, c->where, x), dl_tensor_pin(c->E, c->where, grid));
}

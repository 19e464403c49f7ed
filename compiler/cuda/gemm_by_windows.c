/* Windowed contractions as GEMM problems (implicit GEMM): gemm_problem.h. */
#include "compiler/cuda/operands.h"

/* "(q0 == 0 ? 4L : 3L)": a value by the stride phase q<axis>, or NULL, where all are equal. */
static const char *by_stride_phase(dl_emitter *e, int axis, int64_t n, const int64_t *value) {
    bool same = true;
    for (int64_t q = 1; q < n; q++) same = same && value[q] == value[0];
    if (same) return NULL;
    dl_buf text = {0};
    for (int64_t q = 0; q + 1 < n; q++)
        dl_putf(&text, "(q%d == $%lld$ ? $%lld$ : ", axis, (long long)q, (long long)value[q]);
    dl_putf(&text, "$%lld$", (long long)value[n - 1]);
    for (int64_t q = 0; q + 1 < n; q++) dl_puts(&text, ")");
    const char *all = dl_strdup(e->arena, text.at);
    dl_buf_free(&text);
    return all;
}

/* Axis 1 of an image: groups are the batch's first coordinate, channels of a group are that
 * coordinate of that mode. */
static void follow_channels(const dl_gemm_problem *p, dl_operand *o, dl_mode_kind kind,
                            int mode_axis, int64_t each) {
    dl_operand_follow(p, o, kind, mode_axis, 1, 1);
    dl_operand_follow(p, o, DL_MODE_BATCH, 0, 1, each);
    o->channels = kind, o->channel = mode_axis, o->group = 0;
    for (int i = 0; i < o->nparts; i++) {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(dl_operand_part(p, o, i), stride);
        o->base[i] -= o->start[i] * stride[1];
    }
}

/* An image's own coordinates along spatial axis i of three, with the modes of its positions and
 * of its taps. */
static void window_axis(const dl_gemm_problem *p, dl_operand *o, int i, int64_t limit,
                        dl_mode_kind positions, dl_mode_kind taps, dl_window_axis by) {
    int axis = dl_conv_axis(&p->c->windows, i);
    o->is_image = true, o->limit[i] = limit;
    o->positions = positions, o->taps = taps, o->window_axis[i] = by;
    o->scale[i][positions][1 + i] = by.position_step, o->scale[i][taps][i] = by.tap_step;
    for (int part = 0; part < o->nparts && axis >= 2; part++) {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(dl_operand_part(p, o, part), stride);
        o->along[part][i] = stride[axis];
    }
}

/* Windows of x along spatial axis i. */
static void set_windows(dl_emitter *e, const dl_gemm_problem *p, dl_operand *x, int i,
                        dl_mode_kind positions, dl_mode_kind taps, const dl_conv_sizes *s) {
    window_axis(p, x, i, s->in[i], positions, taps,
                (dl_window_axis){-s->pad_lo[i], s->stride[i], s->dilation[i], 0});
    x->origin[i] = s->pad_lo[i] ? dl_format(e->arena, "$%lld$", (long long)-s->pad_lo[i]) : NULL;
}

/* The tensor's axis for spatial axis i of three, or -1. */
static int spatial(const dl_gemm_problem *p, int i) { return dl_conv_axis(&p->c->windows, i); }

static void follow_spatial(const dl_gemm_problem *p, dl_operand *o, dl_mode_kind kind, int first) {
    for (int i = 0; i < 3; i++)
        if (spatial(p, i) >= 0) dl_operand_follow(p, o, kind, first + i, spatial(p, i), 1);
}

/* The weight's rows from w_start on. */
static void start_weight(const dl_gemm_problem *p, dl_operand *w) {
    int64_t stride[DL_MAX_RANK];
    dl_type_strides(dl_operand_part(p, w, 0), stride);
    w->base[0] += p->c->w_start * stride[0];
}

/* The coordinate of the result along spatial axis i. */
static void place_spatial(dl_gemm_problem *p, int i, dl_mode_kind kind, const char *text,
                          const char *variable) {
    if (spatial(p, i) >= 0) dl_gemm_place(p, spatial(p, i), kind, text, variable);
}

/* A coordinate of the result that the batch's groups count, too: each has so many. */
static void place_grouped(dl_emitter *e, dl_gemm_problem *p, int axis, dl_mode_kind kind,
                          int64_t each, const char *variable) {
    const dl_mode *groups = &p->mode[DL_MODE_BATCH];
    dl_gemm_place(p, axis, kind, variable, variable);
    if (groups->size == 1) return;
    p->coordinate[axis] = dl_format(e->arena, "(b0 * $%lld$ + %s)", (long long)each, variable);
    p->reads[axis][1] = groups->at[0].variable;
}

static void place_image(dl_emitter *e, dl_gemm_problem *p, int64_t channels) {
    const char *image = p->mode[DL_MODE_M].at[0].variable;
    dl_gemm_place(p, 0, DL_MODE_M, image, image);
    place_grouped(e, p, 1, DL_MODE_N, channels, p->mode[DL_MODE_N].at[0].variable);
    p->inner = 1;
}

/* fprop computes y: M is its positions, K is taps and channels. */
static void find_y(dl_emitter *e, dl_gemm_problem *p, const dl_conv_sizes *s) {
    dl_operand *x = &p->operand[0], *w = &p->operand[1];
    *x = dl_operand_new(p, dl_op_place(p->c->op, DL_TENSOR_X), true);
    *w = dl_operand_new(p, dl_op_place(p->c->op, DL_TENSOR_W), false);
    dl_gemm_add_axis(p, e, DL_MODE_M, s->samples, NULL);
    for (int i = 0; i < 3; i++)
        dl_gemm_add_axis(p, e, DL_MODE_M, s->out[i], NULL),
            dl_gemm_add_axis(p, e, DL_MODE_K, s->tap[i], NULL);
    dl_gemm_add_axis(p, e, DL_MODE_K, s->c, NULL);
    dl_gemm_add_axis(p, e, DL_MODE_N, s->o, NULL);
    dl_operand_follow(p, x, DL_MODE_M, 0, 0, 1);
    follow_channels(p, x, DL_MODE_K, 3, s->c);
    for (int i = 0; i < 3; i++) {
        set_windows(e, p, x, i, DL_MODE_M, DL_MODE_K, s);
    }
    dl_operand_follow(p, w, DL_MODE_N, 0, 0, 1);
    dl_operand_follow(p, w, DL_MODE_BATCH, 0, 0, s->o);
    dl_operand_follow(p, w, DL_MODE_K, 3, 1, 1);
    follow_spatial(p, w, DL_MODE_K, 0);
    start_weight(p, w);
    place_image(e, p, s->o);
    for (int i = 0; i < 3; i++)
        place_spatial(p, i, DL_MODE_M, p->mode[DL_MODE_M].at[1 + i].variable,
                      p->mode[DL_MODE_M].at[1 + i].variable);
}

/* wgrad computes the weight: M is its O, N its taps and C, K the positions of y. */
static void find_w(dl_emitter *e, dl_gemm_problem *p, const dl_conv_sizes *s) {
    dl_operand *y = &p->operand[0], *x = &p->operand[1];
    *y = dl_operand_new(p, dl_op_place(p->c->op, DL_TENSOR_Y), true);
    *x = dl_operand_new(p, dl_op_place(p->c->op, DL_TENSOR_X), false);
    dl_gemm_add_axis(p, e, DL_MODE_M, s->o, NULL);
    dl_gemm_add_axis(p, e, DL_MODE_K, s->samples, NULL);
    for (int i = 0; i < 3; i++)
        dl_gemm_add_axis(p, e, DL_MODE_N, s->tap[i], NULL),
            dl_gemm_add_axis(p, e, DL_MODE_K, s->out[i], NULL);
    dl_gemm_add_axis(p, e, DL_MODE_N, s->c, NULL);
    dl_operand_follow(p, y, DL_MODE_K, 0, 0, 1);
    follow_channels(p, y, DL_MODE_M, 0, s->o);
    follow_spatial(p, y, DL_MODE_K, 1);
    dl_operand_follow(p, x, DL_MODE_K, 0, 0, 1);
    follow_channels(p, x, DL_MODE_N, 3, s->c);
    for (int i = 0; i < 3; i++) {
        set_windows(e, p, x, i, DL_MODE_K, DL_MODE_N, s);
    }
    const dl_mode *n = &p->mode[DL_MODE_N];
    place_grouped(e, p, 0, DL_MODE_M, s->o, p->mode[DL_MODE_M].at[0].variable);
    dl_gemm_place(p, 1, DL_MODE_N, n->at[3].variable, n->at[3].variable);
    p->inner = 1;
    for (int i = 0; i < 3; i++)
        place_spatial(p, i, DL_MODE_N, n->at[i].variable, n->at[i].variable);
}

/* dgrad computes x: M is its positions of one stride phase, K the taps that reach them, and O. */
static void find_x(dl_emitter *e, dl_gemm_problem *p, const dl_conv_sizes *s) {
    dl_operand *y = &p->operand[0], *w = &p->operand[1];
    *y = dl_operand_new(p, dl_op_place(p->c->op, DL_TENSOR_Y), true);
    *w = dl_operand_new(p, dl_op_place(p->c->op, DL_TENSOR_W), false);
    dl_gemm_add_axis(p, e, DL_MODE_M, s->samples, NULL);
    for (int i = 0; i < 3; i++) {
        int64_t n = s->stride[i], most_rows = 0, most_taps = 0;
        int64_t *of[4];
        dl_stride_phase one = {0};
        for (int f = 0; f < 4; f++) of[f] = DL_NEWS(e->arena, int64_t, n);
        for (int64_t q = 0; q < n; q++) {
            one = dl_conv_stride_phase(s, i, q);
            of[0][q] = one.count, of[1][q] = one.taps, of[2][q] = one.first, of[3][q] = one.base;
            if (one.count > most_rows) most_rows = one.count;
            if (one.taps > most_taps) most_taps = one.taps;
        }
        const char *text[4];
        for (int f = 0; f < 4; f++) text[f] = by_stride_phase(e, i, n, of[f]);
        p->stride_phases[i] = n;
        dl_gemm_add_axis(p, e, DL_MODE_M, most_rows, text[0]);
        dl_gemm_add_axis(p, e, DL_MODE_K, most_taps, text[1]);
        int64_t base = of[3][0], most = base;
        for (int64_t q = 1; q < n; q++) {
            if (of[3][q] < base) base = of[3][q];
            if (of[3][q] > most) most = of[3][q];
        }
        window_axis(p, y, i, s->out[i], DL_MODE_M, DL_MODE_K,
                    (dl_window_axis){base, 1, -one.fall, most - base});
        y->origin[i] = text[3]    ? text[3]
                       : of[3][0] ? dl_format(e->arena, "$%lld$", (long long)of[3][0])
                                  : NULL;
        /* the tap: first + step * i */
        int axis = spatial(p, i);
        if (axis >= 0) dl_operand_follow(p, w, DL_MODE_K, i, axis, one.step);
        w->origin[i] = text[2]    ? text[2]
                       : of[2][0] ? dl_format(e->arena, "$%lld$", (long long)of[2][0])
                                  : NULL;
        if (axis >= 0) {
            int64_t stride[DL_MAX_RANK];
            dl_type_strides(dl_operand_part(p, w, 0), stride);
            w->along[0][i] = stride[axis];
        }
        const char *name = p->mode[DL_MODE_M].at[1 + i].variable;
        place_spatial(p, i, DL_MODE_M,
                      n == 1 ? name
                             : dl_format(e->arena, "(q%d + %s * $%lld$)", i, name, (long long)n),
                      name);
    }
    dl_gemm_add_axis(p, e, DL_MODE_K, s->o, NULL);
    dl_gemm_add_axis(p, e, DL_MODE_N, s->c, NULL);
    dl_operand_follow(p, y, DL_MODE_M, 0, 0, 1);
    follow_channels(p, y, DL_MODE_K, 3, s->o);
    dl_operand_follow(p, w, DL_MODE_K, 3, 0, 1);
    dl_operand_follow(p, w, DL_MODE_BATCH, 0, 0, s->o);
    dl_operand_follow(p, w, DL_MODE_N, 0, 1, 1);
    start_weight(p, w);
    place_image(e, p, s->c);
}

/* Direct kernels: groups of few channels make no useful GEMM, so each sum is computed alone,
 * with lanes along all channels of y or x. */
static void find_direct(dl_gemm_problem *p, const dl_conv_sizes *s) {
    enum { FEW = 64 };
    p->direct = s->groups > 1 && s->c * s->o < FEW;
    if (!p->direct) return;
    if (dl_op_makes_weight(p->c->op)) { /* M and N are swapped */
        dl_mode n = p->mode[DL_MODE_M];
        dl_operand o = p->operand[0];
        p->mode[DL_MODE_M] = p->mode[DL_MODE_N], p->mode[DL_MODE_N] = n;
        p->operand[0] = p->operand[1], p->operand[1] = o;
        for (int i = 0; i < 2; i++) {
            dl_operand *x = &p->operand[i];
            x->is_left = i == 0;
            if (x->channels != DL_MODE_K) x->channels = DL_MODE_M + DL_MODE_N - x->channels;
            for (int part = 0; part < x->nparts; part++)
                for (int c = 0; c < DL_MAX_RELATION; c++) {
                    int64_t step = x->step[part][DL_MODE_M][c];
                    x->step[part][DL_MODE_M][c] = x->step[part][DL_MODE_N][c],
                    x->step[part][DL_MODE_N][c] = step;
                }
            for (int a = 0; a < 3; a++)
                for (int c = 0; c < DL_MAX_RELATION; c++) {
                    int64_t scale = x->scale[a][DL_MODE_M][c];
                    x->scale[a][DL_MODE_M][c] = x->scale[a][DL_MODE_N][c],
                    x->scale[a][DL_MODE_N][c] = scale;
                }
        }
        for (int i = 0; i < p->k->nspace; i++)
            if (p->of[i] != DL_MODE_BATCH && p->of[i] != DL_MODE_K)
                p->of[i] = DL_MODE_M + DL_MODE_N - p->of[i];
        p->inner = -1;
    }
    dl_mode *a = &p->tile_columns;
    *a = p->mode[DL_MODE_N];
    memmove(a->at + 1, a->at, sizeof *a->at * (size_t)a->n);
    a->at[0] = p->mode[DL_MODE_BATCH].at[0], a->n++, a->size *= a->at[0].size;
}

/* Folds a coordinate that begins at 0 and is always in bounds into the element's strides, so
 * that 1 x 1 convolutions have the addresses of a matrix. */
static void fold_into_strides(const dl_gemm_problem *p, dl_operand *o, int i) {
    int64_t least = 0, most = 0;
    for (int kind = 0; kind < DL_MODES; kind++)
        for (int c = 0; c < p->mode[kind].n; c++) {
            int64_t reach = o->scale[i][kind][c] * (p->mode[kind].at[c].size - 1);
            *(reach < 0 ? &least : &most) += reach;
        }
    o->bounded[i] = o->is_image && (o->origin[i] || least < 0 || most >= o->limit[i]);
    if (o->bounded[i] || o->origin[i]) return;
    for (int kind = 0; kind < DL_MODES; kind++)
        for (int c = 0; c < p->mode[kind].n; c++) {
            for (int part = 0; part < o->nparts; part++)
                o->step[part][kind][c] += o->scale[i][kind][c] * o->along[part][i];
            o->scale[i][kind][c] = 0;
        }
    for (int part = 0; part < o->nparts; part++) o->along[part][i] = 0;
}

static const dl_operand *find_whole(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    dl_operand *whole = DL_NEW(e->arena, dl_operand);
    *whole = *o;
    for (int i = 3 - p->c->windows.n; i < 3; i++) whole->bounded[i] = o->is_image;
    return whole;
}

void dl_operand_use_coordinates(dl_operand *o) {
    memcpy(o->step, o->whole->step, sizeof o->step),
        memcpy(o->scale, o->whole->scale, sizeof o->scale);
    memcpy(o->along, o->whole->along, sizeof o->along);
    memcpy(o->bounded, o->whole->bounded, sizeof o->bounded);
}

/* Bit masks of taps that are in bounds, where M is an image's positions and K its taps, if there
 * are few enough. */
static void find_bits(const dl_gemm_problem *p, dl_operand *o) {
    int64_t all = 0;
    if (p->direct || !o->is_image || o->positions == DL_MODE_K || o->taps != DL_MODE_K) return;
    for (int i = 0; i < 3; i++) {
        o->bit[i] = (int)all;
        if (o->bounded[i]) all += p->mode[o->taps].at[i].size;
        if (all > 31) return; /* at most 31 bits */
    }
    o->has_bits = all > 0;
}

void dl_gemm_windows(dl_emitter *e, dl_gemm_problem *p) {
    static void (*const find[DL_NTENSORS])(dl_emitter *, dl_gemm_problem *,
                                           const dl_conv_sizes *) = {
        [DL_TENSOR_X] = find_x, [DL_TENSOR_W] = find_w, [DL_TENSOR_Y] = find_y};
    dl_conv_sizes s = dl_relation_sizes(&p->r);
    dl_gemm_add_axis(p, e, DL_MODE_BATCH, s.groups, NULL);
    find[dl_op_tensor(p->c->op, DL_RESULT_PLACE)](e, p, &s);
    find_direct(p, &s);
    for (int o = 0; o < 2; o++) {
        p->operand[o].whole = find_whole(e, p, &p->operand[o]);
        for (int i = 0; i < 3; i++)
            fold_into_strides(p, &p->operand[o], i), p->padded |= p->operand[o].bounded[i];
    }
    for (int o = 0; o < 2; o++) find_bits(p, &p->operand[o]);
    p->padded &= !p->direct && dl_op_makes_weight(p->c->op);
    p->fixes_nans = p->padded;
}

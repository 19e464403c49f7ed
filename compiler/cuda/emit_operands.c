/* Contractions, by windows or by names, as products of matrices: emit_tiles.h. */
#include "compiler/cuda/emit_tiles.h"

/* ---- numbers ---- */

static void count(dl_product *p, dl_emitter *e, dl_number_kind kind, int64_t size, const char *text) {
    static const char letters[DL_NUMBERS] = {'b', 'm', 'n', 'k'};
    dl_number *n = &p->number[kind];
    if (!n->n) n->size = 1;
    const char *name = size == 1 && !text ? "0" : dl_format(e->arena, "%c%d", letters[kind], n->n);
    n->at[n->n++] = (dl_counter){.name = name, .text = text, .size = size};
    n->size *= size;
    n->varies |= text != NULL;
}

/* "(q0 == 0 ? 4L : 3L)": a value by the parity q<axis>, or NULL, where all are the same. */
static const char *by_parity(dl_emitter *e, int axis, int64_t n, const int64_t *value) {
    bool same = true;
    for (int64_t q = 1; q < n; q++) same = same && value[q] == value[0];
    if (same) return NULL;
    dl_buf text = {0};
    for (int64_t q = 0; q + 1 < n; q++)
        dl_putf(&text, "(q%d == %lld ? %lld : ", axis, (long long)q, (long long)value[q]);
    dl_putf(&text, "%lld", (long long)value[n - 1]);
    for (int64_t q = 0; q + 1 < n; q++) dl_puts(&text, ")");
    const char *all = dl_strdup(e->arena, text.at);
    dl_buf_free(&text);
    return all;
}

/* ---- operands ---- */

static const dl_type *part_type(const dl_product *p, const dl_operand *o, int part) {
    return &p->k->params.at[o->param[part]].type;
}

static dl_operand new_operand(const dl_product *p, int place, bool left) {
    dl_operand o = {.place = place, .nparts = p->c->nparts[place], .group = -1, .is_left = left};
    for (int i = 0; i < o.nparts; i++) {
        o.param[i] = p->c->parts[place][i];
        o.start[i + 1] = o.start[i] + (o.nparts > 1 ? part_type(p, &o, i)->axis[1].size : 0);
    }
    for (int i = 0; i < 3; i++) o.origin[i] = NULL, o.limit[i] = 1;
    return o;
}

/* A step of a counter is `times` steps along a tensor's axis. */
static void follow(const dl_product *p, dl_operand *o, dl_number_kind kind, int counter, int axis,
                   int64_t times) {
    for (int i = 0; i < o->nparts; i++) {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(part_type(p, o, i), stride);
        o->step[i][kind][counter] += stride[axis] * times;
    }
}

/* Axis 1 of an image: groups of BATCH's first counter, channels of a group by that counter of that number. */
static void follow_channels(const dl_product *p, dl_operand *o, dl_number_kind kind, int counter,
                            int64_t each) {
    follow(p, o, kind, counter, 1, 1);
    follow(p, o, DL_BATCH, 0, 1, each);
    o->channels = kind, o->channel = counter, o->group = 0;
    for (int i = 0; i < o->nparts; i++) {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(part_type(p, o, i), stride);
        o->base[i] -= o->start[i] * stride[1];
    }
}

/* An image's own coordinates: along spatial axis i of three. */
static void slide(const dl_product *p, dl_operand *o, int i, int64_t limit) {
    int axis = 2 + i - (3 - p->c->windows.n);
    o->is_image = true, o->limit[i] = limit;
    for (int part = 0; part < o->nparts && axis >= 2; part++) {
        int64_t stride[DL_MAX_RANK];
        dl_type_strides(part_type(p, o, part), stride);
        o->along[part][i] = stride[axis];
    }
}

/* ---- by windows ---- */

typedef struct {
    int64_t batch, group, c, o, out[3], tap[3], in[3]; /* c and o: of a group */
} sizes;

static sizes find_sizes(const dl_relation *r) {
    sizes s = {r->axis[0].size, r->axis[1].size, r->axis[2].size, r->axis[3].size, {0}, {0}, {0}};
    for (int i = 0; i < 3; i++) {
        s.out[i] = r->axis[r->window[i].out].size, s.tap[i] = r->axis[r->window[i].tap].size;
        s.in[i] = r->axis[r->window[i].in].size;
    }
    return s;
}

/* Which of a tensor's axes is spatial axis i of three, or -1. */
static int spatial(const dl_product *p, int i) {
    int own = i - (3 - p->c->windows.n);
    return own < 0 ? -1 : 2 + own;
}

static void follow_spatial(const dl_product *p, dl_operand *o, dl_number_kind kind, int first) {
    for (int i = 0; i < 3; i++)
        if (spatial(p, i) >= 0) follow(p, o, kind, first + i, spatial(p, i), 1);
}

/* The weight's rows from w_start on. */
static void start_weight(const dl_product *p, dl_operand *w) {
    int64_t stride[DL_MAX_RANK];
    dl_type_strides(part_type(p, w, 0), stride);
    w->base[0] += p->c->w_start * stride[0];
}

/* The coordinate of the result along spatial axis i. */
static void place_spatial(dl_product *p, int i, dl_number_kind kind, const char *text) {
    if (spatial(p, i) >= 0) p->coordinate[spatial(p, i)] = text, p->of[spatial(p, i)] = kind;
}

static const char *grouped(dl_emitter *e, const dl_product *p, int64_t each, const char *name) {
    if (p->number[DL_BATCH].size == 1) return name;
    return dl_format(e->arena, "(b0 * %lld + %s)", (long long)each, name);
}

static void place_image(dl_emitter *e, dl_product *p, int64_t channels) {
    p->coordinate[0] = p->number[DL_ROWS].at[0].name, p->of[0] = DL_ROWS;
    p->coordinate[1] = grouped(e, p, channels, p->number[DL_COLUMNS].at[0].name), p->of[1] = DL_COLUMNS;
    p->inner = 1;
}

/* y: rows are its positions, terms taps and channels. */
static void find_y(dl_emitter *e, dl_product *p, const sizes *s) {
    dl_operand *x = &p->operand[0], *w = &p->operand[1];
    *x = new_operand(p, dl_op_place(p->c->op, DL_TENSOR_X), true);
    *w = new_operand(p, dl_op_place(p->c->op, DL_TENSOR_W), false);
    count(p, e, DL_ROWS, s->batch, NULL);
    for (int i = 0; i < 3; i++) count(p, e, DL_ROWS, s->out[i], NULL), count(p, e, DL_TERMS, s->tap[i], NULL);
    count(p, e, DL_TERMS, s->c, NULL);
    count(p, e, DL_COLUMNS, s->o, NULL);
    follow(p, x, DL_ROWS, 0, 0, 1);
    follow_channels(p, x, DL_TERMS, 3, s->c);
    for (int i = 0; i < 3; i++) {
        const dl_relation_window *v = &p->r.window[i];
        slide(p, x, i, s->in[i]);
        x->scale[i][DL_ROWS][1 + i] = v->stride, x->scale[i][DL_TERMS][i] = v->dilation;
        x->origin[i] = v->pad ? dl_format(e->arena, "%lld", (long long)-v->pad) : NULL;
        x->bounded[i] =
            v->pad > 0 || (s->out[i] - 1) * v->stride + (s->tap[i] - 1) * v->dilation - v->pad >= s->in[i];
    }
    follow(p, w, DL_COLUMNS, 0, 0, 1);
    follow(p, w, DL_BATCH, 0, 0, s->o);
    follow(p, w, DL_TERMS, 3, 1, 1);
    follow_spatial(p, w, DL_TERMS, 0);
    start_weight(p, w);
    place_image(e, p, s->o);
    for (int i = 0; i < 3; i++) place_spatial(p, i, DL_ROWS, p->number[DL_ROWS].at[1 + i].name);
}

/* The weight: rows are its O, columns its taps and C, terms positions of y. */
static void find_w(dl_emitter *e, dl_product *p, const sizes *s) {
    dl_operand *y = &p->operand[0], *x = &p->operand[1];
    *y = new_operand(p, dl_op_place(p->c->op, DL_TENSOR_Y), true);
    *x = new_operand(p, dl_op_place(p->c->op, DL_TENSOR_X), false);
    count(p, e, DL_ROWS, s->o, NULL);
    count(p, e, DL_TERMS, s->batch, NULL);
    for (int i = 0; i < 3; i++)
        count(p, e, DL_COLUMNS, s->tap[i], NULL), count(p, e, DL_TERMS, s->out[i], NULL);
    count(p, e, DL_COLUMNS, s->c, NULL);
    follow(p, y, DL_TERMS, 0, 0, 1);
    follow_channels(p, y, DL_ROWS, 0, s->o);
    follow_spatial(p, y, DL_TERMS, 1);
    follow(p, x, DL_TERMS, 0, 0, 1);
    follow_channels(p, x, DL_COLUMNS, 3, s->c);
    for (int i = 0; i < 3; i++) {
        const dl_relation_window *v = &p->r.window[i];
        slide(p, x, i, s->in[i]);
        x->scale[i][DL_COLUMNS][i] = v->dilation, x->scale[i][DL_TERMS][1 + i] = v->stride;
        x->origin[i] = v->pad ? dl_format(e->arena, "%lld", (long long)-v->pad) : NULL;
        x->bounded[i] =
            v->pad > 0 || (s->out[i] - 1) * v->stride + (s->tap[i] - 1) * v->dilation - v->pad >= s->in[i];
    }
    p->coordinate[0] = grouped(e, p, s->o, p->number[DL_ROWS].at[0].name), p->of[0] = DL_ROWS;
    p->coordinate[1] = p->number[DL_COLUMNS].at[3].name, p->of[1] = DL_COLUMNS, p->inner = 1;
    for (int i = 0; i < 3; i++) place_spatial(p, i, DL_COLUMNS, p->number[DL_COLUMNS].at[i].name);
}

/* Positions q + stride * j of x along one axis read y at the same taps: first + step * i, which read it at
 * base + j - i * fall. */
typedef struct {
    int64_t count, first, step, taps, base, fall;
} parity;

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static parity find_parity(const dl_relation_window *v, int64_t size, int64_t taps, int64_t q) {
    int64_t step = v->stride / gcd(v->stride, v->dilation), at = q + v->pad, rest = at % v->stride, first = 0;
    for (; rest && first < step; first++) rest = (rest + v->stride - v->dilation % v->stride) % v->stride;
    parity p = {.first = rest ? 0 : first, .step = step, .fall = step * v->dilation / v->stride};
    if (!rest) p.base = (at - first * v->dilation) / v->stride;
    p.count = size > q ? dl_ceil_div(size - q, v->stride) : 0;
    p.taps = !rest && taps > first ? dl_ceil_div(taps - first, step) : 0;
    return p;
}

/* x: rows are its positions of one parity, terms the taps that reach them, and O. */
static void find_x(dl_emitter *e, dl_product *p, const sizes *s) {
    dl_operand *y = &p->operand[0], *w = &p->operand[1];
    *y = new_operand(p, dl_op_place(p->c->op, DL_TENSOR_Y), true);
    *w = new_operand(p, dl_op_place(p->c->op, DL_TENSOR_W), false);
    count(p, e, DL_ROWS, s->batch, NULL);
    for (int i = 0; i < 3; i++) {
        const dl_relation_window *v = &p->r.window[i];
        int64_t n = v->stride, most_rows = 0, most_taps = 0;
        int64_t *of[4];
        parity one = {0};
        for (int f = 0; f < 4; f++) of[f] = DL_NEWS(e->arena, int64_t, n);
        for (int64_t q = 0; q < n; q++) {
            one = find_parity(v, s->in[i], s->tap[i], q);
            of[0][q] = one.count, of[1][q] = one.taps, of[2][q] = one.first, of[3][q] = one.base;
            if (one.count > most_rows) most_rows = one.count;
            if (one.taps > most_taps) most_taps = one.taps;
        }
        const char *text[4];
        for (int f = 0; f < 4; f++) text[f] = by_parity(e, i, n, of[f]);
        p->parities[i] = n;
        count(p, e, DL_ROWS, most_rows, text[0]);
        count(p, e, DL_TERMS, most_taps, text[1]);
        slide(p, y, i, s->out[i]);
        y->scale[i][DL_ROWS][1 + i] = 1, y->scale[i][DL_TERMS][i] = -one.fall;
        y->origin[i] = text[3] ? text[3] : of[3][0] ? dl_format(e->arena, "%lld", (long long)of[3][0]) : NULL;
        y->bounded[i] = true;
        /* the tap: first + step * i */
        int axis = spatial(p, i);
        if (axis >= 0) follow(p, w, DL_TERMS, i, axis, one.step);
        w->origin[i] = text[2] ? text[2] : of[2][0] ? dl_format(e->arena, "%lld", (long long)of[2][0]) : NULL;
        if (axis >= 0) {
            int64_t stride[DL_MAX_RANK];
            dl_type_strides(part_type(p, w, 0), stride);
            w->along[0][i] = stride[axis];
        }
        const char *name = p->number[DL_ROWS].at[1 + i].name;
        place_spatial(p, i, DL_ROWS,
                      n == 1 ? name : dl_format(e->arena, "(q%d + %s * %lld)", i, name, (long long)n));
    }
    count(p, e, DL_TERMS, s->o, NULL);
    count(p, e, DL_COLUMNS, s->c, NULL);
    follow(p, y, DL_ROWS, 0, 0, 1);
    follow_channels(p, y, DL_TERMS, 3, s->o);
    follow(p, w, DL_TERMS, 3, 0, 1);
    follow(p, w, DL_BATCH, 0, 0, s->o);
    follow(p, w, DL_COLUMNS, 0, 1, 1);
    start_weight(p, w);
    place_image(e, p, s->c);
}

/* ---- by names ---- */

static int64_t stride_of(const dl_product *p, const dl_operand *o, int axis) {
    int64_t stride[DL_MAX_RANK];
    dl_type_strides(part_type(p, o, 0), stride);
    int at = p->r.axis[axis].at[o->place];
    return at < 0 ? 0 : stride[at];
}

static void add_axis(dl_emitter *e, dl_product *p, dl_number_kind kind, int axis) {
    int counter = p->number[kind].n;
    count(p, e, kind, p->r.axis[axis].size, NULL);
    for (int i = 0; i < 2; i++) p->operand[i].step[0][kind][counter] = stride_of(p, &p->operand[i], axis);
    if (axis < p->k->nspace) p->coordinate[axis] = p->number[kind].at[counter].name, p->of[axis] = kind;
}

/* Columns are the axes of the operand that has the result's last one, so that they lie side by side in it;
 * the term whose neighbours do in an operand is the innermost. */
static void find_names(dl_emitter *e, dl_product *p) {
    int last = -1, inner = -1;
    for (int i = 0; i < p->k->nspace; i++)
        if (p->r.axis[i].role != DL_ROLE_BATCH && p->r.axis[i].size != 1) last = i;
    bool swap = last >= 0 && p->r.axis[last].role == DL_ROLE_M;
    for (int i = 0; i < 2; i++) p->operand[i] = new_operand(p, swap ? 1 - i : i, i == 0);
    for (int i = 0; i < p->k->nspace; i++) {
        dl_role role = p->r.axis[i].role;
        dl_number_kind kind = role == DL_ROLE_BATCH         ? DL_BATCH
                              : (role == DL_ROLE_M) != swap ? DL_ROWS
                                                            : DL_COLUMNS;
        add_axis(e, p, kind, i);
        if (kind == DL_COLUMNS && (p->inner < 0 || p->r.axis[i].size != 1)) p->inner = i;
    }
    for (int i = p->k->nspace; i < p->r.n; i++)
        for (int o = 1; o >= 0; o--)
            if (p->r.axis[i].size > 1 && stride_of(p, &p->operand[o], i) == 1) inner = i;
    for (int i = p->k->nspace; i < p->r.n; i++)
        if (i != inner) add_axis(e, p, DL_TERMS, i);
    if (inner >= 0) add_axis(e, p, DL_TERMS, inner);
}

/* ---- how they are read ---- */

static int innermost(const dl_number *n) {
    int at = n->n - 1;
    while (at > 0 && n->at[at].size == 1 && !n->at[at].text) at--;
    return at;
}

/* Do pieces of so many elements along the innermost axis of that number lie side by side, and begin at
 * multiples of their size? */
static bool in_pieces(const dl_product *p, const dl_operand *o, dl_number_kind kind, int64_t piece) {
    const dl_number *n = &p->number[kind];
    int inner = innermost(n);
    if (inner < 0 || n->at[inner].text || n->at[inner].size % piece) return false;
    for (int i = 0; i < o->nparts; i++) {
        if (o->step[i][kind][inner] != 1 || o->base[i] % piece || o->start[i] % piece) return false;
        for (int k = 0; k < DL_NUMBERS; k++)
            for (int c = 0; c < p->number[k].n; c++)
                if (!((int)kind == k && c == inner) && o->step[i][k][c] % piece) return false;
        for (int a = 0; a < 3; a++)
            if (o->along[i][a] % piece || o->scale[a][kind][inner]) return false;
    }
    return o->nparts == 1 || o->start[o->nparts] % piece == 0;
}

static void find_reading(const dl_product *p, dl_operand *o) {
    bool same = true;
    dl_number_kind rows = o->is_left ? DL_ROWS : DL_COLUMNS;
    for (int i = 0; i < o->nparts; i++) same = same && part_type(p, o, i)->dtype == o->dtype;
    int word = dl_dtype_bytes(o->dtype);
    o->along_k = in_pieces(p, o, DL_TERMS, 1) || !in_pieces(p, o, rows, 1);
    for (int bytes = 16; same && bytes >= 4 && bytes >= word; bytes /= 2)
        for (int along = 1; along >= 0; along--)
            if (in_pieces(p, o, along ? DL_TERMS : rows, bytes / word)) {
                o->along_k = along, o->bytes = bytes;
                return;
            }
    o->bytes = same && word == 4 ? 4 : 0;
}

/* Groups of few channels are no products of matrices worth the name: each sum by itself, lanes along all
 * channels of y or x. */
static void find_alone(dl_product *p, const sizes *s) {
    enum { FEW = 64 };
    p->alone = s->group > 1 && s->c * s->o < FEW;
    if (!p->alone) return;
    if (dl_op_tensor(p->c->op, DL_RESULT_PLACE) == DL_TENSOR_W) { /* rows and columns change places */
        dl_number n = p->number[DL_ROWS];
        dl_operand o = p->operand[0];
        p->number[DL_ROWS] = p->number[DL_COLUMNS], p->number[DL_COLUMNS] = n;
        p->operand[0] = p->operand[1], p->operand[1] = o;
        for (int i = 0; i < 2; i++) {
            dl_operand *x = &p->operand[i];
            x->is_left = i == 0;
            if (x->channels != DL_TERMS) x->channels = DL_ROWS + DL_COLUMNS - x->channels;
            for (int part = 0; part < x->nparts; part++)
                for (int c = 0; c < DL_MAX_RELATION; c++) {
                    int64_t step = x->step[part][DL_ROWS][c];
                    x->step[part][DL_ROWS][c] = x->step[part][DL_COLUMNS][c],
                    x->step[part][DL_COLUMNS][c] = step;
                }
            for (int a = 0; a < 3; a++)
                for (int c = 0; c < DL_MAX_RELATION; c++) {
                    int64_t scale = x->scale[a][DL_ROWS][c];
                    x->scale[a][DL_ROWS][c] = x->scale[a][DL_COLUMNS][c], x->scale[a][DL_COLUMNS][c] = scale;
                }
        }
        for (int i = 0; i < p->k->nspace; i++)
            if (p->of[i] != DL_BATCH && p->of[i] != DL_TERMS) p->of[i] = DL_ROWS + DL_COLUMNS - p->of[i];
        p->inner = -1;
    }
    dl_number *a = &p->across;
    *a = p->number[DL_COLUMNS];
    memmove(a->at + 1, a->at, sizeof *a->at * (size_t)a->n);
    a->at[0] = p->number[DL_BATCH].at[0], a->n++, a->size *= a->at[0].size;
}

/* Operands of one 16-bit type are multiplied in it, others as floats. */
static void find_arithmetic(dl_product *p) {
    dl_dtype type = part_type(p, &p->operand[0], 0)->dtype;
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < p->operand[o].nparts; i++)
            if (part_type(p, &p->operand[o], i)->dtype != type || p->alone) type = DL_F32;
    p->arithmetic = type == DL_BF16  ? "CT_BF16"
                    : type == DL_F16 ? "CT_F16"
                    : p->c->tf32     ? "CT_TF32"
                                     : "CT_F32";
    p->word = dl_dtype_bytes(type);
    for (int o = 0; o < 2; o++) p->operand[o].dtype = type;
}

dl_product dl_product_find(dl_emitter *e, const dl_kinstr *c) {
    dl_product p = {.k = e->k, .c = c, .r = dl_kernel_relation(e->k, c), .parities = {1, 1, 1}, .inner = -1};
    for (int i = 0; i < DL_NUMBERS; i++) p.number[i].size = 1;
    for (int i = 0; i < e->k->nspace; i++) p.coordinate[i] = "0";
    if (dl_op_slides(c->op)) {
        sizes s = find_sizes(&p.r);
        count(&p, e, DL_BATCH, s.group, NULL);
        static void (*const find[DL_NTENSORS])(dl_emitter *, dl_product *, const sizes *) = {
            [DL_TENSOR_X] = find_x, [DL_TENSOR_W] = find_w, [DL_TENSOR_Y] = find_y};
        find[dl_op_tensor(c->op, DL_RESULT_PLACE)](e, &p, &s);
        find_alone(&p, &s);
    } else {
        find_names(e, &p);
    }
    if (!p.alone) p.across = p.number[DL_COLUMNS];
    find_arithmetic(&p);
    for (int o = 0; o < 2 && !p.alone; o++) find_reading(&p, &p.operand[o]);
    return p;
}

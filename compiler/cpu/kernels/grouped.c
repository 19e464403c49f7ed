/* Grouped windowed contractions; after weight.c.
 *
 * In groups of several channels, each panel of the result's lanes is one small matrix over the
 * channels that its groups read: the weight where lane and channel are of one group, zero
 * elsewhere. The usual tiles then compute PANEL / (channels of a group) times as many products
 * as needed; none is wasted where a group fills panels. Sums that are not finite are recomputed
 * without the zeros, which would turn one group's infinity into its neighbours' NaN. Depthwise,
 * a lane reads its own channel, lane by lane along lines of W. So do weight gradients of groups
 * so small that a vector of lanes finds all its inputs in one vector of channels. */

/* Relates the positions of x and y: x = y * stride + tap * dilation - pad. */
struct group_window {
    int batch, x[3], y[3], stride[3], dilation[3], pad[3], kernel[3];
};

/* The first channel that a lane's vector reads. */
INLINE long lane_first_channel(const struct contraction *s, long lane) {
    const struct k_range *range = column_k_range(s, lane / PANEL);
    return range->first + (lane % PANEL < LANES ? 0 : range->vector_offset);
}

/* Packs one panel: packed[column][tap][channel read][lane]. `transposed`: x is computed, a lane is
 * a channel of x, and taps are mirrored (transpose_weight). */
ENTRY void group_weight(const struct contraction *s, int transposed, struct array w, long column,
                        float *packed) {
    long n = column_k_range(s, column)->terms;
    for (long tap = 0; tap < s->weight_taps; tap++)
        for (long k = 0; k < n; k++) {
            long place = column * s->weight_taps + (transposed ? s->weight_taps - 1 - tap : tap);
            float *to = packed + (place * s->depth + k) * PANEL;
            for (long lane = 0; lane < PANEL; lane++) {
                long made = column * PANEL + lane, read = lane_first_channel(s, made) + k,
                     o = transposed ? read : made;
                long c = (transposed ? made : read) % s->weight_channels;
                int merged = made < s->channels && made / s->own == read / s->summed;
                to[lane] =
                    merged ? element(w, ((o / PANEL * s->weight_taps + tap) * s->weight_channels +
                                         c) * PANEL +
                                            o % PANEL)
                           : 0;
            }
        }
}

INLINE int all_finite(const float *v, long n) {
    vi bad = {0};
    int some = 0;
    for (long i = 0; i < n; i += LANES)
        bad |= (vi)(ld(v + i) - ld(v + i)); /* 0 if finite, else NaN */
    for (long i = 0; i < LANES; i++) some |= bad[i];
    return some == 0;
}

/* NaN fix-up: recomputes row r's sums, for each lane over its own group alone. */
static void sum_by_group(const struct contraction *s, const struct positions *p,
                         const struct rows *row, long r, struct array x, const float *packed,
                         long column, float *acc) {
    long from = column * PANEL;
    __builtin_memset(acc, 0, sizeof(float) * PANEL);
    for (long i = 0; i < p->taps; i++) {
        const struct tap *tap = s->taps + p->first_tap + i;
        long by = ((long)tap->at[0] * s->in[1] + tap->at[1]) * s->in[2] + tap->at[2];
        int there = 1;
        for (int k = 0; k < 3; k++)
            there &= (unsigned)(row->at[k][r] + tap->at[k]) < (unsigned)s->in[k];
        if (!there) continue;
        struct array read = from_element(x, (row->base[r] + by) * s->part->channels);
        for (long lane = 0; lane < PANEL && from + lane < s->channels; lane++) {
            long k = (from + lane) / s->own * s->summed;
            const float *b = packed +
                             ((column * s->weight_taps + tap->w) * s->depth + k -
                              lane_first_channel(s, from + lane)) *
                                 PANEL +
                             lane;
            float sum = 0;
            for (long c = 0; c < s->summed; c++) sum += element(read, k + c) * b[c * PANEL];
            acc[lane] += sum;
        }
    }
}

static void fix_nans(const struct columns *c, char *const *arg, long from, long rows, long column,
                     float *acc) {
    if (all_finite(acc, rows * PANEL)) return;
    for (long r = from; r < from + rows; r++, acc += PANEL)
        if (!all_finite(acc, PANEL))
            sum_by_group(c->of, c->positions, c->row, r, PART_OF(arg, *c->of->part), c->weight.at,
                         column, acc);
}

/* As rows_item, with weights that group_weight packed. */
ENTRY void group_item(const struct contraction *s, char *const *arg, struct array packed, long item,
                      char *scratch, rows_fn *epilogue, rows_fn *prefetch, double *sums) {
    struct rows_scratch *t = (void *)scratch;
    struct columns c = columns_of(s, item, t, packed, s->depth, epilogue, prefetch);
    c.multi_group = 1;
    sum_columns(&c, arg, t->acc, sums);
}

/* ---- depthwise ---- */

/* The place along one axis that the result's place `made` reads with tap k, or -1. `transposed`: x
 * is computed, and place p of y contributes to p * stride + k * dilation - pad. */
INLINE long place_read(const struct group_window *v, int axis, int transposed, long k, long made) {
    long by = k * v->dilation[axis] - v->pad[axis], stride = v->stride[axis];
    long at = transposed ? made - by : made * stride + by;
    if (at < 0 || (transposed && stride > 1 && at % stride)) return -1;
    if (transposed && stride > 1) at /= stride;
    return at < (transposed ? v->y : v->x)[axis] ? at : -1;
}

struct depth_tap {
    const void *x; /* the channels read */
    const void *w; /* their weights, in the first panel */
};

/* The taps of one position of the result. */
INLINE long find_taps(const struct group_window *v, int transposed, struct array read,
                      long channels, struct array w, const long at[4], struct depth_tap *tap) {
    const int *size = transposed ? v->y : v->x;
    long n = 0, place[3];
    for (long kd = 0; kd < v->kernel[0]; kd++) {
        if ((place[0] = place_read(v, 0, transposed, kd, at[1])) < 0) continue;
        for (long kh = 0; kh < v->kernel[1]; kh++) {
            if ((place[1] = place_read(v, 1, transposed, kh, at[2])) < 0) continue;
            struct array line = from_element(
                read, ((at[0] * size[0] + place[0]) * size[1] + place[1]) * size[2] * channels);
            struct array row = from_element(w, (kd * v->kernel[1] + kh) * v->kernel[2] * PANEL);
            for (long kw = 0; kw < v->kernel[2]; kw++)
                if ((place[2] = place_read(v, 2, transposed, kw, at[3])) >= 0)
                    tap[n++] = (struct depth_tap){from_element(line, place[2] * channels).at,
                                                  from_element(row, kw * PANEL).at};
        }
    }
    return n;
}

/* acc[PANEL] = the taps' products in channels [lane, lane + lanes), whose weights are `by` after
 * the first ones. */
INLINE void sum_taps(const struct depth_tap *tap, int x_type, int w_type, long n, long lane,
                     long lanes, long by, float *acc) {
#define X_OF(tap, i) load((struct array){(tap)->x, x_type}, lane + (i))
#define W_OF(tap, i) load((struct array){(tap)->w, w_type}, by + (i))
    vf a = {0}, b = {0}, c = {0}, d = {0};
    const struct depth_tap *end = tap + n;
    if (lanes < PANEL)
        for (; tap < end; tap++) {
            struct array x = {tap->x, x_type};
            a += load_n(x, lane, lanes) * W_OF(tap, 0);
            if (lanes > LANES) b += load_part(x, lane + LANES, lanes - LANES) * W_OF(tap, LANES);
        }
    for (; tap + 1 < end; tap += 2) {
        a += X_OF(tap, 0) * W_OF(tap, 0), b += X_OF(tap, LANES) * W_OF(tap, LANES);
        c += X_OF(tap + 1, 0) * W_OF(tap + 1, 0), d += X_OF(tap + 1, LANES) * W_OF(tap + 1, LANES);
    }
    if (tap < end) a += X_OF(tap, 0) * W_OF(tap, 0), b += X_OF(tap, LANES) * W_OF(tap, LANES);
    st(acc, a + c), st(acc + LANES, b + d);
}
#define SUM_TAPS(x_type, w_type)                                                                   \
    {                                                                                              \
        sum_taps(tap, x_type, w_type, n, lane, lanes, by, acc);                                    \
        return;                                                                                    \
    }
/* For operands of one type, or with one of them in floats. */
HOT void sum_taps_of(const struct depth_tap *tap, int x_type, int w_type, long n, long lane,
                     long lanes, long by, float *acc){
    IF_F16(x_type, IF_F16(w_type, SUM_TAPS(F16, F16))) IF_F16(x_type, SUM_TAPS(F16, w_type))
        IF_BF16(x_type, IF_BF16(w_type, SUM_TAPS(BF16, BF16)))
            IF_BF16(x_type, SUM_TAPS(BF16, w_type)) SUM_TAPS(F32, w_type)}

/* PACK_ROWS positions of the result, all channels. */
ENTRY void depth_item(const struct group_window *v, int transposed, char *const *arg,
                      struct array read, struct array weight, long channels, long item,
                      char *scratch, point_fn *point, double *sums) {
    const int *size = transposed ? v->x : v->y;
    long plane = (long)size[1] * size[2], all = (long)v->batch * size[0] * plane,
         panels = (channels + PANEL - 1) / PANEL;
    long taps = (long)v->kernel[0] * v->kernel[1] * v->kernel[2];
    float acc[PANEL];
    for (long i = item * PACK_ROWS; i < all && i < (item + 1) * PACK_ROWS; i++) {
        long at[4] = {i / plane / size[0], i / plane % size[0], i / size[2] % size[1], i % size[2]};
        struct depth_tap *tap = (struct depth_tap *)scratch;
        long n = find_taps(v, transposed, read, channels, weight, at, tap);
        for (long column = 0; column < panels; column++) {
            long lane = column * PANEL, lanes = channels - lane < PANEL ? channels - lane : PANEL;
            sum_taps_of(tap, read.type, weight.type, n, lane, lanes, column * taps * PANEL, acc);
            point(arg, acc, at, lane, lanes, sums);
        }
    }
}

/* ---- weight gradients lane by lane: a work item is all taps along W of one panel of O, over
 * all positions ---- */

struct group_gradient {
    const struct group_window *window;
    struct part x, y; /* arguments and their channels */
    int per, own;     /* channels of a group: of x and of y */
};

/* The places [*made, *made + n) of y along W whose input at tap k is in bounds, and the first
 * input. Returns n. */
INLINE long merged(const struct group_window *v, long k, long *made, long *read) {
    long stride = v->stride[2], by = k * v->dilation[2] - v->pad[2];
    long first = by < 0 ? (-by + stride - 1) / stride : 0,
         last = v->x[2] > by ? (v->x[2] - by + stride - 1) / stride : 0;
    if (last > v->y[2]) last = v->y[2];
    *made = first, *read = first * stride + by;
    return last > first ? last - first : 0;
}

/* A line of y along W with this tap in bounds: the first position in y and in x, the number of
 * positions, and x's stride. */
struct met_line {
    long y, x, n, step;
};

INLINE struct met_line meet_line(const struct group_window *v, long tap, long line) {
    const int *size = v->kernel;
    long k[3] = {tap / size[2] / size[1], tap / size[2] % size[1], tap % size[2]}, place[3], made;
    long b = line / v->y[1] / v->y[0], d = line / v->y[1] % v->y[0], h = line % v->y[1];
    struct met_line m = {.step = v->stride[2]};
    place[0] = place_read(v, 0, 0, k[0], d), place[1] = place_read(v, 1, 0, k[1], h);
    if (place[0] < 0 || place[1] < 0) return m;
    m.n = merged(v, k[2], &made, &place[2]);
    m.y = line * v->y[2] + made;
    m.x = ((b * v->x[0] + place[0]) * v->x[1] + place[1]) * v->x[2] + place[2];
    return m;
}

/* acc[PANEL] = channel c of each lane's group, of sums[channel read][PANEL]. */
ENTRY void pick_channel(const struct k_range *range, long own, long per, long lanes, long panel,
                        long c, const float *sums, float *acc) {
    for (long i = 0; i < PANEL; i++) {
        long lane = panel * PANEL + i,
             first = range->first + (i < LANES ? 0 : range->vector_offset);
        acc[i] = lane < lanes ? sums[(lane / own * per + c - first) * PANEL + i] : 0;
    }
}

/* Lane by lane: sum[PANEL] += the products of n positions, for `lanes` lanes, in groups of one
 * channel. */
INLINE void dot_line(struct array x, long x_step, struct array y, long y_step, long n, long lanes,
                     float *sum) {
    vf a = {0}, b = {0}, c = {0}, d = {0};
    if (lanes < PANEL) {
        long more = lanes - LANES;
        for (long i = 0; i < n; i++, x = from_element(x, x_step), y = from_element(y, y_step)) {
            a += load_n(x, 0, lanes) * load_n(y, 0, lanes);
            if (more > 0) b += load_part(x, LANES, more) * load_part(y, LANES, more);
        }
        n = 0;
    }
    for (; n > 1; n -= 2, x = from_element(x, 2 * x_step), y = from_element(y, 2 * y_step)) {
        struct array x2 = from_element(x, x_step), y2 = from_element(y, y_step);
        a += load(x, 0) * load(y, 0), b += load(x, LANES) * load(y, LANES);
        c += load(x2, 0) * load(y2, 0), d += load(x2, LANES) * load(y2, LANES);
    }
    if (n) a += load(x, 0) * load(y, 0), b += load(x, LANES) * load(y, LANES);
    st(sum, ld(sum) + (a + c)), st(sum + LANES, ld(sum + LANES) + (b + d));
}
#define DOT_LINE(x_type, y_type)                                                                   \
    {                                                                                              \
        dot_line((struct array){x.at, x_type}, x_step, (struct array){y.at, y_type}, y_step, n,    \
                 lanes, sum);                                                                      \
        return;                                                                                    \
    }
HOT void dot_line_of(struct array x, long x_step, struct array y, long y_step, long n, long lanes,
                     float *sum){
    IF_F16(x.type, IF_F16(y.type, DOT_LINE(F16, F16))) IF_F16(x.type, DOT_LINE(F16, y.type))
        IF_BF16(x.type, IF_BF16(y.type, DOT_LINE(BF16, BF16)))
            IF_BF16(x.type, DOT_LINE(BF16, y.type)) DOT_LINE(F32, y.type)}

/* v[at[i]] of each lane i. */
INLINE vf pick(vf v, vi at) {
#if defined(__AVX2__) && LANES == 8
    return __builtin_ia32_permvarsf256(v, at);
#elif defined(__GNUC__) && !defined(__clang__)
    return __builtin_shuffle(v, at);
#elif defined(__AVX512F__) && LANES == 16
    return __builtin_ia32_permvarsf512(v, at);
#else
    vf picked;
    for (long i = 0; i < LANES; i++) picked[i] = v[at[i]];
    return picked;
#endif
}
enum { AT_ONCE = 4 }; /* channels of a group that are summed together */
/* The channels of x that the lanes of a panel's two vectors read: `n` exist from `first` on, and
 * channel c of lane i's group is number at[c][i] of them. */
struct lane_channels {
    long first[2], n[2];
    int at[][PANEL];
};
UNUSED void find_channels(const struct group_gradient *g, long lane, struct lane_channels *from) {
    for (int j = 0; j < 2; j++) {
        long start = lane + j * LANES, first = start / g->own * g->per;
        from->first[j] = start < g->y.channels ? first : 0;
        from->n[j] = g->x.channels - from->first[j];
        for (long c = 0; c < (g->per + AT_ONCE - 1) / AT_ONCE * AT_ONCE; c++)
            for (long i = 0; i < LANES; i++) {
                long group = (start + i) / g->own * g->per, channel = c < g->per ? c : 0;
                from->at[c][j * LANES + i] =
                    start + i < g->y.channels ? (int)(group + channel - first) : 0;
            }
    }
}
/* sum[c][PANEL] += the products of n positions with channels [c, c + AT_ONCE) of the lanes'
 * groups, which have `many` channels. */
INLINE void dot_channels(const struct lane_channels *from, long c, long many, struct array x,
                         long x_step, struct array y, long y_step, long n, long lanes, float *sum) {
#define CHANNELS_OF(f) f(0) f(1) f(2) f(3)
#define PLACES_OF(k)                                                                               \
    vi at##k = *(const vi_any *)from->at[c + k], up##k = *(const vi_any *)(from->at[c + k] + LANES);
#define SUMS_OF(k) vf a##k = {0}, b##k = {0};
#define ADD_TO(k)  a##k += pick(low, at##k) * y_low, b##k += pick(high, up##k) * y_high;
#define SUMS_TO(k)                                                                                 \
    if (k < many) st(sum + k * PANEL, ld(sum + k * PANEL) + a##k);                                 \
    if (k < many) st(sum + k * PANEL + LANES, ld(sum + k * PANEL + LANES) + b##k);
    CHANNELS_OF(PLACES_OF)
    CHANNELS_OF(SUMS_OF) int whole = from->n[0] >= LANES && from->n[1] >= LANES && lanes == PANEL;
    for (; n > 0; n--, x = from_element(x, x_step), y = from_element(y, y_step)) {
        vf low, high, y_low, y_high;
        if (whole)
            low = load(x, from->first[0]), high = load(x, from->first[1]), y_low = load(y, 0),
            y_high = load(y, LANES);
        else {
            low = load_n(x, from->first[0], from->n[0]),
            high = load_n(x, from->first[1], from->n[1]);
            y_low = load_n(y, 0, lanes),
            y_high = lanes > LANES ? load_n(y, LANES, lanes - LANES) : (vf){0};
        }
        CHANNELS_OF(ADD_TO)
    }
    CHANNELS_OF(SUMS_TO)
}
#define DOT_CHANNELS(x_type, y_type)                                                               \
    {                                                                                              \
        dot_channels(from, c, many, (struct array){x.at, x_type}, x_step,                          \
                     (struct array){y.at, y_type}, y_step, n, lanes, sum);                         \
        return;                                                                                    \
    }
HOT void dot_channels_of(const struct lane_channels *from, long c, long many, struct array x,
                         long x_step, struct array y, long y_step, long n, long lanes, float *sum){
    IF_F16(x.type, IF_F16(y.type, DOT_CHANNELS(F16, F16))) IF_F16(x.type, DOT_CHANNELS(F16, y.type))
        IF_BF16(x.type, IF_BF16(y.type, DOT_CHANNELS(BF16, BF16)))
            IF_BF16(x.type, DOT_CHANNELS(BF16, y.type)) DOT_CHANNELS(F32, y.type)}

/* All taps along W of one place of the kernel: result[tap][channel of a group][lane]. */
ENTRY float *lane_gradient_item(const struct group_gradient *g, char *const *arg, long panel,
                                long place, char *scratch) {
    const struct group_window *v = g->window;
    float *result = (float *)scratch;
    long lane = panel * PANEL, lanes = g->y.channels - lane < PANEL ? g->y.channels - lane : PANEL;
    struct lane_channels *from = (void *)(result + v->kernel[2] * g->per * PANEL);
    if (g->per > 1 || g->own > 1) find_channels(g, lane, from);
    __builtin_memset(result, 0, sizeof(float) * (unsigned long)(v->kernel[2] * g->per * PANEL));
    for (long line = 0; line < (long)v->batch * v->y[0] * v->y[1]; line++)
        for (long kw = 0; kw < v->kernel[2]; kw++) {
            struct met_line m = meet_line(v, place * v->kernel[2] + kw, line);
            for (long at = 0; at < m.n; at += M_BLOCK) {
                struct array x = from_element(PART_OF(arg, g->x),
                                              (m.x + at * m.step) * g->x.channels),
                             y = from_element(PART_OF(arg, g->y),
                                              (m.y + at) * g->y.channels + lane);
                long n = m.n - at < M_BLOCK ? m.n - at : M_BLOCK, x_step = m.step * g->x.channels;
                float *to = result + kw * g->per * PANEL;
                if (g->per == 1 && g->own == 1)
                    dot_line_of(from_element(x, lane), x_step, y, g->y.channels, n, lanes, to);
                else
                    for (long c = 0; c < g->per; c += AT_ONCE)
                        dot_channels_of(from, c, g->per - c, x, x_step, y, g->y.channels, n, lanes,
                                        to + c * PANEL);
            }
        }
    return result;
}

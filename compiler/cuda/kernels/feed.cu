/* The input gather: computes an input from a batch in the files' format: cropped, flipped,
 * scaled, converted, and transposed into the input's order of axes (ir/plan/feed.h). */
struct feed_table {
    long samples, size[4], channel, from, to, moves, scales, numbers, held, replaces;
    float other;
};
struct feed_axis {
    long first, step, round, points;
    double zoom, shift;
};
struct feed_move {
    long base;
    feed_axis axis[4];
};
struct feed_scale {
    float mean, deviation;
};
enum {
    FEED_F32,
    FEED_F16,
    FEED_BF16,
    FEED_F64,
    FEED_I8,
    FEED_U8,
    FEED_I16,
    FEED_U16,
    FEED_I32,
    FEED_U32
};

/* The distance to the next point of an axis, and its weight. */
struct feed_next {
    long step;
    float part;
};

KD_INLINE long feed_along(const feed_axis *a, unsigned x) {
    long at = a->first + x * a->step;
    return at < a->round ? at : at - a->round;
}

/* The point before element x. Operations are not contracted: bits equal those of the host. */
KD_INLINE long feed_between(const feed_axis *a, unsigned x, feed_next *next) {
    double last = (double)(a->points - 1), centre = last / 2;
    double p = __dadd_rn(__dadd_rn(__dmul_rn(a->zoom, x - centre), centre), a->shift);
    p = p < 0 ? 0 : p > last ? last : p;
    long low = (long)p;
    next->step = low + 1 < a->points ? a->step : 0, next->part = (float)(p - low);
    return a->first + low * a->step;
}

KD_INLINE float feed_mix(float a, float b, float part) {
    return __fadd_rn(a, __fmul_rn(b - a, part));
}

/* Types of one size share a load. */
KD_INLINE float feed_load(const char *numbers, long type, long at) {
    unsigned bits;
    int above = 0; /* unused upper bits of a word */
    if (type == FEED_I8 || type == FEED_U8)
        bits = ((const unsigned char *)numbers)[at], above = 24;
    else if (type == FEED_I16 || type == FEED_U16)
        bits = ((const unsigned short *)numbers)[at], above = 16;
    else
        bits = ((const unsigned *)numbers)[at];
    if (type == FEED_F32) return __uint_as_float(bits);
    bool is_signed = type == FEED_I8 || type == FEED_I16 || type == FEED_I32;
    return is_signed ? (float)((int)(bits << above) >> above) : (float)bits;
}

/* Element `at`, or, `between`, the interpolation between its neighbours along two axes, the
 * slower one first. The type is tested for each element, since otherwise the compiler makes a
 * loop for every type. */
KD_INLINE float feed_value(const char *numbers, long type, long at, bool between, feed_next slow,
                           feed_next fast) {
    float low = 0, v = 0;
#pragma unroll 1
    for (int i = 0; i < (between ? 4 : 1); i++) {
        kd_hold(type);
        float next =
            feed_load(numbers, type, at + (i & 1 ? slow.step : 0) + (i & 2 ? fast.step : 0));
        if (i & 1)
            v = feed_mix(v, next, slow.part);
        else
            low = v, v = next;
    }
    return between ? feed_mix(low, v, fast.part) : v;
}

KD_INLINE void feed_store(char *input, long type, long at, float v) {
    if (type == FEED_F32)
        ((float *)input)[at] = v;
    else if (type == FEED_BF16)
        ((bf16 *)input)[at] = kd_narrow_bf16(v);
    else if (type == FEED_F16)
        ((f16 *)input)[at] = kd_narrow_f16(v);
    else
        ((double *)input)[at] = v;
}

/* Copies integers unchanged. */
KD_INLINE void feed_copy(const char *numbers, long type, long from, char *input, long to) {
    if (type == FEED_U8)
        input[to] = numbers[from];
    else if (type == FEED_I32)
        ((int *)input)[to] = ((const int *)numbers)[from];
    else
        ((long *)input)[to] = ((const long *)numbers)[from];
}

/* Threads follow the input, whose stores are coalesced. A CTA takes 256 elements of one sample,
 * and of each further block of elements as many blocks later as there are CTAs. */
/* @dl_feed */
extern "C" __global__ void __launch_bounds__(256)
    dl_feed_0(const char *batch, char *input, const char *held) {
    const feed_table *t = (const feed_table *)batch;
    const feed_scale *scales = (const feed_scale *)(batch + t->scales);
    const char *numbers = (t->held ? held : batch) + t->numbers;
    unsigned each = (unsigned)(t->size[0] * t->size[1] * t->size[2] * t->size[3]),
             chunks = (each + 255) / 256;
    unsigned chunk = blockIdx.x % chunks, chunks_on = gridDim.x % chunks,
             samples_on = gridDim.x / chunks;
    for (long sample = blockIdx.x / chunks; sample < t->samples; sample += samples_on) {
        unsigned at = chunk * 256 + threadIdx.x, left = at, channel = 0;
        const feed_move *m = (const feed_move *)(batch + t->moves) + sample;
        long from = m->base, to = sample * each + at;
        if ((chunk += chunks_on) >= chunks) chunk -= chunks, sample++;
        if (at >= each) continue;
        feed_next slow = {0, 0}, fast = {0, 0};
        bool between = false;
#pragma unroll 1
        for (int i = 3; i >= 0; i--) {
            const feed_axis *a = &m->axis[i];
            unsigned size = (unsigned)t->size[i], x = left % size;
            left /= size;
            if (i == t->channel) channel = x;
            if (!a->points) {
                from += feed_along(a, x);
                continue;
            }
            feed_next next;
            from += feed_between(a, x, &next);
            slow = between ? next : slow, fast = between ? fast : next, between = true;
        }
        if (t->to > FEED_F64) {
            feed_copy(numbers, t->to, from, input, to);
            continue;
        }
        feed_scale s = scales[channel];
        float v = feed_value(numbers, t->from, from, between, slow, fast);
        bool none = t->replaces && !(fabsf(v) <= 0x1.fffffep127f);
        feed_store(input, t->to, to, none ? t->other : (v - s.mean) / s.deviation);
    }
}

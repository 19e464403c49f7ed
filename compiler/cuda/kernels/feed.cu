/* Makes an input of a batch's numbers as files have them: cut out, turned, scaled, converted, in the input's
 * order of axes (ir/feed.h, which says what is what). */
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
enum { FEED_F32, FEED_F16, FEED_BF16, FEED_F64, FEED_I8, FEED_U8, FEED_I16, FEED_U16, FEED_I32, FEED_U32 };

/* How far on the next point of an axis is, and what part of it is taken. */
struct feed_next {
    long step;
    float part;
};

KD_INLINE long feed_along(const feed_axis *a, unsigned x) {
    long at = a->first + x * a->step;
    return at < a->round ? at : at - a->round;
}

/* The point before element x. Nothing is made one with what it is added to: the host's bits. */
KD_INLINE long feed_between(const feed_axis *a, unsigned x, feed_next *next) {
    double last = (double)(a->points - 1), centre = last / 2;
    double p = __dadd_rn(__dadd_rn(__dmul_rn(a->zoom, x - centre), centre), a->shift);
    p = p < 0 ? 0 : p > last ? last : p;
    long low = (long)p;
    next->step = low + 1 < a->points ? a->step : 0, next->part = (float)(p - low);
    return a->first + low * a->step;
}

KD_INLINE float feed_mix(float a, float b, float part) { return __fadd_rn(a, __fmul_rn(b - a, part)); }

KD_INLINE float feed_load(const char *numbers, long type, long at) {
    switch (type) {
    case FEED_F32: return ((const float *)numbers)[at];
    case FEED_I8: return (float)((const signed char *)numbers)[at];
    case FEED_U8: return (float)((const unsigned char *)numbers)[at];
    case FEED_I16: return (float)((const short *)numbers)[at];
    case FEED_U16: return (float)((const unsigned short *)numbers)[at];
    case FEED_I32: return (float)((const int *)numbers)[at];
    default: return (float)((const unsigned *)numbers)[at];
    }
}

/* Between its neighbours along two axes, the slower one first. */
KD_INLINE float feed_load_between(const char *numbers, long type, long at, feed_next slow, feed_next fast) {
    float low = feed_mix(feed_load(numbers, type, at), feed_load(numbers, type, at + slow.step), slow.part);
    at += fast.step;
    float high = feed_mix(feed_load(numbers, type, at), feed_load(numbers, type, at + slow.step), slow.part);
    return feed_mix(low, high, fast.part);
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

/* Whole numbers, as they are. */
KD_INLINE void feed_copy(const char *numbers, long type, long from, char *input, long to) {
    if (type == FEED_U8)
        input[to] = numbers[from];
    else if (type == FEED_I32)
        ((int *)input)[to] = ((const int *)numbers)[from];
    else
        ((long *)input)[to] = ((const long *)numbers)[from];
}

/* Threads follow the input, which is written in whole lines; a block takes 256 elements of one sample. */
/* @dl_feed */
extern "C" __global__ void __launch_bounds__(256) dl_feed_0(const char *batch, char *input, const char *held) {
    const feed_table *t = (const feed_table *)batch;
    const feed_scale *scales = (const feed_scale *)(batch + t->scales);
    const char *numbers = (t->held ? held : batch) + t->numbers;
    unsigned s1 = (unsigned)t->size[1], s2 = (unsigned)t->size[2], s3 = (unsigned)t->size[3];
    unsigned each = (unsigned)t->size[0] * s1 * s2 * s3, lots = (each + 255) / 256;
    for (long lot = blockIdx.x; lot < t->samples * lots; lot += gridDim.x) {
        long sample = lot / lots;
        unsigned at = (unsigned)(lot - sample * lots) * 256 + threadIdx.x, x[4];
        if (at >= each) continue;
        const feed_move *m = (const feed_move *)(batch + t->moves) + sample;
        x[3] = at % s3, x[2] = at / s3 % s2, x[1] = at / s3 / s2 % s1, x[0] = at / s3 / s2 / s1;
        long from = m->base, to = sample * each + at;
        feed_next slow = {0, 0}, fast = {0, 0};
        bool between = false;
        for (int i = 0; i < 4; i++) {
            const feed_axis *a = &m->axis[i];
            if (a->points)
                slow = fast, from += feed_between(a, x[i], &fast), between = true;
            else
                from += feed_along(a, x[i]);
        }
        if (t->to > FEED_F64) {
            feed_copy(numbers, t->to, from, input, to);
            continue;
        }
        long c = t->channel;
        feed_scale s = scales[c < 0 ? 0 : c == 0 ? x[0] : c == 1 ? x[1] : c == 2 ? x[2] : x[3]];
        float v = between ? feed_load_between(numbers, t->from, from, slow, fast)
                          : feed_load(numbers, t->from, from);
        bool none = t->replaces && !(fabsf(v) <= 0x1.fffffep127f);
        feed_store(input, t->to, to, none ? t->other : (v - s.mean) / s.deviation);
    }
}

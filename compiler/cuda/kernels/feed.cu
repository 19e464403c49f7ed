/* Makes an input of a batch's numbers as files have them: cut out, turned, scaled, converted, in the input's
 * order of axes (ir/feed.h, which says what is what). */
struct feed_table {
    long samples, size[4], channel, to, moves, scales, numbers;
};
struct feed_move {
    long base, step[4];
};
struct feed_scale {
    float mean, deviation;
};
enum { FEED_F32, FEED_F16, FEED_BF16, FEED_F64 };

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

/* Threads follow the input, which is written in whole lines; a block takes 256 elements of one sample. */
/* @dl_feed */
extern "C" __global__ void __launch_bounds__(256) dl_feed_0(const char *batch, char *input, char *workspace) {
    const feed_table *t = (const feed_table *)batch;
    const feed_scale *scales = (const feed_scale *)(batch + t->scales);
    const float *numbers = (const float *)(batch + t->numbers);
    unsigned s1 = (unsigned)t->size[1], s2 = (unsigned)t->size[2], s3 = (unsigned)t->size[3];
    unsigned each = (unsigned)t->size[0] * s1 * s2 * s3, lots = (each + 255) / 256;
    for (long lot = blockIdx.x; lot < t->samples * lots; lot += gridDim.x) {
        long sample = lot / lots;
        unsigned at = (unsigned)(lot - sample * lots) * 256 + threadIdx.x, x[4];
        if (at >= each) continue;
        const feed_move *m = (const feed_move *)(batch + t->moves) + sample;
        x[3] = at % s3, x[2] = at / s3 % s2, x[1] = at / s3 / s2 % s1, x[0] = at / s3 / s2 / s1;
        long from = m->base;
        for (int i = 0; i < 4; i++) from += x[i] * m->step[i];
        float v = numbers[from];
        if (t->channel >= 0) {
            feed_scale s = scales[t->channel == 0 ? x[0] : t->channel == 1 ? x[1] : t->channel == 2 ? x[2] : x[3]];
            v = (v - s.mean) / s.deviation;
        }
        feed_store(input, t->to, sample * each + at, v);
    }
}

#include "runtime/base/rng.h"

#include <math.h>
#include <string.h>

#include "ir/base/philox.h"

#ifdef __FAST_MATH__
#error "rng.c promises the same bits everywhere: compile it without -ffast-math"
#endif

enum {
    /* elements per batch: the buffers stay in L1, and loops are long enough to vectorize */
    CHUNK = 128
};

static inline void block_at(const dlr_rng_place *place, uint32_t block, uint32_t out[4]) {
    out[0] = block, out[1] = place->item, out[2] = place->step, out[3] = place->stream;
    dl_philox(out, (uint32_t)place->seed, (uint32_t)(place->seed >> 32));
}

dlr_rng dlr_rng_at(dlr_rng_place place) { return (dlr_rng){.place = place}; }

uint32_t dlr_rng_u32(dlr_rng *rng) {
    if (rng->left == 0) {
        block_at(&rng->place, rng->block++, rng->word);
        rng->left = 4;
    }
    return rng->word[4 - rng->left--];
}

uint32_t dlr_rng_below(dlr_rng *rng, uint32_t n) {
    uint64_t product = (uint64_t)dlr_rng_u32(rng) * n;
    if ((uint32_t)product < n) {
        /* 2^32 mod n: the number of low parts that would occur once too often */
        uint32_t biased = -n % n;
        while ((uint32_t)product < biased) product = (uint64_t)dlr_rng_u32(rng) * n;
    }
    return (uint32_t)(product >> 32);
}

float dlr_rng_float(dlr_rng *rng) { return dl_unit_float(dlr_rng_u32(rng)); }

/* ln((word + 1) / 2^32), the word as a double in [1, 2^32]: v = 2^e m with m in [sqrt(1/2), sqrt
 * 2), and ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172, whose series to s^21 is exact to
 * double precision. */
static inline double log_unit(uint32_t word) {
    /* Uses a signed conversion and magic numbers, because these exist as vector instructions
     * everywhere. */
    double v = (double)(int32_t)(word ^ 0x80000000u) + 2147483649.0;
    const uint64_t sqrt_half = 0x3FE6A09E667F3BCDu;
    uint64_t bits, above;
    memcpy(&bits, &v, 8);
    above = bits - sqrt_half;
    uint64_t exponent = above >> 52, magic = exponent | 0x4330000000000000u;
    double m, e;
    memcpy(&e, &magic, 8);
    e -= 0x1p52 + 32.0;
    bits -= exponent << 52;
    memcpy(&m, &bits, 8);
    double s = (m - 1.0) / (m + 1.0), q = s * s, sum = 1.0 / 21;
    sum = sum * q + 1.0 / 19, sum = sum * q + 1.0 / 17, sum = sum * q + 1.0 / 15,
    sum = sum * q + 1.0 / 13;
    sum = sum * q + 1.0 / 11, sum = sum * q + 1.0 / 9, sum = sum * q + 1.0 / 7,
    sum = sum * q + 1.0 / 5;
    sum = sum * q + 1.0 / 3, sum = sum * q + 1.0;
    return e * 0.69314718055994530942 + 2.0 * s * sum;
}

/* cos and sin of word / 2^32 turns: the nearest quarter turn, which is exact, and Taylor series on
 * [-pi/4, pi/4]. */
static inline void turn(uint32_t word, double *cosine, double *sine) {
    uint32_t quarter = (word + 0x20000000u) >> 30;
    double x = (double)(int32_t)(word - (quarter << 30)) * (6.28318530717958647692 * 0x1p-32),
           q = x * x;
    double s = -1.0 / 1307674368000.0, c = 1.0 / 20922789888000.0;
    s = s * q + 1.0 / 6227020800.0, s = s * q - 1.0 / 39916800.0, s = s * q + 1.0 / 362880.0;
    s = s * q - 1.0 / 5040.0, s = s * q + 1.0 / 120.0, s = s * q - 1.0 / 6.0, s = x + x * (q * s);
    c = c * q - 1.0 / 87178291200.0, c = c * q + 1.0 / 479001600.0, c = c * q - 1.0 / 3628800.0;
    c = c * q + 1.0 / 40320.0, c = c * q - 1.0 / 720.0, c = c * q + 1.0 / 24.0, c = c * q - 0.5,
    c = c * q + 1.0;
    double a = quarter & 1 ? s : c, b = quarter & 1 ? c : s;
    *cosine = (quarter + 1) & 2 ? -a : a;
    *sine = quarter & 2 ? -b : b;
}

typedef struct {
    double offset, scale;
} shape;
typedef void transform(const uint32_t *restrict words, size_t n, shape s, float *restrict out);

static void to_uniforms(const uint32_t *restrict words, size_t n, shape s, float *restrict out) {
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(s.offset + s.scale * (double)dl_unit_float(words[i]));
}

/* Box and Muller 1958: two normals from two uniforms. n is a multiple of 4. */
static void to_normals(const uint32_t *restrict words, size_t n, shape s, float *restrict out) {
    for (size_t i = 0; i < n; i += 2) {
        double cosine, sine, radius = sqrt(-2.0 * log_unit(words[i]));
        turn(words[i + 1], &cosine, &sine);
        out[i] = (float)(s.offset + s.scale * (radius * cosine));
        out[i + 1] = (float)(s.offset + s.scale * (radius * sine));
    }
}

/* Generates whole blocks of four by `apply` and copies the requested range out. */
static void fill(const dlr_rng_place *place, uint64_t first, size_t n, shape s, transform *apply,
                 float *out) {
    uint32_t words[CHUNK * 4];
    float made[CHUNK * 4];
    for (size_t done = 0; done < n;) {
        uint64_t at = first + done, skip = at % 4;
        size_t want = n - done + skip, blocks = want / 4 + (want % 4 != 0);
        if (blocks > CHUNK) blocks = CHUNK;
        for (size_t b = 0; b < blocks; b++) block_at(place, (uint32_t)(at / 4 + b), words + 4 * b);
        apply(words, 4 * blocks, s, made);
        size_t part = 4 * blocks - skip;
        if (part > n - done) part = n - done;
        memcpy(out + done, made + skip, part * sizeof *out);
        done += part;
    }
}

void dlr_uniforms(dlr_rng_place place, uint64_t first, size_t n, float low, float high,
                  float *out) {
    fill(&place, first, n, (shape){low, (double)high - (double)low}, to_uniforms, out);
}

void dlr_normals(dlr_rng_place place, uint64_t first, size_t n, float mean, float std, float *out) {
    fill(&place, first, n, (shape){mean, std}, to_normals, out);
}

/* Random numbers: ir/base/philox.h in vectors. A block is four consecutive words, so a vector
 * holds LANES / 4 blocks, and the two words that a round multiplies are the lower halves of its
 * 64-bit lanes. */
typedef unsigned vu __attribute__((vector_size(LANES * 4)));
typedef unsigned long vq __attribute__((vector_size(LANES * 4)));
typedef long long vl __attribute__((vector_size(LANES * 4)));
#define PAIRS          ((vq){LOWER})                                      /* 0, 1, 2, ... */
#define EVEN(a, b)     (((a) & ((PAIRS & 1) - 1)) | ((b) & -(PAIRS & 1))) /* a, b, a, b, ... */
#define STREAM(number) (6u | (unsigned)(number) << 8)

/* Products of the lower halves. */
INLINE vq mul_lower(vq a, vq b) {
#if defined(__clang__)
    return (a & 0xffffffffu) * (b & 0xffffffffu);
#elif defined(__AVX512F__) && LANES == 16
    return (vq)__builtin_ia32_pmuludq512_mask((vi)a, (vi)b, (vl){0}, -1);
#elif defined(__AVX2__) && LANES == 8
    return (vq)__builtin_ia32_pmuludq256((vi)a, (vi)b);
#elif defined(__SSE2__) && LANES == 4
    return (vq)__builtin_ia32_pmuludq128((vi)a, (vi)b);
#else
    return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}
#if LANES == 16
#define TURNED 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12
#elif LANES == 8
#define TURNED 3, 2, 1, 0, 7, 6, 5, 4
#else
#define TURNED 3, 2, 1, 0
#endif

/* The words of the blocks with the numbers in the even lanes of `block`. */
INLINE vu random_blocks(vq block, long seed, long step, int number) {
    vq zero = {0}, factors = EVEN(zero + 0xD2511F53u, zero + 0xCD9E8D57u);
    vq weyl = EVEN(zero + 0x9E3779B9u, zero + 0xBB67AE85u);
    vq key = EVEN(zero + (unsigned)seed, zero + ((unsigned long)seed >> 32));
    vq place = zero + ((unsigned)step | (unsigned long)STREAM(number) << 32),
       c = EVEN(block, place);
#define ROUND                                                                                      \
    {                                                                                              \
        vu product = (vu)mul_lower(c, factors);                                                    \
        c = (vq)__builtin_shufflevector(product, product, TURNED) ^ (c >> 32) ^ key;               \
        key = (vq)((vu)key + (vu)weyl);                                                            \
    }
    ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND ROUND
#undef ROUND
        return (vu)c;
}

INLINE vf unit_floats(vu words) { return __builtin_convertvector((vi)(words >> 8), vf) * 0x1p-24f; }

/* One number, at element `at`. */
INLINE float s_random(unsigned long at, long seed, long step, int number) {
    unsigned c[4] = {(unsigned)(at / 4), (unsigned)(at / 4 >> 32), (unsigned)step, STREAM(number)};
    unsigned k0 = (unsigned)seed, k1 = (unsigned)((unsigned long)seed >> 32);
    for (int round = 0; round < 10; round++) {
        unsigned long p0 = 0xD2511F53ul * c[0], p1 = 0xCD9E8D57ul * c[2];
        unsigned c1 = c[1], c3 = c[3];
        c[0] = (unsigned)(p1 >> 32) ^ c1 ^ k0, c[1] = (unsigned)p1;
        c[2] = (unsigned)(p0 >> 32) ^ c3 ^ k1, c[3] = (unsigned)p0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return (float)(c[at % 4] >> 8) * 0x1p-24f;
}

/* At elements at, at + 1, ... */
INLINE vf v_random_row(unsigned long at, long seed, long step, int number) {
    vq block = (PAIRS >> 1) + at / 4;
    vu words = random_blocks(block, seed, step, number);
    if (at % 4) { /* begins within a block */
        unsigned both[2 * LANES];
        vu next = random_blocks(block + LANES / 4, seed, step, number);
        __builtin_memcpy(both, &words, sizeof words),
            __builtin_memcpy(both + LANES, &next, sizeof next);
        __builtin_memcpy(&words, both + at % 4, sizeof words);
    }
    return unit_floats(words);
}

/* At elements at, at + by, ...: each from a block of its own. */
INLINE vf v_random_step(unsigned long at, unsigned long by, long seed, long step, int number) {
    unsigned word[4 * LANES];
    vu words;
    for (int i = 0; i < 4; i++) {
        vq block = (at + ((PAIRS >> 1) + i * (LANES / 4)) * by) / 4;
        vu four = random_blocks(block, seed, step, number);
        __builtin_memcpy(word + i * LANES, &four, sizeof four);
    }
    for (int i = 0; i < LANES; i++) words[i] = word[4 * i + (at + i * by) % 4];
    return unit_floats(words);
}

/* Sorting lines (ir/sort.h): the elements become unsigned keys, whose order is that of the numbers,
 * with their indices. Short lines are sorted by insertion, others by least significant digits
 * (Knuth, The Art of Computer Programming 3, 5.2.5), which takes linear time and keeps the order of
 * equal keys. FS, F(name): fourier.c; FS may be a whole number. Elements in memory have the type
 * `type`; FOURIER_FLOATS: 16 bits are among these. */

struct F(sort) {
    long size, inner, lines; /* elements along the axis, after it; lines: all but the axis */
    long each;               /* lines of an item */
    int bits;                /* of a digit; 0: by insertion */
    int descending, type;
};
typedef __typeof__(_Generic((FS)0, float : 0u, int : 0u, double : 0ul, long : 0ul)) F(sort_key);
struct F(sort_entry) {
    F(sort_key) key;
    unsigned at;
};

/* The key of element i: bits of a float with the sign turned, or those of a negative one with all
 * bits turned. Every NaN has the largest one, and -0 that of 0. */
INLINE F(sort_key) F(sort_key_of)(const struct F(sort) * s, const char *x, long i) {
    const F(sort_key) top = (F(sort_key))1 << (8 * sizeof(FS) - 1),
                      infinity = sizeof(FS) == 4 ? 0xff000000u : (F(sort_key))0xffe0000000000000ul;
#if FOURIER_FLOATS
    FS v = element((struct array){x, s->type}, i);
#else
    FS v = ((const FS *)x)[i];
#endif
    F(sort_key) u;
    __builtin_memcpy(&u, &v, sizeof u);
    if ((FS)0.5 == 0)
        u ^= top;
    else if ((F(sort_key))(u << 1) > infinity)
        u = ~(F(sort_key))0;
    else if ((F(sort_key))(u << 1) == 0)
        u = top;
    else
        u = u & top ? ~u : u | top;
    return s->descending ? ~u : u;
}

HOT void F(sort_short)(const struct F(sort) * s, const char *x, int *y, long first, char *scratch) {
    struct F(sort_entry) *a = (struct F(sort_entry) *)scratch;
    for (long i = 0; i < s->size; i++) {
        const struct F(sort_entry) own = {F(sort_key_of)(s, x, first + i * s->inner), (unsigned)i};
        long k = i;
        for (; k > 0 && own.key < a[k - 1].key; k--) a[k] = a[k - 1];
        a[k] = own;
    }
    for (long i = 0; i < s->size; i++) y[first + i * s->inner] = (int)a[i].at;
}

/* Passes of one value throughout are left out. */
HOT void F(sort_digits)(const struct F(sort) * s, const char *x, int *y, long first,
                        char *scratch) {
    const long n = s->size;
    const int bits = s->bits, all = 8 * (int)sizeof(FS), values = 1 << bits;
    const F(sort_key) mask = (F(sort_key))(values - 1);
    unsigned *counts = (unsigned *)scratch;
    const int digits = (all + bits - 1) / bits;
    struct F(sort_entry) *a = (struct F(sort_entry) *)(counts + digits * values), *b = a + n;
    for (int i = 0; i < digits * values; i++) counts[i] = 0;
    for (long i = 0; i < n; i++) {
        const F(sort_key) key = F(sort_key_of)(s, x, first + i * s->inner);
        a[i] = (struct F(sort_entry)){key, (unsigned)i};
        for (int d = 0; d < digits; d++) counts[d * values + (key >> d * bits & mask)]++;
    }
    for (int d = 0; d < digits; d++) {
        unsigned *place = counts + d * values, sum = 0;
        if (place[a[0].key >> d * bits & mask] == n) continue;
        for (int i = 0; i < values; i++) {
            const unsigned count = place[i];
            place[i] = sum, sum += count;
        }
        for (long i = 0; i < n; i++) b[place[a[i].key >> d * bits & mask]++] = a[i];
        struct F(sort_entry) *other = a;
        a = b, b = other;
    }
    for (long i = 0; i < n; i++) y[first + i * s->inner] = (int)a[i].at;
}

ENTRY void F(sort_item)(const struct F(sort) * s, char *const *arg, long item, char *scratch) {
    long line = item * s->each, last = line + s->each;
    if (last > s->lines) last = s->lines;
    for (; line < last; line++) {
        long first = line / s->inner * s->size * s->inner + line % s->inner;
        (s->bits ? F(sort_digits) : F(sort_short))(s, arg[0], (int *)arg[1], first, scratch);
    }
}

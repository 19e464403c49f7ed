#include "runtime/formats/checksum.h"

#include <string.h>

enum { STRIPE = 32 };
static const uint64_t MULTIPLIER = 0x9e3779b97f4a7c15u; /* odd: 2^64 over the golden ratio */

static uint64_t word(const unsigned char *p) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    return w;
}

/* The rotation moves high bits down, where the next multiplication spreads them. */
static uint64_t step(uint64_t lane, uint64_t w) {
    uint64_t h = (lane ^ w) * MULTIPLIER;
    return h << 29 | h >> 35;
}

static void add_stripes(uint64_t lane[4], const unsigned char *p, size_t stripes) {
    uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];
    for (; stripes > 0; stripes--, p += STRIPE) {
        a = step(a, word(p));
        b = step(b, word(p + 8));
        c = step(c, word(p + 16));
        d = step(d, word(p + 24));
    }
    lane[0] = a, lane[1] = b, lane[2] = c, lane[3] = d;
}

void dlr_checksum_start(dlr_checksum *sum) {
    *sum = (dlr_checksum){.lane = {0x243f6a8885a308d3u, 0x13198a2e03707344u, 0xa4093822299f31d0u,
                                   0x082efa98ec4e6c89u}};
}

void dlr_checksum_add(dlr_checksum *sum, const void *data, size_t n) {
    const unsigned char *p = data;
    size_t held = sum->n % STRIPE;
    sum->n += n;
    if (held > 0) {
        size_t take = STRIPE - held < n ? STRIPE - held : n;
        memcpy(sum->tail + held, p, take);
        p += take, n -= take;
        if (held + take < STRIPE) return;
        add_stripes(sum->lane, sum->tail, 1);
    }
    add_stripes(sum->lane, p, n / STRIPE);
    if (n % STRIPE > 0) memcpy(sum->tail, p + n / STRIPE * STRIPE, n % STRIPE);
}

uint64_t dlr_checksum_value(const dlr_checksum *sum) {
    uint64_t lane[4];
    memcpy(lane, sum->lane, sizeof lane);
    if (sum->n % STRIPE > 0) {
        /* the length, which is mixed in below, distinguishes padding from data */
        unsigned char last[STRIPE] = {0};
        memcpy(last, sum->tail, sum->n % STRIPE);
        add_stripes(lane, last, 1);
    }
    uint64_t h = sum->n * MULTIPLIER;
    for (int i = 0; i < 4; i++) {
        h = (h ^ lane[i]) * MULTIPLIER;
        h ^= h >> 32;
    }
    return h;
}

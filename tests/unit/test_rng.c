/* Philox against its published vectors; ranges, moments, accuracy and the same bits; shuffles. */
#include "runtime/data/shuffle.h"

#include "ir/base/philox.h"
#include "tests/check.h"

#include <stdlib.h>

/* FNV-1a over the bytes: a fingerprint of exact bits. */
static uint64_t fingerprint(const void *data, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return h;
}

/* Known answers from the Random123 distribution of the paper's authors (philox4x32, 10 rounds). */
static void test_known_answers(void) {
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t got[4];
        memcpy(got, rows[i].counter, sizeof got);
        dl_philox(got, rows[i].key[0], rows[i].key[1]);
        CHECK(memcmp(got, rows[i].want, sizeof got) == 0, "row %zu: %08x %08x %08x %08x", i, got[0],
              got[1], got[2], got[3]);
    }
}

static void test_places(void) {
    dlr_rng_place place = {.seed = 0x123456789abcdefu, .stream = 2, .step = 3, .item = 5};
    dlr_rng rng = dlr_rng_at(place);
    uint32_t want[4] = {1, 5, 3, 2};
    dl_philox(want, 0x89abcdef, 0x01234567);
    for (int i = 0; i < 4; i++) dlr_rng_u32(&rng);
    for (int i = 0; i < 4; i++) CHECK(dlr_rng_u32(&rng) == want[i]);
    /* One field changed, other numbers. */
    dlr_rng_place others[] = {place, place, place, place, place};
    others[0].seed ^= (uint64_t)1 << 63, others[1].seed ^= 1, others[2].stream++, others[3].step++,
        others[4].item++;
    dlr_rng first = dlr_rng_at(place);
    uint32_t a = dlr_rng_u32(&first);
    for (int i = 0; i < 5; i++) {
        dlr_rng other = dlr_rng_at(others[i]);
        CHECK(dlr_rng_u32(&other) != a, "field %d", i);
    }
}

/* Counts of [0, n) within five standard deviations; n = 3 * 2^30 shows the bias of a plain multiply
 * (4/3 : 2/3). */
static void test_below(void) {
    static const uint32_t ends[] = {1, 2, 17, 24, 960, 3u << 30, ~0u};
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        enum { BINS = 6, DRAWS = 60000 };
        uint32_t n = ends[k], counts[BINS] = {0}, bins = n < BINS ? n : BINS, above = 0;
        dlr_rng rng = dlr_rng_at((dlr_rng_place){.seed = 7, .item = n});
        for (int i = 0; i < DRAWS; i++) {
            uint32_t x = dlr_rng_below(&rng, n);
            above += x >= n;
            counts[x % bins]++;
        }
        CHECK(above == 0, "n %u", n);
        for (uint32_t b = 0; b < bins; b++) {
            double p = (double)(((uint64_t)n - b + bins - 1) / bins) / n;
            CHECK_NEAR(counts[b], DRAWS * p, 5 * sqrt(DRAWS * p * (1 - p)) + 1e-9);
        }
    }
}

static void test_moments(void) {
    enum { N = 1 << 20 };
    float *x = malloc(N * sizeof *x);
    dlr_rng_place place = {.seed = 42, .stream = 1};
    dlr_normals(place, 0, N, 0, 1, x);
    double m[5] = {0};
    for (int i = 0; i < N; i++)
        for (int k = 1; k <= 4; k++) m[k] += pow(x[i], k) / N;
    CHECK_NEAR(m[1], 0, 0.005);
    CHECK_NEAR(m[2], 1, 0.007);
    CHECK_NEAR(m[3], 0, 0.02);
    CHECK_NEAR(m[4], 3, 0.05);
    /* The same bits on every machine and with every compiler. */
    uint64_t bits = fingerprint(x, N * sizeof *x);
    CHECK(bits == 0x1e54ed5d487ea2beu, "%#llx", (unsigned long long)bits);
    dlr_normals(place, 0, N, 1, 0.02f, x);
    m[1] = m[2] = 0;
    for (int i = 0; i < N; i++) m[1] += x[i] / N, m[2] += (x[i] - 1) * (x[i] - 1) / N;
    CHECK_NEAR(m[1], 1, 1e-4);
    CHECK_NEAR(sqrt(m[2]), 0.02, 1e-4);
    dlr_uniforms(place, 0, N, -2, 4, x);
    float least = 9, most = -9;
    m[1] = m[2] = 0;
    for (int i = 0; i < N; i++) {
        m[1] += x[i] / N, m[2] += (x[i] - 1) * (x[i] - 1) / N;
        least = fminf(least, x[i]), most = fmaxf(most, x[i]);
    }
    CHECK_NEAR(m[1], 1, 0.01);
    CHECK_NEAR(m[2], 3, 0.02);
    CHECK(least >= -2 && most < 4 && least < -1.99f && most > 3.99f);
    bits = fingerprint(x, N * sizeof *x);
    CHECK(bits == 0x47a05a9a3104aae0u, "%#llx", (unsigned long long)bits);
    free(x);
}

/* Any range gives the elements of the whole, and each is the exact Box-Muller transform of its
 * words. */
static void test_ranges_and_accuracy(void) {
    enum { N = 5000 };
    dlr_rng_place place = {.seed = 9, .stream = 4, .step = 1, .item = 2};
    float whole[N], part[N];
    dlr_normals(place, 0, N, 0, 1, whole);
    dlr_rng pick = dlr_rng_at((dlr_rng_place){.seed = 1});
    for (int i = 0; i < 200; i++) {
        uint32_t first = dlr_rng_below(&pick, N), n = dlr_rng_below(&pick, N - first + 1);
        dlr_normals(place, first, n, 0, 1, part);
        CHECK(memcmp(part, whole + first, n * sizeof *part) == 0, "%u + %u", first, n);
    }
    dlr_rng rng = dlr_rng_at(place);
    long double pi2 = 2 * acosl(-1.0L);
    for (int i = 0; i < N; i += 2) {
        long double u = (dlr_rng_u32(&rng) + 1.0L) / 0x1p32L, v = dlr_rng_u32(&rng) / 0x1p32L;
        long double r = sqrtl(-2 * logl(u));
        /* Half an ulp of the float, and 1e-14 of the double arithmetic. */
        CHECK_NEAR(whole[i], r * cosl(pi2 * v), fabsf(whole[i]) * 0x1.0001p-24 + 1e-14);
        CHECK_NEAR(whole[i + 1], r * sinl(pi2 * v), fabsf(whole[i + 1]) * 0x1.0001p-24 + 1e-14);
    }
    dlr_normals(place, ((uint64_t)1 << 34) - 3, 3, 0, 1, part);
    CHECK(isfinite(part[0]) && isfinite(part[2]));
}

static void test_shuffle(void) {
    dlr_rng_place place = {.seed = 3, .stream = DLR_STREAM_SHUFFLE, .step = 2};
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 365, 1000, 4096};
    for (int k = 0; k < 10; k++) {
        int64_t n = sizes[k], twice = 0, outside = 0;
        bool seen[4096] = {0};
        for (int64_t i = 0; i < n; i++) {
            int64_t to = dlr_shuffle(place, n, i);
            bool in = to >= 0 && to < n;
            outside += !in, twice += in && seen[to];
            if (in) seen[to] = true;
        }
        CHECK(twice == 0 && outside == 0, "%d: %d %d", (int)n, (int)twice, (int)outside);
    }
    CHECK(dlr_shuffle(place, (int64_t)1 << 32, 0xfffffffe) < (int64_t)1 << 32);
    /* Each number comes to each place as often, over epochs; and neighbours do not stay together.
     */
    enum { N = 7, EPOCHS = 7000 };
    int count[N][N] = {{0}}, follows = 0;
    for (int e = 0; e < EPOCHS; e++) {
        place.step = (uint32_t)e;
        for (int i = 0; i < N; i++) {
            int64_t to = dlr_shuffle(place, N, i);
            count[i][to]++;
            follows += i + 1 < N && dlr_shuffle(place, N, i + 1) == to + 1;
        }
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            CHECK_NEAR(count[i][k], EPOCHS / (double)N, 150); /* 5 deviations */
    CHECK_NEAR(follows, EPOCHS * 6 / 7.0, 400);
    place.step = 0;
    int64_t same = 0, other = 0;
    for (int i = 0; i < 365; i++) {
        dlr_rng_place next = place, seeded = place;
        next.step++, seeded.seed++;
        same += dlr_shuffle(place, 365, i) == dlr_shuffle(next, 365, i);
        other += dlr_shuffle(place, 365, i) == dlr_shuffle(seeded, 365, i);
    }
    CHECK(same < 8 && other < 8, "%d %d", (int)same, (int)other);
}

/* Sums over permutations p, each drawn after `before`: neighbours that stay in order, numbers that
 * keep their place, and the same place as before; rank correlations with no order at all, with the
 * one before, and of neighbours. */
enum { FOLLOWS, FIXED, SAME, TREND, BETWEEN, SERIAL, NSTATISTICS };

static void add_statistics(int n, const int64_t *p, const int64_t *before, double *sum) {
    const double middle = (n - 1) / 2.0, square = n * ((double)n * n - 1) / 12;
    for (int i = 0; i < n; i++) {
        sum[FIXED] += p[i] == i, sum[SAME] += p[i] == before[i];
        sum[TREND] += ((double)p[i] - middle) * (i - middle) / square;
        sum[BETWEEN] += ((double)p[i] - middle) * ((double)before[i] - middle) / square;
        if (i + 1 == n) break;
        sum[FOLLOWS] += p[i + 1] == p[i] + 1;
        sum[SERIAL] += ((double)p[i] - middle) * ((double)p[i + 1] - middle) / square;
    }
}

/* The shuffles of epochs, and those of seeds, next to permutations that are all equally likely. Of
 * one such permutation the means and variances below are exact; SERIAL's variance is at most 1/n.
 * The sums are 132: one of them would be beyond 5 deviations in one test of 10,000 with draws of
 * its own. The draws here are the same in each run, and the farthest sum is at 2.7. With 3 or 4
 * rounds in place of 8 more than ten are beyond. */
static void test_shuffle_statistics(void) {
    static const int sizes[] = {2, 3, 4, 5, 7, 12, 16, 17, 60, 365, 1000};
    for (int k = 0; k < 2 * 11; k++) {
        const int n = sizes[k / 2], draws = n < 10 ? 6000 : 60000 / n;
        double sum[NSTATISTICS] = {0};
        int64_t p[2][1000];
        for (int s = 0; s <= draws; s++) {
            dlr_rng_place place = {.stream = DLR_STREAM_SHUFFLE};
            place.seed = k % 2 ? 3 : (uint64_t)s, place.step = k % 2 ? (uint32_t)s : 0;
            for (int i = 0; i < n; i++) p[s % 2][i] = dlr_shuffle(place, n, i);
            if (s) add_statistics(n, p[s % 2], p[1 - s % 2], sum);
        }
        const double in_order = 1 - (n + 1.0) / n / n, correlated = 1 / (n - 1.0);
        const double mean[] = {(n - 1.0) / n, 1, 1, 0, 0, -1.0 / n},
                     variance[] = {in_order, 1, 1, correlated, correlated, 1.0 / n};
        for (int i = 0; i < NSTATISTICS; i++) {
            double off = (sum[i] - draws * mean[i]) / sqrt(draws * variance[i]);
            CHECK(fabs(off) <= 5, "statistic %d of %s, n %d: %.1f deviations", i,
                  k % 2 ? "epochs" : "seeds", n, off);
        }
    }
}

int main(void) {
    test_known_answers();
    test_places();
    test_below();
    test_moments();
    test_ranges_and_accuracy();
    test_shuffle();
    test_shuffle_statistics();
    return dl_test_end();
}

/* The machine's ceilings next to independent code whose work is counted by hand: multiply-adds on
 * twelve named vectors, and a buffer far larger than any cache that is read and written in order.
 * One thread and its own CPU time, so that neighbours who take the core do not count; the same
 * pages, since a system that is short of huge ones may give them to one buffer and not to the next;
 * both sides in turn, the best round of each; on a restless machine more rounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler/cpu/peak.h"
#include "runtime/exec/exec.h"
#include "tests/check.h"

enum { ROUNDS = 5, MOST_ROUNDS = 400, TURNS = 30 << 20, TILE_TURNS = 4 << 20 };

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile float sink;

#ifdef __x86_64__
#include <immintrin.h>
/* TURNS turns of twelve multiply-adds of eight lanes: 192 operations a turn. */
__attribute__((target("avx2,fma"))) static double own_flops(dlr_exec *exec) {
    (void)exec;
    float start = sink; /* unknown to the compiler */
    __m256 x = _mm256_set1_ps(0.25f), y = _mm256_set1_ps(start), a = y, b = y, c = y, d = y, e = y,
           f = y, g = y, h = y, i = y, j = y, k = y, l = y;
    for (long turn = 0; turn < TURNS; turn++) {
        a = _mm256_fmadd_ps(a, x, y), b = _mm256_fmadd_ps(b, x, y), c = _mm256_fmadd_ps(c, x, y);
        d = _mm256_fmadd_ps(d, x, y), e = _mm256_fmadd_ps(e, x, y), f = _mm256_fmadd_ps(f, x, y);
        g = _mm256_fmadd_ps(g, x, y), h = _mm256_fmadd_ps(h, x, y), i = _mm256_fmadd_ps(i, x, y);
        j = _mm256_fmadd_ps(j, x, y), k = _mm256_fmadd_ps(k, x, y), l = _mm256_fmadd_ps(l, x, y);
        __asm__ volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f));
        __asm__ volatile("" : "+x"(g), "+x"(h), "+x"(i), "+x"(j), "+x"(k), "+x"(l));
    }
    a = a + b + c + d + e + f + g + h + i + j + k + l;
    sink = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
    return 192.0 * TURNS;
}

/* TURNS turns of twenty instructions that multiply and add two pairs of bf16 in each of sixteen
 * lanes. */
__attribute__((target("avx512f"))) static double own_pairs(dlr_exec *exec) {
    (void)exec;
    float start = sink;
    __m512 x = _mm512_set1_ps(start), a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x,
           j = x, k = x, l = x, m = x, n = x, o = x, p = x, q = x, r = x, t = x, u = x;
#define OWN_PAIR(v) __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(v) : "v"(x))
    for (long turn = 0; turn < TURNS; turn++) {
        OWN_PAIR(a);
        OWN_PAIR(b);
        OWN_PAIR(c);
        OWN_PAIR(d);
        OWN_PAIR(e);
        OWN_PAIR(f);
        OWN_PAIR(g);
        OWN_PAIR(h);
        OWN_PAIR(i);
        OWN_PAIR(j);
        OWN_PAIR(k);
        OWN_PAIR(l);
        OWN_PAIR(m);
        OWN_PAIR(n);
        OWN_PAIR(o);
        OWN_PAIR(p);
        OWN_PAIR(q);
        OWN_PAIR(r);
        OWN_PAIR(t);
        OWN_PAIR(u);
    }
    a = a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r + t + u;
    sink = a[0] + a[15];
    return 20.0 * 16 * 4 * TURNS;
}

/* Products of tiles into six of zeros, as the compiler's own functions say them. */
__attribute__((target("amx-tile,amx-bf16"))) static double own_tiles(dlr_exec *exec) {
    (void)exec;
    enum { ROWS = 16, ROW_BYTES = 64 };
    struct {
        uint8_t palette, rest[15];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) shapes.bytes[i] = ROW_BYTES, shapes.rows[i] = ROWS;
    _tile_loadconfig(&shapes);
    _tile_zero(6);
    _tile_zero(7);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    for (long i = 0; i < TILE_TURNS; i++) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
        _tile_dpbf16ps(4, 6, 7);
        _tile_dpbf16ps(5, 6, 7);
    }
    _tile_release();
    return 6.0 * 2 * ROWS * ROWS * ROW_BYTES / 2 * TILE_TURNS;
}

/* SWEEPS times: every float of BUFFER bytes of the executor's arena read, and written. */
enum { BUFFER = 64 << 20, SWEEPS = 32 };
__attribute__((target("avx2"))) static double own_stream(dlr_exec *exec) {
    float *at = (float *)dlr_exec_arena(exec);
    __m256 x = _mm256_set1_ps(1.0f);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        for (long i = 0; i < BUFFER / 4; i += 16) {
            _mm256_store_ps(at + i, _mm256_add_ps(_mm256_load_ps(at + i), x));
            _mm256_store_ps(at + i + 8, _mm256_add_ps(_mm256_load_ps(at + i + 8), x));
        }
        __asm__ volatile("" ::: "memory"); /* or two sweeps become one */
    }
    sink = at[BUFFER / 8];
    return 2.0 * BUFFER * SWEEPS;
}
#endif

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the rounds' ratios: the two sides of a round are of the same quarter of a second,
 * and one round that the machine favours or robs moves a best, but no median. */
static void check_program(dlr_exec *exec, int program, const char *what, double work,
                          double (*own)(dlr_exec *)) {
    double ratios[MOST_ROUNDS], sorted[MOST_ROUNDS], ratio = 0, shortest = 1e9;
    for (int n = 1; n <= MOST_ROUNDS; n++) {
        double ours = 0, theirs = 0, done = 0;
        for (int side = 0; side < 2; side++) {
            double t = cpu_seconds();
            if (side == n % 2)
                dlr_exec_run(exec, program, NULL), ours = cpu_seconds() - t;
            else
                done = own(exec), theirs = cpu_seconds() - t;
        }
        if (ours < shortest) shortest = ours;
        ratios[n - 1] = (work / ours) / (done / theirs);
        memcpy(sorted, ratios, (size_t)n * sizeof *sorted);
        qsort(sorted, (size_t)n, sizeof *sorted, ascending);
        ratio = sorted[n / 2];
        if (n >= ROUNDS && fabs(ratio - 1) <= 0.05) break;
    }
    printf("%s: %.1f G/s, %.3f of independent code\n", what, work / shortest * 1e-9, ratio);
    CHECK(fabs(ratio - 1) <= 0.05, "%s: %.3f times independent code", what, ratio);
    CHECK(shortest >= 0.025, "%s: a round of %.3f s", what, shortest); /* compiler/cpu/peak.c */
}

/* Sanitizers slow the independent code down, and not what is emitted. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

int main(void) {
    if (SANITIZED) {
        dl_test_skip("a comparison of speeds means nothing under sanitizers");
        return 77;
    }
    char dir[] = "/tmp/dl_peak_XXXXXX";
    if (!mkdtemp(dir)) return 1;
    setenv("DLR_CACHE_DIR", dir, 1);
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    double flops, bytes, more_flops, more_bytes;
#ifdef __x86_64__
    const dl_target *t = dl_target_find(NULL, "cpu:avx2", &err);
    if (t) {
        dl_plan *p = dl_peak_plan(arena, t, DL_F32, 1, &flops, &bytes, &err);
        dlr_exec *exec = p ? dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err) : NULL;
        CHECK(exec != NULL, "%s", err.message);
        if (exec) {
            check_program(exec, 0, "multiply-adds", flops, own_flops);
            check_program(exec, 1, "a stream", bytes, own_stream);
        }
        dlr_exec_close(exec);
    } else
        dl_test_skip("cpu:avx2: %s", err.message);
    err = (dl_error){0};
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "cpu:amx_bf16" : "cpu:avx512_bf16";
        if (!(t = dl_target_find(NULL, name, &err))) {
            dl_test_skip("%s: %s", name, err.message);
            err = (dl_error){0};
            continue;
        }
        dl_plan *p = dl_peak_plan(arena, t, DL_BF16, 1, &flops, &bytes, &err);
        dlr_exec *exec = p ? dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err) : NULL;
        CHECK(exec != NULL, "%s", err.message);
        if (exec) check_program(exec, 0, t->name, flops, i ? own_tiles : own_pairs);
        dlr_exec_close(exec);
    }
#endif
    err = (dl_error){0};
    const dl_target *generic = dl_target_find(NULL, "cpu:generic", &err);
    CHECK(dl_peak_plan(arena, generic, DL_F32, 1, &flops, &bytes, &err) != NULL, "%s", err.message);
    CHECK(dl_peak_plan(arena, generic, DL_F32, 3, &more_flops, &more_bytes, &err) != NULL, "%s",
          err.message);
    CHECK(more_flops == 3 * flops && more_bytes == 3 * bytes,
          "three threads do three times as much");
    dl_arena_free(arena);
    return dl_test_end();
}

/* The machine's ceilings beside independent code whose work is counted by hand: multiply-adds on twelve named
 * vectors, and a buffer far larger than any cache that is read and written in order. One thread and its own
 * CPU time, so that neighbours who take the core do not count; both sides in turn, the best round of each; on
 * a restless machine more rounds. */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "compiler/peak.h"
#include "runtime/exec.h"
#include "tests/check.h"

enum { ROUNDS = 5, MOST_ROUNDS = 400, TURNS = 30 << 20 };

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile float sink;

#ifdef __x86_64__
#include <immintrin.h>
/* TURNS turns of twelve multiply-adds of eight lanes: 192 operations a turn. */
__attribute__((target("avx2,fma"))) static double own_flops(void) {
    float start = sink; /* unknown to the compiler */
    __m256 x = _mm256_set1_ps(0.25f), y = _mm256_set1_ps(start), a = y, b = y, c = y, d = y, e = y, f = y,
           g = y, h = y, i = y, j = y, k = y, l = y;
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

/* SWEEPS times: every float of BUFFER bytes read, and written; huge pages, as the executor's memory. */
enum { BUFFER = 64 << 20, HUGE_PAGE = 2 << 20, SWEEPS = 8 };
__attribute__((target("avx2"))) static double own_stream(void) {
    static float *at;
    if (!at) {
        at = aligned_alloc(HUGE_PAGE, BUFFER);
        if (!at) return 0;
        madvise(at, BUFFER, MADV_HUGEPAGE);
    }
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

typedef struct {
    double rate, shortest; /* best rate; seconds of the shortest round */
} best;

static void note(best *b, double work, double seconds) {
    if (work / seconds > b->rate) b->rate = work / seconds, b->shortest = seconds;
}

static void check_program(dlr_exec *exec, int program, const char *what, double work, double (*own)(void)) {
    best theirs = {0}, ours = {0};
    for (int i = 0; i < MOST_ROUNDS; i++) {
        double t = cpu_seconds();
        dlr_exec_run(exec, program, NULL);
        note(&ours, work, cpu_seconds() - t);
        t = cpu_seconds();
        double done = own();
        note(&theirs, done, cpu_seconds() - t);
        if (i + 1 >= ROUNDS && fabs(ours.rate / theirs.rate - 1) <= 0.05) break;
    }
    printf("%s: %.1f G/s, independent code %.1f\n", what, ours.rate * 1e-9, theirs.rate * 1e-9);
    CHECK(fabs(ours.rate / theirs.rate - 1) <= 0.05, "%s: %.3g, independent code %.3g", what, ours.rate,
          theirs.rate);
    CHECK(ours.shortest >= 0.05, "%s: a round of %.3f s", what, ours.shortest);
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
        printf("SKIP: a comparison of speeds means nothing under sanitizers\n");
        return 77;
    }
    char dir[] = "/tmp/dl_peak_XXXXXX";
    if (!mkdtemp(dir)) return 1;
    setenv("DLR_CACHE_DIR", dir, 1);
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    double flops, bytes, more_flops, more_bytes;
#ifdef __x86_64__
    const dl_target *t = dl_target_find("cpu:avx2", &err);
    if (t) {
        dl_plan *p = dl_peak_plan(arena, t, 1, &flops, &bytes, &err);
        dlr_exec *exec = p ? dlr_exec_open(p, 1, &err) : NULL;
        CHECK(exec != NULL, "%s", err.message);
        if (exec) {
            check_program(exec, 0, "multiply-adds", flops, own_flops);
            own_stream(); /* its pages are there */
            check_program(exec, 1, "a stream", bytes, own_stream);
        }
        dlr_exec_close(exec);
    } else
        printf("SKIP cpu:avx2: %s\n", err.message);
#endif
    err = (dl_error){0};
    const dl_target *generic = dl_target_find("cpu:generic", &err);
    CHECK(dl_peak_plan(arena, generic, 1, &flops, &bytes, &err) != NULL, "%s", err.message);
    CHECK(dl_peak_plan(arena, generic, 3, &more_flops, &more_bytes, &err) != NULL, "%s", err.message);
    CHECK(more_flops == 3 * flops && more_bytes == 3 * bytes, "three threads do three times as much");
    dl_arena_free(arena);
    return dl_test_end();
}

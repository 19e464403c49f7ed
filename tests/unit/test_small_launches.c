/* Launches and transfers that are too small for the pool stay on the caller's thread, others do
 * not, and the bits are the same. */
#include "tests/check.h"

#include <math.h>
#include <pthread.h>

#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "tests/unit/plan_fixture.h"

/* sum: arguments x, y, out, ids, wait. Phase 0: y of an item's 16 numbers, and their sum; the item
 * notes its thread, after `wait` items have begun (or in vain, in the end). Phase 1 adds the
 * sums. */
static const char source[] =
    "extern unsigned long pthread_self(void); extern int sched_yield(void);\n"
    "void sum_0(char *const *arg, long item, char *scratch, char *workspace) {\n"
    "    const float *x = (const float *)arg[0] + item * 16;\n"
    "    float *y = (float *)arg[1] + item * 16, t = 0; int *wait = (int *)arg[4];\n"
    "    __atomic_fetch_add(&wait[1], 1, __ATOMIC_SEQ_CST);\n"
    "    for (long i = 0; i < 3000000 && __atomic_load_n(&wait[1], __ATOMIC_SEQ_CST) < wait[0]; "
    "i++)\n"
    "        sched_yield();\n"
    "    for (int i = 0; i < 16; i++) t += y[i] = x[i] * x[i] * 0.3f + 1;\n"
    "    ((float *)workspace)[item] = t; ((unsigned long *)arg[3])[item] = pthread_self();\n"
    "}\n"
    "void sum_1(char *const *arg, long item, char *scratch, char *workspace) {\n"
    "    float t = 0; for (int i = 0; i < 64; i++) t += ((float *)workspace)[i];\n"
    "    *(float *)arg[2] = t;\n"
    "}\n";

enum { UNITS = 64, N = UNITS * 16, X = 0, Y = 4096, OUT = 8192, IDS = 8256, WAIT = 8768 };
enum { ARENA = 8832 };

/* A plan of `n` launches of that kernel. */
static dl_plan *make_plan(int n) {
    dl_plan *p = new_plan_of(ARENA, source);
    if (!p) return NULL;
    add_var(p, DL_VAR_PARAM, "x", vector(N), (dl_init){DL_INIT_NORMAL, 0, 1}, X);
    add_kernel(p, "sum", 2, UNITS, 1, UNITS * 4, 64, 5, (int64_t[]){N * 4, N * 4, 4, UNITS * 8, 8});
    dl_plan_program *g = add_program(p, "train");
    for (int i = 0; i < n; i++) add_launch(p, g, 0, (int64_t[]){X, Y, OUT, IDS, WAIT});
    return p;
}

/* The microseconds of one thread for which a loop on all threads saves `saved`. */
static double serial_of(const dlr_pool *pool, double saved) {
    double cost = dlr_pool_saves(pool, 0, 1) - dlr_pool_saves(pool, 1, 1);
    return (saved + cost) / dlr_pool_saves(pool, 0, 1);
}

typedef struct {
    uint32_t handed; /* loops of a run */
    int threads;     /* that ran items of its last launch */
    char bits[OUT + 4];
} outcome;

/* Runs a plan whose launches save `saved` each; NAN: that is unknown. Units wait until `wait` of
 * them have begun. */
static outcome run(dl_plan *p, int threads, double saved, int wait) {
    static outcome o;
    dl_error err = {0};
    dlr_pool *pool = dlr_pool_open(threads, &err);
    o = (outcome){.handed = 1000};
    p->kernels.at[0].serial_us = isnan(saved) ? 0 : threads == 1 ? 1 : serial_of(pool, saved);
    dlr_pool_close(pool);
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = threads}, &err);
    CHECK(e && dlr_state_init(e, 1, &err), "%s", err.message);
    if (!e) return o;
    ((int *)(dlr_exec_arena(e) + WAIT))[0] = wait;
    uint32_t before = dlr_pool_handed(dlr_exec_pool(e));
    dlr_exec_run(e, 0, NULL);
    o.handed = dlr_pool_handed(dlr_exec_pool(e)) - before;
    const unsigned long *ids = (const unsigned long *)(dlr_exec_arena(e) + IDS);
    for (int i = 0; i < UNITS; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++) seen = seen || ids[k] == ids[i];
        o.threads += !seen;
    }
    if (!o.handed) CHECK(ids[0] == pthread_self(), "not the caller's thread");
    memcpy(o.bits, dlr_exec_arena(e), sizeof o.bits);
    dlr_exec_close(e);
    return o;
}

/* A launch that saves less than nothing, in a program that saves enough: it stays. */
static void test_mixed(dl_plan *p) {
    dl_error err = {0};
    dl_push(p->arena, &p->kernels, p->kernels.at[0]);
    dlr_pool *pool = dlr_pool_open(2, &err);
    p->kernels.at[0].serial_us = serial_of(pool, -0.5);
    p->kernels.at[1].serial_us = serial_of(pool, dlr_pool_wake_us + 1);
    dlr_pool_close(pool);
    for (int large = 0; large < 3; large++) {
        for (int i = 0; i < p->programs.at[0].launches.n; i++)
            p->programs.at[0].launches.at[i].kernel = i < large;
        dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 2}, &err);
        CHECK(e, "%s", err.message);
        if (!e) return;
        uint32_t before = dlr_pool_handed(dlr_exec_pool(e));
        dlr_exec_run(e, 0, NULL);
        CHECK((int)(dlr_pool_handed(dlr_exec_pool(e)) - before) == large);
        dlr_exec_close(e);
    }
    p->kernels.n = 1;
    for (int i = 0; i < p->programs.at[0].launches.n; i++)
        p->programs.at[0].launches.at[i].kernel = 0;
}

static void test_launches(void) {
    dl_plan *p = make_plan(4);
    if (!p) return;
    char first[sizeof((outcome *)0)->bits];
    for (int threads = 1; threads <= 4; threads++) {
        outcome small = run(p, threads, -0.1, 1);
        CHECK(small.handed == 0 && small.threads == 1, "%d threads: %u loops, on %d", threads,
              small.handed, small.threads);
        outcome large = run(p, threads, 1e6, threads), unknown = run(p, threads, NAN, threads);
        CHECK(large.handed == (threads > 1 ? 4 : 0), "%d threads: %u", threads, large.handed);
        CHECK(unknown.handed == large.handed, "%d threads: %u", threads, unknown.handed);
        /* Only the first launch waits for all threads; a later one may find one alone. */
        if (threads == 1) memcpy(first, small.bits, sizeof first);
        CHECK(memcmp(small.bits, first, sizeof first) == 0, "small, %d threads", threads);
        CHECK(memcmp(large.bits, first, sizeof first) == 0, "large, %d threads", threads);
        CHECK(memcmp(unknown.bits, first, sizeof first) == 0, "unknown, %d threads", threads);
    }
    /* Each saves something, and all together as much as a wake-up takes, or more. */
    CHECK(run(p, 2, dlr_pool_wake_us / 4 - 0.1, 1).handed == 0);
    CHECK(run(p, 2, dlr_pool_wake_us / 4 + 0.1, 1).handed == 4);
    test_mixed(p);
    dl_arena_free(p->arena);
}

/* A large launch runs on all threads: each of as many items waits until all have begun. */
static void test_all_threads(void) {
    dl_plan *p = make_plan(1);
    if (!p) return;
    for (int threads = 2; threads <= 4; threads++)
        CHECK(run(p, threads, 1e6, threads).threads == threads, "%d threads", threads);
    dl_arena_free(p->arena);
}

/* ---- the host's transfers ---- */

/* The loops that a write and a read of all of a tensor hand to the pool. */
static uint32_t transfers_of(dl_layout layout, int64_t edge, dl_dtype host) {
    dl_plan *p = new_plan(1 << 20);
    dl_type t = type_of(DL_F32, layout, 4, (int64_t[]){16, 3, edge, edge});
    int64_t n = dl_type_count(&t);
    add_var(p, DL_VAR_PARAM, "x", t, (dl_init){0}, 0);
    dl_error err = {0};
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 2}, &err);
    CHECK(e, "%s", err.message);
    dlr_view x = dlr_exec_variable(e, "x");
    double *from = DL_NEWS(p->arena, double, n), *to = DL_NEWS(p->arena, double, n);
    for (int64_t i = 0; i < n; i++)
        host == DL_F64 ? (from[i] = (double)i) : (((float *)from)[i] = (float)i);
    uint32_t before = dlr_pool_handed(dlr_exec_pool(e));
    dlr_state_write(e, x, host, from);
    dlr_state_read(e, x, host, to);
    uint32_t handed = dlr_pool_handed(dlr_exec_pool(e)) - before;
    CHECK(memcmp(from, to, (size_t)n * (size_t)dl_dtype_bytes(host)) == 0);
    if (n > 50) { /* a part of it: the rest is kept */
        float part[40];
        dlr_state_write_range(e, x, (dlr_range){5, 7}, host, from);
        dlr_state_read_range(e, x, (dlr_range){2, 40}, DL_F32, part);
        for (int i = 0; i < 40; i++)
            CHECK(part[i] == (float)(i >= 3 && i < 10 ? i - 3 : i + 2), "element %d: %g", i,
                  (double)part[i]);
    }
    dlr_exec_close(e);
    dl_arena_free(p->arena);
    return handed;
}

static void test_transfers(void) {
    const dl_layout row = {0}, last = {.kind = DL_CL};
    for (int f64 = 0; f64 < 2; f64++) {
        dl_dtype host = f64 ? DL_F64 : DL_F32;
        CHECK(transfers_of(row, 18, host) == 0); /* 15,552 elements */
        CHECK(transfers_of(last, 18, host) == 0);
        CHECK(transfers_of(row, 64, host) == 2);
        CHECK(transfers_of(last, 64, host) == 2);
    }
}

int main(void) {
    test_launches();
    test_all_threads();
    test_transfers();
    return dl_test_end();
}

/* The executor, its pool and its memory, on plans made by hand. */
#include "tests/check.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "runtime/base/memory.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/not_finite.h"
#include "tests/unit/plan_fixture.h"

/* Counts what a step asks of the system. In programs with a sanitizer its own malloc stays. */
static atomic_long allocations;
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n) {
    allocations++;
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    allocations++;
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    allocations++;
    return __libc_realloc(p, n);
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    allocations++;
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
#endif

/* A system without anonymous files, when asked for. */
static bool refuse_memfd;
int memfd_create(const char *name, unsigned flags) {
    if (refuse_memfd) errno = ENOSYS;
    return refuse_memfd ? -1 : (int)syscall(SYS_memfd_create, name, flags);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- pool ---- */
enum { ITEMS = 3000 };
typedef struct {
    int seen[ITEMS];
    int busy[64]; /* a thread number is used by one item at a time */
    atomic_int clashes;
} visits;

static void visit(void *context, int64_t item, int thread) {
    visits *v = context;
    if (v->busy[thread]++) v->clashes++;
    v->seen[item]++;
    v->busy[thread]--;
}

static void test_pool(void) {
    static visits v;
    dl_error err = {0};
    const int threads[] = {1, 2, 3, 8};
    for (int t = 0; t < 4; t++) {
        dlr_pool *pool = dlr_pool_open(threads[t], &err);
        CHECK(pool && dlr_pool_threads(pool) == threads[t], "%s", err.message);
        bool ok = true;
        for (int run = 0; run < 300; run++) {
            int64_t items = run % 4 == 0 ? run % 7 : run * 10;
            memset(&v, 0, sizeof v);
            dlr_pool_run(pool, items, visit, &v);
            for (int i = 0; i < ITEMS; i++) ok = ok && v.seen[i] == (i < items);
            if (run % 100 == 50) usleep(2000); /* threads asleep */
        }
        CHECK(ok, "%d threads", threads[t]);
        CHECK(v.clashes == 0);
        dlr_pool_close(pool);
    }
    CHECK(!dlr_pool_open(-1, &err) && err.code == DL_USAGE);
    err = (dl_error){0};
    CHECK(!dlr_pool_open(1 << 20, &err) && err.code == DL_USAGE);
    dlr_pool *all = dlr_pool_open(0, (err = (dl_error){0}, &err));
    CHECK(all && dlr_pool_threads(all) >= 1);
    dlr_pool_close(all);
    dlr_pool_close(NULL);
}

static void count(void *context, int64_t item, int thread) {
    (void)item, (void)thread;
    atomic_fetch_add((atomic_int *)context, 1);
}

/* Threads that come late to a short run find nothing left of it, and take nothing of the next in
 * its name. */
static void test_late_threads(void) {
    dl_error err = {0};
    dlr_pool *pool = dlr_pool_open(8, &err);
    CHECK(pool, "%s", err.message);
    for (int run = 0; pool && run < 100000; run++) {
        atomic_int done = 0;
        int items = run % 2 ? 2 : 2 + run % 61;
        dlr_pool_run(pool, items, count, &done);
        if (done != items) CHECK(done == items, "run %d: %d items of %d", run, done, items);
    }
    CHECK(pool, "each item once");
    dlr_pool_close(pool);
}

static void nothing(void *context, int64_t item, int thread) {
    (void)context, (void)item, (void)thread;
}

/* Returns when both items run: the time of a launch is then the time until the other thread has
 * come. */
static void meet(void *context, int64_t item, int thread) {
    (void)item, (void)thread;
    atomic_int *here = context;
    for (atomic_fetch_add(here, 1); atomic_load(here) < 2;) sched_yield();
}

/* Idle threads sleep: half a second of waiting costs (nearly) no processor time. */
static void test_idle(void) {
    dl_error err = {0};
    dlr_pool *pool = dlr_pool_open(4, &err);
    dlr_pool_run(pool, 100, nothing, NULL);
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    usleep(300000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    double used = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    CHECK(used < 0.1, "%.3f s of 0.3", used);
    dlr_pool_close(pool);
    pool = dlr_pool_open(2, &err);
    double best = 1;
    for (int trial = 0; trial < 20; trial++) {
        double start = seconds();
        for (int i = 0; i < 1000; i++) {
            atomic_int here = 0;
            dlr_pool_run(pool, 2, meet, &here);
        }
        double each = (seconds() - start) / 1000;
        if (each < best) best = each;
    }
    printf("launch of two items on two hot threads: %.2f us\n", best * 1e6);
    dlr_pool_close(pool);
}

/* ---- memory ---- */
static void test_memory(void) {
    dl_error err = {0};
    dlr_pool *pool = dlr_pool_open(2, &err);
    dlr_memory m;
    CHECK(dlr_memory_map(&m, 40000001, pool, &err), "%s", err.message);
    CHECK((uintptr_t)m.base % (2 << 20) == 0);
    bool zero = true;
    for (size_t i = 0; i < m.bytes; i++) zero = zero && m.base[i] == 0;
    CHECK(zero);
    m.base[m.bytes - 1] = 1;
    dlr_memory_unmap(&m);
    CHECK(!m.base);
    CHECK(dlr_memory_map(&m, 0, pool, &err) && m.base);
    dlr_memory_unmap(&m);
    CHECK(dl_memory_available() > 0);
    CHECK(!dlr_memory_map(&m, (size_t)1 << 46, pool, &err) && err.code == DL_RESOURCE);
    CHECK(strstr(err.message, "67108864.0 MiB") && strstr(err.message, "free"), "%s", err.message);
    dlr_pool_close(pool);
}

/* ---- plans ---- */
static const char source[] =
    /* @0 scale: args x, y. y = 2 x + 1, an item a row of 16. */
    "void scale_0(char *const *arg, long item, char *scratch, char *workspace) {\n"
    "    const float *x = (const float *)arg[0] + item * 16; float *y = (float *)arg[1] + item * "
    "16;\n"
    "    for (int i = 0; i < 16; i++) y[i] = 2 * x[i] + 1;\n"
    "}\n"
    /* @1 sum: args a, b, out. Partial sums of a * b by item through scratch and workspace, then one
       item adds them. */
    "void sum_0(char *const *arg, long item, char *scratch, char *workspace) {\n"
    "    const float *a = (const float *)arg[0], *b = (const float *)arg[1]; float *s = (float "
    "*)scratch;\n"
    "    for (int i = 0; i < 16; i++) s[i] = a[item * 16 + i] * b[item * 16 + i];\n"
    "    float t = 0; for (int i = 0; i < 16; i++) t += s[i];\n"
    "    ((float *)workspace)[item] = t;\n"
    "}\n"
    "void sum_1(char *const *arg, long item, char *scratch, char *workspace) {\n"
    "    float t = 0; for (int i = 0; i < 64; i++) t += ((float *)workspace)[i];\n"
    "    *(float *)arg[2] = t;\n"
    "}\n"
    /* @2 where: arg out. Addresses, for the alignment the ABI promises. */
    "void where_0(char *const *arg, long item, char *scratch, char *workspace) {\n"
    "    ((long *)arg[0])[item] = (long)scratch % 64 + (long)workspace % 64 + (long)arg[0] % 64;\n"
    "    scratch[0] = 1; scratch[99] = 1;\n"
    "}\n";

enum { N = 1024, X = 0, Y = 4096, LOSS = 8192, PLACES = 8256, ARENA = 12352 };

static bool make_plan(dl_plan **out) {
    dl_plan *p = *out = new_plan_of(ARENA, source);
    if (!p) return false;
    add_var(p, DL_VAR_PARAM, "x", vector(N), (dl_init){0}, X);
    add_var(p, DL_VAR_STATE, "y", vector(N), (dl_init){0}, Y);
    p->vars.at[1].of = "x";
    add_kernel(p, "scale", 1, N / 16, 0, 0, 0, 2, (int64_t[]){N * 4, N * 4});
    add_kernel(p, "sum", 2, N / 16, 1, N / 16 * 4, 64, 3, (int64_t[]){N * 4, N * 4, 4});
    add_kernel(p, "where", 1, 512, 0, 64, 100, 1, (int64_t[]){512 * 8});
    dl_push(p->arena, &p->kernels.at[0].stores, ((dl_plan_store){1, vector(N), "add", "m.dl:1"}));
    dl_push(p->arena, &p->kernels.at[1].stores,
            ((dl_plan_store){2, dl_scalar(DL_F32), "sum", "m.dl:2"}));
    add_program(p, "train"), add_program(p, "eval");
    dl_plan_program *train = &p->programs.at[0], *eval = &p->programs.at[1];
    add_launch(p, train, 0, (int64_t[]){X, Y});
    add_launch(p, train, 0, (int64_t[]){Y, X});
    add_launch(p, train, 1, (int64_t[]){X, Y, LOSS});
    add_launch(p, eval, 1, (int64_t[]){X, X, LOSS});
    add_launch(p, eval, 2, (int64_t[]){PLACES});
    dl_plan_result loss = {.role = DL_RESULT_LOSS,
                           .name = "loss",
                           .type = dl_scalar(DL_F32),
                           .offset = LOSS,
                           .var = -1};
    dl_push(p->arena, &train->results, loss);
    dl_push(p->arena, &eval->results, loss);
    return true;
}

static float start(int i) { return (float)(i % 37) * 0.37f - 3; }

static void test_run(const dl_plan *p) {
    static char first[ARENA];
    const int threads[] = {1, 2, 5};
    for (int t = 0; t < 3; t++) {
        dl_error err = {0};
        dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = threads[t]}, &err);
        CHECK(e, "%s", err.message);
        if (!e) return;
        dlr_view x = dlr_exec_variable(e, "x"), y = dlr_exec_variable(e, "y");
        CHECK(x.offset == X && x.type->rank == 1 && y.offset == Y);
        CHECK(!dlr_exec_data(e, dlr_exec_variable(e, "z")));
        float *xs = dlr_exec_data(e, x), *ys = dlr_exec_data(e, y);
        for (int i = 0; i < N; i++) xs[i] = start(i);
        int train = dlr_exec_program(e, "train"), eval = dlr_exec_program(e, "eval");
        CHECK(train == 0 && eval == 1 && dlr_exec_program(e, "test") == -1);

        int64_t ns[3] = {-1, -1, -1};
        long before = allocations;
        for (int step = 0; step < 3; step++) dlr_exec_run(e, train, step == 1 ? ns : NULL);
        CHECK(allocations == before, "%ld allocations in a step", (long)(allocations - before));
        CHECK(ns[0] > 0 && ns[1] > 0 && ns[2] > 0);

        float a = start(5), b = 0;
        for (int step = 0; step < 3; step++)
            b = 2 * a + 1, a = 2 * b + 1; /* y from x, then x from y */
        CHECK(xs[5] == a && ys[5] == b, "got %g %g, want %g %g", (double)xs[5], (double)ys[5],
              (double)a, (double)b);
        float loss = *(float *)dlr_exec_data(e, dlr_exec_result(e, train, DL_RESULT_LOSS, NULL)),
              total = 0;
        for (int u = 0; u < N / 16; u++) {
            float part = 0;
            for (int i = 0; i < 16; i++) part += xs[u * 16 + i] * ys[u * 16 + i];
            total += part;
        }
        CHECK(loss == total, "got %g, want %g", (double)loss, (double)total);

        dlr_exec_run(e, eval, NULL); /* the same variables, another program */
        CHECK(*(float *)dlr_exec_data(e, dlr_exec_result(e, eval, DL_RESULT_LOSS, "loss")) >
              total / 3);
        CHECK(!dlr_exec_data(e, dlr_exec_result(e, eval, DL_RESULT_METRIC, NULL)));
        const int64_t *places = (const int64_t *)(dlr_exec_arena(e) + PLACES);
        int64_t off = 0;
        for (int i = 0; i < 512; i++) off += places[i];
        CHECK(off == 0, "memory handed to kernels is not aligned to 64 bytes");

        if (t == 0) memcpy(first, dlr_exec_arena(e), ARENA);
        CHECK(memcmp(first, dlr_exec_arena(e), ARENA) == 0, "%d threads give other bits",
              threads[t]);
        dlr_exec_close(e);
    }
    dlr_exec_close(NULL);
}

/* A step, launch by launch: the same bits; and what is the first to be not finite. */
static void test_not_finite(const dl_plan *p) {
    static char whole[ARENA];
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 2}, &err);
    CHECK(e, "%s", err.message);
    if (!e) return;
    float *x = dlr_exec_data(e, dlr_exec_variable(e, "x"));
    for (int by_launch = 0; by_launch < 2; by_launch++) {
        for (int i = 0; i < N; i++) x[i] = start(i);
        for (int i = 0; by_launch && i < 3; i++) dlr_exec_run_launch(e, 0, i);
        if (!by_launch) dlr_exec_run(e, 0, NULL), memcpy(whole, dlr_exec_arena(e), ARENA);
    }
    CHECK(memcmp(whole, dlr_exec_arena(e), PLACES) == 0);
    CHECK_STR(dlr_not_finite_text(arena, e, 0), "");
    x[700] = -3e38f; /* finite, but not its double */
    CHECK(!dlr_not_finite_variable(arena, e, DL_VAR_PARAM));
    CHECK_STR(dlr_not_finite_text(arena, e, 0), ". The first value that is not finite is made by "
                                                "'add' (m.dl:1), at [N=700], or before it in the "
                                                "same kernel (DLC_SKIP=fuse: each op is one)");
    CHECK(!dlr_not_finite_variable(arena, e, DL_VAR_INPUT));
    x[5] = NAN;
    CHECK_STR(dlr_not_finite_variable(arena, e, DL_VAR_PARAM), "'x', at [N=5]");
    CHECK_STR(dlr_not_finite_text(arena, e, 0), ". Not finite is the weight 'x', at [N=5]");
    dlr_exec_run_launch(e, 0, 2);
    for (int i = 0; i < N; i++) x[i] = 1e30f;
    CHECK(strstr(dlr_not_finite_text(arena, e, 1), "is made by 'sum' (m.dl:2), or before"));
    dlr_exec_close(e);
    dl_arena_free(arena);
}

/* Two executors of two plans at once: the loader must not give one the other's code. */
static void test_two(const dl_plan *p, dl_plan *q) {
    dl_error err = {0};
    dl_plan_object other;
    char *directory = temp_directory(q->arena), *text = dl_strdup(q->arena, source);
    memcpy(strstr(text, "2 * x"), "3 * x", 5);
    CHECK(compile_object(q->arena, directory, text, "-ffast-math", &other));
    rmdir(directory);
    q->objects.at[0] = other;
    for (int round = 0; round < 2;
         round++) { /* one after the other, then the second while the first lives */
        dlr_exec *a = dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err);
        if (round == 0) dlr_exec_close(a);
        dlr_exec *b = dlr_exec_open(q, (dlr_exec_options){.threads = 1}, &err);
        CHECK(a && b, "%s", err.message);
        /* gcc 12 links code into objects made with -ffast-math that turns subnormals off when
         * loaded. */
        volatile float tiny = 1e-38f;
        CHECK(tiny / 10 > 0, "loading an object changed the floating-point state");
        ((float *)dlr_exec_data(b, dlr_exec_variable(b, "x")))[0] = 5;
        dlr_exec_run(b, 0, NULL);
        CHECK(((float *)dlr_exec_data(b, dlr_exec_variable(b, "y")))[0] == 16);
        if (round == 1) dlr_exec_close(a);
        dlr_exec_close(b);
    }
}

/* Without anonymous files: by a temporary one, of which nothing stays. */
static void test_temporary(const dl_plan *p) {
    char *directory = temp_directory(p->arena), *kept = getenv("TMPDIR");
    if (kept) kept = dl_strdup(p->arena, kept);
    setenv("TMPDIR", directory, 1);
    refuse_memfd = true;
    dl_error err = {0};
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 2}, &err);
    CHECK(e, "%s", err.message);
    if (e) {
        dlr_exec_run(e, 0, NULL);
        CHECK(((float *)dlr_exec_data(e, dlr_exec_variable(e, "y")))[0] == 1);
    }
    dlr_exec_close(e);
    refuse_memfd = false;
    kept ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR");
    CHECK(rmdir(directory) == 0, "something stayed in %s", directory);
}

static void expect_open_error(const dl_plan *p, dl_code code, const char *text) {
    dl_error err = {0};
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 2}, &err);
    CHECK(!e && err.code == code && strstr(err.message, text), "%d %s", err.code, err.message);
    dlr_exec_close(e);
}

static void test_faults(dl_plan *p) {
    p->kernels.at[0].symbol = "absent";
    expect_open_error(p, DL_INPUT, "absent_0");
    p->kernels.at[0].symbol = "scale";
    dl_plan_object good = p->objects.at[0];
    p->objects.at[0].image = (const unsigned char *)"not a shared object";
    p->objects.at[0].bytes = 19;
    expect_open_error(p, DL_INPUT, "kernels.so");
    p->objects.at[0] = good;
    p->arena_bytes = (int64_t)1 << 46;
    expect_open_error(p, DL_RESOURCE, "MiB are free");
    p->arena_bytes = 64;
    expect_open_error(p, DL_INPUT, "'x' has no place");
    p->arena_bytes = ARENA;
}

int main(void) {
    test_pool();
    test_late_threads();
    test_idle();
    test_memory();
    dl_plan *p, *q;
    if (make_plan(&p)) {
        test_run(p);
        test_not_finite(p);
        test_temporary(p);
        test_faults(p);
        if (make_plan(&q)) {
            test_two(p, q);
            dl_arena_free(q->arena);
        }
        dl_arena_free(p->arena);
    }
    return dl_test_end();
}

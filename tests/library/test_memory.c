/* Each allocation of dlc_open and dlc_save fails in turn, once or for ever: the call reports it and
 * the process goes on. Sanitizers have allocators of their own. */
#include <pthread.h>

#include "tests/library/fixture.h"

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ && defined __GLIBC__
#define FAULTS true
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *malloc(size_t n);
void *calloc(size_t n, size_t bytes);
void *realloc(void *at, size_t n);
/* This thread's allocations until now, the first that fails, and whether later ones do, too. */
static _Thread_local long asked, from;
static _Thread_local bool for_ever;

static bool refused(void) {
    asked++;
    return from && (for_ever ? asked >= from : asked == from);
}
void *malloc(size_t n) { return refused() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t bytes) { return refused() ? NULL : __libc_calloc(n, bytes); }
void *realloc(void *at, size_t n) { return refused() ? NULL : __libc_realloc(at, n); }
#else
#define FAULTS false
static long asked, from;
static bool for_ever;
#endif

static float x[4][3] = {{1, 2, 3}}, t[4][2];

typedef struct {
    const char *path;
    int reported, without_harm;
} tally;

static dlc_model *open_model(const char *path, dlc_status *s) {
    dlc_options o = fixture_options(4, 1);
    asked = 0;
    return dlc_open(path, &o, s);
}

/* The call after a failure is as any other. */
static void expect_usable(const char *path, long k) {
    dlc_status s;
    from = 0;
    dlc_model *m = open_model(path, &s);
    CHECK(m && dlc_train_step(m, 4, (const void *[]){x, t}, NULL, &s), "after %ld: %s", k,
          s.message);
    dlc_close(m);
}

static void fail_open(tally *to, long k, bool ever) {
    dlc_status s = {0};
    from = k, for_ever = ever;
    dlc_model *m = open_model(to->path, &s);
    from = 0;
    CHECK(m ? s.code == 0 : s.code && *s.message, "%ld: %d %s", k, s.code, s.message);
    to->reported += !m && s.code == 5, to->without_harm += m != NULL;
    dlc_close(m);
}

static void test_open(const char *path) {
    dlc_status s;
    tally all = {.path = path};
    dlc_close(open_model(path, &s)); /* what is found out once a process */
    dlc_model *m = open_model(path, &s);
    long n = asked;
    dlc_close(m);
    CHECK(m && n > 100, "%ld allocations", n);
    for (long k = 1; k <= n; k++) {
        if (!dl_test_takes((unsigned)k)) continue;
        fail_open(&all, k, k % 2);
        expect_usable(path, k);
    }
    CHECK(all.reported > all.without_harm, "%s: %d reported, %d without harm of %ld", path,
          all.reported, all.without_harm, n);
}

static void test_save(const char *run) {
    dlc_status s;
    dlc_model *m = open_model(run, &s);
    if (!m) return;
    asked = 0;
    CHECK(dlc_save(m, run, &s), "%s", s.message);
    for (long k = 1, n = asked; k <= n; k++) {
        if (!dl_test_takes((unsigned)k)) continue;
        asked = 0, from = k, for_ever = k % 2;
        int ok = dlc_save(m, run, &s);
        from = 0;
        CHECK(ok || (s.code && *s.message), "%ld: %d %s", k, s.code, s.message);
        CHECK(dlc_train_step(m, 4, (const void *[]){x, t}, NULL, &s), "%s", s.message);
    }
    CHECK(dlc_save(m, run, &s), "%s", s.message);
    dlc_close(m);
}

/* The first call of a process, which finds out more than later ones. */
static void test_first(const char *path) {
    static const int at[] = {1, 2, 5, 20, 80, 300, 1000};
    tally all = {.path = path};
    for (int i = 0; i < 7; i++) fail_open(&all, at[i], true);
    expect_usable(path, 0);
}

int main(void) {
    CHECK(fixture_begin(), "a folder");
    const char *path = fixture_file("linear.dl", LINEAR), *run = fixture_path("run");
    if (!FAULTS) {
        dl_test_skip("a sanitizer's allocator");
        return fixture_end();
    }
    dlc_status s;
    test_first(path);
    dlc_model *m = open_model(path, &s);
    CHECK(m && dlc_save(m, run, &s), "%s", s.message);
    dlc_close(m);
    test_open(path);
    test_open(run);
    test_save(run);
    return fixture_end();
}

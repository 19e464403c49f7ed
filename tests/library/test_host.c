/* A program that uses the library keeps its signals, folder, environment, locale, CPUs,
 * rounding, and standard streams. And: a call after dlc_open allocates nothing. */
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/library/fixture.h"

extern char **environ;

/* ---- allocations are counted; sanitizers have allocators of their own ---- */

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ && defined __GLIBC__
#define COUNTS true
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *malloc(size_t n);
void *calloc(size_t n, size_t bytes);
void *realloc(void *at, size_t n);
static atomic_long allocations;
void *malloc(size_t n) {
    allocations++;
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t bytes) {
    allocations++;
    return __libc_calloc(n, bytes);
}
void *realloc(void *at, size_t n) {
    allocations++;
    return __libc_realloc(at, n);
}
#else
#define COUNTS false
static long allocations;
#endif

static float x[6][3] = {{1, 2, 3}, {4, 5, 6}}, t[6][2], y[6][2];

static bool use(dlc_model *m) {
    double loss, metrics[2];
    float b[2];
    const void *all[] = {x, t};
    return dlc_predict(m, 6, all, (void *[]){y}, NULL) && dlc_train_step(m, 4, all, &loss, NULL) &&
           dlc_evaluate(m, 4, all, &loss, metrics, NULL) && dlc_get(m, "l.bias", b, 8, NULL) &&
           dlc_set(m, "l.bias", b, 8, NULL) && dlc_count(m, DLC_METRIC) == 2 && dlc_memory(m) > 0;
}

static void test_allocations(dlc_model *m) {
    if (!COUNTS) {
        dl_test_skip("allocations: a sanitizer's allocator");
        return;
    }
    long before = allocations;
    CHECK(before > 0, "counted at all");
    bool ok = use(m) && use(m);
    long after = allocations;
    CHECK(ok && after == before, "%ld allocations", after - before);
}

/* ---- the process ---- */

static void handler(int number) { (void)number; }

typedef struct {
    struct sigaction action[NSIG];
    sigset_t mask;
    char folder[4096], locale[200];
    mode_t umask;
    cpu_set_t cpus;
    int rounding, exceptions, files;
    char **environment;
    size_t words; /* a sum of the environment's bytes */
} process;

static int count_files(void) {
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static process look(void) {
    process p = {.rounding = fegetround(),
                 .exceptions = fetestexcept(FE_ALL_EXCEPT) & FE_DIVBYZERO,
                 .files = count_files(),
                 .environment = environ};
    for (int i = 1; i < NSIG; i++) sigaction(i, NULL, &p.action[i]);
    sigprocmask(SIG_SETMASK, NULL, &p.mask);
    CHECK(getcwd(p.folder, sizeof p.folder), "a folder");
    snprintf(p.locale, sizeof p.locale, "%s", setlocale(LC_ALL, NULL));
    umask(p.umask = umask(0));
    sched_getaffinity(0, sizeof p.cpus, &p.cpus);
    for (char **e = environ; *e; e++)
        for (const char *c = *e; *c; c++) p.words = 31 * p.words + (unsigned char)*c;
    return p;
}

static void compare(const process *a, const process *b) {
    for (int i = 1; i < NSIG; i++)
        CHECK(a->action[i].sa_handler == b->action[i].sa_handler &&
                  a->action[i].sa_flags == b->action[i].sa_flags,
              "signal %d", i);
    for (int i = 1; i < NSIG; i++)
        CHECK(sigismember(&a->mask, i) == sigismember(&b->mask, i), "mask of signal %d", i);
    CHECK_STR(b->folder, a->folder);
    CHECK_STR(b->locale, a->locale);
    CHECK(a->umask == b->umask && CPU_EQUAL(&a->cpus, &b->cpus), "mask of files, CPUs");
    CHECK(a->rounding == b->rounding, "rounding");
    CHECK(a->environment == b->environment && a->words == b->words, "environment");
    CHECK(a->files == b->files, "%d files open, and %d before", b->files, a->files);
}

/* The size of what was written to a stream since `begin`. */
typedef struct {
    int fd, kept, file;
} caught;

static caught catch_stream(int fd, const char *name) {
    caught c = {fd, dup(fd), open(fixture_path(name), O_RDWR | O_CREAT | O_TRUNC, 0600)};
    dup2(c.file, fd);
    return c;
}

static long release_stream(caught c) {
    struct stat st = {.st_size = -1};
    fstat(c.file, &st);
    dup2(c.kept, c.fd);
    close(c.kept), close(c.file);
    return (long)st.st_size;
}

/* All calls, those that fail included. */
static void use_all(void) {
    dlc_options o = fixture_options(4, 1);
    dlc_model *m = dlc_open(fixture_path("linear.dl"), &o, NULL);
    CHECK(m && use(m) && dlc_save(m, fixture_path("run"), NULL), "used");
    dlc_close(m);
    m = dlc_open(fixture_path("run"), NULL, NULL);
    CHECK(m && !dlc_save(m, "/proc/x", NULL), "opened");
    dlc_close(m);
    CHECK(!dlc_open(fixture_path("wrong.dl"), &o, NULL), "a faulty model");
    o.device = "nothing";
    CHECK(!dlc_open(fixture_path("linear.dl"), &o, NULL), "no such device");
    static const char *const weights[] = {"init_weights=/nowhere", NULL};
    o = fixture_options(4, 1), o.settings = weights;
    CHECK(!dlc_open(fixture_path("linear.dl"), &o, NULL), "no such weights");
}

static void test_process(void) {
    const int numbers[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGSEGV, SIGFPE, SIGPIPE, SIGHUP};
    for (int i = 0; i < 8; i++) signal(numbers[i], handler);
    signal(SIGCHLD, SIG_IGN); /* as in a host that does not wait for its children */
    fflush(stdout);
    use_all(); /* the first time opens what stays open */
    process before = look();
    caught out = catch_stream(1, "out"), err = catch_stream(2, "err");
    use_all();
    long printed = release_stream(out), complained = release_stream(err);
    process after = look();
    compare(&before, &after);
    CHECK(printed == 0 && complained == 0, "%ld bytes printed, %ld on standard error", printed,
          complained);
    for (int i = 0; i < 8; i++) signal(numbers[i], SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
}

/* In a locale that writes 0,5: what is read and written stays the same. DLC_TEST_LOCALE: its name,
 * and LOCPATH its folder (check_library.py makes one). */
static void test_locale(void) {
    const char *name = getenv("DLC_TEST_LOCALE");
    if (!name || !setlocale(LC_ALL, name)) {
        dl_test_skip("no locale with a decimal comma");
        return;
    }
    char text[20];
    snprintf(text, sizeof text, "%.1f", 0.5);
    CHECK_STR(text, "0,5");
    static const char *const settings[] = {"lr=0.25", "optimizer=sgd", "lr_schedule=none", NULL};
    const char *path = fixture_file("halves.dl", "model Halves():\n    input x: f32[N, C=3]\n"
                                                 "    output gelu(0.37 * x) + 1.625e-1\n"
                                                 "    loss = mean(0.5 * x)\n");
    dlc_options o = fixture_options(2, 0);
    dlc_status s;
    o.settings = settings;
    float got[2][2][3];
    char cache[300];
    for (int i = 0; i < 2; i++) { /* compiled in each locale, in a cache of its own */
        if (i) setlocale(LC_ALL, "C");
        snprintf(cache, sizeof cache, "%s/cache%d", fixture_dir, i);
        setenv("DLR_CACHE_DIR", cache, 1);
        dlc_model *m = fixture_open(path, &o);
        CHECK(dlc_predict(m, 2, (const void *[]){x}, (void *[]){got[i]}, &s), "%s", s.message);
        dlc_close(m);
    }
    CHECK(memcmp(got[0], got[1], sizeof got[0]) == 0, "%g %g", (double)got[0][0][0],
          (double)got[1][0][0]);
}

int main(void) {
    CHECK(fixture_begin(), "a folder");
    dlc_options o = fixture_options(4, 1);
    fixture_file("wrong.dl", "model A():\n    output 1 +\n");
    dlc_model *m = fixture_open(fixture_file("linear.dl", LINEAR), &o);
    if (m && use(m)) test_allocations(m);
    dlc_close(m);
    test_process();
    test_locale();
    return fixture_end();
}

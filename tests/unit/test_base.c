/* Memory, arenas, buffers, names, heaps, hashes. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/arena.h"
#include "ir/base/dirs.h"
#include "ir/base/hash.h"
#include "ir/base/heap.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "tests/check.h"

static void test_arena(void) {
    dl_arena *a = dl_arena_new(NULL), *child = dl_arena_new(a);
    char *big = dl_alloc(a, 1 << 20), *small = dl_alloc(child, 3);
    CHECK(big[0] == 0 && big[(1 << 20) - 1] == 0 && small[0] == 0);
    CHECK(((uintptr_t)dl_alloc(a, 1) & 15) == 0);
    DL_ARRAY(int) xs = {0};
    for (int i = 0; i < 1000; i++) dl_push(a, &xs, i);
    CHECK(xs.n == 1000 && xs.at[999] == 999 && xs.at[0] == 0);
    CHECK_STR(dl_format(a, "%d-%s", 7, "x"), "7-x");
    /* A child that moves outlives its first parent; a sanitizer sees what else would. */
    dl_arena *other = dl_arena_new(NULL), *sibling = dl_arena_new(a);
    strcpy(small, "ab");
    dl_arena_move(child, other);
    dl_arena_move(sibling, NULL);
    dl_arena_free(a);
    CHECK_STR(small, "ab");
    CHECK_STR(dl_strdup(child, "more"), "more");
    dl_arena_free(sibling);
    dl_arena_free(other);
}

static void test_numbers(void) {
    static const char *const none[] = {"",    " 1", "1 ", "x", "1x", "-", "9223372036854775808",
                                       "0x10"};
    int64_t n = 7;
    double x = 7;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK(!dl_parse_int(none[i], &n) && n == 7, "'%s'", none[i]);
    CHECK(!dl_parse_int("1.5", &n) && n == 7);
    CHECK(dl_parse_int("-12", &n) && n == -12);
    CHECK(dl_parse_int("9223372036854775807", &n) && n == INT64_MAX);
    for (int i = 0; i < 6; i++) CHECK(!dl_parse_real(none[i], &x) && x == 7, "'%s'", none[i]);
    CHECK(!dl_parse_real("1e400", &x) && x == 7);
    CHECK(dl_parse_real("-2.5e3", &x) && x == -2500);
}

static void test_str(void) {
    CHECK(dl_intern("abc") == dl_intern_n("abcd", 3) && dl_intern("abc") != dl_intern("abd"));
    const char *names[] = {"short", "short_opt", "base", "num_epochs"};
    CHECK_STR(dl_nearest("shrt", names, 4), "short");
    CHECK(dl_nearest("zzzzzz", names, 4) == NULL);
    double values[] = {0.02, 1e-8, 1.0 / 3, 2e-4, -0.0, 65536, 1e300};
    for (int i = 0; i < 7; i++) {
        dl_buf b = {0};
        dl_put_double(&b, values[i]);
        CHECK(strtod(b.at, NULL) == values[i], "%s", b.at);
        dl_buf_free(&b);
    }
}

/* Names of any length: parameters' names become parts of others. */
static void test_long_names(void) {
    dl_arena *a = dl_arena_new(NULL);
    char *name = dl_alloc(a, 70001);
    memset(name, 'n', 70000);
    const char *longer = dl_internf("exp_avg.%s", name);
    CHECK(strlen(longer) == 70008 && longer == dl_intern(dl_format(a, "exp_avg.%s", name)));
    dl_arena_free(a);
}

static void test_heap(void) {
    dl_arena *a = dl_arena_new(NULL);
    dl_heap h = {0};
    for (int i = 0; i < 1000; i++) dl_heap_put(a, &h, i * 7919 % 101, i);
    int64_t key = -1;
    for (int i = 0, last = -1, item; i < 1000; i++, last = item) {
        item = dl_heap_take(&h);
        int64_t k = item * 7919 % 101;
        CHECK(k > key || (k == key && item > last), "%d after %d", item, last);
        key = k;
    }
    CHECK(h.n == 0);
    dl_arena_free(a);
}

/* ---- memory ---- */

static void leave(size_t bytes) {
    char text[400];
    bool says = strstr(dl_no_memory_text(text, sizeof text, bytes), "out of memory") &&
                strstr(text, "are free") && (!bytes || strstr(text, "bytes more"));
    _exit(says ? DL_RESOURCE : 1);
}

static void ask_arena(void) {
    for (dl_arena *a = dl_arena_new(NULL);;) dl_alloc(a, 1 << 20);
}
static void ask_buffer(void) {
    for (dl_buf b = {0};;) dl_putf(&b, "%01000d", 0);
}
static void ask_names(void) {
    for (int i = 0;; i++) dl_internf("%0100000d", i);
}
static void ask_too_much(void) { dl_alloc_array(dl_arena_new(NULL), SIZE_MAX / 8, 16); }
static void ask_table(void) { dl_calloc(SIZE_MAX / 8, 16); }
static void ask_negative(void) { dl_alloc(dl_arena_new(NULL), (size_t)-1); }

/* Whatever asks: one sentence, status 5. Under sanitizers, whose own allocator ends the program,
 * not with a limit. */
static void test_no_memory(void) {
    static void (*const limited[])(void) = {ask_arena, ask_buffer, ask_names};
    static void (*const absurd[])(void) = {ask_too_much, ask_negative, ask_table};
#if defined __SANITIZE_ADDRESS__
    int first = 3;
#else
    int first = 0;
#endif
    for (int i = first; i < 5 + !first;
         i++) { /* calloc's own check of a product is the sanitizer's, too */
        pid_t child = fork();
        if (child == 0) {
            struct rlimit limit = {64 << 20, 64 << 20};
            dl_on_no_memory(leave);
            if (i < 3) setrlimit(RLIMIT_AS, &limit);
            (i < 3 ? limited[i] : absurd[i - 3])();
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == DL_RESOURCE, "case %d: status %x", i,
              (unsigned)status);
    }
}

static void put(dl_arena *a, const char *root, const char *path, const char *text) {
    dl_error err = {0};
    const char *whole = dl_format(a, "%s/%s", root, path), *slash = strrchr(whole, '/');
    CHECK(dl_make_dirs(dl_strndup(a, whole, (size_t)(slash - whole)), 0755, &err), "%s",
          err.message);
    CHECK(dl_write_file(whole, text, strlen(text), &err), "%s", err.message);
}

/* Free memory is the least of what the machine, the group, the groups above it, and ulimit leave.
 */
static void test_available(void) {
    const int64_t mib = 1 << 20;
    dl_arena *a = dl_arena_new(NULL);
    char dir[] = "/tmp/dl_memory_XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    const char *proc = dl_format(a, "%s/proc", dir), *cg = dl_format(a, "%s/cgroup", dir);
    CHECK(dl_memory_available() > 0);
    CHECK(dl_memory_available_in(proc, cg) == -1, "nothing says anything");
    put(a, proc, "meminfo", "MemTotal:  9000000 kB\nMemAvailable:  1048576 kB\n");
    put(a, proc, "self/statm", "2560 1024 512 100 0 1280 0\n");
    CHECK(dl_memory_available_in(proc, cg) == 1024 * mib);

    put(a, proc, "self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/job/step\n");
    put(a, cg, "memory/job/step/memory.limit_in_bytes", "9223372036854771712\n");
    put(a, cg, "memory/job/step/memory.usage_in_bytes", "1048576\n");
    CHECK(dl_memory_available_in(proc, cg) == 1024 * mib, "a group without a limit");
    put(a, cg, "memory/job/memory.limit_in_bytes",
        "536870912\n"); /* 512 MiB, of which 300 used, 44 for files */
    put(a, cg, "memory/job/memory.usage_in_bytes", "314572800\n");
    put(a, cg, "memory/job/memory.stat", "cache 1\ntotal_inactive_file 46137344\n");
    CHECK(dl_memory_available_in(proc, cg) == 256 * mib, "the group above");

    put(a, proc, "self/cgroup", "0::/user/run\n");
    put(a, cg, "user/run/memory.max", "max\n");
    put(a, cg, "user/run/memory.current", "1000\n");
    CHECK(dl_memory_available_in(proc, cg) == 1024 * mib, "max is no limit");
    put(a, cg, "memory.max", "134217728\n");
    put(a, cg, "memory.current", "268435456\n");
    CHECK(dl_memory_available_in(proc, cg) == 0, "a group beyond its limit");
    put(a, cg, "memory.current", "67108864\n");
    CHECK(dl_memory_available_in(proc, cg) == 64 * mib);

    pid_t child = fork();
    if (child == 0) { /* 2560 pages are mapped, 1280 written to */
        int64_t page = sysconf(_SC_PAGESIZE);
        struct rlimit data = {(rlim_t)(1280 * page + 32 * mib), (rlim_t)(1280 * page + 32 * mib)};
        struct rlimit space = {(rlim_t)(2560 * page + 16 * mib), (rlim_t)(2560 * page + 16 * mib)};
        bool ok =
            setrlimit(RLIMIT_DATA, &data) == 0 && dl_memory_available_in(proc, cg) == 32 * mib;
        ok =
            ok && setrlimit(RLIMIT_AS, &space) == 0 && dl_memory_available_in(proc, cg) == 16 * mib;
        _exit(ok ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "ulimit: %x", (unsigned)status);
    dl_error err = {0};
    CHECK(dl_remove_tree(dir, &err), "%s", err.message);
    dl_arena_free(a);
}

#if defined __SANITIZE_ADDRESS__
static void test_huge_pages(void) { dl_test_skip("huge pages: the sanitizer has its own heap"); }
#else
/* Does the system know of the place that it is asked for in huge pages (proc(5), VmFlags hg)? */
static bool is_asked_huge(const void *at) {
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    bool here = false, huge = false;
    while (f && fgets(line, sizeof line, f)) {
        uintptr_t from, to;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            here = (uintptr_t)at >= from && (uintptr_t)at < to;
        if (here && strncmp(line, "VmFlags:", 8) == 0) huge = strstr(line, " hg") != NULL;
    }
    if (f) fclose(f);
    return huge;
}

/* Memory that is taken after it lies in huge pages, is kept when it is freed, and costs no memory
 * before.
 */
static void test_huge_pages(void) {
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0) {
        dl_test_skip("huge pages: the system has none");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        dl_heap_of_huge_pages(64 << 20);
        char *at = dl_malloc(8 << 20), *end = sbrk(0);
        struct rusage used;
        bool ok = is_asked_huge(at + (4 << 20)) && at < end && getrusage(RUSAGE_SELF, &used) == 0 &&
                  used.ru_maxrss < 48 << 10;
        free(at);
        _exit(ok && sbrk(0) == (void *)end ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "a heap of huge pages: %x", (unsigned)status);
}
#endif

int main(void) {
    test_arena();
    test_numbers();
    test_str();
    test_long_names();
    test_heap();
    test_no_memory();
    test_available();
    test_huge_pages();
    CHECK(dl_hash("abc", 3, 0) == dl_hash("abc", 3, 0) &&
          dl_hash("abc", 3, 0) != dl_hash("abc", 3, 1));
    return dl_test_end();
}

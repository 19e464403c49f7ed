/* The compiler that CC names, with its words, or an error; and what is left of one whose user was
 * killed. */
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/signals.h"
#include "compiler/cuda/emulate.h"
#include "compiler/jit/jit_cc.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/base/sandbox.h"
#include "ir/base/str.h"
#include "tests/cache.h"
#include "tests/check.h"

static dl_arena *arena;
static char top[64] = "/tmp/dlc_named_XXXXXX";
static dl_target target = {.name = "test", .flags = {"-DOURS"}};

static const char *in(const char *name) { return dl_format(arena, "%s/%s", top, name); }

/* A program that writes its arguments, a line each, and then is the system's compiler. */
static const char *make_compiler(const char *name, const char *body) {
    dl_error err = {0};
    const char *path = in(name);
    char *slash = strrchr(path, '/');
    mkdir(dl_strndup(arena, path, (size_t)(slash - path)), 0700);
    const char *text = dl_format(arena, "#!/bin/sh\n%s\n", body);
    CHECK(dl_write_file(path, text, strlen(text), &err) && chmod(path, 0755) == 0, "%s",
          err.message);
    return path;
}

static const char *read_text(const char *path) {
    dl_error ignored = {0};
    const char *text = dl_read_file(arena, path, 1 << 16, NULL, &ignored);
    return text ? text : "";
}

static void take_stops(void *of, dl_stop how) { (void)of, cli_signals(how); }
static int find_stop(void *of) { return (void)of, cli_signal_pending(); }
static const dl_console console = {.stoppable = take_stops, .stop_requested = find_stop};

static dl_plan_object last;
/* How many were compiled; -1: an error. */
static int compile(const char *cc, dl_error *err) {
    int compiled;
    cc ? setenv("CC", cc, 1) : unsetenv("CC");
    unlink(in("words"));
    last = (dl_plan_object){.source = "int answer(void) { return 42; }\n"};
    *err = (dl_error){0};
    return dl_jit_compile(arena, 1, &last, &target, &console, &compiled, err) ? compiled : -1;
}

/* A compiler that is not there is an error that names it, and says what to do; nothing is compiled
 * by another one. */
static void test_absent(void) {
    dl_error err;
    const char *const absent[] = {"/nonexistent/gcc",
                                  "clang-99",
                                  "/nonexistent/gcc -O3",
                                  "clang-99 -O3",
                                  "'gcc -O3'",
                                  "\"\"",
                                  "/tmp",
                                  "-O3"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        CHECK(compile(absent[i], &err) == -1 && err.code == DL_RESOURCE, "CC=%s is taken",
              absent[i]);
        CHECK(strstr(err.message, dl_format(arena, "CC=%s in", absent[i])) &&
                  strstr(err.message, "there is no program") && strstr(err.message, "or unset it"),
              "%s", err.message);
    }
    CHECK(compile("gcc 'open", &err) == -1 && strstr(err.message, "quote without an end"), "%s",
          err.message);
    const char *path = getenv("PATH"), *kept = dl_strdup(arena, path);
    setenv("PATH", "/nowhere", 1);
    CHECK(compile(NULL, &err) == -1 && strstr(err.message, "CC is not set") &&
              strstr(err.message, "install gcc"),
          "%s", err.message);
    setenv("PATH", kept, 1);
    dl_plan_object kernel = {.source = "extern \"C\" __global__ void k(float *x) {}\n"};
    int compiled;
    setenv("CXX", "/nonexistent/g++", 1);
    err = (dl_error){0};
    CHECK(!dl_cuda_emulate(arena, 1, &kernel, NULL, &compiled, &err) &&
              strstr(err.message, "CXX=/nonexistent/g++ in"),
          "%s", err.message);
    unsetenv("CXX");
    setenv("DLR_EMULATE", "adress", 1);
    err = (dl_error){0};
    CHECK(!dl_cuda_emulate(arena, 1, &kernel, NULL, &compiled, &err) && err.code == DL_USAGE &&
              strstr(err.message, "DLR_EMULATE=adress"),
          "%s", err.message);
    unsetenv("DLR_EMULATE");
}

static void test_unset(void) {
    dl_error err;
    CHECK(compile(NULL, &err) == 1, "%s", err.message);
    CHECK(compile("", &err) == 0 && compile(" ", &err) == 0, "%s: nothing is named", err.message);
}

static void check_words(const char *cc, const char *want) {
    dl_error err;
    CHECK(compile(cc, &err) == 1, "CC=%s: %s", cc, err.message);
    const char *words = read_text(in("words"));
    CHECK(strstr(words, want), "CC=%s: not '%s' in '%s'", cc, want, words);
    CHECK(compile(cc, &err) == 0, "CC=%s: not found in the cache again", cc);
}

/* Words are flags, which override ours and are part of the key; a launcher's words stand in front.
 */
static void test_words(void) {
    const char *cc = make_compiler(
        "cc1", dl_format(arena, "printf '%%s\\n' \"$@\" >%s; exec gcc \"$@\"", in("words")));
    check_words(cc, "-std=gnu17\n-Og\n");
    check_words(dl_format(arena, "%s -O3", cc), "\n-DOURS\n-O3\n-o\n");
    uint64_t key = last.key;
    check_words(dl_format(arena, "%s -O3 -DX", cc), "\n-DOURS\n-O3\n-DX\n-o\n");
    CHECK(last.key != key);
    check_words(dl_format(arena, " %s\t-O1  -DX='a b' -DY=\\\"c\\ d", cc),
                "\n-O1\n-DX=a b\n-DY=\"c d\n-o\n");
    check_words(dl_format(arena, "%s -DZ='' ''-DE", cc), "\n-DOURS\n-DZ=\n-DE\n-o\n");
    check_words(dl_format(arena, "nice -n 0 %s -O2", cc), "\n-DOURS\n-O2\n-o\n");
    key = last.key;
    make_compiler("cc1",
                  dl_format(arena, "printf '%%s\\n' \"$@\" >%s; : ; exec gcc \"$@\"", in("words")));
    check_words(dl_format(arena, "nice -n 0 %s -O2", cc), "-std=gnu17\n");
    CHECK(last.key != key, "another program, run by the same launcher");
    const char *blank =
        make_compiler("a folder/cc 2", dl_format(arena, "exec %s -DTOLD \"$@\"", cc));
    check_words(blank, "-DTOLD\n-std=gnu17\n");
    const char *kept = dl_strdup(arena, getenv("PATH"));
    setenv("PATH", dl_format(arena, "%s:%s", top, kept), 1);
    check_words("cc1 -DON_PATH", "\n-DON_PATH\n-o\n");
    setenv("PATH", kept, 1);
}

/* A compiler that hangs with a child of its own, and both hold the write end of a pipe. Returns the
 * process that waits for it; the read end is at its end when all three are gone. */
static pid_t hang(const char *cache, int *pipe_end) {
    int ends[2], ready[2];
    char byte;
    if (pipe(ends) || pipe(ready)) return 0;
    const char *cc =
        make_compiler("hangs", dl_format(arena, "sleep 1000 & echo >&%d; sleep 1000", ready[1]));
    pid_t child = fork();
    if (child == 0) {
        dl_error err;
        signal(SIGHUP, SIG_DFL); /* under nohup it is ignored, and that is kept; */
        signal(SIGINT, SIG_DFL); /* so is this one of what a shell runs in the background */
        setenv("DLR_CACHE_DIR", cache, 1);
        compile(cc, &err);
        _exit(9);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ends[1]), close(ready[0]), close(ready[1]);
    *pipe_end = ends[0];
    return child;
}

/* Whether all who hold the other end are gone; nothing is waited for but that. */
static bool all_gone(int pipe_end) {
    struct pollfd p = {.fd = pipe_end, .events = POLLIN};
    enum { FAR_TOO_LONG = 30000 };
    return poll(&p, 1, FAR_TOO_LONG) == 1 && (p.revents & POLLHUP);
}

/* A compiler that hangs ends with its user, whose signal is not lost. */
static void test_signalled(int number) {
    int hangs, status = 0;
    const char *dir = in("signalled");
    pid_t child = hang(dir, &hangs);
    CHECK(count_entries(dir, ".dlc-") == 1);
    CHECK(kill(child, number) == 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == number, "signal %d: status %x", number,
          status);
    CHECK(all_gone(hangs) && count_entries(dir, ".dlc-") == 0, "signal %d", number);
    close(hangs);
}

/* Compiles in a process of its own, which looks for the first time at what the dead have left. */
static int compile_elsewhere(const char *cache) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        dl_error err;
        setenv("DLR_CACHE_DIR", cache, 1);
        _exit(compile(NULL, &err));
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* SIGKILL ends the compiler and its child, too; the folder is swept by the next, which need not
 * compile anything, and not one that is in use. */
static void test_killed(void) {
    int killed, living;
    const char *dir = in("killed");
    CHECK(compile_elsewhere(dir) == 1);
    pid_t other = hang(dir, &living), child = hang(dir, &killed);
    CHECK(count_entries(dir, ".dlc-") == 2);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK(all_gone(killed), "the compiler outlives its user");
    CHECK(count_entries(dir, ".dlc-") == 2, "who was killed sweeps nothing");
    CHECK(compile_elsewhere(dir) == 0, "it is in the cache");
    CHECK(count_entries(dir, ".dlc-") == 1, "%d folders, and one process lives",
          count_entries(dir, ".dlc-"));
    CHECK(waitpid(other, NULL, WNOHANG) == 0, "it is still at work");
    CHECK(kill(other, SIGTERM) == 0 && waitpid(other, NULL, 0) == other);
    CHECK(all_gone(living) && count_entries(dir, ".dlc-") == 0);
    close(killed), close(living);
}

static bool spin(void *ctx, dl_sandbox_result *out, dl_error *err) {
    (void)out, (void)err;
    sem_post(ctx);
    for (volatile bool forever = true; forever;) {
    }
    return true;
}

/* A reader that is in the middle of a file ends with its parent, not with its time. */
static void test_reader(void) {
    enum { SECONDS = 20 };
    sem_t *reads =
        mmap(NULL, sizeof *reads, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(reads != MAP_FAILED && sem_init(reads, 1, 0) == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); /* a child's child becomes ours */
    pid_t child = fork();
    if (child == 0) {
        dl_sandbox_result out;
        dl_error err = {0};
        dl_sandbox_run("a file", SECONDS, spin, reads, &out, &err);
        _exit(9);
    }
    int status = -1;
    while (sem_wait(reads) != 0) {
    }
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    pid_t reader = waitpid(-1, &status, 0);
    CHECK(reader > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %x: it read on",
          status);
    munmap(reads, sizeof *reads);
}

int main(void) {
    if (!mkdtemp(top)) return 1;
    umask(022);
    arena = dl_arena_new(NULL);
    setenv("DLR_CACHE_DIR", in("cache"), 1);
    test_absent();
    test_unset();
    test_words();
    test_signalled(SIGTERM);
    test_signalled(SIGINT);
    test_signalled(SIGHUP);
    test_killed();
    test_reader();
    CHECK(system(dl_format(arena, "rm -rf '%s'", top)) == 0);
    dl_arena_free(arena);
    return dl_test_end();
}

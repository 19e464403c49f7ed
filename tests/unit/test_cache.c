/* The cache of compiled kernels under attack (it holds code that runs as us), and compilers that
 * lie and fail. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/jit/cache.h"
#include "compiler/jit/jit_cc.h"
#include "compiler/jit/process.h"
#include "ir/base/input.h"
#include "ir/base/object.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "tests/cache.h"
#include "tests/check.h"

static dl_arena *arena;
static char top[64] = "/tmp/dlc_cache_XXXXXX";
static dl_target target = {.name = "test", .flags = {NULL}};
static const char source[] = "int answer(void) { return 42; }\n";

static const char *in(const char *name) { return dl_format(arena, "%s/%s", top, name); }

static void shell(const char *command) {
    if (system(dl_format(arena, "cd '%s' && %s", top, command)) != 0) CHECK(false, "%s", command);
}

static dl_code use(const char *dir) {
    dl_error err = {0};
    setenv("DLR_CACHE_DIR", dir, 1);
    const char *got = dl_cache_dir(arena, &err);
    CHECK(!got == (err.code != DL_OK), "%s", err.message);
    return err.code;
}

/* 1 to 7: directories. Each is fine before it is attacked. */
static void test_directories(void) {
    shell("mkdir -m 700 a a/b && mkdir -m 1777 sticky && mkdir -m 777 open && mkdir -m 700 open/c "
          "&& ln -s "
          "a/b link && "
          "ln -s open/c through && ln -s a yard && touch file && ln -s loop loop && mkdir -m 700 p "
          "&& mkdir "
          "-m 700 p/q");
    CHECK(use(in("a/b")) == DL_OK && use(in("a/b/")) == DL_OK && use(in("a/./b//../b")) == DL_OK);
    CHECK(use(in("a/new/deep")) == DL_OK && use(in("sticky/mine")) == DL_OK &&
          use(in("yard/b")) == DL_OK);
    struct stat st;
    CHECK(stat(in("a/new"), &st) == 0 && (st.st_mode & 077) == 0, "what is made is ours alone");
    shell("chmod 707 a/b");
    CHECK(use(in("a/b")) == DL_TRUST, "others may write it");
    shell("chmod 770 a/b");
    CHECK(use(in("a/b")) == DL_TRUST, "the group may write it");
    shell("chmod 700 a/b");
    CHECK(use(in("a/b")) == DL_OK);
    CHECK(use(in("link")) == DL_TRUST && use(in("link/")) == DL_TRUST &&
              use(in("link//")) == DL_TRUST,
          "a link");
    CHECK(use(in("open/c")) == DL_TRUST && use(in("open/new")) == DL_TRUST,
          "others may write its parent");
    CHECK(access(in("open/new"), F_OK) != 0, "nothing is made where others write");
    CHECK(use(in("through/d")) == DL_TRUST, "a link leads through what others may write");
    CHECK(use(in("file")) == DL_TRUST && use(in("loop/x")) == DL_IO);
    if (geteuid() == 0) {
        CHECK(use(in("p/q")) == DL_OK && chown(in("p"), 65534, 65534) == 0);
        CHECK(use(in("p/q")) == DL_TRUST, "a parent of another's");
        CHECK(chown(in("p"), 0, 0) == 0 && chown(in("p/q"), 65534, 65534) == 0);
        CHECK(use(in("p/q")) == DL_TRUST, "another's");
    } else
        CHECK(use("/usr") == DL_TRUST, "another's");
}

static bool has(const char *dir, uint64_t key) {
    size_t n;
    return dl_cache_get(arena, dir, key, &n) != NULL;
}

/* 8 to 12: entries. */
static void test_entries(void) {
    dl_error err = {0};
    const char *dir = in("entries"), *entry = in("entries/0000000000000007.so");
    CHECK(use(dir) == DL_OK && dl_cache_put(dir, 7, "abcdefgh", 8, &err) && has(dir, 7), "%s",
          err.message);
    CHECK(chmod(entry, 0666) == 0 && !has(dir, 7) && !dl_cache_owns(entry), "others may write it");
    CHECK(chmod(entry, 0600) == 0 && has(dir, 7) && dl_cache_owns(entry));
    shell("mv entries/0000000000000007.so real && ln -s ../real entries/0000000000000007.so");
    CHECK(!has(dir, 7) && !dl_cache_owns(entry), "a link");
    shell("mv real entries/0000000000000007.so && cp entries/0000000000000007.so "
          "entries/0000000000000008.so");
    CHECK(has(dir, 7) && !has(dir, 8), "another key's");
    if (geteuid() == 0) {
        CHECK(chown(entry, 65534, 65534) == 0 && !has(dir, 7) && !dl_cache_owns(entry),
              "another's");
        CHECK(chown(entry, 0, 0) == 0 && has(dir, 7));
    }
    dl_error read = {0};
    size_t n = 0;
    char *bytes = dl_read_file(arena, entry, 1 << 16, &n, &read);
    int kept = 0;
    for (size_t i = 0; bytes && i < 8 * n; i++) {
        bytes[i / 8] ^= (char)(1 << i % 8);
        CHECK(dl_write_file(entry, bytes, n, &read) && chmod(entry, 0600) == 0);
        kept += has(dir, 7);
        bytes[i / 8] ^= (char)(1 << i % 8);
    }
    CHECK(n == 40 && kept == 0, "%d of %zu flipped bits are not seen", kept, 8 * n);
    for (size_t cut = 0; bytes && cut < n; cut++) {
        CHECK(dl_write_file(entry, bytes, cut, &read) && chmod(entry, 0600) == 0);
        kept += has(dir, 7);
    }
    shell("mkfifo entries/0000000000000009.so");
    CHECK(kept == 0 && !dl_cache_owns(in("entries/0000000000000009.so")));
}

static const char *warned, *lets_go; /* a FIFO, or NULL */
static int warnings;
static void take_warning(void *to, const char *text) {
    (void)to;
    warned = dl_strdup(arena, text), warnings++;
    int fd = lets_go ? open(lets_go, O_WRONLY) : -1;
    if (fd >= 0) CHECK(write(fd, "\n", 1) == 1 && close(fd) == 0);
}
static const dl_console listener = {.warning = take_warning};

static bool compile(const char *cc, dl_plan_object *o, int *compiled, dl_error *err) {
    setenv("CC", cc, 1);
    *o = (dl_plan_object){.source = source};
    *err = (dl_error){0};
    return dl_jit_compile(arena, 1, o, &target, &listener, compiled, err);
}

static const char *make_compiler(const char *name, const char *body) {
    dl_error err = {0};
    const char *path = in(name),
               *text = dl_format(
                   arena, "#!/bin/sh\nfor o; do [ \"$p\" = -o ] && out=$o; p=$o; done\n%s\n", body);
    CHECK(dl_write_file(path, text, strlen(text), &err) && chmod(path, 0755) == 0);
    return path;
}

/* Compilers that lie and fail are named with what they printed, and leave nothing. */
static void test_compilers(void) {
    static const struct {
        const char *name, *body, *says[2];
    } bad[] = {{"garbage", "echo odd; echo garbage >\"$out\"", {"does not load", "odd"}},
               {"empty", ": >\"$out\"", {"does not load", "printed nothing"}},
               {"nothing", "exit 0", {"made no object", "printed nothing"}},
               {"silent", "exit 3", {"exit status 3", "printed nothing"}},
               {"loud",
                "printf 'one\\n\\033[31mtwo\\n' >&2; exit 1",
                {"one | \\x1B[31mtwo", "exit status 1"}},
               {"killed", "kill -9 $$", {"Killed", "printed nothing"}},
               {"linked", "ln -s /etc/passwd \"$out\"", {"made no object", "printed nothing"}}};
    const char *dir = in("compilers");
    CHECK(use(dir) == DL_OK);
    dl_plan_object o;
    dl_error err;
    int compiled;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *cc = make_compiler(bad[i].name, bad[i].body);
        CHECK(!compile(cc, &o, &compiled, &err) && err.code == DL_RESOURCE, "%s is believed",
              bad[i].name);
        CHECK(strstr(err.message, cc) && strstr(err.message, bad[i].says[0]) &&
                  strstr(err.message, bad[i].says[1]),
              "%s", err.message);
        CHECK(count_entries(dir, ".so") == 0 && count_entries(dir, ".dlc-") == 0,
              "%s leaves something", bad[i].name);
    }
}

/* The key counts the compiler; an entry that does not load is compiled anew; a prepared work folder
 * is not read. */
static void test_key(void) {
    const char *dir = in("keys"),
               *real = access("/usr/bin/gcc", X_OK) == 0 ? "/usr/bin/gcc" : "/usr/bin/cc";
    const char *one = make_compiler("cc1", dl_format(arena, "exec %s \"$@\"", real));
    CHECK(use(dir) == DL_OK);
    shell("mkdir -p keys/work-AAAAAA && echo evil >keys/work-AAAAAA/0.so");
    dl_plan_object o;
    dl_error err;
    int compiled;
    CHECK(compile(one, &o, &compiled, &err) && compiled == 1, "%s", err.message);
    CHECK(compile(one, &o, &compiled, &err) && compiled == 0);
    shell("ln -s cc1 cc2");
    CHECK(compile(in("cc2"), &o, &compiled, &err) && compiled == 1, "another path to it");
    CHECK(compile(one, &o, &compiled, &err) && compiled == 0);
    setenv("CPATH", "/nowhere", 1);
    CHECK(compile(one, &o, &compiled, &err) && compiled == 1, "another environment");
    unsetenv("CPATH");
    shell("touch -d '2001-02-03' cc1");
    CHECK(compile(one, &o, &compiled, &err) && compiled == 1, "another time");
    target.flags[0] = "-DX";
    CHECK(compile(one, &o, &compiled, &err) && compiled == 1, "another flag");
    target.flags[0] = NULL;
    CHECK(compile(one, &o, &compiled, &err) && compiled == 0);
    uint64_t key = o.key;
    CHECK(dl_cache_put(dir, key, "garbage", 7, &err));
    warnings = 0;
    CHECK(compile(one, &o, &compiled, &err) && compiled == 1 && o.key == key, "%s", err.message);
    CHECK(warnings == 1 && strstr(warned, "compiled anew"), "%s", warned);
    dl_object object;
    bool ok = dl_object_load(&object, o.image, o.bytes, &err);
    CHECK(ok && dl_object_find(&object, "answer") && !dl_object_find(&object, "question"));
    if (ok) dl_object_unload(&object);
    CHECK(compile(one, &o, &compiled, &err) && compiled == 0);
    CHECK(access(in("keys/work-AAAAAA/0.so"), F_OK) == 0 && count_entries(dir, "work-") == 1);
}

/* The number that `answer` of an object returns. 0: there is none. */
static int answer_of(const dl_plan_object *o) {
    dl_error err = {0};
    dl_object object;
    if (!dl_object_load(&object, o->image, o->bytes, &err)) return 0;
    int (*answer)(void), got = 0;
    void *address = dl_object_find(&object, "answer");
    memcpy(&answer, &address, sizeof address);
    if (address) got = answer();
    dl_object_unload(&object);
    return got;
}

/* A library is compiled once for all sources, and is a part of their objects' keys; one in the
 * cache that is none is compiled anew. */
static void test_libraries(void) {
    static const char *const call = "int library(void); int answer(void) { return library(); }",
                             *const again =
                                 "int library(void); int answer(void) { return library() + 1; }",
                             *const seven = "int library(void) { return 7; }",
                             *const eight = "int library(void) { return 8; }";
    const struct {
        const char *source, *library;
        int compiled, answer, runs;       /* of the compiler */
    } steps[] = {{call, seven, 1, 7, 2},  /* the library, and the source */
                 {call, seven, 0, 7, 0},  /* both are in the cache */
                 {again, seven, 1, 8, 1}, /* the source alone */
                 {call, eight, 1, 8, 2}}; /* another library */
    const char *dir = in("libraries"), *runs = in("library_runs");
    setenv("CC",
           make_compiler("count", dl_format(arena, "echo >>%s; exec /usr/bin/cc \"$@\"", runs)), 1);
    CHECK(use(dir) == DL_OK);
    dl_error err = {0};
    int compiled, before = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        dl_plan_object o = {
            .source = steps[i].source, .nlibraries = 1, .libraries = {steps[i].library}};
        CHECK(dl_jit_compile(arena, 1, &o, &target, &listener, &compiled, &err), "%s", err.message);
        CHECK(compiled == steps[i].compiled && answer_of(&o) == steps[i].answer, "step %zu: %d, %d",
              i, compiled, answer_of(&o));
        size_t n = 0;
        dl_error none = {0};
        dl_read_file(arena, runs, 1 << 16, &n, &none);
        CHECK((int)n - before == steps[i].runs, "step %zu: %d runs", i, (int)n - before);
        before = (int)n;
    }
    /* every entry is damaged, the library's, too */
    shell("for f in libraries/*.so; do printf x >>$f; done");
    dl_plan_object o = {.source = again, .nlibraries = 1, .libraries = {eight}};
    CHECK(dl_jit_compile(arena, 1, &o, &target, &listener, &compiled, &err), "%s", err.message);
    CHECK(compiled == 1 && answer_of(&o) == 9, "%d, %d", compiled, answer_of(&o));
}

/* Functions of texts by number: each returns its number, and has its name by its text. */
static dl_plan_text text_of(int number, const char *name) {
    const char *symbol = dl_format(arena, "text%d", number);
    return (dl_plan_text){
        .name = name,
        .phases = 1,
        .symbol = symbol,
        .text = dl_format(arena, "int %s_0(void) { return base() + %d; }\n", symbol, number)};
}

static int call_of(const dl_plan_object *o, const char *name) {
    dl_error err = {0};
    dl_object object;
    int (*function)(void), got = -1;
    if (!dl_object_load(&object, o->image, o->bytes, &err)) return got;
    void *address = dl_object_find(&object, name);
    memcpy(&function, &address, sizeof address);
    if (address) got = function();
    CHECK(!dl_object_find(&object, "text1_0"), "a name of the cache's own");
    dl_object_unload(&object);
    return got;
}

/* Kernels are kept by their texts: of an object those alone are compiled that no object before it
 * had, whatever their names and their neighbours; and what the cache has lost. */
static void test_texts(void) {
    static const struct {
        int numbers[3], runs;        /* the object's texts; runs of the compiler */
        const char *opening, *first; /* a command before it */
    } steps[] = {
        {{1, 2}, 2, "", ""},          /* a source, and a link */
        {{2, 1}, 1, "", ""},          /* a link alone: they have other names */
        {{3, 2}, 2, "", ""},          /* 3 is new */
        {{1, 3}, 1, "", ""},          /* of two sources */
        {{3, 3, 1}, 1, "", ""},       /* twins */
        {{4, 4}, 2, "", ""},          /* new twins: one function */
        {{1, 3}, 2, "int more;", ""}, /* another opening */
        {{2, 4}, 1, "", ""},
        {{4, 1}, 2, "", "for f in texts/*.so; do printf x >>$f; done"}, /* damaged: all of it */
        {{1, 2}, 2, "", "find texts -size +2 -name '*.so' -delete"},    /* the index is left */
        {{6, 7}, 2, "", ""},
        {{6, 8},
         2,
         "",
         "mkdir aside; find texts -name '*.so' -size +1 -size -16 -exec mv {} aside ';'"},
        {{7, 6}, 1, "", "mv aside/* texts"}, /* 6 is in the file of 7, too */
    };
    const char *dir = in("texts"), *runs = in("text_runs");
    setenv("CC",
           make_compiler("counts", dl_format(arena, "echo >>%s; exec /usr/bin/cc \"$@\"", runs)),
           1);
    CHECK(use(dir) == DL_OK);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        static const char *const names[] = {"first", "second", "third"};
        const char *opening =
            dl_format(arena, "static int base(void) { return 10; }\n%s\n", steps[i].opening);
        dl_plan_object o = {.opening = opening};
        dl_buf whole = {0};
        dl_puts(&whole, opening);
        shell(*steps[i].first ? steps[i].first : ":");
        for (int k = 0; k < 3 && steps[i].numbers[k]; k++) {
            dl_push(arena, &o.texts, text_of(steps[i].numbers[k], names[k]));
            dl_putf(&whole, "%s is %d\n", names[k], steps[i].numbers[k]);
        }
        o.source = dl_strdup(arena, whole.at);
        dl_buf_free(&whole);
        dl_error err = {0};
        int compiled;
        size_t n = 0;
        dl_error none = {0};
        unlink(runs);
        CHECK(dl_jit_compile(arena, 1, &o, &target, &listener, &compiled, &err), "step %zu: %s", i,
              err.message);
        dl_read_file(arena, runs, 1 << 16, &n, &none);
        CHECK((int)n == steps[i].runs, "step %zu: %zu runs", i, n);
        for (int k = 0; k < o.texts.n; k++)
            CHECK(call_of(&o, dl_format(arena, "%s_0", names[k])) == 10 + steps[i].numbers[k],
                  "step %zu: %s", i, names[k]);
    }
}

/* A parent that ignores SIGCHLD. */
static void test_ignored_child(void) {
    dl_plan_object o;
    dl_error err;
    int compiled;
    signal(SIGCHLD, SIG_IGN);
    CHECK(use(in("ignored")) == DL_OK &&
          compile(make_compiler("no", "exit 7"), &o, &compiled, &err) == false);
    CHECK(strstr(err.message, "exit status 7"), "%s", err.message);
    struct sigaction now;
    CHECK(sigaction(SIGCHLD, NULL, &now) == 0 && now.sa_handler == SIG_IGN,
          "what was set is set again");
    signal(SIGCHLD, SIG_DFL);
}

static volatile sig_atomic_t heard;
static void hear(int number) { heard = number; }
static int find_heard(void *of) { return (void)of, heard; }

/* A request to stop kills the compiler, and is returned; one warning that it takes long. */
static void test_patience(void) {
    dl_error err = {0};
    const char *tmp = in("patience");
    shell("mkdir patience && mkfifo patience/go");
    lets_go = in("patience/go"); /* it ends once we are told that it takes long, and not before */
    char *const argv[] = {"/bin/sh", "-c", dl_format(arena, "echo $TMPDIR; read line <%s", lets_go),
                          NULL};
    dl_command c = {.argv = argv, .log = in("patience/log")};
    warnings = 0;
    CHECK(dl_run_all(1, &c, tmp, 0.1, &listener, &err) == 0 && c.status == 0);
    CHECK(warnings == 1 && strstr(warned, "the C compiler has run for 0 s (/bin/sh)"), "%d: %s",
          warnings, warned);
    char *log = dl_read_file(arena, c.log, 1000, NULL, &err);
    CHECK(log && !strcmp(log, dl_format(arena, "%s\n", tmp)), "temporary files lie in the folder");
    lets_go = NULL;
    signal(SIGUSR1, hear);
    const dl_console asked = {.warning = take_warning, .stop_requested = find_heard};
    char *const kills[] = {"/bin/sh", "-c", "kill -USR1 $PPID; sleep 1000", NULL};
    c = (dl_command){.argv = kills, .log = c.log};
    CHECK(dl_run_all(1, &c, tmp, 1000, &asked, &err) == SIGUSR1 && warnings == 1);
    CHECK(c.status != -1 && WIFSIGNALED(c.status) && WTERMSIG(c.status) == SIGKILL);
    char *const missing[] = {"/no/compiler", NULL};
    c = (dl_command){.argv = missing, .log = c.log};
    CHECK(dl_run_all(1, &c, tmp, 1000, &listener, &err) == -1 && err.code == DL_RESOURCE, "%s",
          err.message);
}

int main(void) {
    if (!mkdtemp(top)) return 1;
    umask(022);
    arena = dl_arena_new(NULL);
    test_directories();
    test_entries();
    test_compilers();
    test_key();
    test_libraries();
    test_texts();
    test_ignored_child();
    test_patience();
    shell("rm -rf ../$(basename $PWD)");
    dl_arena_free(arena);
    return dl_test_end();
}

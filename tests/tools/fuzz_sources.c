/* Does the compiler of C, or of C++ where a device is emulated, take the text of kernels? It is
 * parsed and no code is made of it: a tenth of the time. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/jit/jit_cc.h"
#include "compiler/jit/process.h"
#include "compiler/target/backend.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "tests/tools/fuzz.h"

enum { AT_ONCE = 2 };

static const char *const plus_flags[] = {"-std=gnu++17", "-w", NULL};
static const dl_jit_language plus = {.name = "C++",
                                     .variable = "CXX",
                                     .names = {"c++", "g++", "clang++"},
                                     .package = "g++",
                                     .suffix = "cc",
                                     .include_path = "CPLUS_INCLUDE_PATH",
                                     .flags = plus_flags};

/* Where source i, and what the compiler says of it, lie in the folder. */
static const char *file_of(dl_arena *arena, const char *dir, int i, const char *suffix) {
    return dl_format(arena, "%s/%d.%s", dir, i, suffix);
}

static bool write_source(dl_arena *arena, const char *file, const char *source, bool device,
                         dl_error *err) {
    /* it stands in a namespace, which what lists the kernels would close */
    const char *whole = device ? dl_format(arena, "%s} /* namespace */\n", source) : source;
    return dl_write_file(file, whole, strlen(whole), err);
}

static dl_command parse_command(dl_arena *arena, const char *cc, const dl_jit_language *in,
                                const dl_target *t, const char *file, const char *log) {
    const char **argv = DL_NEWS(arena, const char *, 40);
    int n = 0;
    argv[n++] = cc, argv[n++] = "-fsyntax-only";
    for (int i = 0; in->flags[i]; i++) argv[n++] = in->flags[i];
    for (int i = 0; t->flags[i]; i++) argv[n++] = t->flags[i];
    argv[n] = file;
    return (dl_command){.argv = (char *const *)(uintptr_t)argv, .log = log};
}

bool fuzz_check_sources(dl_arena *arena, const dl_plan *p, const dl_target *t, dl_error *err) {
    bool device = t->backend != &dl_backend_cpu;
    const dl_jit_language *in = device ? &plus : &dl_jit_c;
    int n = p->objects.n;
    dl_jit_cc cc;
    char dir[] = "/tmp/dl_syntax_XXXXXX";
    if (!dl_jit_find(arena, in, t, &cc, err)) return false;
    if (!mkdtemp(dir)) return dl_fail_errno(err, DL_IO, "cannot write in /tmp");
    dl_command *commands = DL_NEWS(arena, dl_command, n + 1);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        const char *file = file_of(arena, dir, i, in->suffix);
        commands[i] = parse_command(arena, cc.path, in, t, file, file_of(arena, dir, i, "log"));
        ok = write_source(arena, file, p->objects.at[i].source, device, err);
    }
    for (int i = 0; i < n && ok; i += AT_ONCE)
        ok = dl_run_all(n - i < AT_ONCE ? n - i : AT_ONCE, commands + i, dir, INFINITY, NULL,
                        err) == 0;
    for (int i = 0; i < n && ok; i++) {
        if (!commands[i].status) continue;
        dl_error ignored = {0};
        const char *log = dl_read_file(arena, commands[i].log, 1 << 20, NULL, &ignored);
        ok = dl_fail(err, DL_RESOURCE, "the %s compiler refuses a kernel of %s: %.300s", in->name,
                     t->name, log ? log : "");
    }
    for (int i = 0; i < n; i++) {
        unlink(file_of(arena, dir, i, in->suffix));
        unlink(file_of(arena, dir, i, "log"));
    }
    rmdir(dir);
    return ok;
}

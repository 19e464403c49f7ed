/* Does the compiler of C, or of C++ where a device is emulated, take the text of kernels? It is
 * parsed and no code is made of it: a tenth of the time. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/jit/jit_cc.h"
#include "compiler/jit/process.h"
#include "compiler/target/backend.h"
#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "tests/tools/fuzz.h"

static const char *const plus_flags[] = {"-std=gnu++17", "-w", NULL};
static const dl_jit_language plus = {.name = "C++",
                                     .variable = "CXX",
                                     .names = {"c++", "g++", "clang++"},
                                     .package = "g++",
                                     .suffix = "cc",
                                     .include_path = "CPLUS_INCLUDE_PATH",
                                     .flags = plus_flags};

/* How much of their beginnings the sources of a device have in common: all in front of the unnamed
 * namespace. Beyond it are overloads, which a namespace around half of them would hide. */
static size_t common_head(const dl_plan *p) {
    static const char opens[] = "\nnamespace {\n";
    const char *first = p->objects.at[0].source, *end = strstr(first, opens);
    size_t n = end ? (size_t)(end - first) + strlen(opens) : 0;
    for (int i = 1; i < p->objects.n; i++)
        if (strncmp(first, p->objects.at[i].source, n)) return 0; /* which no compiler takes */
    return n;
}

/* All sources of a device as one: what each begins with, half of its text, once, and the rest of
 * each in a namespace of its own. They stand in a namespace, which what lists the kernels would
 * close. */
static void join_sources(dl_buf *text, const dl_plan *p) {
    const size_t head = common_head(p);
    dl_putn(text, p->objects.at[0].source, head);
    for (int i = 0; i < p->objects.n; i++)
        dl_putf(text, "namespace source%d {\n%s} /* namespace */\n", i,
                p->objects.at[i].source + head);
    dl_puts(text, "} /* namespace */\n");
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

/* Files to parse in `dir`: each source, or one of all those of a device. */
static int write_files(dl_arena *arena, const char *dir, const dl_plan *p, const char *suffix,
                       bool device, const char **files, dl_error *err) {
    int n = device && p->objects.n ? 1 : p->objects.n;
    dl_buf joined = {0};
    if (device && n) join_sources(&joined, p);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        const char *text = device ? joined.at : p->objects.at[i].source;
        files[i] = dl_format(arena, "%s/%d.%s", dir, i, suffix);
        ok = dl_write_file(files[i], text, strlen(text), err);
    }
    dl_buf_free(&joined);
    return ok ? n : -1;
}

bool fuzz_check_sources(dl_arena *arena, const dl_plan *p, const dl_target *t, dl_error *err) {
    bool device = t->backend != &dl_backend_cpu;
    const dl_jit_language *in = device ? &plus : &dl_jit_c;
    dl_jit_cc cc;
    char dir[] = "/tmp/dl_syntax_XXXXXX";
    if (!dl_jit_find(arena, in, t, &cc, err)) return false;
    if (!mkdtemp(dir)) return dl_fail_errno(err, DL_IO, "cannot write in /tmp");
    const char **files = DL_NEWS(arena, const char *, p->objects.n + 1);
    dl_command *commands = DL_NEWS(arena, dl_command, p->objects.n + 1);
    int n = write_files(arena, dir, p, in->suffix, device, files, err);
    for (int i = 0; i < n; i++)
        commands[i] =
            parse_command(arena, cc.path, in, t, files[i], dl_format(arena, "%s.log", files[i]));
    bool ok = n == 0 || (n > 0 && dl_run_all(n, commands, dir, INFINITY, NULL, err) == 0);
    for (int i = 0; i < n && ok; i++) {
        if (!commands[i].status) continue;
        dl_error ignored = {0};
        const char *log = dl_read_file(arena, commands[i].log, 1 << 20, NULL, &ignored);
        ok = dl_fail(err, DL_RESOURCE, "the %s compiler refuses a kernel of %s: %.300s", in->name,
                     t->name, log ? log : "");
    }
    dl_error ignored = {0};
    return dl_remove_tree(dir, &ignored), ok;
}

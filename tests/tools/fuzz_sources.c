/* Does the C compiler take the text of kernels? It is parsed and no code is made of it: a tenth of the time.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/jit_cc.h"
#include "compiler/process.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "tests/tools/fuzz.h"

bool fuzz_check_sources(dl_arena *arena, const dl_plan *p, const dl_target *t, dl_error *err) {
    dl_jit_cc cc;
    char dir[] = "/tmp/dl_syntax_XXXXXX";
    if (!dl_jit_find(arena, &dl_jit_c, t, &cc, err)) return false;
    if (!mkdtemp(dir)) return dl_fail_errno(err, DL_IO, "cannot write in /tmp");
    dl_command *commands = DL_NEWS(arena, dl_command, p->objects.n + 1);
    bool ok = true;
    for (int i = 0; i < p->objects.n && ok; i++) {
        const char *source = p->objects.at[i].source, *file = dl_format(arena, "%s/%d.c", dir, i);
        const char **argv = DL_NEWS(arena, const char *, 40);
        int n = 0;
        argv[n++] = cc.path, argv[n++] = "-fsyntax-only";
        for (int k = 0; dl_jit_c.flags[k]; k++) argv[n++] = dl_jit_c.flags[k];
        for (int k = 0; t->flags[k]; k++) argv[n++] = t->flags[k];
        argv[n] = file;
        commands[i] = (dl_command){.argv = (char *const *)(uintptr_t)argv,
                                   .log = dl_format(arena, "%s/%d.log", dir, i)};
        ok = dl_write_file(file, source, strlen(source), err);
    }
    ok = ok && dl_run_all(p->objects.n, commands, dir, INFINITY, NULL, err) == 0;
    for (int i = 0; i < p->objects.n && ok; i++) {
        if (!commands[i].status) continue;
        dl_error ignored = {0};
        const char *log = dl_read_file(arena, commands[i].log, 1 << 20, NULL, &ignored);
        ok = dl_fail(err, DL_RESOURCE, "the C compiler refuses a kernel of %s: %.300s", t->name,
                     log ? log : "");
    }
    for (int i = 0; i < p->objects.n; i++) {
        unlink(dl_format(arena, "%s/%d.c", dir, i));
        unlink(dl_format(arena, "%s/%d.log", dir, i));
    }
    rmdir(dir);
    return ok;
}

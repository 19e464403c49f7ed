/* Runs the system's compiler: sources become shared objects, or objects to be linked into those. */
#include "compiler/jit/jit_run.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "compiler/jit/process.h"
#include "ir/base/cpus.h"
#include "ir/base/input.h"
#include "ir/base/object.h"
#include "ir/base/output.h"

enum { PATIENCE = 60 }; /* seconds before the user is told which command takes so long */

typedef DL_ARRAY(const char *) words;

static void add_all(dl_arena *arena, words *argv, const char *const *more) {
    for (int i = 0; more[i]; i++) dl_push(arena, argv, more[i]);
}

static char *const *command_line(dl_arena *arena, const dl_jit_way *w, const dl_jit_job *j,
                                 const char *source) {
    words argv = {0};
    dl_push(arena, &argv, w->cc.path);
    add_all(arena, &argv, (const char *const *)w->cc.first);
    add_all(arena, &argv, w->in->flags);
    dl_push(arena, &argv, j->kind == DL_JIT_SHARED ? "-shared" : "-c");
    add_all(arena, &argv, w->target->flags);
    add_all(arena, &argv, (const char *const *)w->cc.last);
    add_all(arena, &argv, (const char *const[]){"-o", j->path, source, NULL});
    for (int i = 0; i < j->nlinked; i++) dl_push(arena, &argv, j->linked[i]);
    if (j->flags) add_all(arena, &argv, j->flags);
    if (j->kind == DL_JIT_SHARED) dl_push(arena, &argv, "-lm");
    dl_push(arena, &argv, NULL);
    return (char *const *)(uintptr_t)argv.at;
}

/* The compiler's output, joined into one line. */
static const char *printed(dl_arena *arena, const char *path) {
    dl_error ignored = {0};
    char *log = dl_read_file(arena, path, 1 << 20, NULL, &ignored);
    size_t n = log ? strlen(log) : 0;
    while (n && (log[n - 1] == '\n' || log[n - 1] == ' ')) log[--n] = 0;
    if (!n) return "and printed nothing";
    dl_buf b = {0};
    for (const char *p = log; *p && b.n < 600; p++)
        dl_putn(&b, *p == '\n' ? " | " : p, *p == '\n' ? 3 : 1);
    const char *text = dl_format(arena, "and printed: %s", b.at);
    dl_buf_free(&b);
    return text;
}

bool dl_jit_loads(const dl_jit_job *j, dl_error *why) {
    dl_object object;
    if (j->kind != DL_JIT_SHARED) {
        Elf64_Ehdr head;
        if (j->bytes < sizeof head) return dl_fail(why, DL_RESOURCE, "it is too short");
        memcpy(&head, j->image, sizeof head);
        return (!memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_type == ET_REL) ||
               dl_fail(why, DL_RESOURCE, "it is no object file");
    }
    if (!dl_object_load(&object, j->image, j->bytes, why)) return false;
    dl_object_unload(&object);
    return true;
}

/* Takes the object that a compiler wrote, if it succeeded. */
static bool take_object(dl_arena *arena, const dl_jit_way *w, dl_jit_job *j, const dl_command *of,
                        dl_error *err) {
    const char *cc = w->cc.path, *file = j->path;
    dl_error why = {0};
    struct stat st;
    if (of->status != -1 && WIFSIGNALED(of->status))
        return dl_fail(err, DL_RESOURCE, "%s was killed on a kernel (%s) %s", cc,
                       strsignal(WTERMSIG(of->status)), printed(arena, of->log));
    if (of->status != -1 && WEXITSTATUS(of->status))
        return dl_fail(err, DL_RESOURCE, "%s failed on a kernel (exit status %d) %s", cc,
                       WEXITSTATUS(of->status), printed(arena, of->log));
    if (lstat(file, &st) != 0 || !S_ISREG(st.st_mode))
        return dl_fail(
            err, DL_RESOURCE,
            "%s reported success but made no object of a kernel, %s; set %s to a %s compiler", cc,
            printed(arena, of->log), w->in->variable, w->in->name);
    j->image = (unsigned char *)dl_read_file(arena, file, 64 << 20, &j->bytes, err);
    if (!j->image) return false;
    return dl_jit_loads(j, &why) ||
           dl_fail(err, DL_RESOURCE,
                   "%s reported success but made an object that does not load, %s; set %s to a %s "
                   "compiler (%s)",
                   cc, printed(arena, of->log), w->in->variable, w->in->name, why.message);
}

static bool write_source(const dl_jit_language *in, const dl_jit_job *j, const char *file,
                         dl_error *err) {
    dl_buf text = {0};
    dl_puts(&text, j->source);
    if (in->end && j->kind == DL_JIT_SHARED) in->end(&text);
    bool ok = dl_write_file(file, text.at, text.n, err);
    dl_buf_free(&text);
    return ok;
}

int dl_jit_at_a_time(void) { return dl_cpus_allowed() > 1 ? dl_cpus_allowed() : 2; }

bool dl_jit_run(dl_arena *arena, const dl_jit_way *w, int n, dl_jit_job *jobs, const char *work,
                const dl_console *out, int *stopped, dl_error *err) {
    dl_command *commands = DL_NEWS(arena, dl_command, n + 1);
    for (int i = 0; i < n; i++) {
        static const char *const names[] = {"l", "p", "k"};
        const char *base = dl_format(arena, "%s/%s%d", work, names[jobs[i].kind], i),
                   *source = dl_format(arena, "%s.%s", base, w->in->suffix);
        jobs[i].path = dl_format(arena, "%s.o", base);
        if (!jobs[i].source)
            source = NULL;
        else if (!write_source(w->in, &jobs[i], source, err))
            return false;
        commands[i] = (dl_command){.argv = command_line(arena, w, &jobs[i], source),
                                   .log = dl_format(arena, "%s.log", base)};
    }
    const int most = dl_jit_at_a_time();
    int ended = 0;
    for (int i = 0; i < n && !ended; i += most)
        ended = dl_run_all(n - i < most ? n - i : most, commands + i, work, PATIENCE, out, err);
    if (ended > 0) *stopped = ended;
    bool ok = ended == 0;
    for (int i = 0; i < n && ok; i++) ok = take_object(arena, w, &jobs[i], &commands[i], err);
    return ok;
}

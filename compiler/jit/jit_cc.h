/* C and C++ sources -> shared objects, by the system's compiler; no shell, several processes at
 * once, cached on disk. */
#ifndef DL_JIT_CC_H
#define DL_JIT_CC_H
#include "compiler/target/target.h"
#include "ir/base/console.h"
#include "ir/base/str.h"
#include "ir/plan/plan.h"

/* What sources are written in: how a compiler of it is found, and what it is told. */
typedef struct {
    const char *name;          /* "C" */
    const char *variable;      /* of the environment, that names one and its flags: "CC" */
    const char *names[3];      /* on PATH, in this order; the first where the variable is not set */
    const char *package;       /* that brings one */
    const char *suffix;        /* of a file: "c" */
    const char *include_path;  /* the variable of the environment that compilers of it alone read */
    const char *const *flags;  /* for every target, NULL-terminated */
    void (*end)(dl_buf *text); /* puts what stands behind a source, or NULL */
} dl_jit_language;
extern const dl_jit_language dl_jit_c;

/* The compiler, and everything that an object depends on beside its source. */
typedef struct {
    const char *path;
    const char **first,
        **last;   /* what the variable has after it: what a launcher is to run (of "ccache gcc
                     -O3" gcc) comes first, flags after ours. NULL-terminated */
    uint64_t key; /* of its path, what that leads to, size and time; its words, flags, target,
                     version, the variables of the environment that compilers read */
} dl_jit_cc;
/* The compiler that in->variable names: nothing else takes its place. The value is a path, or words
 * as a shell splits them (blanks, quotes, backslashes), the first a path or a name on PATH. Where
 * it is not set: the first of in->names. Errors: DL_RESOURCE when there is none, or what is named
 * is not there. Runs nothing: tens of microseconds. */
bool dl_jit_find(dl_arena *arena, const dl_jit_language *in, const dl_target *t, dl_jit_cc *cc,
                 dl_error *err);

/* Compiles sources[i].source into sources[i].image (and sets key and bytes), each from the cache
 * when it is there; fills *compiled with how many were not. Every object is loaded once before it
 * is used or kept. `out` (or NULL) is told what the user should know: a compiler that takes more
 * than a minute, a cached object that does not load and is compiled anew. A signal that would end
 * us ends the compiler first, and its folder is removed. Errors: DL_RESOURCE when there is no
 * compiler or it fails (with what it printed), DL_IO, DL_TRUST (cache), DL_REQUEUE (stopped by a
 * signal whose handler returned). */
bool dl_jit_compile_as(dl_arena *arena, const dl_jit_language *in, int n, dl_plan_object *sources,
                       const dl_target *t, const dl_console *out, int *compiled, dl_error *err);
/* The same of C. */
bool dl_jit_compile(dl_arena *arena, int n, dl_plan_object *sources, const dl_target *t,
                    const dl_console *out, int *compiled, dl_error *err);
#endif

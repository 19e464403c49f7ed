/* C and C++ sources -> shared objects, by the system's compiler: without a shell, several
 * processes in parallel, cached on disk. */
#ifndef DL_JIT_CC_H
#define DL_JIT_CC_H
#include "compiler/target/target.h"
#include "ir/base/console.h"
#include "ir/base/str.h"
#include "ir/plan/plan.h"

/* A source language: how its compiler is found, and which flags it gets. */
typedef struct {
    const char *name;          /* "C" */
    const char *variable;      /* environment variable with the compiler and its flags: "CC" */
    const char *names[3];      /* names on PATH if the variable is not set: the first one found */
    const char *package;       /* the package that provides one */
    const char *suffix;        /* suffix of its files: "c" */
    const char *include_path;  /* environment variable that only compilers of this language read */
    const char *const *flags;  /* for every target, NULL-terminated */
    void (*end)(dl_buf *text); /* appends text to the end of a source, or NULL */
} dl_jit_language;
extern const dl_jit_language dl_jit_c;

/* A compiler, and everything that an object depends on in addition to its source. */
typedef struct {
    const char *path;
    const char **first,
        **last;   /* words of the variable after the compiler: the program that a launcher runs (of
                     "ccache gcc -O3" gcc) comes first, flags come after ours. NULL-terminated */
    uint64_t key; /* of its path, its real path, size and time; its words, flags, target, version,
                     and the environment variables that compilers read */
} dl_jit_cc;
/* Finds the compiler that in->variable names; no other one takes its place. The value is a path,
 * or words as a shell splits them (blanks, quotes, backslashes), of which the first is a path or
 * a name on PATH. If it is not set, the first of in->names is used. Errors: DL_RESOURCE when
 * there is none, or the named one does not exist. Runs nothing: it takes microseconds. */
bool dl_jit_find(dl_arena *arena, const dl_jit_language *in, const dl_target *t, dl_jit_cc *cc,
                 dl_error *err);

/* Compiles sources[i].source into sources[i].image (and sets key and bytes), each from the cache
 * when it is there; fills *compiled with how many were not. It is linked to the objects of its
 * libraries, which are in the cache, too, each compiled once for all sources. Every object is
 * loaded once before it is used or kept. `out` (or NULL) is told what the user should know: a
 * compiler that takes more than a minute, a cached object that does not load and is compiled anew.
 * A signal that would end us ends the compiler first, and its folder is removed. Errors:
 * DL_RESOURCE when there is no compiler or it fails (with what it printed), DL_IO, DL_TRUST
 * (cache), DL_REQUEUE (stopped by a signal whose handler returned). */
bool dl_jit_compile_as(dl_arena *arena, const dl_jit_language *in, int n, dl_plan_object *sources,
                       const dl_target *t, const dl_console *out, int *compiled, dl_error *err);
/* The same of C. */
bool dl_jit_compile(dl_arena *arena, int n, dl_plan_object *sources, const dl_target *t,
                    const dl_console *out, int *compiled, dl_error *err);
/* Writes the libraries of these sources, compiled or from the caches, to `dir`, a folder that
 * others may read as a cache. Errors: the same, and DL_IO for what cannot be written. */
bool dl_jit_put_libraries(dl_arena *arena, int n, dl_plan_object *sources, const dl_target *t,
                          const char *dir, const dl_console *out, dl_error *err);
#endif

/* The system's compiler on some sources, several processes in parallel. */
#ifndef DL_JIT_RUN_H
#define DL_JIT_RUN_H
#include "compiler/jit/jit_cc.h"

/* The options for compiling sources, the same for all sources of a call. */
typedef struct {
    const dl_jit_language *in;
    const dl_target *target;
    dl_jit_cc cc;
} dl_jit_way;

/* A job makes a relocatable object, of a library or of some kernels; or a shared object. */
typedef enum { DL_JIT_LIBRARY, DL_JIT_KERNELS, DL_JIT_SHARED } dl_jit_kind;

/* One source while it is being compiled. */
typedef struct {
    dl_jit_kind kind;
    const char *source; /* NULL: a shared object of those that are linked */
    int nlinked;
    const char *const *linked;  /* paths of relocatable objects, of which the source needs some */
    const char *const *flags;   /* of the linker, NULL-terminated; or NULL */
    const char *path;           /* of its object in the work folder */
    const unsigned char *image; /* its object */
    size_t bytes;
} dl_jit_job;

/* How many compilers run at a time: as many as there are CPUs, but two even on one. */
int dl_jit_at_a_time(void);
/* Runs the compiler in the folder `work`, and sets each job's path, image and bytes. *stopped: the
 * signal that interrupted it. Errors: DL_RESOURCE (the compiler fails: its output), DL_IO. */
bool dl_jit_run(dl_arena *arena, const dl_jit_way *w, int n, dl_jit_job *jobs, const char *work,
                const dl_console *out, int *stopped, dl_error *err);
/* Whether an image is what it shall be; a shared object is loaded for a moment. */
bool dl_jit_loads(const dl_jit_job *j, dl_error *why);
#endif

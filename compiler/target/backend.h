/* The backend of a family of targets: one table of functions each (compiler/cpu/, compiler/cuda/),
 * the only thing that compile.c and session.c know of it. */
#ifndef DL_BACKEND_H
#define DL_BACKEND_H
#include "compiler/target/target.h"
#include "ir/base/console.h"
#include "ir/kernel/kernel.h"
#include "ir/plan/plan.h"

enum {
    DL_NEEDS = 9,
    DL_MOST_VARIANTS = 24,    /* of a kernel */
    DL_MOST_FUSED_PARTS = 128 /* of a phase */
};

/* How a kernel's code is launched (plan.h: the kernel ABI), and what its source must contain. */
typedef struct {
    int phases, calls;
    dl_call call; /* before the phases, where calls is 1 */
    int64_t items[DL_MAX_PHASES];
    int threads[DL_MAX_PHASES],
        shared[DL_MAX_PHASES]; /* on a device: threads per CTA; bytes of shared memory */
    DL_ARRAY(const struct dl_phase *) texts; /* of the phases, where functions are merged */
    const char *nameless; /* the text without its title, with the hole $$ (holes.h) in place of the
                             kernel's name, where kernels are compiled one by one; or NULL */
    int fused_parts;      /* horizontally fused parts of the only phase, which are its texts; 0: the
                         phase is one text */
    int64_t part_items[DL_MOST_FUSED_PARTS];
    int nmaps; /* number of tensor maps; the first phase takes them before its pointers */
    dl_tensor_map maps[DL_MAP_MOST];
    int prepares, prepared;     /* as dl_plan_kernel; CPUs only */
    int64_t workspace, scratch; /* bytes */
    unsigned needs[DL_NEEDS];   /* parts of the backend's prelude that it needs, one bit or several
                                   each; a source needs those of all its kernels */
} dl_emitted;

/* The code of one kernel, or of a function that kernels share, before it is put into a source. */
typedef struct {
    const char *name; /* of the kernel */
    dl_buf text;
    dl_emitted code;
    int source;
    bool late;                       /* its source may be compiled after others */
    DL_ARRAY(dl_plan_entry) entries; /* by phase, where functions are shared */
} dl_piece;

/* The resources of a GPU that a kernel's machine code takes: the maximum over its phases, and the
 * spilled bytes of all. */
typedef struct {
    int registers, spill_bytes, shared_bytes; /* of a thread, a thread and a block */
} dl_resources;

typedef struct dl_backend {
    const char *name; /* "cpu", with which its targets' names begin */
    /* The target of that name, which begins with this backend's name (that alone: the best target);
     * the arena as for dl_target_find. NULL: DL_USAGE for an unknown name, DL_RESOURCE for one that
     * cannot be compiled for or run here. */
    const dl_target *(*find)(dl_arena *arena, const char *name, dl_error *err);
    /* Appends the names of its targets to `names`, separated by ", ". */
    void (*list)(dl_buf *names);
    /* NULL, or: the newest target whose code runs on a device of that compute capability, or
     * NULL. */
    const dl_target *(*runs_on)(int major, int minor);
    /* NULL: each kernel has one variant. Or: the number of a kernel's variants, 1 to
     * DL_MOST_VARIANTS, and their names (interned), which describe the differences: what its
     * schedule may name. The cost model prefers number 0. */
    int (*variants)(const dl_kernel *k, const dl_target *t, const char **names);
    /* NULL, or: consolidates variants. It names variants in the schedules of a plan's kernels that
     * share functions, where these take hardly longer than the first. */
    void (*consolidate)(dl_arena *arena, int n, dl_kernel *const *kernels, const dl_target *t);
    /* NULL: the backend has no library calls. Or: in how many forms, at most DL_MOST_CALLS,
     * libraries of the device can make the kernel's contraction. Fills the calls and their form,
     * except the rest of the algorithm and its workspace. */
    int (*calls)(const dl_kernel *k, const dl_target *t, dl_call *forms);
    /* One kernel's code, of the variant in its schedule. Where functions are merged, code->texts
     * are its phases, in the arena; otherwise it is appended, and exports <name>_0, <name>_1, ...
     * Errors: DL_INPUT, with the place, for a kernel or variant that this backend does not support.
     */
    bool (*emit)(dl_arena *arena, dl_buf *out, const dl_kernel *k, const dl_target *t,
                 dl_emitted *code, dl_error *err);
    /* NULL, or: function merging. It makes functions that phases share out of *n kernels' code.
     * Returns the functions' pieces, and their number in *n; each kernel's piece gets entries,
     * whose objects are indices of these pieces. */
    dl_piece *(*merge)(dl_arena *arena, int *n, dl_piece *kernels);
    /* NULL: there is one source. Or: assigns each piece to a source, so that all compile in the
     * least time on so many threads; 0: in few sources, as nobody waits for them. Returns the
     * number of sources, at least one. */
    int (*assign)(int n, dl_piece *pieces, int threads);
    /* Appends a source's prelude, for the needs of all its kernels together. */
    void (*open)(dl_buf *out, const dl_target *t, const dl_emitted *needs);
    /* NULL, or: the sources of the libraries that such a source is linked to, the same for many
     * plans; returns their number. */
    int (*libraries)(dl_arena *arena, const dl_target *t, const dl_emitted *needs,
                     const char *sources[DL_MOST_LIBRARIES]);
    /* NULL, or: writes those libraries that most plans are linked to, as entries of a cache, to
     * `dir`. Errors: those of `build`. */
    bool (*put_libraries)(dl_arena *arena, const dl_target *t, const char *dir,
                          const dl_console *out, dl_error *err);
    /* Appends the source of the input gather (ir/plan/feed.h). NULL: the host makes the inputs. */
    void (*feed)(dl_buf *out, const dl_target *t);
    /* Fills each object's image (and its key and bytes) from the cache, or by compiling its source;
     * *compiled: how many were not in the cache. Errors: DL_RESOURCE, DL_IO, DL_TRUST, DL_REQUEUE
     * (jit_cc.h). */
    bool (*build)(dl_arena *arena, int n, dl_plan_object *objects, const dl_target *t,
                  const dl_console *out, int *compiled, dl_error *err);
    /* The key of everything but the source that an image depends on: the compiler that was found,
     * its version and options. */
    bool (*toolchain)(dl_arena *arena, const dl_target *t, uint64_t *key, dl_error *err);
    /* Whether a plan's objects can be loaded and hold its kernels' functions. Errors:
     * DL_RESOURCE. */
    bool (*check)(const dl_plan *p, dl_error *err);
    /* The resources of each kernel of such a plan, from its objects. NULL: this backend does not
     * know them. Errors: DL_INPUT. */
    bool (*resources)(dl_arena *arena, const dl_plan *p, dl_resources *of, dl_error *err);
    /* The cost model's time of one run of a kernel, in the variant that its schedule names, in
     * microseconds: the larger of arithmetic and
     * traffic, each at the share of its peak rate that kernels of this kind reach, plus the
     * launch. */
    double (*predict)(const dl_kernel *k, const dl_target *t);
    /* The same of one thread, without the launch, rather too long than too short: a kernel that
     * takes longer than waking threads does shall be shared by them. NULL: kernels do not run on
     * the host's threads. */
    double (*serial)(const dl_kernel *k, const dl_target *t);
} dl_backend;

extern const dl_backend dl_backend_cpu, dl_backend_cuda;
#endif

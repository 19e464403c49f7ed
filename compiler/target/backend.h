/* What a family of targets does with kernels: one table each (compiler/cpu/, compiler/cuda/), which is all
 * that compile.c and session.c know of it. */
#ifndef DL_BACKEND_H
#define DL_BACKEND_H
#include "compiler/target/target.h"
#include "ir/kernel/kernel.h"
#include "ir/plan/plan.h"

enum {
    DL_NEEDS = 8,
    DL_MOST_VARIANTS = 24, /* of a kernel */
    DL_MOST_STRANDS = 128  /* of a phase */
};

/* How a kernel is made: in one of the ways that its backend has (variants), or, where `by` is not NULL, with
 * its product made by a library, in the form that the algorithm says. */
typedef struct {
    int variant;
    const dl_algorithm *by;
} dl_way;

typedef struct {
    const dl_kernel *kernel;
    dl_way way;
} dl_coded;

/* How a kernel's code is to be launched (plan.h: the kernel ABI), and what it must find in its source. */
typedef struct {
    int phases, calls;
    dl_call call; /* in front of the phases, where calls is 1 */
    int64_t units[DL_MAX_PHASES];
    int threads[DL_MAX_PHASES], shared[DL_MAX_PHASES]; /* on a device: of a unit; bytes */
    int strands; /* of the only phase, each a text of its own, until functions are made of them; 0: it is one
                    text */
    int64_t strand_units[DL_MOST_STRANDS];
    int nmaps; /* of the first phase, in front of its pointers */
    dl_tensor_map maps[DL_MAP_MOST];
    int64_t workspace, scratch; /* bytes */
    const char *variant;        /* its name, interned, where there are several; NULL: there is one */
    unsigned needs[DL_NEEDS];   /* what the backend's preludes must have, each a bit or several; those of all
                                   kernels of a source are joined */
} dl_emitted;

/* The code of one kernel, or of a function that kernels share, on its way into a source. */
typedef struct {
    const char *name; /* of the kernel */
    dl_buf text;
    dl_emitted code;
    int source;
    DL_ARRAY(dl_plan_entry) entries; /* by phase, where functions are shared */
} dl_piece;

/* What a kernel's machine code takes of a GPU: the most of its phases, and spilled bytes of all. */
typedef struct {
    int registers, spill_bytes, shared_bytes; /* of a thread, a thread and a block */
} dl_resources;

typedef struct dl_backend {
    const char *name; /* "cpu", with which its targets' names begin */
    /* The target of that name, of which this backend's name is the beginning (alone: the best there is).
     * NULL: DL_USAGE for an unknown name, DL_RESOURCE for one that cannot be compiled for or run here. */
    const dl_target *(*find)(const char *name, dl_error *err);
    /* Appends to `names` those of its targets, ", " between them. */
    void (*list)(dl_buf *names);
    /* NULL: each kernel is made in one way. Or: in how many it can be, 1 to DL_MOST_VARIANTS, with names
     * (interned) that say what differs. Number 0 is the one that the cost model would take. */
    int (*variants)(const dl_kernel *k, const dl_target *t, const char **names);
    /* NULL, or: gives kernels of a plan ways of which few functions are made, where they hardly take longer
     * than the first. */
    void (*settle)(dl_arena *arena, int n, dl_coded *kernels, const dl_target *t);
    /* NULL: no library makes anything. Or: in how many forms, at most DL_MOST_CALLS, libraries of the device
     * can make the kernel's product. Fills the calls, their form and all but the rest of the algorithm and
     * its room. */
    int (*calls)(const dl_kernel *k, const dl_target *t, dl_call *forms);
    /* Appends the code of one kernel, made in this way, exporting <name>_0, <name>_1, ... Errors: DL_INPUT,
     * located, for what this backend's kernels cannot do. */
    bool (*emit)(dl_buf *out, const dl_kernel *k, const dl_target *t, dl_way way, dl_emitted *code,
                 dl_error *err);
    /* NULL, or: makes functions that kernels' phases share of *n kernels' code. Returns their pieces, *n
     * their number; each kernel's piece gets entries, whose objects are numbers of those pieces. */
    dl_piece *(*fold)(dl_arena *arena, int *n, dl_piece *kernels);
    /* Says which source each piece stands in, so that all compile in the least time; returns how many sources
     * there are, at least one. */
    int (*share)(int n, dl_piece *pieces);
    /* What a source begins with, for the needs of all its kernels together. */
    void (*open)(dl_buf *out, const dl_target *t, const dl_emitted *needs);
    /* Appends the source of what makes inputs of a batch as files have it (ir/plan/feed.h). NULL: the host
     * does.
     */
    void (*feed)(dl_buf *out, const dl_target *t);
    /* Fills each object's image (and its key and bytes) from its source, by the cache where it is there;
     * *compiled: how many were not. Errors: DL_RESOURCE, DL_IO, DL_TRUST, DL_REQUEUE (jit_cc.h). */
    bool (*build)(dl_arena *arena, int n, dl_plan_object *objects, const dl_target *t,
                  void (*warn)(const char *text), int *compiled, dl_error *err);
    /* What an image depends on beside its source: the compiler found, its version and options. */
    bool (*toolchain)(dl_arena *arena, const dl_target *t, uint64_t *key, dl_error *err);
    /* Whether a plan's objects can be loaded and hold its kernels' functions. Errors: DL_RESOURCE. */
    bool (*check)(const dl_plan *p, dl_error *err);
    /* By kernel of such a plan, as its objects say; NULL: no such thing is known of this backend's code.
     * Errors: DL_INPUT. */
    bool (*resources)(dl_arena *arena, const dl_plan *p, dl_resources *of, dl_error *err);
    /* What one run of a kernel should take, in microseconds: the larger of arithmetic and traffic, each at
     * the share of its ceiling that kernels of this kind reach, plus the launch. */
    double (*predict)(const dl_kernel *k, const dl_target *t);
} dl_backend;

extern const dl_backend dl_backend_cpu, dl_backend_cuda;
#endif

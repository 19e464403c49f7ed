/* Guarded launches, for DLR_DEBUG=guard and `dlc verify`. Each launch runs on copies of the memory
 * that its kernel may touch, with canaries around each copy, so that writes elsewhere are found and
 * reported. Every device does this in its own memory; this header has the shared part: the layout
 * of the copies, and the reports.
 *
 *     canary | part | canary | part | ... | canary
 *
 * A part is an argument's bytes (dl_plan_kernel.arg_bytes), the union of several arguments that
 * overlap in the arena, or the workspace. On the CPU each thread's scratch is guarded in the same
 * way. */
#ifndef DLR_GUARD_H
#define DLR_GUARD_H
#include "ir/plan/plan.h"

enum { DLR_GUARD_BAND = 1 << 16 /* least bytes of a canary */ };

typedef struct {
    int64_t offset, bytes; /* in the arena; for the workspace, offset is -1 */
    int64_t place;         /* its offset in the guarded memory */
    int arg; /* the first argument that begins there; for the workspace, the number of arguments */
    bool written; /* the kernel stores one of its arguments */
} dlr_guard_part;

typedef struct {
    const dl_plan *plan;
    const dl_plan_kernel *kernel;
    int n;
    dlr_guard_part *parts; /* in order of their offsets */
    int64_t *places;       /* the offset of each argument, and of the workspace */
    int64_t bytes;         /* of the whole guarded memory */
} dlr_guard;

/* The guarded memory of one launch; in the arena. */
dlr_guard dlr_guard_of(dl_arena *arena, const dl_plan *plan, const dl_plan_launch *launch);
/* The largest guarded memory of all launches. */
int64_t dlr_guard_most(const dl_plan *plan);
/* Canary i precedes part i, and the last one follows all parts: [from, to) in the guarded
 * memory. */
void dlr_guard_canary(const dlr_guard *g, int i, int64_t *from, int64_t *to);
/* Fills a canary with a pattern that every float type reads as NaN. */
void dlr_guard_fill(void *to, int64_t bytes);
/* The first byte that differs from the canary's pattern; -1: none. */
int64_t dlr_guard_differs(const void *canary, int64_t bytes);

/* "kernel 'train_k3' (unet.dl:9) wrote outside of its arguments, first at byte 512 of argument 2,
 * what 'add' stores (unet.dl:9), of 512 bytes": the report of byte `at` of canary i, by the nearer
 * part. */
void dlr_guard_say_canary(const dlr_guard *g, int i, int64_t at, char *text, size_t size);
/* The report for byte `at` of a thread's scratch: "... wrote outside of its scratch, first at byte
 * 512, of 512 bytes". */
void dlr_guard_say_scratch(const dlr_guard *g, int64_t at, char *text, size_t size);
/* The report of byte `at` of a part that the kernel may only read. */
void dlr_guard_say_input(const dlr_guard *g, int part, int64_t at, char *text, size_t size);
#endif

/* DLR_DEBUG=guard, and `dlc verify`: each launch runs on copies of what its kernel may touch, apart from
 * everything else and with canaries around each; what a kernel writes where it may not is found, and said of
 * it. Every device does so in its own memory; here is what they share: where the copies lie, and what is
 * said.
 *
 *     canary | part | canary | part | ... | canary
 *
 * A part is an argument's bytes (dl_plan_kernel.arg_bytes), or those of several arguments that lie over each
 * other in the arena, or the workspace. On the CPU each thread's scratch lies so, too. */
#ifndef DLR_GUARD_H
#define DLR_GUARD_H
#include "ir/plan/plan.h"

enum { DLR_GUARD_BAND = 1 << 16 /* bytes of a canary, at least */ };

typedef struct {
    int64_t offset, bytes; /* in the arena; of the workspace, offset is -1 */
    int64_t place;         /* in the guarded memory */
    int arg;               /* the first argument that begins there; of the workspace, as many as there are */
    bool written;          /* one of them is what the kernel stores */
} dlr_guard_part;

typedef struct {
    const dl_plan *plan;
    const dl_plan_kernel *kernel;
    int n;
    dlr_guard_part *parts; /* by place */
    int64_t *places;       /* of each argument, and of the workspace */
    int64_t bytes;         /* of all */
} dlr_guard;

/* Of one launch; in the arena. */
dlr_guard dlr_guard_of(dl_arena *arena, const dl_plan *plan, const dl_plan_launch *launch);
/* Most bytes of any launch's. */
int64_t dlr_guard_most(const dl_plan *plan);
/* Canary i lies before part i, the last behind all parts: [from, to) in the guarded memory. */
void dlr_guard_canary(const dlr_guard *g, int i, int64_t *from, int64_t *to);
/* What is in a canary: NaN, whichever float it is read as (in pairs of bytes). */
void dlr_guard_fill(void *to, int64_t bytes);
/* Which byte differs from that, the first; -1: none. */
int64_t dlr_guard_differs(const void *canary, int64_t bytes);

/* "kernel 'train_k3' (unet.dl:9) wrote outside of its arguments, first at byte 512 of argument 2, what 'add'
 * stores (unet.dl:9), of 512 bytes": of byte `at` of canary i, by the part that is nearer. */
void dlr_guard_say_canary(const dlr_guard *g, int i, int64_t at, char *text, size_t size);
/* "... wrote outside of its scratch, first at byte 512, of 512 bytes". */
void dlr_guard_say_scratch(const dlr_guard *g, int64_t at, char *text, size_t size);
/* The same of byte `at` of a part that the kernel may only read. */
void dlr_guard_say_input(const dlr_guard *g, int part, int64_t at, char *text, size_t size);
#endif

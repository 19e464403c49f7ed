/* Reads facts about kernels from a cubin, NVIDIA's ELF file of machine code. The reader needs no
 * library of NVIDIA's, and checks every offset, since the file is foreign input.
 *
 * The attributes in the file are undocumented. Their numbers come from `cuobjdump --dump-elf`;
 * tests/unit/test_cuda_build.c compares the results with ptxas' output. */
#ifndef DL_CUBIN_H
#define DL_CUBIN_H
#include "ir/base/arena.h"

typedef struct {
    int ordinal, offset, bytes; /* offset: in the block of all arguments */
} dl_cubin_param;

typedef struct {
    const char *name;
    int registers; /* of a thread */
    /* Bytes that a thread's spills store to and load from memory, each instruction counted once, as
     * ptxas prints "spill stores" and "spill loads". */
    int spill_stores, spill_loads;
    int frame_bytes;  /* of a thread: spilled registers, and arrays in local memory */
    int shared_bytes; /* of a block, static; without what the system reserves (1 KB from sm_90
                         on) */
    int max_threads;  /* of a block, by __launch_bounds__; 0: without it */
    int64_t code_bytes;
    int nparams;
    dl_cubin_param *params; /* by ordinal */
    int param_bytes;        /* the block of all arguments */
} dl_cubin_kernel;

typedef struct {
    int n;
    dl_cubin_kernel *kernels; /* by name */
} dl_cubin;

/* Reads all kernels; nothing of `image` is kept. Errors: DL_INPUT naming the fault: no cubin,
 * damaged, or a form of parameters that is not known. */
bool dl_cubin_read(dl_arena *arena, const void *image, size_t bytes, dl_cubin *cubin,
                   dl_error *err);
/* The kernel of that name, or NULL. */
const dl_cubin_kernel *dl_cubin_find(const dl_cubin *cubin, const char *name);
#endif

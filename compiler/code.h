/* Kernels of the IR -> kernels of a plan, and the sources of their code. */
#ifndef DL_CODE_H
#define DL_CODE_H
#include "compiler/target/backend.h"

/* The hash of a kernel's text, with the variant in its schedule, without the parts that its code
 * does not depend on: name, source lines, names of axes, and the unfused nodes' memory traffic.
 * Kernels with one hash can share their code. */
uint64_t dl_kernel_hash(const dl_kernel *k);

/* Appends kernels to a plan that has none, and objects with their sources, which are not
 * compiled yet, and which so many threads shall compile; 0: as many as there are CPUs. Kernels of
 * one hash get the same code. late (NULL: none is): by kernel, whether its code may be compiled
 * after the others'; where functions are merged, functions of late kernels alone are in sources of
 * their own. Errors: those of dl_backend's emit. */
bool dl_add_kernels(dl_plan *p, const dl_target *t, int n, dl_kernel *const *kernels,
                    const bool *late, int threads, dl_error *err);
#endif

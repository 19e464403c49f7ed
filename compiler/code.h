/* Kernels -> kernels of a plan, and the sources of their code. */
#ifndef DL_CODE_H
#define DL_CODE_H
#include "compiler/target/backend.h"

/* Of a kernel's text without what its code does not depend on: name, source lines, names of axes,
 * and what the nodes would have moved. Kernels of one hash can share their code. */
uint64_t dl_kernel_hash(const dl_kernel *k);

/* Appends kernels to a plan that has none, those of one hash and way with the same code, and
 * objects with the sources of it all, which nobody has compiled yet. Errors: as dl_backend's emit.
 */
bool dl_add_kernels(dl_plan *p, const dl_target *t, int n, const dl_coded *kernels, dl_error *err);
#endif

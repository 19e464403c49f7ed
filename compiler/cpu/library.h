/* The texts of kernels/ as C: what goes before a source's kernels, and the libraries to which such
 * a source is linked. A library is one family of hand-written loops, compiled once for all models:
 * the compiler's time for a model is that of its own kernels. */
#ifndef DL_CPU_LIBRARY_H
#define DL_CPU_LIBRARY_H
#include "compiler/target/backend.h"

/* Appends what kernels with these needs are compiled with: types, vector functions, and the
 * declarations of the libraries' functions. */
void dl_cpu_open(dl_buf *out, const dl_target *t, const dl_emitted *needs);
/* The same with the libraries' functions, for one source without others. */
void dl_cpu_open_whole(dl_buf *out, const dl_target *t, const dl_emitted *needs);
/* The sources of the libraries to which such kernels are linked; returns their number. They depend
 * on the target, on the families that are needed, on 16-bit types, groups and dropout alone. */
int dl_cpu_libraries(dl_arena *arena, const dl_target *t, const dl_emitted *needs,
                     const char *sources[DL_MOST_LIBRARIES]);
/* The needs of most kernels: together they want every library with f32 and with bf16, with groups
 * and without, with random numbers and without. Returns their number. */
enum { DL_CPU_COMMON_NEEDS = 8 };
int dl_cpu_common_needs(dl_emitted needs[DL_CPU_COMMON_NEEDS]);
#endif

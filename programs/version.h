/* What `--version` prints: the version, and what of CUDA was found here at run time. */
#ifndef DL_VERSION_H
#define DL_VERSION_H
#include "ir/base/arena.h"

/* "dlrun 0.1.0", NVRTC's and NCCL's versions and files or that there is none, the driver's and its
 * devices, a line each. */
void dl_version_print(dl_arena *arena, const char *program);
#endif

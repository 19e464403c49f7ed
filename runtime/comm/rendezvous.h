/* A TCP rendezvous of ranks that MPI has not started, at MASTER_ADDR and MASTER_PORT, which
 * torchrun sets: rank 0 sends a few bytes to all others. */
#ifndef DLR_RENDEZVOUS_H
#define DLR_RENDEZVOUS_H
#include <stddef.h>

#include "runtime/base/world.h"

/* Copies rank 0's `bytes` at `data` to all ranks; each rank must call it. `turn` counts the calls
 * of a process, so that one which is late comes to its own. Where torchrun's own store listens at
 * MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE), the next port is used. Errors: DL_USAGE (no
 * MASTER_ADDR or MASTER_PORT), DL_RESOURCE (the port is taken), DL_PEER (not all ranks came within
 * `timeout` seconds). */
bool dlr_rendezvous(const dlr_world *world, int turn, void *data, size_t bytes, double timeout,
                    dl_error *err);
#endif

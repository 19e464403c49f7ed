/* Ranks that nothing of MPI has started meet once over TCP, where MASTER_ADDR and MASTER_PORT say, as
 * torchrun and its like set them: rank 0 hands a few bytes to all others. */
#ifndef DLR_MEET_H
#define DLR_MEET_H
#include <stddef.h>

#include "runtime/base/world.h"

/* Gives rank 0's `bytes` at `data` to all; each rank calls it. Where torchrun's own store listens at
 * MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE), the next port is taken. Errors: DL_USAGE (no MASTER_ADDR or
 * MASTER_PORT), DL_RESOURCE (the port is taken), DL_PEER (nobody came within so many seconds). */
bool dlr_meet(const dlr_world *world, void *data, size_t bytes, double timeout, dl_error *err);
#endif

/* The large memory block of a run: one mapping, with huge pages where the system has them. Every
 * page is touched when it is mapped. */
#ifndef DLR_BASE_MEMORY_H
#define DLR_BASE_MEMORY_H
#include <stddef.h>

#include "runtime/base/pool.h"

typedef struct {
    char *base; /* aligned to 2 MiB; zeroed */
    size_t bytes;
} dlr_memory;

/* Maps `bytes` (at least a page) and touches each page by the pool's threads. Errors: DL_RESOURCE,
 * with the bytes asked for and the bytes free (dl_memory_available). The check happens before any
 * page is touched, since Linux overcommits memory and kills the process later. */
bool dlr_memory_map(dlr_memory *memory, size_t bytes, dlr_pool *pool, dl_error *err);
void dlr_memory_unmap(dlr_memory *memory); /* a zeroed one is fine */

/* The process' resident bytes, now and the peak so far; 0 where the system does not report them. */
typedef struct {
    double now, most;
} dlr_memory_use;
dlr_memory_use dlr_memory_used(void);
#endif

/* How much memory the machine has: more is refused before it is asked for, since Linux grants what it cannot
 * give. */
#ifndef DLR_MEMORY_H
#define DLR_MEMORY_H
#include <unistd.h>

static inline double dlr_machine_bytes(void) {
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}
#endif

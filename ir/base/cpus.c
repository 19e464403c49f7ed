#include "ir/base/cpus.h"

#include <sched.h>
#include <unistd.h>

#include "ir/base/limits.h"

int dl_cpus_allowed(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than the set can name */
    return online < 1 ? 1 : online > DL_MAX_THREADS ? DL_MAX_THREADS : (int)online;
}

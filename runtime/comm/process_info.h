/* A rank's process info: its machine, its process id there, and the state of that process. */
#ifndef DLR_PROCESS_INFO_H
#define DLR_PROCESS_INFO_H
#include <stdbool.h>
#include <stdint.h>

enum { DLR_HOST = 32 /* bytes of a machine's name that are stored */ };

/* Ranks with the same `where` see each other's processes. Ranks send this struct to each other, so
 * it consists of whole words. */
typedef struct {
    uint64_t where;
    int64_t pid;
    uint64_t cpus; /* a hash of the CPUs that it may run on */
    char host[DLR_HOST];
} dlr_process_info;

dlr_process_info dlr_process_own(void);
/* The kernel's letter for the state of that process: T stopped, Z ended; 0: gone; '?': it is on
 * another machine than `own`. */
char dlr_process_state(const dlr_process_info *of, const dlr_process_info *own);
/* Whether a process of that state has ended. */
bool dlr_process_ended(char state);
#endif

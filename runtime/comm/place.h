/* Where a rank's process is, and what the system of that machine says of it. */
#ifndef DLR_PLACE_H
#define DLR_PLACE_H
#include <stdbool.h>
#include <stdint.h>

enum { DLR_HOST = 32 /* bytes of a machine's name that are kept */ };

/* Ranks with the same `where` see each other's processes. Sent from rank to rank: whole words. */
typedef struct {
    uint64_t where;
    int64_t pid;
    uint64_t cpus; /* which it may run on */
    char host[DLR_HOST];
} dlr_place;

dlr_place dlr_place_own(void);
/* The letter that the system has for the state of that process: T stopped, Z ended; 0: gone; '?': it is of
 * another machine than `own`. */
char dlr_place_state(const dlr_place *of, const dlr_place *own);
/* Whether a process of that state runs no more. */
bool dlr_place_gone(char state);
#endif

/* For comm_check's sources: what is expected is counted, and the suite of one rank. */
#ifndef TESTS_COMM_CHECK_H
#define TESTS_COMM_CHECK_H
#include <stdatomic.h>
#include <stdio.h>

#include "runtime/comm/comm_device.h"

extern atomic_int passed, failed;

#define EXPECT(cond, ...)                                                                          \
    do {                                                                                           \
        if (cond)                                                                                  \
            atomic_fetch_add(&passed, 1);                                                          \
        else if (atomic_fetch_add(&failed, 1) < 20) {                                              \
            printf("%s:%d: failed: %s ", __FILE__, __LINE__, #cond);                               \
            printf("" __VA_ARGS__);                                                                \
            printf("\n");                                                                          \
        }                                                                                          \
    } while (0)

/* comm_check.c: every kind of collective, as one rank of a comm; returns NULL. */
void *run_rank(void *comm);
/* comm_device.c: the same next to a comm of the hosts, whose groups it has, over NCCL between
 * emulated devices or the system's, and what devices have alone. False: there is no such device, or
 * no NCCL. */
bool run_nccl(dlr_comm *host, bool emulated);
/* A rank is lost while this one is in a call of NCCL: the call ends before the communicator is
 * aborted, which the stand-in looks at. */
bool run_lost(dlr_comm *host);
#endif

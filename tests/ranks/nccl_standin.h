/* The stand-in for NCCL: its communicators and collectives, for its two sources. */
#ifndef TESTS_NCCL_STANDIN_H
#define TESTS_NCCL_STANDIN_H
#include <stdatomic.h>
#include <stdio.h>

#include "runtime/comm/nccl.h"
#include "tests/cuda/standin.h"

enum { MOST = 64, SPLITS = 64, CHUNK = 1 << 18, HEAD = 1 << 16, GROUPED = 64, BUFFER = 1 << 20 };
enum { SYSTEM = 2 };
typedef enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, EXCHANGE } kind;
enum { KINDS = EXCHANGE + 1 };

typedef struct {
    _Atomic unsigned arrived;      /* ranks that have come */
    _Atomic unsigned count, phase; /* of the barrier */
    struct {
        _Atomic unsigned arrived;
        int color[MOST], key[MOST];
    } split[SPLITS];
    uint64_t called[MOST]; /* what each rank calls, as a number */
} shared;
_Static_assert(sizeof(shared) <= HEAD, "the head has room");

typedef struct job {
    kind kind;
    uint64_t from, to;
    size_t count, come; /* come: of EXCHANGE, from rank `giver` */
    int type, op, root, giver;
    struct ncclComm *comm;
    dlr_cu_stream stream;
    struct job *next; /* of those that are kept */
} job;

struct ncclComm {
    char name[64]; /* of the file */
    int rank, n, splits;
    shared *s;
    bool blocking, there; /* all have come */
    bool gone;            /* and the file's name */
    struct {
        dlr_nccl_comm *to;
        int number, color;
    } splitting;
    DL_ARRAY(job *) pending;
    dlr_cu_memory buffers[KINDS]; /* of the device; 0: not connected for this kind yet */
    int64_t done;
    _Atomic int error;
    _Atomic bool aborted, running;
    _Atomic int callers; /* threads within a call of it */
    char last[200];
};

/* nccl_standin.c: records why a call is refused; returns `result`. */
int standin_refuse(struct ncclComm *c, int result, const char *why);
/* nccl_standin_run.c: a job, as a host function of its stream. */
void standin_run(void *job);
void standin_pause(int *spins);
bool standin_knows(int type);
dl_dtype standin_type(int type);
#endif

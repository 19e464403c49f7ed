/* The engine: one thread per rank that runs its collectives as messages.
 *
 * The program's thread only appends a collective to a queue. The engine's thread makes every call
 * of MPI, which has no progress thread of its own, and sleeps between polls. An active collective
 * has a lane and processes its data in chunks, several at a time. A chunk goes through phases, each
 * of which has messages and the work that follows their arrival. */
#ifndef DLR_ENGINE_H
#define DLR_ENGINE_H
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "runtime/comm/messages.h"
#include "runtime/comm/parts.h"

enum { STARTING, READY, CLOSING, ENDED };
enum {
    LANES = 4,       /* active collectives */
    CHUNKS = 4,      /* active chunks of one collective */
    SMALL = 4096,    /* bytes: up to this size every member sends everything to every other */
    WHAT = 112,      /* bytes of a collective's name that are stored */
    REMEMBERED = 32, /* collectives in the flight recorder */
    SEQUENCE = 16,   /* bits of a tag for the number of a group's collective */
    MPI_ITSELF = -1  /* in place of a member: a message of MPI's own sum */
};

/* A collective from its start to its wait. */
typedef struct {
    dlr_collective c;
    const dlr_members *group;
    int64_t ticket, number; /* the number within its group */
    uint64_t hash;
    bool by_mpi;     /* MPI makes the sum */
    int64_t *counts; /* n elements */
    int counts_room;
    char what[WHAT];
    int64_t asked, begun, ended; /* times, ns */
    bool done;                   /* guarded by the engine's lock */
} dlr_op;

/* A message that goes once around the group in addition to the data: it reveals neighbours that
 * call different collectives. */
typedef struct {
    uint64_t hash;
    int64_t number;
    char what[WHAT];
} dlr_signature;

typedef struct {
    bool busy;
    int64_t number;
    int phase, pending;
    char *room;
} dlr_chunk;

typedef struct {
    dlr_op *op; /* NULL: the lane is free */
    int64_t chunks, begun, finished;
    int signatures; /* signature messages still under way (of two) */
    bool agreed;    /* the previous member's signature has come */
    dlr_chunk chunk[CHUNKS];
    dlr_signature out, in;
    int64_t moved; /* ns: when the last of its messages was done */
    int *missing;  /* by member: messages that have not arrived */
    /* by member: elements of a block that precede its piece; [n]: of the whole block */
    int64_t *before;
    int64_t blocks; /* blocks in a chunk; 0: a chunk is part of one block */
    int64_t cuts;   /* chunks of a block */
    bool small;
    int64_t broken; /* ns: when a message of member broken_member failed; 0: none did */
    int broken_member;
    char broken_text[200];
} dlr_lane;

/* A collective in the flight recorder. */
typedef struct {
    int64_t ticket, number, asked, begun, ended, bytes;
    int group;
    uint64_t hash;
    char what[WHAT];
} dlr_flight;

typedef struct dlr_heartbeat dlr_heartbeat;

typedef struct {
    dlr_comm *comm;
    const dlr_mpi *mpi;
    dlr_world_options options;
    int rank, size;
    pthread_t thread;
    /* shared by the two threads */
    pthread_mutex_t lock;
    pthread_cond_t work;   /* for the engine: a collective was started, or the comm is closing */
    pthread_cond_t change; /* for the program: a collective is done, a failure, the engine's
                              state */
    dlr_op **ops;          /* ring by ticket: started and not waited for */
    int64_t next_ticket, next_begun, first_kept;
    int64_t room;
    dlr_op **spare;
    int n_spare, spare_room;
    _Atomic bool waiting; /* the program's thread waits */
    bool told;            /* and has received the failure */
    _Atomic int state;    /* STARTING, ... */
    dl_error failed;      /* set under the lock, followed by `lost` */
    _Atomic bool lost;
    /* of the engine's thread alone */
    dlr_lane lane[LANES];
    int64_t room_bytes; /* bytes of a chunk's buffer */
    char *rooms;
    dlr_heartbeat *watch;
    dlr_flight recorder[REMEMBERED]; /* by ticket */
} dlr_engine;

/* ---- shared by the two threads (engine_state.c); both functions take the lock ---- */

/* Fails the engine; only the first reason is kept. */
void dlr_engine_fail(dlr_engine *e, const char *format, ...) DL_PRINTF(2, 3);
void dlr_engine_state(dlr_engine *e, int state);
static inline struct timespec dlr_moment(int64_t ns) {
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

/* ---- the engine's thread (engine.c) ---- */

void *dlr_engine_run(void *engine);

/* ---- messages: the fields of an id ---- */

typedef enum { DLR_DATA, DLR_SIGNATURE, DLR_GOSSIP } dlr_message_kind;
static inline uint64_t dlr_id(dlr_message_kind kind, bool receives, int lane, int chunk,
                              int member) {
    return (uint64_t)kind << 56 | (uint64_t)receives << 55 | (uint64_t)lane << 48 |
           (uint64_t)chunk << 40 | (uint64_t)(unsigned)member;
}

/* ---- collectives as phases (phases.c) ---- */

/* Plans the lane's collective: its chunks and pieces. */
void dlr_lane_plan(const dlr_engine *e, dlr_lane *l);
/* Posts the messages of the chunk's next phase; false: no phase is left. */
bool dlr_lane_phase(dlr_engine *e, dlr_lane *l, dlr_chunk *k);
/* Size of a chunk's buffer in a world of that size. */
int64_t dlr_chunk_bytes(int size);

/* ---- MPI's own sums (mpi_sums.c) ---- */

/* Whether MPI makes the sum itself; the same on all members that have set the same sums. */
bool dlr_sum_by_mpi(const dlr_comm *comm, const dlr_members *group, const dlr_collective *c);
/* dlr_lane_phase for such a sum. */
bool dlr_mpi_sum_phase(dlr_engine *e, const dlr_lane *l, dlr_chunk *k);

/* ---- heartbeats (heartbeat.c) ---- */

/* Heartbeats. Each tick sends one to another rank, with the known counts of all ranks, and finds
 * ranks that have been silent for too long. */
dlr_heartbeat *dlr_heartbeat_open(dlr_engine *e);
void dlr_heartbeat_tick(dlr_engine *e);
/* Nanoseconds until the next tick. */
int64_t dlr_heartbeat_next(const dlr_engine *e);
/* Handles a finished message of kind DLR_GOSSIP. */
void dlr_heartbeat_message(dlr_engine *e, bool receives, int way);
/* Announces the failure to the other ranks. */
void dlr_heartbeat_spread(dlr_engine *e);
/* Announces this rank's end; dlr_heartbeat_parted: whether all ranks have announced theirs. */
void dlr_heartbeat_part(dlr_engine *e);
bool dlr_heartbeat_parted(const dlr_engine *e);
/* Fails the engine, whose thread hangs in MPI's finalize; names the ranks that it may be waiting
 * for. */
void dlr_heartbeat_blame_end(dlr_engine *e);
void dlr_heartbeat_close(dlr_heartbeat *w);
/* Exchanges every rank's host and process, once; dlr_comm_open calls it in the program's thread.
 * Sets local_rank and local_size. */
bool dlr_exchange_process_infos(dlr_comm *comm, dlr_engine *e, dl_error *err);

/* ---- the flight recorder (flight.c) ---- */

void dlr_flight_note(dlr_engine *e, const dlr_op *op);
void dlr_flight_dump(const dlr_engine *e);

/* ---- the backend (queue.c) ---- */

/* Starts the thread and MPI on it; checks the world's size from the environment against MPI's. */
dlr_comm *dlr_engine_open(const dlr_mpi *mpi, const dlr_world_said *said,
                          const dlr_world_options *options, dl_error *err);
/* The module for the MPI that started this process (mpi_load.c). */
const dlr_mpi *dlr_mpi_load(const dlr_world_said *said, dl_error *err);
/* The module of the MPI that this process has loaded. */
const dlr_mpi *dlr_mpi_of_process(dl_error *err);
#endif

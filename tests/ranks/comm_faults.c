/* A rank that fails in the middle of a run, for check_faults.py:
 *
 *     comm_faults kill|stop|exit|other|count|order|hang|leave|done|start|error VICTIM TIMEOUT
 *                 [nccl|mpi]
 *
 * nccl: the collectives go over NCCL, between emulated devices. mpi: MPI makes the sums itself.
 * order: one rank has another order of sums. error: nothing is done, the library fails. Every rank
 * that loses another prints "rank N: why" and ends with DL_PEER. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/comm_device.h"
#include "tests/emulator/cuda_emulator.h"

enum { COUNT = 100000, STEPS = 60, FAULT = 20 };

static int lost(dlr_comm *comm, const dl_error *err) {
    fprintf(stderr, "rank %d: %s\n", dlr_comm_world(comm).rank, err->message);
    dlr_comm_close(comm, NULL);
    _exit(err->code);
}

static void fail(dlr_comm *comm, const char *how, float *x) {
    if (!strcmp(how, "error")) return;
    if (!strcmp(how, "order")) {
        dlr_comm_set_sums(comm, DLR_SUMS_FIXED);
        return;
    }
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "stop")) raise(SIGSTOP);
    if (!strcmp(how, "exit")) _exit(3);
    if (!strcmp(how, "hang"))
        for (;;) pause();
    if (!strcmp(how, "leave")) {
        dlr_comm_leave(comm, "its disk is full");
        _exit(4);
    }
    dlr_collective c = {.kind = strcmp(how, "other") ? DLR_ALL_REDUCE : DLR_BROADCAST,
                        .type = DL_F32,
                        .count = strcmp(how, "other") ? COUNT / 2 : COUNT,
                        .from = x,
                        .to = x,
                        .what = "another collective at m.dl:4"};
    dl_error err = {0};
    if (!dlr_comm_all(comm, &c, &err)) lost(comm, &err);
}

/* The victim leaves a collective that is done on all; the others wait for it only then. */
static void leave_done(dlr_comm *comm, bool leaves, float *x) {
    dl_error err = {0}, later = {0};
    dlr_collective c = {
        .type = DL_F32, .count = COUNT, .from = x, .to = x, .what = "all_reduce of w at m.dl:5"};
    int64_t ticket = dlr_comm_start(comm, &c);
    while (!dlr_comm_done(comm, ticket)) usleep(1000);
    bool all = dlr_comm_barrier(comm, &later);
    if (leaves && !all) lost(comm, &later);
    if (leaves) dlr_comm_leave(comm, "its disk is full");
    while (!leaves && dlr_comm_all(comm, &c, &later)) {
    }
    if (!dlr_comm_wait(comm, ticket, &err)) lost(comm, &err);
    if (!leaves && strstr(later.message, "its disk is full"))
        fprintf(stderr, "rank %d: what was done is done\n", dlr_comm_world(comm).rank);
    sleep(2); /* who ends first may end the others */
    _exit(DL_PEER);
}

int main(int argc, char **argv) {
    dl_error err = {0};
    int victim = argc > 3 ? atoi(argv[2]) : 0;
    const char *how = argc > 3 ? argv[1] : "";
    dlr_world_said said;
    signal(SIGTERM, SIG_IGN); /* of mpirun, which is told first: time to say who is lost */
    if (!strcmp(how, "start") && dlr_world_read(&said, &err) && said.world.rank == victim)
        raise(SIGSTOP);
    dlr_comm *comm =
        dlr_comm_open(&(dlr_world_options){.timeout = argc > 3 ? atof(argv[3]) : 2}, &err);
    if (!comm) {
        fprintf(stderr, "rank ?: %s\n", err.message);
        _exit(err.code);
    }
    dlr_comm *host = comm;
    if (argc > 4 && !strcmp(argv[4], "mpi"))
        dlr_comm_set_sums(comm, DLR_SUMS_MPI);
    else if (argc > 4 && !(comm = dlr_comm_nccl(host, emulator()->driver(), 0, &err)))
        lost(host, &err);
    float *x = calloc(COUNT, sizeof *x);
    for (int step = 0; step < STEPS; step++) {
        if (step == FAULT && !strcmp(how, "done"))
            leave_done(comm, dlr_comm_world(comm).rank == victim, x);
        if (step == FAULT && dlr_comm_world(comm).rank == victim)
            fail(strcmp(how, "leave") ? comm : host, how, x);
        dlr_collective c = {.type = DL_F32,
                            .count = COUNT,
                            .from = x,
                            .to = x,
                            .what = "all_reduce of w at m.dl:3"};
        if (!dlr_comm_all(comm, &c, &err)) return lost(host, &err);
    }
    free(x);
    if (comm != host && !dlr_comm_close(comm, &err)) return lost(comm, &err);
    comm = host;
    return dlr_comm_close(comm, &err) ? 0 : lost(comm, &err);
}

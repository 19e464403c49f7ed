/* Collectives in a communicator of the caller's, as a part of the MPI module. They are MPI's own,
 * blocking, on the thread that calls: so MPI_THREAD_SINGLE is enough. */
#include "runtime/comm/messages.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

struct dlr_mpi_world {
    MPI_Comm comm; /* a copy of the caller's: messages never match those of the caller */
};

static bool say(const char *what, char *error, size_t room) {
    snprintf(error, room, "%s", what);
    return false;
}

/* MPI reports a handle that is none to the handlers of its own communicators, which end the
 * process unless the caller has set others. */
static bool is_comm(MPI_Comm given, int *inter) {
    MPI_Comm own[] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    MPI_Errhandler before[2];
    for (int i = 0; i < 2; i++) {
        MPI_Comm_get_errhandler(own[i], &before[i]);
        MPI_Comm_set_errhandler(own[i], MPI_ERRORS_RETURN);
    }
    bool ok = MPI_Comm_test_inter(given, inter) == MPI_SUCCESS;
    for (int i = 0; i < 2; i++) {
        MPI_Comm_set_errhandler(own[i], before[i]);
        MPI_Errhandler_free(&before[i]);
    }
    return ok;
}

static bool take_comm(const void *mpi_comm, const int *mpi_fint, MPI_Comm *given, char *error,
                      size_t room) {
    int begun = 0, ended = 0, inter = 0;
    MPI_Initialized(&begun), MPI_Finalized(&ended);
    if (!begun || ended)
        return say(ended ? "MPI_Finalize was called before" : "call MPI_Init first", error, room);
    *given = mpi_fint ? MPI_Comm_f2c((MPI_Fint)*mpi_fint) : *(const MPI_Comm *)mpi_comm;
    if (*given == MPI_COMM_NULL) return say("the communicator is MPI_COMM_NULL", error, room);
    if (!is_comm(*given, &inter)) return say("the handle is of no communicator", error, room);
    return !inter || say("the communicator is an inter-communicator", error, room);
}

static dlr_mpi_world *open_world(const void *mpi_comm, const int *mpi_fint, dlr_mpi_place *place,
                                 char *error, size_t room) {
    MPI_Comm machine, given;
    if (!take_comm(mpi_comm, mpi_fint, &given, error, room)) return NULL;
    dlr_mpi_world *w = malloc(sizeof *w);
    if (!w) return say("no memory", error, room), NULL;
    if (MPI_Comm_dup(given, &w->comm)) {
        free(w);
        return say("MPI_Comm_dup failed", error, room), NULL;
    }
    MPI_Comm_set_errhandler(w->comm, MPI_ERRORS_RETURN);
    *place = (dlr_mpi_place){.local_size = 1};
    MPI_Comm_rank(w->comm, &place->rank), MPI_Comm_size(w->comm, &place->size);
    if (!MPI_Comm_split_type(w->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine)) {
        MPI_Comm_rank(machine, &place->local_rank), MPI_Comm_size(machine, &place->local_size);
        MPI_Comm_free(&machine);
    }
    return w;
}

static int all_to_all(dlr_mpi_world *w, const void *from, void *to, int bytes) {
    return MPI_Alltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, w->comm);
}

static int all_gather(dlr_mpi_world *w, const void *from, void *to, int bytes) {
    return MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, w->comm);
}

static int broadcast(dlr_mpi_world *w, void *at, int bytes, int root) {
    return MPI_Bcast(at, bytes, MPI_BYTE, root, w->comm);
}

static void close_world(dlr_mpi_world *w) {
    int ended = 0;
    MPI_Finalized(&ended);
    if (!ended) MPI_Comm_free(&w->comm);
    free(w);
}

const dlr_mpi_caller dlr_mpi_of_caller = {open_world, all_to_all, all_gather, broadcast,
                                          close_world};

/* The MPI module: compiled once for each MPI. */
#include "runtime/comm/messages.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static MPI_Comm channels[DLR_MPI_CHANNELS], sums;
/* Messages under way, in dense arrays: request[i] belongs to id[i]. */
static MPI_Request *requests;
static uint64_t *ids;
static int *done;
static MPI_Status *statuses;
static int n, room;

static void say(int error, char *text, size_t size) {
    char all[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(error, all, &length);
    snprintf(text, size, "%.*s", length, all);
}

static bool mpi_open(int *rank, int *size, char *error, size_t error_room) {
    int level = 0, failed = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (!failed && level < MPI_THREAD_FUNNELED) {
        snprintf(error, error_room,
                 "this MPI allows no thread in addition to its main one (MPI_THREAD_FUNNELED)");
        return false;
    }
    for (int i = 0; !failed && i < DLR_MPI_CHANNELS; i++) {
        failed = MPI_Comm_dup(MPI_COMM_WORLD, &channels[i]);
        if (!failed) MPI_Comm_set_errhandler(channels[i], MPI_ERRORS_RETURN);
    }
    if (!failed) failed = MPI_Comm_dup(MPI_COMM_WORLD, &sums);
    if (!failed) MPI_Comm_set_errhandler(sums, MPI_ERRORS_RETURN);
    if (!failed) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!failed) failed = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    if (!failed) failed = MPI_Comm_size(MPI_COMM_WORLD, size);
    if (failed) say(failed, error, error_room);
    return !failed;
}

static bool widen(void) {
    int more = room ? 2 * room : 256;
    MPI_Request *r = realloc(requests, (size_t)more * sizeof *r);
    if (r) requests = r;
    uint64_t *i = realloc(ids, (size_t)more * sizeof *i);
    if (i) ids = i;
    int *d = realloc(done, (size_t)more * sizeof *d);
    if (d) done = d;
    MPI_Status *s = realloc(statuses, (size_t)more * sizeof *s);
    if (s) statuses = s;
    if (r && i && d && s) room = more;
    return r && i && d && s;
}

static int add(int failed, MPI_Request request, uint64_t id) {
    if (failed) return failed;
    requests[n] = request, ids[n++] = id;
    return 0;
}

static int mpi_send(const void *at, int64_t bytes, int to, int tag, int channel, uint64_t id) {
    MPI_Request r;
    if (n == room && !widen()) return MPI_ERR_NO_MEM;
    int failed = MPI_Isend(at, (int)bytes, MPI_BYTE, to, tag, channels[channel], &r);
    return add(failed, r, id);
}

static int mpi_receive(void *at, int64_t bytes, int from, int tag, int channel, uint64_t id) {
    MPI_Request r;
    if (n == room && !widen()) return MPI_ERR_NO_MEM;
    int failed = MPI_Irecv(at, (int)bytes, MPI_BYTE, from, tag, channels[channel], &r);
    return add(failed, r, id);
}

static int mpi_sum(const void *from, void *to, int count, bool wide, uint64_t id) {
    MPI_Request r;
    if (n == room && !widen()) return MPI_ERR_NO_MEM;
    int failed = MPI_Iallreduce(from == to ? MPI_IN_PLACE : from, to, count,
                                wide ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, sums, &r);
    return add(failed, r, id);
}

static int descending(const void *a, const void *b) { return *(const int *)b - *(const int *)a; }

/* Tests `most` requests per call, beginning where the last call ended. Finished ones are removed
 * from the end of the dense arrays on, so that the indices of the others stay valid. */
static int mpi_poll(uint64_t *out, int *errors, int most) {
    static int from;
    for (int looked = 0; looked < n;) {
        if (from >= n) from = 0;
        int found = 0, taken = n - from < most ? n - from : most;
        int failed = MPI_Testsome(taken, requests + from, &found, done, statuses);
        looked += taken;
        if (found == MPI_UNDEFINED || found <= 0) {
            from += taken;
            continue;
        }
        for (int i = 0; i < found; i++) {
            out[i] = ids[from + done[i]];
            errors[i] = failed == MPI_ERR_IN_STATUS ? statuses[i].MPI_ERROR : failed;
            if (errors[i] == MPI_ERR_PENDING) errors[i] = 0;
        }
        qsort(done, (size_t)found, sizeof *done, descending);
        for (int i = 0; i < found; i++) {
            n--;
            requests[from + done[i]] = requests[n], ids[from + done[i]] = ids[n];
        }
        return found;
    }
    return 0;
}

static void mpi_close(void) {
    for (int i = 0; i < DLR_MPI_CHANNELS; i++) MPI_Comm_free(&channels[i]);
    MPI_Comm_free(&sums);
    MPI_Finalize();
    free(requests), free(ids), free(done), free(statuses);
    requests = NULL, ids = NULL, done = NULL, statuses = NULL, n = room = 0;
}

#define DLR_TEXT_(x) #x
#define DLR_TEXT(x)  DLR_TEXT_(x)
#if defined OPEN_MPI
#define NAME                                                                                       \
    "Open MPI v" DLR_TEXT(OMPI_MAJOR_VERSION) "." DLR_TEXT(OMPI_MINOR_VERSION) "." DLR_TEXT(       \
        OMPI_RELEASE_VERSION)
#elif defined MPICH_VERSION
#define NAME "MPICH " MPICH_VERSION
#else
#define NAME "MPI"
#endif

const dlr_mpi *dlr_mpi_table(void);
__attribute__((visibility("default"))) const dlr_mpi *dlr_mpi_table(void) {
    static const dlr_mpi table = {
        DLR_MPI_VERSION, NAME,     mpi_open, mpi_send,  mpi_receive,
        mpi_sum,         mpi_poll, say,      mpi_close, &dlr_mpi_of_caller};
    return &table;
}

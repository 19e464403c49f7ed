/* Loaded before dlrun (LD_PRELOAD), stops one rank at a named point of its run:
 *
 *   PHASE=NAME       init: before MPI starts; forward: the second step's program begins;
 * all_reduce: one of that step's large messages is under way; checkpoint: the first begins; write:
 * the first of its files is brought to disk, by the writer's thread; shutdown: MPI ends; end: it
 * has ended, and let the others go; exit: the process ends, its status is told PHASE_RANK=N     the
 * rank meant PHASE_TOLD=PATH  a FIFO that it writes a byte to when it is there PHASE_SIGNAL=N what
 * it sends to itself then; without: PHASE_GATE=PATH  it goes on once it has read a byte from this
 * FIFO PHASE_KILL_MS=MS killed so long after its first message, wherever it is then (in place of a
 * phase)
 *
 * Its name is that of NVIDIA's library of ranges, whose calls dlrun makes with ENABLE_PROFILING=1
 * and in which it says where it is. Of MPI it stands in for some functions, and calls them by their
 * second names, as MPI's profilers do; both MPIs' handles fit into a word. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 4096 };

static atomic_int programs, checkpoints, met;

static bool is_victim(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    const char *wanted = getenv("PHASE_RANK");
    for (size_t i = 0; wanted && i < sizeof names / sizeof *names; i++) {
        const char *rank = getenv(names[i]);
        if (rank) return strcmp(rank, wanted) == 0;
    }
    return false;
}

/* Writes a byte to the FIFO, or reads one; a test has it open for both. */
static void pass_byte(const char *path, int flags) {
    char byte = 0;
    int fd = open(path, flags);
    if (fd < 0 || (flags == O_WRONLY ? write(fd, &byte, 1) : read(fd, &byte, 1)) != 1) abort();
    close(fd);
}

/* The point of this name is reached. */
static void meet(const char *phase) {
    const char *wanted = getenv("PHASE"), *number = getenv("PHASE_SIGNAL"),
               *gate = getenv("PHASE_GATE"), *told = getenv("PHASE_TOLD");
    if (!wanted || strcmp(wanted, phase) != 0 || !is_victim() || atomic_fetch_add(&met, 1)) return;
    if (told) pass_byte(told, O_WRONLY);
    if (number)
        raise(
            atoi(number)); /* this thread: one that another takes lets this one go on for a while */
    if (gate) pass_byte(gate, O_RDONLY);
}

/* ---- where dlrun is ---- */

int nvtxRangePushA(const char *name);
int nvtxRangePushA(const char *name) {
    if (strcmp(name, "forward") == 0 && atomic_fetch_add(&programs, 1) == 1) meet("forward");
    if (strcmp(name, "checkpoint") == 0) atomic_fetch_add(&checkpoints, 1), meet("checkpoint");
    return 0;
}
int nvtxRangePop(void);
int nvtxRangePop(void) { return 0; }

int fsync(int fd) {
    static int (*real)(int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    if (atomic_load(&checkpoints)) meet("write");
    return real(fd);
}

/* ---- MPI ---- */

static void *second_name(const char *name) {
    void *f = dlsym(RTLD_DEFAULT, name);
    if (!f) abort();
    return f;
}

static void kill_later(void) {
    static atomic_int begun;
    const char *ms = getenv("PHASE_KILL_MS");
    if (!ms || !is_victim() || atomic_fetch_add(&begun, 1)) return;
    double seconds = atof(ms) * 1e-3;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec at = {
        .it_value = {(time_t)seconds, 1 + (long)((seconds - (double)(time_t)seconds) * 1e9)}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &at, NULL))
        abort();
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *level);
int MPI_Init_thread(int *argc, char ***argv, int wanted, int *level) {
    int (*real)(int *, char ***, int, int *);
    *(void **)&real = second_name("PMPI_Init_thread");
    meet("init");
    return real(argc, argv, wanted, level);
}

int MPI_Isend(const void *at, int n, uintptr_t type, int to, int tag, uintptr_t comm,
              void *request);
int MPI_Isend(const void *at, int n, uintptr_t type, int to, int tag, uintptr_t comm,
              void *request) {
    static int (*real)(const void *, int, uintptr_t, int, int, uintptr_t, void *);
    if (!real) *(void **)&real = second_name("PMPI_Isend");
    kill_later();
    int failed = real(at, n, type, to, tag, comm, request);
    if (n >= LARGE && atomic_load(&programs) > 1) meet("all_reduce");
    return failed;
}

int MPI_Finalize(void);
int MPI_Finalize(void) {
    int (*real)(void);
    *(void **)&real = second_name("PMPI_Finalize");
    meet("shutdown");
    int failed = real();
    meet("end");
    return failed;
}

__attribute__((destructor)) static void at_exit(void) { meet("exit"); }

#include "runtime/base/world.h"

#include "ir/base/str.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The launchers' environment variables, the innermost launcher first. mpirun within a Slurm job
 * leaves Slurm's variables to its ranks, and those count mpirun's own processes. */
typedef struct {
    const char *rank, *size, *local_rank, *local_size;
    const char *only; /* a variable that must be set, too */
    bool outer;       /* an outer launcher: ignored where another launcher's variables are set */
} launcher;
static const launcher launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL, false},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, false},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, false},
    /* A batch script has SLURM_NTASKS, too, but is in no step. */
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_ID",
     true},
};
/* Variables that launchers of MPI programs set, and no other program. */
static const char *const by_mpi[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK"};

static const char *value(const char *name) {
    const char *v = name ? getenv(name) : NULL;
    return v && *v ? v : NULL;
}

/* The variable as a number from 0 to `most`, or `absent` if it is not set. */
static bool number(const char *name, int most, int absent, int *out, dl_error *err) {
    const char *v = value(name);
    *out = absent;
    if (!v) return true;
    int64_t n;
    if (!dl_parse_int(v, &n) || n < 0 || n > most)
        return dl_fail(err, DL_USAGE,
                       "%s of the environment needs a whole number from 0 to %d, not '%.100s'",
                       name, most, v);
    *out = (int)n;
    return true;
}

enum { MOST_RANKS = 1 << 20 };

/* The world that one launcher's variables describe; size 0: none are set. */
static bool read_one(const launcher *l, dlr_world *w, dl_error *err) {
    *w = (dlr_world){0};
    if (l->only && !value(l->only)) return true;
    if (!value(l->size)) return true;
    if (!number(l->size, MOST_RANKS, 0, &w->size, err) ||
        !number(l->rank, MOST_RANKS, -1, &w->rank, err) ||
        !number(l->local_rank, MOST_RANKS, -1, &w->local_rank, err))
        return false;
    if (w->size < 1)
        return dl_fail(err, DL_USAGE, "%s=%s in the environment: a world has a rank at least",
                       l->size, value(l->size));
    /* "2(x3)": tasks by node; it gives the local size only where all nodes are equal */
    const char *local = value(l->local_size);
    if (local && strspn(local, "0123456789") == strlen(local)) w->local_size = atoi(local);
    if (w->rank >= w->size)
        return dl_fail(err, DL_USAGE, "%s=%d in the environment, but %s=%d: ranks are 0 to %d",
                       l->rank, w->rank, l->size, w->size, w->size - 1);
    return true;
}

/* True where srun offers a PMI, by which MPI's ranks find each other. Without one (--mpi=none,
 * where no other is the default) MPI does not start, or starts each rank as a world of its own. */
static bool srun_offers_pmi(void) {
    const char *type = value("SLURM_MPI_TYPE"); /* set since Slurm 22.05; older versions and Cray's
                                                   set other marks of PMI */
    if (type) return strcmp(type, "none") != 0;
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "PMI", 3) == 0) return true;
    return false;
}

static const char *mpi_launcher(void) {
    for (size_t i = 0; i < sizeof by_mpi / sizeof *by_mpi; i++)
        if (value(by_mpi[i])) return by_mpi[i];
    return value("SLURM_STEP_ID") && srun_offers_pmi() ? "SLURM_STEP_ID" : NULL;
}

/* Whether two launchers' variables describe the same world. */
static bool agree(const launcher *a, const dlr_world *x, const launcher *b, const dlr_world *y,
                  dl_error *err) {
    if (x->size != y->size)
        return dl_fail(
            err, DL_USAGE,
            "the environment contradicts itself: %s=%d, but %s=%d; unset the one that is left "
            "over from another job",
            a->size, x->size, b->size, y->size);
    if (x->rank >= 0 && y->rank >= 0 && x->rank != y->rank)
        return dl_fail(err, DL_USAGE, "the environment contradicts itself: %s=%d, but %s=%d",
                       a->rank, x->rank, b->rank, y->rank);
    return true;
}

bool dlr_world_read(dlr_world_said *said, dl_error *err) {
    const launcher *by = NULL;
    *said = (dlr_world_said){.world = {0, 1, 0, 1}, .launcher = mpi_launcher()};
    dlr_world *w = &said->world, other;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const launcher *l = &launchers[i];
        if (!read_one(l, &other, err)) return false;
        if (!other.size || (by && l->outer)) continue;
        if (!by) {
            by = l, *w = other;
            continue;
        }
        if (!agree(by, w, l, &other, err)) return false;
        if (w->rank < 0) w->rank = other.rank;
        if (w->local_rank < 0) w->local_rank = other.local_rank;
        if (!w->local_size) w->local_size = other.local_size;
    }
    if (!by) return true;
    said->size_name = by->size;
    said->torchrun = value("TORCHELASTIC_RUN_ID") || (value("MASTER_ADDR") && !said->launcher);
    if (w->size == 1) *w = (dlr_world){0, 1, 0, 1};
    if (w->rank < 0)
        return dl_fail(err, DL_USAGE,
                       "%s=%d in the environment, and no %s says which of them this is", by->size,
                       w->size, by->rank);
    if (w->local_rank < 0) w->local_rank = 0;
    return true;
}

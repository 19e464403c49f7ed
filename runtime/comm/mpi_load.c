/* The module of the MPI that started this process. Open MPI and MPICH differ in their binary interface, and a
 * rank of one that initialises the other would be alone in a world of its own. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/str.h"
#include "runtime/comm/engine.h"

#ifndef DLR_MODULES
#define DLR_MODULES "/usr/lib/dlc"
#endif

static const char *const families[] = {"openmpi", "mpich", "mpi"};
enum { FAMILIES = sizeof families / sizeof *families };

static bool is_set(const char *name) {
    const char *v = getenv(name);
    return v && *v;
}

/* The family that left its marks in the environment; NULL: none did, as with srun. */
static const char *by_environment(void) {
    if (is_set("DLR_MPI")) return getenv("DLR_MPI");
    if (is_set("OMPI_COMM_WORLD_SIZE") || is_set("OMPI_MCA_orte_hnp_uri")) return "openmpi";
    if (is_set("PMI_FD") || is_set("PMI_PORT") || is_set("PMI_SIZE")) return "mpich";
    if (is_set("PMIX_RANK")) return "openmpi";
    return NULL;
}

/* The module of that family: beside the program, where it is installed, or in a build directory. */
static void *open_module(const char *family, dl_buf *tried) {
    char self[3000], path[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    const char *const folders[] = {self, DLR_MODULES, "..", "../.."};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (folders[i][0] == '.')
            snprintf(path, sizeof path, "%s/%s/runtime/comm/dlr_mpi_%s.so", self, folders[i], family);
        else
            snprintf(path, sizeof path, "%s/dlr_mpi_%s.so", folders[i], family);
        if (access(path, R_OK)) continue;
        /* its own parts look for the library's symbols among all */
        void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (handle) return handle;
        dl_putf(tried, "%s%s", tried->n ? "; " : "", dlerror());
    }
    return NULL;
}

const dlr_mpi *dlr_mpi_load(const dlr_world_said *said, dl_error *err) {
    const char *family = by_environment();
    dl_buf tried = {0};
    void *handle = family ? open_module(family, &tried) : NULL;
    for (int i = 0; !family && !handle && i < FAMILIES; i++) handle = open_module(families[i], &tried);
    if (family && !handle && !is_set("DLR_MPI")) handle = open_module("mpi", &tried);
    dlr_mpi_table_fn *table = NULL;
    if (handle) *(void **)&table = dlsym(handle, DLR_MPI_SYMBOL);
    const dlr_mpi *mpi = table ? table() : NULL;
    if (!mpi || mpi->version != DLR_MPI_VERSION) {
        dl_fail(err, DL_RESOURCE,
                "%s=%d: this dlrun has no module for %s (dlr_mpi_%s.so)%s%s; build it where that MPI's "
                "development "
                "package is installed (docs/distributed.md)",
                said->size_name, said->world.size, family ? family : "an MPI", family ? family : "openmpi",
                tried.n ? ": " : "", tried.n ? tried.at : "");
        mpi = NULL;
    }
    dl_buf_free(&tried);
    return mpi;
}

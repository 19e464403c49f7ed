/* Loads the module of the MPI that started this process. Open MPI and MPICH differ in their binary
 * interface, and a process that one started and that initializes the other would be alone in a
 * world of its own. In a program of a caller's: the module of the MPI that it has loaded. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/install.h"
#include "ir/base/str.h"
#include "runtime/comm/engine.h"

static const char *const families[] = {"openmpi", "mpich", "mpi"};
enum { FAMILIES = sizeof families / sizeof *families };

static bool is_set(const char *name) {
    const char *v = getenv(name);
    return v && *v;
}

/* The MPI family by the environment variables that its launcher sets; NULL: none are set, as with
 * srun. */
static const char *by_environment(void) {
    if (is_set("DLR_MPI")) return getenv("DLR_MPI");
    if (is_set("OMPI_COMM_WORLD_SIZE") || is_set("OMPI_MCA_orte_hnp_uri")) return "openmpi";
    if (is_set("PMI_FD") || is_set("PMI_PORT") || is_set("PMI_SIZE")) return "mpich";
    if (is_set("PMIX_RANK")) return "openmpi";
    return NULL;
}

enum { PATH_ROOM = 4096, PLACES = 4 };

/* The places where that family's module may be: next to the program, in a build directory, where
 * it is installed. False: no such place. */
static bool place_of(int place, const char *family, char path[PATH_ROOM]) {
    static const char *const subfolder[PLACES] = {"", "/../runtime/comm", "/../../runtime/comm"};
    char dir[3000];
    const bool known = subfolder[place]
                           ? dl_install_own_dir(dir, sizeof dir)
                           : dl_install_own_path(DLR_MODULES, dir, sizeof dir) ||
                                 dl_install_configured_path(DLR_MODULES, dir, sizeof dir);
    if (!known) return false;
    snprintf(path, PATH_ROOM, "%s%s/dlr_mpi_%s.so", dir, subfolder[place] ? subfolder[place] : "",
             family);
    return access(path, R_OK) == 0;
}

bool dlr_comm_speaks(const char *family) {
    char path[PATH_ROOM];
    for (int i = 0; i < PLACES; i++)
        if (place_of(i, family, path)) return true;
    return false;
}

static void *open_module(const char *family, dl_buf *tried) {
    char path[PATH_ROOM];
    for (int i = 0; i < PLACES; i++) {
        if (!place_of(i, family, path)) continue;
        /* the library's own plug-ins look for its symbols in the global scope */
        void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        if (handle) return handle;
        dl_putf(tried, "%s%s", tried->n ? "; " : "", dlerror());
    }
    return NULL;
}

/* By its own scope: modules of two MPIs have the same names. */
static void put_module(dl_buf *to, const char *path) {
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    dlr_mpi_table_fn *table = NULL;
    if (handle) *(void **)&table = dlsym(handle, DLR_MPI_SYMBOL);
    if (table)
        dl_putf(to, "%s (%s)\n", table()->name, path);
    else
        dl_putf(to, "MPI: %s\n", dlerror());
}

const char *dlr_mpi_text(dl_arena *arena) {
    dl_buf text = {0};
    char path[PATH_ROOM];
    for (int i = 0; i < FAMILIES; i++)
        for (int place = 0; place < PLACES; place++)
            if (place_of(place, families[i], path)) {
                put_module(&text, path);
                break;
            }
    if (!text.n) dl_puts(&text, "no module for MPI\n");
    const char *lines = dl_strdup(arena, text.at);
    dl_buf_free(&text);
    return lines;
}

const dlr_mpi *dlr_mpi_load(const dlr_world_said *said, dl_error *err) {
    const char *family = by_environment();
    dl_buf tried = {0};
    void *handle = family ? open_module(family, &tried) : NULL;
    for (int i = 0; !family && !handle && i < FAMILIES; i++)
        handle = open_module(families[i], &tried);
    if (family && !handle && !is_set("DLR_MPI")) handle = open_module("mpi", &tried);
    dlr_mpi_table_fn *table = NULL;
    if (handle) *(void **)&table = dlsym(handle, DLR_MPI_SYMBOL);
    const dlr_mpi *mpi = table ? table() : NULL;
    if (mpi && mpi->version != DLR_MPI_VERSION) {
        dl_fail(
            err, DL_RESOURCE,
            "%s=%d: the module for %s that was found is of another version of dlrun (%d, not %d): "
            "install both anew",
            said->size_name, said->world.size, mpi->name, mpi->version, DLR_MPI_VERSION);
        mpi = NULL;
    } else if (!mpi) {
        dl_fail(
            err, DL_RESOURCE,
            "%s=%d: this dlrun has no module for %s (dlr_mpi_%s.so)%s%s; build it where that MPI's "
            "development "
            "package is installed (docs/guide/many-gpus.md)",
            said->size_name, said->world.size, family ? family : "an MPI",
            family ? family : "openmpi", tried.n ? ": " : "", tried.n ? tried.at : "");
        mpi = NULL;
    }
    dl_buf_free(&tried);
    return mpi;
}

/* The MPI that this process has loaded; outside of the global scope, as Python loads its
 * extensions, by the library's name. */
static int find_version(struct dl_phdr_info *library, size_t size, void *found) {
    static const char symbol[] = "MPI_Get_library_version";
    const char *name = strrchr(library->dlpi_name, '/');
    (void)size;
    if (!name || strncmp(name, "/libmpi", 7)) return 0;
    void *handle = dlopen(library->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) return 0;
    *(void **)found = dlsym(handle, symbol);
    dlclose(handle); /* it stays, as the process holds it */
    return *(void **)found != NULL;
}

/* The family of the MPI that the process has loaded, or that its launcher names. */
static const char *family_of_process(void) {
    char text[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH */
    int length = 0, (*version)(char *, int *) = NULL;
    *(void **)&version = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    if (!version) dl_iterate_phdr(find_version, &version);
    if (!version || version(text, &length)) return by_environment();
    return strstr(text, "Open MPI") ? "openmpi" : strstr(text, "MPICH") ? "mpich" : "mpi";
}

const dlr_mpi *dlr_mpi_of_process(dl_error *err) {
    const char *family = family_of_process();
    dl_buf tried = {0};
    void *handle = family ? open_module(family, &tried) : NULL;
    dlr_mpi_table_fn *table = NULL;
    if (handle) *(void **)&table = dlsym(handle, DLR_MPI_SYMBOL);
    const dlr_mpi *mpi = table ? table() : NULL;
    if (mpi && mpi->version != DLR_MPI_VERSION) mpi = NULL;
    if (!mpi)
        dl_fail(err, DL_RESOURCE, "the MPI communicator: %s%s%s%s%s",
                family ? "there is no module of this version for " : "this process has no MPI",
                family ? family : "", family ? " (dlr_mpi_*.so)" : "", tried.n ? ": " : "",
                tried.n ? tried.at : "");
    dl_buf_free(&tried);
    return mpi;
}

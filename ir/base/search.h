/* The places of a library of CUDA, the best first. */
#ifndef DL_CUDA_SEARCH_H
#define DL_CUDA_SEARCH_H
#include "ir/base/arena.h"

typedef struct {
    const char *path; /* a file that was there; or a bare name, for the loader's own search */
    bool override;    /* the user's own choice: nothing else will do */
} dl_candidate;
typedef DL_ARRAY(dl_candidate) dl_candidates;

/* The candidates for a library by its names ("libnvrtc.so.13", "libnvrtc.so.12", NULL; best first),
 * in this order: the file or folder that the environment variable `override` names; libraries that
 * this process has loaded; the Python packages (nvidia/cu13/lib, nvidia/NAME/lib) of VIRTUAL_ENV,
 * of CONDA_PREFIX, of `own` (a folder in the user's cache: ~/.cache/OWN; NULL: none), of the user
 * and of the system; CONDA_PREFIX/lib; the bare names; CUDA_HOME, CUDA_PATH and /usr/local/cuda.
 * Files of other machines are left out. Names of a later major version of CUDA than this machine's
 * driver come last, since that driver does not load their code. */
dl_candidates dl_cuda_search(dl_arena *arena, const char *const *names, const char *override,
                             const char *own);
/* These places in words, for messages. */
const char *dl_cuda_places(dl_arena *arena, const char *override, const char *own);
/* Opens the library of this machine's driver: libcuda.so.1 by the loader's search. A container may
 * have the file without this link, which ldconfig makes: then libcuda.so.VERSION in the folders of
 * LD_LIBRARY_PATH, and where distributions and containers put it. NULL: there is none; *why is the
 * loader's reason. */
void *dl_cuda_driver(const char **why);
/* Asks a driver (as dl_cuda_driver gives it) for its version of CUDA, times 1000 (12040:
 * 12.4); without one, *version is 0. Returns the driver's own status. */
int dl_cuda_version_of(void *driver, int *version);
/* The file that a loaded library came from, or NULL. */
const char *dl_cuda_loaded_from(dl_arena *arena, void *handle);
#endif

/* The commands of `dldata`: each a row in the file of that name. */
#ifndef CLI_DLDATA_H
#define CLI_DLDATA_H
#include "cli/cli.h"

extern const dl_subcommand dldata_nbody, dldata_weather, dldata_images, dldata_fields,
    dldata_inspect;

/* Options that the simulating commands share. */
#define DLDATA_THREADS                                                                             \
    { "threads", 0, "N", "threads; the bytes written do not depend on it (all)" }
#define DLDATA_FORCE                                                                               \
    { "force", 0, NULL, "replace a file that this command did not make" }
#define DLDATA_QUIET                                                                               \
    { "quiet", 'q', NULL, "print errors alone" }

/* The values of the shared options, as far as a command has them. */
typedef struct {
    const char *path; /* --output */
    int64_t seed, threads;
    bool quiet, force;
} dldata_shared;

/* Reads them. wanted: what --output should be, with an example. Errors: DL_USAGE, also without
 * --output. */
bool dldata_read_shared(const dl_config *c, const char *wanted, dldata_shared *out, dl_error *err);
/* Whether `need` bytes of memory are free. The error reads "WHAT 1.5 GiB of memoryWHY, and 1.0 GiB
 * are free". Errors: DL_RESOURCE. */
bool dldata_check_memory(uint64_t need, const char *what, const char *why, dl_error *err);
#endif

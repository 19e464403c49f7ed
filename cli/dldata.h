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
#define DLDATA_HELP                                                                                \
    { "help", 'h', NULL, "this text" }
#endif

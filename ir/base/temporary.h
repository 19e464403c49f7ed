/* Temporaries in the directory of the files and directories that they will become; for output.c. */
#ifndef DL_TEMPORARY_H
#define DL_TEMPORARY_H
#include "ir/base/status.h"
#include <sys/types.h>

/* Makes a locked temporary in the directory that `target` stands in, a file of this mode or a
 * directory (S_IFDIR), and removes the temporaries of dead processes there. Its path goes to *path
 * (free it), its descriptor is returned, -1 with an error: DL_IO naming `name`, what the user calls
 * the target; DL_RESOURCE. */
int dl_temporary_open(const char *target, mode_t mode, const char *name, char **path,
                      dl_error *err);

/* Removes the temporaries of dead processes in this directory; looks once a process. Safe next to
 * live ones, whose temporaries are locked. Where a directory cannot be locked (NFS), theirs
 * stay. */
void dl_temporary_sweep(const char *dir);
#endif

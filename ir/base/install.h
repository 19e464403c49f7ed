/* Where the files of this installation lie: found from the program's own file, so that a prefix can
 * be moved or copied. */
#ifndef DL_INSTALL_H
#define DL_INSTALL_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The real path of the folder that holds the program, or the shared library, which this function
 * is linked into, in `dir` of n bytes. False: /proc is not there, or the path is longer. */
bool dl_install_own_dir(char *dir, size_t n);
/* The path of an installed folder in `path` of n bytes. folder: as meson has it, under the prefix
 * ("share/dlc"), or absolute, which stays. The prefix is the program's own: that in whose bindir
 * or libdir its file lies. False: the program lies in none, as in a build; or longer than n. */
bool dl_install_own_path(const char *folder, char *path, size_t n);
/* The same under the prefix that was configured. */
bool dl_install_configured_path(const char *folder, char *path, size_t n);
/* Whether code that this user owns may run as ours: ours, root's, and that of the owner of this
 * program, whose code runs anyway. */
bool dl_install_trusts(uid_t owner);
#endif

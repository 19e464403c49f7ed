/* Whether a folder of compiled code may be used: nobody but trusted users decides what is in it. */
#ifndef DL_CACHE_TRUST_H
#define DL_CACHE_TRUST_H
#include "ir/base/arena.h"

/* The user's own cache, by its real path, made if missing. NULL: DL_IO when it cannot be made;
 * DL_TRUST when it belongs to another user, is a link, or others may write to it or to a directory
 * in its path. Directories of the path must belong to the user or root; sticky ones such as /tmp
 * are fine. */
const char *dl_cache_trust_own(dl_arena *arena, const char *dir, dl_error *err);
/* A cache that is only read, by its real path: it and the directories of its path belong to the
 * user, to root or to the owner of this program (dl_install_trusts); links are followed. NULL:
 * DL_IO when it is not there, DL_TRUST. */
const char *dl_cache_trust_shared(dl_arena *arena, const char *dir, dl_error *err);
#endif

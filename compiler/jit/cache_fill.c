#include "compiler/jit/cache_fill.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/str.h"

enum {
    PAUSE_MS = 20, /* between two looks at another process's work */
    PATIENCE = 60, /* seconds before the user is told */
    LONGEST = 600, /* seconds before the work is done twice: that process may be stopped */
};

/* Locks of bytes of one file: the byte of an entry's key is locked by who makes it. They are of the
 * open file, so that threads exclude each other, too, and end with it. -1: there are none. */
static int open_claims(dl_arena *arena, const dl_cache *c) {
    enum { FLAGS = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };
    return c->own ? open(dl_format(arena, "%s/.claims", c->own), FLAGS, 0600) : -1;
}

/* False: another one makes it. File systems without locks refuse nobody. */
static bool claim(int claims, uint64_t key) {
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)(key & (uint64_t)INT64_MAX >> 1),
                         .l_len = 1};
    return claims < 0 || fcntl(claims, F_OFD_SETLK, &lock) == 0 ||
           (errno != EAGAIN && errno != EACCES);
}

/* Makes the missing entries that nobody else makes, and leaves the others in `missing`. The number
 * of the others; -1 with an error. */
static int make_mine(dl_arena *arena, const dl_cache *c, const dl_cache_wants *w, bool all, int n,
                     int *missing, int *made, dl_error *err) {
    int *mine = DL_NEWS(arena, int, n), nmine = 0, others = 0;
    const int claims = open_claims(arena, c);
    for (int k = 0; k < n; k++) {
        const int i = missing[k];
        if (!claim(claims, w->keys[i]) && !all)
            missing[others++] = i;
        else if (!w->take(w->of, i, false)) /* it may have come before it was claimed */
            mine[nmine++] = i;
    }
    const bool ok = !nmine || w->make(w->of, nmine, mine, err);
    if (claims >= 0) close(claims);
    *made += nmine;
    return ok ? others : -1;
}

bool dl_cache_fill(dl_arena *arena, const dl_cache *c, const dl_cache_wants *w,
                   const dl_console *out, int *made, dl_error *err) {
    int *missing = DL_NEWS(arena, int, w->n + 1), n = 0;
    const double start = dl_clock_seconds();
    bool told = false;
    *made = 0;
    for (int i = 0; i < w->n; i++)
        if (!w->take(w->of, i, true)) missing[n++] = i;
    while (n > 0) {
        const double waited = dl_clock_seconds() - start;
        const int before = n;
        n = make_mine(arena, c, w, waited > LONGEST, n, missing, made, err);
        if (n < 0) return false;
        if (!told && out && waited > PATIENCE && n) {
            told = true;
            dl_console_warning(out, "another process compiles the same kernels: waiting for it");
        }
        if (n == before) nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    }
    return true;
}

/* Ends child processes with their parent, however the parent ends: SIGKILL leaves it no time to end
 * them. */
#ifndef DL_LIFELINE_H
#define DL_LIFELINE_H
#include <stdbool.h>
#include <sys/types.h>

/* A pipe whose write end only the parent holds, and which nobody writes to. The kernel closes that
 * end when the parent ends, and signals the child that watches the read end. */
typedef struct {
    int watch, hold; /* the child's end, the parent's; both are closed by exec */
} dl_lifeline;

/* False: errno says why. */
bool dl_lifeline_open(dl_lifeline *l);

/* For a child between fork (or vfork) and exec, in a process group of its own: the whole group is
 * killed as soon as the parent is gone, programs that its members start included. The read end
 * stays open over exec. A parent that is gone already ends the child here. False: errno says why.
 * Calls nothing that a child of vfork may not. */
bool dl_lifeline_bind_group(const dl_lifeline *l);

/* For a child that executes nothing: it ends as soon as the other end of `socket`, its own end of a
 * pair, is closed. Takes SIGIO. A message of the parent wakes a handler, which looks whether the
 * parent is still there. */
void dl_lifeline_bind_socket(int socket);

/* In the parent once the child has the read end; closing the write end kills the rest of the
 * group. */
void dl_lifeline_keep(dl_lifeline *l);
void dl_lifeline_close(dl_lifeline *l);
#endif

/* Reads an untrusted file in a child process with limits: libhdf5 1.10 can crash, hang or ask for
 * any amount of memory on a damaged file, and then only the child is lost. */
#ifndef DL_SANDBOX_H
#define DL_SANDBOX_H
#include "ir/base/str.h"

/* A reader's result, which the caller frees (dl_buf_free). */
typedef struct {
    dl_buf text, bytes; /* for people; for programs */
} dl_sandbox_result;
typedef bool dl_sandbox_reader(void *ctx, dl_sandbox_result *out, dl_error *err);

/* Runs read(ctx, ...) in the child and brings back its result or error. `path` is for messages. A
 * child that dies or passes a limit is DL_INPUT, the file is damaged: `cpu_seconds` of processor
 * time, 60 s in all, 2 GiB of memory more than this process has, no file written, nothing printed.
 * Its result is as untrusted as the file: the caller checks its numbers. Forks: before devices and
 * MPI are started, and with no lock held that the reader needs. Errors: those, and DL_RESOURCE
 * without a child. */
bool dl_sandbox_run(const char *path, int cpu_seconds, dl_sandbox_reader *read, void *ctx,
                    dl_sandbox_result *out, dl_error *err);

/* For children that stay. The limits above, in a child just forked; only descriptor `keep` stays
 * open, and it is the one that comes back: the child's end of a pair of sockets. The child ends
 * when the parent's end is closed, in the middle of its reading too. Signals of a terminal or a
 * batch system, meant for the parent, are ignored. */
int dl_sandbox_enter(int keep);
/* Called by a reader: from now on it has so many seconds of processor time, and 60 s more in all.
 * 0: it waits. */
void dl_sandbox_allow(int cpu_seconds);
/* Writes how a child ended, by its status from waitpid (-1: not known), as the end of a
 * sentence. */
void dl_sandbox_fate(int status, char *why, size_t n);
/* Whole buffers through a pipe or socket; false when the other end is gone (which raises no SIGPIPE
 * on a socket). */
bool dl_send_bytes(int fd, const void *data, size_t n);
bool dl_receive_bytes(int fd, void *data, size_t n);
#endif

/* A child process that reads one file by a library, for one array, and answers requests until its
 * parent closes it. It works under limits (ir/base/sandbox.h): 2 GiB of memory, and for each
 * request 20 s of processor time and 80 s in all. Private to the formats. */
#ifndef DLR_READER_CHILD_H
#define DLR_READER_CHILD_H
#include "ir/base/file_calls.h"
#include "ir/base/status.h"
#include <stddef.h>

/* The answer to a request; `bytes` of data follow when `ok`. */
typedef struct {
    bool ok;
    char reason[200]; /* why not, as the end of "cannot read x.h5: ..." */
    uint64_t bytes;
    uint32_t skipped;    /* of a packed chunk of HDF5: the filters that were not applied */
    dl_file_calls calls; /* file system calls of the child, which count as this process' own */
} dlr_child_answer;

/* The child's part: both functions run in the child alone. */
typedef struct {
    size_t question; /* bytes of a request */
    /* Opens the file. False: a->reason says why. */
    bool (*open)(void *context, dlr_child_answer *a);
    /* The data of a request, which are freed; fills in the answer. Its reason is "no memory" where
     * it leaves it alone. */
    void *(*read)(void *context, const void *question, dlr_child_answer *a);
} dlr_child_work;

typedef struct dlr_child dlr_child;

/* Starts a child, in which the memory of `context` is as it is now. `label` and `path` are for
 * messages; the label stays valid. NULL with an error: DL_INPUT (the file cannot be opened),
 * DL_RESOURCE. Forks: before devices and MPI are started. */
dlr_child *dlr_child_start(const char *label, const char *path, const dlr_child_work *work,
                           void *context, dl_error *err);
/* Sends a request. *out: where its data go, which must be `bytes`; or NULL: memory that the caller
 * frees, of at most `bytes` (NULL: the answer has none). Many threads may ask; one at a time is
 * served. Errors (DL_INPUT): the child's reason, or that it was lost. */
bool dlr_child_ask(dlr_child *c, const void *question, void **out, uint64_t bytes,
                   dlr_child_answer *a, dl_error *err);
void dlr_child_close(dlr_child *c); /* NULL is fine */
#endif

/* Runs code that reads what it should not trust in a forked child with limits, so that a fault there is an
 * answer here. The child shares nothing but its answer. */
#ifndef DLR_SANDBOX_H
#define DLR_SANDBOX_H
#include <stdbool.h>
#include <stddef.h>

/* Calls job(question, answer) in a child; `answer`, zeroed there, comes back when the job returned. False,
 * with `why` (of at least 160 bytes) saying what became of the child, when it crashed or passed a limit: 5 s
 * of processor time, 60 s in all, 1 GiB of memory more than this process has, no file written. What the
 * answer holds is as trustworthy as what the job read: strings in it need their end set, numbers a check. The
 * caller holds every lock that the job will need. */
typedef void dlr_sandbox_job(const void *question, void *answer);
bool dlr_sandbox(dlr_sandbox_job *job, const void *question, void *answer, size_t bytes, char *why);
#endif

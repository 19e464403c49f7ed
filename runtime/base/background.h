/* A background thread that runs one slow job at a time, while its owner goes on. */
#ifndef DLR_BACKGROUND_H
#define DLR_BACKGROUND_H
#include "ir/base/status.h"

typedef struct dlr_background dlr_background;
typedef bool dlr_job(void *context, dl_error *err);

/* Starts the thread; it blocks all signals, so that the program's own thread receives them. Errors:
 * DL_RESOURCE. */
dlr_background *dlr_background_open(dl_error *err);
/* Begins a job. The owner must not touch anything that the job uses until dlr_background_wait
 * returns. No other job may be under way. */
void dlr_background_start(dlr_background *b, dlr_job *job, void *context);
/* True while a job runs that is not done yet. */
bool dlr_background_busy(dlr_background *b);
/* Waits for the last job, if it was not waited for yet, and returns its result; true without one.
 * `seconds`: how long the job took, 0 without one; may be NULL. */
bool dlr_background_wait(dlr_background *b, double *seconds, dl_error *err);
/* Waits for the job, drops its result, and ends the thread. NULL is fine. */
void dlr_background_close(dlr_background *b);
#endif

/* One thread that does one job at a time behind its owner's back: what is slow and need not be waited for. */
#ifndef DLR_BACKGROUND_H
#define DLR_BACKGROUND_H
#include "ir/base/status.h"

typedef struct dlr_background dlr_background;
typedef bool dlr_job(void *context, dl_error *err);

/* Starts the thread; it blocks all signals, so that the program's own thread receives them. Errors:
 * DL_RESOURCE. */
dlr_background *dlr_background_open(dl_error *err);
/* Begins a job; its owner touches nothing of what the job uses until it has waited. There must be no other
 * under way. */
void dlr_background_start(dlr_background *b, dlr_job *job, void *context);
/* Whether a job is under way that is not done yet. */
bool dlr_background_busy(dlr_background *b);
/* Waits for the job that was started last, if there is one that was not waited for, and gives what it gave;
 * true without one. `seconds`: how long the job took, 0 without one; may be NULL. */
bool dlr_background_wait(dlr_background *b, double *seconds, dl_error *err);
/* Waits for the job, whose result is lost, and ends the thread. NULL is fine. */
void dlr_background_close(dlr_background *b);
#endif

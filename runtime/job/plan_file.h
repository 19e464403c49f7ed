/* A run of a plan's file, `dlrun FILE.dlp`: the model and the configuration are the plan's, its
 * programs are run as they are, and no compiler is needed. */
#ifndef DL_PLAN_FILE_H
#define DL_PLAN_FILE_H
#include "runtime/job/job.h"

/* Reads the plan that the command line names, if it names one, as p->given; afterwards the
 * configuration and the model are its. Errors: those of dl_plan_choice_read; DL_USAGE: the
 * command line names another. */
bool dl_job_take_plan_file(dl_run_job *p, dl_error *err);
/* Whether p->given holds the programs of the session, for this device. Errors: those of
 * dl_origin_check. */
bool dl_job_check_plan_file(dl_run_job *p, dl_error *err);
#endif

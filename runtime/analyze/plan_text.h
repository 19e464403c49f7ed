/* A plan's programs for people: `dlc compile --dump=plan`. */
#ifndef DL_PLAN_TEXT_H
#define DL_PLAN_TEXT_H
#include "ir/plan/plan.h"

/* A line a step: a kernel's work, bytes and predicted time, a collective's tensors, bytes, group
 * and source line where it begins, and where it is waited for. */
void dl_put_plan(dl_buf *b, const dl_plan *p);
#endif

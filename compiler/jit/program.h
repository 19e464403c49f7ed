/* A planned graph as a program of a plan. */
#ifndef DL_PROGRAM_H
#define DL_PROGRAM_H
#include "ir/plan/plan.h"

/* "vit.dl:14": a source location as plans print it. */
void dl_put_line(dl_buf *b, dl_loc loc);

/* Adds the graph's variables that the plan does not have yet, and its program. Launches come in
 * the graph's order; collectives start at their nodes and are waited for before their first
 * readers. The graph's kernels are the plan's from number first_kernel on. */
void dl_add_program(dl_plan *p, const dl_graph *g, int first_kernel);
#endif

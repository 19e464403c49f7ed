/* A planned graph as a program of a plan. */
#ifndef DL_PROGRAM_H
#define DL_PROGRAM_H
#include "ir/plan/plan.h"

/* "vit.dl:14", as a plan says where something is from. */
void dl_put_line(dl_buf *b, dl_loc loc);

/* Adds the graph's variables, as far as the plan has them not, and its program: launches in the
 * graph's order, collectives begun where their nodes stand and waited for in front of their first
 * readers. The graph's kernels are those of the plan from number first_kernel on. */
void dl_add_program(dl_plan *p, const dl_graph *g, int first_kernel);
#endif

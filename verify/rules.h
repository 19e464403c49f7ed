/* Shared by rules.c, which chooses the nodes, and rule_probe.c, which tests one. */
#ifndef DL_RULES_H
#define DL_RULES_H
#include "verify/parts.h"

enum {
    DL_RULES_CROP = 1 << 13 /* elements of an elementwise tensor: a part of it is representative */
};

struct dl_rules {
    dl_arena *arena;
    const dl_verify_run *run;
    dl_verdict *v;
    DL_ARRAY(char *) seen; /* signatures */
    double spent;
    bool taken[DL_NOPS]; /* a node of this op was tested */
    const dl_graph *g;   /* the current graph */
    bool *chosen, *active,
        *needed; /* by value of g: to be tested; depends on a parameter; the loss depends on it */
};

/* May the test use a part of the tensors? For elementwise ops, sums and the like. */
bool dl_rules_may_crop(const dl_node *n);
#endif

/* Between rules.c, which chooses the nodes, and rule_probe.c, which judges one. */
#ifndef DL_RULES_H
#define DL_RULES_H
#include "verify/parts.h"

enum {
    DL_RULES_CROP =
        1 << 13 /* elements of what is computed element by element, of which a part says all */
};

struct dl_rules {
    dl_arena *arena;
    const dl_verify_run *run;
    dl_verdict *v;
    DL_ARRAY(char *) seen; /* signatures */
    double spent;
    bool taken[DL_NOPS];            /* one of this op was judged */
    const dl_graph *g;              /* the present one */
    bool *chosen, *active, *needed; /* by value of g: judged; made of a parameter; makes the loss */
};

/* Of what is computed element by element, and of sums and the like, a part may be looked at. */
bool dl_rules_may_crop(const dl_node *n);
#endif

/* Private to validate*.c: shared state of the checks. */
#ifndef DL_VALIDATE_PARTS_H
#define DL_VALIDATE_PARTS_H
#include "ir/validate/validate.h"

typedef struct {
    const dl_graph *g;
    dl_stage stage;
    dl_arena *scratch;
    const dl_value **known;    /* by id: the value defined so far, or NULL */
    const dl_value **update;   /* by id of a variable's value: its next value, or NULL */
    const dl_var **vars;       /* by name */
    const dl_kernel **kernels; /* the graph's list, by address */
    int64_t bytes;             /* of all values, those read counted again */
    dl_error *err;
} dl_checker;

/* "graph train: %3 = add %1, %2 : f32[N=2]: what is wrong". The node may be NULL. Returns false. */
bool dl_check_fail(dl_checker *c, const dl_node *n, const char *format, ...) DL_PRINTF(3, 4);

/* validate_memory.c */
bool dl_check_order(dl_checker *c);
bool dl_check_memory(dl_checker *c);
#endif

/* What the fusion's two halves of writing a kernel share: fuse_op.c has the instructions of one
 * node, fuse_kernel.c their order, stores and parameters. */
#ifndef DL_FUSE_MAKER_H
#define DL_FUSE_MAKER_H
#include "passes/fuse/fuse.h"

typedef struct {
    int instr;
    const dl_value *value;
    const dl_index *index;
} dl_loaded;

typedef struct {
    dl_fusion *f;
    dl_arena *scratch; /* of this kernel */
    const dl_group *group;
    dl_kernel *k;
    DL_ARRAY(dl_value *) operands; /* of the fused node, one an input parameter */
    DL_ARRAY(dl_loaded) loads;
    int *
        level; /* by member: how many reductions of the group, one behind the other, it waits for */
    bool
        sweeps_again; /* later sweeps over the points may read back what earlier ones have stored */
} dl_maker;

/* Appends an instruction; its number. */
int dl_maker_emit(dl_maker *m, dl_kinstr i);
/* Each axis of `t` follows the space axis of its name; one without a name has size 1 and follows
 * none. */
void dl_maker_identity(const dl_maker *m, const dl_type *t, dl_index *index);
/* The indices of `t`, along whose axis the numbers of n go: by value `number` there, elsewhere the
 * space axis of the name. */
void dl_maker_by_number(const dl_maker *m, const dl_node *n, const dl_type *t, int number,
                        dl_outside outside, dl_index *index);
/* The instruction that has a value at this point: the one that made it, or a load. */
int dl_maker_read(dl_maker *m, dl_value *v);
/* The instruction that makes a member's result at this point, behind those that have its operands.
 */
int dl_maker_compute(dl_maker *m, const dl_node *n);
#endif

/* Shared by the two files that write a kernel: fuse_op.c emits the instructions of one node,
 * fuse_kernel.c orders them and adds stores and parameters. */
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
    const dl_cluster *cluster;
    dl_kernel *k;
    DL_ARRAY(dl_value *) operands; /* operands of the fused node, one for each input parameter */
    DL_ARRAY(dl_loaded) loads;
    int *level; /* by member: the length of the longest chain of the cluster's reductions that it
                   depends on */
    bool reads_back; /* later loop nests may load values that earlier ones have stored */
} dl_maker;

/* Appends an instruction; returns its number. */
int dl_maker_emit(dl_maker *m, dl_kinstr i);
/* Each axis of `t` is indexed by the space axis of its name. An axis without a name has size 1
 * and no space axis. */
void dl_maker_identity(const dl_maker *m, const dl_type *t, dl_index *index);
/* The indices of `t` for a gather or scatter n: instruction `number` holds the index along the
 * axis of n; other axes are indexed by the space axis of their name. */
void dl_maker_by_number(const dl_maker *m, const dl_node *n, const dl_type *t, int number,
                        dl_outside outside, dl_index *index);
/* The instruction that holds a value at this point: the one that computed it, or a load. */
int dl_maker_read(dl_maker *m, dl_value *v);
/* Emits a member's computation at this point, after its operands; returns its instruction. */
int dl_maker_compute(dl_maker *m, const dl_node *n);
#endif

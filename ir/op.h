/* Ops and attributes as data: the rows of ops.def and attrs.def. */
#ifndef DL_OP_H
#define DL_OP_H
#include "ir/type.h"

typedef enum {
#define OP(id, ...) DL_OP_##id,
#include "ir/ops.def"
#undef OP
    DL_NOPS
} dl_op;

typedef enum {
#define ATTR(id, text, kind) DL_ATTR_##id,
#include "ir/attrs.def"
#undef ATTR
    DL_NATTRS
} dl_attr_id;

typedef enum {
    DL_CLASS_ELEM,
    DL_CLASS_REDUCE,
    DL_CLASS_CONTRACT,
    DL_CLASS_MOVE,
    DL_CLASS_SOURCE,
    DL_CLASS_FUSED,
    DL_CLASS_TEMPLATE,
    DL_CLASS_COLLECTIVE,
    DL_CLASS_BODY,
    DL_CLASS_HIGH
} dl_op_class;
typedef enum {
    DL_AMP_lower_precision,
    DL_AMP_preserve,
    DL_AMP_float32,
    DL_AMP_promote,
    DL_AMP_unchanged
} dl_amp;
typedef enum {
    DL_KIND_INT,
    DL_KIND_INTS,
    DL_KIND_FLOAT,
    DL_KIND_NAME,
    DL_KIND_NAMES,
    DL_KIND_STR,
    DL_KIND_TEXTS
} dl_attr_kind;

/* Where a moved element comes from (ops.def). NONE: not of class MOVE, or unknown. */
typedef enum {
    DL_MOVE_NONE,
    DL_MOVE_NAMES,
    DL_MOVE_SLICE,
    DL_MOVE_PAD,
    DL_MOVE_RENAME,
    DL_MOVE_RESHAPE,
    DL_MOVE_AFFINE,
    DL_MOVE_JOIN,
    DL_MOVE_COPY,
    DL_MOVE_GATHER,
    DL_MOVE_SCATTER
} dl_move;

/* How an op's values depend on its operands' (ops.def). UNKNOWN: as if they jumped. */
typedef enum {
    DL_CURVE_UNKNOWN,
    DL_CURVE_SMOOTH,
    DL_CURVE_KINK,
    DL_CURVE_STEP,
    DL_CURVE_COMPARE,
    DL_CURVE_LOGIC,
    DL_CURVE_EXTREMUM
} dl_curve;

enum {
    DL_MAX_ATTRS = 10,
    DL_MAX_RESULTS = 3 /* of an op; a fused node has those of its kernel */
};

/* The column `facts`; all zeros: nothing is known. Read by the functions below. */
typedef struct {
    dl_move move;
    dl_curve curve;
    int rounding; /* roundings plus one */
    bool exact;
    unsigned char product, cost;
    unsigned flags;
} dl_op_facts;

typedef struct {
    const char *name;
    int arity; /* -1: one or more */
    dl_op_class class;
    const char *grad; /* the text of the column */
    dl_amp amp;
    dl_op_facts facts;
    int nattrs;
    dl_attr_id attrs[DL_MAX_ATTRS]; /* schema order */
    int noptional;                  /* the last so many are optional */
    const char *expr;               /* the text of the scalar expression; "0" where there is none */
} dl_op_info;

typedef struct {
    const char *name;
    dl_attr_kind kind;
} dl_attr_info;

extern const dl_op_info dl_ops[DL_NOPS];
extern const dl_attr_info dl_attrs[DL_NATTRS];

/* The number of the op's results; 0: those of its kernel or body, or as many as the collective's
 * operands. */
int dl_op_results(dl_op op);
/* The op or attribute of this name, or -1. */
int dl_op_find(const char *name);
int dl_attr_find(const char *name);
/* Is the op opaque to fusion: does it read and write whole tensors in memory? Templates,
 * collectives and scans are. */
bool dl_op_is_opaque(dl_op op);
bool dl_op_is_collective(dl_op op);
/* Does it run a graph of its own, node->body? */
bool dl_op_has_body(dl_op op);
/* Does the op forward data to other ranks, so that it must run even if this rank reads nothing of
 * its result? Ops of a ring do. */
bool dl_op_forwards(dl_op op);
/* Must its operands and results be row-major? */
bool dl_op_wants_rows(dl_op op);
/* A collective of shards along an axis. They may have any layout that keeps each shard contiguous
 * (dl_type_laid_around). */
bool dl_op_is_partitioned(dl_op op);
dl_move dl_op_move(dl_op op);
/* Does it read its only operand at coordinates that follow from the result's, by name or by
 * attributes? */
bool dl_op_is_view(dl_op op);
dl_curve dl_op_curve(dl_op op);
/* Is its derivative zero almost everywhere? */
bool dl_op_is_flat(dl_op op);
/* The most roundings between its exact value and its result; -1: unknown. */
int dl_op_roundings(dl_op op);
/* A scalar op whose last digits may differ between its texts for vectors and for scalars. */
bool dl_op_is_approximate(dl_op op);
/* A scalar op of one or two instructions: recomputed rather than kept. */
bool dl_op_is_trivial(dl_op op);
/* A scalar op that has no vector instructions (compiler/cpu/kernels/prelude.c): never
 * recomputed. */
bool dl_op_is_transcendental(dl_op op);
/* Is it a scalar sum, into which a C compiler may contract a product (a fused multiply-add)?
 * Here and below: ops.def, `product`. */
bool dl_op_is_sum(dl_op op);
/* Is its result that of its operands as they were rounded, whatever they are? */
bool dl_op_takes_rounded(dl_op op);
/* May a sum take it in as a product? */
bool dl_op_may_contract(dl_op op);
/* Does it leave its operand, which may be a product, as it is? */
bool dl_op_forwards_product(dl_op op);
/* Flags of ops.def. */
bool dl_op_wants_float(dl_op op);
bool dl_op_is_linear(dl_op op);
bool dl_op_chooses(dl_op op);
bool dl_op_is_identity(dl_op op);
/* Does it take whole sequences, along axes that no attribute names? */
bool dl_op_takes_sequences(dl_op op);

/* One attribute of a node; dl_attrs[id].kind determines the member that holds it. */
typedef struct {
    dl_attr_id id;
    int n; /* INTS, NAMES, TEXTS: the length */
    union {
        int64_t i;
        double f;
        const char *s; /* NAME (interned), STR */
        int64_t ints[DL_MAX_RANK];
        const char *names[DL_MAX_RANK]; /* interned */
        const char *const *texts;       /* interned; kept with the module */
    };
} dl_attr;
#endif

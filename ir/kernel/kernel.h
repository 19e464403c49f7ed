/* The kernel: one loop nest over named axes, around at most one contraction (its anchor); the work
 * of a `fused` node.
 *
 * A kernel reads its parameters, computes one scalar program at every point of its space, and
 * stores results. Every value carries its axes: those of the space along which it differs. A load
 * has the axes that its coordinates follow, a scalar op those of its operands together, a reduction
 * those of its operand without the ones that it is taken over, a contraction all. So a reduction's
 * result may be read at every point again, any number of times: layer norm, softmax and their
 * gradients are one kernel each. A contraction, the anchor, comes first, and alone. A store goes
 * along all axes of its value; along others that it has, it repeats the value. A reduction over
 * axes that its operand lacks takes the same value that often. An output that shares an input's
 * memory is written after all of the kernel's reads of it.
 *
 * The text is the meaning: each instruction runs as if at all points before the next. The schedule
 * is the loops by which it runs (schedule.h).
 *
 *   kernel @k0(%a, %k, %b) -> (%o) space(N=2, C=32, D=32, H=32, W=32) {
 *     schedule tiles {phases=1}
 *     %0 = conv %a, %k {stride=[2, 2, 2], pad_lo=[1, 1, 1], pad_hi=[1, 1, 1]} : f32
 *     %1 = load %b[C] : f32
 *     %2 = add %0, %1 : f32
 *     %3 = leaky_relu %2 {slope=0.01} : f32
 *     store %o[N, C, D, H, W], %3
 *   }   # unet.dl:2 unet.dl:3
 *
 * Or it is a call of a template: no space, one instruction.
 *
 *   kernel @k1(%q, %k, %v) -> (%y, %sums) space() {
 *     schedule call
 *     call flash_attention {rate=0, number=0, heads=8, causal=0}
 *   } */
#ifndef DL_KERNEL_H
#define DL_KERNEL_H
#include "ir/affine.h"
#include "ir/relation.h"

/* One coordinate of a load or store: the space axis it follows plus an offset; axis -1: the offset
 * alone, or with it a sum of terms ((x div DIV) mod MOD) mul MUL of axes' coordinates x (mod 0: no
 * modulo), for reshaped tensors and windows. All of it is divided by `div` (0: by nothing),
 * rounding down. Or, with `indirect`, the value of an earlier instruction, a whole number (scatter
 * and gather): a store then adds up all values for one element, or with op reduce_max stores the
 * largest one, and an element without any is 0.
 * `outside` gives the value of a load where its parameter has no such element: mostly 0, so that
 * pad, cat and slice are loads. A load has one such value for all its coordinates. A store outside
 * is dropped; its coordinates have neither terms nor division. */
enum { DL_MAX_TERMS = DL_MAX_RANK }; /* an axis is split into at most this many */
typedef struct {
    int axis;
    int64_t div, mod, mul;
} dl_term;
typedef struct {
    int axis;
    dl_outside outside;
    int64_t offset, div;
    int indirect; /* an instruction's number plus one; 0: none */
    int nterms;
    dl_term term[DL_MAX_TERMS];
} dl_index;

typedef enum {
    DL_K_CONTRACT, /* an op of class CONTRACT; the accumulator at this point */
    DL_K_LOAD,     /* params[param] at index[] */
    DL_K_CONST,    /* attr value */
    DL_K_RANDOM,   /* element first + sum of along[i] x_i of the draw of op `number` with seed
                      args[0] in step args[1] (ir/base/philox.h); with args[2], args[2] * part
                      elements later */
    DL_K_COORD,    /* the coordinate along space axis `axis`, as a number */
    DL_K_ELEM,     /* op on args; `p` is the op's float attribute */
    DL_K_REDUCE,   /* op sum, reduce_max or reduce_min of args[0] over the axes in `over` (a bit
                      mask) */
    DL_K_STORE,    /* args[0] into params[param] at index[]; op: reduce_max, or nothing */
    DL_K_CALL,     /* an op of class TEMPLATE on all parameters, in their order; alone in its
                      kernel */
    DL_NKINSTRS
} dl_kinstr_kind;

typedef struct {
    dl_kinstr_kind kind;
    dl_op op;
    dl_dtype type;                     /* of the result */
    int nargs, args[3];                /* earlier instructions */
    bool no_contract;                  /* ELEM, add or sub: no FMA, products are rounded first */
    double p;                          /* ELEM: its float attribute; CONST: the value */
    int param;                         /* LOAD, STORE */
    dl_index *index;                   /* LOAD, STORE: one an axis of the parameter */
    int axis;                          /* COORD */
    int number;                        /* RANDOM */
    int64_t first, along[DL_MAX_RANK]; /* RANDOM: the element, by space axis */
    int64_t part;                      /* RANDOM: elements of each part */
    unsigned over;                     /* REDUCE: bit i is space axis i */
    /* CONTRACT by windows. Operand 0 and 1 are as the op's; images (x, y) may be several
     * parameters, concatenated along their channels. w_start: the first O row of w in use where y
     * is the result: a slice of the weight along O; 0 otherwise. */
    int nparts[2], parts[2][4];
    int64_t w_start;
    bool tf32; /* CONTRACT: operands that are f32 are rounded to TF32 (11 digits, ties away from
                  zero) first */
    dl_windows windows;
    /* CONTRACT by names: each operand is one parameter, whose axis i goes along space axis
     * follow[side][i], or along sum[follow[side][i] - DL_MAX_RANK]. */
    int nsums, follow[2][DL_MAX_RANK];
    dl_axis sum[DL_MAX_RANK];
    const dl_node
        *call;  /* CALL: op, attributes, and the parameters' types; its values belong to no graph */
    dl_loc loc; /* of the node that it was made from */
} dl_kinstr;

typedef struct {
    const char *name; /* interned; prints as %name */
    dl_type type;     /* with the layout that the kernel's code requires */
    bool is_out;
    int alias; /* the input parameter whose memory this output may share (each point is read before
                  it is written), or -1 */
} dl_kparam;

/* How the loops of a kernel run (schedule.h). */
typedef enum {
    DL_BY_NOTHING, /* not chosen yet: the kernel cannot be compiled */
    DL_BY_POINTS,  /* loop nests over points; finalize steps between them */
    DL_BY_ROWS,    /* the same, where reductions over exactly `axes` are resident */
    DL_BY_THREAD,  /* the same, where each thread reduces over `axes` alone, at its point */
    DL_BY_TILES,   /* the contraction's tiles with their epilogue, then loop nests */
    DL_BY_SCATTER, /* each element of the result looks for the points that are added to it */
    DL_BY_CALL,    /* the template's own */
    DL_NBYS
} dl_loop_kind;
typedef struct {
    dl_loop_kind kind;
    unsigned axes; /* ROWS, THREAD: a bit each */
    int phases; /* groups of loop nests, each of which waits for the one before; 0: unknown here */
    const char *variant; /* TILES, CALL: the variant of the target's code, by its name, or the text
                            of a library's algorithm (ir/call.h); interned. NULL: the variant that
                            the target's cost model prefers */
} dl_loop_schedule;

struct dl_kernel {
    const char *name;           /* interned: "k0"; unique in the module */
    DL_ARRAY(dl_kparam) params; /* inputs, then outputs: as the fused node's operands and results */
    int nin, nspace;
    dl_axis space[DL_MAX_RANK];
    DL_ARRAY(dl_kinstr) instrs;
    dl_loop_schedule schedule;
    DL_ARRAY(dl_loc) locs; /* the distinct source lines of its nodes */
    int64_t flops, bytes;  /* arithmetic of one run; bytes that must move (each parameter once, or
                              once a loop nest of its schedule) */
    int64_t bytes_unfused; /* the bytes that the nodes it replaces would have moved */
    bool keeps_weight; /* its contraction's weight stays the same from run to run, so that a launch
                          prepares it once (ir/plan/plan.h); set where a plan is made, and not in
                          the text */
    const dl_kernel *repeats; /* the kernel of which it is a copy that runs later in the step, with
                                 the same code; NULL: none. Not in the text */
};

/* The template that a kernel calls, or NULL. */
const dl_node *dl_kernel_call(const dl_kernel *k);
/* In a word, what the kernel is: the name of the template that it calls ("flash_attention", ...);
 * or "contraction", "reduction" or "pointwise", by the most that it has of these. */
const char *dl_kernel_kind(const dl_kernel *k);
/* A node for a CALL of `op` with operands and results of these types. */
dl_node *dl_call_node(dl_arena *arena, dl_op op, int nin, int nout, const dl_type *types,
                      int nattrs, const dl_attr *attrs, dl_loc loc);
/* The type in which kernels hold an element: 16-bit types exist in memory alone, and arithmetic is
 * f32. Loads widen and stores round, to the nearest, ties to even; an instruction of a 16-bit type
 * rounds its result. */
dl_dtype dl_kernel_type(dl_dtype d);
/* Is the value of instruction i a number of this 16-bit type, even if registers hold it in f32? */
bool dl_kernel_holds(const dl_kernel *k, int i, dl_dtype type);
/* Index of the contraction, or -1. */
int dl_kernel_anchor(const dl_kernel *k);
/* How many reductions it has. */
int dl_kernel_reductions(const dl_kernel *k);
/* The axes of each value, and of each store: a bit each, those of one point left out. */
unsigned *dl_kernel_axes(const dl_kernel *k, dl_arena *arena);
/* The same of one instruction, when those of its operands are known. */
unsigned dl_kinstr_axes(const dl_kernel *k, int number, unsigned wide, const unsigned *axes);
/* The axes of the space that do not have exactly one point: the `wide` of dl_kinstr_axes. */
unsigned dl_kernel_wide_axes(const dl_kernel *k);
/* Points of some axes of the space. */
int64_t dl_axes_points(int nspace, const dl_axis *space, unsigned axes);
/* The relation of a contraction of the kernel: the result is the space, operands have all their
 * parts. */
dl_relation dl_kernel_relation(const dl_kernel *k, const dl_kinstr *contract);
/* Are n coordinates equal? Their bytes need not be: unused terms and padding have no values. */
bool dl_index_same(const dl_index *a, const dl_index *b, int n);
/* Is an index over a space inside an axis of `size` at every point, so that its outside rule is
 * never used? */
bool dl_index_inside(const dl_axis *space, const dl_index *index, int64_t size);
/* Is the sum, before the division, never negative? */
bool dl_index_natural(const dl_axis *space, const dl_index *index);
/* The rule for indices out of range of gather. */
static inline dl_outside dl_outside_of_gather(dl_dtype d) {
    return dl_dtype_is_float(d) ? DL_OUT_NAN : DL_OUT_ZERO;
}
/* The axes that the coordinates of a load or store follow: a bit each. */
unsigned dl_kinstr_followed(const dl_kernel *k, const dl_kinstr *in);
/* The instruction whose value is a coordinate of this load or store, or -1. */
int dl_kinstr_indirect(const dl_kernel *k, const dl_kinstr *in);
/* The value that the load `in` reads where its parameter has no element. */
double dl_kinstr_outside(const dl_kinstr *in, const dl_axis *space, const dl_type *param);
/* Counts flops (1 a scalar op at each point of its axes; 2 a multiply-add of the anchor, every tap
 * of every output, those on the padding too) from the instructions, and bytes from the loop nests
 * of the schedule (by points where it is unknown). */
void dl_kernel_count(dl_kernel *k);

/* The longest chain of reductions of which each needs the one before. */
enum { DL_MAX_STAGES = 16 };
/* The length of that chain up to an instruction, which counts if it reduces. */
static inline int dl_reductions_up_to(const int *stage, int nargs, const int *args, bool reduces) {
    int most = 0;
    for (int i = 0; i < nargs; i++)
        if (stage[args[i]] > most) most = stage[args[i]];
    return most + reduces;
}
/* The fault of a kernel (shapes of parameters against indices, order of instructions...), or
 * NULL. */
const char *dl_kernel_fault(const dl_kernel *k, dl_arena *arena);
#endif

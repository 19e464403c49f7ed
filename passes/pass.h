/* A pass is one function, graph -> graph, true when it changed something, in its own file and
 * listed in passes.def. The manager runs, skips (DLC_SKIP), times, validates and dumps; the whole
 * order stands in pipeline.c. */
#ifndef DL_PASS_H
#define DL_PASS_H
#include "ir/train_recipe.h"
#include "ir/validate/validate.h"

/* The schedule of this name (ir/base/schedules.def), or -1. */
int dl_schedule_find(const char *name);

/* The mesh of ranks, and this rank's place in it. Zero: one rank. Hashed as bytes, so it has no
 * padding. */
typedef struct {
    int dp, tp, cp; /* data, tensor and context parallel; 0 as 1 */
    int dp_rank, tp_rank, cp_rank;
    int sum_rank;         /* this one's place among the ranks that gradients are summed over */
    int zero;             /* 1: each rank keeps the optimiser's state of its share of each parameter
                             (ZeRO; ranks.c) */
    int64_t least_shared; /* bytes; each rank keeps the whole state of smaller parameters */
    int64_t batch_ranks;  /* the number of ranks whose samples a batch statistic is made of: dp; 0
                             or 1: each rank's own */
    int64_t ring;         /* 1: ring attention over the context parallel ranks; 0: each rank gathers
                             all keys and values */
    int64_t first_bucket_bytes, bucket_bytes; /* sizes of gradient buckets; 0: each gradient by
                                                 itself */
} dl_parallel;

/* The group that gradients are summed over: "dp", "cp" or "dp-cp". */
const char *dl_gradient_group(const dl_parallel *p);

enum { DL_CORE_BALANCE = 8 }; /* of a CPU's core: 80 GFLOP/s to 10 GB/s */

/* The settings that passes may read in addition to the graph. */
typedef struct {
    dl_arena *arena;       /* scratch of one pipeline run */
    dl_layout weights;     /* the layout of convolution weights; images are channels last */
    unsigned low_products; /* types of 16 bits that the target multiplies, 1 << dl_dtype: weights
                              have a copy */
    unsigned written_out;  /* types of contractions and templates that the target has no kernels
                              for, which become products and sums */
    bool tf32;             /* contractions of f32 round their operands to TF32 */
    int balance;           /* the target's flops in the time of one byte of memory traffic, about;
                              0: DL_CORE_BALANCE */
    bool keep_gradients;   /* gradients are results of the step (dlrun --save_grads) */
    dl_recipe recipe;
    dl_parallel parallel;
    dl_error *err; /* a user fault found by a pass (an op not lowered yet, a gradient that does not
                      exist) */
} dl_pass_ctx;

typedef bool dl_pass_fn(dl_graph *g, dl_pass_ctx *ctx);

typedef struct {
    const char *name, *help;
    dl_pass_fn *run, *instead; /* instead: runs where the pass is skipped, or NULL */
    dl_stage takes, leaves;    /* the stage that it needs, and the stage that it leaves */
} dl_pass;

extern const dl_pass dl_passes[];
extern const int dl_npasses;
const dl_pass *dl_pass_find(const char *name); /* NULL when there is none */

#define PASS(name, takes, leaves, skipped, help) dl_pass_fn dl_pass_##name;
#include "passes/passes.def"
#undef PASS
dl_pass_fn dl_skip_fuse; /* makes every node a kernel of its own */

/* Called before the first pass (pass NULL) and after each; for dumps. */
typedef void dl_pass_observer(void *user, int number, const dl_pass *pass, const dl_module *m);

/* The passes after which the module is validated: none; those that bring it to another stage, which
 * takes a twentieth of the compiler's time; all, which takes a fifth. With STAGES or PASSES, or
 * with `skip`, the stage that a pass needs is checked, too, unless the pass before it leaves that
 * stage. */
typedef enum { DL_VALIDATE_NONE, DL_VALIDATE_STAGES, DL_VALIDATE_PASSES } dl_validation;

typedef struct {
    const char *skip; /* comma-separated names not to run, or NULL (DLC_SKIP) */
    dl_validation validate;
    dl_pass_observer *observe;
    void *user;
} dl_pass_options;

/* Runs the named passes (comma-separated; empty: none) on every graph of the module, pass by pass.
 * The module is valid (dl_read_module). False: ctx->err (an unknown name: DL_USAGE with the
 * nearest; a module of a stage that a pass does not take: DL_INPUT, or DL_USAGE where `skip` left
 * out the pass that brings it there; a fault found by a pass: DL_INPUT). */
bool dl_run_passes(dl_module *m, const char *names, dl_pass_ctx *ctx, dl_pass_options opt);

/* pass_fault.c: the fault of an op that is typed and checked but cannot be compiled yet (DL-E0801),
 * or that has no gradient although a loss needs one (DL-E0802). Returns false. */
bool dl_fail_op(const dl_graph *g, const dl_node *n, dl_error *err);

/* The fault of a model's own variable `v` that has a name which a pass needs: "as the optimiser's
 * own". Returns false. */
bool dl_fail_taken(const dl_graph *g, const dl_var *v, const char *as, dl_error *err);

/* The one visible order, from a model's graphs to a planned module. */
extern const char dl_pipeline[];
#endif

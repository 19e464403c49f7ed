/* Passes and their manager. A pass is one function from graph to graph, true when it changed
 * something, in its own file and with a row in passes.def. The manager runs, skips (DLC_SKIP),
 * validates and dumps passes. The order of all passes is in pipeline.c. */
#ifndef DL_PASS_H
#define DL_PASS_H
#include "ir/param_rules.h"
#include "ir/step_options.h"
#include "ir/validate/validate.h"

/* The schedule of this name (ir/base/schedules.def), or -1. */
int dl_schedule_find(const char *name);

/* The mesh of ranks, and this rank's position in it. All zeros: one rank. It is hashed as bytes,
 * so it has no padding. */
typedef struct {
    int dp, tp, cp; /* data, tensor and context parallel; 0 as 1 */
    int dp_rank, tp_rank, cp_rank;
    int sum_rank; /* this rank's index among the ranks that gradients are summed over */
    int zero;     /* 1: each rank keeps the optimiser's state of its shard of each parameter (ZeRO;
                     data_parallel.c) */
    int64_t
        least_shared; /* bytes; parameters smaller than this keep their whole state on each rank */
    int64_t batch_ranks; /* the number of ranks over whose samples batch statistics are computed:
                            dp; 0 or 1: each rank by itself */
    int64_t ring;        /* 1: ring attention over the context parallel ranks; 0: each rank gathers
                            all keys and values */
    int64_t first_bucket_bytes, bucket_bytes; /* sizes of gradient buckets; 0: each gradient by
                                                 itself */
} dl_parallel;

/* The group that gradients are summed over: "dp", "cp" or "dp-cp". */
const char *dl_gradient_group(const dl_parallel *p);

enum { DL_CORE_BALANCE = 8 }; /* a CPU core: 80 GFLOP/s to 10 GB/s */

/* The settings that passes may read in addition to the graph. */
typedef struct {
    dl_arena *arena;     /* scratch memory of one run of the pipeline */
    dl_layout weights;   /* the layout of convolution weights; images are channels last */
    unsigned half_gemms; /* 16-bit types that the target has GEMMs for, 1 << dl_dtype: weights get
                              a copy in such a type */
    unsigned expanded;   /* types for which the target has no kernels of contractions and
                               templates: these become products and sums */
    bool tf32;           /* f32 operands of contractions are rounded to TF32 */
    int balance; /* the target's flops in the time of one byte of memory traffic, roughly; 0:
                    DL_CORE_BALANCE */
    const struct dl_loop_rules *loops; /* how the target's kernels run (ir/kernel/schedule.h); NULL:
                                          rules for no target */
    const struct dl_contraction_rules *contractions; /* what the target's contractions need
                                                        (ir/kernel/contraction_rules.h); NULL: the
                                                        rules that every backend keeps */
    bool (*keeps)(const dl_node *n); /* composites that `lower` leaves as they are; NULL: none */
    int64_t memory; /* bytes that the arena may take, where kernels are run again for it; 0: all */
    bool keep_gradients; /* gradients are results of the step (dlrun --save_grads) */
    dl_step_options step_options;
    const dl_objective_options *objectives; /* of objectives whose options differ from these */
    int nobjectives;
    const dl_param_rules *params; /* what the step does with single parameters; NULL: nothing */
    dl_parallel parallel;
    dl_error *err; /* a fault of the user's model that a pass found (an op without a rule, a missing
                      gradient) */
} dl_pass_ctx;

typedef bool dl_pass_fn(dl_graph *g, dl_pass_ctx *ctx);

typedef struct {
    const char *name, *help;
    dl_pass_fn *run, *instead; /* instead: runs where the pass is skipped; may be NULL */
    bool within;               /* runs on the bodies of scans, too, before the graph around them */
    dl_stage takes, leaves;    /* the stage that it needs, and the stage that it leaves */
} dl_pass;

extern const dl_pass dl_passes[];
extern const int dl_npasses;
/* The pass of this name, which may be a former one; NULL when there is none. */
const dl_pass *dl_pass_find(const char *name);

#define PASS(name, takes, leaves, bodies, skipped, help) dl_pass_fn dl_pass_##name;
#include "passes/passes.def"
#undef PASS
dl_pass_fn dl_skip_fuse; /* makes every node a kernel of its own */

/* Called before the first pass (pass NULL) and after each pass; writes dumps. */
typedef void dl_pass_observer(void *user, int number, const dl_pass *pass, const dl_module *m);

/* The passes after which the module is validated. NONE: none. STAGES: those that change the
 * module's stage, which takes a twentieth of the compiler's time. PASSES: all, which takes a
 * fifth. With STAGES or PASSES, or with `skip`, the manager also checks the stage that a pass
 * needs, unless the pass before it leaves that stage. */
typedef enum { DL_VALIDATE_NONE, DL_VALIDATE_STAGES, DL_VALIDATE_PASSES } dl_validation;

typedef struct {
    const char *skip; /* comma-separated names not to run, or NULL (DLC_SKIP) */
    dl_validation validate;
    dl_pass_observer *observe;
    void *user;
    void (*warn)(const char *text); /* called for each former name of a pass; or NULL */
} dl_pass_options;

/* Runs the named passes (comma-separated; empty: none) on every graph of the module, pass by
 * pass. The module must be valid (dl_read_module). False: ctx->err has the fault. An unknown
 * name: DL_USAGE, with the nearest name. A module of a stage that a pass does not take:
 * DL_INPUT, or DL_USAGE where `skip` left out the pass that brings it there. A fault found by a
 * pass: DL_INPUT. */
bool dl_run_passes(dl_module *m, const char *names, dl_pass_ctx *ctx, dl_pass_options opt);

/* pass_fault.c: reports an op that is typed and checked but cannot be compiled yet (DL-E0801),
 * or that has no gradient although a loss needs one (DL-E0802). Returns false. */
bool dl_fail_op(const dl_graph *g, const dl_node *n, dl_error *err);

/* Reports a variable `v` of the model whose name a pass needs for its own variable, for example
 * "as the optimiser's own". Returns false. */
bool dl_fail_taken(const dl_graph *g, const dl_var *v, const char *as, dl_error *err);

/* The names of all passes in order, from a model's graphs to a planned module. */
extern const char dl_pipeline[];
#endif

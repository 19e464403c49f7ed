/* A model's graphs -> a plan: passes, kernels, code, objects. */
#ifndef DL_COMPILE_H
#define DL_COMPILE_H
#include "compiler/code.h"
#include "ir/base/console.h"
#include "passes/pass.h"

/* Chooses among the variants of kernels by more than the cost model knows, for example by
 * measurements. */
typedef struct {
    uint64_t key; /* further inputs of the choice, hashed: not kernels or target */
    /* Names variants in the schedules of kernels, which name none before. */
    bool (*choose)(void *user, int n, dl_kernel *const *kernels, dl_error *err);
    void *user;
} dl_tuner;

typedef struct {
    const dl_target *target;
    const dl_tuner *tuner; /* NULL: the cost model chooses */
    bool tf32;             /* contractions of f32 in TF32, where the target has it */
    bool keep_gradients;   /* adds gradients to the results of the train program */
    dl_step_options step_options;
    dl_parallel parallel;
    const char *model; /* name, for the plan */
    int64_t batch;     /* size of axis N, for the plan */
    const char *skip;  /* passes not to run (DLC_SKIP) */
    dl_validation validate;
    dl_pass_observer *observe;
    void *user;
    const dl_console *out; /* told what the user should know meanwhile; NULL: nobody is */
    int compile_threads;   /* sources are made for so many; 0: as many as there are CPUs */
    int64_t memory;        /* bytes that the plan may take, with a thread's for each CPU; 0: all */
    bool link;             /* false: stop before the system compiler (figures and sources only) */
    bool late; /* the plan may lack what "train" does not need, until plan->late is finished */
    const dl_objective_options *objectives; /* of those of the train graph; may be NULL */
    int nobjectives;
    const dl_param_rules *params; /* of single parameters; NULL: none */
} dl_compile_options;

typedef struct {
    double passes_ms, emit_ms, cc_ms;
    int compiled; /* sources that were not in the cache */
    int repeated; /* kernels that a step runs again, for less memory */
} dl_compile_times;

/* Lowers the module in place and returns its plan, which lives in a new arena under `parent` and
 * refers to nothing of the module. Use dl_arena_move to keep it longer than the parent. NULL on
 * a fault: DL_INPUT (an op or gradient that is not implemented), DL_RESOURCE (compiler; more memory
 * than opt->memory), DL_IO, DL_TRUST (cache). */
dl_plan *dl_compile(dl_arena *parent, dl_module *m, const dl_compile_options *opt,
                    dl_compile_times *times, dl_error *err);
#endif

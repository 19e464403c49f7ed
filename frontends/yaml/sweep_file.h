/* The file of a sweep of hyperparameters: its trials and their values, in the format of
 * `wandb sweep`:
 *
 *     method: grid                            random and bayes, too
 *     metric: {name: val_loss, goal: minimize}
 *     run_cap: 20                             most trials
 *     seed: 1                                 of random draws; an extension
 *     parameters:
 *       lr: {values: [1e-5, 1e-4]}
 *       batch_size: {value: 16}
 *       momentum: {min: 0.8, max: 0.99}
 *       weight_decay: {distribution: log_uniform_values, min: 1e-6, max: 1e-2}
 *       optimizer: {parameters: {rho: {value: 0.9}}}      optimizer.rho
 *     early_terminate: {type: hyperband, min_iter: 3}
 *
 * A trial has a number. Its values depend on the file, on that number and, by a method that learns,
 * on the trials before it. */
#ifndef DL_SWEEP_FILE_H
#define DL_SWEEP_FILE_H
#include "frontends/yaml/config.h"

enum { DL_N_METHODS = 3 };
/* A way to choose the values of trials. */
typedef struct {
    const char *name;
    bool is_grid; /* takes every combination of listed values once */
    bool learns;  /* from the results of earlier trials */
} dl_sweep_method;
extern const dl_sweep_method dl_sweep_methods[DL_N_METHODS];

typedef enum {
    DL_DRAW_CONSTANT,
    DL_DRAW_CATEGORICAL,
    DL_DRAW_INT_UNIFORM,          /* both ends included */
    DL_DRAW_UNIFORM,              /* [min, max) */
    DL_DRAW_Q_UNIFORM,            /* the nearest multiple of q */
    DL_DRAW_LOG_UNIFORM_VALUES,   /* whose logarithm is uniform */
    DL_DRAW_Q_LOG_UNIFORM_VALUES, /* the nearest multiple of q */
    DL_DRAW_NORMAL,               /* mean mu, standard deviation sigma */
    DL_N_DRAWS
} dl_sweep_draw;

typedef struct {
    const char *name;
    dl_yaml_place place;
    dl_sweep_draw draw;
    int n; /* CONSTANT 1, CATEGORICAL, and a grid's INT_UNIFORM: number of values to choose from;
              otherwise 0 */
    const dl_yaml *const *values;
    const double *shares;   /* CATEGORICAL: probabilities, whose sum is 1; NULL: uniform */
    double low, high, step; /* min, max, q; of NORMAL mu, sigma */
    bool whole;             /* min, max and q are whole numbers, and so are drawn multiples of q */
    dl_yaml_place low_place, high_place;
} dl_sweep_parameter;

enum { DL_SWEEP_MOST = 100000 /* most trials of a grid */ };

/* A trial's losses so far, one an evaluation; smaller is better. */
typedef struct {
    int n;
    const double *at;
} dl_sweep_curve;

typedef struct dl_sweep_stop_rule dl_sweep_stop_rule;
enum { DL_SWEEP_MOST_RUNGS = 40 };
/* When a trial ends early. */
typedef struct {
    const dl_sweep_stop_rule *rule; /* NULL: every trial runs to its end */
    int n;                          /* hyperband: evaluations after which it compares, rising */
    int64_t rungs[DL_SWEEP_MOST_RUNGS];
    int64_t eta;           /* hyperband: one in so many goes on */
    int64_t least, trials; /* median: evaluations of the first comparison, other trials it needs */
} dl_sweep_stop;

typedef struct {
    const char *path;
    const dl_sweep_method *method;
    dl_sweep_stop stop;
    const char *metric; /* NULL: none */
    dl_yaml_place metric_place;
    bool maximize;
    uint64_t seed;
    int64_t trials; /* number of trials; -1: unlimited */
    int n;
    const dl_sweep_parameter *parameters;
    DL_ARRAY(const char *) warnings; /* about keys that are accepted without effect */
} dl_sweep_file;

/* Reads and checks a file. Errors: DL_IO; DL_INPUT at the place of the fault, with the allowed
 * values. */
const dl_sweep_file *dl_sweep_read(dl_arena *arena, const char *path, dl_error *err);
/* The same for a parsed file. */
const dl_sweep_file *dl_sweep_parse(dl_arena *arena, const dl_yaml *top, const char *path,
                                    dl_error *err);
extern const char *const dl_sweep_draws[DL_N_DRAWS];

/* The index of one of n values that repeats an earlier one; -1: all differ. */
int dl_sweep_twice(dl_arena *arena, int n, const dl_yaml *const *values);

/* Checks that every parameter is a key of the configuration, or an argument of its model, that
 * allows the values (of a range: its ends; of a list: each once, "Adam" being "adam"). The command
 * line must not set it, and it must be one that may differ within a sweep. The configuration must
 * be finished. Errors: DL_INPUT at the place in the file; DL_USAGE. */
bool dl_sweep_check(const dl_sweep_file *f, const dl_config *c, dl_error *err);

/* A drawn number as a value. */
const dl_yaml *dl_sweep_number(dl_arena *arena, double x, bool whole, dl_yaml_place place);
/* A trial that was taken before. */
typedef struct {
    const dl_yaml *values; /* a map of parameters */
    double loss;           /* its result, smaller is better; NAN: none so far */
} dl_sweep_past;
typedef struct {
    int n;
    const dl_sweep_past *at; /* in the order of their numbers */
} dl_sweep_history;
/* The values of trial `number`, 0 to trials - 1, as a map of parameters. A grid counts like nested
 * loops, the last parameter fastest. past: for a method that learns; else NULL may stand. */
const dl_yaml *dl_sweep_values(dl_arena *arena, const dl_sweep_file *f, int64_t number,
                               const dl_sweep_history *past);
/* Whether a trial with that curve ends now, compared with the others that have begun. */
bool dl_sweep_stops(const dl_sweep_stop *s, const dl_sweep_curve *own, int n,
                    const dl_sweep_curve *others);
/* The name of the rule: "hyperband". */
const char *dl_sweep_stop_name(const dl_sweep_stop *s);
/* A name for such values: "lr1em4_batchsize16". For each parameter with several values it has the
 * name without underscores and sections, and the value: a number in at most four digits, below 1
 * with "em" for the exponent, a list's items with "x" between them, "-" for characters that are
 * unsuitable for a file name. "trial" where nothing varies. At most 200 bytes. */
const char *dl_sweep_name(dl_arena *arena, const dl_sweep_file *f, const dl_yaml *values);
#endif

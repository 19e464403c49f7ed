/* The file of a sweep of hyperparameters: its trials and their values, in the format of
 * `wandb sweep`:
 *
 *     method: grid                            random, too
 *     metric: {name: val_loss, goal: minimize}
 *     run_cap: 20                             most trials
 *     seed: 1                                 of random draws; an extension
 *     parameters:
 *       lr: {values: [1e-5, 1e-4]}
 *       batch_size: {value: 16}
 *       momentum: {min: 0.8, max: 0.99}
 *       weight_decay: {distribution: log_uniform_values, min: 1e-6, max: 1e-2}
 *
 * A trial has a number, and its values depend on the file and that number alone. */
#ifndef DL_SWEEP_FILE_H
#define DL_SWEEP_FILE_H
#include "frontends/yaml/config.h"

typedef enum { DL_METHOD_GRID, DL_METHOD_RANDOM } dl_sweep_method;

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

typedef struct {
    const char *path;
    dl_sweep_method method;
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
extern const char *const dl_sweep_methods[], *const dl_sweep_draws[DL_N_DRAWS];

/* The index of one of n values that repeats an earlier one; -1: all differ. */
int dl_sweep_twice(dl_arena *arena, int n, const dl_yaml *const *values);

/* Checks that every parameter is a key of the configuration, or an argument of its model, that
 * allows the values (of a range: its ends; of a list: each once, "Adam" being "adam"). The command
 * line must not set it, and it must be one that may differ within a sweep. The configuration must
 * be finished. Errors: DL_INPUT at the place in the file; DL_USAGE. */
bool dl_sweep_check(const dl_sweep_file *f, const dl_config *c, dl_error *err);

/* A drawn number as a value. */
const dl_yaml *dl_sweep_number(dl_arena *arena, double x, bool whole, dl_yaml_place place);
/* The values of trial `number`, 0 to trials - 1, as a map of parameters. A grid counts like nested
 * loops, the last parameter fastest. */
const dl_yaml *dl_sweep_values(dl_arena *arena, const dl_sweep_file *f, int64_t number);
/* A name for such values: "lr1em4_batchsize16". For each parameter with several values it has the
 * name without underscores and sections, and the value: a number in at most four digits, below 1
 * with "em" for the exponent, a list's items with "x" between them, "-" for characters that are
 * unsuitable for a file name. "trial" where nothing varies. At most 200 bytes. */
const char *dl_sweep_name(dl_arena *arena, const dl_sweep_file *f, const dl_yaml *values);
#endif

/* Shared by the files that read a sweep and choose its values. */
#ifndef DL_SWEEP_PRIVATE_H
#define DL_SWEEP_PRIVATE_H
#include "frontends/yaml/sweep_file.h"

/* ---- sweep_words.c ---- */

/* The words as a list, "a, b, c". */
const char *dl_sweep_list(dl_arena *arena, int n, const char *const *names);
/* The index of a name; -1: it is none of them. */
int dl_sweep_find(const char *name, int n, const char *const *names);
/* "; did you mean 'NAME'?", or "". */
const char *dl_sweep_nearest(dl_arena *arena, const char *name, int n, const char *const *names);
/* The index of a word among those allowed; -1 with an error at its place. */
int dl_sweep_word(dl_arena *arena, const char *what, const dl_yaml *v, int n,
                  const char *const *names, dl_error *err);
/* Checks that every key of the map is one of these. */
bool dl_sweep_check_keys(dl_arena *arena, const char *what, const dl_yaml *map, int n,
                         const char *const *names, dl_error *err);
bool dl_sweep_is_number(const dl_yaml *v);
/* Reads a whole number of a map, or returns `otherwise`. */
bool dl_sweep_whole(dl_arena *arena, const dl_yaml *map, const char *key, int64_t least,
                    int64_t otherwise, int64_t *value, dl_error *err);

/* ---- sweep_parameter.c, sweep_stop.c ---- */

/* Reads the parameter `name` from its entry. */
bool dl_sweep_read_parameter(dl_arena *arena, const dl_sweep_method *method, const char *name,
                             const dl_yaml_entry *e, dl_sweep_parameter *p, dl_error *err);
/* Reads `early_terminate`; NULL: the file has none. */
bool dl_sweep_read_stop(dl_arena *arena, dl_sweep_file *f, const dl_yaml *v, dl_error *err);

/* ---- sweep_draw.c: distributions ---- */

/* The value of a range at a quantile from 0 to 1, as it is trained with (rounded to whole numbers
 * or multiples of q); and the quantile of a value. */
double dl_sweep_quantile(const dl_sweep_parameter *p, double unit);
double dl_sweep_unit(const dl_sweep_parameter *p, double x);
/* The argument at which the standard normal distribution reaches `unit`. */
double dl_sweep_normal_quantile(double unit);
/* The share of the standard normal distribution below x. */
double dl_sweep_normal(double x);
/* The value at a quantile: of listed ones by their probabilities, of a range as above. */
const dl_yaml *dl_sweep_at(dl_arena *arena, const dl_sweep_parameter *p, double unit);
/* Two numbers in [0, 1) that depend on the seed, the trial, the parameter's name and `draw` alone,
 * not on other parameters. */
void dl_sweep_units(const dl_sweep_file *f, const char *name, int64_t number, int draw,
                    double unit[2]);

/* ---- sweep_tpe.c ---- */

/* A value by the results of earlier trials: a tree-structured Parzen estimator (Bergstra et al.
 * 2011). */
const dl_yaml *dl_sweep_tpe(dl_arena *arena, const dl_sweep_file *f, const dl_sweep_parameter *p,
                            int64_t number, const dl_sweep_history *past);
#endif

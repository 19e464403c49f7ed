/* A model's arguments as configuration keys. This is the one place where the two front ends (.dl
 * and YAML) meet. */
#ifndef DL_ARGUMENTS_H
#define DL_ARGUMENTS_H
#include "frontends/dl/front.h"
#include "frontends/yaml/config.h"

/* Reports every argument with the name of a key of training, data, run or ranks. False: there is
 * one. */
bool dl_arguments_check(const dl_model *m, dl_diags *diags);
/* Declares the arguments as keys of c, typed by their defaults. The model must have passed
 * dl_arguments_check. Errors: those of dl_config_declare. */
bool dl_arguments_declare(dl_arena *arena, dl_config *c, const dl_model *m, const dl_source *source,
                          dl_error *err);
/* The arguments' values in c, for dl_model_build. An integer given for an argument whose default
 * is a number becomes a number. */
const dl_argument *dl_arguments_values(dl_arena *arena, const dl_config *c, const dl_model *m,
                                       int *n);

/* For --help: declares the arguments of the model, or of the plan's, that c's command line names.
 * Errors: DL_USAGE, DL_IO; DL_INPUT for a faulty model file. */
bool dl_arguments_of_model(dl_arena *arena, dl_config *c, dl_error *err);
#endif

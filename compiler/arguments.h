/* A model's arguments as configuration keys: the one place where the two front ends meet. */
#ifndef DL_ARGUMENTS_H
#define DL_ARGUMENTS_H
#include "frontends/dl/front.h"
#include "frontends/yaml/config.h"

/* Reports every argument that is named like a key of training, data, run or ranks. False: there is
 * one. */
bool dl_arguments_check(const dl_model *m, dl_diags *diags);
/* Declares the arguments as keys of c, typed by their defaults. The model has passed
 * dl_arguments_check. Errors: dl_config_declare's. */
bool dl_arguments_declare(dl_arena *arena, dl_config *c, const dl_model *m, const dl_source *source,
                          dl_error *err);
/* What c gives them, for dl_model_build: a number where the default is one, even if a whole one was
 * given. */
const dl_argument *dl_arguments_values(dl_arena *arena, const dl_config *c, const dl_model *m,
                                       int *n);

/* For --help: declares the arguments of the model that c's command line names. Errors: DL_USAGE,
 * DL_IO; DL_INPUT for a model file with faults. */
bool dl_arguments_of_model(dl_arena *arena, dl_config *c, dl_error *err);
#endif

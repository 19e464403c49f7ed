/* `dlc list`: models and configurations that are there. `dlc init`: a first model, configuration
 * and list of commands for a data file. */
#ifndef DL_SCAFFOLD_H
#define DL_SCAFFOLD_H
#include "compiler/subcommand.h"

extern const dl_subcommand dl_subcommand_init, dl_subcommand_list_models;
#endif

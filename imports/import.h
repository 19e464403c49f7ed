/* `dlc import`: a model of another program as a .dl file. */
#ifndef DL_IMPORTS_IMPORT_H
#define DL_IMPORTS_IMPORT_H
#include "compiler/subcommand.h"

extern const dl_subcommand dl_subcommand_import;
#endif

/* `dlc export`: writes a trained network in a form that runs without dlc. */
#ifndef DL_EXPORT_COMMAND_H
#define DL_EXPORT_COMMAND_H
#include "compiler/subcommand.h"

extern const dl_subcommand dl_subcommand_export;
#endif

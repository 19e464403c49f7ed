/* Commands that look at finished or running runs: `dlrun list`, `show`, `compare` and `report`.
 * They read a run's directory (docs/reference/run-directory.md) and change nothing in it. */
#ifndef DL_RUNS_H
#define DL_RUNS_H
#include "compiler/subcommand.h"

extern const dl_subcommand dl_subcommand_list, dl_subcommand_show, dl_subcommand_compare,
    dl_subcommand_report;
#endif

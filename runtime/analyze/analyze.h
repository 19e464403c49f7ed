/* Commands that report on a model: `dlc compile`, `check`, `summary`, `graph`, `bench`, `verify`,
 * `simulate-ranks` and `estimate-scaling`; `dlc cache`. Each is a row in the file of that name. */
#ifndef DL_ANALYZE_H
#define DL_ANALYZE_H
#include "compiler/subcommand.h"

extern const dl_subcommand dl_subcommand_bench, dl_subcommand_cache, dl_subcommand_check,
    dl_subcommand_fmt, dl_subcommand_compile, dl_subcommand_explain, dl_subcommand_graph,
    dl_subcommand_opt, dl_subcommand_summary, dl_subcommand_simulate_ranks,
    dl_subcommand_estimate_scaling, dl_subcommand_verify;
#endif

/* `dlc lsp`: a language server for editors, by the Language Server Protocol 3.17 on standard input
 * and output. */
#ifndef DL_LSP_H
#define DL_LSP_H
#include "compiler/subcommand.h"

extern const dl_subcommand dl_subcommand_lsp;
#endif

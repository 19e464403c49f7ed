/* `dlrun predict`: a trained model applied to arrays of any size. */
#ifndef DL_PREDICT_COMMAND_H
#define DL_PREDICT_COMMAND_H
#include "compiler/subcommand.h"

extern const dl_subcommand dl_subcommand_predict;
/* `dlrun test`: the model's own metrics on held-out data. */
extern const dl_subcommand dl_subcommand_test;
#endif

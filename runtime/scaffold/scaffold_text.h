/* The texts of a first model, its configuration and its list of commands. */
#ifndef DL_SCAFFOLD_TEXT_H
#define DL_SCAFFOLD_TEXT_H
#include "runtime/scaffold/scaffold_data.h"

/* The model's text: a perceptron for numbers, a convolutional network for fields. name: that of the
 * files ("heat"), from which the model's is made ("Heat"). */
void dl_scaffold_put_model(dl_buf *b, const dl_scaffold_data *d, const char *name);
void dl_scaffold_put_configuration(dl_buf *b, const dl_scaffold_data *d, const char *name);
void dl_scaffold_put_commands(dl_buf *b, const dl_scaffold_data *d, const char *name);
#endif

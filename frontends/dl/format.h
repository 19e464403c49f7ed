/* One way to write a model file: `dlc fmt`.
 *
 * Blanks alone change: indentation by four, one blank around operators, at most two empty lines,
 * pipelines of more than 100 columns broken in front of each `|>`. Comments, line ends within a
 * statement and all words stay. The result of a result is the same. */
#ifndef DL_FORMAT_H
#define DL_FORMAT_H
#include "frontends/dl/diag.h"

/* Appends the formatted text. False: the file has syntax errors, which are added to `diags`. */
bool dl_format_source(dl_arena *arena, const dl_source *source, dl_buf *out, dl_diags *diags);
#endif

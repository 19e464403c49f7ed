/* Diagnostics of a model file as JSON, for editors and other programs. */
#ifndef DL_DIAGNOSTICS_JSON_H
#define DL_DIAGNOSTICS_JSON_H
#include "frontends/dl/diag.h"

/* Appends each report as an object {"file", "line", "column", "end_line", "end_column", "severity",
 * "code", "message", "help", "notes"}, as they were found, with commas between and, unless *n is 0,
 * before the first; *n grows by their number. Lines and columns count from 1, columns in
 * characters. */
void dl_put_diagnostics_json(dl_buf *b, const dl_diags *diags, int *n);
/* The same of an error that no place of the model has: line and code are null. */
void dl_put_error_json(dl_buf *b, const char *file, const dl_error *err, int *n);
#endif

/* Where the text goes that a library makes for people: the program that called it prints it, or
 * keeps it. A library itself prints nothing. */
#ifndef DL_OUT_H
#define DL_OUT_H
#include "ir/base/status.h"

typedef struct {
    /* A piece of the result: tables, JSON. */
    void (*text)(void *context, const char *text);
    /* An error that does not end the command: its other files come yet. NULL: nobody is told. */
    void (*error)(void *context, const dl_error *err);
    /* One warning, a sentence without "warning: " and line end. NULL: nobody is told. */
    void (*warning)(void *context, const char *text);
    /* Located diagnostics of a model, whole lines with carets. NULL: nobody is told. */
    void (*diagnostics)(void *context, const char *text);
    void *context;
} dl_out;

void dl_out_text(const dl_out *out, const char *format, ...) DL_PRINTF(2, 3);
void dl_out_puts(const dl_out *out, const char *text); /* as it is; NULL is nothing */
void dl_out_error(const dl_out *out, const dl_error *err);
void dl_out_warning(const dl_out *out, const char *text);
void dl_out_diagnostics(const dl_out *out, const char *text);
#endif

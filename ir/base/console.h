/* The user, as a library sees them: where text goes, and whether the work at hand shall stop. The
 * program that calls the library prints and handles signals; a library itself does neither. */
#ifndef DL_CONSOLE_H
#define DL_CONSOLE_H
#include "ir/base/status.h"

/* How the work at hand takes a request to stop (Ctrl-C, SIGTERM). */
typedef enum {
    DL_STOP_AT_ONCE, /* it does not look: signals end the program */
    DL_STOP_CLEANLY, /* it gives up at once, and tidies up; then the signal ends the program */
    DL_STOP_LATER,   /* it comes to a good end: a step is finished, a checkpoint written */
} dl_stop;

typedef struct {
    /* A piece of the result: tables, JSON. */
    void (*text)(void *context, const char *text);
    /* An error that does not end the command: its other files come yet. NULL: nobody is told. */
    void (*error)(void *context, const dl_error *err);
    /* One warning, a sentence without "warning: " and line end. NULL: nobody is told. */
    void (*warning)(void *context, const char *text);
    /* Located diagnostics of a model, whole lines with carets. NULL: nobody is told. */
    void (*diagnostics)(void *context, const char *text);
    /* From now on the work takes requests so. NULL: there will be none. */
    void (*stoppable)(void *context, dl_stop how);
    /* The signal by which the user asked to stop since then; 0: none. */
    int (*stop_requested)(void *context);
    void *context;
} dl_console;

void dl_console_text(const dl_console *out, const char *format, ...) DL_PRINTF(2, 3);
void dl_console_puts(const dl_console *out, const char *text); /* as it is; NULL is nothing */
void dl_console_error(const dl_console *out, const dl_error *err);
void dl_console_warning(const dl_console *out, const char *text);
void dl_console_diagnostics(const dl_console *out, const char *text);
void dl_console_stoppable(const dl_console *out, dl_stop how);
int dl_console_stop_requested(const dl_console *out);
/* "SIGTERM". */
const char *dl_signal_name(int signal);
#endif

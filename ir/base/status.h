/* Errors as values: a code (which is also the program's exit status) and one message that says what
 * to do.
 *
 * A function that can fail returns bool (true: done) or a pointer (NULL: failed) and takes a
 * `dl_error *` last, never NULL. The first error is kept; libraries never print and never exit. */
#ifndef DL_STATUS_H
#define DL_STATUS_H
#include <stdbool.h>

#define DL_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* The exit codes of every program (docs/guide/troubleshoot.md lists them for users). */
typedef enum {
    DL_OK = 0,
    DL_USAGE = 2,     /* the command line */
    DL_INPUT = 3,     /* a file's contents: model, configuration, data, plan */
    DL_IO = 4,        /* the operating system refused: open, read, write */
    DL_RESOURCE = 5,  /* memory, disk space, a missing compiler */
    DL_TRUST = 6,     /* a file that is not ours to load */
    DL_NUMERIC = 7,   /* NaN or Inf where none may be */
    DL_PEER = 8,      /* another rank */
    DL_INTERNAL = 70, /* a fault of this program */
    DL_REQUEUE = 75   /* stopped by a signal, checkpoint written: run again with --resume */
} dl_code;

typedef struct {
    dl_code code;
    char message[1000];
} dl_error;

/* Sets `err` unless it is already set, to one line of text in which whatever a terminal would act
 * on is escaped; returns false, so that `return dl_fail(...)` reads well. */
bool dl_fail(dl_error *err, dl_code code, const char *format, ...) DL_PRINTF(3, 4);
/* The same for a failed system call: appends the cause (errno). Descriptors or memory that ran out
 * are always DL_RESOURCE, with the remedy. */
bool dl_fail_errno(dl_error *err, dl_code code, const char *format, ...) DL_PRINTF(3, 4);

/* An internal fault: prints where and why, and aborts. Never for user input. */
_Noreturn void dl_panic(const char *file, int line, const char *format, ...) DL_PRINTF(3, 4);
#define DL_CHECK(cond)                                                                             \
    do {                                                                                           \
        if (!(cond)) dl_panic(__FILE__, __LINE__, "internal fault: %s", #cond);                    \
    } while (0)
#endif

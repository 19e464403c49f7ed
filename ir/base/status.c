#include "ir/base/status.h"

#include "ir/base/escape.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message is one line, and contains foreign text: names of files and keys, a compiler's
 * output. */
static void add(dl_error *err, const char *text) {
    char piece[DL_PIECE];
    size_t n = strlen(err->message);
    for (size_t left = strlen(text); left;) {
        int step = dl_foreign_piece(DL_IN_LINE, text, left, piece);
        size_t k = strlen(piece);
        if (n + k >= sizeof err->message) return;
        memcpy(err->message + n, piece, k + 1);
        text += step, left -= (size_t)step, n += k;
    }
}

static void set(dl_error *err, dl_code code, const char *format, va_list ap) {
    char text[sizeof err->message];
    *err = (dl_error){.code = code};
    vsnprintf(text, sizeof text, format, ap);
    add(err, text);
}

bool dl_fail(dl_error *err, dl_code code, const char *format, ...) {
    if (err->code != DL_OK) return false;
    va_list ap;
    va_start(ap, format);
    set(err, code, format, ap);
    va_end(ap);
    return false;
}

/* Causes that are not the named file's fault: the exhausted resource, and the remedy. */
static const struct {
    int number;
    const char *remedy;
} shortages[] = {
    {EMFILE, "this process may open no more files; raise `ulimit -n`"},
    {ENFILE,
     "this machine has no more open files to give; end other programs, or raise fs.file-max"},
    {ENOMEM, "no memory is left"},
};

bool dl_fail_errno(dl_error *err, dl_code code, const char *format, ...) {
    int why = errno;
    const char *cause = strerror(why);
    if (err->code != DL_OK) return false;
    for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++)
        if (shortages[i].number == why) code = DL_RESOURCE, cause = shortages[i].remedy;
    va_list ap;
    va_start(ap, format);
    set(err, code, format, ap);
    va_end(ap);
    enum { ROOM = 160 }; /* for the cause, however long a path is */
    if (strlen(err->message) > sizeof err->message - ROOM)
        err->message[sizeof err->message - ROOM] = 0;
    add(err, ": ");
    add(err, cause);
    return false;
}

_Noreturn void dl_panic(const char *file, int line, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    va_end(ap);
    abort();
}

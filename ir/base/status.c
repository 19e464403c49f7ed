#include "ir/base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set(dl_error *err, dl_code code, const char *format, va_list ap) {
    err->code = code;
    vsnprintf(err->message, sizeof err->message, format, ap);
}

bool dl_fail(dl_error *err, dl_code code, const char *format, ...) {
    if (err->code != DL_OK) return false;
    va_list ap;
    va_start(ap, format);
    set(err, code, format, ap);
    va_end(ap);
    return false;
}

bool dl_fail_errno(dl_error *err, dl_code code, const char *format, ...) {
    int why = errno;
    if (err->code != DL_OK) return false;
    if (why == ENOMEM) code = DL_RESOURCE; /* whatever was tried */
    va_list ap;
    va_start(ap, format);
    set(err, code, format, ap);
    va_end(ap);
    size_t n = strlen(err->message);
    snprintf(err->message + n, sizeof err->message - n, ": %s", strerror(why));
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

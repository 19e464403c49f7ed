#include "ir/base/console.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "ir/base/str.h"

void dl_console_puts(const dl_console *out, const char *text) {
    if (out && text && *text) out->text(out->context, text);
}

void dl_console_text(const dl_console *out, const char *format, ...) {
    dl_buf b = {0};
    va_list ap;
    va_start(ap, format);
    dl_vputf(&b, format, ap);
    va_end(ap);
    dl_console_puts(out, b.at);
    dl_buf_free(&b);
}

void dl_console_error(const dl_console *out, const dl_error *err) {
    if (out && out->error) out->error(out->context, err);
}

void dl_console_warning(const dl_console *out, const char *text) {
    if (out && out->warning) out->warning(out->context, text);
}

void dl_console_diagnostics(const dl_console *out, const char *text) {
    if (out && out->diagnostics && text && *text) out->diagnostics(out->context, text);
}

void dl_console_stoppable(const dl_console *out, dl_stop how) {
    if (out && out->stoppable) out->stoppable(out->context, how);
}

int dl_console_stop_requested(const dl_console *out) {
    return out && out->stop_requested ? out->stop_requested(out->context) : 0;
}

const char *dl_signal_name(int number) {
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGINT, "SIGINT"},   {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"},
                 {SIGUSR2, "SIGUSR2"}, {SIGHUP, "SIGHUP"},   {SIGXCPU, "SIGXCPU"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number) return names[i].name;
    return "a signal";
}

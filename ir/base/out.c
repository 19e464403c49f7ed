#include "ir/base/out.h"

#include <stdarg.h>
#include <stdio.h>

#include "ir/base/str.h"

void dl_out_puts(const dl_out *out, const char *text) {
    if (out && text && *text) out->text(out->context, text);
}

void dl_out_text(const dl_out *out, const char *format, ...) {
    dl_buf b = {0};
    va_list ap;
    va_start(ap, format);
    dl_vputf(&b, format, ap);
    va_end(ap);
    dl_out_puts(out, b.at);
    dl_buf_free(&b);
}

void dl_out_error(const dl_out *out, const dl_error *err) {
    if (out && out->error) out->error(out->context, err);
}

void dl_out_warning(const dl_out *out, const char *text) {
    if (out && out->warning) out->warning(out->context, text);
}

void dl_out_diagnostics(const dl_out *out, const char *text) {
    if (out && out->diagnostics && text && *text) out->diagnostics(out->context, text);
}

/* Fills a shape fault: the operand that it points at, the diagnostic's name, the message, the
 * help. All rules and checks of types report through these two functions. */
#include <stdarg.h>
#include <stdio.h>

#include "ir/infer_rules.h"

bool dl_fault(dl_shape_fault *fault, int operand, const char *code, const char *format, ...) {
    fault->operand = operand;
    fault->code = code;
    fault->help[0] = 0;
    va_list ap;
    va_start(ap, format);
    vsnprintf(fault->message, sizeof fault->message, format, ap);
    va_end(ap);
    return false;
}

bool dl_fault_help(dl_shape_fault *fault, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vsnprintf(fault->help, sizeof fault->help, format, ap);
    va_end(ap);
    return false;
}

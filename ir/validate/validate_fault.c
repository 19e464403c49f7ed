/* The message of a failed check: the graph, the node, the fault. */
#include "ir/validate/validate_parts.h"

#include <stdarg.h>
#include <stdio.h>

#include "ir/text/text.h"

bool dl_check_fail(dl_checker *c, const dl_node *n, const char *format, ...) {
    char what[600];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    if (!n) return dl_fail(c->err, DL_INTERNAL, "graph %s: %s", c->g->name, what);
    dl_buf text = {0};
    dl_print_node(&text, n);
    while (text.n && (text.at[text.n - 1] == '\n' || text.at[text.n - 1] == ' '))
        text.at[--text.n] = 0;
    dl_fail(c->err, DL_INTERNAL, "graph %s: %.320s: %s", c->g->name, text.at + strspn(text.at, " "),
            what);
    dl_buf_free(&text);
    return false;
}

/* The IR's text: printer and parser are exact inverses, byte for byte (tested on every dump).
 * docs/internals/ir.md is the grammar. */
#ifndef DL_TEXT_H
#define DL_TEXT_H
#include "ir/kernel/kernel.h"

typedef struct {
    bool locations;     /* source line after each node: "# unet.dl:2" */
    const char *filter; /* only the kernel or graph of this name ("@k0"), or NULL for all */
} dl_print_options;

void dl_print_module(dl_buf *out, const dl_module *m, dl_print_options opt);
void dl_print_graph(dl_buf *out, const dl_graph *g, dl_print_options opt);
void dl_print_kernel(dl_buf *out, const dl_kernel *k, dl_print_options opt);
void dl_print_node(dl_buf *out, const dl_node *n); /* one line, for messages */

/* Parses the text of a module; `name` is the file's name for messages. NULL and DL_INPUT
 * "file:line:column: ..." on a fault. Limits: 16 MiB, nesting and ranks as promised in
 * docs/internals/ir.md. Locations in comments are read back. */
dl_module *dl_parse_module(dl_arena *parent, const char *text, size_t n, const char *name,
                           dl_error *err);
#endif

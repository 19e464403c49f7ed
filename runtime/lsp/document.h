/* An open file of an editor: its text as it is there, and what is known of it. */
#ifndef DL_LSP_DOCUMENT_H
#define DL_LSP_DOCUMENT_H
#include "compiler/target/target.h"
#include "frontends/dl/facts.h"
#include "frontends/dl/symbols.h"
#include "runtime/formats/json.h"

typedef struct {
    const char *uri; /* in the arena */
    dl_arena *arena; /* of this text: replaced with it */
    dl_source *source;
    dl_diags *diags;
    dl_symbols *symbols;
    dl_facts *facts; /* of the newest text without syntax errors in the model's outline */
} dl_lsp_document;

/* The document of this text, in an arena of its own, checked by the front end; with `target`
 * also as far as machine code, as `dlc check` does. */
dl_lsp_document *dl_lsp_document_open(const char *uri, const char *text, const dl_target *target);
void dl_lsp_document_close(dl_lsp_document *d);

/* Positions of the protocol count lines from 0, and in a line UTF-16's units. The byte of one;
 * those beyond a line's end are the end. */
uint32_t dl_lsp_byte(const dl_source *s, const dlr_json *position);
/* Appends {"start": ..., "end": ...}. */
void dl_lsp_put_range(dl_buf *b, const dl_source *s, dl_span where);
/* Appends the document's diagnostics: a list. */
void dl_lsp_put_diagnostics(dl_buf *b, const dl_lsp_document *d);
#endif

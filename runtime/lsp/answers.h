/* Answers to an editor's requests about a document. Each appends the `result` as JSON. */
#ifndef DL_LSP_ANSWERS_H
#define DL_LSP_ANSWERS_H
#include "runtime/lsp/document.h"

/* The type of what stands at byte `at`, its layer's parameters, and a built-in's arguments; null
 * where there is nothing to say. */
void dl_lsp_hover(dl_buf *b, const dl_lsp_document *d, uint32_t at);
/* Words that may stand at byte `at`: after "|>" layers, functions and modules; within a call also
 * its arguments; else all names, too. */
void dl_lsp_complete(dl_buf *b, const dl_lsp_document *d, uint32_t at);
/* Where the name at byte `at` is defined; null. */
void dl_lsp_define(dl_buf *b, const dl_lsp_document *d, uint32_t at);
/* All places of that name. */
void dl_lsp_refer(dl_buf *b, const dl_lsp_document *d, uint32_t at);
/* The range of the name at byte `at`, if it can be renamed; null. */
void dl_lsp_prepare_rename(dl_buf *b, const dl_lsp_document *d, uint32_t at);
/* The edits that rename it. Errors (DL_INPUT): no name is there, it cannot have that name, or the
 * text has another of it. */
bool dl_lsp_rename(dl_buf *b, const dl_lsp_document *d, uint32_t at, const char *name,
                   dl_error *err);
/* The outline: modules, models and functions, and what they define. */
void dl_lsp_outline(dl_buf *b, const dl_lsp_document *d);
/* The edit that brings the text into the form of `dlc fmt`; an empty list where it has syntax
 * errors. */
void dl_lsp_format(dl_buf *b, const dl_lsp_document *d);
#endif

/* Diagnostics of a model file: the fault, its place, the reason, and a remedy.
 *
 * Every kind of diagnostic is a row of diag.def with a permanent code. Reports are collected,
 * sorted by position, and printed with the source line and a caret; at most 20 errors and 20
 * warnings are shown. */
#ifndef DL_DIAG_H
#define DL_DIAG_H
#include "frontends/dl/source.h"

typedef enum {
#define DIAG(id, code, explanation) DL_DIAG_##id,
#include "frontends/dl/diag.def"
#undef DIAG
    DL_NDIAGS
} dl_diag_id;

typedef struct {
    dl_span where;
    const char *text;
} dl_diag_note;

typedef struct {
    dl_diag_id id;
    dl_span where;
    const char *message;
    const char *help; /* or NULL */
    DL_ARRAY(dl_diag_note) notes;
} dl_diag;

typedef struct dl_diags {
    dl_arena *arena;
    const dl_source *source;
    DL_ARRAY(dl_diag *) list;
    int errors, warnings;
} dl_diags;

enum { DL_DIAG_SHOWN = 20 };

/* An empty collection for one source. */
dl_diags *dl_diags_new(dl_arena *arena, const dl_source *source);

/* Adds a report. The same kind at the same place is reported once (a loop body that is elaborated
 * twelve times makes one report). Notes and help can be added to the returned diagnostic in any
 * case. */
dl_diag *dl_report(dl_diags *d, dl_span where, dl_diag_id id, const char *format, ...)
    DL_PRINTF(4, 5);
void dl_diag_add_note(dl_diags *d, dl_diag *g, dl_span where, const char *format, ...)
    DL_PRINTF(4, 5);
void dl_diag_set_help(dl_diags *d, dl_diag *g, const char *format, ...) DL_PRINTF(3, 4);
/* Adds the reports of `from` (same source) that `to` lacks. */
void dl_diags_merge(dl_diags *to, const dl_diags *from);

/* Whether d holds a report of the same kind at the same place. */
bool dl_diags_has(const dl_diags *d, const dl_diag *g);

bool dl_diag_is_warning(dl_diag_id id); /* else it is an error */

/* Prints all reports, sorted by position, with source lines and carets; colours for a terminal. */
void dl_diags_print(dl_buf *out, const dl_diags *d, bool colour);

/* The kind of this short name ("axis_mismatch") or -1. */
int dl_diag_find(const char *name);
/* The code of a kind: "DL-E0201". */
const char *dl_diag_code(dl_diag_id id);
/* Prints the text of `dlc explain CODE`: code, name and explanation. CODE may omit "DL-", and may
 * be the short name. False: there is no such code. */
bool dl_diag_explain(dl_buf *out, const char *code);
#endif

/* The names of a model's text, each with all places where it stands: what an editor renames, jumps
 * to and offers. Names are resolved by the text alone, so that it works while there are faults. */
#ifndef DL_SYMBOLS_H
#define DL_SYMBOLS_H
#include "frontends/dl/source.h"

typedef enum {
    DL_SYMBOL_MODULE,
    DL_SYMBOL_MODEL,
    DL_SYMBOL_FUNCTION,
    DL_SYMBOL_ARGUMENT, /* of a module, a model or a function */
    DL_SYMBOL_INPUT,
    DL_SYMBOL_TARGET,
    DL_SYMBOL_PARAMETER,
    DL_SYMBOL_BUFFER,
    DL_SYMBOL_VALUE, /* assigned, or of a loop */
    DL_N_SYMBOL_KINDS
} dl_symbol_kind;

typedef struct {
    const char *name;
    dl_symbol_kind kind;
    dl_span where; /* of its first definition: the name, */
    dl_span whole; /* and the statement */
    dl_span scope; /* the text that sees it */
    int outer;     /* of an argument: the module, model or function; else -1 */
} dl_symbol;

typedef struct {
    dl_span where;
    int symbol;
    bool defines;
} dl_symbol_place;

typedef struct {
    DL_ARRAY(dl_symbol) list;
    DL_ARRAY(dl_symbol_place) places;
} dl_symbols;

/* All names that the text defines, with their places. Statements with syntax errors have none. */
dl_symbols *dl_symbols_of(dl_arena *arena, const dl_source *source);
/* The place that contains byte `at`, or its end; or NULL. */
const dl_symbol_place *dl_symbols_at(const dl_symbols *s, uint32_t at);
/* "module". */
extern const char *const dl_symbol_kinds[DL_N_SYMBOL_KINDS];
#endif

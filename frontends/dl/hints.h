/* Hints for words of other languages (hints.def), which diagnostics add as help. */
#ifndef DL_HINTS_H
#define DL_HINTS_H
#include <stddef.h>

typedef enum {
    DL_HINT_WORD,
    DL_HINT_CALL,
    DL_HINT_ATTRIBUTE,
    DL_HINT_NAME,
    DL_HINT_ARGUMENT,
    DL_HINT_SIGN
} dl_hint_kind;

/* The help for a word of n bytes, or NULL. */
const char *dl_hint_find(dl_hint_kind kind, const char *word, size_t n);
/* The built-in, or its argument, that the word is another name of, or NULL. */
const char *dl_hint_alias(dl_hint_kind kind, const char *word);
#endif

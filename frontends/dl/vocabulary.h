/* The words of the language, for editors: keywords, built-in layers and functions, and their
 * arguments. */
#ifndef DL_VOCABULARY_H
#define DL_VOCABULARY_H
#include "ir/base/arena.h"

/* Words with a meaning of their own: *n of them, of which the first *never are never names. */
const char *const *dl_keywords(int *n, int *never);
/* Whether a statement may define this name. */
bool dl_is_name(const char *text);

/* Built-in layer or function i; NULL: there are no more. *makes: it has parameters. */
const char *dl_vocabulary_at(int i, bool *makes);
/* "conv(channels, kernel, stride=1)"; NULL: no such layer or function. */
const char *dl_vocabulary_usage(dl_arena *arena, const char *name);
/* Argument i of it and its default (NULL: it must be given); NULL: there are no more. */
const char *dl_vocabulary_argument(const char *name, int i, const char **otherwise);
#endif

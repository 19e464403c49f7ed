/* The words of the environment variable DLR_DEBUG. */
#ifndef DLR_DEBUG_WORDS_H
#define DLR_DEBUG_WORDS_H
#include <stdbool.h>

/* Whether the word is one of them; commas stand between them. */
bool dlr_debugs(const char *word);
#endif

/* The words of the environment variable DLR_DEBUG. */
#ifndef DLR_DEBUG_WORDS_H
#define DLR_DEBUG_WORDS_H
#include <stdbool.h>
#include <stdint.h>

/* Whether the word is one of them; commas stand between them. */
bool dlr_debugs(const char *word);

/* A gate for tests, in the place of a clock: with the word `gate:POINT:NUMBER:PATH` the calling thread stops
 * here, writes a byte to the FIFO PATH, and goes on when it has read one from the FIFO PATH.go. A signal's
 * handler runs meanwhile. Points: `begin` (0; a run hears signals, and has made no step), `step` (N: step N
 * is made, and signals were not looked at since), `epoch` (N: epoch N is recorded, and its checkpoint not
 * begun). A PATH that cannot be used does not stop the run. */
void dlr_gate(const char *point, int64_t number);
#endif

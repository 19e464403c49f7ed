/* The environment variable DLR_DEBUG: a list of words. */
#ifndef DLR_DEBUG_WORDS_H
#define DLR_DEBUG_WORDS_H
#include <stdbool.h>
#include <stdint.h>

/* Whether the word is in the list, which commas separate. */
bool dlr_debugs(const char *word);

/* A gate, by which tests wait for an event instead of a duration: with the word
 * `gate:POINT:NUMBER:PATH` the calling thread stops here, writes a byte to the FIFO PATH, and goes
 * on when it has read one from the FIFO PATH.go. A signal's handler runs meanwhile. Points: `begin`
 * (0: the run watches signals, and has run no step), `step` (N: step N is done, and the run has not
 * looked at signals since) and `epoch` (N: epoch N is recorded, and its checkpoint has not begun).
 * An unusable PATH does not stop the run. */
void dlr_gate(const char *point, int64_t number);
#endif

/* The environment variable DLR_DEBUG: a list of words. */
#ifndef DLR_DEBUG_H
#define DLR_DEBUG_H
#include <stdbool.h>
#include <stdint.h>

/* Whether the word is in the list, which commas separate. */
bool dlr_debugs(const char *word);

/* A gate, by which tests wait for an event instead of a duration. With the word
 * `gate:POINT:NUMBER:PATH` the calling thread stops here and writes a byte to the FIFO PATH. It
 * goes on when it has read a byte from the FIFO PATH.go; signal handlers run meanwhile. Points:
 * `begin` (0: signal handlers are installed, and no step has run), `step` (N: step N is done, and
 * signals have not been polled since) and `epoch` (N: epoch N is logged, and its checkpoint has not
 * begun). An unusable PATH does not stop the run. */
void dlr_gate(const char *point, int64_t number);
#endif

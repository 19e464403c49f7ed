/* Standard error, shared by log lines and a progress bar so that they do not garble each other: the
 * bar is erased, the line is written, and the bar is drawn again below it. All functions may be
 * called from any thread. */
#ifndef DLR_TERMINAL_H
#define DLR_TERMINAL_H
#include <stdbool.h>
#include <stddef.h>

/* Whether standard error is a terminal that can redraw a bar (checked at each call; TERM=dumb
 * cannot). */
bool dlr_terminal_is_live(void);
/* Whether colours are wanted: a live terminal and no NO_COLOR in the environment (no-color.org). */
bool dlr_terminal_has_colour(void);
int dlr_terminal_width(void); /* columns, 80 when unknown */

/* Writes n bytes of whole lines, by one write, above the bar. */
void dlr_terminal_write(const char *text, size_t n);
/* Draws `bar` (one line without its end) in place of the previous one; NULL removes it. */
void dlr_terminal_set_bar(const char *bar);
#endif

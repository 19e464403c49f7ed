/* A bitmap font for labels: printable ASCII in 5 x 7 dots. */
#ifndef DLR_FONT_H
#define DLR_FONT_H
#include <stdbool.h>

enum { DLR_GLYPH_WIDTH = 5, DLR_GLYPH_HEIGHT = 7 };
/* Whether the glyph of `c` has ink at column x (0 is left) and row y (0 is top); other bytes than
 * ASCII are a box. */
bool dlr_glyph_dot(char c, int x, int y);
#endif

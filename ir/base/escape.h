/* Escapes a character of text that others chose, for the place in which it will stand. It is the
 * lowest layer of foreign.h: it allocates nothing, so that error messages (status.h) can use it.
 *
 * In: a place, and text. Out: the bytes to write there for the text's first character. */
#ifndef DL_ESCAPE_H
#define DL_ESCAPE_H
#include <stddef.h>

/* The syntax around the text, and the escape of a byte that may not stand there. No syntax takes
 * control characters, bytes that are not UTF-8, and characters that reorder or hide their
 * neighbours. */
typedef enum {
    DL_IN_COMMENT, /* of C or CUDA, of either kind, with a blank on both sides: \xHH, also for * ?
                      and \ */
    DL_IN_LITERAL, /* between the quotes of a C literal, or of #line: \ooo, also for " ? and \ */
    DL_IN_IR,      /* between the quotes of the IR's text, which reads it back: \xHH, \" and \\ */
    DL_IN_JSON,    /* between the quotes of JSON: \u00hh, \" and the like; U+FFFD for what is no
                      UTF-8 */
    DL_IN_LINE,    /* a line for people, on a terminal or in a log: \xHH; a tab stays */
    DL_IN_XML, /* text or an attribute of XML, SVG or HTML: &#60; and the like; U+FFFD for what is
                  no UTF-8 and for what no syntax takes */
    DL_NPLACES
} dl_place;

/* Escapes the first character of s, which has `left` bytes, at least one. The result ends with NUL.
 * Returns how many bytes of s it replaces. */
enum { DL_PIECE = 17 };
int dl_foreign_piece(dl_place place, const char *s, size_t left, char piece[DL_PIECE]);
#endif

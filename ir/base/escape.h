/* Escapes a character of text that others chose, for the place in which it will stand. It is the lowest
 * layer of foreign.h: it allocates nothing, so that error messages (status.h) can use it.
 *
 * In: a place, and text. Out: the bytes to write there for the text's first character. */
#ifndef DL_ESCAPE_H
#define DL_ESCAPE_H
#include <stddef.h>

/* Where it will stand, and what is written for a byte that may not stand there. Everywhere these bytes may
 * not: control characters, bytes that are no UTF-8, and characters that reorder or hide what stands beside
 * them. */
typedef enum {
    DL_IN_COMMENT, /* of C or CUDA, of either kind, with a blank on both sides: \xHH, also for * ? and \ */
    DL_IN_LITERAL, /* between the quotes of a C literal, or of #line: \ooo, also for " ? and \ */
    DL_IN_IR,      /* between the quotes of the IR's text, which reads it back: \xHH, \" and \\ */
    DL_IN_JSON,    /* between the quotes of JSON: \u00hh, \" and the like; U+FFFD for what is no UTF-8 */
    DL_IN_LINE,    /* a line for people, on a terminal or in a log: \xHH; a tab stays */
    DL_NPLACES
} dl_place;

/* One step of it, for who writes elsewhere: what the first character of s (of `left` bytes, at least one)
 * becomes, ended by NUL. Returns the bytes of s that it stands for. */
enum { DL_PIECE = 17 };
int dl_foreign_piece(dl_place place, const char *s, size_t left, char piece[DL_PIECE]);
#endif

/* Text that others chose (paths, names in files, what a compiler printed) on its way into text that a machine
 * or a terminal acts on. Whoever writes it there, writes it by these functions. */
#ifndef DL_FOREIGN_H
#define DL_FOREIGN_H
#include "ir/base/str.h"

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

void dl_put_foreign(dl_buf *out, dl_place place, const char *s);
/* One step of it, for who writes elsewhere: what the first character of s (of `left` bytes, at least one)
 * becomes, ended by NUL. Returns the bytes of s that it stands for. */
enum { DL_PIECE = 17 };
int dl_foreign_piece(dl_place place, const char *s, size_t left, char piece[DL_PIECE]);
/* The string as a line for people (DL_IN_LINE), in the arena. */
const char *dl_shown(dl_arena *arena, const char *s);
/* Whether it is a name of C, which needs no such care: what is none must not become one. */
bool dl_is_c_name(const char *s);
#endif

/* Text that others chose (paths, names in files, what a compiler printed) on its way into text that a machine
 * or a terminal acts on. Whoever writes it there, writes it by these functions. */
#ifndef DL_FOREIGN_H
#define DL_FOREIGN_H
#include "ir/base/escape.h"
#include "ir/base/str.h"

void dl_put_foreign(dl_buf *out, dl_place place, const char *s);
/* The string as a line for people (DL_IN_LINE), in the arena. */
const char *dl_shown(dl_arena *arena, const char *s);
/* Whether it is a name of C, which needs no such care: what is none must not become one. */
bool dl_is_c_name(const char *s);
#endif

/* Escapes foreign text (paths, names in files, a compiler's output) before it goes into text that a
 * machine or a terminal acts on. All writers of such text use these functions. */
#ifndef DL_FOREIGN_H
#define DL_FOREIGN_H
#include "ir/base/escape.h"
#include "ir/base/str.h"

void dl_put_foreign(dl_buf *out, dl_place place, const char *s);
/* The string as a line for people (DL_IN_LINE), in the arena. */
const char *dl_shown(dl_arena *arena, const char *s);
/* Appends s as one word of a shell's command line, in quotes where it needs them. */
void dl_put_shell_word(dl_buf *out, const char *s);
/* Whether s is a C identifier, which needs no escape. Other text must not become one. */
bool dl_is_c_name(const char *s);
#endif

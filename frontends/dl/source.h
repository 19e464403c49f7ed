/* A model file's text and positions in it. */
#ifndef DL_SOURCE_H
#define DL_SOURCE_H
#include "ir/graph.h"

enum { DL_SOURCE_LIMIT = 16 << 20 };

/* A range of the text, in bytes from the start of the file; `end` is exclusive. */
typedef struct {
    uint32_t begin, end;
} dl_span;

typedef struct dl_source {
    const char *name; /* interned, as the user gave it */
    const char *text; /* n bytes and a terminating NUL */
    size_t n;
    DL_ARRAY(uint32_t) lines; /* where each line begins */
} dl_source;

/* A source from text in memory; the text is copied. */
dl_source *dl_source_new(dl_arena *arena, const char *name, const char *text, size_t n);
/* The same from a file. NULL: DL_IO when it cannot be read, DL_INPUT when it is over 16 MiB. */
dl_source *dl_source_read(dl_arena *arena, const char *path, dl_error *err);

/* Line and column (both from 1, columns in characters) of a byte. */
dl_loc dl_source_loc(const dl_source *s, uint32_t at);
/* The line of a byte, from 1; fast even for long lines. */
int dl_source_line_number(const dl_source *s, uint32_t at);
/* The word, or else the single character, at a position. */
dl_span dl_source_word(const dl_source *s, dl_loc at);
/* The text of a line without its end of line. */
const char *dl_source_line(const dl_source *s, int line, size_t *n);
/* Offset of the first byte that is not valid UTF-8 or is NUL, or -1. */
int64_t dl_source_bad_byte(const dl_source *s);
#endif

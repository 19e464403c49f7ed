/* Private to the parser: tokens, and functions that parse*.c share. The interface is
 * dl_parse_module in text.h.
 *
 * Recursive descent over a grammar without recursion: nothing nests deeper than a list inside an
 * attribute, so hostile text cannot exhaust the stack. A statement ends at the end of its line;
 * its comment is the text of the line's end. */
#ifndef DL_PARSE_H
#define DL_PARSE_H
#include "ir/text/text.h"

enum {
    DL_TEXT_MAX = 16 << 20,   /* bytes of a module */
    DL_TOKEN_MAX = 64 << 10,  /* bytes of a token */
    DL_ID_MAX = 1 << 22,      /* value numbers: tables are indexed by them */
    DL_GRAPHS_MAX = 64,       /* graphs of a module */
    DL_BODIES_MAX = 16,       /* bodies in each other */
    DL_KPARAMS_MAX = 1024,    /* parameters of a kernel */
    DL_ELEMENTS_LOG2_MAX = 47 /* elements of a tensor or of a kernel's space */
};

typedef enum {
    TOK_END,    /* of the text */
    TOK_LINE,   /* end of a line; `text` is its comment, without the '#' */
    TOK_WORD,   /* conv, C, init */
    TOK_NUMBER, /* 3, -1, +64, 0.5, 1e-08, -inf */
    TOK_STRING, /* "..." */
    TOK_VALUE,  /* %name */
    TOK_VAR,    /* $name */
    TOK_AT,     /* @name */
    TOK_ARROW,  /* -> */
    TOK_MARK    /* one of { } [ ] ( ) , = : */
} dl_token_kind;

typedef struct {
    dl_token_kind kind;
    const char *at; /* as written */
    size_t n;
    const char *text; /* names, words and strings: the value, interned */
    int line, column; /* 1-based, in bytes */
} dl_token;

/* A hash map with open addressing from a number or a pointer to a pointer. */
typedef struct {
    struct dl_map_slot {
        uintptr_t key; /* 0: free */
        void *value;
    } * at;
    size_t n, cap;
} dl_map;

/* A body that stands above, and is run by the one node that names it. */
typedef struct {
    dl_graph *body;
    int depth; /* of the bodies in it, and itself */
    bool run;
} dl_known_body;

typedef struct {
    const char *name; /* of the file, for messages */
    const char *next, *end;
    int line;
    const char *line_start;
    dl_token tok; /* the current token */
    dl_module *m;
    dl_arena *scratch;
    dl_map kernels;      /* interned name -> dl_known_kernel */
    dl_map bodies;       /* interned name -> dl_known_body */
    int depth;           /* of bodies in the current graph */
    dl_map vars, values; /* of the current graph: interned name -> dl_var; id + 1 -> dl_value */
    DL_ARRAY(dl_kernel *) pending; /* kernels of the next graph */
    DL_ARRAY(const dl_known_body *) all_bodies;
    uint32_t next_id; /* one more than the largest id of the graph */
    dl_error *err;
} dl_parser;

typedef struct {
    dl_kernel *kernel;
    dl_graph *holder; /* the last graph whose list holds it */
} dl_known_kernel;

/* parse_lex.c. All return false when err is set. */
bool dl_lex(dl_parser *p); /* the next token into p->tok */
bool dl_lex_fail(dl_parser *p, const dl_token *at, const char *format, ...) DL_PRINTF(3, 4);
bool dl_lex_expected(dl_parser *p, const char *what); /* "expected WHAT, found ..." */
bool dl_lex_is(const dl_parser *p, char mark);
bool dl_lex_is_word(const dl_parser *p, const char *word);
bool dl_lex_accept(dl_parser *p, char mark, bool *yes);
bool dl_lex_accept_word(dl_parser *p, const char *word, bool *yes);
bool dl_lex_mark(dl_parser *p, char mark);
bool dl_lex_name(dl_parser *p, dl_token_kind kind, const char *what, const char **name);
bool dl_lex_int(dl_parser *p, int64_t min, int64_t max, const char *what, int64_t *v);
bool dl_lex_double(dl_parser *p, double *v);
/* "did you mean" after a message, or "". */
const char *dl_lex_nearest(dl_parser *p, const char *word, const char *const *names, int n);
/* End of a statement; reads the location in its comment (none: *loc is zero). */
bool dl_lex_end_line(dl_parser *p, dl_loc *loc);
/* All locations of a comment; none when anything in it is not a location. */
int dl_lex_locs(dl_parser *p, const char *text, size_t n, dl_loc *locs, int max);

void *dl_map_get(const dl_map *map, uintptr_t key); /* NULL when it is not there */
void dl_map_set(dl_parser *p, dl_map *map, uintptr_t key, void *value);
void dl_map_clear(dl_map *map);

/* parse_parts.c: shared by graphs and kernels. */
bool dl_parse_axes(dl_parser *p, char close, int *rank, dl_axis axis[DL_MAX_RANK]);
bool dl_parse_dtype(dl_parser *p, dl_dtype *d);
bool dl_parse_type(dl_parser *p, dl_type *t);
bool dl_parse_op(dl_parser *p, dl_op *op);
bool dl_parse_attr_value(dl_parser *p, dl_attr_id id, dl_attr *a);
bool dl_parse_ints(dl_parser *p, int *n, int64_t v[DL_MAX_RANK]);
/* "{a=1, b=[2, 3]}" for `op`, all attributes of its row, each once; nothing where the row has
 * none. */
bool dl_parse_attrs(dl_parser *p, dl_op op, int *n, dl_attr attrs[DL_MAX_ATTRS]);

/* parse_kernel.c: one kernel, after the word `kernel`. */
dl_kernel *dl_parse_kernel(dl_parser *p);
#endif

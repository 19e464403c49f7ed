/* The syntax tree that the grammar builds. Elaboration (elab.h) gives it meaning. */
#ifndef DL_AST_H
#define DL_AST_H
#include "frontends/dl/diag.h"

/* The kinds of nodes, with their members; members that are not named are empty. */
typedef enum {
    /* expressions */
    DL_A_INT,    /* i */
    DL_A_FLOAT,  /* f */
    DL_A_STR,    /* name */
    DL_A_TEXT,   /* a string with values in braces; items as of a LABEL */
    DL_A_BOOL,   /* i */
    DL_A_NONE,   /* */
    DL_A_NAME,   /* name */
    DL_A_LIST,   /* items */
    DL_A_COMP,   /* [a for name in b if c]; c may be NULL */
    DL_A_UNARY,  /* op a */
    DL_A_BINARY, /* a op b; `at` is the operator */
    DL_A_COND,   /* a if b else c */
    DL_A_CALL,   /* a(items), each item an ARG */
    DL_A_INDEX,  /* a[items], each item an ARG, whose value may be a SLICE */
    DL_A_ARG,    /* name = a; name NULL when positional */
    DL_A_SLICE,  /* a:b:c; each may be NULL */
    DL_A_ATTR,   /* a.name */
    DL_A_LABEL, /* a @items; each item a STR or an expression in braces; in an OPTIMIZE a is NULL */
    DL_A_PIPE,  /* a |> b */
    DL_A_AS,    /* a as [items], each item an ARG */
    DL_A_CAST,  /* a as name */
    DL_A_TYPE,  /* name[items]; name NULL when no element type is written; op 1: no brackets */
    /* statements */
    DL_A_ASSIGN,    /* name = a */
    DL_A_UNPACK,    /* items = a, each item a NAME */
    DL_A_AUGMENT,   /* name += a */
    DL_A_FUNCTION,  /* name(items) = a, each item a PARAM */
    DL_A_INPUT,     /* input name: a */
    DL_A_TARGET,    /* target name: a */
    DL_A_BUFFER,    /* buffer name @items: a; items may be empty */
    DL_A_PARAMETER, /* param name @items: a ~ b (op '~') or = b (op '='); b may be NULL */
    DL_A_INIT,      /* init items: more, items NAMEs, more SETTINGs */
    DL_A_SETTING,   /* name ~ a (op '~') or = a (op '=') */
    DL_A_OUTPUT,    /* output a undo b, a NAME or NONE; b may be NULL */
    DL_A_OPTIMIZE,  /* optimize name items: a; items LABELs, or empty */
    DL_A_METRIC,    /* metric name = a; or, name NULL, items as of a LABEL */
    DL_A_FIGURE,    /* figure name = a; likewise */
    DL_A_RETURN,    /* return a */
    DL_A_FOR,       /* for name in a: body */
    DL_A_IF,        /* if a: body else: more */
    DL_A_EXPR,      /* an expression whose value is not used: a */
    DL_A_PASS,      /* */
    DL_A_BAD,       /* a statement with a syntax error; items: the NAMEs in it */
    /* declarations */
    DL_A_PARAM,  /* name = a (default, or NULL) of arguments; name: b (TYPE, or NULL) of tensor
                    arguments */
    DL_A_MODULE, /* module name(items)(more): body */
    DL_A_MODEL,  /* model name(items): body */
    DL_A_FILE    /* body */
} dl_ast_kind;

typedef struct dl_ast dl_ast;
typedef struct {
    DL_ARRAY(dl_ast *) list;
} dl_ast_list;

struct dl_ast {
    dl_ast_kind kind;
    dl_span span, at; /* the whole node; its name or operator */
    int depth;        /* depth of the subtree, for the nesting limit */
    int op;           /* a token of the grammar */
    const char *name; /* interned */
    int64_t i;
    double f;
    dl_ast *a, *b, *c;
    dl_ast_list items, more, body;
};

enum { DL_MAX_NESTING = 256 };

/* A token after indentation was processed. */
typedef struct {
    int kind; /* of the grammar */
    dl_span span;
    const char *name;
    int64_t i;
    double f;
} dl_word;

/* The state of one parse, passed through lexer, indentation and grammar. */
typedef struct {
    dl_arena *arena;
    const dl_source *source;
    dl_diags *diags;
    DL_ARRAY(dl_word) tokens;
    int next;       /* the token that the grammar reads next */
    bool abandoned; /* a limit was exceeded: stop */
    DL_ARRAY(int)
    fault_lines; /* lines whose faults were reported before the grammar read them; sorted when all
                    tokens are there */
    dl_ast *file;
} dl_reader;

/* Splits the text into tokens. Indentation, continuation lines and brackets become tokens or are
 * removed. (indent.c) */
void dl_read_words(dl_reader *p);
/* Whether a fault on the line of byte `at` was reported before the grammar read it. */
bool dl_line_has_fault(const dl_reader *p, uint32_t at);
/* Parses the whole file; always returns a FILE, with BAD nodes for statements with syntax errors.
 * (parser.y) */
dl_ast *dl_parse_file(dl_arena *arena, const dl_source *source, dl_diags *diags);

/* For the grammar's actions. */
dl_ast *dl_ast_new(dl_reader *p, dl_ast_kind kind, dl_span span);
dl_ast *dl_ast_node(dl_reader *p, dl_ast_kind kind, dl_span span, dl_ast *a, dl_ast *b, dl_ast *c);
dl_ast *dl_ast_named(dl_reader *p, dl_ast_kind kind, dl_span span, const char *name, dl_span at,
                     dl_ast *a);
dl_ast *dl_ast_op(dl_reader *p, dl_ast_kind kind, dl_span span, int op, dl_span at, dl_ast *a,
                  dl_ast *b);
dl_ast *dl_ast_items(dl_reader *p, dl_ast_kind kind, dl_span span, dl_ast *a, dl_ast_list items);
/* param or buffer NAME @LABEL: TYPE */
dl_ast *dl_ast_own(dl_reader *p, dl_ast_kind kind, dl_span span, const char *name, dl_span at,
                   dl_ast_list label, dl_ast *type);
dl_ast_list dl_ast_push(dl_reader *p, dl_ast_list list, dl_ast *item);
dl_ast *dl_ast_assign(dl_reader *p, dl_span span, dl_ast *left, dl_ast *right);
dl_ast *dl_ast_bad(dl_reader *p, dl_span span);
/* Sets the node's depth; reports once when the tree is too deep. */
void dl_ast_deepen(dl_reader *p, dl_ast *node, const dl_ast *child);

/* Prints the tree, one node per line, for `--dump=ast`. */
void dl_ast_print(dl_buf *out, const dl_ast *file);
#endif

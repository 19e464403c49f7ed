/* The nodes of the loop IR: shared by loops.c, which builds them, loops_expr.c and
 * loops_print.c. */
#ifndef DL_LOOP_PARTS_H
#define DL_LOOP_PARTS_H
#include "compiler/codegen/loops.h"

typedef enum {
    DL_E_NUMBER,
    DL_E_NAME,    /* a name that a statement gives: `of` */
    DL_E_ITEM,    /* the work item's index */
    DL_E_THREAD,  /* the thread's within the work item */
    DL_E_COORD,   /* axis `number` */
    DL_E_VALUE,   /* instruction `number` */
    DL_E_OP,      /* a op b */
    DL_E_SELECT,  /* a ? b : c */
    DL_E_CONVERT, /* a */
    DL_E_MEMORY,  /* `text`, from byte `number` on */
    DL_E_AT,      /* a[b] */
    DL_E_FROM,    /* a + b, an array */
    DL_E_INSIDE,  /* in */
    DL_E_START,   /* in */
    DL_E_COMBINE, /* in, a, b */
    DL_E_REDUCE,  /* in, a, threads */
    DL_E_CALL,    /* text(a, b, c, d) */
} dl_loop_expr_kind;

typedef struct dl_loop_expr {
    dl_loop_expr_kind kind;
    dl_loop_type type;
    bool array, fixed;
    char op;
    int64_t number;
    const char *text;
    dl_expr a, b, c, d;
    const dl_kinstr *in;
    dl_thread_layout threads;
    struct dl_loop_stmt *of;
} dl_loop_expr;

typedef enum {
    DL_S_ROOT,
    DL_S_LET,    /* name = a */
    DL_S_COORD,  /* the coordinate of axis `number` = a */
    DL_S_VAR,    /* name = a; an array of `number` elements */
    DL_S_SET,    /* name = a */
    DL_S_DO,     /* a */
    DL_S_FOR,    /* name from a to b by `step`; without a name: the coordinate of axis `number` */
    DL_S_LANES,  /* the coordinate of axis `number` from a to b */
    DL_S_POINTS, /* of vectors */
    DL_S_IF,     /* a */
    DL_S_BLOCK,
    DL_S_BARRIER,
    DL_S_LOAD_VECTOR,  /* of instruction `number`, by vectors; `full`: it has been prefetched */
    DL_S_STORE_VECTOR, /* of instruction `number` */
    DL_S_INSTR,        /* instruction `number` */
    DL_S_DEFINE,       /* instruction `number` = a, rounded */
    DL_S_GIVE,         /* instruction `number` = a */
    DL_S_READ,         /* instruction `number` */
    DL_S_KEEP,         /* instruction `number` */
} dl_loop_stmt_kind;

typedef struct dl_loop_stmt {
    dl_loop_stmt_kind kind;
    dl_expr name, a, b, step;
    int64_t number;
    int unroll, lane_axis;
    dl_lane_mode mode; /* of a loop over lanes */
    dl_loop_space space;
    const dl_vectors *vectors;
    bool used; /* the printer has met the name */
    bool full; /* all lanes of its vectors are in use */
    struct dl_loop_stmt *parent, *first, *last, *next;
} dl_loop_stmt;

/* Writes an expression, and notes what it uses; the same as a term, in brackets if C needs them.
 * loops_expr.c */
void dl_loop_put(dl_emitter *e, dl_expr x);
void dl_loop_put_term(dl_emitter *e, dl_expr x);
#endif

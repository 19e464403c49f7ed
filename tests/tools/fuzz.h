/* Random graphs through the whole compiler compared with the interpreter: what pass_fuzz.c consists
 * of. */
#ifndef DL_FUZZ_H
#define DL_FUZZ_H
#include "compiler/compile.h"
#include "tests/unit/error_bound.h"

/* A graph as written, as IR text, and what its training step must come to. */
typedef struct {
    const char *text;
    uint64_t seed; /* of the numbers in its variables */
    dl_dtype low;  /* of its mixed precision; f32: none */
    dl_module *written;
    bounded_run *want;
} fuzz_case;

/* A way from the text to results. */
typedef struct {
    const char *target; /* NULL: passes only, run by the interpreter */
    const char *skip;   /* passes left out, or "" */
    bool keep_gradients, no_updates, half_gemms, expanded;
    bool emitted; /* the target's text alone, which its compiler must take: no target's CPU is
                     needed */
    int threads;
    const char *fault; /* one of fuzz_faults, put into each graph's kernels, or NULL */
} fuzz_way;

/* Faults of an emitter or a pass, to show that they are found. */
extern const char *const fuzz_faults[];
extern const int fuzz_nfaults;

typedef enum {
    FUZZ_NOT_RUN,
    FUZZ_FINE,
    FUZZ_NONE,    /* no such way: a pass that cannot be left out here, a fault without a place */
    FUZZ_REFUSED, /* an error of the compiler */
    FUZZ_WRONG,   /* other numbers */
    FUZZ_DIED     /* a signal, or the C compiler's error */
} fuzz_state;
typedef struct {
    fuzz_state state;
    long checked, open; /* elements compared; those about which nothing could be said */
    char why[500];
} fuzz_verdict;

/* Does a process of its own live through opening this? False: v says how it died. */
bool fuzz_opens(const char *text, uint64_t seed, dl_dtype low, fuzz_verdict *v);
/* Parses the text, adds casts, gradients and Adam, and runs it. False: err. */
bool fuzz_open(fuzz_case *c, const char *text, uint64_t seed, dl_dtype low, dl_error *err);
void fuzz_close(fuzz_case *c);
/* Attention as scores, softmax and products, drawing what it draws. */
void fuzz_write_out_attention(dl_graph *g, dl_arena *arena);

/* Fills verdicts[i] for cases[i]. All graphs become one plan, compiled once, in a process of its
 * own; when that dies, each half is tried again. */
void fuzz_try(const fuzz_case *cases, int n, const fuzz_way *way, fuzz_verdict *verdicts);

/* Parses the sources of a plan, which has no code yet, with that target's flags. False: err
 * (DL_RESOURCE, with what the compiler said). */
bool fuzz_check_sources(dl_arena *arena, const dl_plan *p, const dl_target *t, dl_error *err);

/* A smaller text for which the verdict stays what it is; in the arena. */
const char *fuzz_reduce(dl_arena *arena, const fuzz_case *c, const fuzz_way *way, fuzz_state state);
#endif

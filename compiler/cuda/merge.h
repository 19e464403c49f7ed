/* Function merging: shared by the merging of kernels' phases (merge.c) and of horizontally fused
 * parts (merge_fused_parts.c). Equal phases become one function, whose differing numbers are
 * arguments (merge_arguments.c). */
#ifndef DL_MERGE_H
#define DL_MERGE_H
#include "compiler/codegen/holes.h"
#include "compiler/cuda/cuda.h"
#include "compiler/cuda/phase.h"

/* A phase of a kernel, or a horizontally fused part of one, among those that are merged. */
typedef struct dl_merged {
    int kernel, number; /* of the phase in its kernel; for a part: of its kind */
    const dl_phase *text;
    dl_template s; /* of its text */
    /* The head's part of the comparison: launch bounds, and types of the parameters that stand
     * before the epilogue; and types of the epilogue's own parameters. */
    const char *signature, *epilogue_signature;
    uint64_t hash; /* of the text before the epilogue */
    int epilogue,
        epilogues; /* index of its epilogue; in the first phase: the number of epilogues */
    struct dl_merged *next,
        *last; /* of the same function; in the first phase: the end of the list */
} dl_merged;

/* A number of a function: a constant that is the same in all its phases (argument < 0), or an
 * argument. */
typedef struct {
    int argument, second;  /* of a divisor: index of its shift's argument */
    dl_template_kind kind; /* the kind that serves all phases */
} dl_hoisted;

/* Phase number `number` of a kernel, or a part of it. */
dl_merged *dl_merge_take(dl_arena *arena, int kernel, int number, const dl_phase *text);

enum { DL_ALL_EPILOGUES = -1 };
/* From p on, the first phase of the function with this epilogue; NULL: none. */
const dl_merged *dl_merge_at_epilogue(const dl_merged *p, int epilogue);
/* Are they equal except for numbers and epilogues? */
bool dl_merge_equal(const dl_merged *a, const dl_merged *b);
/* The number of arguments of the function that begins with p, without the epilogue's index;
 * hoisted: its numbers, by epilogue. */
int dl_merge_arguments(dl_arena *arena, const dl_merged *p, dl_hoisted **hoisted);
/* Stores a phase's number as the function's argument. */
void dl_merge_put_numbers(int64_t *to, const dl_hoisted *s, const dl_template_parameter *h);
/* The text's part [from, to), whose parameters begin with number `parameter`. `skipped`: parameters
 * between those of the function's beginning and the epilogue's own. */
void dl_merge_put_text(dl_buf *out, const dl_merged *p, const dl_hoisted *hoisted,
                       const char *symbol, size_t from, size_t to, int parameter, int skipped);
/* Its parameter number `arg` in the order of the text. */
dl_pointer dl_merge_param(const dl_merged *p, int arg);
/* "const float *__restrict__ p3, ": it as a parameter of a function. */
void dl_merge_put_param(dl_buf *out, const dl_merged *p, int arg, int number);

/* Writes to `to` the pieces of the functions that horizontally fused parts share, beginning with
 * number `made`, and the entries of the kernels that consist of such parts. Returns the number
 * of pieces. merge_fused_parts.c */
int dl_merge_fused_parts(dl_arena *arena, int n, dl_piece *kernels, int nparts,
                         dl_merged *const *fused_parts, dl_piece *to, int made);
#endif

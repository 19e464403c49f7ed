/* Function merging: shared by the merging of kernels' phases (fold.c) and of horizontally fused
 * parts (fold_strands.c). Equal phases become one function, whose differing numbers are
 * arguments (fold_numbers.c). */
#ifndef DL_FOLD_H
#define DL_FOLD_H
#include "compiler/cuda/cuda.h"
#include "compiler/cuda/skeleton.h"

/* A phase of a kernel, or a horizontally fused part of one, as its emitter has written it. */
typedef struct dl_phase {
    int kernel, number;         /* of the phase in its kernel; for a part: of its kind */
    const char *title, *bounds; /* the comment before it; of the launch */
    const char *maps;           /* its parameters that are tensor maps: "KD_MAP(map0), " */
    DL_ARRAY(const char *) params;
    dl_skeleton s;
    /* The head's part of the comparison: launch bounds, and types of the parameters that stand
     * before the epilogue; and types of the epilogue's own parameters. */
    const char *signature, *end_signature;
    uint64_t hash; /* of the text before the epilogue */
    int end, ends; /* index of its epilogue; in the first phase: the number of epilogues */
    struct dl_phase *next,
        *last; /* of the same function; in the first phase: the end of the list */
} dl_phase;

/* A number of a function: a constant that is the same in all its phases (lifted < 0), or an
 * argument. */
typedef struct {
    int lifted, second; /* of a divisor: index of its shift's argument */
    dl_hole_kind kind;  /* the kind that serves all phases */
} dl_slot;

enum { DL_ALL_ENDS = -1 };
/* From p on, the first phase of the function with this epilogue; NULL: none. */
const dl_phase *dl_fold_at_end(const dl_phase *p, int end);
/* Are they equal except for numbers and epilogues? */
bool dl_fold_same(const dl_phase *a, const dl_phase *b);
/* The number of arguments of the function that begins with p, without the epilogue's index;
 * slots by epilogue. */
int dl_fold_slots(dl_arena *arena, const dl_phase *p, dl_slot **slots);
/* Stores a phase's number as the function's argument. */
void dl_fold_put_numbers(int64_t *to, const dl_slot *s, const dl_hole *h);
/* The text's part [from, to), whose holes begin with number `hole`. `skipped`: parameters
 * between those of the function's beginning and the epilogue's own. */
void dl_fold_put_text(dl_buf *out, const dl_phase *p, const dl_slot *slots, const char *symbol,
                      size_t from, size_t to, int hole, int skipped);
/* "const float *__restrict__ ": the type of its parameter number `arg` in the order of the text. */
const char *dl_fold_type(dl_arena *arena, const dl_phase *p, int arg);

/* Writes to `to` the pieces of the functions that horizontally fused parts share, beginning with
 * number `made`, and the entries of the kernels that consist of such parts. Returns the number
 * of pieces. fold_strands.c */
int dl_fold_strands(dl_arena *arena, int n, dl_piece *kernels, int nstrands,
                    dl_phase *const *strands, dl_piece *to, int made);
#endif

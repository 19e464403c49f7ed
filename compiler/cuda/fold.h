/* Shared by what makes functions of kernels' phases (fold.c) and of their strands (fold_strands.c):
 * phases, and functions that several of them are, whose numbers are arguments (fold_numbers.c). */
#ifndef DL_FOLD_H
#define DL_FOLD_H
#include "compiler/cuda/cuda.h"
#include "compiler/cuda/skeleton.h"

/* A phase of a kernel, or a strand of one, as its emitter has written it. */
typedef struct dl_phase {
    int kernel, number;         /* of the phase in its kernel; of a strand: of its kind */
    const char *title, *bounds; /* the comment in front; of the launch */
    const char *maps;           /* its parameters that are tensor maps: "KD_MAP(map0), " */
    DL_ARRAY(const char *) params;
    dl_skeleton s;
    /* What else of its head is in the text: bounds and types of the parameters that stand in front
     * of the end, and of the end's own. */
    const char *signature, *end_signature;
    uint64_t hash;                /* up to the end */
    int end, ends;                /* which it has; of the first: how many there are */
    struct dl_phase *next, *last; /* of the same function; of the first: the end of the list */
} dl_phase;

/* A number of a function: the same in all its phases (lifted < 0), or its argument. */
typedef struct {
    int lifted, second; /* of a divisor: where its shift comes */
    dl_hole_kind kind;  /* that serves all */
} dl_slot;

enum { DL_ALL_ENDS = -1 };
/* From p on, the first phase of the function that has this end; NULL: none. */
const dl_phase *dl_fold_at_end(const dl_phase *p, int end);
/* Are they equal but for numbers and ends? */
bool dl_fold_same(const dl_phase *a, const dl_phase *b);
/* The arguments' number of the function that begins with p, the end's beside; slots by end. */
int dl_fold_slots(dl_arena *arena, const dl_phase *p, dl_slot **slots);
/* A number of a phase, where the function takes it. */
void dl_fold_put_numbers(int64_t *to, const dl_slot *s, const dl_hole *h);
/* The text's part [from, to), whose holes begin with number `hole`. `skipped`: parameters that
 * stand between those of the function's beginning and the end's own. */
void dl_fold_put_text(dl_buf *out, const dl_phase *p, const dl_slot *slots, const char *symbol,
                      size_t from, size_t to, int hole, int skipped);
/* "const float *__restrict__ " of its parameter number `arg` in the order of the text. */
const char *dl_fold_type(dl_arena *arena, const dl_phase *p, int arg);

/* Pieces of the functions that strands share, the first of them number `made`, at `to`; entries of
 * the kernels that consist of strands. Returns their number. fold_strands.c */
int dl_fold_strands(dl_arena *arena, int n, dl_piece *kernels, int nstrands,
                    dl_phase *const *strands, dl_piece *to, int made);
#endif

/* Shared by the emitters of CUDA kernels without a contraction.
 *
 * A loop nest is emitted as the body of a function: `item` is the CTA's index within the loop nest,
 * and `workspace` is the kernel's. A CTA has DL_BLOCK threads in a thread layout: lane groups,
 * which share the terms of one reduced point. Text is appended to e->out. */
#ifndef DL_EMIT_LOOPS_H
#define DL_EMIT_LOOPS_H
#include "compiler/codegen/loops.h"
#include "compiler/cuda/emit_cuda.h"

enum {
    DL_BLOCKS_ENOUGH = 1024, /* several CTAs for each SM of any GPU: more of them only cost */
    DL_SUM_TERMS = 64,       /* terms of one chain of floats; longer chains are doubles */
    DL_ENOUGH_BYTES = 32,    /* loads in flight per thread: unrolling further does not pay */
};

/* The axes ordered by the memory of the present loop nest: the last one is contiguous. */
dl_axis_list dl_cuda_order_axes(const dl_emitter *e, unsigned axes);
/* "const int x2 = ...;": the coordinates of a point by its linear index. */
void dl_cuda_put_coordinates(dl_emitter *e, const char *number, const dl_axis_list *list);

/* "const int group = ..., lane = ...;" */
void dl_cuda_put_thread_layout(dl_emitter *e, const dl_thread_layout *t);
/* "group_reduce<by_sum, 256, 32, false>(": over the lanes of a group. */
void dl_cuda_put_group_reduce(dl_emitter *e, const dl_kinstr *in, const dl_thread_layout *t);
/* Over the CTA. */
void dl_cuda_put_block_reduce(dl_emitter *e, const dl_kinstr *in);
/* Reduces n values that threads hold in "a3" over `lanes` neighbours, at most a warp, or over
 * the CTA, where few are reduced so; reductions of one kind are combined. `types`: of the
 * values, by instruction. Afterwards reduced[i] is the result, as "t3[0]". */
void dl_cuda_reduce_few(dl_emitter *e, int n, const int *numbers, const char *const *types,
                        int lanes, const char **reduced);
/* The accumulator type for `terms` values of a thread: "float" for few floats. */
const char *dl_cuda_accumulator_type(const dl_kinstr *in, int64_t terms);
/* The smallest power of two that is not below n, which is at most 2^30. */
int dl_cuda_power_of_two(int64_t n);

/* Vector accesses: points that are contiguous in memory along the last of some axes, so that a
 * thread loads and stores them together (kernels/loops.cu: vec). */
enum { DL_VECTOR_MOST = 8 };
typedef struct {
    int width;       /* vector width in points; 1: scalar */
    bool other_axis; /* consecutive threads are along another axis, the last one */
    int axis;        /* the axis of the vector */
    bool *has; /* by instruction: it is a vector load or store, or a vector read of a kept value */
    bool *invariant;          /* loop-invariant: loaded once, before the loop */
    const char *const *array; /* by instruction: the point's element; for dl_emitter.array */
    int prefetch; /* prefetch distance: rows whose vectors are loaded together, ahead of a loop over
                  them; or 0 */
} dl_vectors;
/* Finds the present loop nest's vector accesses along the last of these axes. `moving`: the axes of
 * the loop around them, a bit each (all: there is none); accesses that depend on none of them
 * are loop-invariant. */
dl_vectors dl_cuda_find_vectors(dl_emitter *e, const dl_axis_list *along, unsigned moving);
/* The same along an axis that is not the last one. */
dl_vectors dl_cuda_find_vectors_along(dl_emitter *e, int axis, unsigned moving);
/* Replaces vectors along the last of these axes by vectors along another one, which is moved to
 * the last place but one, where that moves fewer bytes. emit_vector_axis.c */
bool dl_cuda_choose_vector_axis(dl_emitter *e, dl_axis_list *list, unsigned moving,
                                dl_vectors *own);
/* dl_cuda_put_coordinates of a vector's first point by the vector's index. */
void dl_cuda_put_vector_coordinates(dl_emitter *e, const char *number, const dl_axis_list *list,
                                    const dl_vectors *l);
/* By instruction: does the present loop nest run or read it? */
const bool *dl_cuda_find_runs(const dl_emitter *e);
/* Does the present loop nest load, or read a kept value, at an address that depends on one of these
 * axes? A bit each. */
bool dl_cuda_load_axes(const dl_emitter *e, unsigned axes);
/* The text around the statements of one point; `runs` has the point's instructions. Before them
 * come loads (and more: dl_cuda_open_vectors), after them the loop's end and stores, under the
 * condition `guard` (NULL: always). Outside of the loop, x<axis> is the first point's. */
void dl_cuda_load_invariant(dl_emitter *e, const dl_vectors *l,
                            const bool *runs); /* before the loop */
void dl_cuda_load_vectors(dl_emitter *e, const dl_vectors *l, const bool *runs); /* at the point */
void dl_cuda_close_vectors(dl_emitter *e, const dl_vectors *l, const bool *runs, const char *guard);
/* Prefetched vectors of the next `ahead` rows, "vec<float, 8> a3[2]", possible where all loads
 * that depend on an axis of `axes` are vectors. Functions declare them, load them in a loop in
 * which `k` counts rows, and shift them after a row; the current row's are a3[0]. */
bool dl_cuda_are_vectors(const dl_emitter *e, const dl_vectors *l, unsigned axes);
void dl_cuda_declare_prefetched(dl_emitter *e, const dl_vectors *l, const bool *runs);
void dl_cuda_load_prefetched(dl_emitter *e, const dl_vectors *l, const bool *runs);
void dl_cuda_shift_prefetched(dl_emitter *e, const dl_vectors *l, const bool *runs);
/* The loop over a vector's points, in which `j` counts, and its end. */
void dl_cuda_open_points(dl_emitter *e, const dl_vectors *l);
void dl_cuda_close_points(dl_emitter *e);

/* ---- reductions that a thread computes alone at its point, over the axes e->per_thread
 * (emit_per_thread.c) ---- */
bool dl_cuda_is_per_thread(const dl_emitter *e, int number); /* emit_loops.c */
/* "const float v3 = a3[j];", in the loop in which `j` counts. */
void dl_cuda_put_per_thread_value(dl_emitter *e, int number);
/* Loads the vectors that a point of the reduction needs. emit_vectors.c */
void dl_cuda_load_per_thread(dl_emitter *e, const dl_vectors *l, const bool *made);
/* The text before the statements of one point: its loads, its per-thread reductions (a3[j] of
 * each in `runs`), and the head of the loop in which `j` counts. */
void dl_cuda_open_vectors(dl_emitter *e, const dl_vectors *l, const bool *runs);

/* Partial results of a reduction in the workspace, 8 bytes each: sets e->partial[number] to
 * `items` times `count` of them, from `base` on. */
void dl_cuda_add_partial(dl_emitter *e, int number, const dl_axis_list *by, int64_t items,
                         dl_emitted *code);
/* "(double *)(workspace + 64L)": the array of partial results. */
void dl_cuda_put_partials(dl_emitter *e, int number);
/* "((double *)(workspace + 64))[at] = value": stores a partial result. */
void dl_cuda_put_partial(dl_emitter *e, int number, const char *at, const char *value);

/* Emits the loop nests from number `from` on as phases. False: refused. */
bool dl_cuda_phases(dl_emitter *e, int from, dl_emitted *code, dl_error *err);
/* Writes the body of the present loop nest, and returns its number of CTAs. emit_points.c,
 * emit_resident.c */
int64_t dl_cuda_points(dl_emitter *e, dl_emitted *code);
/* For resident reductions; *shared: bytes of shared memory. */
int64_t dl_cuda_resident(dl_emitter *e, dl_emitted *code, int64_t *shared);
/* Can a loop nest be emitted as a resident reduction? dl_emit_find_kept must have been called. */
bool dl_cuda_can_be_resident(dl_emitter *e, const dl_loop_nest *s);
#endif

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
/* A function of the library over all of a CTA, as "block_reduce<by_sum, 256>". */
const char *dl_cuda_of_block(const dl_emitter *e, const char *name, const dl_kinstr *in);
/* Reduces n values that threads hold over `lanes` neighbours, at most a warp, or over the CTA,
 * where few are reduced so; reductions of one kind are combined. values, reduced: by
 * instruction; afterwards reduced[i] is the result. */
void dl_cuda_reduce_few(dl_loops *l, int n, const int *numbers, const dl_expr *values, int lanes,
                        dl_expr *reduced);
/* CTAs that share `n` terms or rows, at most `parts` of them; *each: what one takes, in whole
 * `unit`s. */
int64_t dl_cuda_share(int64_t n, int64_t unit, int64_t parts, int64_t *each);
/* The accumulator type for `terms` values of a thread: float for few floats. */
dl_loop_type dl_cuda_accumulator_type(const dl_kinstr *in, int64_t terms);
/* The smallest power of two that is not below n, which is at most 2^30. */
int dl_cuda_power_of_two(int64_t n);

enum { DL_VECTOR_MOST = 8 }; /* points of a vector */
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
/* By instruction: does the present loop nest run or read it? */
const bool *dl_cuda_find_runs(const dl_emitter *e);
/* Does the present loop nest load, or read a kept value, at an address that depends on one of these
 * axes? A bit each. */
bool dl_cuda_load_axes(const dl_emitter *e, unsigned axes);
/* When a vector is loaded: before the loop around a point, at the point, or in the loop of a
 * per-thread reduction. */
typedef enum { DL_HOISTED, DL_AT_POINT, DL_PER_THREAD } dl_load_time;
/* The vectors of a point, or of several: `runs` has their instructions. Loads of that time, with
 * which stores are declared; stores, if `test` holds (NULL: always). */
void dl_cuda_load_vectors(dl_loops *l, const dl_vectors *v, const bool *runs, dl_load_time when);
void dl_cuda_store_vectors(dl_loops *l, const dl_vectors *v, const bool *runs, dl_expr test);
/* All of the present loop nest at a point or a vector of points, but for loads that a loop has
 * around it. Values are stored, and taken into `sums`, the accumulators by instruction (NULL: there
 * are none), if `test` holds (NULL: always). emit_per_thread.c */
void dl_cuda_put_points(dl_loops *l, const dl_vectors *v, const dl_expr *sums, dl_expr test);
/* Prefetched vectors of the next `ahead` rows, "vec<float, 8> a3[2]", possible where all loads
 * that depend on an axis of `axes` are vectors. Functions declare them, load them in a loop in
 * which `k` counts rows, and shift them after a row; the current row's are a3[0]. */
bool dl_cuda_are_vectors(const dl_emitter *e, const dl_vectors *l, unsigned axes);
void dl_cuda_declare_prefetched(dl_emitter *e, const dl_vectors *l, const bool *runs);
void dl_cuda_load_prefetched(dl_emitter *e, const dl_vectors *l, const bool *runs);
void dl_cuda_shift_prefetched(dl_emitter *e, const dl_vectors *l, const bool *runs);

/* ---- reductions that a thread computes alone at its point, over the axes e->per_thread
 * (emit_per_thread.c) ---- */
bool dl_cuda_is_per_thread(const dl_emitter *e, int number); /* emit_loops.c */

/* Partial results of a reduction in the workspace, 8 bytes each: sets e->partial[number] to
 * `items` times `count` of them, from `base` on. */
void dl_cuda_add_partial(dl_emitter *e, int number, const dl_axis_list *by, int64_t items,
                         dl_emitted *code);
/* Stores one of them, if `test` holds (NULL: always). */
void dl_cuda_put_partial(dl_loops *l, int number, dl_expr at, dl_expr value, dl_expr test);

/* Writes a phase of `items` CTAs with this body; moves: the body changes `item`. False: refused. */
bool dl_cuda_put_phase(dl_emitter *e, dl_emitted *code, dl_buf *body, int64_t items, int64_t shared,
                       bool moves, dl_error *err);
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

/* Shared by the emitters of CUDA kernels without a contraction.
 *
 * A sweep is emitted as the body of a function: `unit` is the number of its block among its own,
 * and `workspace` the kernel's. Its blocks have DL_BLOCK threads, and a table of them: groups of
 * lanes, which share the points that are summed up for one that is kept. Text goes to e->out. */
#ifndef DL_EMIT_LOOPS_H
#define DL_EMIT_LOOPS_H
#include "compiler/cuda/emit_cuda.h"

enum {
    DL_BLOCKS_ENOUGH = 1024, /* for all processors of a GPU, several each: more blocks only cost */
    DL_SUM_TERMS = 64,       /* of floats, in one chain: longer ones are doubles */
    DL_ENOUGH_BYTES =
        32, /* that a thread waits for at a time: no loop need be written out for more */
};

/* Axes of the space, outermost first, and their points. */
typedef struct {
    int n, axis[DL_MAX_RANK];
    int64_t points;
} dl_axis_list;
dl_axis_list dl_cuda_list_axes(const dl_emitter *e, const dl_axis_list *order, unsigned axes);
/* These axes as the present sweep's memory lies: along the last one are neighbours. */
dl_axis_list dl_cuda_order_axes(const dl_emitter *e, unsigned axes);
/* "const int x2 = ...;" by the number of a point among them. */
void dl_cuda_put_coordinates(dl_emitter *e, const char *number, const dl_axis_list *list);

/* How a block's threads stand. */
typedef struct {
    int lanes, groups; /* powers of two; together DL_BLOCK */
    bool across;       /* the neighbours of a thread are in other groups */
} dl_table;
/* "const int group = ..., lane = ...;" */
void dl_cuda_put_table(dl_emitter *e, const dl_table *t);
/* "group_reduce<by_sum, 256, 32, false>(": over the lanes of a group. */
void dl_cuda_put_group_reduce(dl_emitter *e, const dl_kinstr *in, const dl_table *t);
/* Over the block. */
void dl_cuda_put_block_reduce(dl_emitter *e, const dl_kinstr *in);
/* What threads have of n reductions in "a3" over `lanes` neighbours, at most a warp of them, or the
 * block, where few are made so: those that are alike at once. `types`: by instruction, of what they
 * have; reduced[i] is then "t3[0]". */
void dl_cuda_reduce_few(dl_emitter *e, int n, const int *numbers, const char *const *types,
                        int lanes, const char **reduced);
/* "by_sum": how a reduction joins two values. */
const char *dl_cuda_by(const dl_kinstr *in);
/* In what a thread takes in `terms` values: "float" where they are floats and few. */
const char *dl_cuda_growing(const dl_kinstr *in, int64_t terms);
/* The smallest power of two that is not below n, which is at most 2^30. */
int dl_cuda_power(int64_t n);

/* Points that lie side by side in memory along the last of some axes, so that a thread loads and
 * stores them at once (kernels/sweeps.cu: lot). */
enum { DL_LOT_MOST = 8 };
typedef struct {
    int width;   /* points; 1: each by itself */
    bool across; /* threads that are neighbours are so along another axis, the last one */
    int axis;    /* whose coordinate goes on from one to the next */
    bool *has;   /* by instruction: loaded, or stored, so; of what is kept: read */
    bool *still; /* loaded once, in front of the loop */
    const char *const *array; /* by instruction: the point's element; for dl_emitter.array */
    int ahead; /* rows whose lots are loaded together, in front of a loop over them; or 0 */
} dl_lots;
/* Those of the present sweep along the last of these axes. `moving`: the axes that the loop around
 * them goes along, a bit each (all: there is none); what follows none of them is still. */
dl_lots dl_cuda_find_lots(dl_emitter *e, const dl_axis_list *along, unsigned moving);
/* The same along an axis that is not the last one. */
dl_lots dl_cuda_find_lots_along(dl_emitter *e, int axis, unsigned moving);
/* Puts in the place of lots along the last of these axes those along another one, which then comes
 * last but one, where that moves fewer bytes. emit_across.c */
bool dl_cuda_find_across(dl_emitter *e, dl_axis_list *list, unsigned moving, dl_lots *own);
/* dl_cuda_put_coordinates of a lot's first point by its number among lots. */
void dl_cuda_put_lot_coordinates(dl_emitter *e, const char *number, const dl_axis_list *list,
                                 const dl_lots *l);
/* By instruction: does the present sweep run or read it? */
const bool *dl_cuda_find_runs(const dl_emitter *e);
/* Does the present sweep load, or read of what is kept, from where one of these axes leads? A bit
 * each. */
bool dl_cuda_waits(const dl_emitter *e, unsigned axes);
/* What stands around the statements for one point, of which `runs` says by instruction which there
 * are: in front loads (and more: dl_cuda_open_lots); behind them the loop's end and stores, where
 * `guard` holds (NULL: always). x<axis> is the first point's outside of it. */
void dl_cuda_load_still(dl_emitter *e, const dl_lots *l,
                        const bool *runs); /* in front of the loop */
void dl_cuda_load_lots(dl_emitter *e, const dl_lots *l, const bool *runs); /* at the point */
void dl_cuda_close_lots(dl_emitter *e, const dl_lots *l, const bool *runs, const char *guard);
/* Lots of the next `ahead` rows, "lot<float, 8> a3[2]", where all comes in lots that an axis of
 * `axes` leads to: declared; loaded, in a loop in which `k` counts rows; moved down behind a row,
 * whose own are a3[0]. */
bool dl_cuda_are_lots(const dl_emitter *e, const dl_lots *l, unsigned axes);
void dl_cuda_declare_ahead(dl_emitter *e, const dl_lots *l, const bool *runs);
void dl_cuda_load_ahead(dl_emitter *e, const dl_lots *l, const bool *runs);
void dl_cuda_move_ahead(dl_emitter *e, const dl_lots *l, const bool *runs);
/* The loop in which `j` counts alone, and its end. */
void dl_cuda_open_points(dl_emitter *e, const dl_lots *l);
void dl_cuda_close_points(dl_emitter *e);

/* Reductions that a thread makes by itself at its point, over e->within's axes (emit_within.c). */
/* Finds them, and the sweeps that are left. False: there are none. */
bool dl_cuda_find_within(dl_emitter *e);
bool dl_cuda_is_within(const dl_emitter *e, int number); /* emit_loops.c */
/* "const float v3 = a3[j];", in the loop in which `j` counts. */
void dl_cuda_put_within_value(dl_emitter *e, int number);
/* The lots that a point of them takes. emit_lots.c */
void dl_cuda_load_within(dl_emitter *e, const dl_lots *l, const bool *made);
/* In front of the statements for one point: its loads, the reductions that it makes by itself
 * (a3[j] of each that `runs` has) and, open, the loop in which `j` counts. */
void dl_cuda_open_lots(dl_emitter *e, const dl_lots *l, const bool *runs);

/* Partial results of a reduction, 8 bytes each, in the workspace: e->partial[number] says how many
 * lie there, `units` times `count`, from `base` on. */
void dl_cuda_add_partial(dl_emitter *e, int number, const dl_axis_list *by, int64_t units,
                         dl_emitted *code);
/* "(double *)(workspace + 64L)": where they lie. */
void dl_cuda_put_partials(dl_emitter *e, int number);
/* A reduction's results lie at each `at` of its partial results: "((double *)(workspace + 64))[at]
 * = value". */
void dl_cuda_put_partial(dl_emitter *e, int number, const char *at, const char *value);

/* The sweeps from number `from` on as phases. False: refused. */
bool dl_cuda_phases(dl_emitter *e, int from, dl_emitted *code, dl_error *err);
/* The body of the present sweep, and how many blocks it has. emit_points.c, emit_rows.c */
int64_t dl_cuda_points(dl_emitter *e, dl_emitted *code);
/* Over rows; *shared: bytes of shared memory. */
int64_t dl_cuda_rows(dl_emitter *e, dl_emitted *code, int64_t *shared);
/* Whether a sweep over rows can be emitted so. */
bool dl_cuda_has_rows(dl_emitter *e, const dl_sweep *s);
/* Behind reductions: combines partial results, and runs what stands there. emit_behind.c */
int64_t dl_cuda_behind(dl_emitter *e);
#endif

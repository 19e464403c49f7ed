/* A contraction as a GEMM problem: its modes (batch, M, N, K), the operands' addresses by mode,
 * and its tiling. The loops are kernels/contract.cu. Here rows are M, columns N, and terms K. */
#ifndef DL_GEMM_PROBLEM_H
#define DL_GEMM_PROBLEM_H
#include "compiler/cuda/emit_cuda.h"
#include "ir/kernel/gemm.h"

/* Bytes of K per tile row, and bytes of a block along M when M is contiguous: CT_LINE, CT_BLOCK. */
enum { DL_LINE = 64, DL_LINE_BLOCK = 128 };
/* Rows of a warp's product by wgmma, and of its warpgroup's. */
enum { DL_ROWS_OF_WARP = 16, DL_ROWS_OF_GROUP = 64 };

/* A coordinate of a mode, by its name in C: `variable`, or `name`, which is "0" if its extent is
 * 1. `size`: its largest extent; `text`: its extent in C, where it depends on the image's stride
 * phase. */
typedef struct {
    const char *name, *text;
    int64_t size;
    const char *variable;
} dl_mode_axis;

/* A mode: one product for each coordinate of the batch; sums go over K. */
typedef struct {
    int n;
    dl_mode_axis at[DL_MAX_RELATION];
    int64_t size; /* product of all extents: the largest */
    bool varies;  /* it depends on the stride phase */
} dl_mode;

/* Along an axis of an image, for the stride phase that reads lowest: the pixel that the first
 * position reads at the first tap, the distances to the next position and to the next tap, and
 * the offset of the phase that reads highest. */
typedef struct {
    int64_t begin, position_step, tap_step, stride_phases;
} dl_window_axis;

/* The addresses of an operand's elements: a sum of contributions of the coordinates. An image
 * under windows has coordinates of its own, sums too, with bounds. */
typedef struct dl_operand {
    int place, nparts, param[4];
    bool is_left;
    dl_dtype dtype;                                      /* of its elements in shared memory */
    int64_t base[4], step[4][DL_MODES][DL_MAX_RELATION]; /* in elements, by part */
    int64_t start[5];                                    /* first channel of each part */
    int channel, group; /* the coordinate of channels in its mode; the coordinate of the batch
                           that counts groups, or -1 */
    dl_mode_kind channels;
    bool is_image;
    int64_t scale[3][DL_MODES][DL_MAX_RELATION], limit[3],
        along[4][3]; /* along: elements, by part */
    const char *origin[3];
    bool bounded[3];
    const struct dl_operand *whole; /* of an image: with all coordinates, each with bounds */
    bool has_bits; /* which taps of a position are in bounds is a bit mask; the first bit of each
                      axis: */
    int bit[3];
    dl_mode_kind positions,
        taps; /* of an image: the order of its coordinates, after the batch and before channels; */
    dl_window_axis window_axis[3];
    /* K is contiguous */
    bool along_k;
    int bytes;
    int map, nmaps;                 /* number of its first TMA tensor map, or -1; number of maps */
    const struct dl_loader *loader; /* loader.h; NULL: not chosen */
} dl_operand;

/* The layout of a strip tile, as the constants of kernels/contract_strips.cu. */
typedef struct {
    bool positions, paired, ends;
    int64_t row_line, row_lines, term_line, term_lines, pitch, width, pair_step;
    int piece;
    int64_t bytes; /* of a tile */
} dl_strip;

/* A halo kernel's tiles of positions (kernels/contract_halo.cu): along each axis the positions
 * of a tile, the pixels of its halo, and the number of tiles. */
typedef struct {
    bool found;
    int tile[3], columns; /* columns: in eights */
    int64_t halo[3], tiles[3], stride_phases, taps;
    int64_t stage, shared; /* bytes: of a chunk of channels; of a CTA */
} dl_halo;

/* The tiling of a contraction, as the constants of kernels/contract.cu. */
typedef struct {
    int bm, bn, wm, wn, stages, per_sm;
    double reach;                      /* the relative rate of the tile's products */
    const char *how;                   /* in the tiling's name, after the size */
    bool wgmma;                        /* by wgmma, in warpgroups */
    bool alone;                        /* an SM has no room for per_sm CTAs: one at a time */
    bool barriers;                     /* some copies signal barriers in shared memory */
    const struct dl_loader *loader[2]; /* of each operand */
    dl_halo halo;          /* if set: a halo kernel, with bm positions of each stride phase */
    int64_t splits, depth; /* split-K: number of splits, and K extent of each */
    int64_t mt, nt;        /* number of tiles along M and N */
    int64_t tile_bytes[2]; /* of each operand; 0: rows of DL_LINE bytes */
    double time;           /* estimated time, in products of one SM */
} dl_tiling;

/* A contraction of a kernel as a GEMM problem: modes, operands, and, once chosen, its tiling. */
typedef struct {
    const dl_kernel *k;
    const dl_kinstr *c;
    dl_relation r;
    dl_mode mode[DL_MODES];
    dl_mode tile_columns; /* the mode of tile columns: N, or, for direct kernels, N of all groups */
    bool direct; /* direct: groups so small that a thread computes each sum alone, without tiles */
    bool padded; /* a weight's gradient reads out of an image's bounds: zeros in tiles; */
    bool fixes_nans;          /* NaN fix-up: sums that are NaN are recomputed without those zeros */
    dl_operand operand[2];    /* left, right */
    int64_t stride_phases[3]; /* number of stride phases of the image's positions: the strides,
                            where x is computed */
    const char *coordinate[DL_MAX_RANK]; /* of the space, in C; */
    const char *reads[DL_MAX_RANK][2];   /* the modes' variables that it depends on, or NULL */
    dl_mode_kind of[DL_MAX_RANK];        /* the mode that it belongs to */
    int inner;              /* the space axis along which columns are contiguous, or -1 */
    const char *arithmetic; /* "CT_BF16" */
    int word;               /* bytes */
    int chunk; /* K is ordered by chunks of so many channels, then taps, then the chunk's channels;
                  0: taps, then channels */
    bool has_wgmma;               /* wgmma multiplies in that arithmetic, on this target */
    bool has_maps;                /* which has TMA */
    int multiprocessors;          /* of the target's device: enough CTAs for each */
    int64_t room;                 /* bytes of shared memory that a halo kernel's tiles may fill; */
    int64_t shared, shared_of_sm; /* that a CTA's tiles may fill, and that an SM has for all CTAs */
    dl_tiling tiling;
} dl_gemm_problem;

/* A part's type. */
static inline const dl_type *dl_operand_part(const dl_gemm_problem *p, const dl_operand *o,
                                             int part) {
    return &p->k->params.at[o->param[part]].type;
}
/* The offset of a part's first element in the part, for its own numbering of channels. */
static inline int64_t dl_operand_base(const dl_operand *o, int part) {
    return o->base[part] +
           (o->nparts > 1 ? o->start[part] * o->step[part][o->channels][o->channel] : 0);
}

/* Finds the modes and operands of a windowed contraction. gemm_by_windows.c */
void dl_gemm_windows(dl_emitter *e, dl_gemm_problem *p);

/* Finds everything about a contraction's GEMM except the tiling. gemm_by_names.c */
dl_gemm_problem dl_gemm_find(dl_emitter *e, const dl_kinstr *c);
/* All tilings, up to DL_MOST_VARIANTS, by estimated time; returns their number. The first is the
 * cost model's choice; the others include those with half or twice as many splits of K. Their
 * names: "128x64", "64x64, terms in 8". tilings.c */
int dl_gemm_tilings(const dl_gemm_problem *p, dl_tiling *of);
const char *dl_tiling_name(const dl_tiling *t);
/* The library calls that can compute it, for dl_backend.calls. For a call that computes the sums
 * alone, dl_sums_place has their place, in C: those of a CTA from `first` on, of which the sum
 * at `row` and `column`, at coordinates x0, x1, ... of the space, is number `at`. emit_call.c */
typedef struct {
    const char *first, *at;
} dl_sums_place;
int dl_gemm_calls(const dl_gemm_problem *p, dl_call *forms);
dl_sums_place dl_gemm_sums(dl_emitter *e, const dl_gemm_problem *p, const dl_call *c);
/* The calls that are convolutions, and the mapping of an image's or weight's axes to a call's
 * tensor. emit_call_windows.c */
int dl_gemm_convolutions(const dl_gemm_problem *p, dl_call *forms);
int dl_gemm_tensor_axis(const dl_gemm_problem *p, int axis);
/* Can TMA load tiles of an operand, of so many rows, for wgmma, with one map for each part?
 * Finds the maps, and sets the operand up for kernels/contract.cu. tma_tile_loader.c */
bool dl_gemm_tma_tiles(const dl_gemm_problem *p, const dl_operand *o, int rows,
                       dl_tensor_map *maps);
/* Gives the operand the maps that were found, whose number is that of its parts, and extra ones,
 * which are further parts equal to the first. */
void dl_gemm_take_maps(const dl_gemm_problem *p, dl_operand *o, dl_emitted *code);
/* dl_loader.put_reader of both TMA loaders. */
void dl_gemm_put_map_reader(dl_emitter *e, const dl_operand *o, const char *which);
/* The head of both TMA loaders' structs: maps, and the choice of a part's map; in C, the part
 * that holds a channel, and the part's first channel. */
void dl_gemm_put_maps(dl_emitter *e, const dl_operand *o);
const char *dl_operand_part_of(dl_emitter *e, const dl_operand *o, const char *channel);
const char *dl_operand_start_of(dl_emitter *e, const dl_operand *o, const char *part);
/* The same for images under windows, by im2col maps. tma_im2col_loader.c */
bool dl_gemm_tma_im2col(const dl_gemm_problem *p, const dl_operand *o, int rows,
                        dl_tensor_map *maps);
/* Can tiles of an operand, of so many rows, be strips of an image? Finds their layout, and sets
 * the operand up. strip_loader.c */
bool dl_gemm_strips(const dl_gemm_problem *p, const dl_operand *o, int rows, dl_strip *to);
/* Emits the two phases of a halo kernel (halo.h). emit_halo.c */
bool dl_halo_put(dl_emitter *e, const dl_gemm_problem *p, dl_emitted *code, dl_error *err);
/* Writes the structs <kernel>_left and <kernel>_right, after <kernel>_item. With a NaN fix-up also
 * structs that read single elements of what is copied otherwise: <kernel>_<dl_operand_words>.
 * emit_loaders.c */
void dl_gemm_put(dl_emitter *e, const dl_gemm_problem *p);
/* Describes a windowed image by all its coordinates, even if nothing is out of bounds, as
 * threads gather it in a NaN fix-up. So gradients with and without padding are one text. */
void dl_operand_use_coordinates(dl_operand *o);
/* Threads of its CTAs; bytes of their dynamic shared memory, and of a tile's sums in it. */
static inline int dl_tiling_threads(const dl_tiling *t) { return DL_WARP * t->wm * t->wn; }
int64_t dl_tiling_shared(const dl_tiling *t);
int64_t dl_tiling_sums(const dl_tiling *t);
/* tiling_cost.c: the number of tiles of all sums; elements in a K tile's depth. */
int64_t dl_tiling_tiles(const dl_gemm_problem *p, const dl_tiling *t);
static inline int64_t dl_gemm_depth(const dl_gemm_problem *p) { return DL_LINE / p->word; }
/* The estimated time of a tiling, in products of one SM. */
double dl_tiling_time(const dl_gemm_problem *p, const dl_tiling *t);

/* The epilogue: the rest of the kernel at each point of a block of rows and columns, which
 * begins at `m` and `n`; `u` is the CTA's work item. emit_epilogue.c */
typedef struct {
    const dl_gemm_problem *p;
    int threads, rows; /* of a CTA; rows of its epilogue */
    const char
        *sum; /* a statement that sets `own` to the sums at `row`, from the block's `column` on */
    bool by_point;    /* it needs the coordinates of the space, one point at a time */
    int64_t room;     /* bytes at the start of shared memory that hold these sums alone */
    const char *item; /* index of the CTA among those of the same columns, in C; */
    int64_t items;    /* their number */
} dl_epilogue;
bool dl_epilogue_reduces(const dl_emitter *e); /* are there epilogue reductions? */
/* `blocks`: CTAs of the phase. */
void dl_epilogue_put(dl_emitter *e, const dl_epilogue *f, int64_t blocks, dl_emitted *code);
#endif

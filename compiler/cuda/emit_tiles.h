/* A contraction as a product of matrices: what its rows, columns and terms count, where the
 * operands' elements lie by them, and which tiles it is cut into. The loops are
 * kernels/contract.cu. */
#ifndef DL_EMIT_TILES_H
#define DL_EMIT_TILES_H
#include "compiler/cuda/emit_cuda.h"

/* Bytes of a line of a tile, and of a block of lines along the rows: CT_LINE, CT_BLOCK. */
enum { DL_LINE = 64, DL_LINE_BLOCK = 128 };

/* One coordinate that a number counts, by its name in C: `variable`, and, "0" of what counts one
 * alone, `name`. `size`: the largest; `text`: in C, where the parity of the image's positions
 * decides. */
typedef struct {
    const char *name, *text;
    int64_t size;
    const char *variable;
} dl_counter;

/* What a number counts, outermost first. A product for each BATCH; sums over TERMS. */
typedef enum { DL_BATCH, DL_ROWS, DL_COLUMNS, DL_TERMS, DL_NUMBERS } dl_number_kind;
typedef struct {
    int n;
    dl_counter at[DL_MAX_RELATION];
    int64_t size; /* product of all: the largest */
    bool varies;  /* by parity */
} dl_number;

/* Along an axis of an image: what the first position reads at the first tap, of the parity that
 * reads the least, and how far it is from there to the next position, to the next tap, and to what
 * the parity reads that reads the most. */
typedef struct {
    int64_t begin, hop, spread, parities;
} dl_slide;

/* Where an operand's elements lie: sums of what each coordinate adds. An image that is read by
 * windows has coordinates of its own, sums too, which must lie inside it. */
typedef struct dl_operand {
    int place, nparts, param[4];
    bool is_left;
    dl_dtype dtype;                                        /* of its words in shared memory */
    int64_t base[4], step[4][DL_NUMBERS][DL_MAX_RELATION]; /* elements, by part */
    int64_t start[5];                                      /* of the parts, in channels */
    int channel, group; /* the counter of channels, of its own number; that of BATCH which counts
                           groups, or -1 */
    dl_number_kind channels;
    bool is_image;
    int64_t scale[3][DL_NUMBERS][DL_MAX_RELATION], limit[3],
        along[4][3]; /* along: elements, by part */
    const char *origin[3];
    bool bounded[3];
    const struct dl_operand
        *whole;    /* of an image: with all coordinates, and each of them bounded */
    bool has_bits; /* which taps of a position are inside is a bit each; those of each axis begin
                      at: */
    int bit[3];
    dl_number_kind positions,
        taps; /* of an image: counted behind the batch, in front of channels; */
    dl_slide slide[3];
    /* found */
    bool along_k;
    int bytes;
    int map, nmaps;  /* number of the first tensor map that brings it, or -1; how many do; */
    bool by_windows; /* are they of images? */
    bool patched;    /* tiles are patches of the image */
} dl_operand;

/* How patches of an image lie: as the constants of kernels/contract_patches.cu. */
typedef struct {
    bool positions, paired, ends;
    int64_t row_line, row_lines, term_line, term_lines, pitch, width, beside;
    int piece;
    int64_t bytes; /* of a tile */
} dl_patch;

/* Boxes of an image's positions that are multiplied with what their windows read
 * (kernels/contract_halo.cu): along each axis the rows of a box, the pixels of its halo, and how
 * many boxes there are. */
typedef struct {
    bool found;
    int box[3], columns; /* columns: by 8 */
    int64_t halo[3], boxes[3], parities, taps;
    int64_t stage, shared; /* bytes: of a chunk of channels; of a block */
} dl_halo;

/* How a contraction is multiplied; as the constants of kernels/contract.cu. */
typedef struct {
    int bm, bn, wm, wn, stages;
    bool groups;           /* by wgmma, warps in fours */
    bool boxes;            /* operands that can come by tensor maps do, one at least; */
    bool images;           /* an image, too, that is no matrix */
    dl_halo halo;          /* or, found: by boxes of positions, bm of each parity */
    int64_t splits, depth; /* how many share the terms; terms of each */
    int64_t mt, nt;        /* tiles of rows, of columns */
    int64_t patch[2];      /* bytes of a tile of each operand that is a patch; else 0 */
    double time;           /* that it should take, in products of a multiprocessor */
} dl_tiling;

typedef struct {
    const dl_kernel *k;
    const dl_kinstr *c;
    dl_relation r;
    dl_number number[DL_NUMBERS];
    dl_number across; /* columns of tiles: COLUMNS, or, each sum by itself, those of all groups */
    bool alone;       /* groups so small that each sum is made by itself, by one thread */
    bool padded; /* of an image, a weight's gradient reads what lies outside: zeros in tiles; */
    bool mends;  /* there is text that makes sums that are NaN again without it */
    dl_operand operand[2];               /* left, right */
    int64_t parities[3];                 /* of the image's positions: strides, where it is made */
    const char *coordinate[DL_MAX_RANK]; /* of the space, in C */
    dl_number_kind of[DL_MAX_RANK];      /* the number that it follows */
    int inner;              /* the space axis along which neighbouring columns lie, or -1 */
    const char *arithmetic; /* "CT_BF16" */
    int word;               /* bytes */
    int chunk; /* terms count chunks of so many channels, in them taps, and in those channels; 0:
                  taps, channels */
    bool has_groups; /* wgmma multiplies in that arithmetic, on this target */
    bool has_maps;   /* which has tensor maps */
    dl_tiling tiling;
} dl_product;

/* A part's type. */
static inline const dl_type *dl_operand_part(const dl_product *p, const dl_operand *o, int part) {
    return &p->k->params.at[o->param[part]].type;
}
/* Where the first element of a part lies in it, whatever number its channel has. */
static inline int64_t dl_operand_base(const dl_operand *o, int part) {
    return o->base[part] +
           (o->nparts > 1 ? o->start[part] * o->step[part][o->channels][o->channel] : 0);
}

/* Finds the numbers and operands of a contraction by windows. emit_geometry.c */
void dl_product_windows(dl_emitter *e, dl_product *p);

/* Finds all of a contraction as a product but the tiling. emit_operands.c */
dl_product dl_product_find(dl_emitter *e, const dl_kinstr *c);
/* The tilings that there are, room for DL_MOST_VARIANTS, by the time that they should take; their
 * number. The first is the cost model's choice; among the others are those with half or twice as
 * many blocks that share terms. Their names: "128x64", "64x64, terms in 8". tilings.c */
int dl_product_tilings(const dl_product *p, dl_tiling *of);
const char *dl_tiling_name(const dl_tiling *t);
/* Which calls of libraries can make it, as dl_backend.calls has them; where the sums of one that
 * makes them alone lie, in C: those of a block from `first` on, of which the sum at `row` and
 * `column` of the block, at coordinates x0, x1, ... of the space, is number `at`. emit_call.c */
typedef struct {
    const char *first, *at;
} dl_sums_place;
int dl_product_calls(const dl_product *p, dl_call *forms);
dl_sums_place dl_product_sums(dl_emitter *e, const dl_product *p, const dl_call *c);
/* Those that are convolutions, and which axis of a call's tensor an axis of an image or weight is.
 * emit_call_windows.c */
int dl_product_convolutions(const dl_product *p, dl_call *forms);
int dl_product_tensor_axis(const dl_product *p, int axis);
/* Can tiles of an operand, of so many rows, come as boxes of tensor maps, one for each part, for
 * wgmma? Which maps, then; and the operand as kernels/contract.cu takes it. emit_boxes.c */
bool dl_product_boxes(const dl_product *p, const dl_operand *o, int rows, dl_tensor_map *maps);
void dl_product_put_boxes(dl_emitter *e, const dl_product *p, const dl_operand *o);
/* The number of its maps, beside those of its parts also others, which are as many parts that are
 * the first one again. */
int dl_product_spread(const dl_product *p, dl_operand *o, dl_tensor_map *maps);
/* What both begin with: head, maps, and which of them brings a part; in C, the part that holds a
 * channel, and the part's first channel. */
void dl_product_put_maps(dl_emitter *e, const dl_operand *o);
const char *dl_operand_part_of(dl_emitter *e, const dl_operand *o, const char *channel);
const char *dl_operand_start_of(dl_emitter *e, const dl_operand *o, const char *part);
/* The same of images that windows slide over. emit_images.c */
bool dl_product_images(const dl_product *p, const dl_operand *o, int rows, dl_tensor_map *maps);
void dl_product_put_images(dl_emitter *e, const dl_product *p, const dl_operand *o);
/* Can tiles of an operand, of so many rows, be patches of an image? How they lie, then; and the
 * operand so. emit_patches.c */
bool dl_product_patch(const dl_product *p, const dl_operand *o, int rows, dl_patch *to);
void dl_product_put_patch(dl_emitter *e, const dl_product *p, const dl_operand *o);
/* The two phases of one that is made by boxes of positions with their halos (halo.h). emit_halo.c
 */
bool dl_halo_put(dl_emitter *e, const dl_product *p, dl_emitted *code, dl_error *err);
/* The structs <kernel>_unit, and, of it, <kernel>_left and <kernel>_right; where sums are mended,
 * also those that read word by word what else boxes bring: <kernel>_<dl_operand_words>.
 * emit_product.c */
void dl_product_put(dl_emitter *e, const dl_product *p);
/* Tells an image that windows slide over by all its coordinates, whether anything of it lies
 * outside or not: as threads find it when sums are mended, so that gradients with padding and
 * without are one text. */
void dl_operand_tell(dl_operand *o);
static inline int64_t dl_at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t dl_at_least(int64_t a, int64_t b) { return a > b ? a : b; }
/* Threads of its blocks; bytes of their dynamic shared memory, and of the sums of a tile in it. */
static inline int dl_tiling_threads(const dl_tiling *t) { return DL_WARP * t->wm * t->wn; }
int64_t dl_tiling_shared(const dl_tiling *t);
int64_t dl_tiling_sums(const dl_tiling *t);

/* The rest of the kernel at each point of a block of rows and columns, whose first ones are `m` and
 * `n`; `u` is the block's unit. emit_finish.c */
typedef struct {
    const dl_product *p;
    int threads, rows; /* of a block; rows that it finishes */
    const char *
        sum; /* a statement that fills `own` with the sums at `row` from `column` of the block on */
    bool by_point;    /* it asks for the coordinates of the space, each by itself */
    int64_t room;     /* bytes from where shared memory begins that only these sums lie in */
    const char *unit; /* the number of the block among those of the same columns, in C; */
    int64_t units;    /* how many there are */
} dl_finish;
/* Can the sums beside the contraction be made? */
bool dl_finish_check(dl_emitter *e, dl_error *err);
bool dl_finish_sums(const dl_emitter *e); /* are there any? */
/* `blocks`: of the phase. */
void dl_finish_put(dl_emitter *e, const dl_finish *f, int64_t blocks, dl_emitted *code);
#endif

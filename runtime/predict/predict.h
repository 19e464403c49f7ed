/* Computes a model's outputs: for a batch of samples of the program's own size, or for one sample
 * of any size. It then runs the program "predict" tile by tile, combines the tiles, and passes rows
 * to the caller as they become complete, so that no whole output is held in memory. */
#ifndef DLR_PREDICT_H
#define DLR_PREDICT_H
#include "runtime/exec/exec.h"
#include "runtime/predict/tiles.h"

enum { DLR_SPACE = 3, DLR_MAX_INPUTS = 256, DLR_MAX_OUTPUTS = 64 };

/* The size of a sample: channels (the product of all axes but N and the spatial ones) and up to
 * three spatial axes; missing ones come first with size 1. */
typedef struct {
    int64_t channels, size[DLR_SPACE];
} dlr_extent;
int64_t dlr_extent_count(const dlr_extent *e);

/* Reads a block of an input's sample number `which` of the batch, as its `numbers`: all channels,
 * packed [channels, count...]. */
typedef bool dlr_read_block(void *ctx, int input, int64_t which, const int64_t start[DLR_SPACE],
                            const int64_t count[DLR_SPACE], void *out, dl_error *err);
/* Receives rows first .. first + rows - 1 (along the first spatial axis) of an output of sample
 * `which`, packed [channels, rows, size[1], size[2]], as the output's `numbers`; in order, each row
 * once. */
typedef bool dlr_write_rows(void *ctx, int output, int64_t which, int64_t first, int64_t rows,
                            const void *data, dl_error *err);

typedef struct {
    dlr_view view;    /* [batch, channels..., spatial...] */
    dlr_extent tile;  /* of a piece */
    bool whole;       /* has none of the axes that are cut: each piece takes all of it */
    dl_dtype numbers; /* DL_F32 or DL_F64, in which blocks of it are read */
    void *block;      /* the engine's, of a batch */
} dlr_predict_input;

typedef struct {
    const char *name;
    dlr_view view;    /* of the program's result */
    dl_type type;     /* of one sample, [1, ...], with the view's elements */
    dlr_extent whole; /* of a whole sample */
    dl_dtype numbers; /* DL_F32, or DL_F64 of whole numbers, in which it is handed on */
    int space;        /* how many of its last axes are the extent's spatial ones */
} dlr_predict_output;

typedef struct {
    dlr_exec *exec; /* of a plan with the program "predict" */
    int program;
    int64_t batch; /* samples that it takes at once, each for itself */
    dlr_predict_input input[DLR_MAX_INPUTS];
    int n_inputs;
    dlr_tiles tiles[DLR_SPACE]; /* along the inputs' axes, for all outputs alike */
    dlr_predict_output output[DLR_MAX_OUTPUTS];
    int n_outputs;
    void *piece, *slab[DLR_MAX_OUTPUTS]; /* its own */
} dlr_predict;

/* Allocates memory for one tile and, where there are several, for the rows of every output in which
 * tiles overlap. The caller has set the other members. Errors: DL_RESOURCE. */
bool dlr_predict_open(dlr_predict *p, dl_error *err);
void dlr_predict_close(dlr_predict *p); /* zeroed is fine */
bool dlr_predict_is_tiled(const dlr_predict *p);
/* The most samples of a call. */
int64_t dlr_predict_most(const dlr_predict *p);
/* Predicts n samples, at most dlr_predict_most. Errors: those of read and write. */
bool dlr_predict_run(dlr_predict *p, int64_t n, dlr_read_block *read, dlr_write_rows *write,
                     void *ctx, dl_error *err);
#endif

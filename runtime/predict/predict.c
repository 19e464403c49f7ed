#include "runtime/predict/predict.h"

#include <stdlib.h>

#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"

int64_t dlr_extent_count(const dlr_extent *e) {
    return e->channels * e->size[0] * e->size[1] * e->size[2];
}

bool dlr_predict_is_tiled(const dlr_predict *p) {
    for (int k = 0; k < DLR_SPACE; k++)
        if (p->tiles[k].pieces.n > 1) return true;
    return false;
}

static float *take(int64_t n, dl_error *err) {
    float *at = n < INT64_MAX / 8 ? calloc((size_t)n + 1, sizeof *at) : NULL;
    if (!at)
        dl_fail(err, DL_RESOURCE, "no memory for %.1f MiB of a prediction", (double)n * 4 / 0x1p20);
    return at;
}

/* The rows of a slab of the whole output: as many as a piece has. */
static int64_t slab_rows(const dlr_predict *p) { return p->tiles[0].tile; }
static int64_t plane(const dlr_predict_output *o) { return o->whole.size[1] * o->whole.size[2]; }

bool dlr_predict_open(dlr_predict *p, dl_error *err) {
    int64_t largest = 0;
    bool tiled = dlr_predict_is_tiled(p);
    for (int i = 0; i < p->n_inputs; i++)
        if (!(p->input[i].block = take(dlr_extent_count(&p->input[i].tile) *
                                           (p->input[i].numbers == DL_F64 ? 2 : 1),
                                       err)))
            return false;
    for (int i = 0; i < p->n_outputs; i++) {
        const dlr_predict_output *o = &p->output[i];
        int64_t n = dl_type_count(o->view.type);
        if (n > largest) largest = n;
        if (tiled && !(p->slab[i] = take(o->whole.channels * slab_rows(p) * plane(o), err)))
            return false;
    }
    p->piece = take(largest, err);
    return p->piece != NULL;
}

void dlr_predict_close(dlr_predict *p) {
    free(p->piece);
    for (int i = 0; i < DLR_MAX_INPUTS; i++) free(p->input[i].block), p->input[i].block = NULL;
    for (int i = 0; i < DLR_MAX_OUTPUTS; i++) free(p->slab[i]);
    p->piece = NULL;
    memset(p->slab, 0, sizeof p->slab);
}

static bool run_piece(dlr_predict *p, const int at[DLR_SPACE], dlr_read_block *read, void *ctx,
                      dl_error *err) {
    static const int64_t origin[DLR_SPACE] = {0};
    int64_t start[DLR_SPACE];
    for (int k = 0; k < DLR_SPACE; k++) start[k] = p->tiles[k].pieces.at[at[k]].start;
    for (int i = 0; i < p->n_inputs; i++) {
        const dlr_predict_input *in = &p->input[i];
        if (!read(ctx, i, in->whole ? origin : start, in->tile.size, in->block, err)) return false;
        dlr_state_write(p->exec, in->view, in->numbers, in->block);
    }
    dlr_exec_run(p->exec, p->program, NULL);
    return true;
}

/* Adds what counts of the piece that has just run to the slab, whose rows are those of pieces
 * at[0]. */
static void add_piece(const dlr_predict *p, const int at[DLR_SPACE], int output) {
    const dlr_predict_output *o = &p->output[output];
    const dlr_tile *t[DLR_SPACE];
    const int64_t *size = o->whole.size;
    for (int k = 0; k < DLR_SPACE; k++) t[k] = &p->tiles[k].pieces.at[at[k]];
    int64_t n1 = p->tiles[1].tile, n2 = p->tiles[2].tile;
    for (int64_t c = 0; c < o->whole.channels; c++)
        for (int64_t i = t[0]->from; i < t[0]->to; i++)
            for (int64_t j = t[1]->from; j < t[1]->to; j++) {
                const float *from = p->piece + ((c * slab_rows(p) + i) * n1 + j) * n2;
                float *to = p->slab[output] +
                            ((c * slab_rows(p) + i) * size[1] + t[1]->begin + j) * size[2] +
                            t[2]->begin;
                float share = t[0]->weight[i] * t[1]->weight[j];
                for (int64_t k = t[2]->from; k < t[2]->to; k++)
                    to[k] += share * t[2]->weight[k] * from[k];
            }
}

/* Hands on the slab's first `rows`, which no later piece adds to, and moves the others up. */
static bool give_rows(dlr_predict *p, int output, int64_t first, int64_t rows,
                      dlr_write_rows *write, void *ctx, dl_error *err) {
    const dlr_predict_output *o = &p->output[output];
    int64_t row = plane(o), all = slab_rows(p), left = all - rows;
    float *slab = p->slab[output], *packed = slab;
    if (left > 0 && !(packed = take(o->whole.channels * rows * row, err))) return false;
    for (int64_t c = 0; c < o->whole.channels; c++) {
        float *at = slab + c * all * row;
        if (left > 0) memcpy(packed + c * rows * row, at, (size_t)(rows * row) * sizeof *at);
    }
    bool ok = write(ctx, output, first, rows, packed, err);
    if (left > 0) free(packed);
    for (int64_t c = 0; c < o->whole.channels; c++) {
        float *at = slab + c * all * row;
        memmove(at, at + rows * row, (size_t)(left * row) * sizeof *at);
        memset(at + left * row, 0, (size_t)(rows * row) * sizeof *at);
    }
    return ok;
}

static bool run_tiled(dlr_predict *p, dlr_read_block *read, dlr_write_rows *write, void *ctx,
                      dl_error *err) {
    int at[DLR_SPACE];
    for (at[0] = 0; at[0] < p->tiles[0].pieces.n; at[0]++) {
        for (at[1] = 0; at[1] < p->tiles[1].pieces.n; at[1]++)
            for (at[2] = 0; at[2] < p->tiles[2].pieces.n; at[2]++) {
                if (!run_piece(p, at, read, ctx, err)) return false;
                for (int i = 0; i < p->n_outputs; i++) {
                    dlr_state_read(p->exec, p->output[i].view, DL_F32, p->piece);
                    add_piece(p, at, i);
                }
                if (!dlr_exec_check(p->exec, err)) return false;
            }
        const dlr_tile *t = &p->tiles[0].pieces.at[at[0]];
        int64_t rows = at[0] + 1 < p->tiles[0].pieces.n ? t[1].begin - t->begin : slab_rows(p);
        for (int i = 0; i < p->n_outputs; i++)
            if (!give_rows(p, i, t->begin, rows, write, ctx, err)) return false;
    }
    return true;
}

bool dlr_predict_run(dlr_predict *p, dlr_read_block *read, dlr_write_rows *write, void *ctx,
                     dl_error *err) {
    static const int only[DLR_SPACE] = {0};
    if (dlr_predict_is_tiled(p)) return run_tiled(p, read, write, ctx, err);
    if (!run_piece(p, only, read, ctx, err)) return false;
    for (int i = 0; i < p->n_outputs; i++) {
        dlr_state_read(p->exec, p->output[i].view, DL_F32, p->piece);
        if (!dlr_exec_check(p->exec, err)) return false;
        if (!write(ctx, i, 0, p->output[i].whole.size[0], p->piece, err)) return false;
    }
    return true;
}

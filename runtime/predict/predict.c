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

int64_t dlr_predict_most(const dlr_predict *p) { return dlr_predict_is_tiled(p) ? 1 : p->batch; }

static void *take(int64_t n, dl_dtype type, dl_error *err) {
    void *at = n < INT64_MAX / 8 ? calloc((size_t)n + 1, dl_dtype_bytes(type)) : NULL;
    if (!at)
        dl_fail(err, DL_RESOURCE, "no memory for %.1f MiB of a prediction",
                (double)n * (double)dl_dtype_bytes(type) / 0x1p20);
    return at;
}

/* The rows of a slab of the whole output: as many as a piece has. */
static int64_t slab_rows(const dlr_predict *p) { return p->tiles[0].tile; }
static int64_t plane(const dlr_predict_output *o) { return o->whole.size[1] * o->whole.size[2]; }

bool dlr_predict_open(dlr_predict *p, dl_error *err) {
    int64_t largest = 0;
    bool tiled = dlr_predict_is_tiled(p);
    for (int i = 0; i < p->n_inputs; i++) {
        dlr_predict_input *in = &p->input[i];
        in->block = take(p->batch * dlr_extent_count(&in->tile), in->numbers, err);
        if (!in->block) return false;
    }
    for (int i = 0; i < p->n_outputs; i++) {
        const dlr_predict_output *o = &p->output[i];
        int64_t n = dl_type_count(o->view.type);
        if (n > largest) largest = n;
        p->slab[i] =
            tiled ? take(o->whole.channels * slab_rows(p) * plane(o), o->numbers, err) : NULL;
        if (tiled && !p->slab[i]) return false;
    }
    p->piece = take(largest, DL_F64, err); /* of any output's numbers */
    return p->piece != NULL;
}

void dlr_predict_close(dlr_predict *p) {
    free(p->piece);
    for (int i = 0; i < DLR_MAX_INPUTS; i++) free(p->input[i].block), p->input[i].block = NULL;
    for (int i = 0; i < DLR_MAX_OUTPUTS; i++) free(p->slab[i]);
    p->piece = NULL;
    memset(p->slab, 0, sizeof p->slab);
}

/* Runs the program on the pieces there of n samples; the rest of a batch is zero. */
static bool run_piece(dlr_predict *p, int64_t n, const int at[DLR_SPACE], dlr_read_block *read,
                      void *ctx, dl_error *err) {
    static const int64_t origin[DLR_SPACE] = {0};
    int64_t start[DLR_SPACE];
    for (int k = 0; k < DLR_SPACE; k++) start[k] = p->tiles[k].pieces.at[at[k]].start;
    for (int i = 0; i < p->n_inputs; i++) {
        const dlr_predict_input *in = &p->input[i];
        size_t bytes = (size_t)dlr_extent_count(&in->tile) * dl_dtype_bytes(in->numbers);
        char *block = in->block;
        for (int64_t k = 0; k < n; k++)
            if (!read(ctx, i, k, in->whole ? origin : start, in->tile.size,
                      block + (size_t)k * bytes, err))
                return false;
        memset(block + (size_t)n * bytes, 0, (size_t)(p->batch - n) * bytes);
        dlr_state_write(p->exec, in->view, in->numbers, block);
    }
    dlr_exec_run(p->exec, p->program, NULL);
    return true;
}

/* Adds n numbers of a piece to those of a slab, by their weights. */
#define ADD(T)                                                                                     \
    for (int64_t k = 0; k < n; k++) ((T *)to)[k] += (T)(share * weight[k]) * ((const T *)from)[k];
static void add_line(dl_dtype numbers, void *to, const void *from, float share, const float *weight,
                     int64_t n) {
    if (numbers == DL_F64)
        ADD(double)
    else
        ADD(float)
}

/* Adds what counts of the piece that has just run to the slab, whose rows are those of pieces
 * at[0]. */
static void add_piece(const dlr_predict *p, const int at[DLR_SPACE], int output) {
    const dlr_predict_output *o = &p->output[output];
    const dlr_tile *t[DLR_SPACE];
    const int64_t *size = o->whole.size, bytes = (int64_t)dl_dtype_bytes(o->numbers);
    for (int k = 0; k < DLR_SPACE; k++) t[k] = &p->tiles[k].pieces.at[at[k]];
    const int64_t n1 = p->tiles[1].tile, n2 = p->tiles[2].tile, first = t[2]->from;
    for (int64_t c = 0; c < o->whole.channels; c++)
        for (int64_t i = t[0]->from; i < t[0]->to; i++)
            for (int64_t j = t[1]->from; j < t[1]->to; j++) {
                int64_t row = c * slab_rows(p) + i;
                int64_t from = (row * n1 + j) * n2 + first,
                        to = (row * size[1] + t[1]->begin + j) * size[2] + t[2]->begin + first;
                add_line(o->numbers, (char *)p->slab[output] + to * bytes,
                         (const char *)p->piece + from * bytes, t[0]->weight[i] * t[1]->weight[j],
                         t[2]->weight + first, t[2]->to - first);
            }
}

/* Hands on the slab's first `rows`, which no later piece adds to, and moves the others up. */
static bool give_rows(dlr_predict *p, int output, int64_t first, int64_t rows,
                      dlr_write_rows *write, void *ctx, dl_error *err) {
    const dlr_predict_output *o = &p->output[output];
    const int64_t left = slab_rows(p) - rows;
    const size_t row = (size_t)plane(o) * dl_dtype_bytes(o->numbers), given = (size_t)rows * row,
                 kept = (size_t)left * row;
    char *slab = p->slab[output], *packed = slab;
    if (left > 0 && !(packed = take(o->whole.channels * rows * plane(o), o->numbers, err)))
        return false;
    for (int64_t c = 0; left > 0 && c < o->whole.channels; c++)
        memcpy(packed + (size_t)c * given, slab + (size_t)c * (given + kept), given);
    bool ok = write(ctx, output, 0, first, rows, packed, err);
    if (left > 0) free(packed);
    for (int64_t c = 0; c < o->whole.channels; c++) {
        char *at = slab + (size_t)c * (given + kept);
        memmove(at, at + given, kept);
        memset(at + kept, 0, given);
    }
    return ok;
}

static bool run_tiled(dlr_predict *p, dlr_read_block *read, dlr_write_rows *write, void *ctx,
                      dl_error *err) {
    int at[DLR_SPACE];
    for (at[0] = 0; at[0] < p->tiles[0].pieces.n; at[0]++) {
        for (at[1] = 0; at[1] < p->tiles[1].pieces.n; at[1]++)
            for (at[2] = 0; at[2] < p->tiles[2].pieces.n; at[2]++) {
                if (!run_piece(p, 1, at, read, ctx, err)) return false;
                for (int i = 0; i < p->n_outputs; i++) {
                    dlr_state_read(p->exec, p->output[i].view, p->output[i].numbers, p->piece);
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

bool dlr_predict_run(dlr_predict *p, int64_t n, dlr_read_block *read, dlr_write_rows *write,
                     void *ctx, dl_error *err) {
    static const int only[DLR_SPACE] = {0};
    if (dlr_predict_is_tiled(p)) return run_tiled(p, read, write, ctx, err);
    if (!run_piece(p, n, only, read, ctx, err)) return false;
    for (int i = 0; i < p->n_outputs; i++) {
        const dlr_predict_output *o = &p->output[i];
        int64_t each = dlr_extent_count(&o->whole);
        dlr_state_read_range(p->exec, o->view, (dlr_range){0, n * each}, o->numbers, p->piece);
        if (!dlr_exec_check(p->exec, err)) return false;
        for (int64_t k = 0; k < n; k++) {
            const char *at =
                (const char *)p->piece + (size_t)(k * each) * dl_dtype_bytes(o->numbers);
            if (!write(ctx, i, k, 0, o->whole.size[0], at, err)) return false;
        }
    }
    return true;
}

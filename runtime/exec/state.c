#include "runtime/exec/state.h"

#include <math.h>

#include "ir/base/counts.h"
#include "ir/base/hash.h"
#include "runtime/base/convert.h"
#include "runtime/base/rng.h"
#include "runtime/device/layout.h"

static const int64_t most_random = (int64_t)1 << 34;
enum { REDRAW = 1 << 16 /* added to the stream for each new draw of an element */ };

/* Where a shard's elements lie in its whole tensor, both row-major: runs of equal length, each
 * contiguous in the whole, too. */
typedef struct {
    int64_t run, runs;
    const dl_var_piece *piece;
    int rank;                  /* the number of axes that a run does not cover; by axis: */
    int64_t each[DL_MAX_RANK]; /* elements along the axis in a run, */
    int64_t own[DL_MAX_RANK];  /* runs along the axis, */
    /* and, in the whole, elements from one index of the axis to the next */
    int64_t step[DL_MAX_RANK];
} place;

/* The number of successive indices of an axis that are contiguous in the whole, counted from its
 * first. */
static int64_t find_each(const dl_var_piece *piece, int axis, int64_t size) {
    int64_t each = 0;
    for (int64_t at = 0, n; piece && at < size; at += n) {
        n = size - at;
        dl_piece_at(piece, axis, at, &n);
        each = dl_gcd(each, n);
    }
    return piece ? each : size;
}

static place place_of(dlr_view v) {
    const dl_type *t = v.type, whole = dlr_state_whole(v);
    int64_t step = 1, count = dl_type_count(t);
    place p = {.run = 1, .piece = v.piece};
    bool side_by_side = true; /* whether all axes so far, from the innermost on, are contiguous */
    for (int a = t->rank - 1; a >= 0; step *= whole.axis[a--].size) {
        int64_t size = t->axis[a].size, each = side_by_side ? find_each(v.piece, a, size) : 1;
        if (side_by_side && each < whole.axis[a].size) side_by_side = false, p.rank = a + 1;
        p.run *= each, p.each[a] = each, p.own[a] = each ? size / each : 0, p.step[a] = step;
    }
    if (!p.run) p.run = 1;
    p.runs = count / p.run;
    return p;
}

/* Where a run begins in the whole tensor; later runs follow. */
static int64_t run_at(const place *p, int64_t run) {
    int64_t at = 0;
    for (int a = p->rank - 1; a >= 0; run /= p->own[a--]) {
        int64_t n = p->each[a];
        at += dl_piece_at(p->piece, a, run % p->own[a] * n, &n) * p->step[a];
    }
    return at;
}

/* The number of the `left` elements from element `at` of the piece on that are contiguous in the
 * whole, too, and where they lie there. */
static int64_t run_of(const place *p, int64_t at, int64_t left, int64_t *whole) {
    int64_t in = at % p->run;
    *whole = run_at(p, at / p->run) + in;
    return left < p->run - in ? left : p->run - in;
}

typedef struct {
    const dl_type *type;
    char *tensor;
    dl_init init;
    dlr_rng_place place;
    place of; /* of the whole tensor */
} start;

static void draw_normal(const start *s, uint64_t first, size_t n, float *out) {
    dlr_normals(s->place, first, n, (float)s->init.a, (float)s->init.b, out);
}

static void draw_trunc_normal(const start *s, uint64_t first, size_t n, float *out) {
    dlr_normals(s->place, first, n, 0, 1, out);
    for (size_t i = 0; i < n; i++) {
        dlr_rng_place again = s->place;
        while (fabsf(out[i]) > 2) {
            again.stream += REDRAW;
            dlr_normals(again, first + i, 1, 0, 1, &out[i]);
        }
        out[i] = (float)(s->init.a + s->init.b * (double)out[i]);
    }
}

static void draw_uniform(const start *s, uint64_t first, size_t n, float *out) {
    dlr_uniforms(s->place, first, n, (float)s->init.a, (float)s->init.b, out);
}

typedef void draw_fn(const start *s, uint64_t first, size_t n, float *out);
/* NULL: this init rule draws no random numbers. */
static draw_fn *const draws[DL_NINITS] = {[DL_INIT_NORMAL] = draw_normal,
                                          [DL_INIT_TRUNC_NORMAL] = draw_trunc_normal,
                                          [DL_INIT_UNIFORM] = draw_uniform};

/* The value is stored in the variable's own type: a wide type keeps all digits. */
static void fill(const start *s, int64_t n, char *out) {
    double value = s->init.kind == DL_INIT_CONST ? s->init.a : 0;
    size_t bytes = (size_t)dl_dtype_bytes(s->type->dtype);
    dlr_convert(s->type->dtype, out, DL_F64, &value, 1);
    for (size_t i = 1; i < (size_t)n; i++) memcpy(out + i * bytes, out, bytes);
}

static void init_tile(void *context, int64_t item, int thread) {
    (void)thread;
    const start *s = context;
    dlr_tile t = dlr_layout_tile(s->type, item);
    int64_t run = t.outer * t.inner;
    dl_dtype dtype = s->type->dtype;
    _Alignas(64) char values[DLR_TILE * 8];
    draw_fn *draw = draws[s->init.kind];
    if (draw) {
        float drawn[DLR_TILE];
        for (int64_t r = 0; r < t.rows; r++)
            for (int64_t k = 0, n, whole; k < run; k += n) {
                n = run_of(&s->of, t.first + r * t.row_step + k, run - k, &whole);
                draw(s, (uint64_t)whole, (size_t)n, drawn + r * run + k);
            }
        dlr_convert(dtype, values, DL_F32, drawn, t.rows * run);
    } else {
        fill(s, t.rows * run, values);
    }
    dlr_tile_store(&t, dl_dtype_bytes(dtype), values, run, s->tensor);
}

dl_type dlr_state_whole(dlr_view v) { return v.piece ? dl_piece_whole(*v.type, v.piece) : *v.type; }

bool dlr_state_init(dlr_exec *e, uint64_t seed, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(e);
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (v->role == DL_VAR_TABLE) continue;
        dlr_view view = {&v->type, v->offset, dl_plan_piece(v)};
        const dl_type whole = dlr_state_whole(view);
        if (draws[v->init.kind] && dl_type_count(&whole) > most_random)
            return dl_fail(err, DL_RESOURCE,
                           "variable '%s' (%s) has more than 2^34 random elements", v->name,
                           dl_type_text(&whole));
        uint64_t name = dl_hash_str(v->name, 0);
        start s = {.type = &v->type,
                   .tensor = dlr_exec_host(e, view, DLR_WRITE),
                   .init = v->init,
                   .of = place_of(view),
                   .place = {seed, DLR_STREAM_WEIGHTS, (uint32_t)(name >> 32), (uint32_t)name}};
        dlr_pool_run(dlr_exec_pool(e), dlr_layout_tiles(&v->type), init_tile, &s);
    }
    return true;
}

/* A transfer of elements first .. end - 1 of the tensor, which the host's buffer holds. */
typedef struct {
    const dl_type *type;
    char *tensor, *host;
    dl_dtype dtype; /* of the host's buffer */
    int64_t first, end, tile;
} transfer;

/* The part of a tile's row that is in the range: its start in the row and in the host's buffer, and
 * its number of elements, which may be 0. */
typedef struct {
    int64_t from, n;
    char *host;
} piece;

static piece piece_of(const transfer *x, const dlr_tile *t, int64_t row) {
    int64_t at = t->first + row * t->row_step, end = at + t->outer * t->inner;
    int64_t from = at < x->first ? x->first : at, to = end > x->end ? x->end : end;
    return (piece){from - at, to - from, x->host + (from - x->first) * dl_dtype_bytes(x->dtype)};
}

static bool is_whole(const transfer *x, const dlr_tile *t) {
    return t->first >= x->first &&
           t->first + (t->rows - 1) * t->row_step + t->outer * t->inner <= x->end;
}

static void write_tile(void *context, int64_t item, int thread) {
    (void)thread;
    const transfer *x = context;
    dlr_tile t = dlr_layout_tile(x->type, x->tile + item);
    int64_t run = t.outer * t.inner;
    int bytes = dl_dtype_bytes(x->type->dtype);
    bool whole = is_whole(x, &t);
    if (whole && x->dtype == x->type->dtype) {
        dlr_tile_store(&t, bytes, piece_of(x, &t, 0).host, t.row_step, x->tensor);
        return;
    }
    _Alignas(64) char values[DLR_TILE * 8];
    /* the other elements of the tile are kept */
    if (!whole) dlr_tile_load(&t, bytes, x->tensor, values, run);
    for (int64_t r = 0; r < t.rows; r++) {
        piece p = piece_of(x, &t, r);
        if (p.n > 0)
            dlr_convert(x->type->dtype, values + (r * run + p.from) * bytes, x->dtype, p.host, p.n);
    }
    dlr_tile_store(&t, bytes, values, run, x->tensor);
}

static void read_tile(void *context, int64_t item, int thread) {
    (void)thread;
    const transfer *x = context;
    dlr_tile t = dlr_layout_tile(x->type, x->tile + item);
    int64_t run = t.outer * t.inner;
    int bytes = dl_dtype_bytes(x->type->dtype);
    if (x->dtype == x->type->dtype && is_whole(x, &t)) {
        dlr_tile_load(&t, bytes, x->tensor, piece_of(x, &t, 0).host, t.row_step);
        return;
    }
    _Alignas(64) char values[DLR_TILE * 8];
    dlr_tile_load(&t, bytes, x->tensor, values, run);
    for (int64_t r = 0; r < t.rows; r++) {
        piece p = piece_of(x, &t, r);
        if (p.n > 0)
            dlr_convert(x->dtype, p.host, x->type->dtype, values + (r * run + p.from) * bytes, p.n);
    }
}

/* A transfer of at most a tile, and every transfer of a tensor that is no larger, stays on the
 * caller's thread: waking the others would take longer. */
static void run_transfer(const dlr_exec *e, dlr_view v, dlr_range range, dlr_access access,
                         transfer *x, dlr_item_fn *move) {
    int64_t end;
    if (range.n <= 0) return;
    x->tensor = dlr_exec_host(e, v, access), x->first = range.first, x->end = range.first + range.n;
    if (range.n <= DLR_TILE && x->dtype == x->type->dtype && dlr_layout_is_rows(x->type)) {
        size_t size = (size_t)dl_dtype_bytes(x->dtype);
        char *at = x->tensor + (size_t)x->first * size;
        bool read = access == DLR_READ;
        memcpy(read ? x->host : at, read ? at : x->host, (size_t)range.n * size);
        return;
    }
    dlr_layout_span(x->type, x->first, x->end - x->first, &x->tile, &end);
    bool small = dl_type_count(x->type) <= DLR_TILE;
    if (!small) dlr_pool_run(dlr_exec_pool(e), end - x->tile, move, x);
    for (int64_t i = 0; small && i < end - x->tile; i++) move(x, i, 0);
}

void dlr_state_write_range(dlr_exec *e, dlr_view to, dlr_range range, dl_dtype dtype,
                           const void *from) {
    transfer x = {
        .type = to.type, .host = (char *)from, .dtype = dtype}; /* the buffer is only read */
    bool whole = range.n == dl_type_count(to.type);
    run_transfer(e, to, range, whole ? DLR_WRITE : DLR_UPDATE, &x, write_tile);
}

void dlr_state_read_range(const dlr_exec *e, dlr_view from, dlr_range range, dl_dtype dtype,
                          void *to) {
    transfer x = {.type = from.type, .host = to, .dtype = dtype};
    run_transfer(e, from, range, DLR_READ, &x, read_tile);
}

void dlr_state_write(dlr_exec *e, dlr_view to, dl_dtype dtype, const void *from) {
    dlr_state_write_range(e, to, (dlr_range){0, dl_type_count(to.type)}, dtype, from);
}

void dlr_state_read(const dlr_exec *e, dlr_view from, dl_dtype dtype, void *to) {
    dlr_state_read_range(e, from, (dlr_range){0, dl_type_count(from.type)}, dtype, to);
}

/* The parts of a range of the whole that lie in the view's piece, one per call: *range is a range
 * of the piece, and *skip elements of the whole's range precede it. Returns false when there are no
 * more; *run counts. */
static bool next_part(const place *p, dlr_range of, int64_t *run, dlr_range *range, int64_t *skip) {
    if (*run >= p->runs) return false;
    int64_t begin = run_at(p, *run), from = begin, end = begin + p->run;
    if (from < of.first) from = of.first;
    if (end > of.first + of.n) end = of.first + of.n;
    if (from >= end) return false; /* this run and all further ones lie after the range */
    *range = (dlr_range){*run * p->run + (from - begin), end - from};
    *skip = from - of.first;
    ++*run;
    return true;
}

/* The first run that does not end in front of element `first` of the whole. */
static int64_t find_run(const place *p, int64_t first) {
    int64_t low = 0, high = p->runs;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (run_at(p, mid) + p->run <= first)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void dlr_state_write_whole(dlr_exec *e, dlr_view to, dlr_range range, dl_dtype dtype,
                           const void *from) {
    place p = place_of(to);
    int64_t run = find_run(&p, range.first), skip, bytes = dl_dtype_bytes(dtype);
    for (dlr_range part; next_part(&p, range, &run, &part, &skip);)
        dlr_state_write_range(e, to, part, dtype, (const char *)from + skip * bytes);
}

void dlr_state_read_whole(const dlr_exec *e, dlr_view from, dlr_range range, dl_dtype dtype,
                          void *to) {
    place p = place_of(from);
    int64_t run = find_run(&p, range.first), skip, bytes = dl_dtype_bytes(dtype);
    for (dlr_range part; next_part(&p, range, &run, &part, &skip);)
        dlr_state_read_range(e, from, part, dtype, (char *)to + skip * bytes);
}

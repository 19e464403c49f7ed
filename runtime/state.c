#include "runtime/state.h"

#include <math.h>

#include "ir/base/hash.h"
#include "runtime/convert.h"
#include "runtime/layout.h"
#include "runtime/rng.h"

static const int64_t most_random = (int64_t)1 << 34;
enum { REDRAW = 1 << 16 /* added to the stream for each new draw of an element */ };

typedef struct {
    const dl_type *type;
    char *tensor;
    dl_init init;
    dlr_rng_place place;
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
/* NULL: no random numbers. */
static draw_fn *const draws[DL_NINITS] = {[DL_INIT_NORMAL] = draw_normal,
                                          [DL_INIT_TRUNC_NORMAL] = draw_trunc_normal,
                                          [DL_INIT_UNIFORM] = draw_uniform};

/* In the variable's own type: a wide one keeps all digits. */
static void fill(const start *s, int64_t n, char *out) {
    double value = s->init.kind == DL_INIT_CONST ? s->init.a : 0;
    size_t bytes = (size_t)dl_dtype_bytes(s->type->dtype);
    dlr_convert(s->type->dtype, out, DL_F64, &value, 1);
    for (size_t i = 1; i < (size_t)n; i++) memcpy(out + i * bytes, out, bytes);
}

static void init_tile(void *context, int64_t unit, int thread) {
    (void)thread;
    const start *s = context;
    dlr_tile t = dlr_layout_tile(s->type, unit);
    int64_t run = t.outer * t.inner;
    dl_dtype dtype = s->type->dtype;
    _Alignas(64) char values[DLR_TILE * 8];
    draw_fn *draw = draws[s->init.kind];
    if (draw) {
        float drawn[DLR_TILE];
        for (int64_t r = 0; r < t.rows; r++)
            draw(s, (uint64_t)(t.first + r * t.row_step), (size_t)run, drawn + r * run);
        dlr_convert(dtype, values, DL_F32, drawn, t.rows * run);
    } else {
        fill(s, t.rows * run, values);
    }
    dlr_tile_store(&t, dl_dtype_bytes(dtype), values, run, s->tensor);
}

bool dlr_state_init(dlr_exec *e, uint64_t seed, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(e);
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (draws[v->init.kind] && dl_type_count(&v->type) > most_random)
            return dl_fail(err, DL_RESOURCE, "variable '%s' (%s) has more than 2^34 random elements", v->name,
                           dl_type_text(&v->type));
        uint64_t name = dl_hash_str(v->name, 0);
        start s = {.type = &v->type,
                   .tensor = dlr_exec_arena(e) + v->offset,
                   .init = v->init,
                   .place = {seed, DLR_STREAM_WEIGHTS, (uint32_t)(name >> 32), (uint32_t)name}};
        dlr_pool_run(dlr_exec_pool(e), dlr_layout_tiles(&v->type), init_tile, &s);
    }
    return true;
}

typedef struct {
    const dl_type *type;
    char *tensor, *host;
    dl_dtype dtype; /* of the host's buffer */
} transfer;

static void write_tile(void *context, int64_t unit, int thread) {
    (void)thread;
    const transfer *x = context;
    dlr_tile t = dlr_layout_tile(x->type, unit);
    int64_t run = t.outer * t.inner;
    int bytes = dl_dtype_bytes(x->type->dtype), host_bytes = dl_dtype_bytes(x->dtype);
    const char *rows = x->host + t.first * host_bytes;
    if (x->dtype == x->type->dtype) {
        dlr_tile_store(&t, bytes, rows, t.row_step, x->tensor);
        return;
    }
    _Alignas(64) char converted[DLR_TILE * 8];
    for (int64_t r = 0; r < t.rows; r++)
        dlr_convert(x->type->dtype, converted + r * run * bytes, x->dtype, rows + r * t.row_step * host_bytes,
                    run);
    dlr_tile_store(&t, bytes, converted, run, x->tensor);
}

static void read_tile(void *context, int64_t unit, int thread) {
    (void)thread;
    const transfer *x = context;
    dlr_tile t = dlr_layout_tile(x->type, unit);
    int64_t run = t.outer * t.inner;
    int bytes = dl_dtype_bytes(x->type->dtype), host_bytes = dl_dtype_bytes(x->dtype);
    char *rows = x->host + t.first * host_bytes;
    if (x->dtype == x->type->dtype) {
        dlr_tile_load(&t, bytes, x->tensor, rows, t.row_step);
        return;
    }
    _Alignas(64) char loaded[DLR_TILE * 8];
    dlr_tile_load(&t, bytes, x->tensor, loaded, run);
    for (int64_t r = 0; r < t.rows; r++)
        dlr_convert(x->dtype, rows + r * t.row_step * host_bytes, x->type->dtype, loaded + r * run * bytes,
                    run);
}

void dlr_state_write(dlr_exec *e, dlr_view to, dl_dtype dtype, const void *from) {
    transfer x = {to.type, to.data, (char *)from, dtype}; /* only read there */
    dlr_pool_run(dlr_exec_pool(e), dlr_layout_tiles(to.type), write_tile, &x);
}

void dlr_state_read(const dlr_exec *e, dlr_view from, dl_dtype dtype, void *to) {
    transfer x = {from.type, from.data, to, dtype};
    dlr_pool_run(dlr_exec_pool(e), dlr_layout_tiles(from.type), read_tile, &x);
}

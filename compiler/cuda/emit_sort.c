/* Calls of a sort, and of the phases that sort for a scatter: the sizes of kernels/sort.cu. Sorted
 * tiles first, then mergers of runs. */
#include "compiler/cuda/emit_cuda.h"
#include "ir/sort.h"

enum { TILE = 2048, THREADS = 256 }; /* SORT_TILE, SORT_THREADS */

typedef struct {
    const dl_cuda_sorting *of;
    int64_t tiles, per, room; /* as sort_shape */
} tiling;

static tiling find_tiling(const dl_cuda_sorting *of) {
    tiling t = {.of = of, .tiles = dl_ceil_div(of->size, TILE), .room = 1};
    while (t.room < of->size && t.room < TILE) t.room *= 2;
    t.per = t.tiles > 1 ? 1 : TILE / t.room;
    while (t.per > 1 && t.per / 2 >= of->lines) t.per /= 2;
    return t;
}

static void put_shape(dl_emitter *e, const tiling *t) {
    const char *key = dl_cuda_sort_key(t->of);
    dl_putf(e->out,
            "    const sort_shape s = {$%lldL$, $%lldL$, $%lldL$, $%lldL$, $%lld$, $%lld$, %s};\n"
            "    KD_SHARED(sort_entry<%s>, v);\n"
            "    sort_entry<%s> *runs = (sort_entry<%s> *)(workspace + $%lldL$);\n",
            (long long)t->of->lines, (long long)t->of->size, (long long)t->of->inner,
            (long long)t->tiles, (long long)t->per, (long long)t->room,
            t->of->descending ? "true" : "false", key, key, key, (long long)t->of->byte);
}

/* Merges runs of `run` entries, which lie in the first or second half of the memory. */
static bool merge(dl_emitter *e, const tiling *t, int64_t run, bool second, dl_emitted *code,
                  dl_error *err) {
    const dl_cuda_sorting *s = t->of;
    const int64_t all = s->lines * s->size;
    if (!dl_cuda_head(e, code, s->lines * t->tiles, THREADS, TILE * dl_cuda_sort_entry(s), err))
        return false;
    put_shape(e, t);
    dl_putf(e->out, "    sort_merge(s, $%lldL$, runs + $%lldL$, runs + $%lldL$, %s, v);\n",
            (long long)run, (long long)(second ? all : 0), (long long)(second ? 0 : all),
            2 * run < s->size ? "(int *)0" : s->to);
    dl_cuda_foot(e, code, 1);
    return true;
}

const char *dl_cuda_sort_key(const dl_cuda_sorting *s) {
    return s->key_bytes == 8 ? "unsigned long" : "unsigned";
}

int64_t dl_cuda_sort_entry(const dl_cuda_sorting *s) { return (int64_t)2 * s->key_bytes; }

bool dl_cuda_put_sort(dl_emitter *e, const dl_cuda_sorting *s, dl_emitted *code, bool *second,
                      dl_error *err) {
    const tiling t = find_tiling(s);
    if (!dl_cuda_head(e, code, dl_ceil_div(s->lines, t.per) * t.tiles, THREADS,
                      t.per * t.room * dl_cuda_sort_entry(s), err))
        return false;
    put_shape(e, &t);
    dl_putf(e->out, "    sort_tiles<%s>(s, %s, %s, runs, v);\n", s->elements, s->from,
            t.tiles > 1 ? "(int *)0" : s->to);
    dl_cuda_foot(e, code, DL_CUDA_TEMPLATE);
    *second = false;
    for (int64_t run = TILE; run < s->size; run *= 2, *second = !*second)
        if (!merge(e, &t, run, *second, code, err)) return false;
    code->needs[DL_NEED_SORT] = 1;
    return true;
}

bool dl_cuda_sort(dl_emitter *e, int variant, dl_emitted *code, dl_error *err) {
    const dl_dtype type = e->k->params.at[0].type.dtype;
    const dl_sort of = dl_sort_of(dl_kernel_call(e->k));
    const dl_cuda_sorting s = {.lines = of.outer * of.inner,
                               .size = of.size,
                               .inner = of.inner,
                               .descending = of.descending,
                               .key_bytes = dl_sort_key_bytes(type),
                               .elements = dl_cuda_elements(type),
                               .from = "$p0$",
                               .to = "$p1$"};
    bool second;
    (void)variant;
    if (s.size > TILE) code->workspace = 2 * s.lines * s.size * dl_cuda_sort_entry(&s);
    return dl_cuda_put_sort(e, &s, code, &second, err);
}

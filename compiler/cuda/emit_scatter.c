/* Scatters on GPUs. Of few points, each thread searches those of its element of the result. Others
 * are sorted by their destinations (kernels/sort.cu), and a group of lanes has each element's. */
#include "compiler/codegen/scatter.h"
#include "compiler/cuda/emit_loops.h"

enum { FEW_POINTS = 64 /* that each thread searches alone */ };

typedef enum { ELEMENTS, KEYS, LISTS } part;

/* A phase of loops that scatter.h writes; list: of LISTS. */
static bool put_loops(dl_emitter *e, const dl_scatter *s, part of, const dl_scatter_list *list,
                      dl_emitted *code, dl_error *err) {
    dl_buf body = {0}, *out = e->out;
    e->out = &body, code->needs[DL_NEED_LOOPS] = 1;
    int64_t items = of == ELEMENTS ? dl_scatter_elements(s, DL_BLOCK)
                    : of == KEYS   ? dl_scatter_keys(s, DL_BLOCK, 0)
                                   : dl_scatter_lists(s, DL_BLOCK, list);
    e->out = out;
    return dl_cuda_put_phase(e, code, &body, items, 0, false, err);
}

/* In the workspace: keys, begins, and entries twice. */
static bool put_sorted(dl_emitter *e, const dl_scatter *s, dl_emitted *code, dl_error *err) {
    const int64_t points = s->points.points, begins = points * (int64_t)sizeof(int64_t);
    const bool wide = s->places >= UINT32_MAX;
    dl_cuda_sorting by = {.lines = 1,
                          .size = points,
                          .inner = 1,
                          .key_bytes = wide ? 8 : 4,
                          .elements = wide ? "sort_keys<unsigned long>" : "sort_keys<unsigned>",
                          .from = "(const long *)workspace",
                          .to = "(int *)0"};
    by.byte = dl_round_up(begins + (s->places + 1) * (int64_t)sizeof(int64_t), 16);
    const int64_t bytes = points * dl_cuda_sort_entry(&by);
    bool second;
    if (!put_loops(e, s, KEYS, NULL, code, err) || !dl_cuda_put_sort(e, &by, code, &second, err) ||
        !dl_cuda_head(e, code, dl_ceil_div(s->places + 1, DL_BLOCK), DL_BLOCK, 0, err))
        return false;
    const dl_scatter_list list = {.begins = begins,
                                  .order = by.byte + second * bytes,
                                  .words = wide ? 4 : 2,
                                  .word = wide ? 2 : 1};
    dl_putf(e->out,
            "    sort_begins((const sort_entry<%s> *)(workspace + $%lldL$), $%lldL$, (long "
            "*)(workspace + $%lldL$), $%lldL$);\n",
            dl_cuda_sort_key(&by), (long long)list.order, (long long)points, (long long)begins,
            (long long)s->places);
    dl_cuda_foot(e, code, 1);
    code->workspace = by.byte + 2 * bytes;
    return put_loops(e, s, LISTS, &list, code, err);
}

bool dl_cuda_scatter(dl_emitter *e, dl_emitted *code, dl_error *err) {
    dl_scatter s;
    if (!dl_scatter_find(e, &s, err)) return false;
    bool few = s.added.points <= FEW_POINTS || s.points.points > INT32_MAX;
    return few ? put_loops(e, &s, ELEMENTS, NULL, code, err) : put_sorted(e, &s, code, err);
}

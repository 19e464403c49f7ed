/* The K range of each panel where channels form groups: emit_windows.h. */
#include "compiler/cpu/emit_windows.h"

/* The groups that lanes [from, to) belong to. */
typedef struct {
    int64_t first, n;
} run_of_groups;
static run_of_groups groups_of(int64_t from, int64_t to, int64_t own) {
    return (run_of_groups){from / own, to > from ? (to - 1) / own + 1 - from / own : 0};
}

/* The K range of lanes [lane, to) of a panel. Its vectors get ranges of their own where that
 * sums fewer terms. */
static dl_k_range find_column(const dl_target *t, int64_t lane, int64_t to, int64_t own,
                              int64_t per, int64_t all) {
    int64_t middle = dl_at_most(lane + t->lanes, to);
    run_of_groups both = groups_of(lane, to, own), low = groups_of(lane, middle, own),
                  high = groups_of(middle, to, own);
    int64_t each = dl_at_least(low.n, high.n), first = both.first * per, terms = each * per,
            vector_offset = dl_at_most(high.first * per, all - terms) - first;
    if (!high.n || each == both.n || vector_offset > DL_CHAIN)
        return (dl_k_range){first, 0, both.n * per};
    return (dl_k_range){first, vector_offset, terms};
}

dl_k_ranges dl_find_k_ranges(dl_arena *arena, const dl_target *t, int64_t lanes, int64_t groups,
                             int64_t per) {
    int64_t own = groups ? lanes / groups : lanes, columns = dl_ceil_div(lanes, t->panel),
            all = groups * per;
    dl_k_ranges r = {.panels_a_range = groups <= 1      ? columns
                                       : own % t->panel ? 1
                                                        : own / t->panel,
                     .vectors = 1};
    r.panels_a_range = dl_at_least(1, r.panels_a_range);
    r.n = columns ? columns / r.panels_a_range : 1;
    r.at = DL_NEWS(arena, dl_k_range, r.n);
    r.at[0].terms = per; /* without lanes, or one group */
    for (int64_t i = 0; i < r.n; i++) {
        int64_t lane = i * r.panels_a_range * t->panel;
        if (groups > 1)
            r.at[i] = find_column(t, lane, dl_at_most(lane + t->panel, lanes), own, per, all);
        if (r.at[i].terms > r.terms) r.terms = r.at[i].terms;
        if (r.at[i].vector_offset) r.vectors = 2;
    }
    r.multi_group = r.terms > per;
    return r;
}

void dl_k_ranges_equalize(dl_k_ranges *r, int64_t all) {
    for (int64_t i = 0; i < r->n; i++) {
        dl_k_range *at = &r->at[i];
        int64_t last = all - r->terms, second = dl_at_most(at->first + at->vector_offset, last);
        at->first = dl_at_most(at->first, last);
        at->vector_offset = second - at->first, at->terms = r->terms;
    }
}

bool dl_k_ranges_can_share(const dl_k_ranges *r, int64_t all, int64_t columns, bool move) {
    if (r->n == 1 || r->panels_a_range % columns == 0) return true;
    bool near = move;
    for (int64_t i = 0; near && i < all; i++) {
        const dl_k_range *first = &r->at[i / columns * columns / r->panels_a_range],
                         *own = &r->at[i / r->panels_a_range];
        near = own->terms == first->terms &&
               own->first + own->vector_offset - first->first <= DL_CHAIN;
    }
    return near;
}

void dl_emit_k_ranges(dl_emitter *e, const dl_k_ranges *r) {
    dl_putf(e->out, "static const struct k_range %s_k_ranges[] = {", DL_OWN_NAME);
    for (int64_t i = 0; i < r->n; i++)
        dl_putf(e->out, "{%lld, %lld, %lld}, ", (long long)r->at[i].first,
                (long long)r->at[i].vector_offset, (long long)r->at[i].terms);
    dl_puts(e->out, "};\n");
}

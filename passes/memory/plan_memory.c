/* plan_memory: places all tensors in one arena of the module. Variables come first, at equal
 * offsets in every graph. After them each graph packs its transient values; graphs share this
 * memory, since two graphs never run at once.
 *
 * Packing is offline storage allocation, which is NP-hard. Storages are placed greedily, each at
 * the lowest offset that no storage alive at the same time occupies, in several orders; the best
 * result is kept ("greedy by size", Pisarchyk and Lee, Efficient memory management for deep
 * neural net inference, 2020). */
#include <stdlib.h>

#include "ir/body.h"
#include "passes/memory/memory.h"

/* ---- variables ---- */

/* Gives every variable of every graph its offset; returns the first byte after them, or -1. */
static int64_t place_variables(dl_module *m, dl_error *err) {
    for (int i = 0; i < m->graphs.n; i++)
        for (int k = 0; k < m->graphs.at[i]->vars.n; k++)
            m->graphs.at[i]->vars.at[k]->value.offset = -1;
    int64_t end = 0;
    dl_arena *scratch = dl_arena_new(NULL);
    dl_var_set *sets = DL_NEWS(scratch, dl_var_set, m->graphs.n + 1);
    for (int i = 0; i < m->graphs.n && end >= 0; i++) {
        sets[i] = dl_var_set_new(m->graphs.at[i], scratch);
        for (int k = 0; k < m->graphs.at[i]->vars.n && end >= 0; k++) {
            dl_var *v = m->graphs.at[i]->vars.at[k];
            const dl_type *t = &v->value.type;
            const dl_var *twin = NULL;
            for (int e = 0; e < i && !twin; e++) twin = dl_var_set_find(&sets[e], v->name);
            if (!twin) {
                v->value.offset = dl_memory_align(end, dl_type_bytes(t));
                end = v->value.offset + dl_type_bytes(t);
                continue;
            }
            if (!dl_type_same(t, &twin->value.type) ||
                !dl_layout_same(t->layout, twin->value.type.layout)) {
                dl_fail(err, DL_INTERNAL,
                        "variable '%s' is %s in graph '%s' and %s in an earlier one", v->name,
                        dl_type_text(t), m->graphs.at[i]->name, dl_type_text(&twin->value.type));
                end = -1;
            }
            v->value.offset = twin->value.offset;
        }
    }
    dl_arena_free(scratch);
    return end;
}

/* ---- transient values ---- */
typedef int order_fn(const void *a, const void *b);

static int by_value(const dl_storage *a, const dl_storage *b) {
    if (a->value == b->value) return (a->body != NULL) - (b->body != NULL);
    return (a->value->id > b->value->id) - (a->value->id < b->value->id);
}
static int by_size(const void *pa, const void *pb) {
    const dl_storage *a = *(dl_storage *const *)pa, *b = *(dl_storage *const *)pb;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->first != b->first ? a->first - b->first : by_value(a, b);
}
static int by_span(const void *pa, const void *pb) {
    const dl_storage *a = *(dl_storage *const *)pa, *b = *(dl_storage *const *)pb;
    int span_a = a->last - a->first, span_b = b->last - b->first;
    return span_a != span_b ? span_b - span_a : by_size(pa, pb);
}
static int by_time(const void *pa, const void *pb) {
    const dl_storage *a = *(dl_storage *const *)pa, *b = *(dl_storage *const *)pb;
    return a->first != b->first ? a->first - b->first : by_size(pa, pb);
}
static order_fn *const orders[] = {by_size, by_span, by_time};

static bool meet(const dl_storage *a, const dl_storage *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset from `base` on where `item` overlaps none of `placed` (sorted by offset)
 * that is alive at the same time. */
static int64_t find_place(const dl_storage *item, dl_storage *const *placed, int n, int64_t base) {
    int64_t at = dl_memory_align(base, item->bytes);
    for (int i = 0; i < n; i++) {
        const dl_storage *p = placed[i];
        if (!meet(item, p)) continue;
        if (p->offset >= at + item->bytes) break;
        int64_t end = p->offset + p->bytes;
        if (end > at) at = dl_memory_align(end, item->bytes);
    }
    return at;
}

/* Places all storages from `base` on, in the order of `compare`; returns the end. */
static int64_t pack(dl_liveness *live, order_fn *compare, int64_t base, dl_arena *arena) {
    dl_storage **todo = DL_NEWS(arena, dl_storage *, live->n),
               **placed = DL_NEWS(arena, dl_storage *, live->n);
    for (int i = 0; i < live->n; i++) todo[i] = &live->at[i];
    if (live->n) qsort(todo, (size_t)live->n, sizeof *todo, compare);
    int64_t end = base;
    for (int i = 0; i < live->n; i++) {
        dl_storage *s = todo[i];
        s->offset = find_place(s, placed, i, base);
        int at = i;
        for (; at > 0 && placed[at - 1]->offset > s->offset; at--) placed[at] = placed[at - 1];
        placed[at] = s;
        if (s->offset + s->bytes > end) end = s->offset + s->bytes;
    }
    return end;
}

static void pack_best(dl_liveness *live, int64_t base, dl_arena *arena) {
    int64_t least = 0, *offset = DL_NEWS(arena, int64_t, live->n);
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        int64_t end = pack(live, orders[k], base, arena);
        if (k && end >= least) continue;
        least = end;
        for (int i = 0; i < live->n; i++) offset[i] = live->at[i].offset;
    }
    for (int i = 0; i < live->n; i++) live->at[i].offset = offset[i];
}

static void reach(int64_t *end, const dl_value *v) {
    int64_t after = v->offset + dl_type_bytes(&v->type);
    if (after > *end) *end = after;
}

int64_t dl_module_arena_bytes(const dl_module *m) {
    int64_t bytes = 0;
    for (int i = 0; i < m->graphs.n; i++)
        if (m->graphs.at[i]->arena_bytes > bytes) bytes = m->graphs.at[i]->arena_bytes;
    return bytes;
}

/* ---- bodies ---- */

enum { MOST_LAUNCHES = 1 << 24 };

/* The launches of one run of the graph: a scan's are its body's, once for each step. */
static double launches_of(const dl_graph *g) {
    double launches = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        launches += n->body ? (double)dl_steps_of(n).steps * launches_of(n->body) : 1;
    }
    return launches;
}

static bool check_launches(const dl_graph *g, dl_error *err) {
    for (int i = 0; i < g->nodes.n && launches_of(g) > MOST_LAUNCHES; i++) {
        const dl_node *n = g->nodes.at[i];
        if (n->body)
            return dl_fail(
                err, DL_INPUT,
                "%s:%d:%d: error: the kernels of all steps of the scans of '%s' are %.0f "
                "launches, and a program has at most %d",
                n->loc.file ? n->loc.file : g->name, n->loc.line, n->loc.column, g->name,
                launches_of(g), (int)MOST_LAUNCHES);
    }
    return true;
}

/* Moves a body's own values, which it has placed from 0 on, to their place in the arena; the others
 * are where the first step finds them. */
static void place_body(const dl_node *n) {
    dl_graph *body = n->body;
    const dl_steps s = dl_steps_of(n);
    for (int i = 0; i < body->nodes.n; i++)
        for (int k = 0; k < body->nodes.at[i]->nout; k++)
            body->nodes.at[i]->out[k].offset += body->arena_at;
    for (int i = 0; i < body->vars.n; i++) {
        dl_var *v = body->vars.at[i];
        v->value.offset = n->in[i]->offset;
        if (v->role == DL_VAR_INPUT && s.reverse)
            v->value.offset += (s.steps - 1) * dl_scan_stride(&n->in[i]->type);
    }
    for (int i = 0; i < body->results.n; i++) {
        dl_result *r = &body->results.at[i];
        r->value->offset = n->out[i].offset;
        if (r->role == DL_RESULT_OUTPUT && s.reverse)
            r->value->offset += (s.steps - 1) * dl_scan_stride(&n->out[i].type);
    }
    for (int i = 0; i < body->nodes.n; i++) {
        const dl_node *inner = body->nodes.at[i];
        if (!inner->body) continue;
        inner->body->arena_at += body->arena_at;
        place_body(inner);
    }
}

/* Places the variables of all graphs and the values of this one. All graphs agree on variables,
 * whose offsets depend on the module alone. A body has no memory for its variables and results,
 * which are tensors of the graph around it. */
bool dl_pass_plan_memory(dl_graph *g, dl_pass_ctx *ctx) {
    if (!g->is_body && !check_launches(g, ctx->err)) return false;
    dl_arena *scratch = dl_arena_new(ctx->arena);
    dl_liveness live;
    int64_t base = g->is_body ? 0 : place_variables(g->module, ctx->err);
    bool fine = base >= 0 && dl_find_liveness(g, scratch, &live, ctx->err);
    if (fine) {
        pack_best(&live, base, scratch);
        g->arena_bytes = 0;
        for (int i = 0; i < live.n; i++) {
            const dl_storage *s = &live.at[i];
            if (!s->body) continue;
            s->body->arena_at = s->offset;
            if (s->offset + s->bytes > g->arena_bytes) g->arena_bytes = s->offset + s->bytes;
        }
        for (int i = 0; i < g->vars.n && !g->is_body; i++)
            reach(&g->arena_bytes, &g->vars.at[i]->value);
        for (int i = 0; i < g->nodes.n; i++)
            for (int k = 0; k < g->nodes.at[i]->nout; k++) {
                dl_value *v = &g->nodes.at[i]->out[k];
                const dl_var *in_place = live.var_of[v->id];
                if (g->is_body && (in_place || live.outside[v->id])) continue;
                v->offset = in_place ? in_place->value.offset
                                     : live.at[live.of[v->id]].offset + live.inner[v->id];
                reach(&g->arena_bytes, v);
            }
        for (int i = 0; i < g->nodes.n && !g->is_body; i++)
            if (g->nodes.at[i]->body) place_body(g->nodes.at[i]);
    }
    dl_arena_free(scratch);
    return fine;
}

/* Partial results of loop nests: partials.h. */
#include "compiler/cpu/partials.h"

#include "compiler/cpu/emit_cpu.h"

int64_t dl_emit_find_partial(dl_emitter *e, const dl_axis_list *order) {
    int64_t all = 0;
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        if (e->steps[number].kind != DL_K_REDUCE ||
            (e->now->row && e->steps[number].over == e->now->row))
            continue;
        dl_partial *p = &e->partial[number];
        p->by = dl_emit_list_axes(e, order, e->steps[number].axes);
        p->count = !p->by.n && e->mode == DL_LANES ? e->t->lanes : p->by.points;
        p->at = all, all += p->count;
    }
    return all;
}

int64_t dl_emit_limit_items(int64_t items, int64_t partial) {
    enum { MOST = 1 << 20, LEAST = 16 };
    int64_t most = dl_at_least(LEAST, partial ? MOST / partial : items);
    return dl_at_least(1, dl_at_most(items, most));
}

int64_t dl_emit_count_sums(const dl_emitter *e) {
    int64_t all = 0;
    for (int i = 0; i < e->now->run.n; i++) all += e->partial[e->now->run.at[i]].count;
    return all;
}

void dl_emit_sums(dl_emitter *e, const dl_sharing *s, dl_emitted *code) {
    int64_t all = dl_emit_count_sums(e);
    dl_putf(e->out,
            "    double *sums = (double *)(workspace + %lldL) + %s * %lldL;\n    (void)sums;\n",
            (long long)code->workspace, s->item, (long long)all);
    for (int i = 0; i < e->now->run.n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[e->now->run.at[i]];
        dl_partial *p = &e->partial[e->now->run.at[i]];
        if (!p->count) continue;
        p->base = code->workspace, p->items = s->items, p->all = all;
        const char *to = s->to ? s->to : dl_format(e->arena, "%lldL", (long long)p->count);
        dl_putf(e->out, "    for (long i = %s; i < %s; i++) ((%s *)sums)[%lldL + i] = %s;\n",
                s->from ? s->from : "0", to, dl_emit_partial_type(in), (long long)p->at,
                dl_emit_start(in));
    }
    code->workspace += all * s->items * (int64_t)sizeof(double);
}

void dl_emit_item_sums(dl_emitter *e, int64_t items, dl_emitted *code) {
    dl_emit_sums(e, &(dl_sharing){.items = items, .item = "item"}, code);
}

void dl_emit_nest_head(dl_emitter *e) {
    bool warm = !e->now->finalize && !dl_emit_is_affine(e, e->now);
    dl_emit_function(
        e, dl_format(e->arena, "%s%s", warm ? "WARM " : "", e->own_phase ? "" : "static "),
        e->name);
}

#include "runtime/comm/exchange.h"

#include <string.h>

#include "ir/base/hash.h"

/* A collective with its arguments, ready to be started. */
typedef struct {
    dlr_collective call;
    int64_t ticket;
} exchange;

struct dlr_exchange {
    dlr_comm *comm;
    exchange **programs;
};

const dlr_group *dlr_group_find(const dlr_ranks *ranks, const char *name) {
    for (int i = 0; i < ranks->n; i++)
        if (strcmp(ranks->groups[i].name, name) == 0) return &ranks->groups[i];
    return NULL;
}

/* ---- do the ranks' plans agree? ---- */

static uint64_t hash_sizes(const dl_plan_collective *c, uint64_t h) {
    const int64_t facts[] = {c->dtype, c->outer, c->size, c->inner};
    h = dl_hash(facts, sizeof facts, h);
    for (int m = 0; m < c->members.n; m++) h = dl_hash(&c->members.at[m].first, sizeof(int64_t), h);
    return h;
}

/* A digest of the plan. For every collective it covers the kind and the names of its members; for
 * those of this group (NULL: none) also the sizes and the members' offsets. */
static uint64_t hash_collectives(const dl_plan *plan, const char *group) {
    uint64_t h = 0;
    for (int i = 0; i < plan->programs.n; i++)
        for (int k = 0; k < plan->programs.at[i].collectives.n; k++) {
            const dl_plan_collective *c = &plan->programs.at[i].collectives.at[k];
            const int64_t facts[] = {i, c->op, c->ranks, c->ring_step, c->members.n};
            h = dl_hash_str(c->group, dl_hash(facts, sizeof facts, h));
            for (int m = 0; m < c->members.n; m++) h = dl_hash_str(c->members.at[m].of, h);
            if (group && strcmp(c->group, group) == 0) h = hash_sizes(c, h);
        }
    return h;
}

bool dlr_exchange_agree(const dl_plan *plan, const dlr_ranks *ranks, dl_error *err) {
    bool ok = dlr_comm_same(ranks->comm, 0, hash_collectives(plan, NULL), "the plan", err);
    /* other groups are checked in the following iterations */
    for (int i = 0; (ok || err->code == DL_INPUT) && i < ranks->n; i++) {
        const dlr_group *g = &ranks->groups[i];
        dl_error own = {0};
        if (g->size == 1) continue;
        bool same = dlr_comm_same(ranks->comm, g->number, hash_collectives(plan, g->name),
                                  "the plan", &own);
        if (!same && ok) *err = own;
        ok = ok && same;
    }
    return ok;
}

/* ---- running collectives ---- */

static dlr_collective_kind kind_of(dl_op op) {
    return op == DL_OP_all_gather   ? DLR_ALL_GATHER
           : op == DL_OP_all_reduce ? DLR_ALL_REDUCE
           : op == DL_OP_shift      ? DLR_SHIFT
                                    : /* reduce_scatter */ DLR_REDUCE_SCATTER;
}

/* The description for errors: "all_reduce of conv1.weight at models/unet.dl:3". */
static const char *words_of(dl_arena *arena, const dl_plan_collective *c) {
    dl_buf b = {0};
    dl_putf(&b, "%s of ", dl_ops[c->op].name);
    dl_plan_put_of(&b, c);
    dl_putf(&b, "%s%s", *c->where ? " at " : "", c->where);
    const char *words = dl_strdup(arena, b.at);
    dl_buf_free(&b);
    return words;
}

static bool prepare(dl_arena *arena, const dl_plan_collective *c, const dlr_ranks *ranks,
                    char *base, exchange *to, dl_error *err) {
    const dlr_group *group = dlr_group_find(ranks, c->group);
    if (!group || group->size != c->ranks)
        return dl_fail(
            err, DL_USAGE,
            "the plan has %d ranks in group %s, and this run %d: it was compiled for another world",
            c->ranks, c->group, group ? group->size : 0);
    if (c->op != DL_OP_all_reduce &&
        dl_ring_share(c->size, c->ranks, group->rank, c->ring_step).n != c->own)
        return dl_fail(
            err, DL_INPUT,
            "rank %d of group %s has %lld of %lld elements in the plan, which is another's",
            group->rank, c->group, (long long)c->own, (long long)c->size);
    to->call = (dlr_collective){.kind = kind_of(c->op),
                                .group = group->number,
                                .type = c->dtype,
                                .outer = c->outer,
                                .count = c->size,
                                .from = base + c->from,
                                .to = base + c->to,
                                .what = words_of(arena, c)};
    if (c->op == DL_OP_all_reduce) return true;
    int64_t *counts = DL_NEWS(arena, int64_t, c->ranks);
    for (int i = 0; i < c->ranks; i++)
        counts[i] = dl_ring_share(c->size, c->ranks, i, c->ring_step).n * c->inner;
    if (c->op == DL_OP_shift) { /* the rank's piece is contiguous, with all its blocks */
        for (int i = 0; i < c->ranks; i++) counts[i] *= c->outer;
        to->call.outer = 1;
    }
    to->call.counts = counts;
    return true;
}

dlr_exchange *dlr_exchange_open(dl_arena *arena, const dl_plan *plan, const dlr_ranks *ranks,
                                char *base, dl_error *err) {
    dlr_exchange *x = DL_NEW(arena, dlr_exchange);
    x->comm = ranks->comm;
    x->programs = DL_NEWS(arena, exchange *, plan->programs.n + 1);
    for (int i = 0; i < plan->programs.n; i++) {
        const dl_plan_program *p = &plan->programs.at[i];
        x->programs[i] = DL_NEWS(arena, exchange, p->collectives.n + 1);
        for (int k = 0; k < p->collectives.n; k++)
            if (!prepare(arena, &p->collectives.at[k], ranks, base, &x->programs[i][k], err))
                return NULL;
    }
    return x;
}

void dlr_exchange_start(dlr_exchange *x, int program, int number) {
    exchange *e = &x->programs[program][number];
    e->ticket = dlr_comm_start(x->comm, &e->call);
}

bool dlr_exchange_wait(dlr_exchange *x, int program, int number, dl_error *err) {
    return dlr_comm_wait(x->comm, x->programs[program][number].ticket, err);
}

bool dlr_exchange_done(dlr_exchange *x, int program, int number) {
    return dlr_comm_done(x->comm, x->programs[program][number].ticket);
}

bool dlr_exchange_enqueue(dlr_exchange *x, int program, int number, dlr_cu_stream stream,
                          dl_error *err) {
    return dlr_comm_enqueue(x->comm, &x->programs[program][number].call, stream, err);
}

bool dlr_exchange_reserve(dlr_exchange *x, const dl_plan *plan, dl_error *err) {
    bool ok = true;
    for (int i = 0; i < plan->programs.n; i++)
        for (int k = 0; ok && k < plan->programs.at[i].collectives.n; k++)
            ok = dlr_comm_reserve(x->comm, &x->programs[i][k].call, err);
    return ok;
}

const char *dlr_exchange_what(const dlr_exchange *x, int program, int number) {
    return x->programs[program][number].call.what;
}

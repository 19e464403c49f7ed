/* Ring attention of ranks that have all queries, each with a share of the keys: steps one after
 * another then see the last queries only. Graphs in the text of the IR, next to one rank's. */
#include "ir/text/text.h"
#include "passes/pass.h"
#include "tests/check.h"
#include "tests/unit/shard_models.h"
#include "verify/lockstep.h"

enum { RANKS = 4, TOKENS = 12, BATCH = 2, WIDTH = 4 };

/* Attention of TOKENS queries to a rank's keys, or (RANKS) to all. */
static dl_graph *attend(dl_arena *arena, int rank, dl_error *err) {
    const dl_share own = rank < RANKS ? dl_share_of(TOKENS, RANKS, rank) : (dl_share){0, TOKENS};
    const char *q = dl_format(arena, "f64[N=%d, T=%d, E=%d]", BATCH, TOKENS, WIDTH),
               *k = dl_format(arena, "f64[N=%d, S=%lld, E=%d]", BATCH, (long long)own.n, WIDTH);
    const char *part = rank == RANKS
                           ? ""
                           : dl_format(arena,
                                       ", first=[0, 0, %lld], whole=[2, %d, %d], group=cp, "
                                       "ranks=%d, rank=%d",
                                       (long long)own.first, TOKENS, TOKENS, RANKS, rank);
    const char *text = dl_format(
        arena,
        "graph @eval {\n  input $q = %%0 : %s\n  input $k = %%1 : %s\n  input $v = %%2 : %s\n"
        "  %%3, %%4 = flash_attention $q, $k, $v {rate=0, number=0, heads=2, causal=1%s} : %s, "
        "f64[N=%d, head=2, T=%d]\n  output \"y\" = %%3\n  output \"log\" = %%4\n}\n",
        q, k, k, part, q, BATCH, TOKENS);
    dl_module *m = dl_read_module(arena, text, strlen(text), "m.dlir", err);
    dl_pass_ctx ctx = {.arena = arena, .err = err};
    bool ok =
        m && dl_run_passes(m, "ring", &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES});
    return ok ? m->graphs.at[0] : NULL;
}

/* Smooth numbers of [BATCH, n, WIDTH], of which a rank has the tokens from `first` on. */
static void fill(const dl_graph *g, dl_interp *in, int64_t first) {
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        const int64_t n = v->type.axis[1].size, from = i ? first : 0;
        double *to = dl_interp_data(in, v);
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t k = 0; k < n * WIDTH; k++)
                *to++ = sin(1.7 * (double)((b * TOKENS + from) * WIDTH + k) + 3 * i);
    }
}

void check_ring_of_all_queries(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_ranks ranks;
    const dl_graph *graph[RANKS], *whole = attend(arena, RANKS, &err);
    dl_interp *in[RANKS], *one = whole ? dl_interp_new(whole, false) : NULL;
    CHECK(whole && dl_ranks_of(&ranks, RANKS, 1, RANKS, "tp-cp-dp", &err), "%s", err.message);
    if (!whole) return;
    fill(whole, one, 0);
    CHECK(dl_interp_run(one, &err), "%s", err.message);
    for (int r = 0; r < RANKS; r++) {
        graph[r] = attend(arena, r, &err);
        CHECK(graph[r], "%s", err.message);
        if (!graph[r]) return;
        in[r] = dl_interp_new(graph[r], false);
        fill(graph[r], in[r], dl_share_of(TOKENS, RANKS, r).first);
    }
    CHECK(dl_lockstep_run(&ranks, graph, in, NULL, &err), "%s", err.message);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < whole->results.n; i++) {
            const double *want = dl_interp_data(one, whole->results.at[i].value),
                         *got = dl_interp_data(in[r], graph[r]->results.at[i].value);
            const int64_t n = dl_type_count(&whole->results.at[i].value->type);
            double worst = 0;
            for (int64_t k = 0; k < n; k++) worst = dl_test_worse(worst, fabs(got[k] - want[k]));
            CHECK(worst <= 1e-12, "rank %d's %s is off by %g", r, whole->results.at[i].name, worst);
        }
    for (int r = 0; r < RANKS; r++) dl_interp_free(in[r]);
    dl_interp_free(one);
    dl_arena_free(arena);
}

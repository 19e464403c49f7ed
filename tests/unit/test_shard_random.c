/* Random graphs, of which random values are wanted in pieces, on several ranks in step next to one
 * rank: whatever is cut, losses and gradients stay what they were. */
#include <math.h>
#include <stdlib.h>

#include "ir/text/text.h"
#include "passes/parallel/shard.h"
#include "tests/check.h"
#include "tests/unit/random_graph.h"
#include "verify/lockstep.h"

enum { STEPS = 24 };

typedef struct {
    int compared, skipped, collectives, pieces;
} totals;

static dl_pass_ctx context(dl_module *m, dl_parallel p, dl_error *err) {
    return (dl_pass_ctx){
        .arena = m->arena, .parallel = p, .step_options.optimizer = DL_OPT_NONE, .err = err};
}

static dl_graph *begin(dl_arena *arena, uint64_t seed, dl_parallel p, const char *passes,
                       dl_error *err) {
    dl_module *m = dl_module_new(arena);
    random_counts counts = {0};
    dl_graph *g = random_graph(m, "train", seed, STEPS, DL_F64, &counts);
    dl_pass_ctx ctx = context(m, p, err);
    return dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}) ? g
                                                                                             : NULL;
}

/* Every rank draws the same: an axis of every third value, at times in parts, where there are
 * enough elements for all. */
static dl_shard_specs draw_wants(const dl_graph *g, dl_parallel p, uint64_t seed) {
    rng r = {seed * 31 + 7};
    dl_shard_specs w;
    for (int group = 0; group < DL_NSHARDS; group++) {
        w.along[group] = DL_NEWS(g->module->arena, dl_sharding, g->next_id + 1);
        for (int i = 0; i < g->nodes.n + g->vars.n; i++) {
            const dl_value *v =
                i < g->vars.n ? &g->vars.at[i]->value : &g->nodes.at[i - g->vars.n]->out[0];
            if (!v->type.rank || !one_in(&r, 3)) continue;
            int axis = below(&r, v->type.rank), parts = 1 + one_in(&r, 3) * below(&r, 3),
                ranks = dl_shard_ranks(&p, group);
            dl_axis a = v->type.axis[axis];
            if (a.size % parts || (v->var && axis) || v->type.rank == DL_MAX_RANK) parts = 1;
            if (*a.name && a.size / parts >= ranks && ranks > 1)
                w.along[group][v->id] = (dl_sharding){a.name, parts, ranks};
        }
    }
    return w;
}

/* Numbers by the variable's name and the element, the same on all ranks. */
static void fill(const dl_graph *g, dl_interp *in) {
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (v->role == DL_VAR_TABLE) continue;
        dl_type t = dl_piece_whole(v->value.type, &v->piece);
        int64_t n = dl_type_count(&t);
        double *whole = dl_calloc((size_t)n + 1, sizeof *whole);
        rng r = {17};
        for (const char *c = v->name; *c; c++) r.state = r.state * 131 + (uint64_t)*c;
        for (int64_t k = 0; k < n; k++) {
            double x = uniform(&r, -1.5, 1.5);
            whole[k] = dl_dtype_is_float(t.dtype) ? x : t.dtype == DL_BOOL ? x > 0 : floor(3 * x);
        }
        dl_lockstep_cut(v, whole, dl_interp_data(in, &v->value));
        free(whole);
    }
}

static bool run(const dl_graph *g, dl_interp *in, dl_error *err) {
    for (int i = 0; i < g->nodes.n; i++)
        if (!dl_interp_node(in, g->nodes.at[i], err)) return false;
    return true;
}

/* How far a result moves when every value is moved by its last digits: beyond this, rounding
 * decides. */
static double sensitivity(dl_interp *plain, dl_interp *shaken, const dl_value *v) {
    const double *a = dl_interp_data(plain, v), *b = dl_interp_data(shaken, v);
    double most = 0;
    for (int64_t i = 0; i < dl_type_count(&v->type); i++)
        most = dl_test_worse(most, fabs(a[i] - b[i]));
    return most;
}

static bool differs(double want, double got, double allowed) {
    if (isnan(want) || isnan(got)) return isnan(want) != isnan(got);
    if (isinf(want) || isinf(got)) return want != got;
    return fabs(want - got) > allowed;
}

static void check_seed(uint64_t seed, int tp, int cp, totals *all) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_ranks ranks;
    int world = tp * cp;
    CHECK(dl_ranks_of(&ranks, world, tp, cp, "cp-tp-dp", &err), "%s", err.message);
    dl_graph *whole = begin(arena, seed, (dl_parallel){0}, "lower,simplify,autodiff", &err);
    CHECK(whole, "seed %llu: %s", (unsigned long long)seed, err.message);
    dl_interp *one = dl_interp_new(whole, false), *shaken = dl_interp_new(whole, false);
    dl_interp **in = DL_NEWS(arena, dl_interp *, world);
    const dl_graph **graph = DL_NEWS(arena, const dl_graph *, world);
    dl_interp_shake(shaken, 1e-13, seed);
    fill(whole, one), fill(whole, shaken);
    bool ok = run(whole, one, &err) && run(whole, shaken, &err);
    CHECK(ok, "%s", err.message);
    for (int r = 0; r < world && ok; r++) {
        int at[DL_NRANK_PARTS];
        dl_ranks_place(&ranks, r, at);
        dl_parallel p = {.tp = tp,
                         .cp = cp,
                         .tp_rank = at[DL_RANKS_TP],
                         .cp_rank = at[DL_RANKS_CP],
                         .ring = seed % 2};
        dl_graph *g = begin(arena, seed, (dl_parallel){0}, "lower,simplify", &err);
        dl_pass_ctx ctx = context(g->module, p, &err);
        dl_shard_specs wants = draw_wants(g, p, seed);
        dl_shard_module(g->module, &ctx, &wants);
        ok = dl_run_passes(g->module, "autodiff,ring,data_parallel,simplify", &ctx,
                           (dl_pass_options){.validate = DL_VALIDATE_PASSES});
        CHECK(ok, "seed %llu, tp %d, cp %d: %s", (unsigned long long)seed, tp, cp, err.message);
        graph[r] = g, in[r] = dl_interp_new(g, false);
        fill(g, in[r]);
        for (int i = 0; i < g->vars.n; i++) all->pieces += g->vars.at[i]->piece.n > 0;
    }
    int64_t met = 0;
    ok = ok && dl_lockstep_run(&ranks, graph, in, &met, &err);
    CHECK(ok, "seed %llu, tp %d, cp %d: %s", (unsigned long long)seed, tp, cp, err.message);
    all->collectives += (int)met;
    for (int i = 0; ok && i < whole->results.n; i++) {
        const dl_result *a = &whole->results.at[i];
        const double *want = dl_interp_data(one, a->value);
        int64_t n = dl_type_count(&a->value->type), wrong = 0;
        double size = 0, moved = sensitivity(one, shaken, a->value);
        for (int64_t k = 0; k < n; k++)
            if (isfinite(want[k])) size = fmax(size, fabs(want[k]));
        if (!(moved <= 1e-6 * (1 + size))) { /* a kink, a tie, or nothing but rounding */
            all->skipped++;
            continue;
        }
        for (int r = 0; r < world; r++) {
            const dl_result *b = dl_graph_find_result(graph[r], a->role, a->name);
            CHECK(b, "seed %llu: no %s", (unsigned long long)seed, a->name);
            if (!b) continue;
            double *piece = DL_NEWS(arena, double, n + 1);
            if (b->var)
                dl_lockstep_cut(b->var, want, piece);
            else
                memcpy(piece, want, sizeof *want * (size_t)n);
            const double *got = dl_interp_data(in[r], b->value);
            for (int64_t k = 0; k < dl_type_count(&b->value->type); k++)
                wrong += differs(piece[k], got[k], 1e-9 * (1 + size) + 1e3 * moved);
            all->compared++;
        }
        CHECK(!wrong, "seed %llu, tp %d, cp %d: %s %s: %lld elements", (unsigned long long)seed, tp,
              cp, dl_result_roles[a->role], a->name, (long long)wrong);
    }
    for (int r = 0; r < world; r++) dl_interp_free(in[r]);
    dl_interp_free(one), dl_interp_free(shaken);
    dl_arena_free(arena);
}

int main(int argc, char **argv) {
    totals all = {0};
    int from = argc > 1 ? atoi(argv[1]) : 1, last = argc > 2 ? atoi(argv[2]) : 200;
    for (int seed = from; seed <= last; seed++) {
        check_seed((uint64_t)seed, 2, 1, &all);
        check_seed((uint64_t)seed, 1, 3, &all);
        check_seed((uint64_t)seed, 2, 2, &all);
    }
    CHECK(argc > 1 || (all.compared > 2000 && all.collectives > 2000 && all.pieces > 100 &&
                       all.skipped < all.compared / 5),
          "%d results compared, %d left out, %d collectives, %d pieces", all.compared, all.skipped,
          all.collectives, all.pieces);
    printf("%d results compared, %d left out, %d collectives, %d pieces\n", all.compared,
           all.skipped, all.collectives, all.pieces);
    return dl_test_end();
}

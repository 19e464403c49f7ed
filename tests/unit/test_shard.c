/* Tensor and context parallelism, and state in shares: all ranks' graphs, run in step, next to
 * the graph of one that is whole; in double precision, forward and backward, after all passes. */
#include "tests/unit/shard_models.h"

#include "frontends/dl/front.h"
#include "ir/base/hash.h"
#include "ir/base/philox.h"
#include "tests/check.h"
#include "verify/lockstep.h"

static dl_module *build(dl_arena *arena, const model *of, int64_t batch) {
    char *text = dl_strdup(arena, of->text), *rate = strstr(text, "drop=0.0");
    if (of->drops) rate[strlen("drop=0.")] = '3';
    dl_source *source = dl_source_new(arena, "m.dl", text, strlen(text));
    dl_diags *diags = dl_diags_new(arena, source);
    dl_model *m = dl_model_parse(arena, source, diags);
    dl_axis_size sizes[] = {{"N", batch}};
    dl_model_config config = {.sizes = sizes, .nsizes = 1};
    dl_module *module = m ? dl_model_build(arena, m, &config, diags) : NULL;
    CHECK(module, "%s: %s", of->name, diags->list.n ? diags->list.at[0]->message : "");
    return module;
}

dl_graph *pass(dl_arena *arena, const model *of, int64_t batch, dl_parallel parallel,
               const char *which, const char *passes, dl_error *err) {
    dl_module *m = build(arena, of, batch);
    dl_pass_ctx ctx = {.arena = arena,
                       .parallel = parallel,
                       .weights = {.kind = DL_PANEL, .width = 8},
                       .step_options.low = of->low,
                       .err = err};
    ctx.step_options.optimizer = of->steps ? DL_OPT_adam : DL_OPT_NONE;
    ctx.step_options.clip = ctx.step_options.norms = ctx.keep_gradients = of->steps;
    if (!m || !dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}))
        return NULL;
    return dl_module_graph(m, which);
}

/* Numbers of a variable of this name: smooth, different everywhere. */
static double number(const char *name, int64_t i) {
    return 0.1 + sin((double)(dl_hash_str(name, 0) % 1000) + 1.7 * (double)i) * 0.7;
}

static double *whole_numbers(dl_arena *arena, const dl_var *v, int64_t batch) {
    dl_type t = dl_piece_whole(v->value.type, &v->piece);
    bool fed = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET;
    if (fed) t.axis[0].size = batch;
    int64_t n = dl_type_count(&t);
    double *numbers = DL_NEWS(arena, double, n + 1);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = fed || v->role == DL_VAR_PARAM     ? number(v->name, i)
                     : v->role == DL_VAR_HYPER          ? v->init.a
                     : strncmp(v->name, "exp_", 4) == 0 ? 0.1 + fabs(number(v->name, i))
                                                        : 3;
    return numbers;
}

typedef struct {
    const model *of;
    int dp, tp, cp;
    const char *passes;
    bool zero;        /* the optimiser's state in shares */
    bool ring;        /* keys and values go round the context parallel ranks */
    unsigned buckets; /* a row of bucket_bytes; 0: each in turn */
} layout;

/* The bytes of the first bucket, and of the others. */
enum { NSIZES = 7 };
static const int64_t bucket_bytes[NSIZES][2] = {
    {64, 512}, {128, 128}, {400, 400}, {1024, 1024}, {4096, 4096}, {100000, 100000}, {0, 0}};

static const char whole_passes[] = "amp,lower,simplify,autodiff,optimizer,simplify";

/* One rank's variables. */
static void fill(dl_arena *arena, const dl_graph *g, dl_interp *in, int64_t batch, int dp,
                 int dp_rank) {
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (v->role == DL_VAR_TABLE) continue;
        double *numbers = whole_numbers(arena, v, batch), *to = dl_interp_data(in, &v->value);
        bool fed = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET;
        int64_t count = dl_type_count(&v->value.type);
        if (strcmp(v->name, DL_RANDOM_RANK) == 0)
            *to = dp_rank;
        else if (fed)
            memcpy(to, numbers + dp_rank * count, sizeof *to * (size_t)count);
        else
            dl_lockstep_cut(v, numbers, to);
        CHECK(!fed || count * dp == batch * (count / v->value.type.axis[0].size),
              "shares of the batch");
    }
}

static double distance(const double *a, const double *b, int64_t n, double *size) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        worst = dl_test_worse(worst, fabs(a[i] - b[i]));
        *size = fmax(*size, fabs(a[i]));
    }
    return worst;
}

static int place_of(const dl_ranks *ranks, const char *group, int rank) {
    int members[64], place = 0;
    dl_ranks_members(ranks, group, rank, members);
    while (members[place] != rank) place++;
    return place;
}

/* A share has every second layout, in turn, and all that name their buckets; sanitizers a few. */
static bool takes(const layout *l, unsigned number) {
    if (dl_test_share() == 1 || !dl_test_fast()) return dl_test_takes(number);
    return l->buckets || number * UINT32_C(0x9e3779b9) >> 31 == dl_test_draw() % 2;
}

/* All results of both agree. */
static void compare(const layout *l, const char *which) {
    enum { BATCH = 4 };
    static unsigned number;
    if (!takes(l, number++)) return;
    const int64_t *buckets =
        bucket_bytes[(l->buckets ? l->buckets : number + dl_test_draw()) % NSIZES];
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_ranks ranks;
    int world = l->dp * l->tp * l->cp, compared = 0, pieces = 0;
    const char *what =
        dl_format(arena, "%s %s %dx%dx%d, buckets of %d bytes%s%s", l->of->name, which, l->dp,
                  l->tp, l->cp, (int)buckets[1], l->of->low == DL_BF16 ? " bf16" : "",
                  l->zero   ? " in shares"
                  : l->ring ? " round a ring"
                            : "");
    CHECK(dl_ranks_of(&ranks, world, l->tp, l->cp, "tp-cp-dp", &err), "%s", err.message);
    dl_graph *whole = pass(arena, l->of, BATCH, (dl_parallel){0}, which, whole_passes, &err);
    CHECK(whole, "%s: %s", what, err.message);
    dl_interp *one = dl_interp_new(whole, false), **in = DL_NEWS(arena, dl_interp *, world);
    const dl_graph **graph = DL_NEWS(arena, const dl_graph *, world);
    fill(arena, whole, one, BATCH, 1, 0);
    for (int i = 0; i < whole->nodes.n; i++)
        CHECK(dl_interp_node(one, whole->nodes.at[i], &err), "%s", err.message);
    bool ok = true;
    for (int r = 0; r < world && ok; r++) {
        int at[DL_NRANK_PARTS];
        dl_ranks_place(&ranks, r, at);
        dl_parallel p = {.dp = l->dp,
                         .tp = l->tp,
                         .cp = l->cp,
                         .dp_rank = at[DL_RANKS_DP],
                         .tp_rank = at[DL_RANKS_TP],
                         .cp_rank = at[DL_RANKS_CP],
                         .zero = l->zero,
                         .ring = l->ring,
                         .first_bucket_bytes = buckets[0],
                         .bucket_bytes = buckets[1]};
        p.sum_rank = place_of(&ranks, dl_gradient_group(&p), r);
        graph[r] = pass(arena, l->of, BATCH / l->dp, p, which, l->passes, &err);
        CHECK(graph[r], "%s: %s", what, err.message);
        ok = graph[r] != NULL;
        if (!ok) break;
        in[r] = dl_interp_new(graph[r], false);
        fill(arena, graph[r], in[r], BATCH, l->dp, at[DL_RANKS_DP]);
    }
    int64_t collectives = 0;
    ok = ok && dl_lockstep_run(&ranks, graph, in, &collectives, &err);
    CHECK(ok, "%s: %s", what, err.message);
    for (int i = 0; ok && i < whole->results.n; i++) {
        const dl_result *a = &whole->results.at[i];
        int64_t n = dl_type_count(&a->value->type);
        for (int r = 0; r < world; r++) {
            const dl_result *b = dl_graph_find_result(graph[r], a->role, a->name);
            CHECK(b, "%s: no %s", what, a->name);
            if (!b) continue;
            double size = 0, off;
            const double *want = dl_interp_data(one, a->value),
                         *got = dl_interp_data(in[r], b->value);
            int64_t own = dl_type_count(&b->value->type);
            if (b->var) {
                double *piece = DL_NEWS(arena, double, n + 1);
                dl_lockstep_cut(b->var, want, piece);
                pieces += b->var->piece.n > 0;
                off = distance(piece, got, own, &size);
            } else { /* of samples: the rank's own */
                int at[DL_NRANK_PARTS];
                dl_ranks_place(&ranks, r, at);
                off = distance(want + (own < n ? at[DL_RANKS_DP] * own : 0), got, own, &size);
            }
            CHECK(off <= 1e-10 * fmax(size, 0.2), "%s: rank %d's %s %s is off by %g of %g", what, r,
                  dl_result_roles[a->role], a->name, off, size);
            compared++;
        }
    }
    CHECK(compared > 0, "%s: nothing compared", what);
    CHECK(collectives > 0, "%s: no collectives", what);
    CHECK((l->tp == 1 && !l->zero) || strcmp(which, "train") || pieces > 0,
          "%s: nothing is in pieces", what);
    for (int r = 0; r < world; r++) dl_interp_free(in[r]);
    dl_interp_free(one);
    dl_arena_free(arena);
}

int main(void) {
    check_members();
    static const int cases[][3] = {{1, 2, 1}, {1, 4, 1}, {1, 1, 2}, {1, 2, 2},
                                   {1, 1, 4}, {1, 1, 3}, {2, 2, 1}, {2, 2, 3}};
    static const model mlps = {mlp, "mlp", DL_F32, false, false},
                       vits = {vit, "vit", DL_F32, false, false},
                       half = {vit, "vit", DL_BF16, false, false},
                       steps = {vit, "vit's steps", DL_F32, true, false},
                       scaled = {vit, "vit's scaled steps", DL_F16, true, false},
                       others = {other, "other", DL_F32, true, false},
                       drops = {vit, "vit with dropout", DL_F32, false, true},
                       parts = {fused, "fused", DL_F32, true, false},
                       parts_drop = {fused, "fused with dropout", DL_F32, false, true},
                       small = {mlp, "mlp's steps", DL_F32, true, false},
                       backs = {back, "who looks back", DL_F32, true, false},
                       backs_half = {back, "who looks back", DL_BF16, false, false},
                       backs_drop = {back, "who looks back and drops", DL_F32, false, true};
    static const model *const models[] = {&mlps,  &vits,   &half,  &steps,     &scaled,
                                          &drops, &others, &parts, &parts_drop};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            layout l = {models[m], cases[i][0], cases[i][1], cases[i][2], .passes = dl_pipeline};
            if ((l.cp > 1 && models[m] == &mlps) || (l.tp > 2 && models[m] == &others)) continue;
            compare(&l, "train");
            compare(&l, "eval");
        }
    /* state in shares: of two and four ranks, more than some axes have elements, next to pieces and
     * tokens */
    static const int shares[][3] = {{2, 1, 1}, {4, 1, 1}, {1, 1, 2}, {2, 1, 3}, {2, 2, 1},
                                    {4, 2, 1}, {2, 2, 2}, {1, 4, 1}, {1, 2, 2}};
    static const model *const stepping[] = {&steps, &scaled, &small, &parts};
    for (size_t m = 0; m < sizeof stepping / sizeof *stepping; m++)
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
            if (shares[i][2] == 1 || stepping[m] != &small)
                compare(&(layout){stepping[m], shares[i][0], shares[i][1], shares[i][2],
                                  .passes = dl_pipeline, .zero = true},
                        "train");
    /* sums of small numbers that later sums wait for: the loss scale's, a norm's, the loss itself
     */
    for (unsigned size = 1; size <= NSIZES; size++)
        compare(&(layout){&scaled, 4, 2, 1, .passes = dl_pipeline, .zero = true, .buckets = size},
                "train");
    /* keys and values round a ring: several turns, uneven, next to tensors, samples and shares */
    static const int rings[][3] = {{1, 1, 2}, {1, 1, 4}, {1, 1, 5}, {1, 2, 3}, {2, 2, 2}};
    static const model *const round[] = {&vits, &half, &steps, &scaled, &drops};
    for (size_t m = 0; m < sizeof round / sizeof *round; m++)
        for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
            layout l = {round[m],    rings[i][0],           rings[i][1],
                        rings[i][2], .passes = dl_pipeline, .zero = i == 0 && round[m]->steps,
                        .ring = true};
            compare(&l, "train");
            compare(&l, "eval");
        }
    /* who looks back sees some turns' keys in whole, some in part, some not at all; uneven, of
     * other lengths */
    static const int after[][3] = {{1, 1, 2}, {1, 1, 3}, {2, 1, 4},
                                   {1, 1, 5}, {1, 2, 3}, {1, 1, 7}};
    static const model *const looking[] = {&backs, &backs_half, &backs_drop, &others};
    for (size_t m = 0; m < sizeof looking / sizeof *looking; m++)
        for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
            layout l = {looking[m],  after[i][0],           after[i][1],
                        after[i][2], .passes = dl_pipeline, .zero = i == 0 && looking[m]->steps,
                        .ring = true};
            if (l.cp > 4 && looking[m] == &others)
                continue; /* a fifth of w's gradient is rounded to f32 */
            compare(&l, "train");
            compare(&l, "eval");
        }
    check_ring(&vits, 3);
    check_looks(&backs);
    check_ring_of_all_queries();
    check_counts(&mlps, 2, 1, 1, 0, 0); /* the input has no gradient; c is whole */
    check_counts(&vits, 2, 1, 8, 0, 0);
    check_counts(&half, 2, 1, 8, 0, 0);
    check_counts(&vits, 1, 2, 0, 5, 4);
    check_counts(&vits, 2, 3, 10, 4,
                 4); /* tokens are rows of the image: so are what the loss's norms add up */
    check_counts(&parts_drop, 2, 1, 5 + 5, 0,
                 0); /* a block forward and back: nothing between is whole */
    check_faults();
    check_text(&small);
    check_parts(&parts);
    return dl_test_end();
}

/* Tensor and context parallelism, and state in shares: the graphs of all ranks, run in step, beside
 * the graph of one that is whole; in double precision, forward and backward, behind all passes. */
#include <math.h>
#include <stdlib.h>

#include "frontends/dl/front.h"
#include "ir/base/hash.h"
#include "ir/base/philox.h"
#include "ir/text/text.h"
#include "passes/pass.h"
#include "tests/check.h"
#include "verify/lockstep.h"

static const char mlp[] =
    "model M():\n    input x: f32[N, E=6]\n    target t: f32[N, E=4]\n"
    "    y = x |> linear(8) @a |> gelu |> linear(12) @b |> relu |> linear(4) @c\n    output y\n"
    "    loss = mean((y - t)**2)\n";

static const char vit[] =
    "module MLP(hidden, drop)(x: [N, T, E]):\n"
    "    return x |> linear(hidden) @fc1 |> gelu |> dropout(drop) |> linear(E) @fc2 |> "
    "dropout(drop)\n"
    "module Attention(heads, drop)(x: [N, T, E]):\n"
    "    q = x |> linear(E)\n    k = x |> linear(E)\n    v = x |> linear(E)\n"
    "    return attention(q, k, v, heads, dropout=drop) |> linear(E) @proj |> dropout(drop)\n"
    "module Block(heads, drop)(x: [N, T, E]):\n"
    "    x = x + (x |> layer_norm(1e-6) @norm1 |> Attention(heads, drop) @attn)\n"
    "    return x + (x |> layer_norm(1e-6) @norm2 |> MLP(2*E, drop) @mlp)\n"
    "model ViT(drop=0.0):\n    input  x: f32[N, C=2, H=6, W=10]\n    target t: f32[N, C=2, H, W]\n"
    "    param pos: [1, T=15, E=8] ~ normal(0, 0.02)\n"
    "    z = x |> conv(8, 2, stride=2) @patch |> rearrange(\"n c h w -> n (h w) c\") as [N, T, E]\n"
    "    z = dropout(z + pos, drop)\n"
    "    for i in range(2): z = z |> Block(4, drop) @blocks.{i}\n"
    "    y = z |> layer_norm(1e-6) @norm |> linear(8, bias=false) @head\n"
    "          |> rearrange(\"n (h w) (p q c) -> n c (h p) (w q)\", h=3, p=2, q=2) as [N, C, H, "
    "W]\n"
    "    output y\n    loss = mean(norm(y - t, over=[C,H,W]) / norm(t, over=[C,H,W]))\n"
    "    metric \"m\" = mean(sqrt(mean((y - t)[C=0]**2, over=[H,W])))\n";

/* Other names and shapes: keys of another length, gates, a weight read twice, a norm behind the
 * queries, products that nothing pairs, an average over the tokens, and who only looks back. */
static const char other[] =
    "model Other():\n    input a: f32[N, S=7, F=6]\n    input b: f32[N, R=5, F=6]\n    target t: "
    "f32[N, "
    "K=3]\n"
    "    param w: [F=6, F2=6] ~ normal(0, 0.4)\n"
    "    u = a |> linear(8) @in1 |> layer_norm(1e-5) @n1\n"
    "    v = b |> linear(8) @in2\n"
    "    q = u |> linear(8) @wide |> layer_norm(1e-5) @n2\n"
    "    h = attention(q, v |> linear(8) @ka, v |> linear(8) @va, 4, causal=true) |> tanh |> "
    "linear(8) "
    "@back\n"
    "    h = h + u\n"
    "    g = silu(h |> linear(12) @gate) * (h |> linear(12) @up)\n"
    "    h = h + (g |> linear(8) @down)\n"
    "    h = h + (attention(h |> linear(8) @q2, h |> linear(8) @k2, h |> linear(8) @v2, 2, "
    "causal=true) "
    "|> linear(8) @p2)\n"
    "    y = mean(h, over=S) |> linear(3) @out as [N, K]\n    output y\n"
    "    loss = mean((y - t)**2) + 0.01 * mean(w**2) + 0.1 * mean(mean(h**2, over=[S]))\n";

/* One product makes queries, keys and values, and is cut in three parts: by slices, by a
 * rearrangement (and one that names the heads), head by head, where it is cut as it lies; and one
 * makes gates and what they let through. */
static const char fused[] =
    "module MLP(hidden, drop)(x: [N, T, E]):\n"
    "    u = x |> linear(2*hidden) @fc1 as [N, T, G]\n"
    "    return silu(u[G=:hidden]) * u[G=hidden:] |> dropout(drop) |> linear(8) @fc2 as [N, T, E]\n"
    "module Slices(heads)(x: [N, T, E]):\n"
    "    u = x |> linear(3*E) @qkv as [N, T, F]\n"
    "    return attention(u[F=:8] as [N, T, E], u[F=8:16] as [N, T, E], u[F=16:] as [N, T, E], "
    "heads) "
    "|> linear(E) @proj\n"
    "module Turned(heads)(x: [N, T, E]):\n"
    "    u = x |> linear(3*E, bias=false) @qkv |> rearrange(\"n t (k e) -> k n t e\", k=3) as [K, "
    "N, T, E]\n"
    "    return attention(u[K=0], u[K=1], u[K=2], heads) |> linear(E) @proj\n"
    "module Named(heads)(x: [N, T, E]):\n"
    "    u = x |> linear(3*E) @qkv |> rearrange(\"n t (k h d) -> k n t (h d)\", k=3, h=heads) as "
    "[K, N, T, "
    "E]\n"
    "    return attention(u[K=0], u[K=1], u[K=2], heads) |> linear(E) @proj\n"
    "module ByHead(heads)(x: [N, T, E]):\n"
    "    u = x |> linear(3*E) @qkv |> rearrange(\"n t (h k d) -> k n t (h d)\", k=3, h=heads) as "
    "[K, N, T, "
    "E]\n"
    "    return attention(u[K=0], u[K=1], u[K=2], heads) |> linear(E) @proj\n"
    "model Fused(drop=0.0):\n    input  x: f32[N, T=7, E=8]\n    target t: f32[N, T, E]\n    z = "
    "x\n"
    "    z = z + (z |> layer_norm(1e-6) @n1 |> Slices(4) @a1)\n"
    "    z = z + (z |> layer_norm(1e-6) @n2 |> Turned(4) @a2)\n"
    "    z = z + (z |> layer_norm(1e-6) @n3 |> Named(4) @a3)\n"
    "    z = z + (z |> layer_norm(1e-6) @n4 |> ByHead(4) @a4)\n"
    "    z = z + (z |> layer_norm(1e-6) @n5 |> MLP(12, drop) @mlp)\n"
    "    output z\n    loss = mean((z - t)**2)\n";

/* Who only looks back, at keys of its own length and of another: some queries see none of those
 * that are there. */
static const char back[] =
    "model Back(drop=0.0):\n    input a: f32[N, S=11, F=6]\n    input b: f32[N, R=7, F=6]\n"
    "    target t: f32[N, S, K=3]\n    target s: f32[N, R, K]\n"
    "    u = a |> linear(8) @in1\n    v = b |> linear(8) @in2\n"
    "    u = u + attention(u |> linear(8) @q1, u |> linear(8) @k1, u |> linear(8) @v1, 4, "
    "dropout=drop, "
    "causal=true)\n"
    "    v = v + attention(v |> linear(8) @q2, v |> linear(8) @k2, v |> linear(8) @v2, 2, "
    "dropout=drop, "
    "causal=true)\n"
    "    w = u + attention(u |> linear(8) @q3, v |> linear(8) @k3, v |> linear(8) @v3, 2, "
    "dropout=drop, "
    "causal=true)\n"
    "    z = v + attention(v |> linear(8) @q4, u |> linear(8) @k4, u |> linear(8) @v4, 4, "
    "dropout=drop, "
    "causal=true)\n"
    "    y = w |> tanh |> linear(3) @out1 as [N, S, K]\n    x = z |> tanh |> linear(3) @out2 as "
    "[N, R, K]\n"
    "    output y\n    loss = mean((y - t)**2) + mean((x - s)**2)\n";

typedef struct {
    const char *text, *name;
    dl_dtype low;
    bool steps; /* the optimiser, with clipped gradients and norms */
    bool drops;
} model;

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

static dl_graph *pass(dl_arena *arena, const model *of, int64_t batch, dl_parallel parallel,
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
        if (!(fabs(a[i] - b[i]) <= worst)) worst = fabs(a[i] - b[i]);
        *size = fmax(*size, fabs(a[i]));
    }
    return worst;
}

/* The collectives of a rank's training step, as Megatron has them: with tensor parallelism two sums
 * a block forward (behind proj and fc2) and two backward (in front of q, k and v together, and of
 * fc1); with context parallelism keys and values gathered, and the tokens once at the end, whose
 * gradients are scattered and sliced. */
static void check_counts(const model *of, int tp, int cp, int reduced, int gathered,
                         int scattered) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_graph *g = pass(arena, of, 2, (dl_parallel){.tp = tp, .cp = cp}, "train",
                       "amp,lower,simplify,shard,autodiff,simplify", &err);
    int found[DL_NOPS] = {0};
    CHECK(g, "%s", err.message);
    for (int i = 0; g && i < g->nodes.n; i++) found[g->nodes.at[i]->op]++;
    CHECK(found[DL_OP_all_reduce] == reduced && found[DL_OP_all_gather] == gathered &&
              found[DL_OP_reduce_scatter] == scattered,
          "%s, tp %d, cp %d: %d all_reduces, %d all_gathers, %d reduce_scatters", of->name, tp, cp,
          found[DL_OP_all_reduce], found[DL_OP_all_gather], found[DL_OP_reduce_scatter]);
    CHECK(!found[DL_OP_enter] && !found[DL_OP_scale_gradient], "%s: ops of the way back are left",
          of->name);
    dl_arena_free(arena);
}

/* Round a ring nothing of attention is gathered: of each block's keys and values all turns but the
 * last are given on, there and back, and their gradients in each. The way back has rounds of its
 * own. */
static void check_ring(const model *of, int cp) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_graph *g = pass(arena, of, 2, (dl_parallel){.cp = cp, .ring = 1}, "train",
                       "amp,lower,simplify,shard,autodiff,ring,simplify", &err);
    int found[DL_NOPS] = {0}, blocks = 2, waiting = 0;
    CHECK(g, "%s", err.message);
    for (int i = 0; g && i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        found[n->op]++, waiting += n->op == DL_OP_shift && n->nin > 2;
    }
    CHECK(found[DL_OP_shift] == blocks * (2 * 2 * (cp - 1) + 2 * cp), "%d shifts",
          found[DL_OP_shift]);
    CHECK(waiting == blocks * (2 * (cp - 1) + 2 * (cp - 1)), "%d wait for gradients", waiting);
    CHECK(found[DL_OP_flash_attention] == blocks * cp &&
              found[DL_OP_flash_attention_grad] == blocks * cp,
          "%d and %d templates", found[DL_OP_flash_attention], found[DL_OP_flash_attention_grad]);
    CHECK(found[DL_OP_all_gather] == 1 && !found[DL_OP_reduce_scatter], "%d gathered, %d scattered",
          found[DL_OP_all_gather], found[DL_OP_reduce_scatter]);
    dl_arena_free(arena);
}

/* Who looks back does nothing in a turn in which it sees no key, but to give on. Of 11 and 7 tokens
 * a rank has the first 6 and 4: of itself it sees those; of the other length 4 tokens and, by the
 * last two of its own, 3 more; or 6. The other sees all turns. */
static void check_looks(const model *of) {
    static const int seen[] = {1 + 1 + 2 + 1, 2 + 2 + 2 + 2};
    for (int rank = 0; rank < 2; rank++) {
        dl_arena *arena = dl_arena_new(NULL);
        dl_error err = {0};
        dl_graph *g = pass(arena, of, 2, (dl_parallel){.cp = 2, .cp_rank = rank, .ring = 1},
                           "train", "amp,lower,simplify,shard,autodiff,ring,simplify", &err);
        int found[DL_NOPS] = {0};
        CHECK(g, "%s", err.message);
        for (int i = 0; g && i < g->nodes.n; i++) found[g->nodes.at[i]->op]++;
        CHECK(found[DL_OP_flash_attention] == seen[rank] &&
                  found[DL_OP_flash_attention_grad] == seen[rank],
              "rank %d: %d and %d templates", rank, found[DL_OP_flash_attention],
              found[DL_OP_flash_attention_grad]);
        CHECK(found[DL_OP_shift] == 4 * (2 + 2 + 4), "rank %d: %d shifts", rank,
              found[DL_OP_shift]);
        dl_arena_free(arena);
    }
}

static int place_of(const dl_ranks *ranks, const char *group, int rank) {
    int members[64], place = 0;
    dl_ranks_members(ranks, group, rank, members);
    while (members[place] != rank) place++;
    return place;
}

/* All results of both agree. */
static void compare(const layout *l, const char *which) {
    enum { BATCH = 4 };
    static unsigned number;
    if (!dl_test_takes_cheap(number++)) return;
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

/* A model that cannot be split is refused with the reason. */
static void check_fault(const char *text, dl_parallel p, const char *where, const char *words) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const model of = {.text = text, .name = words};
    CHECK(!pass(arena, &of, 2, p, "train", "lower,simplify,shard", &err), "%s: taken", words);
    CHECK(err.code == DL_INPUT && strstr(err.message, words) && strstr(err.message, where),
          "'%s' lacks '%s' or '%s'", err.message, words, where);
    dl_arena_free(arena);
}

#define BEGIN(tokens)                                                                              \
    "model M():\n    input x: f32[N, T=" tokens                                                    \
    ", E=8]\n    target t: f32[N, T, E]\n    h = x |> linear(8) @a\n"
#define END "    output y\n    loss = mean((y - t)**2)\n"

static void check_faults(void) {
    static const char attends[] = BEGIN("3") "    y = attention(h, h, h, 2) |> linear(8) @b\n" END,
                      alone[] = BEGIN("8") "    y = h\n" END,
                      odd[] = BEGIN("8") "    y = x |> linear(9) @b |> relu |> linear(8) @c\n" END;
    check_fault(attends, (dl_parallel){.tp = 4}, "m.dl:5:", "2 heads");
    check_fault(attends, (dl_parallel){.cp = 4}, "m.dl:5:", "3 tokens");
    check_fault(alone, (dl_parallel){.cp = 2}, "context_parallel=2", "no attention");
    check_fault(alone, (dl_parallel){.tp = 2}, "tensor_parallel=2", "no pair of linear layers");
    check_fault(odd, (dl_parallel){.tp = 2}, "m.dl:5:", "9 hidden features of b.weight");
}

/* The text of the IR says it, and is the same once more. */
static void check_printed(dl_arena *arena, const dl_graph *g, const char *words) {
    dl_error err = {0};
    dl_buf b = {0}, again = {0};
    dl_print_module(&b, g->module, (dl_print_options){0});
    dl_module *m = dl_read_module(arena, b.at, b.n, "m.dlir", &err);
    CHECK(m, "%s", err.message);
    if (m) dl_print_module(&again, m, (dl_print_options){0});
    CHECK(m && strcmp(b.at, again.at) == 0, "the text changes when it is read and printed");
    CHECK(strstr(b.at, words), "no %s:\n%s", words, b.at);
    dl_buf_free(&b), dl_buf_free(&again);
}

/* A rank's variables say of what they are the piece, in the text of the IR too, and so do the
 * optimiser's. */
static void check_text(const model *of) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_graph *g =
        pass(arena, of, 2, (dl_parallel){.tp = 2, .tp_rank = 1}, "train", dl_pipeline, &err);
    CHECK(g, "%s", err.message);
    if (!g) return;
    check_printed(arena, g, " piece(1, 8, tp, 2, 1)");
    const dl_var *w = dl_graph_find_var(g, "b.weight"),
                 *moment = dl_graph_find_var(g, "exp_avg.b.weight");
    CHECK(w && moment && moment->piece.cut[0].size == w->piece.cut[0].size &&
              moment->piece.cut[0].rank == 1,
          "a moment is whole");
    /* a share of a piece: 8 hidden features over two, then those 4, or the 6 that each takes, over
     * three */
    dl_parallel p = {.tp = 2, .tp_rank = 1, .dp = 3, .dp_rank = 2, .sum_rank = 2, .zero = 1};
    g = pass(arena, of, 2, p, "train", dl_pipeline, &err);
    moment = g ? dl_graph_find_var(g, "exp_avg.a.weight") : NULL;
    CHECK(moment && moment->piece.n == 2 && strcmp(moment->piece.cut[1].group, "dp") == 0 &&
              moment->piece.cut[0].size == 8 && moment->piece.cut[1].rank == 2,
          "a piece's moment is whole");
    moment = g ? dl_graph_find_var(g, "exp_avg.c.weight")
               : NULL; /* all have it: of 12 along, 4 each, then 2 */
    CHECK(moment && moment->piece.n == 2 && strcmp(moment->piece.cut[1].group, "tp") == 0 &&
              dl_type_count(&moment->value.type) * 6 == 48,
          "a whole weight's moment is not dealt out to all");
    dl_arena_free(arena);
}

/* The pieces of what one product makes together: a share of each of its parts; head by head one
 * share. */
static void check_parts(const model *of) {
    static const struct {
        const char *name;
        int parts;
    } want[] = {{"a1.qkv.weight", 3},  {"a1.qkv.bias", 3}, {"a2.qkv.weight", 3},
                {"a3.qkv.weight", 3},  {"a3.qkv.bias", 3}, {"a4.qkv.weight", 1},
                {"mlp.fc1.weight", 2}, {"mlp.fc1.bias", 2}};
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_graph *g =
        pass(arena, of, 2, (dl_parallel){.tp = 4, .tp_rank = 3}, "train", dl_pipeline, &err);
    CHECK(g, "%s", err.message);
    for (size_t i = 0; g && i < sizeof want / sizeof *want; i++) {
        const dl_var *v = dl_graph_find_var(g, want[i].name);
        CHECK(v && v->piece.n == 1 && v->piece.cut[0].parts == want[i].parts &&
                  v->piece.cut[0].axis == 0 && v->value.type.axis[0].size == 24 / 4,
              "%s is whole, or is cut in other parts", want[i].name);
    }
    if (g) check_printed(arena, g, "piece(0, 24, tp, 4, 3, 3)");
    dl_arena_free(arena);
}

/* Members of a bucket that stand in another order on one rank are found, though their types are
 * alike. */
static void check_members(void) {
    static const char text[] =
        "graph @train {\n  input $a = %%0 : f32[E=4, F=1]\n  input $b = %%1 : f32[E=4, F=1]\n"
        "  %%2, %%3 = all_reduce $%s, $%s {group=dp, ranks=2, of=[\"%s\", \"%s\"]} : f32[E=4, "
        "F=1], f32[E=4, "
        "F=1]\n"
        "  figure \"m\" = %%2\n}\n";
    for (int swapped = 0; swapped < 2; swapped++) {
        dl_arena *arena = dl_arena_new(NULL);
        dl_error err = {0};
        dl_ranks ranks;
        const dl_graph *graph[2];
        dl_interp *in[2];
        CHECK(dl_ranks_of(&ranks, 2, 1, 1, "tp-cp-dp", &err), "%s", err.message);
        for (int r = 0; r < 2; r++) {
            const char *x = r && swapped ? "b" : "a", *y = r && swapped ? "a" : "b",
                       *all = dl_format(arena, text, x, y, x, y);
            dl_module *m = dl_read_module(arena, all, strlen(all), "m.dlir", &err);
            CHECK(m, "%s", err.message);
            if (!m) return;
            graph[r] = m->graphs.at[0], in[r] = dl_interp_new(graph[r], false);
        }
        bool ok = dl_lockstep_run(&ranks, graph, in, NULL, &err);
        CHECK(ok == !swapped && (ok || strstr(err.message, "rank 0 stands at")), "%s", err.message);
        for (int r = 0; r < 2; r++) dl_interp_free(in[r]);
        dl_arena_free(arena);
    }
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
    /* state in shares: of two and four ranks, more than some axes have elements, beside pieces and
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
    /* keys and values round a ring: of several turns, uneven, beside tensors, samples and shares */
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
    static const int behind[][3] = {{1, 1, 2}, {1, 1, 3}, {2, 1, 4},
                                    {1, 1, 5}, {1, 2, 3}, {1, 1, 7}};
    static const model *const looking[] = {&backs, &backs_half, &backs_drop, &others};
    for (size_t m = 0; m < sizeof looking / sizeof *looking; m++)
        for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
            layout l = {looking[m],   behind[i][0],          behind[i][1],
                        behind[i][2], .passes = dl_pipeline, .zero = i == 0 && looking[m]->steps,
                        .ring = true};
            if (l.cp > 4 && looking[m] == &others)
                continue; /* a fifth of w's gradient is rounded to f32 */
            compare(&l, "train");
            compare(&l, "eval");
        }
    check_ring(&vits, 3);
    check_looks(&backs);
    check_counts(&mlps, 2, 1, 1, 0, 0); /* the input has no gradient; c is whole */
    check_counts(&vits, 2, 1, 8, 0, 0);
    check_counts(&half, 2, 1, 8, 0, 0);
    check_counts(&vits, 1, 2, 0, 5, 4);
    check_counts(&vits, 2, 3, 10, 5,
                 4); /* tokens are rows of the image: so are what the loss's norms add up */
    check_counts(&parts_drop, 2, 1, 5 + 5, 0,
                 0); /* a block forward and back: nothing between is whole */
    check_faults();
    check_text(&small);
    check_parts(&parts);
    return dl_test_end();
}

/* A rank's collectives, the text of its graph, and what cannot be cut. */
#include "tests/unit/shard_models.h"

#include "ir/text/text.h"
#include "tests/check.h"
#include "verify/lockstep.h"

void check_counts(const model *of, int tp, int cp, int reduced, int gathered, int scattered) {
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

void check_ring(const model *of, int cp) {
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
    CHECK(!found[DL_OP_all_gather] && !found[DL_OP_reduce_scatter], "%d gathered, %d scattered",
          found[DL_OP_all_gather], found[DL_OP_reduce_scatter]);
    dl_arena_free(arena);
}

void check_looks(const model *of) {
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

void check_faults(void) {
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

void check_text(const model *of) {
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

void check_parts(const model *of) {
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

void check_members(void) {
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

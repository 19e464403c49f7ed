/* The results of a model's graphs, and their names. */
#include "tests/unit/front_models.h"

#include "tests/check.h"

/* A training step computes neither outputs nor figures that its loss does not read. */
static void test_unread_results(void) {
    static const char text[] = "model M():\n"
                               "    input x: f32[N, C=2, H=4, W=4]\n"
                               "    y = x |> conv(2, 3, pad=1)\n"
                               "    output sigmoid(y)\n"
                               "    figure \"f\" = exp(x)[N=0, C=0]\n"
                               "    metric \"m\" = mean(tanh(y))\n"
                               "    loss = mean(y)\n";
    built b = build_text("m.dl", text, strlen(text), NULL, 0, cube, 4);
    CHECK(b.module, "a model with an output that the loss does not read");
    for (int k = 0; b.module && k < 2; k++) {
        const dl_graph *g = dl_module_graph(b.module, k ? "eval" : "train");
        int found[DL_NOPS] = {0};
        for (int i = 0; i < g->nodes.n; i++) found[g->nodes.at[i]->op]++;
        CHECK(found[DL_OP_sigmoid] == k && found[DL_OP_exp] == k && found[DL_OP_tanh] == 1,
              "%s: %d outputs, %d figures, %d metrics", g->name, found[DL_OP_sigmoid],
              found[DL_OP_exp], found[DL_OP_tanh]);
    }
    dl_arena_free(b.arena);
}

/* Values in strings, and in the names of metrics, figures and parameters. */
static void test_braces(void) {
    static const char text[] = "model M(kind='soft'):\n"
                               "    input x: f32[N, C=2, H=4, W=4]\n"
                               "    y = x\n"
                               "    output y\n"
                               "    loss = mean(y)\n"
                               "    for k in range(2):\n"
                               "        metric \"{kind} recall{k}-{2*k + 1}\" = mean(y[C=k])\n"
                               "        figure '{k}' = [y[N=0, C=k], x[N=0, C=k]]\n"
                               "    metric \"set {{a, \\\"b\\\"}} {kind}\" = mean(x)\n"
                               "    metric \"{{}}\" = mean(x)\n"
                               "    metric 'one }' = mean(x)\n"
                               "    part = '{1 + 1}{{ of {kind}'\n"
                               "    metric \"part {part}\" = mean(x)\n"
                               "    for k in [3, 'b']:\n"
                               "        param w{k}: [C=2] ~ normal(0, 1)\n"
                               "        loss += mean(w)\n";
    static const struct {
        dl_result_role role;
        const char *name;
    } want[] = {{DL_RESULT_METRIC, "soft recall0-1"},
                {DL_RESULT_METRIC, "soft recall1-3"},
                {DL_RESULT_METRIC, "set {a, \"b\"} soft"},
                {DL_RESULT_METRIC, "{}"},
                {DL_RESULT_METRIC, "one }"},
                {DL_RESULT_METRIC, "part 2{ of soft"},
                {DL_RESULT_FIGURE, "0/1"},
                {DL_RESULT_FIGURE, "1/0"}};
    built b = build_text("m.dl", text, strlen(text), NULL, 0, cube, 4);
    CHECK(b.module, "names with values");
    for (size_t i = 0; b.module && i < sizeof want / sizeof *want; i++)
        for (int g = want[i].role == DL_RESULT_FIGURE; g < 2; g++)
            CHECK(dl_graph_find_result(b.module->graphs.at[g], want[i].role, want[i].name), "'%s'",
                  want[i].name);
    for (int i = 0; b.module && i < 2; i++)
        check_type(b.module->graphs.at[0], i ? "wb" : "w3", "f32[C=2]");
    dl_arena_free(b.arena);
}

void test_results(void) {
    test_unread_results();
    test_braces();
}

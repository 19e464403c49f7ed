/* The table of ONNX's emitters: which ops it lacks, and how a node without one is refused. */
#include "exports/onnx/ops.h"
#include "ir/text/text.h"
#include "tests/check.h"

/* Ops of gradients and updates, and random numbers. */
static bool is_refused(dl_op op) {
    return op == DL_OP_random || op == DL_OP_conv_grad_weight || op == DL_OP_updated;
}

static void test_table(void) {
    for (int op = 0; op < DL_NOPS; op++) {
        dl_op_class class = dl_ops[op].class;
        bool plain = class != DL_CLASS_HIGH && class != DL_CLASS_FUSED &&
                     class != DL_CLASS_TEMPLATE && class != DL_CLASS_COLLECTIVE;
        CHECK(!plain || dl_onnx_has((dl_op)op) == !is_refused((dl_op)op),
              "'%s' has no row in exports/onnx/ops.c", dl_ops[op].name);
    }
}

/* Emits the nodes of a graph's text into *nodes_of; the message of the first that is refused. */
static const char *emit(dl_arena *arena, const char *nodes, dl_buf *nodes_of) {
    static dl_error err;
    const char *text = dl_format(arena, "graph @predict {\n%s}\n", nodes);
    err = (dl_error){0};
    dl_module *m = dl_parse_module(arena, text, strlen(text), "t.dlir", &err);
    CHECK(m != NULL, "%s", err.message);
    if (!m) return "";
    const dl_graph *g = m->graphs.at[0];
    dl_onnx o = {.arena = arena, .err = &err};
    o.values = DL_NEWS(arena, dl_onnx_value, g->next_id + 1);
    for (int i = 0; i < g->vars.n; i++)
        o.values[g->vars.at[i]->value.id] =
            (dl_onnx_value){.name = g->vars.at[i]->name, .type = g->vars.at[i]->value.type};
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nout; k++) o.values[n->out[k].id].type = n->out[k].type;
        if (dl_onnx_emit(&o, n)) continue;
        CHECK(err.code == DL_INPUT);
        dl_buf_free(&o.nodes), dl_buf_free(&o.infos);
        return err.message;
    }
    *nodes_of = o.nodes;
    dl_buf_free(&o.infos);
    return "nothing";
}

static const char *refused(dl_arena *arena, const char *nodes) {
    dl_buf none;
    return emit(arena, nodes, &none);
}

/* Does the model have this text: an op, or an equation? */
static bool has(const dl_buf *nodes, const char *text) {
    return memmem(nodes->at, nodes->n, text, strlen(text)) != NULL;
}

/* Contractions: MatMul where batch axes lead and one axis is summed, else an equation. */
static void test_contract(void) {
    static const struct {
        const char *types, *over, *result, *text;
    } cases[] = {
        {"f32[B=2, M=3, K=4]|f32[N=5, K=4]", "K", "f32[B=2, M=3, N=5]", "MatMul"},
        {"f32[B=2, M=3, K=4]|f32[B=2, N=5, K=4]", "K", "f32[B=2, M=3, N=5]", "MatMul"},
        {"f32[M=3, B=2, K=4]|f32[B=2, N=5, K=4]", "K", "f32[M=3, B=2, N=5]", "abc,bdc->abd"},
        {"f32[M=3, K=4, L=2]|f32[L=2, N=5, K=4]", "K, L", "f32[M=3, N=5]", "abc,cdb->ad"},
        {"f32[B=2, K=4]|f32[B=2, K=4]", "K", "f32[B=2]", "ab,ab->a"},
        {"f32[B=2, M=3, O=2, K=4]|f32[B=2, N=5, K=4]", "K", "f32[B=2, M=3, O=2, N=5]",
         "abcd,aed->abce"},
    };
    dl_arena *arena = dl_arena_new(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *bar = strchr(cases[i].types, '|');
        dl_buf nodes = {0};
        const char *text = dl_format(arena,
                                     "  input $a = %%0 : %.*s\n  input $b = %%1 : %s\n"
                                     "  %%2 = contract $a, $b {over=[%s]} : %s\n"
                                     "  output \"y\" = %%2\n",
                                     (int)(bar - cases[i].types), cases[i].types, bar + 1,
                                     cases[i].over, cases[i].result);
        CHECK_STR(emit(arena, text, &nodes), "nothing");
        CHECK(has(&nodes, cases[i].text), "%s is no %s", text, cases[i].text);
        CHECK(has(&nodes, "MatMul") == (cases[i].text[0] == 'M'), "%s", text);
        dl_buf_free(&nodes);
    }
    dl_arena_free(arena);
}

static void test_refusal(void) {
    dl_arena *arena = dl_arena_new(NULL);
    CHECK_STR(refused(arena, "  input $s = %0 : i64[]\n"
                             "  %1 = random $s, $s {number=0} : f32[C=4]   # net.dl:3:5\n"
                             "  output \"y\" = %1\n"),
              "net.dl:3:5: error: ONNX has no way to say 'random'");
    CHECK_STR(refused(arena, "  input $x = %0 : f32[N=2, C=3, W=8]\n"
                             "  input $y = %1 : f32[N=2, O=4, W=8]\n"
                             "  %2 = neg $x : f32[N=2, C=3, W=8]   # net.dl:2:1\n"
                             "  %3 = conv_grad_weight %2, $y {stride=[1], pad_lo=[1], pad_hi=[1], "
                             "kernel=[3]} : f32[O=4, C=3, kW=3]   # net.dl:4:7\n"
                             "  output \"y\" = %3\n"),
              "net.dl:4:7: error: ONNX has no way to say 'conv_grad_weight'");
    dl_arena_free(arena);
}

int main(void) {
    test_table();
    test_refusal();
    test_contract();
    return dl_test_end();
}

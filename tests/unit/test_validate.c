/* The validator: legal graphs of every stage pass, and every seeded breakage is named. */
#include "ir/builder.h"
#include "ir/text/text.h"
#include "ir/validate/validate.h"
#include "tests/check.h"

static const char tensor_text[] = "graph @train {\n"
                                  "  input $x = %0 : f32[N=2, C=3]\n"
                                  "  target $t = %1 : f32[N=2, C=3]\n"
                                  "  param $w = %2 : f32[C=3] init normal(0, 0.02)\n"
                                  "  state $m of $w = %3 : f32[C=3] init zero\n"
                                  "  hyper $lr = %4 : f32[] init const(0.1)\n"
                                  "  %5 = mul $x, $w : f32[N=2, C=3]\n"
                                  "  %6 = sub %5, $t : f32[N=2, C=3]\n"
                                  "  %7 = abs %6 : f32[N=2, C=3]\n"
                                  "  %8 = mean %7 {over=[N, C]} : f32[]\n"
                                  "  %9 = sum %7 {over=[N]} : f32[C=3]\n"
                                  "  %10 = mul %9, $lr : f32[C=3]\n"
                                  "  %11 = sub $w, %10 : f32[C=3]\n"
                                  "  output \"y\" = %5\n"
                                  "  loss \"loss\" = %8\n"
                                  "  metric \"mae\" = %8\n"
                                  "  figure \"error\" = %7\n"
                                  "  grad $w = %9\n"
                                  "  update $w = %11\n"
                                  "  update $m = %9\n"
                                  "}\n";

/* %2 = x * w; %3 = -%2 in %2's place; %4 and %6 = sums of %3 over N; %5 = w - %4 in w's place. */
static const char planned_text[] =
    "kernel @k0(%a: f32[N=2, C=16], %b: f32[C=16]) -> (%o: f32[N=2, C=16]) space(N=2, C=16) {\n"
    "  %0 = load %a[N, C] : f32\n"
    "  %1 = load %b[C] : f32\n"
    "  %2 = mul %0, %1 : f32\n"
    "  store %o[N, C], %2\n"
    "}\n\n"
    "kernel @k1(%a: f32[N=2, C=16]) -> (%o: f32[N=2, C=16] alias %a) space(N=2, C=16) {\n"
    "  %0 = load %a[N, C] : f32\n"
    "  %1 = neg %0 : f32\n"
    "  store %o[N, C], %1\n"
    "}\n\n"
    "kernel @k2(%a: f32[N=2, C=16]) -> (%o: f32[C=16]) space(N=2, C=16) {\n"
    "  %0 = load %a[N, C] : f32\n"
    "  %1 = sum %0 {over=[N]} : f32\n"
    "  store %o[C], %1\n"
    "}\n\n"
    "kernel @k3(%a: f32[C=16], %b: f32[C=16]) -> (%o: f32[C=16] alias %a) space(C=16) {\n"
    "  %0 = load %a[C] : f32\n"
    "  %1 = load %b[C] : f32\n"
    "  %2 = sub %0, %1 : f32\n"
    "  store %o[C], %2\n"
    "}\n\n"
    "graph @train {\n"
    "  input $x = %0 : f32[N=2, C=16] at 0\n"
    "  param $w = %1 : f32[C=16] at 128 init normal(0, 0.02)\n"
    "  %2 = fused @k0($x, $w) : f32[N=2, C=16] at 192\n"
    "  %3 = fused @k1(%2) : f32[N=2, C=16] at 192\n"
    "  %4 = fused @k2(%3) : f32[C=16] at 320\n"
    "  %6 = fused @k2(%3) : f32[C=16] at 384\n"
    "  %5 = fused @k3($w, %4) : f32[C=16] at 128\n"
    "  output \"s\" = %4\n"
    "  update $w = %5\n"
    "  arena 448\n"
    "}\n";

static dl_graph *parse(const char *text) {
    dl_error err = {0};
    dl_module *m = dl_parse_module(NULL, text, strlen(text), "test.dlir", &err);
    CHECK(m, "%s", err.message);
    return m ? m->graphs.at[0] : NULL;
}

static dl_var *var(dl_graph *g, const char *name) { return dl_graph_find_var(g, name); }
static dl_node *node(dl_graph *g, int i) { return g->nodes.at[i]; }
static dl_result *result(dl_graph *g, dl_result_role role) {
    return dl_graph_find_result(g, role, NULL);
}
static dl_kernel *kernel(dl_graph *g, int i) { return g->nodes.at[i]->kernel; }

static dl_var *table(dl_graph *g, dl_dtype dtype, int n, double a, double b) {
    dl_type t = dl_scalar(dtype);
    dl_type_push(&t, "C", n);
    return dl_graph_table(g, "table", t, n, (double[]){a, b, b}, (dl_loc){0});
}

/* One breakage: what is done to a legal graph, and what the error must say. */
#define BREAKS(X)                                                                                  \
    /* variables */                                                                                \
    X(TENSOR, same_name, var(g, "t")->name = var(g, "x")->name, "two variables have the name $x")  \
    X(TENSOR, no_name, var(g, "t")->name = "", "variable 1 has no name")                           \
    X(TENSOR, var_role, var(g, "t")->role = DL_NVAR_ROLES, "$t has no known role")                 \
    X(TENSOR, var_of, var(g, "m")->of = dl_intern("x"),                                            \
      "$m belongs to a parameter that the graph does not have")                                    \
    X(TENSOR, var_of_role, var(g, "x")->of = dl_intern("w"),                                       \
      "$x is said to belong to a parameter, but is not state")                                     \
    X(TENSOR, hyper_rank, dl_type_push(&var(g, "lr")->value.type, "N", 2),                         \
      "$lr is a hyper-parameter, but not a scalar")                                                \
    X(TENSOR, var_type, var(g, "x")->value.type.axis[1].name = dl_intern("N"),                     \
      "names the axis N twice")                                                                    \
    X(TENSOR, var_count, var(g, "x")->value.type.axis[1].size = (int64_t)1 << 47,                  \
      "more than 2^47 elements")                                                                   \
    X(TENSOR, var_value, var(g, "x")->value.var = var(g, "t"),                                     \
      "$x has a value that is not its own")                                                        \
    X(TENSOR, init_kind, var(g, "w")->init.kind = DL_NINITS, "of no known kind")                   \
    X(TENSOR, init_nan, var(g, "w")->init.a = NAN, "not finite")                                   \
    X(TENSOR, init_const, var(g, "lr")->init.a = INFINITY,                                         \
      "$lr starts as a number that is not finite")                                                 \
    X(TENSOR, init_negative, var(g, "w")->init.b = -1, "negative standard deviation")              \
    X(TENSOR, init_interval, var(g, "w")->init = ((dl_init){DL_INIT_UNIFORM, 1, -1}),              \
      "empty interval")                                                                            \
    X(TENSOR, table_count, table(g, DL_F32, 2, 1, 2)->value.type.axis[0].size = 3,                 \
      "$table has not as many numbers as elements")                                                \
    X(TENSOR, table_infinite, table(g, DL_F32, 2, 1, INFINITY),                                    \
      "$table has a number that is not finite")                                                    \
    X(TENSOR, table_too_large, table(g, DL_F32, 2, 1, 1e39),                                       \
      "$table has a number that is not finite")                                                    \
    X(TENSOR, table_fraction, table(g, DL_I32, 2, 1, 2.5),                                         \
      "$table has a number that its type cannot hold")                                             \
    X(TENSOR, table_wide, table(g, DL_I32, 2, 1, 0x1p31),                                          \
      "$table has a number that its type cannot hold")                                             \
    X(TENSOR, table_truth, table(g, DL_BOOL, 2, 1, 2),                                             \
      "$table has a number that its type cannot hold")                                             \
    X(TENSOR, table_init, table(g, DL_F32, 2, 1, 2)->init.kind = DL_INIT_CONST,                    \
      "starts otherwise than")                                                                     \
    X(TENSOR, table_written, result(g, DL_RESULT_UPDATE)->var = table(g, DL_F32, 3, 1, 2),         \
      "only the host sets")                                                                        \
    X(TENSOR, numbers_of_state, table(g, DL_F32, 2, 1, 2)->role = DL_VAR_STATE,                    \
      "$table has numbers, but is no table")                                                       \
    X(TENSOR, init_integer, var(g, "w")->value.type.dtype = DL_I32,                                \
      "drawn at random, but does not hold floating-point")                                         \
    /* nodes */                                                                                    \
    X(TENSOR, op, node(g, 0)->op = DL_NOPS, "node 0 has no known op")                              \
    X(TENSOR, null_operand, node(g, 0)->in[1] = NULL, "node 0 lacks an operand")                   \
    X(TENSOR, two_results, node(g, 0)->nout = 2, "node 0 has the wrong number of results")         \
    X(TENSOR, result_rank, node(g, 0)->out[0].type.rank = 9, "node 0 has a result without a type") \
    X(TENSOR, attr_id, node(g, 3)->attrs[0].id = DL_NATTRS,                                        \
      "node 3 has an attribute of no known kind")                                                  \
    X(TENSOR, order, swap(g, 0, 1),                                                                \
      "%6 = sub %5, $t : f32[N=2, C=3]: %5 is read before it is defined")                          \
    X(TENSOR, self, node(g, 1)->in[0] = &node(g, 1)->out[0], "%6 is read before it is defined")    \
    X(TENSOR, foreign, node(g, 1)->in[0] = copy_of(g, node(g, 1)->in[0]),                          \
      "%5 is read before it is defined")                                                           \
    X(TENSOR, arity, node(g, 0)->nin = 1,                                                          \
      "%5 = mul $x : f32[N=2, C=3]: mul takes 2 operands, not 1")                                  \
    X(TENSOR, attr_missing, node(g, 3)->nattrs = 0, "mean needs the attribute 'over'")             \
    X(TENSOR, attr_extra, dl_node_set(g, node(g, 0), dl_attr_int(DL_ATTR_k, 1)),                   \
      "mul takes no attribute 'k'")                                                                \
    X(TENSOR, attr_over, node(g, 3)->attrs[0].names[0] = dl_intern("H"), "mean goes over axis H")  \
    X(TENSOR, type_size, node(g, 2)->out[0].type.axis[0].size = 3,                                 \
      "its type should be f32[N=2, C=3]")                                                          \
    X(TENSOR, type_name, node(g, 2)->out[0].type.axis[0].name = dl_intern("M"),                    \
      "its type should be f32[N=2, C=3]")                                                          \
    X(TENSOR, type_dtype, node(g, 2)->out[0].type.dtype = DL_F16,                                  \
      "its type should be f32[N=2, C=3]")                                                          \
    X(TENSOR, layout,                                                                              \
      node(g, 2)->out[0].type.layout = ((dl_layout){.kind = DL_PANEL, .width = 16}),               \
      "no such layout of 2 axes")                                                                  \
    X(TENSOR, same_id, node(g, 2)->out[0].id = 5, "%5 is defined twice")                           \
    X(TENSOR, big_id, node(g, 6)->out[0].id = 12, "%12 is not below the graph's next id 12")       \
    X(TENSOR, next_id, g->next_id = 11, "%11 is not below the graph's next id 11")                 \
    X(TENSOR, huge_next_id, g->next_id = UINT32_MAX, "value numbers reach 4294967295")             \
    X(TENSOR, def, node(g, 2)->out[0].def = node(g, 1), "%7 does not know the node that makes it") \
    X(TENSOR, index, node(g, 2)->out[0].index = 1, "%7 does not know the node that makes it")      \
    X(TENSOR, stray_kernel, node(g, 0)->kernel = DL_NEW(g->module->arena, dl_kernel),              \
      "a kernel hangs on an op")                                                                   \
    /* results */                                                                                  \
    X(TENSOR, result_role, g->results.at[0].role = DL_NRESULT_ROLES, "result 0 has no role")       \
    X(TENSOR, result_value, result(g, DL_RESULT_OUTPUT)->value = NULL,                             \
      "output 'y' is a value that the graph does not")                                             \
    X(TENSOR, result_removed, drop_last(g),                                                        \
      "update 'w' is a value that the graph does not compute")                                     \
    X(TENSOR, loss_rank, result(g, DL_RESULT_LOSS)->value = &node(g, 2)->out[0],                   \
      "is not a floating-point scalar")                                                            \
    X(TENSOR, two_losses, result(g, DL_RESULT_METRIC)->role = DL_RESULT_LOSS,                      \
      "there is more than one loss")                                                               \
    X(TENSOR, metric_rank, result(g, DL_RESULT_METRIC)->value = &node(g, 2)->out[0],               \
      "metric 'mae' (%7, f32[N=2, C=3])")                                                          \
    X(TENSOR, figure_rank, result(g, DL_RESULT_FIGURE)->value = &node(g, 3)->out[0],               \
      "is not a plane of two axes")                                                                \
    X(TENSOR, grad_type, result(g, DL_RESULT_GRAD)->value = &node(g, 2)->out[0],                   \
      "is not of its variable's type")                                                             \
    X(TENSOR, grad_no_var, result(g, DL_RESULT_GRAD)->var = NULL, "names no variable")             \
    X(TENSOR, output_var, result(g, DL_RESULT_OUTPUT)->var = var(g, "w"),                          \
      "names a variable, which only")                                                              \
    X(TENSOR, loss_undo, result(g, DL_RESULT_LOSS)->undo = "t", "undoes a target, which only")     \
    X(TENSOR, output_undo, result(g, DL_RESULT_OUTPUT)->undo = dl_intern("w"),                     \
      "undoes a variable that is no target")                                                       \
    X(TENSOR, grad_of_input, result(g, DL_RESULT_GRAD)->var = var(g, "x"),                         \
      "no floating-point parameter")                                                               \
    X(TENSOR, update_type, result(g, DL_RESULT_UPDATE)->value = &node(g, 3)->out[0],               \
      "is not of its variable's type")                                                             \
    X(TENSOR, update_twice, g->results.at[6].var = var(g, "w"),                                    \
      "$w has two results of role update")                                                         \
    X(TENSOR, update_input, var(g, "m")->role = DL_VAR_HYPER, "$m is a hyper-parameter")           \
    X(TENSOR, update_fed,                                                                          \
      (g->results.at[6].var = var(g, "x"), g->results.at[6].value = &node(g, 2)->out[0]),          \
      "only the host sets")                                                                        \
    X(TENSOR, update_foreign, g->results.at[6].var = copy_of_var(g, var(g, "m")),                  \
      "names a variable of another graph")                                                         \
    /* fused */                                                                                    \
    X(FUSED, unfused, (node(g, 1)->op = DL_OP_neg, node(g, 1)->kernel = NULL),                     \
      "only fused nodes, scans and collectives are left")                                          \
    X(FUSED, no_kernel, node(g, 1)->kernel = NULL, "a fused node without a kernel")                \
    X(FUSED, unlisted, g->kernels.n = 3, "@k3 is not in the graph's list of kernels")              \
    X(FUSED, listed_twice, g->kernels.at[1] = g->kernels.at[0], "kernel @k0 stands twice")         \
    X(FUSED, kernel_inputs, node(g, 0)->nin = 1,                                                   \
      "@k0 has 2 inputs and 1 outputs, but the node 1 operands and 1 results")                     \
    X(FUSED, kernel_other, node(g, 2)->kernel = kernel(g, 1),                                      \
      "%o of @k1 is f32[N=2, C=16], but is given f32[C=16]")                                       \
    X(FUSED, param_size, kernel(g, 0)->params.at[0].type.axis[1].size = 8,                         \
      "%a of @k0 is f32[N=2, C=8]")                                                                \
    X(FUSED, param_layout, kernel(g, 0)->params.at[0].type.layout.kind = DL_CL,                    \
      "%a of @k0 is f32[N=2, C=16] @cl")                                                           \
    X(FUSED, out_layout, node(g, 0)->out[0].type.layout.kind = DL_CL,                              \
      "but is given f32[N=2, C=16] @cl")                                                           \
    X(FUSED, kernel_fault, kernel(g, 0)->instrs.at[2].args[1] = 3, "@k0: instruction 2")           \
    X(FUSED, in_alias, kernel(g, 0)->params.at[1].alias = 0,                                       \
      "%b of @k0 cannot share the memory of parameter 0")                                          \
    X(FUSED, update_layout,                                                                        \
      (var(g, "w")->value.type.layout.kind = DL_CL,                                                \
       kernel(g, 0)->params.at[1].type.layout.kind = DL_CL),                                       \
      "no such layout of 1 axes")                                                                  \
    /* memory */                                                                                   \
    X(PLANNED, no_place, node(g, 2)->out[0].offset = -1, "%4 has no place in memory")              \
    X(PLANNED, var_no_place, var(g, "x")->value.offset = -1, "%0 has no place in memory")          \
    X(PLANNED, unaligned, node(g, 2)->out[0].offset = 328,                                         \
      "byte 328, which is not a multiple of 64")                                                   \
    X(PLANNED, outside, node(g, 2)->out[0].offset = 448,                                           \
      "%4 lies at byte 448 and has 64 bytes, but the arena has 448")                               \
    X(PLANNED, far_outside, node(g, 2)->out[0].offset = INT64_MAX - 63, "but the arena has 448")   \
    X(PLANNED, arena_large, g->arena_bytes = 512,                                                  \
      "the arena has 512 bytes, but the values end at 448")                                        \
    X(PLANNED, arena_small, g->arena_bytes = 320, "but the arena has 320")                         \
    X(PLANNED, vars_overlap, var(g, "w")->value.offset = 64,                                       \
      "%1 lies at bytes 64 to 128, where %0 (0 to 128)")                                           \
    X(PLANNED, over_var, node(g, 0)->out[0].offset = 128,                                          \
      "%2 lies at bytes 128 to 256, where %1 (128 to 192)")                                        \
    X(PLANNED, over_dead_var, node(g, 2)->out[0].offset = 0,                                       \
      "%4 lies at bytes 0 to 64, where %0 (0 to 128)")                                             \
    X(PLANNED, over_operand, node(g, 2)->out[0].offset = 192,                                      \
      "%4 lies at bytes 192 to 256, where %3 (192 to 320)")                                        \
    X(PLANNED, over_operand_end, node(g, 2)->out[0].offset = 256,                                  \
      "%4 lies at bytes 256 to 320, where %3 (192 to 320)")                                        \
    X(PLANNED, over_operand_of_two, node(g, 3)->out[0].offset = 192,                               \
      "%6 lies at bytes 192 to 256, where %3 (192 to 320)")                                        \
    X(PLANNED, no_alias, kernel(g, 1)->params.at[1].alias = -1,                                    \
      "%3 lies at bytes 192 to 320, where %2 (192 to 320)")                                        \
    X(PLANNED, alias_read_later, g->results.at[0].value = &node(g, 0)->out[0],                     \
      "where %2 (192 to 320) is still needed")                                                     \
    X(PLANNED, alias_not_update, g->results.n = 1,                                                 \
      "%5 lies at bytes 128 to 192, where %1 (128 to 192)")                                        \
    /* order */                                                                                    \
    X(ORDERED, alias_two_ways, node(g, 4)->in[1] = &var(g, "w")->value,                            \
      "overwrites $w, whose old value")                                                            \
    X(ORDERED, reads_elsewhere, kernel(g, 4)->params.at[2].alias = -1,                             \
      "overwrites $w, whose old value")                                                            \
    X(ORDERED, read_later, swap(g, 0, 4), "%5 = fused @k3($w, %4)")                                \
    X(ORDERED, shown_old, (g->results.at[0].value = &var(g, "w")->value),                          \
      "overwrites $w, whose old value")                                                            \
    X(ORDERED, update_is_variable, result(g, DL_RESULT_UPDATE)->value = &other_var(g)->value,      \
      "the next value of $w is another variable's, too")                                           \
    X(PLANNED, over_result, node(g, 4)->out[0].offset = 320,                                       \
      "%5 lies at bytes 320 to 384, where %4 (320 to 384)")

static void swap(dl_graph *g, int i, int j) {
    dl_node *t = g->nodes.at[i];
    g->nodes.at[i] = g->nodes.at[j], g->nodes.at[j] = t;
}

/* Another parameter of w's type. */
static dl_var *other_var(dl_graph *g) {
    dl_var *v =
        dl_graph_var(g, DL_VAR_PARAM, "other", var(g, "w")->value.type, (dl_init){0}, (dl_loc){0});
    v->value.offset = 384;
    return v;
}

static void drop_last(dl_graph *g) { g->nodes.n--; }

static dl_value *copy_of(dl_graph *g, const dl_value *v) {
    dl_value *copy = DL_NEW(g->module->arena, dl_value);
    *copy = *v;
    return copy;
}

static dl_var *copy_of_var(dl_graph *g, const dl_var *v) {
    dl_var *copy = DL_NEW(g->module->arena, dl_var);
    *copy = *v;
    copy->value.var = copy;
    return copy;
}

#define X(stage, name, action, says)                                                               \
    static void break_##name(dl_graph *g) { action; }
BREAKS(X)
#undef X

static const struct {
    dl_stage stage;
    const char *name;
    void (*apply)(dl_graph *);
    const char *says;
} breaks[] = {
#define X(stage, name, action, says) {DL_STAGE_##stage, #name, break_##name, says},
    BREAKS(X)
#undef X
};
enum { NBREAKS = sizeof breaks / sizeof breaks[0] };

static void test_legal(void) {
    dl_error err = {0};
    dl_graph *g = parse(tensor_text);
    if (!g) return;
    CHECK(dl_validate(g, DL_STAGE_TENSOR, &err), "%s", err.message);
    CHECK(!dl_validate(g, DL_STAGE_FUSED, &err), "unfused nodes pass as fused");
    dl_arena_free(g->module->arena);
    err.code = DL_OK;
    if (!(g = parse(planned_text))) return;
    for (int stage = DL_STAGE_TENSOR; stage <= DL_STAGE_PLANNED; stage++)
        CHECK(dl_validate(g, (dl_stage)stage, &err), "%s", err.message);
    dl_arena_free(g->module->arena);
}

static void test_breaks(void) {
    for (int i = 0; i < NBREAKS; i++) {
        dl_graph *g = parse(breaks[i].stage == DL_STAGE_TENSOR ? tensor_text : planned_text);
        if (!g) continue;
        breaks[i].apply(g);
        dl_error err = {0};
        CHECK(!dl_validate(g, breaks[i].stage, &err), "%s is not noticed", breaks[i].name);
        CHECK(err.code == DL_INTERNAL && strncmp(err.message, "graph train: ", 13) == 0, "%s: %s",
              breaks[i].name, err.message);
        CHECK(strstr(err.message, breaks[i].says), "%s: '%s' should contain '%s'", breaks[i].name,
              err.message, breaks[i].says);
        dl_arena_free(g->module->arena);
    }
}

/* Plans that look like overlap and have none: memory given on to later values, empty values, dead
 * results.
 */
static void test_memory(void) {
    dl_graph *g = parse(planned_text);
    if (!g) return;
    dl_error err = {0};
    node(g, 4)->out[0].offset = 192; /* where %3 died */
    CHECK(dl_validate(g, DL_STAGE_PLANNED, &err), "%s", err.message);
    node(g, 4)->out[0].offset = 128;
    g->results.n =
        0; /* %4 is still read by %5, which nobody reads; but w may not be overwritten then */
    CHECK(!dl_validate(g, DL_STAGE_PLANNED, &err), "w lost its value");
    err.code = DL_OK;
    node(g, 4)->out[0].offset = 192;
    CHECK(dl_validate(g, DL_STAGE_PLANNED, &err), "%s", err.message);
    dl_arena_free(g->module->arena);

    static const char empty[] = "graph @train {\n  input $x = %0 : f32[N=0] at 0\n  input $y = %1 "
                                ": f32[N=4] at 0\n  arena 16\n}\n";
    if (!(g = parse(empty))) return;
    CHECK(dl_validate(g, DL_STAGE_PLANNED, &err), "%s", err.message);
    dl_arena_free(g->module->arena);
}

int main(void) {
    test_legal();
    test_breaks();
    test_memory();
    return dl_test_end();
}

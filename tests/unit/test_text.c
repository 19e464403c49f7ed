/* The IR's text: printer and parser are exact inverses, and the parser survives and locates
 * whatever is wrong. */
#include "tests/check.h"

#include <stdlib.h>

#include "ir/builder.h"
#include "ir/text/text.h"

static char *print(dl_arena *arena, const dl_module *m, bool locations) {
    dl_buf b = {0};
    dl_print_module(&b, m, (dl_print_options){.locations = locations});
    char *s = dl_strdup(arena, b.at ? b.at : "");
    dl_buf_free(&b);
    return s;
}

static dl_module *parse(dl_arena *arena, const char *text, dl_error *err) {
    return dl_parse_module(arena, text, strlen(text), "t.dlir", err);
}

static void check_round_trip(dl_arena *arena, const dl_module *m, bool locations) {
    dl_error err = {0};
    const char *text = print(arena, m, locations);
    dl_module *again = parse(arena, text, &err);
    CHECK(again, "%s", err.message);
    if (!again) return;
    CHECK_STR(print(arena, again, true), text);
    if (locations) CHECK_STR(print(arena, again, false), print(arena, m, false));
}

/* --- a module with every op, attribute kind, instruction kind, layout, role --- */

static dl_type make_type(dl_dtype d, int n, const dl_axis *axes) {
    dl_type t = dl_scalar(d);
    for (int i = 0; i < n; i++) dl_type_push(&t, axes[i].name, axes[i].size);
    return t;
}

static dl_type weight_type(void) {
    return make_type(DL_F32, 5, (dl_axis[]){{"O", 5}, {"C", 4}, {"kD", 2}, {"kH", 2}, {"kW", 2}});
}

static dl_type image_type(void) {
    return make_type(DL_F32, 5, (dl_axis[]){{"N", 2}, {"C", 4}, {"D", 6}, {"H", 5}, {"W", 4}});
}

static void set_sample(dl_graph *g, dl_node *n, dl_attr_id id) {
    static const double floats[] = {0,        -0.0,     0.1,       1e-300, 1.0 / 3,
                                    12345678, INFINITY, -INFINITY, NAN};
    static int turn;
    dl_attr a = {.id = id, .n = id % 4};
    switch (dl_attrs[id].kind) {
    case DL_KIND_INT: a.n = 0, a.i = turn % 2 ? 3 : -7; break;
    case DL_KIND_FLOAT: a.n = 0, a.f = floats[turn % 9]; break;
    case DL_KIND_NAME: a.n = 0, a.s = dl_intern(turn % 5 ? "C" : ""); break;
    case DL_KIND_STR:
        a.n = 0, a.s = dl_intern("n c h -> \"n\" \\ (h\x01) \xC3\xA9 \xFF # no comment");
        break;
    case DL_KIND_INTS:
        for (int i = 0; i < a.n; i++) a.ints[i] = i * 1000 - 1;
        break;
    case DL_KIND_TEXTS: { /* as many as results, without a limit */
        const char **texts = DL_NEWS(g->module->arena, const char *, n->nout + 1);
        for (int i = 0; i < n->nout; i++) texts[i] = dl_internf("of \"%d\"", i);
        a.n = n->nout, a.texts = texts;
        break;
    }
    case DL_KIND_NAMES:
        for (int i = 0; i < a.n; i++) a.names[i] = dl_internf("A%d", i);
        break;
    }
    turn++;
    dl_node_set(g, n, a);
}

static dl_kinstr elem(dl_op op, int n, int a, int b, int c, double p) {
    return (dl_kinstr){
        .kind = DL_K_ELEM, .op = op, .nargs = n, .args = {a, n > 1 ? b : 0, n > 2 ? c : 0}, .p = p};
}

static dl_kernel *make_kernel(dl_arena *a, const char *name) {
    dl_kernel *k = DL_NEW(a, dl_kernel);
    dl_type x = image_type(), w = weight_type(), b = make_type(DL_F32, 1, (dl_axis[]){{"C", 5}});
    dl_type y = make_type(DL_F32, 5, (dl_axis[]){{"N", 2}, {"C", 5}, {"D", 3}, {"H", 3}, {"W", 3}});
    dl_loc first = {dl_intern("unet.dl"), 2, 9}, second = {dl_intern("a file:3.dl"), 14, 0};
    w.axis[1].size = 8, w.layout = (dl_layout){DL_PANEL, 32}, x.layout.kind = y.layout.kind = DL_CL;
    k->name = dl_intern(name);
    k->nin = 4;
    dl_push(a, &k->params, (dl_kparam){dl_intern("a"), x, false, -1});
    dl_push(a, &k->params, (dl_kparam){dl_intern("a2"), x, false, -1});
    dl_push(a, &k->params, (dl_kparam){dl_intern("conv.0/w-1"), w, false, -1});
    dl_push(a, &k->params, (dl_kparam){dl_intern("b ias"), b, false, -1});
    dl_push(a, &k->params, (dl_kparam){dl_intern("o"), y, true, -1});
    dl_push(a, &k->params, (dl_kparam){dl_intern("s"), b, true, 3});
    static dl_index
        along_c[] = {{.axis = 1, .offset = 0}},
        moved[] = {{.axis = 0, .offset = 0},
                   {.axis = 1, .offset = 64},
                   {.axis = 2, .offset = -64},
                   {.axis = 3, .offset = 1},
                   {.axis = 4, .offset = 0}},
        terms[] = {{.axis = 0},
                   {.axis = -1, .offset = 3},
                   {.axis = -1, .offset = -2, .nterms = 2, .term = {{3, 2, 5, 1}, {4, 1, 0, 7}}},
                   {.axis = 3, .offset = -5, .div = 3, .outside = DL_OUT_REFLECT},
                   {.axis = -1, .outside = DL_OUT_EXACT, .nterms = 1, .term = {{4, 1, 0, -2}}}};
    k->nspace = y.rank;
    memcpy(k->space, y.axis, sizeof y.axis);
    dl_push(a, &k->instrs,
            (dl_kinstr){.kind = DL_K_CONTRACT,
                        .op = DL_OP_conv,
                        .nparts = {2, 1},
                        .parts = {{0, 1}, {2}},
                        .windows = {.n = 3,
                                    .stride = {2, 2, 1},
                                    .dilation = {1, 1, 1},
                                    .pad_lo = {0, 1, 0},
                                    .groups = 1},
                        .loc = first});
    dl_push(a, &k->instrs,
            (dl_kinstr){.kind = DL_K_LOAD, .param = 3, .index = along_c, .loc = second});
    dl_push(a, &k->instrs, (dl_kinstr){.kind = DL_K_CONST, .op = DL_OP_const, .p = 1e-8});
    dl_push(a, &k->instrs, (dl_kinstr){.kind = DL_K_COORD, .op = DL_OP_iota, .axis = 2});
    dl_push(a, &k->instrs,
            (dl_kinstr){.kind = DL_K_RANDOM,
                        .op = DL_OP_random,
                        .nargs = 2,
                        .args = {3, 2},
                        .number = 16777215,
                        .first = (int64_t)1 << 40,
                        .along = {135, 27, 9, 0, 1}});
    dl_push(a, &k->instrs,
            (dl_kinstr){.kind = DL_K_RANDOM,
                        .op = DL_OP_random,
                        .nargs = 3,
                        .args = {3, 2, 1},
                        .along = {135, 27, 9, 0, 1},
                        .part = (int64_t)1 << 40});
    for (int op = 0; op < DL_NOPS; op++)
        if (dl_ops[op].class == DL_CLASS_ELEM) {
            dl_kinstr in =
                elem((dl_op)op, dl_ops[op].arity, 0, 1, 2, op == DL_OP_leaky_relu ? 0.01 : 0);
            in.type = dl_ops[op].arity == 3 ? DL_BF16 : DL_F32;
            dl_push(a, &k->instrs, in);
        }
    dl_push(
        a, &k->instrs,
        (dl_kinstr){
            .kind = DL_K_STORE, .param = 4, .nargs = 1, .args = {0}, .index = moved, .loc = first});
    dl_push(a, &k->instrs, (dl_kinstr){.kind = DL_K_LOAD, .param = 0, .index = terms});
    int reduce = k->instrs.n;
    static const dl_op ops[] = {DL_OP_sum, DL_OP_reduce_max, DL_OP_reduce_min};
    for (int i = 0; i < 3; i++)
        dl_push(a, &k->instrs,
                (dl_kinstr){.kind = DL_K_REDUCE,
                            .op = ops[i],
                            .nargs = 1,
                            .args = {3},
                            .over = 0x1D,
                            .type = DL_F64});
    dl_push(a, &k->instrs,
            (dl_kinstr){
                .kind = DL_K_STORE, .param = 5, .nargs = 1, .args = {reduce}, .index = along_c});
    dl_push(a, &k->locs, first);
    dl_push(a, &k->locs, second);
    dl_kernel_count(k);
    k->bytes_unfused = 3 * k->bytes;
    return k;
}

/* A call of a template, whatever it makes of its parameters. */
static dl_kernel *make_call(dl_arena *a) {
    dl_kernel *k = DL_NEW(a, dl_kernel);
    dl_type types[] = {image_type(), weight_type(), image_type()};
    dl_attr attrs[] = {dl_attr_float(DL_ATTR_rate, 0.1), dl_attr_int(DL_ATTR_number, 5),
                       dl_attr_int(DL_ATTR_heads, 3), dl_attr_int(DL_ATTR_causal, 1)};
    k->name = dl_intern("called"), k->nin = 2;
    for (int i = 0; i < 3; i++)
        dl_push(a, &k->params, (dl_kparam){dl_internf("p%d", i), types[i], i == 2, -1});
    dl_kinstr call = {
        .kind = DL_K_CALL, .op = DL_OP_flash_attention, .loc = {dl_intern("vit.dl"), 9, 2}};
    call.call = dl_call_node(a, call.op, 2, 1, types, 4, attrs, call.loc);
    dl_push(a, &k->instrs, call);
    return k;
}

static dl_module *make_module(dl_arena *arena) {
    dl_module *m = dl_module_new(arena);
    dl_graph *g = dl_graph_new(m, "train"), *e = dl_graph_new(m, "eval / odd");
    dl_loc none = {0}, loc = {dl_intern("unet.dl"), 12, 3},
           odd = {dl_intern("models and/\"more\".dl"), 1, 0};
    dl_type image = image_type(), weight = weight_type();
    dl_graph_var(g, DL_VAR_INPUT, "x", image, (dl_init){0}, loc)->value.offset = 0;
    dl_var *w = dl_graph_var(g, DL_VAR_PARAM, "conv_down1.0.weight", weight,
                             (dl_init){DL_INIT_NORMAL, 0, 0.02}, odd);
    dl_graph_var(g, DL_VAR_TARGET, "t", make_type(DL_I64, 1, (dl_axis[]){{"", 1}}),
                 (dl_init){DL_INIT_CONST, 3, 0}, none);
    dl_graph_var(g, DL_VAR_STATE, "exp_avg.conv", weight, (dl_init){0}, none)->of = w->name;
    dl_graph_var(g, DL_VAR_HYPER, "a b\n\xC3\xA9", dl_scalar(DL_F64),
                 (dl_init){DL_INIT_UNIFORM, -1, 1}, none);
    dl_graph_var(g, DL_VAR_STATE, "", dl_scalar(DL_BOOL), (dl_init){DL_INIT_TRUNC_NORMAL, 0, 1e-8},
                 none);
    dl_graph_var(g, DL_VAR_INPUT, "empty", make_type(DL_F16, 2, (dl_axis[]){{"N", 0}, {"C'", 3}}),
                 (dl_init){0}, none);
    static const double numbers[] = {0.1, -0.0, 1e300, 0x1p-1074, 9007199254740992, -3};
    dl_graph_table(g, "list 1", make_type(DL_F64, 2, (dl_axis[]){{"H", 2}, {"W", 3}}), 6, numbers,
                   loc)
        ->value.offset = 64;
    dl_graph_table(g, "of none", make_type(DL_I32, 1, (dl_axis[]){{"N", 0}}), 0, NULL, none);
    dl_graph_var(e, DL_VAR_INPUT, "x", image, (dl_init){0}, none);
    dl_value *x = &g->vars.at[0]->value, *in[8];
    for (int op = 0; op < DL_NOPS; op++) {
        if (op == DL_OP_fused) continue;
        int n = dl_ops[op].arity < 0 ? 3 : dl_ops[op].arity;
        for (int i = 0; i < n; i++)
            in[i] = i == 0 || g->nodes.n == 0 ? x : &g->nodes.at[g->nodes.n - 1]->out[0];
        dl_type t = op % 2 ? image : weight;
        if (op % 6 == 0) t.layout = (dl_layout){DL_PANEL, 16};
        if (op % 6 == 1) t.layout.kind = DL_CL;
        g->next_id += op % 3 == 0; /* holes in the numbering */
        dl_type types[DL_MAX_RESULTS] = {t, weight, image};
        int results = dl_op_results((dl_op)op) ? dl_op_results((dl_op)op) : n;
        dl_node *node = dl_node_append(g, (dl_op)op, n, in, results, types, op % 2 ? loc : none);
        for (int i = 0; i < dl_ops[op].nattrs; i++) set_sample(g, node, dl_ops[op].attrs[i]);
        if (op % 4 == 0) node->out[0].offset = 4096 * op;
    }
    dl_kernel *k = make_kernel(m->arena, "k0");
    for (int i = 0; i < 2; i++) {
        dl_graph *to = i ? e : g;
        dl_push(m->arena, &to->kernels, k);
        dl_value *of = &to->vars.at[0]->value;
        dl_type types[] = {k->params.at[4].type, k->params.at[5].type};
        dl_node *f =
            dl_node_append(to, DL_OP_fused, 4, (dl_value *[]){of, of, of, of}, 2, types, loc);
        f->kernel = k;
        f->out[1].offset = 64;
        dl_graph_result(to, DL_RESULT_OUTPUT, "y \"quoted\"", &f->out[0], NULL)->undo =
            i ? DL_UNDO_NONE : dl_intern("t \"too\"");
        dl_graph_result(to, DL_RESULT_LOSS, "loss", of, NULL);
    }
    dl_push(m->arena, &e->kernels, make_kernel(m->arena, "k1 odd"));
    dl_push(m->arena, &e->kernels, make_call(m->arena));
    dl_value *last = &g->nodes.at[g->nodes.n - 1]->out[0];
    dl_graph_result(g, DL_RESULT_METRIC, "RMSE(u10m)", last, NULL);
    dl_graph_result(g, DL_RESULT_FIGURE, "t/0", last, NULL);
    dl_graph_result(g, DL_RESULT_GRAD, w->name, last, w);
    dl_graph_result(g, DL_RESULT_GRAD, "another name", last, w);
    dl_graph_result(g, DL_RESULT_UPDATE, w->name, x, w);
    g->next_id += 5;
    g->arena_bytes = 123456;
    return m;
}

static void test_round_trip(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = make_module(arena);
    check_round_trip(arena, m, true);
    check_round_trip(arena, m, false);
    dl_error err = {0};
    dl_module *again = parse(arena, print(arena, m, true), &err);
    CHECK(again, "%s", err.message);
    if (!again) goto done;
    /* The text has what the structures have. */
    const dl_graph *g = again->graphs.at[0], *was = m->graphs.at[0];
    CHECK(g->next_id == was->next_id && g->arena_bytes == 123456 && g->nodes.n == was->nodes.n);
    CHECK(g->vars.at[0]->value.offset == 0 && g->vars.at[1]->value.offset == -1);
    CHECK(g->vars.at[3]->of == g->vars.at[1]->name && g->vars.at[1]->init.b == 0.02);
    CHECK(g->vars.at[1]->loc.line == 1 && g->vars.at[1]->loc.file == was->vars.at[1]->loc.file);
    for (int i = 7; i < 9; i++) {
        const dl_var *v = g->vars.at[i], *table = was->vars.at[i];
        CHECK(v->role == DL_VAR_TABLE && v->numbers.n == table->numbers.n &&
              v->numbers.n == (i == 7 ? 6 : 0));
        for (int k = 0; k < v->numbers.n; k++)
            CHECK(!memcmp(&v->numbers.at[k], &table->numbers.at[k], sizeof(double)),
                  "to the last bit");
    }
    CHECK(dl_graph_find_result(g, DL_RESULT_GRAD, NULL)->var == g->vars.at[1]);
    CHECK(dl_graph_find_result(g, DL_RESULT_OUTPUT, NULL)->undo == dl_intern("t \"too\""));
    CHECK(!strcmp(dl_graph_find_result(again->graphs.at[1], DL_RESULT_OUTPUT, NULL)->undo, ""));
    CHECK(!dl_graph_find_result(g, DL_RESULT_METRIC, NULL)->undo);
    const dl_kernel *k = g->kernels.at[0], *old = was->kernels.at[0];
    CHECK(again->graphs.at[1]->kernels.n == 3 && k->flops == old->flops && k->bytes == old->bytes);
    CHECK(k->bytes_unfused == old->bytes_unfused && k->locs.n == 2 && k->nin == 4);
    CHECK(k->params.at[5].alias == 3 && k->params.at[4].is_out && !k->params.at[3].is_out);
    for (int i = 0; i < k->params.n; i++)
        CHECK(dl_type_same(&k->params.at[i].type, &old->params.at[i].type) &&
              dl_layout_same(k->params.at[i].type.layout, old->params.at[i].type.layout));
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *a = &k->instrs.at[i], *b = &old->instrs.at[i];
        CHECK(a->kind == b->kind && a->nargs == b->nargs &&
              !memcmp(a->args, b->args, sizeof a->args));
        bool memory = a->kind == DL_K_LOAD || a->kind == DL_K_STORE;
        size_t indices = memory ? sizeof *a->index * (size_t)k->params.at[a->param].type.rank : 0;
        CHECK(a->p == b->p && a->over == b->over &&
                  (!memory || !memcmp(a->index, b->index, indices)),
              "instruction %d", i);
        CHECK(a->number == b->number && a->first == b->first &&
              !memcmp(a->along, b->along, sizeof a->along));
        CHECK(!memcmp(a->parts, b->parts, sizeof a->parts) &&
              !memcmp(&a->windows, &b->windows, sizeof a->windows));
    }
done:
    dl_arena_free(arena);
}

static void test_filter(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = make_module(arena);
    dl_buf b = {0};
    dl_print_module(&b, m, (dl_print_options){.filter = "@k0"});
    CHECK(strncmp(b.at, "kernel @k0(%a: f32[N=2, C=4, D=6, H=5, W=4] @cl, ", 47) == 0, "%.60s",
          b.at);
    CHECK(!strstr(b.at, "graph"));
    dl_buf_free(&b);
    dl_print_node(&b, m->graphs.at[0]->nodes.at[3]); /* after the sources */
    CHECK(strstr(b.at, " = neg $x : f32[") && !strchr(b.at, '\n'), "%s", b.at);
    dl_buf_free(&b);
    dl_arena_free(arena);
}

/* --- faults --- */

#define GRAPH(body) "graph @g {\n  input $x = %0 : f32[N=2, C=3]\n" body "\n}\n"
#define KERNEL(body)                                                                               \
    "kernel @k(%a: f32[C=3], %w: f32[O=2, C=3, kW=1]) -> (%o: f32[C=3]) space(C=3, W=4) {\n" body  \
    "\n}\ngraph @g {\n}\n"

static const struct {
    const char *text, *message;
} faults[] = {
    {"", "1:1: no graph in this text"},
    {"grph @g {\n}\n", "1:1: expected 'graph' or 'kernel', found 'grph'"},
    {"graph g {\n}\n", "1:7: expected the graph's name (@train), found 'g'"},
    {"graph @g {\n", "2:1: expected a statement or '}', found the end of the text"},
    {"graph @g { input $x = %0 : f32[]\n}\n", "1:12: expected the end of the line, found 'input'"},
    {"graph @g {\n}\ngraph @g {\n}\n", "3:7: graph @g stands there twice"},
    {GRAPH("  %1 = conw $x : f32[]"), "3:8: unknown op 'conw'; did you mean 'conv'?"},
    {GRAPH("  %1 = abs $x : f33[]"), "3:17: unknown element type 'f33'; did you mean 'f32'?"},
    {GRAPH("  %1 = abs $y : f32[]"), "3:12: no variable $y is declared above"},
    {GRAPH("  %1 = abs %7 : f32[]"), "3:12: no value %7 is made above"},
    {GRAPH("  %1 = abs %0 : f32[]"), "3:12: %0 is a variable: write $x"},
    {GRAPH("  %1 = abs %1 : f32[]"), "3:12: no value %1 is made above"},
    {GRAPH("  %0 = abs $x : f32[]"), "3:3: %0 is made twice"},
    {GRAPH("  %1, %1 = abs $x : f32[]"), "3:7: %1 is made twice"},
    {GRAPH("  %1, %2 = abs $x : f32[], f32[]"), "3:12: abs makes one value, found 2"},
    {GRAPH("  %4194304 = abs $x : f32[]"),
     "3:3: a value is a number below 4194304, found %4194304"},
    {GRAPH("  %01 = abs $x : f32[]"), "3:3: a value is a number below 4194304, found %01"},
    {GRAPH("  %1 = add $x : f32[]"), "3:8: add takes 2 operands, found 1"},
    {GRAPH("  %1 = abs $x, $x : f32[]"), "3:8: abs takes 1 operand, found 2"},
    {GRAPH("  %1 = leaky_relu $x : f32[]"), "3:22: leaky_relu lacks its attribute 'slope'"},
    {GRAPH("  %1 = leaky_relu $x {slop=1} : f32[]"),
     "3:23: leaky_relu has no attribute 'slop'; did you mean 'slope'?"},
    {GRAPH("  %1 = leaky_relu $x {slope=1, slope=2} : f32[]"),
     "3:32: attribute 'slope' stands there twice"},
    {GRAPH("  %1 = leaky_relu $x {slope=C} : f32[]"), "3:29: expected a number, found 'C'"},
    {GRAPH("  %1 = leaky_relu $x {slope=1e999} : f32[]"), "3:29: 1e999 is too large for a double"},
    {GRAPH("  %1 = slice $x {axis=C, start=1.5, stop=2} : f32[]"),
     "3:32: expected an integer, found '1.5'"},
    {GRAPH("  %1 = sum $x {over=[A, B, C, D, E, F, G, H, I]} : f32[]"),
     "3:46: a list of more than 8"},
    {GRAPH("  %1 = abs $x : f32[1, 1, 1, 1, 1, 1, 1, 1, 1]"), "3:45: more than 8 axes"},
    {GRAPH("  %1 = abs $x : f32[N=-1]"),
     "3:23: an axis size must lie between 0 and 140737488355328, found -1"},
    {GRAPH("  %1 = abs $x : f32[N=99999999999999999999]"), "3:23: an axis size must lie between"},
    {GRAPH("  %1 = abs $x : f32[N=1000000000, C=1000000000]"), "3:35: more than 2^47 elements"},
    {GRAPH("  %1 = abs $x : f32[N=2, N=2]"), "3:26: axis N stands there twice"},
    {GRAPH("  %1 = abs $x : f32[N=2] @xl"), "3:26: unknown layout '@xl'"},
    {GRAPH("  %1 = abs $x : f32[N=2, C=1] @panel0"), "3:31: the width of a panel"},
    {GRAPH("  %1 = abs $x : f32[N=2] @panel8"), "3:26: layout @panel needs at least two axes"},
    {GRAPH("  %1 = abs $x : f32[], f32[]"), "3:17: expected 1 type, one a value"},
    {GRAPH("  %1 = abs $x : f32[] at -1"), "3:26: an offset must lie between 0"},
    {GRAPH("  %1 = abs $x : f32[] {"), "3:23: expected the end of the line, found '{'"},
    {GRAPH("  %1 = fused @k($x) : f32[]"), "3:14: no kernel @k stands above"},
    {GRAPH("  input $x = %1 : f32[]"), "3:9: $x is declared twice"},
    {GRAPH("  param $y = %1 : f32[] init normel(0, 1)"),
     "3:30: unknown initial value 'normel'; did you mean 'normal'?"},
    {GRAPH("  table $y = %1 : f32[] init zero"),
     "3:25: expected the table's numbers (1, 2...), found 'init'"},
    {GRAPH("  table $y = %1 : f32[N=2] numbers(1 2)"), "3:38: expected ')', found '2'"},
    {GRAPH("  table $y = %1 : f32[N=2] numbers(1,)"), "3:38: expected a number, found ')'"},
    {GRAPH("  param $y = %1 : f32[N=2] numbers(1, 2)"),
     "3:28: expected the end of the line, found 'numbers'"},
    {GRAPH("  param $y = %1 : f32[] init normal(0)"), "3:38: expected ',', found ')'"},
    {GRAPH("  outputs \"y\" = $x"), "3:3: unknown statement 'outputs'; did you mean 'output'?"},
    {GRAPH("  output y = $x"), "3:10: expected the result's name in quotes, found 'y'"},
    {GRAPH("  update $y = $x"), "3:10: no variable $y is declared above"},
    {GRAPH("  next %0"), "3:8: next is %0, but %0 is used"},
    {GRAPH("  arena many"), "3:9: expected the arena's bytes, found 'many'"},
    {GRAPH("  output \"y = $x"), "3:10: a string is not closed on its line"},
    {GRAPH("  output \"\\q\" = $x"), "3:11: an unknown escape in a string"},
    {GRAPH("  output \"\\x00\" = $x"), "3:11: an unknown escape in a string"},
    {GRAPH("  output \"\xC3\" = $x"), "3:11: a string that is not UTF-8 (byte 0xC3, 1 after"},
    {GRAPH("  # \xFF"), "3:5: a comment that is not UTF-8 (byte 0xFF"},
    {GRAPH("  \xC3\xA9"), "3:3: a character that means nothing here (byte 0xC3"},
    {GRAPH("  % = abs $x : f32[]"), "3:3: expected a name after %"},
    {"kernel @k() -> (%o: f32[]) space() {\n}\n", "3:1: kernel @k stands before no graph"},
    {"kernel @k(%a: f32[], %a: f32[]) -> () space() {\n}\n",
     "1:22: parameter %a stands there twice"},
    {"kernel @k(%a: f32[] alias %a) -> () space() {\n}\n",
     "1:21: only an output may alias an input"},
    {"kernel @k() -> (%o: f32[], %p: f32[] alias %o) space() {\n}\n",
     "1:38: an output may alias only an input"},
    {"kernel @k() -> (%o: f32[]) {\n}\n", "1:28: expected space(...), found '{'"},
    {KERNEL("}\nkernel @k() -> () space() {"), "3:8: kernel @k stands there twice"},
    {KERNEL("  schedule lanes {phases=1}"), "2:12: 'lanes' is no schedule of a kernel"},
    {KERNEL("  schedule points"), "2:18: expected '{', found the end of the line"},
    {KERNEL("  schedule points {over=[W], phases=1}"), "2:20: expected phases, found 'over'"},
    {KERNEL("  schedule rows {phases=1}"), "2:18: expected over, found 'phases'"},
    {KERNEL("  schedule rows {over=[N], phases=1}"), "2:24: the space has no axis 'N'"},
    {KERNEL("  schedule rows {over=[W, W], phases=1}"), "2:27: an axis stands there twice"},
    {KERNEL("  schedule points {phases=-1}"), "2:27: phases must lie between 0"},
    {KERNEL("  schedule call {phases=1}"), "2:17: expected the end of the line, found '{'"},
    {KERNEL("  %0 = load %a[C] : f32\n  schedule call"),
     "3:3: expected an instruction or '}', found 'schedule'"},
    {KERNEL("  %1 = load %a[C] : f32"), "2:3: results are numbered by instruction: expected %0"},
    {KERNEL("  %0 = load %b[C] : f32"), "2:13: kernel @k has no parameter %b"},
    {KERNEL("  %0 = load %a[D] : f32"), "2:16: the space has no axis 'D'"},
    {KERNEL("  %0 = load %a[@2] : f32"), "2:16: the space has no axis @2"},
    {KERNEL("  %0 = load %a[] : f32"), "2:16: expected an axis of the space, found ']'"},
    {KERNEL("  %0 = load %a[C, W] : f32"), "2:15: %a has 1 axes, found more"},
    {KERNEL("  %0 = abs %0 : f32"), "2:12: no instruction above makes %0"},
    {KERNEL("  %0 = coord C : f32\n  %1 = add %0 : f32"), "3:12: add takes 2 operands"},
    {KERNEL("  %0 = slice %0 : f32"), "2:8: slice is no instruction of a kernel"},
    {KERNEL("  %0 = conv %a, %w {stride=[1, 1], pad_lo=[1]} : f32"),
     "2:43: pad_lo needs one number a spatial axis"},
    {KERNEL("  %0 = conv cat(%a), %w {stride=[1]} : f32"), "2:19: cat of one part"},
    {KERNEL("  %0 = coord C : f32\n  %1 = sum %0 {over=[C, C]} : f32"),
     "3:25: an axis stands there twice"},
    {KERNEL("  store %o[C], %0"), "2:16: no instruction above makes %0"},
};

static void test_faults(void) {
    dl_arena *arena = dl_arena_new(NULL);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        dl_error err = {0};
        const char *want = dl_format(arena, "t.dlir:%s", faults[i].message);
        CHECK(!parse(arena, faults[i].text, &err) && err.code == DL_INPUT, "%s", faults[i].text);
        CHECK(strncmp(err.message, want, strlen(want)) == 0, "got '%s', want '%s'", err.message,
              want);
    }
    dl_error err = {0};
    CHECK(!dl_parse_module(arena, "graph @\0 {", 10, "t.dlir", &err));
    CHECK_STR(err.message, "t.dlir:1:7: expected a name after @");
    size_t n = ((size_t)16 << 20) + 1;
    char *big = malloc(n);
    memset(big, '\n', n);
    err = (dl_error){0};
    CHECK(!dl_parse_module(arena, big, n, "t.dlir", &err));
    CHECK_STR(err.message, "t.dlir:1:1: larger than the 16 MiB such a text may have");
    memset(big, 'a', 70000);
    err = (dl_error){0};
    CHECK(!dl_parse_module(arena, big, 70000, "t.dlir", &err));
    CHECK_STR(err.message, "t.dlir:1:1: a token longer than 64 KiB");
    free(big);
    dl_arena_free(arena);
}

/* Comments that are no locations, blank lines, spaces and line ends of any kind change nothing. */
static void test_freedom(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_module *m =
        parse(arena,
              "# a file\r\n\ngraph   @g {   # of two\r\n# x\n\tinput $x=%3:f32[N=2,C=3]   # see "
              "unet.dl:2\n"
              "  %5=leaky_relu $x{slope=.5}:f32[N=2,C=3]   # unet.dl:7:2\n  output\"y\"=%5 } # end",
              &err);
    CHECK(!m, "a statement must end with its line");
    CHECK_STR(err.message, "t.dlir:7:16: expected the end of the line, found '}'");
    err = (dl_error){0};
    m = parse(
        arena,
        "# a file\r\n\ngraph   @g {   # of two\r\n# x\n\tinput $x=%3:f32[N=2,C=3]   # see "
        "unet.dl:2\n"
        "  %5=leaky_relu $x{slope=.5}:f32[N=2,C=3]   # unet.dl:7:2\n  output\"y\"=%5\n} # end",
        &err);
    CHECK(m, "%s", err.message);
    if (m)
        CHECK_STR(print(arena, m, true),
                  "graph @g {\n  input $x = %3 : f32[N=2, C=3]\n  %5 = leaky_relu $x "
                  "{slope=0.5} : f32[N=2, C=3]   # "
                  "unet.dl:7:2\n  output \"y\" = %5\n}\n");
    dl_arena_free(arena);
}

/* --- mutations --- */

static uint32_t draw(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

/* Whatever still parses must print to a text that reads back as itself, and its kernels must bear
 * judgement. */
static void test_mutations(void) {
    static const char tokens[] = "%$@\"{}[](),=:#-+.09aNC\n \\x\xFF";
    uint64_t state = 1;
    int parsed = 0, refused = 0, unlocated = 0, unstable = 0;
    dl_arena *arena = dl_arena_new(NULL);
    const char *base = print(arena, make_module(arena), true);
    size_t n = strlen(base);
    for (int turn = 0; turn < 4000; turn++) {
        dl_arena *scratch = dl_arena_new(NULL);
        char *text = dl_strndup(scratch, base, n + 64);
        size_t len = n;
        for (uint32_t edits = 1 + draw(&state, 3); edits; edits--) {
            size_t at = draw(&state, (uint32_t)len), from = draw(&state, (uint32_t)len);
            char c = draw(&state, 2) ? tokens[draw(&state, sizeof tokens - 1)] : base[from];
            uint32_t kind = draw(&state, 4), cut = 1 + draw(&state, 8);
            if (kind == 0) text[at] = c;
            if (kind == 1) text[at] ^= (char)(1 << draw(&state, 8));
            if (kind == 2) memmove(text + at + 1, text + at, len++ - at), text[at] = c;
            if (kind == 3 && at + cut < len)
                memmove(text + at, text + at + cut, len - at - cut), len -= cut;
        }
        if (turn % 50 == 0) len = draw(&state, (uint32_t)len);
        dl_error err = {0};
        /* A copy of its exact size, so that reading one byte too far is seen. */
        char *exact = malloc(len ? len : 1);
        memcpy(exact, text, len);
        dl_module *m = dl_parse_module(scratch, exact, len, "t.dlir", &err);
        free(exact);
        parsed += m != NULL, refused += m == NULL;
        if (!m) unlocated += err.code != DL_INPUT || strncmp(err.message, "t.dlir:", 7) != 0;
        for (int i = 0; m && i < m->graphs.n; i++)
            for (int j = 0; j < m->graphs.at[i]->kernels.n; j++)
                if (!dl_kernel_fault(m->graphs.at[i]->kernels.at[j], scratch))
                    dl_kernel_count(m->graphs.at[i]->kernels.at[j]);
        const char *once = m ? print(scratch, m, true) : "";
        dl_module *again = m ? parse(scratch, once, &err) : NULL;
        if (m) unstable += !again || strcmp(print(scratch, again, true), once) != 0;
        dl_arena_free(scratch);
    }
    CHECK(parsed > 100 && refused > 1000, "%d parsed, %d refused", parsed, refused);
    CHECK(unlocated == 0, "%d", unlocated);
    CHECK(unstable == 0, "%d", unstable);
    dl_arena_free(arena);
}

/* --- kernels --- */

/* FLOPs of one 4x4x4 convolution, stride 2, padding 1, from `size`^3. */
static int64_t conv_flops(dl_arena *arena, int64_t c, int64_t o, int64_t size) {
    dl_kernel k = {.name = "k", .nin = 2, .nspace = 5};
    dl_axis x[] = {{"N", 1}, {"C", c}, {"D", size}, {"H", size}, {"W", size}};
    dl_axis w[] = {{"O", o}, {"C", c}, {"kD", 4}, {"kH", 4}, {"kW", 4}};
    dl_axis y[] = {{"N", 1}, {"C", o}, {"D", size / 2}, {"H", size / 2}, {"W", size / 2}};
    dl_push(arena, &k.params, (dl_kparam){"x", make_type(DL_F32, 5, x), false, -1});
    dl_push(arena, &k.params, (dl_kparam){"w", make_type(DL_F32, 5, w), false, -1});
    dl_push(arena, &k.params, (dl_kparam){"y", make_type(DL_F32, 5, y), true, -1});
    memcpy(k.space, y, sizeof y);
    dl_push(arena, &k.instrs,
            (dl_kinstr){.kind = DL_K_CONTRACT,
                        .op = DL_OP_conv,
                        .nparts = {1, 1},
                        .parts = {{0}, {1}},
                        .windows = {.n = 3,
                                    .stride = {2, 2, 2},
                                    .dilation = {1, 1, 1},
                                    .pad_lo = {1, 1, 1},
                                    .pad_hi = {1, 1, 1},
                                    .groups = 1}});
    dl_index along[] = {{.axis = 0}, {.axis = 1}, {.axis = 2}, {.axis = 3}, {.axis = 4}};
    dl_push(arena, &k.instrs,
            (dl_kinstr){.kind = DL_K_STORE, .param = 2, .nargs = 1, .index = along});
    const char *fault = dl_kernel_fault(&k, arena);
    CHECK(!fault, "%s", fault ? fault : "");
    dl_kernel_count(&k);
    return k.flops;
}

/* The U-Net's training step at 64^3 takes about 80.5 GFLOP a sample, taps on the padding included.
 */
static void test_flops(void) {
    static const int64_t w[] = {4, 64, 128, 256, 512, 512, 512};
    dl_arena *arena = dl_arena_new(NULL);
    int64_t total = 0;
    for (int i = 1, size = 64; i <= 6; i++, size /= 2) {
        total +=
            conv_flops(arena, w[i - 1], w[i], size) * (i == 1 ? 2 : 3); /* x needs no gradient */
        int64_t in = i == 6 ? w[i] : 2 * w[i], out = i == 1 ? 5 : w[i - 1];
        total += conv_flops(arena, out, in, size) * 3;
    }
    CHECK(fabs((double)total / 80.5e9 - 1) < 0.005, "%.4f GFLOP", (double)total * 1e-9);
    dl_arena_free(arena);
}

/* 17 reductions, each of the one before. */
#define SUM(n, of) "  %" #n " = sum %" #of " {over=[W]} : f32\n"
#define SUMS_OF_SUMS                                                                               \
    SUM(1, 0)                                                                                      \
    SUM(2, 1)                                                                                      \
    SUM(3, 2)                                                                                      \
    SUM(4, 3)                                                                                      \
    SUM(5, 4)                                                                                      \
    SUM(6, 5)                                                                                      \
    SUM(7, 6)                                                                                      \
    SUM(8, 7)                                                                                      \
    SUM(9, 8)                                                                                      \
    SUM(10, 9) SUM(11, 10) SUM(12, 11) SUM(13, 12) SUM(14, 13) SUM(15, 14) SUM(16, 15) SUM(17, 16)
static const struct {
    const char *text, *message;
} kernel_faults[] = {
    {KERNEL("  %0 = coord W : f32\n  store %o[C], %0"),
     "instruction 1: all points along W store into the same"},
    {KERNEL("  %0 = load %a[C] : f32"), "nothing stores into output %o"},
    {KERNEL("  %0 = load %o[C] : f32"), "instruction 0: a load of output %o"},
    {KERNEL("  %0 = load %a[C] : f32\n  store %a[C], %0"), "instruction 1: a store into input %a"},
    {KERNEL("  %0 = mean %0"), NULL},
    {KERNEL("  %0 = coord W : f32\n  %1 = mean %0 {over=[W]} : f32"),
     "instruction 1: mean is no reduction"},
    {KERNEL("  %0 = coord W : f32\n  %1 = sum %0 {over=[C]} : f32\n  %2 = add %1, %0 : f32\n  "
            "store %o[C], %2"),
     "instruction 3: all points along W store into the same"},
    {KERNEL("  %0 = coord W : f32\n" SUMS_OF_SUMS), "instruction 17: more than 16 reductions wait"},
    /* each of what follows was a fault when a kernel had one set of reduced axes; now only nothing
     * is stored */
    {KERNEL("  %0 = coord W : f32\n  %1 = sum %0 {over=[W]} : f32\n  %2 = sum %0 {over=[C]} : f32"),
     "nothing stores into output %o"},
    {KERNEL("  %0 = coord W : f32\n  %1 = sum %0 {over=[W]} : f32\n  %2 = add %1, %0 : f32"),
     "nothing stores into output %o"},
    {KERNEL("  %0 = coord W : f32\n  %1 = sum %0 {over=[W]} : f32\n  %2 = sum %1 {over=[W]} : f32"),
     "nothing stores into output %o"},
    {KERNEL("  %0 = coord W : f32\n  %1 = sum %0 {over=[W]} : f32\n  %2 = load %a[C] : f32"),
     "nothing stores into output %o"},
    {KERNEL("  %0 = conv %a, %w {stride=[1], pad_lo=[0], pad_hi=[0]} : f32"),
     "instruction 0: %a has 1 axes, a contraction over 1 spatial"},
    {KERNEL("  %0 = conv %w, %w {stride=[1], pad_lo=[0], pad_hi=[0]} : f32"),
     "instruction 0: a space of 2 axes around a contraction of 3"},
    {KERNEL("  %0 = conv %w, %w {stride=[1], pad_lo=[0], pad_hi=[0], dilation=[0]} : f32"),
     "instruction 0: dilation 0"},
    {KERNEL("  %0 = conv cat(%w, %w), %w {stride=[1], pad_lo=[0], pad_hi=[0], dilation=[2], "
            "groups=2} : f32"),
     "instruction 0: "},
    {KERNEL("  %0 = coord W : f32\n  %1 = conv %w, %w {stride=[1], pad_lo=[0], pad_hi=[0]} : f32"),
     "instruction 1: the contraction must be the first instruction"},
};

static void test_kernel_faults(void) {
    dl_arena *arena = dl_arena_new(NULL);
    for (size_t i = 0; i < sizeof kernel_faults / sizeof *kernel_faults; i++) {
        dl_error err = {0};
        dl_module *m = parse(arena, kernel_faults[i].text, &err);
        const char *want = kernel_faults[i].message;
        if (!want) {
            CHECK(!m);
            continue;
        }
        CHECK(m, "%s", err.message);
        const char *fault = m ? dl_kernel_fault(m->graphs.at[0]->kernels.at[0], arena) : NULL;
        CHECK(fault && strncmp(fault, want, strlen(want)) == 0, "got '%s', want '%s'",
              fault ? fault : "nothing", want);
    }
    dl_arena_free(arena);
}

int main(void) {
    test_round_trip();
    test_filter();
    test_faults();
    test_freedom();
    test_mutations();
    test_flops();
    test_kernel_faults();
    return dl_test_end();
}

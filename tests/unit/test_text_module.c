/* A module with every op, attribute kind, instruction kind, layout and role. */
#include "tests/unit/text_module.h"

#include "tests/check.h"

#include "ir/builder.h"

/* --- a module with every op, attribute kind, instruction kind, layout, role --- */

dl_type make_type(dl_dtype d, int n, const dl_axis *axes) {
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
    w.axis[1].size = 8, w.layout = (dl_layout){.kind = DL_PANEL, .width = 32},
    x.layout.kind = y.layout.kind = DL_CL;
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

dl_module *make_module(dl_arena *arena) {
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
        if (op == DL_OP_fused || dl_op_has_body((dl_op)op)) continue;
        int n = dl_ops[op].arity < 0 ? 3 : dl_ops[op].arity;
        for (int i = 0; i < n; i++)
            in[i] = i == 0 || g->nodes.n == 0 ? x : &g->nodes.at[g->nodes.n - 1]->out[0];
        dl_type t = op % 2 ? image : weight;
        if (op % 6 == 0) t.layout = (dl_layout){.kind = DL_PANEL, .width = 16};
        if (op % 6 == 1) t.layout = (dl_layout){.kind = DL_CL, .steps = op % 12 == 7};
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

/* Runs in the checkout's root. The front end from outside: the models of models/, configuration
 * arguments, initial values, names, and text that no scientist wrote. `test_front COUNT` runs COUNT
 * mutations instead of the usual few thousand. */
#include "tests/unit/front_models.h"

#include "frontends/dl/elab.h"
#include "frontends/dl/hints.h"
#include "ir/base/input.h"

#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/unit/amp_functions.h"

const dl_axis_size cube[4] = {{"N", 2}, {"D", 64}, {"H", 64}, {"W", 64}};

built build_text(const char *name, const char *text, size_t n, const dl_argument *args, int nargs,
                 const dl_axis_size *sizes, int nsizes) {
    built b = {.arena = dl_arena_new(NULL)};
    dl_source *s = dl_source_new(b.arena, name, text, n);
    dl_model_config config = {args, nargs, sizes, nsizes, false};
    b.diags = dl_diags_new(b.arena, s);
    b.model = dl_model_parse(b.arena, s, b.diags);
    if (b.model) b.module = dl_model_build(b.arena, b.model, &config, b.diags);
    return b;
}

static void show(const built *b) {
    dl_buf out = {0};
    dl_diags_print(&out, b->diags, false);
    if (out.at) fputs(out.at, stdout);
    dl_buf_free(&out);
}

char *read_model(dl_arena *arena, const char *name, size_t *n) {
    dl_error err = {0};
    char *text = dl_read_file(arena, dl_format(arena, "models/%s", name), 1 << 20, n, &err);
    CHECK(text, "%s", err.message);
    return text;
}

static built build_model(const char *name, const dl_argument *args, int nargs) {
    dl_arena *arena = dl_arena_new(NULL);
    size_t n = 0;
    char *text = read_model(arena, name, &n);
    built b = build_text(name, text ? text : "", n, args, nargs, cube, 4);
    dl_arena_free(arena);
    if (!b.module) show(&b);
    return b;
}

/* Running means and variances: Keras counts them among a model's parameters, PyTorch and we do not.
 */
static int64_t count_statistics(const dl_graph *g) {
    int64_t n = 0;
    for (int i = 0; i < g->vars.n; i++)
        if (strstr(g->vars.at[i]->name, ".running_"))
            n += dl_type_count(&g->vars.at[i]->value.type);
    return n;
}

/* The IR's text reads back: names with blanks and brackets in them too. */
static void check_round_trip(const built *b, const char *name) {
    dl_buf once = {0}, twice = {0};
    dl_error err = {0};
    dl_print_module(&once, b->module, (dl_print_options){.locations = true});
    dl_module *again = dl_parse_module(b->arena, once.at, once.n, name, &err);
    CHECK(again, "%s", err.message);
    if (again) dl_print_module(&twice, again, (dl_print_options){.locations = true});
    CHECK(again && strcmp(once.at, twice.at) == 0, "%s: printed and parsed text differ", name);
    dl_buf_free(&once), dl_buf_free(&twice);
}

static void check_model(const char *name, const dl_argument *args, int nargs, int64_t parameters,
                        int64_t statistics) {
    built b = build_model(name, args, nargs);
    CHECK(b.module, "%s does not build", name);
    for (int i = 0; b.module && i < b.module->graphs.n; i++) {
        const dl_graph *g = b.module->graphs.at[i];
        dl_error err = {0};
        CHECK(dl_count_parameters(g) == parameters, "%s: %lld parameters", name,
              (long long)dl_count_parameters(g));
        CHECK(count_statistics(g) == statistics, "%s: %lld statistics", name,
              (long long)count_statistics(g));
        CHECK(dl_validate(g, DL_STAGE_TENSOR, &err), "%s: %s", name, err.message);
        CHECK(dl_graph_find_result(g, DL_RESULT_LOSS, "loss"), "%s has a loss", name);
        CHECK(!dl_graph_find_result(g, DL_RESULT_OUTPUT, NULL) == (i == 0),
              "%s has an output where it is evaluated, and none in training", name);
    }
    if (b.module) check_round_trip(&b, name);
    dl_arena_free(b.arena);
}

static dl_setting set_int(int64_t i) { return (dl_setting){.kind = DL_SET_INT, .i = i}; }
static dl_setting set_bool(bool v) { return (dl_setting){.kind = DL_SET_BOOL, .b = v}; }

static void test_models(void) {
    check_model("unet.dl", NULL, 0, 116977029, 0);
    check_model("vit.dl", NULL, 0, 23832960, 0);
    check_model("vit.dl", (dl_argument[]){{"embed_dim", set_int(1024)}}, 1, 157926400, 0);
    check_model("resnet.dl", NULL, 0, 23792612 - 2 * 26560, 2 * 26560);
    const dl_setting twos[] = {set_int(2), set_int(2), set_int(2), set_int(2)};
    const dl_setting list = {.kind = DL_SET_LIST, .list = {twos, 4}};
    check_model("resnet.dl",
                (dl_argument[]){{"small", set_bool(true)},
                                {"depths", list},
                                {"strides", list},
                                {"expand", set_int(1)},
                                {"n_classes", set_int(10)}},
                5, 7704394 - 2 * 6784, 2 * 6784);
    check_model("cnn_classifier.dl", NULL, 0, 156074, 0);
    check_model("convnext.dl", NULL, 0, 2878592,
                0); /* these two as tests/e2e/oracle_examples.py has them */
    check_model("resunet.dl", NULL, 0, 12624773, 0);
    check_model("cnn_regressor.dl", NULL, 0, (9 + 1) * 64 + 3 * (64 * 9 + 1) * 64 + 64 * 9 + 1, 0);
}

void check_type(const dl_graph *g, const char *name, const char *type) {
    const dl_var *v = dl_graph_find_var(g, name);
    CHECK(v, "there is %s", name);
    if (v) CHECK_STR(dl_type_text(&v->value.type), type);
}

static void test_names(void) {
    built b = build_model(
        "unet.dl", (dl_argument[]){{"full_scale", set_bool(false)}, {"not_ours", set_int(3)}}, 2);
    if (!b.module) return;
    const dl_graph *g = dl_module_graph(b.module, "train");
    check_type(g, "x", "f32[N=2, C=4, D=64, H=64, W=64]");
    check_type(g, "conv_down1.0.weight", "f32[O=64, C=4, kD=4, kH=4, kW=4]");
    check_type(g, "conv_up5.0.weight", "f32[O=512, C=512, kD=4, kH=4, kW=4]");
    check_type(g, "conv_last.weight", "f32[O=128, C=5, kD=4, kH=4, kW=4]");
    check_type(g, "conv_last.bias", "f32[C=5]");
    CHECK(!dl_graph_find_var(g, "conv_down6.0.weight"), "five levels when not full_scale");
    const dl_var *w = dl_graph_find_var(g, "conv_up2.0.weight");
    CHECK(w && w->init.kind == DL_INIT_NORMAL && w->init.b == 0.02, "init rule");
    const dl_var *bias = dl_graph_find_var(g, "conv_up2.0.bias");
    CHECK(bias && bias->init.kind == DL_INIT_ZERO, "bias rule");
    for (int i = 0; i < g->nodes.n; i++) {
        CHECK(g->nodes.at[i]->loc.line > 0 && strcmp(g->nodes.at[i]->loc.file, "unet.dl") == 0,
              "node %d has a place", i);
        /* lambda_rho is 0: its term is not computed. */
        CHECK(g->nodes.at[i]->op != DL_OP_exp, "exp is left out");
    }
    dl_arena_free(b.arena);
    b = build_model("unet.dl", (dl_argument[]){{"lambda_rho", {.kind = DL_SET_FLOAT, .f = 0.1}}},
                    1);
    bool exp = false;
    for (int i = 0; b.module && i < b.module->graphs.at[0]->nodes.n; i++)
        exp |= b.module->graphs.at[0]->nodes.at[i]->op == DL_OP_exp;
    CHECK(exp, "exp is there when lambda_rho is not 0");
    dl_arena_free(b.arena);

    b = build_model("vit.dl", NULL, 0);
    if (!b.module) return;
    g = dl_module_graph(b.module, "train");
    check_type(g, "blocks.3.attn.q.weight", "f32[O=384, E=384]");
    check_type(g, "patch_embed.proj.weight", "f32[O=384, C=20, kH=8, kW=8]");
    check_type(g, "pos_embed", "f32[1, T=4050, E=384]");
    check_type(g, "blocks.11.mlp.fc1.bias", "f32[E=1536]");
    CHECK(!dl_graph_find_var(g, "head.bias"), "the head has no bias");
    CHECK(dl_graph_find_result(g, DL_RESULT_METRIC, "RMSE(u10m)"), "metric");
    CHECK(dl_graph_find_result(dl_module_graph(b.module, "eval"), DL_RESULT_FIGURE,
                               "Visualization, t2m/1"),
          "second panel");
    dl_arena_free(b.arena);

    b = build_model("resnet.dl", NULL, 0);
    if (!b.module) return;
    g = dl_module_graph(b.module, "train");
    check_type(g, "layer1.0.a.conv.weight", "f32[O=64, C=64, kH=1, kW=1]");
    check_type(g, "layer2.0.shortcut.bn.running_var", "f32[C=512]");
    check_type(g, "fc.weight", "f32[O=100, C=2048]");
    CHECK(dl_graph_find_result(g, DL_RESULT_UPDATE, "bn1.running_mean"),
          "statistics move in training");
    CHECK(!dl_graph_find_result(dl_module_graph(b.module, "eval"), DL_RESULT_UPDATE, NULL),
          "and not in evaluation");
    w = dl_graph_find_var(g, "conv1.weight");
    CHECK_NEAR(w->init.b, sqrt(2.0 / (3 * 49)) / 0.87962566103423978, 1e-12);
    dl_arena_free(b.arena);
}

static bool is_parameter(const char *name) {
    for (int i = 0; i < dl_builtin_count(); i++)
        for (int k = 0; k < DL_MAX_PARAMS && dl_builtin_at(i)->params[k].name; k++)
            if (strcmp(dl_builtin_at(i)->params[k].name, name) == 0) return true;
    return false;
}

/* A new function has a row in the table of what mixed precision makes of each. */
static void test_amp_table(void) {
    for (int i = 0; i < dl_builtin_count(); i++) {
        bool found = false;
        for (int k = 0; k < amp_nfunctions; k++)
            found |= strcmp(amp_functions[k].name, dl_builtin_at(i)->name) == 0;
        CHECK(found, "%s has no row in tests/unit/amp_functions.h", dl_builtin_at(i)->name);
    }
}

/* Has a function both parameters? Then one word is no alias of the other there. */
static bool has_both(const char *a, const char *b) {
    for (int i = 0; i < dl_builtin_count(); i++) {
        int found = 0;
        for (int k = 0; k < DL_MAX_PARAMS && dl_builtin_at(i)->params[k].name; k++) {
            const char *name = dl_builtin_at(i)->params[k].name;
            found += strcmp(name, a) == 0 || strcmp(name, b) == 0;
        }
        if (found == 2) return true;
    }
    return false;
}

/* Every row of hints.def can be reached, and names what there is. */
static void test_hints(void) {
    static const struct {
        dl_hint_kind kind;
        const char *word, *help, *ours;
    } rows[] = {
#define HINT(kind, word, help)  {DL_HINT_##kind, word, help, NULL},
#define ALIAS(kind, word, ours) {DL_HINT_##kind, word, NULL, ours},
#include "frontends/dl/hints.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *word = rows[i].word, *ours = rows[i].ours;
        CHECK_STR(rows[i].help ? dl_hint_find(rows[i].kind, word, strlen(word))
                               : dl_hint_alias(rows[i].kind, word),
                  rows[i].help ? rows[i].help : ours); /* no other row of its kind has the word */
        if (rows[i].kind == DL_HINT_CALL) {
            CHECK(!dl_builtin_find(word), "%s is a function here", word);
            CHECK(!dl_hint_find(DL_HINT_CALL, word, strlen(word)) == !!ours, "%s has two rows",
                  word);
            CHECK(!ours || dl_builtin_find(ours), "%s for %s", ours, word);
        } else if (rows[i].kind == DL_HINT_ARGUMENT) {
            CHECK(!ours || is_parameter(ours), "%s for %s", ours, word);
            CHECK(ours ? !has_both(word, ours) : !is_parameter(word), "%s is an argument here",
                  word);
        }
    }
    CHECK(!dl_hint_find(DL_HINT_SIGN, "&&&", 3) && !dl_hint_find(DL_HINT_WORD, "whil", 4) &&
              !dl_hint_find(DL_HINT_CALL, "while", 5) && !dl_hint_alias(DL_HINT_CALL, "dim"),
          "whole words of a kind");
}

static void test_arguments(void) {
    built b = build_model("vit.dl", NULL, 0);
    int n = 0;
    const dl_argument *a = b.model ? dl_model_arguments(b.model, &n) : NULL;
    CHECK(n == 8, "ViT has %d arguments", n);
    if (n == 8) {
        CHECK_STR(a[4].name, "embed_dim");
        CHECK(a[4].value.kind == DL_SET_INT && a[4].value.i == 384, "its default");
        CHECK(a[7].value.kind == DL_SET_FLOAT && a[7].value.f == 0, "dropout's default");
        CHECK_STR(dl_model_name(b.model), "ViT");
    }
    dl_arena_free(b.arena);
    /* D, H and W are open in the U-Net: it has the argument that sizes them, at the place of the
     * first. */
    b = build_model("unet.dl", NULL, 0);
    a = b.model ? dl_model_arguments(b.model, &n) : NULL;
    CHECK(n == 7 && a, "the U-Net has %d arguments", n);
    if (n == 7 && a) {
        CHECK_STR(a[6].name, "data_size");
        CHECK(a[6].value.kind == DL_SET_INT && a[6].value.i == 64, "its default");
        dl_span at = dl_model_argument_place(b.model, 6),
                first = dl_model_argument_place(b.model, 0);
        CHECK(at.end == at.begin + 1 && first.end > first.begin && at.begin > first.end,
              "their places");
    }
    dl_arena_free(b.arena);
    const char *text =
        "model M():\n    input x: f32[N, C=2, H, W=3]\n    y = x |> conv(2, 1) @c\n    output y\n"
        "    loss = mean(y**2)\n";
    b = build_text("m.dl", text, strlen(text), (dl_argument[]){{"data_size", set_int(5)}}, 1, cube,
                   1);
    const dl_var *x = b.module ? dl_graph_find_var(b.module->graphs.at[0], "x") : NULL;
    CHECK(x && x->value.type.axis[2].size == 5 && x->value.type.axis[3].size == 3,
          "data_size sizes what is open");
    dl_arena_free(b.arena);
    b = build_model("vit.dl", (dl_argument[]){{"dropout", set_int(0)}}, 1);
    CHECK(b.module, "a whole number serves as a number");
    dl_arena_free(b.arena);
}

/* @{""} adds nothing to the names of what it is around. */
static void test_no_label(void) {
    const char *text = "module Net()(x):\n    param p: [E=4] = 0\n"
                       "    return x * p |> linear(4) @a |> batch_norm @b\n"
                       "model M():\n    input x: f32[N, E=4]\n    net = Net() @{\"\"}\n"
                       "    other = linear(4) @c\n    y = other(net(net(x)))\n    output y\n"
                       "    loss = mean(y**2) + sum_squares(net.weight) + sum_squares(net.p)\n";
    built b = build_text("m.dl", text, strlen(text), NULL, 0, cube, 1);
    const dl_graph *g = b.module ? dl_module_graph(b.module, "train") : NULL;
    if (g) {
        check_type(g, "p", "f32[E=4]");
        check_type(g, "a.weight", "f32[O=4, E=4]");
        check_type(g, "b.running_mean", "f32[E=4]");
        int squares = 0;
        for (int i = 0; i < g->nodes.n; i++) squares += g->nodes.at[i]->op == DL_OP_sum;
        CHECK(squares == 3, "the weights of a and b and p, not that of c: %d sums", squares);
    }
    CHECK(g, "a module without a name of its own");
    dl_arena_free(b.arena);
}

/* An argument that is none where none is its default is left out. */
static void test_none(void) {
    const char *text =
        "model M():\n    input x: f32[N, T=3, E=4]\n    k = x as [N, S, E]\n"
        "    y = attention(x, k, k, 2, mask=none, bias=none, kv_heads=none) |> linear(4) @a\n"
        "    y = clamp(rfft(y, over=T, norm=none, modes=none), min=0, max=none)\n"
        "    output y\n    loss = mean(y**2)\n";
    built b = build_text("m.dl", text, strlen(text), NULL, 0, cube, 1);
    const dl_graph *g = b.module ? dl_module_graph(b.module, "train") : NULL;
    const dl_node *found = NULL;
    for (int i = 0; g && i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == DL_OP_attention) found = g->nodes.at[i];
    CHECK(found && found->nin == 3, "attention without mask and bias");
    dl_arena_free(b.arena);
}

/* A text that must fail with this code. */
static void check_fault(const char *text, const dl_argument *args, int nargs, int nsizes,
                        const char *code) {
    built b = build_text("m.dl", text, strlen(text), args, nargs, cube, nsizes);
    CHECK(!b.module && b.diags->errors > 0, "must fail: %s", text);
    bool found = false;
    for (int i = 0; i < b.diags->list.n; i++)
        found |= strcmp(dl_diag_code(b.diags->list.at[i]->id), code) == 0;
    CHECK(found, "must say %s", code);
    if (!found) show(&b);
    dl_arena_free(b.arena);
}

static void test_configuration_faults(void) {
    const char *text =
        "model M(width=8, bias=true, k):\n    input x: f32[N, C=3, H, W]\n"
        "    y = x |> conv(width, k, bias=bias) @a\n    output y\n    loss = mean(y)\n";
    const dl_setting word = {.kind = DL_SET_STRING, .s = "wide"};
    check_fault(text, NULL, 0, 4, "DL-E0602");
    check_fault(text, (dl_argument[]){{"k", set_int(3)}, {"width", word}}, 2, 4, "DL-E0601");
    check_fault(text, (dl_argument[]){{"k", set_int(3)}, {"bias", set_int(1)}}, 2, 4, "DL-E0601");
    check_fault(text, (dl_argument[]){{"k", set_int(3)}, {"width", set_int(0)}}, 2, 4, "DL-E0307");
    check_fault(text, (dl_argument[]){{"k", set_int(65)}}, 1, 4, "DL-E0205");
    check_fault(text, (dl_argument[]){{"k", set_int(3)}}, 1, 1, "DL-E0211");
    check_fault("model M():\n    input x: f32[N=8, C=3]\n    output x\n    loss = mean(x)\n", NULL,
                0, 4, "DL-E0601");
    built b =
        build_text("m.dl", text, strlen(text), (dl_argument[]){{"k", set_int(3)}}, 1, cube, 4);
    CHECK(b.module, "builds with the argument given");
    if (!b.module) show(&b);
    dl_arena_free(b.arena);
}

static dl_setting set_list(const dl_setting *items, int n) {
    return (dl_setting){.kind = DL_SET_LIST, .list = {items, n}};
}

/* data_size as a list: of a model that does not declare it, of one that declares a number, and of
 * one whose default is a list, which takes a number as well. */
static void test_several_sizes(void) {
    static const char *const rest =
        "    y = x |> conv(2, 1) @c\n    output y\n    loss = mean(y**2)\n";
    const dl_setting sizes[] = {set_int(6), set_int(4), set_int(5), set_int(7)};
    static const struct {
        const char *arguments, *axes;
        int from, n; /* of `sizes`; n = 0: a number, -1: not given */
        int64_t want[3];
        const char *fault;
    } cases[] = {{"", "H, W", 1, 2, {4, 5}, NULL},
                 {"", "D, H, W", 0, 3, {6, 4, 5}, NULL},
                 {"", "H, W", 0, 3, {4, 5}, NULL},
                 {"", "H, W=3", 1, 2, {4, 3}, NULL},
                 {"data_size=8", "H, W", 1, 2, {4, 5}, NULL},
                 {"data_size=[4, 9]", "H, W", 0, -1, {4, 9}, NULL},
                 {"data_size=[4, 9]", "H, W", 0, 0, {6, 6}, NULL},
                 {"", "D, H, W", 1, 2, {0}, "DL-E0211"},
                 {"", "H, W", 1, 1, {0}, "DL-E0211"},
                 {"", "D, H, W", 0, 4, {0}, "DL-E0211"},
                 {"data_size=[4, 0]", "H, W", 0, -1, {0}, "DL-E0214"},
                 {"data_size=[4, 0.5]", "H, W", 0, -1, {0}, "DL-E0601"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        snprintf(text, sizeof text, "model M(%s):\n    input x: f32[N, C=2, %s]\n%s",
                 cases[i].arguments, cases[i].axes, rest);
        const dl_setting *from = &sizes[cases[i].from];
        dl_argument given = {"data_size", cases[i].n > 0 ? set_list(from, cases[i].n) : *from};
        if (cases[i].fault) {
            check_fault(text, &given, cases[i].n >= 0, 1, cases[i].fault);
            continue;
        }
        built b = build_text("m.dl", text, strlen(text), &given, cases[i].n >= 0, cube, 1);
        const dl_var *x = b.module ? dl_graph_find_var(b.module->graphs.at[0], "x") : NULL;
        CHECK(x, "%s", text);
        if (!x) show(&b);
        for (int k = 2; x && k < x->value.type.rank; k++)
            CHECK(x->value.type.axis[k].size == cases[i].want[k - 2], "%s: %s", text,
                  dl_type_text(&x->value.type));
        dl_arena_free(b.arena);
    }
}

static void test_explanations(void) {
    dl_buf out = {0};
    CHECK(dl_diag_explain(&out, "DL-E0201") && strstr(out.at, "axis_mismatch"), "explains a code");
    CHECK(dl_diag_explain(&out, "E0105") && dl_diag_explain(&out, "syntax"), "in short forms");
    CHECK(!dl_diag_explain(&out, "DL-E9999"), "knows no other");
    dl_buf_free(&out);
    for (int i = 0; i < DL_NDIAGS; i++)
        for (int k = 0; k < i; k++)
            CHECK(dl_diag_code((dl_diag_id)i) != dl_diag_code((dl_diag_id)k), "codes are unique");
    /* The names that shape rules use. */
    static const char *const shape[] = {"axis_mismatch", "missing_axis", "duplicate_axis",
                                        "bad_stride",    "bad_window",   "rank_mismatch",
                                        "type_mismatch", "bad_range",    "channel_mismatch",
                                        "wrong_arity",   "too_large"};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        CHECK(dl_diag_find(shape[i]) >= 0, "%s", shape[i]);
}

/* An error after more warnings than are kept is kept and printed. */
static void test_many_warnings(void) {
    dl_buf text = {0}, out = {0};
    dl_puts(&text, "model M():\n    input x: f32[N, C=4, T=3]\n    target t: f32[N, D=4, T=3]\n");
    for (int i = 0; i < 100 * DL_DIAG_SHOWN; i++) dl_puts(&text, "    y = x - t\n");
    dl_puts(&text, "    loss = mean(x |> linaer(4))\n");
    built b = build_text("m.dl", text.at, text.n, NULL, 0, cube, 4);
    dl_diags_print(&out, b.diags, false);
    CHECK(b.diags->warnings > 50 * DL_DIAG_SHOWN, "%d warnings", b.diags->warnings);
    CHECK(strstr(out.at, "error: there is no layer, function or module 'linaer'"), "%s", out.at);
    CHECK(strstr(out.at, "more warnings not shown"), "%s", out.at);
    dl_arena_free(b.arena);
    dl_buf_free(&text), dl_buf_free(&out);
}

int main(int argc, char **argv) {
    if (argc > 2) mutation_state = strtoull(argv[2], NULL, 10) * 2654435769u + 1;
    if (argc < 2) {
        test_models();
        test_names();
        test_results();
        test_hints();
        test_amp_table();
        test_arguments();
        test_none();
        test_no_label();
        test_configuration_faults();
        test_several_sizes();
        test_explanations();
        test_many_warnings();
        test_hostile();
    }
    test_mutations(argc > 1 ? atol(argv[1]) : 200);
    return dl_test_end();
}

/* The IR's text: printer and parser are exact inverses, and the parser survives and locates
 * whatever is wrong. */
#include "tests/unit/text_module.h"

#include "tests/check.h"

static char *print(dl_arena *arena, const dl_module *m, bool locations) {
    dl_buf b = {0};
    dl_print_module(&b, m, (dl_print_options){.locations = locations});
    char *s = dl_strdup(arena, b.at ? b.at : "");
    dl_buf_free(&b);
    return s;
}

dl_module *parse(dl_arena *arena, const char *text, dl_error *err) {
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

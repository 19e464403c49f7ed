/* NAME.c: the kernels of each CPU as the compiler emits them, and the program that calls them. */
#include "exports/c/c_network.h"

/* ---- the head of the file ---- */

static void put_head(dl_buf *b, const dl_c_network *c) {
    dl_putf(b,
            "/* %s as freestanding C: dlc %s wrote it.\n"
            " * It needs memcpy, memset and functions of libm, and allocates nothing. */\n"
            "#include \"%s.h\"\n\n"
            "#if !defined __GNUC__ || !defined __SIZEOF_LONG__ || __SIZEOF_LONG__ != 8\n"
            "#error \"the kernels use GNU C's vectors and a long of 64 bits: GCC 12 or Clang 14, "
            "or later\"\n"
            "#endif\n"
            "#define ALONE __attribute__((noinline)) /* not compiled with other functions' "
            "options */\n",
            c->of->name, DL_VERSION, c->name);
}

void dl_c_put_parameters(dl_buf *b, const dl_c_network *c) {
    for (int i = 0; i < c->n_inputs; i++)
        dl_putf(b, "const %s *%s, ", dl_c_type(c->input[i].type.dtype), c->input[i].id);
    for (int i = 0; i < c->n_outputs; i++)
        dl_putf(b, "%s *%s, ", dl_c_type(c->output[i].type.dtype), c->output[i].id);
    dl_puts(b, "void *work");
}

/* ---- the function that a caller sees ---- */

static void put_place(dl_buf *b, const dl_c_network *c, const dl_c_variant *v, int64_t offset) {
    bool constant;
    int64_t at = dl_c_place(v, offset, &constant);
    if (constant)
        dl_putf(b, "%s_weights_%s + %lldL", c->name, v->name, (long long)at);
    else
        dl_putf(b, "at_ + %lldL", (long long)at);
}

static void put_predict(dl_buf *b, const dl_c_network *c, const dl_c_variant *v) {
    dl_putf(b, "static void %s_run(char *work);\n\nint %s_predict(", c->name, c->name);
    dl_c_put_parameters(b, c);
    dl_puts(b, ") {\n    char *at_ = (char *)(((uintptr_t)work + 63) & ~(uintptr_t)63);\n");
    for (int i = 0; i < c->n_inputs; i++) {
        const dl_c_array *a = &c->input[i];
        dl_putf(b, "    %s_take_%s(%s, (%s *)(", c->name, a->id, a->id,
                dl_c_stored_type(a->type.dtype));
        put_place(b, c, v, dl_c_input_var(v, a)->offset);
        dl_puts(b, "));\n");
    }
    dl_putf(b, "    %s_run(at_);\n", c->name);
    for (int i = 0; i < c->n_outputs; i++) {
        const dl_c_array *a = &c->output[i];
        dl_putf(b, "    %s_give_%s((const %s *)(", c->name, a->id, dl_c_stored_type(a->type.dtype));
        put_place(b, c, v, v->program->results.at[i].offset);
        dl_putf(b, "), %s);\n", a->id);
    }
    dl_puts(b, "    return 0;\n}\n");
}

/* ---- kernels, and their calls ---- */

/* The kernels are written without a storage class; after these declarations they are static. */
static void put_declarations(dl_buf *b, const dl_plan *p) {
    for (int i = 0; i < p->kernels.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[i];
        bool again = false;
        for (int j = 0; j < i; j++) again |= p->kernels.at[j].symbol == k->symbol;
        for (int phase = 0; phase < k->phases && !again; phase++)
            dl_putf(b,
                    "static ALONE void %s_%d(char *const *arg, long item, char *scratch, char "
                    "*workspace);\n",
                    k->symbol, phase);
    }
}

static void put_launch(dl_buf *b, const dl_c_variant *v, const dl_plan_launch *l) {
    const dl_plan_kernel *k = &v->plan->kernels.at[l->kernel];
    dl_putf(b, "    { /* %s */\n        char *const arg[] = {", k->where);
    for (int a = 0; a < l->nargs; a++) {
        bool constant;
        int64_t at = dl_c_place(v, l->args[a], &constant);
        dl_putf(b, "%s%s + %lldL", a ? ", " : "", constant ? "weights" : "work", (long long)at);
    }
    dl_puts(b, "};\n");
    for (int phase = 0; phase < k->phases; phase++) {
        if (k->items[phase] == 1)
            dl_putf(b, "        %s_%d(arg, 0, scratch, workspace);\n", k->symbol, phase);
        else
            dl_putf(b,
                    "        for (long item = 0; item < %lldL; item++) %s_%d(arg, item, scratch, "
                    "workspace);\n",
                    (long long)k->items[phase], k->symbol, phase);
    }
    dl_puts(b, "    }\n");
}

static void put_run(dl_buf *b, const dl_c_network *c, const dl_c_variant *v) {
    dl_putf(b,
            "\n/* Kernel after kernel; weights are constants, which no kernel writes. */\n"
            "static void %s_run(char *work) {\n"
            "    char *const weights = (char *)%s_weights_%s, *const workspace = work + %lldL,\n"
            "               *const scratch = work + %lldL;\n"
            "    (void)weights, (void)workspace, (void)scratch;\n",
            c->name, c->name, v->name, (long long)v->workspace, (long long)v->scratch);
    for (int i = 0; i < v->program->launches.n; i++) put_launch(b, v, &v->program->launches.at[i]);
    dl_puts(b, "}\n");
}

/* `dlrun` compiles its kernels with these options: the same numbers come of the same code. Products
 * and sums outside kernels are rounded one by one. */
static void put_variant(dl_buf *b, const dl_c_network *c, const dl_c_variant *v) {
    dl_putf(b,
            "extern const char %s_weights_%s[] __attribute__((visibility(\"hidden\")));\n"
            "#ifdef __clang__\n#pragma clang fp contract(off)\n"
            "#else\n#pragma GCC push_options\n#pragma GCC optimize(\"fp-contract=off\")\n#endif\n",
            c->name, v->name);
    dl_c_put_arrays(b, c, v);
    put_predict(b, c, v);
    dl_puts(
        b,
        "#ifndef __clang__\n#pragma GCC pop_options\n"
        "#pragma GCC optimize(\"Og\", \"no-math-errno\", \"no-trapping-math\", "
        "\"fp-contract=fast\")\n"
        "#endif\n"
        "#pragma GCC diagnostic ignored \"-Wpedantic\"\n"
        "#ifndef __clang__\n#pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"\n#endif\n\n");
    put_declarations(b, v->plan);
    for (int i = 0; i < v->plan->objects.n; i++) dl_puts(b, v->plan->objects.at[i].source);
    put_run(b, c, v);
}

void dl_c_put_source(dl_buf *b, const dl_c_network *c) {
    put_head(b, c);
    dl_c_put_statistics(b, c);
    for (int i = 0; i < c->n_variants; i++) {
        const dl_c_variant *v = &c->variant[i];
        dl_puts(b, "\n");
        if (v->condition) dl_putf(b, "#%s %s\n", i ? "elif" : "if", v->condition);
        if (!v->condition && i) dl_puts(b, "#else\n");
        dl_putf(b, "/* ---- %s ---- */\n", v->target->name);
        put_variant(b, c, v);
    }
    const dl_c_variant *last = &c->variant[c->n_variants - 1];
    if (last->condition)
        dl_putf(b, "#else\n#error \"compile for %s: -march=native, or a -m option\"\n",
                last->target->name);
    if (c->variant[0].condition) dl_puts(b, "#endif\n");
}

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

/* An argument's place: in the weights or not, and how far from their beginning. */
static int64_t place(const dl_c_variant *v, int launch, int arg, bool *constant) {
    return dl_c_place(v, v->program->launches.at[launch].args[arg], constant);
}

/* Is launch b what launch a becomes after `rounds` rounds, if its arguments advance with each round
 * as from a to `next`? */
static bool continues(const dl_c_variant *v, int a, int next, int b, int rounds) {
    const dl_plan_launch *first = &v->program->launches.at[a], *l = &v->program->launches.at[b];
    if (l->kernel != first->kernel || l->nargs != first->nargs) return false;
    for (int i = 0; i < l->nargs; i++) {
        bool in_first, in_next, in_last;
        int64_t from = place(v, a, i, &in_first), step = place(v, next, i, &in_next) - from;
        if (place(v, b, i, &in_last) != from + rounds * step || in_first != in_last) return false;
    }
    return true;
}

/* How many rounds of `length` launches from `first` on are alike: the steps of a scan. */
static int count_rounds(const dl_c_variant *v, int first, int length) {
    for (int k = 1;; k++)
        for (int i = 0; i < length; i++) {
            int at = first + i, b = at + k * length;
            if (b >= v->program->launches.n || !continues(v, at, at + length, b, k)) return k;
        }
}

/* The length of the rounds at `first` that a loop says in the fewest launches; 1: there is none. */
static int best_round(const dl_c_variant *v, int first, int *count) {
    enum { LONGEST = 64, FEWEST = 3 };
    int best = 1;
    *count = 1;
    for (int length = 1; length <= LONGEST; length++) {
        int n = count_rounds(v, first, length);
        if (n >= FEWEST && (n - 1) * length > (*count - 1) * best) best = length, *count = n;
    }
    return best;
}

/* The launch; `next`: the same one in the next round of a loop over `round`, or -1. */
static void put_launch(dl_buf *b, const dl_c_variant *v, int launch, int next) {
    const dl_plan_launch *l = &v->program->launches.at[launch];
    const dl_plan_kernel *k = &v->plan->kernels.at[l->kernel];
    dl_putf(b, "    { /* %s */\n        char *const arg[] = {", k->where);
    for (int a = 0; a < l->nargs; a++) {
        bool constant;
        int64_t at = place(v, launch, a, &constant),
                step = next < 0 ? 0 : place(v, next, a, &constant) - at;
        dl_putf(b, "%s%s + %lldL", a ? ", " : "", constant ? "weights" : "work", (long long)at);
        if (step) dl_putf(b, " + round * %lldL", (long long)step);
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

/* All launches; those of a scan's steps as a loop. */
static void put_launches(dl_buf *b, const dl_c_variant *v) {
    for (int i = 0, count; i < v->program->launches.n;) {
        const int length = best_round(v, i, &count);
        if (count > 1) dl_putf(b, "    for (long round = 0; round < %d; round++) {\n", count);
        for (int k = i; k < i + length; k++) put_launch(b, v, k, count > 1 ? k + length : -1);
        if (count > 1) dl_puts(b, "    }\n");
        i += length * count;
    }
}

static void put_run(dl_buf *b, const dl_c_network *c, const dl_c_variant *v) {
    dl_putf(b,
            "\n/* Kernel after kernel; weights are constants, which no kernel writes. */\n"
            "static void %s_run(char *work) {\n"
            "    char *const weights = (char *)%s_weights_%s, *const workspace = work + %lldL,\n"
            "               *const scratch = work + %lldL;\n"
            "    (void)weights, (void)workspace, (void)scratch;\n",
            c->name, c->name, v->name, (long long)v->workspace, (long long)v->scratch);
    put_launches(b, v);
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
        "#pragma GCC diagnostic ignored \"-Wunused-parameter\"\n"
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

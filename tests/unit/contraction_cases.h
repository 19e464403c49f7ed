/* Contractions of every family over odd shapes, and sums next to which something else is read, as
 * graphs with their gradients: what tests of compiled kernels share. */
#ifndef DL_CONTRACTION_CASES_H
#define DL_CONTRACTION_CASES_H
#include "compiler/compile.h"
#include "ir/builder.h"
#include "ir/text/text.h"
#include "passes/pass.h"
#include "tests/check.h"
#include "tests/unit/contraction_table.h"

/* Losses whose last kernel reduces a volume and after that reads elements of something else, or of
 * another size. */
static const char *const sums[] = {
    /* an element of a parameter */
    "param $p = %0 : f32[P=2]\n  param $y = %1 : f32[N=2, K=5, T=1]\n"
    "  %2 = slice $p {axis=P, start=0, stop=1} : f32[P=1]\n  %3 = squeeze %2 {axis=P} : "
    "f32[]\n"
    "  %4 = mean $y {over=[N, K, T]} : f32[]\n  %5 = mul %4, %3 : f32[]\n  %6 = add %5, %3 "
    ": f32[]\n",
    /* of a long one */
    "param $p = %0 : f32[P=200003]\n  param $y = %1 : f32[N=2, K=5, T=1]\n"
    "  %2 = slice $p {axis=P, start=1, stop=2} : f32[P=1]\n  %3 = squeeze %2 {axis=P} : "
    "f32[]\n"
    "  %4 = sum $y {over=[N, K, T]} : f32[]\n  %6 = mul %4, %3 : f32[]\n",
    /* learned weights of three reductions */
    "param $w = %0 : f32[K=3]\n  param $y = %1 : f32[N=2, C=4, H=8, W=8]\n"
    "  %2 = slice $w {axis=K, start=0, stop=1} : f32[K=1]\n  %3 = squeeze %2 {axis=K} : "
    "f32[]\n"
    "  %4 = slice $w {axis=K, start=2, stop=3} : f32[K=1]\n  %5 = squeeze %4 {axis=K} : "
    "f32[]\n"
    "  %7 = mul $y, $y : f32[N=2, C=4, H=8, W=8]\n  %8 = mean %7 {over=[N, C, H, W]} : "
    "f32[]\n"
    "  %9 = abs $y : f32[N=2, C=4, H=8, W=8]\n  %10 = reduce_max %9 {over=[N, C, H, W]} : "
    "f32[]\n"
    "  %11 = mul %3, %8 : f32[]\n  %12 = mul %5, %10 : f32[]\n  %6 = add %11, %12 : "
    "f32[]\n",
    "param $y = %0 : f32[N=2, C=4, H=8, W=8]\n" /* the same volume by channel, and whole */
    "  %1 = mean $y {over=[N, H, W]} : f32[C=4]\n  %2 = slice %1 {axis=C, start=1, stop=2} "
    ": f32[C=1]\n"
    "  %3 = squeeze %2 {axis=C} : f32[]\n  %4 = abs $y : f32[N=2, C=4, H=8, W=8]\n"
    "  %5 = mean %4 {over=[N, C, H, W]} : f32[]\n  %6 = add %3, %5 : f32[]\n",
    /* mean(..) + v[N=0] */
    "param $y = %0 : f32[N=2, C=2, T=4]\n  param $v = %1 : f32[N=2]\n"
    "  %2 = tanh $v : f32[N=2]\n  %3 = slice %2 {axis=N, start=0, stop=1} : f32[N=1]\n"
    "  %4 = squeeze %3 {axis=N} : f32[]\n  %5 = mean $y {over=[N, C, T]} : f32[]\n  %6 = "
    "add %5, %4 : "
    "f32[]\n",
    /* two reductions, one of coordinates */
    "param $y = %0 : f32[N=2, C=2, T=4]\n  %1 = iota {axis=T} : f32[T=4]\n"
    "  %2 = pad %1 {axis=T, pad_lo=[2], pad_hi=[1]} : f32[T=7]\n  %3 = sum %2 {over=[T]} : "
    "f32[]\n"
    "  %4 = sum %1 {over=[T]} : f32[]\n  %5 = mean $y {over=[N, C, T]} : f32[]\n  %7 = mul "
    "%3, %4 : f32[]\n"
    "  %6 = mul %5, %7 : f32[]\n",
    /* a weight, and a part of it */
    "param $w = %0 : f32[O=16, C=2, kW=3]\n  input $x = %1 : f32[N=2, C=2, W=9]\n"
    "  %2 = conv $x, $w {stride=[1], pad_lo=[1], pad_hi=[1]} : f32[N=2, C=16, W=9]\n"
    "  %3 = mean %2 {over=[N, C, W]} : f32[]\n  %4 = slice $w {axis=C, start=1, stop=2} : "
    "f32[O=16, C=1, "
    "kW=3]\n"
    "  %5 = sum %4 {over=[O, C, kW]} : f32[]\n  %6 = mul %3, %5 : f32[]\n",
    /* a product whose 128 rows end where neighbours would */
    "param $x = %0 : f32[K=5, T=16, B=8]\n  param $w = %1 : f32[K=5, O=3]\n"
    "  %2 = broadcast $x : f32[K=5, B=8, T=16]\n  %3 = contract %2, $w {over=[K]} : "
    "f32[B=8, T=16, O=3]\n"
    "  %4 = mul %3, %3 : f32[B=8, T=16, O=3]\n  %5 = tanh %4 : f32[B=8, T=16, O=3]\n"
    "  %6 = mean %5 {over=[B, T, O]} : f32[]\n",
    /* a linear layer and its gradients */
    "param $x = %0 : f32[B=3, T=47, E=37]\n  param $w = %1 : f32[O=83, E=37]\n"
    "  param $b = %9 : f32[O=83]\n  %2 = contract $x, $w {over=[E]} : f32[B=3, T=47, "
    "O=83]\n"
    "  %3 = add %2, $b : f32[B=3, T=47, O=83]\n  %4 = mul %3, %3 : f32[B=3, T=47, O=83]\n"
    "  %6 = mean %4 {over=[B, T, O]} : f32[]\n",
    "param $x = %0 : f32[B=2, S=19, H=3, E=33]\n  param $w = %1 : f32[B=2, T=21, H=3, "
    "E=33]\n" /* products by
                  heads */
    "  %2 = contract $x, $w {over=[E]} : f32[B=2, S=19, H=3, T=21]\n"
    "  %3 = contract %2, $w {over=[T]} : f32[B=2, S=19, H=3, E=33]\n"
    "  %4 = mul %3, %3 : f32[B=2, S=19, H=3, E=33]\n  %6 = mean %4 {over=[B, S, H, E]} : "
    "f32[]\n"};
enum { NSUMS = sizeof sums / sizeof *sums };

static const char *const axes[] = {"D", "H", "W"};

static dl_value *input(dl_graph *g, const contraction_case *c, dl_dtype dtype, int part) {
    dl_type t = dl_scalar(dtype);
    dl_type_push(&t, "N", c->batch), dl_type_push(&t, "C", c->in[part]);
    for (int i = 0; i < c->spatial; i++) dl_type_push(&t, axes[i], c->size[i]);
    dl_var *v = dl_graph_var(g, DL_VAR_PARAM, dl_internf("%s.x%d", g->name, part), t, (dl_init){0},
                             (dl_loc){0});
    return &v->value;
}

/* loss = sum(leaky_relu(conv(cat(x...), w) + b)^2): epilogues, all gradients, bias gradients in the
 * same kernels. */
static void build_case(dl_module *m, dl_dtype dtype, int number) {
    const contraction_case *c = &cases[number];
    dl_graph *g = dl_graph_new(m, dl_internf("case%d", number));
    dl_builder b = {.graph = g};
    dl_value *parts[3];
    int n = 0, channels = 0, groups = c->groups ? c->groups : 1;
    for (; n < 3 && c->in[n]; n++) parts[n] = input(g, c, dtype, n), channels += c->in[n];
    dl_attr axis = dl_attr_name(DL_ATTR_axis, "C");
    dl_value *x = n == 1 ? parts[0] : dl_build(&b, DL_OP_cat, n, parts, 1, &axis);
    dl_type wt = dl_scalar(dtype), bt = dl_scalar(dtype);
    dl_type_push(&wt, "O", c->transposed ? channels : c->out),
        dl_type_push(&wt, "C", (c->transposed ? c->out : channels) / groups);
    int64_t stride[3], lo[3], hi[3], size[3], dilation[3];
    for (int i = 0; i < c->spatial; i++) {
        dl_type_push(&wt, dl_internf("k%s", axes[i]), c->kernel[i]);
        stride[i] = c->stride[i], lo[i] = c->lo[i], hi[i] = c->hi[i];
        dilation[i] = c->dilation[i] ? c->dilation[i] : 1;
        size[i] = (c->size[i] - 1) * c->stride[i] + (c->kernel[i] - 1) * dilation[i] + 1 -
                  c->lo[i] - c->hi[i];
    }
    dl_type_push(&bt, "C", c->out);
    dl_value *w =
        &dl_graph_var(g, DL_VAR_PARAM, dl_internf("%s.w", g->name), wt, (dl_init){0}, (dl_loc){0})
             ->value;
    dl_value *bias =
        &dl_graph_var(g, DL_VAR_PARAM, dl_internf("%s.b", g->name), bt, (dl_init){0}, (dl_loc){0})
             ->value;
    dl_value *in[] = {x, w};
    dl_attr attrs[] = {dl_attr_ints(DL_ATTR_stride, c->spatial, stride),
                       dl_attr_ints(DL_ATTR_pad_lo, c->spatial, lo),
                       dl_attr_ints(DL_ATTR_pad_hi, c->spatial, hi),
                       dl_attr_ints(DL_ATTR_dilation, c->spatial, dilation),
                       dl_attr_int(DL_ATTR_groups, groups),
                       dl_attr_ints(DL_ATTR_size, c->spatial, size)};
    dl_value *y = dl_build(&b, c->transposed ? DL_OP_conv_grad_input : DL_OP_conv, 2, in,
                           c->transposed ? 6 : 5, attrs);
    y = dl_build2(&b, DL_OP_add, y, bias);
    dl_attr slope = dl_attr_float(DL_ATTR_slope, 0.1);
    y = dl_build(&b, DL_OP_leaky_relu, 1, &y, 1, &slope);
    dl_graph_result(g, DL_RESULT_OUTPUT, "y", y, NULL);
    dl_graph_result(g, DL_RESULT_LOSS, "loss",
                    dl_build_reduce(&b, DL_OP_sum, dl_build2(&b, DL_OP_mul, y, y), 0, NULL), NULL);
}

/* Sum number `number`: its last value is the loss. */
static void build_sum(dl_module *m, dl_dtype dtype, int number, dl_error *err) {
    dl_buf b = {0};
    dl_putf(&b, "graph @sum%d {\n  ", number);
    for (const char *c = sums[number]; *c;)
        if (strncmp(c, "f32[", 4) == 0)
            dl_puts(&b, dl_dtype_name(dtype)), c += 3;
        else
            dl_putn(&b, c++, 1);
    dl_puts(&b, "  loss \"loss\" = %6\n}\n");
    const char *text = dl_strdup(m->arena, b.at);
    dl_buf_free(&b);
    dl_module *one = dl_parse_module(m->arena, text, strlen(text), "sums", err);
    if (!one) return;
    dl_graph *g = one->graphs.at[0];
    for (int i = 0; i < g->vars.n; i++)
        g->vars.at[i]->name = dl_internf("%s.%s", g->name, g->vars.at[i]->name);
    g->module = m;
    dl_push(m->arena, &m->graphs, g);
}

/* autodiff looks at the graph "train" only: each case in turn is it. */
static void differentiate(dl_module *m, dl_error *err) {
    for (int i = 0; i < m->graphs.n; i++) {
        dl_module one = {.arena = m->arena};
        dl_graph *g = m->graphs.at[i];
        const char *name = g->name;
        dl_push(m->arena, &one.graphs, g);
        g->name = dl_intern("train"), g->module = &one;
        dl_pass_ctx ctx = {.arena = m->arena,
                           .weights = {.kind = DL_PANEL, .width = 16},
                           .keep_gradients = true,
                           .step_options.optimizer = DL_OPT_NONE,
                           .err = err};
        dl_run_passes(&one, "simplify,autodiff,simplify", &ctx,
                      (dl_pass_options){.validate = DL_VALIDATE_PASSES});
        g->name = name, g->module = m;
    }
}

/* Which of cases[], then of sums[], a module is made of. */
typedef struct {
    int n, of[NCASES + NSUMS];
} contraction_set;

static dl_module *build_set(const contraction_set *set, dl_dtype dtype, dl_error *err) {
    dl_module *m = dl_module_new(NULL);
    for (int i = 0; i < set->n; i++)
        if (set->of[i] < NCASES)
            build_case(m, dtype, set->of[i]);
        else
            build_sum(m, dtype, set->of[i] - NCASES, err);
    differentiate(m, err);
    return m;
}

static inline contraction_set all_contractions(void) {
    contraction_set all = {.n = NCASES + NSUMS};
    for (int i = 0; i < all.n; i++) all.of[i] = i;
    return all;
}

/* Which op a case is an example of, and what groups it has; FINE: also whether its channels, which
 * are multiplied by twos or in vectors, leave a rest, and of few made whether that is one channel.
 * Sums: one kind, or each its own. */
static int contraction_kind(int number, bool fine) {
    enum { KINDS = 36 };
    if (number >= NCASES) return fine ? KINDS + number - NCASES : KINDS;
    const contraction_case *c = &cases[number];
    int channels = c->in[0] + c->in[1] + c->in[2], groups = c->groups ? c->groups : 1;
    int op = 3 * c->transposed + (groups == 1 ? 0 : groups < channels ? 1 : 2);
    int few = c->out > 8 ? 0 : channels / groups > 16 && channels / groups % 16 == 1 ? 2 : 1;
    return fine ? (2 * op + channels / groups % 2) * 3 + few : op;
}

/* One case of every kind, and one in DLC_TEST_SHARE of the other ones; `cell`: what else the module
 * is of. */
static contraction_set drawn_contractions(unsigned cell, bool fine) {
    contraction_set set = {0};
    for (int i = 0; i < NCASES + NSUMS; i++) {
        unsigned at = 0, n = 0;
        for (int k = 0; k < NCASES + NSUMS; k++)
            if (contraction_kind(k, fine) == contraction_kind(i, fine)) at += k < i, n++;
        if (dl_test_takes_of(cell, at, n, (unsigned)i + cell * 37)) set.of[set.n++] = i;
    }
    return set;
}

static void narrow_value(dl_value *v, dl_dtype dtype) {
    if (v->type.rank && v->type.dtype == DL_F32 && (v->id * 2654435761u) >> 31)
        v->type.dtype = dtype;
}

/* After fusion, of tensors in memory one of two becomes one of 16 bits, by its number, as mixed
 * precision makes them: the kernels' values stay in f32, and contractions have operands of either
 * type. */
static void narrow(void *user, int number, const dl_pass *pass, const dl_module *m) {
    dl_dtype dtype = *(const dl_dtype *)user;
    (void)number;
    if (!pass || strcmp(pass->name, "fuse") != 0) return;
    for (int i = 0; i < m->graphs.n; i++) {
        dl_graph *g = m->graphs.at[i];
        for (int k = 0; k < g->vars.n; k++) narrow_value(&g->vars.at[k]->value, dtype);
        for (int k = 0; k < g->nodes.n; k++)
            for (int r = 0; r < g->nodes.at[k]->nout; r++)
                narrow_value(&g->nodes.at[k]->out[r], dtype);
        for (int k = 0; k < g->results.n; k++) /* gradients are of their variables' types */
            if (g->results.at[k].var)
                g->results.at[k].value->type.dtype = g->results.at[k].var->value.type.dtype;
        for (int k = 0; k < g->nodes.n; k++) {
            dl_node *n = g->nodes.at[k];
            for (int p = 0; p < n->kernel->params.n; p++)
                n->kernel->params.at[p].type.dtype =
                    (p < n->nin ? n->in[p] : &n->out[p - n->nin])->type.dtype;
            dl_kernel_count(n->kernel);
        }
    }
}
#endif

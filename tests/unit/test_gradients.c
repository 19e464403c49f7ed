/* Gradients against central differences in f64 on the interpreter, for every op that has a rule. */
#include "ir/interp/interp.h"
#include "passes/pass.h"
#include "tests/check.h"
#include "tests/unit/gradient_builds.h"
#include "tests/unit/sibling_ops.h"

#define ONE "N=2 C=3"
#define RECURRENT(rows)                                                                            \
    { "N=2 T=4 E=3", "O=" rows " E=3", "O=" rows " I=2", "O=" rows, "O=" rows }
#define RECURRENT_FROM(rows, states)                                                               \
    { "N=2 T=4 E=" rows, "O=" rows " I=2", "E=" rows, "N=2 T=" states " E=2" }
static const grad_case cases[] = {
    {"neg", DL_OP_neg, apply, -2, 2, {ONE}},
    {"abs", DL_OP_abs, apply, -2, 2, {ONE}},
    {"exp", DL_OP_exp, apply, -2, 2, {ONE}},
    {"log", DL_OP_log, apply, 0.3, 2, {ONE}},
    {"expm1", DL_OP_expm1, apply, -2, 2, {ONE}},
    {"log1p", DL_OP_log1p, apply, -0.7, 2, {ONE}},
    {"rsqrt", DL_OP_rsqrt, apply, 0.3, 2, {ONE}},
    {"elu", DL_OP_elu, with_alpha, -2, 2, {ONE}},
    {"gelu_tanh", DL_OP_gelu_tanh, apply, -2, 2, {ONE}},
    {"silu", DL_OP_silu, apply, -2, 2, {ONE}},
    {"softplus", DL_OP_softplus, with_softplus, -2, 2, {ONE}},
    {"clamp", DL_OP_clamp, with_bounds, -2, 2, {ONE}},
    {"prod", DL_OP_prod, reduce_inner, -2, 2, {"N=3 C=5 T=2"}},
    {"cumsum", DL_OP_cumsum, along_c, -2, 2, {"N=2 C=7"}},
    {"cumsum, reverse", DL_OP_cumsum, scan_c, -2, 2, {"N=2 C=7"}},
    {"cumprod", DL_OP_cumprod, scan_c, -2, 2, {"N=2 C=5"}},
    {"cumprod, reverse", DL_OP_cumprod, scan_c, -2, 2, {"N=2 C=5 T=2"}},
    {"linear_scan", DL_OP_linear_scan, scan_c, -2, 2, {"N=2 C=5", "N=2 C=5"}},
    {"linear_scan, reverse", DL_OP_linear_scan, scan_c, -2, 2, {"C=5", "N=2 C=5 T=2"}},
    {"scan_linear, before", DL_OP_scan_linear, scan_c, -2, 2, {"N=2 C=5", "N=2 C=5"}},
    {"gather", DL_OP_gather, numbered, -2, 2, {"N=2 C=5"}},
    {"scatter_add", DL_OP_scatter_add, numbered, -2, 2, {"N=2 K=4"}},
    {"scatter_max", DL_OP_scatter_max, numbered, -2, 2, {"N=2 K=4"}},
    {"log_softmax", DL_OP_log_softmax, along_c, -2, 2, {"N=2 C=5"}},
    {"reshape, several into others", DL_OP_reshape, regroup, -2, 2, {"N=4 C=3"}},
    {"sqrt", DL_OP_sqrt, apply, 0.3, 2, {ONE}},
    {"tanh", DL_OP_tanh, apply, -2, 2, {ONE}},
    {"sigmoid", DL_OP_sigmoid, apply, -2, 2, {ONE}},
    {"sin", DL_OP_sin, apply, -2, 2, {ONE}},
    {"cos", DL_OP_cos, apply, -2, 2, {ONE}},
    {"erf", DL_OP_erf, apply, -2, 2, {ONE}},
    {"relu", DL_OP_relu, apply, -2, 2, {ONE}},
    {"leaky_relu", DL_OP_leaky_relu, apply, -2, 2, {ONE}},
    {"leaky_relu, slope < 0", DL_OP_leaky_relu, falling_leak, -2, 2, {ONE}},
    {"unnamed axis", DL_OP_sin, apply, -2, 2, {"1 C=3 1"}},
    {"add", DL_OP_add, apply, -2, 2, {ONE, ONE}},
    {"add, scalar", DL_OP_add, apply, -2, 2, {ONE, ""}},
    {"sub, subset", DL_OP_sub, apply, -2, 2, {"C=3", ONE}},
    {"sub, disjoint", DL_OP_sub, apply, -2, 2, {"C=3", "N=2"}},
    {"mul", DL_OP_mul, apply, -2, 2, {ONE, ONE}},
    {"mul, other order", DL_OP_mul, apply, -2, 2, {ONE, "C=3 N=2"}},
    {"mul, overlapping", DL_OP_mul, apply, -2, 2, {"N=2 C=3", "C=3 T=2"}},
    {"mul, unnamed axis", DL_OP_mul, apply, -2, 2, {"1 T=2 C=3", "N=2 T=2 C=3"}},
    {"div", DL_OP_div, apply, 0.5, 2, {ONE, ONE}},
    {"div, subset", DL_OP_div, apply, 0.5, 2, {"N=2", ONE}},
    {"pow", DL_OP_pow, apply, 0.5, 2, {ONE, ONE}},
    {"pow, subset", DL_OP_pow, apply, 0.5, 2, {ONE, "C=3"}},
    {"pow, square", DL_OP_pow, square, -2, 2, {ONE}},
    {"atan2", DL_OP_atan2, apply, 0.5, 2, {ONE, ONE}},
    {"atan2, subset", DL_OP_atan2, apply, 0.5, 2, {"N=2", ONE}},
    {"min", DL_OP_min, apply, -2, 2, {ONE, ONE}},
    {"min, subset", DL_OP_min, apply, -2, 2, {"C=3", ONE}},
    {"max", DL_OP_max, apply, -2, 2, {ONE, ONE}},
    {"max, subset", DL_OP_max, apply, -2, 2, {ONE, "C=3"}},
    {"select", DL_OP_select, select_by_sign, -2, 2, {ONE, ONE, ONE}},
    {"select, broadcast", DL_OP_select, select_by_sign, -2, 2, {"C=3", "N=2", "T=2"}},
    {"cast", DL_OP_cast, cast_there_and_back, -2, 2, {ONE}},
    {"sum", DL_OP_sum, reduce_inner, -2, 2, {"T=2 N=2 C=3"}},
    {"sum, all", DL_OP_sum, reduce_all, -2, 2, {ONE}},
    {"sum, normalised", DL_OP_sum, normalise, 0.5, 2, {"C=3 N=2"}},
    {"mean", DL_OP_mean, reduce_inner, -2, 2, {"N=2 T=2 C=3"}},
    {"batch_mean", DL_OP_batch_mean, reduce_batch, -2, 2, {"N=2 C=3 T=2"}},
    {"mean, all", DL_OP_mean, reduce_all, -2, 2, {ONE}},
    {"mean, normalised", DL_OP_mean, normalise, 0.5, 2, {ONE}},
    {"reduce_max", DL_OP_reduce_max, reduce_inner, -2, 2, {"N=2 C=3 T=2"}},
    {"reduce_max, normalised", DL_OP_reduce_max, normalise, 0.5, 2, {"C=3 N=2"}},
    {"reduce_min", DL_OP_reduce_min, reduce_inner, -2, 2, {"N=2 C=3 T=2"}},
    {"first_max", DL_OP_first_max, reduce_inner, -2, 2, {"N=2 C=3 T=2"}},
    {"first_max, windows", DL_OP_first_max, first_of_windows, -2, 2, {"N=2 C=7"}},
    {"affine, windows", DL_OP_affine, windows, -2, 2, {"N=2 C=5"}},
    {"affine, every third", DL_OP_affine, choice_of, -2, 2, {"N=2 C=7", "a=3"}},
    {"affine, backwards", DL_OP_affine, choice_of, -2, 2, {"N=2 C=7", "b=4"}},
    {"affine, enlarged", DL_OP_affine, choice_of, -2, 2, {"N=2 C=3", "c=7"}},
    {"affine, made smaller", DL_OP_affine, choice_of, -2, 2, {"N=2 C=7", "d=3"}},
    {"affine, around", DL_OP_affine, choice_of, -2, 2, {"N=2 C=3", "e=9"}},
    {"affine, mirrored", DL_OP_affine, choice_of, -2, 2, {"N=2 C=4", "f=15"}},
    {"affine, edges", DL_OP_affine, choice_of, -2, 2, {"N=2 C=3", "g=8"}},
    {"affine, exact", DL_OP_affine, choice_of, -2, 2, {"N=2 C=4", "h=9"}},
    {"affine, mirrored, one", DL_OP_affine, choice_of, -2, 2, {"N=2 C=1", "f=4"}},
    {"max_pool", DL_OP_max_pool, pool, -2, 2, {"N=1 C=2 H=6 W=5"}},
    {"avg_pool", DL_OP_avg_pool, pool, -2, 2, {"N=1 C=2 H=6 W=5"}},
    {"adaptive_avg_pool", DL_OP_adaptive_avg_pool, resize, -2, 2, {"N=1 C=2 H=6 W=5"}},
    {"upsample", DL_OP_upsample, resize, -2, 2, {"N=1 C=2 H=3 W=5"}},
    {"group_norm", DL_OP_group_norm, group_norm, -2, 2, {"N=2 C=6 H=2", "C=6", "C=6"}},
    {"broadcast", DL_OP_broadcast, broadcast_up, -2, 2, {ONE}},
    {"slice", DL_OP_slice, slices, -2, 2, {ONE}},
    {"pad", DL_OP_pad, pad_c, -2, 2, {ONE}},
    {"cat", DL_OP_cat, cat_c, -2, 2, {ONE, "N=2 C=1"}},
    {"slice of cat", DL_OP_cat, cat_slice, -2, 2, {ONE, "N=2 C=2"}},
    {"squeeze", DL_OP_squeeze, reshape, -2, 2, {"N=4 C=1"}},
    {"unsqueeze", DL_OP_unsqueeze, reshape, -2, 2, {"N=4 C=1"}},
    {"rename", DL_OP_rename, reshape, -2, 2, {"N=4 C=1"}},
    {"conv, channels O", DL_OP_conv, convolve, -1, 1, {"N=2 O=2 H=6 W=4", "O=3 C=2 h=3 w=2"}},
    {"gelu", DL_OP_gelu, composite, -2, 2, {ONE}},
    {"softmax", DL_OP_softmax, composite, -2, 2, {ONE}},
    {"softmax, inner", DL_OP_softmax, composite, -2, 2, {"C=4 N=3"}},
    {"grad", DL_OP_grad, gradient, -2, 2, {"N=2 C=3", "C=3"}},
    {"layer_norm", DL_OP_layer_norm, composite, -2, 2, {"N=2 T=2 C=3", "C=3", "C=3"}},
    {"layer_norm, other name", DL_OP_layer_norm, composite, -2, 2, {ONE, "E=3", "E=3"}},
    {"batch_norm", DL_OP_batch_norm, batch_norm, -2, 2, {"N=3 C=2 H=2", "C=2", "C=2"}},
    {"cross_entropy", DL_OP_cross_entropy, classify, -2, 2, {"N=3 C=4"}},
    {"cross_entropy, shares", DL_OP_cross_entropy, share_out, -2, 2, {"N=3 C=4 T=2", "T=2 C=4"}},
    {"contract", DL_OP_contract, contract_k, -1, 1, {"N=2 K=3", "O=4 K=3"}},
    {"contract, batch", DL_OP_contract, contract_k, -1, 1, {"N=2 T=3 K=2", "K=2 N=2 S=3"}},
    {"contract, to a scalar", DL_OP_contract, contract_k, -1, 1, {"K=3", "K=3"}},
    {"reshape", DL_OP_reshape, reshape_split, -1, 1, {"N=2 C=6"}},
    {"rearrange", DL_OP_rearrange, rearrange, -1, 1, {"N=2 T=6 C=4"}},
    {"linear", DL_OP_linear, composite, -1, 1, {"N=2 T=3 E=2", "O=4 E=2"}},
    {"attention", DL_OP_attention, attend, -1, 1, {"N=2 T=3 E=4", "N=2 T=3 E=4", "N=2 T=3 E=4"}},
    {"attention, some shares",
     DL_OP_attention,
     attend_some,
     -1,
     1,
     {"N=2 T=5 E=4", "N=2 T=5 E=4", "N=2 T=5 E=4"}},
    {"complex_contract",
     DL_OP_complex_contract,
     spectral,
     -1,
     1,
     {"N=2 C=3 K=4 Z=2", "C=3 O=2 K=4 Z=2"}},
    {"fourier", DL_OP_fourier, there_and_back, -1, 1, {"N=2 W=7 C=2"}},
    {"recurrence, lstm", DL_OP_recurrence, recur, -1, 1, RECURRENT("8")},
    {"recurrence, lstm, reverse", DL_OP_recurrence, recur, -1, 1, RECURRENT("8")},
    {"recurrence, gru", DL_OP_recurrence, recur, -1, 1, RECURRENT("6")},
    {"recurrence, gru, reverse", DL_OP_recurrence, recur, -1, 1, RECURRENT("6")},
    {"recurrence, rnn_tanh, reverse", DL_OP_recurrence, recur, -1, 1, RECURRENT("2")},
    {"recurrence, rnn_relu", DL_OP_recurrence, recur, -1, 1, RECURRENT("2")},
    {"recurrent, gru", DL_OP_recurrent, recur, -1, 1, {"T=4 E=6", "O=6 I=2", "E=6"}},
    {"recurrent, lstm, cell", DL_OP_recurrent, recur, -1, 1, {"T=4 E=8", "O=8 I=2", "E=8"}},
    {"recurrent, lstm, cell, start", DL_OP_recurrent, recur, -1, 1, RECURRENT_FROM("8", "2")},
    {"recurrent, lstm, reverse, cell, start", DL_OP_recurrent, recur, -1, 1,
     RECURRENT_FROM("8", "2")},
    {"recurrent, gru, start", DL_OP_recurrent, recur, -1, 1, RECURRENT_FROM("6", "1")},
    {"recurrent, rnn_tanh, reverse, start", DL_OP_recurrent, recur, -1, 1,
     RECURRENT_FROM("2", "1")},
    {"flash_attention",
     DL_OP_flash_attention,
     flash,
     -1,
     1,
     {"N=2 T=3 E=4", "N=2 R=5 E=4", "N=2 R=5 E=4"}},
    {"flash_attention, causal",
     DL_OP_flash_attention,
     flash,
     -1,
     1,
     {"N=2 T=5 E=2", "N=2 S=4 E=2", "N=2 S=4 E=2"}},
    {"dropout", DL_OP_dropout, drop, -2, 2, {"N=4 C=7"}},
    {"dropout, unnamed axis", DL_OP_dropout, drop, -2, 2, {"1 C=7 1"}},
    {"drop_path", DL_OP_drop_path, drop, -2, 2, {"N=9 C=3"}},
    {"little U-Net",
     DL_OP_conv,
     little_unet,
     -1,
     1,
     {"N=1 C=2 D=4 H=4 W=4", "O=3 C=2 d=4 h=4 w=4", "C=3"}},
};
enum { NCASES = (int)(sizeof cases / sizeof *cases) };

/* ---- the check ---- */

/* Loss: sum(y * r) with an input r, so that the gradient of y is different everywhere. */
static dl_module *build_case(const grad_case *c, dl_value **p) {
    dl_module *m = dl_module_new(NULL);
    dl_graph *g = dl_graph_new(m, "train");
    dl_builder b = {.graph = g};
    for (int i = 0; i < MAX_PARAMS && c->types[i]; i++)
        p[i] = &dl_graph_var(g, DL_VAR_PARAM, dl_internf("p%d", i), parse_type(c->types[i], DL_F64),
                             (dl_init){0}, b.loc)
                    ->value;
    dl_value *y = c->build(&b, c, p);
    dl_value *r = &dl_graph_var(g, DL_VAR_INPUT, "r", y->type, (dl_init){0}, b.loc)->value;
    dl_value *loss = dl_build_reduce(&b, DL_OP_sum, dl_build2(&b, DL_OP_mul, y, r), 0, NULL);
    dl_graph_result(g, DL_RESULT_LOSS, "loss", loss, NULL);
    return m;
}

/* In the same step each time: what is drawn stays. */
static double eval_loss(dl_interp *run, const dl_graph *g, dl_error *err) {
    for (int i = 0; i < g->vars.n; i++)
        if (g->vars.at[i]->role == DL_VAR_STATE) *dl_interp_data(run, &g->vars.at[i]->value) = 11;
    CHECK(dl_interp_run(run, err), "%s", err->message);
    return *dl_interp_data(run, dl_graph_find_result(g, DL_RESULT_LOSS, NULL)->value);
}

static void check_param(dl_interp *run, const dl_graph *g, const dl_var *p, const char *name,
                        const char *passes) {
    const double eps = 1e-6, rtol = 1e-4, atol = 1e-6;
    const dl_result *grad = dl_graph_find_result(g, DL_RESULT_GRAD, p->name);
    dl_error err = {0};
    CHECK(grad && grad->var == p, "%s (%s): no gradient of %s", name, passes, p->name);
    if (!grad) return;
    int64_t n = dl_type_count(&p->value.type), wrong = 0;
    double *x = dl_interp_data(run, &p->value), got, want;
    for (int64_t i = 0; i < n; i++) {
        double keep = x[i];
        x[i] = keep + eps;
        double up = eval_loss(run, g, &err);
        x[i] = keep - eps;
        double down = eval_loss(run, g, &err);
        x[i] = keep;
        eval_loss(run, g, &err);
        got = dl_interp_data(run, grad->value)[i], want = (up - down) / (2 * eps);
        if (!(fabs(got - want) <= atol + rtol * fabs(want))) {
            if (!wrong++)
                printf("%s (%s): %s[%lld] is %.9g, want %.9g\n", name, passes, p->name,
                       (long long)i, got, want);
        }
    }
    CHECK(wrong == 0, "%s (%s): %lld of %lld of %s", name, passes, (long long)wrong, (long long)n,
          p->name);
}

static void check_case(const grad_case *c, const char *passes) {
    dl_value *p[MAX_PARAMS] = {0};
    dl_module *m = build_case(c, p);
    dl_error err = {0};
    dl_pass_ctx ctx = {.arena = m->arena, .step_options.optimizer = DL_OPT_NONE, .err = &err};
    bool fine = dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES});
    CHECK(fine, "%s: %s", c->name, err.message);
    if (fine) {
        dl_graph *g = m->graphs.at[0];
        dl_interp *run = dl_interp_new(g, false);
        rng r = {0x5eed + (uint64_t)c->op};
        for (int i = 0; i < g->vars.n; i++) {
            const dl_value *v = &g->vars.at[i]->value;
            bool is_param = v->var->role == DL_VAR_PARAM;
            double *x = dl_interp_data(run, v);
            for (int64_t k = 0; k < dl_type_count(&v->type); k++)
                x[k] = is_param ? uniform(&r, c->lo, c->hi) : uniform(&r, -1, 1);
        }
        for (int i = 0; i < MAX_PARAMS && p[i]; i++) {
            /* A condition is a parameter without influence: no gradient, and no rule to check. */
            if (c->op == DL_OP_select && i == 0) continue;
            check_param(run, g, p[i]->var, c->name, passes);
        }
        dl_interp_free(run);
    }
    dl_arena_free(m->arena);
}

/* Every op by windows, whichever of x, w and y its operands are: plain, and dilated in groups. */
static void check_windows(const char *passes) {
    static const char *const plain[] = {NULL, "N=2 C=2 H=6 W=4", "O=3 C=2 h=3 w=2",
                                        "N=2 C=3 H=3 W=5"};
    static const char *const grouped[] = {NULL, "N=2 C=4 H=6 W=4", "O=6 C=2 h=3 w=2",
                                          "N=2 C=6 H=2 W=5"};
    for (int op = 0; op < DL_NOPS; op++) {
        if (!dl_op_slides((dl_op)op)) continue;
        dl_tensor a = dl_op_tensor((dl_op)op, 0), b = dl_op_tensor((dl_op)op, 1);
        check_case(&(grad_case){dl_ops[op].name, (dl_op)op, convolve, -1, 1, {plain[a], plain[b]}},
                   passes);
        check_case(
            &(grad_case){
                dl_ops[op].name, (dl_op)op, convolve_groups, -1, 1, {grouped[a], grouped[b]}},
            passes);
    }
}

static bool has_case(dl_op op) {
    for (int i = 0; i < NCASES; i++)
        if (cases[i].op == op) return true;
    return false;
}

/* A template without a case of its own takes those of a sibling. False: there is none. */
static bool does_as_sibling(dl_op op) {
    bool any = false;
    for (int i = 0; i < NCASES && dl_ops[op].class == DL_CLASS_TEMPLATE; i++) {
        if (!are_siblings(cases[i].op, op)) continue;
        grad_case c = cases[i];
        c.name = dl_ops[op].name, c.op = op, any = true;
        check_case(&c, "lower,autodiff");
    }
    return any;
}

/* Every op with a rule has a case. */
static void check_coverage(void) {
    static const char *const rule[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr) #grad,
#include "ir/ops.def"
#undef OP
    };
    static const char *const lowered[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr) #lower,
#include "ir/ops.def"
#undef OP
    };
    for (int op = 0; op < DL_NOPS; op++) {
        bool has_rule = strcmp(rule[op], "zero") != 0 &&
                        (strcmp(rule[op], "none") != 0 || strcmp(lowered[op], "none") != 0);
        bool between = dl_ops[op].class == DL_CLASS_COLLECTIVE || op == DL_OP_enter ||
                       op == DL_OP_scale_gradient;
        if (between || !has_rule) continue;      /* ranks: test_shard.c */
        if (dl_op_has_body((dl_op)op)) continue; /* test_body.c */
        CHECK(dl_op_slides((dl_op)op) || has_case((dl_op)op) || does_as_sibling((dl_op)op),
              "no gradient case for op '%s'", dl_ops[op].name);
    }
}

/* Equal winners share, as in PyTorch. */
static void check_ties(dl_op op, build_fn *build, const char *const types[2], double want) {
    grad_case c = {"ties", op, build, 0, 0, {types[0], types[1]}};
    dl_value *p[MAX_PARAMS] = {0};
    dl_module *m = build_case(&c, p);
    dl_error err = {0};
    dl_pass_ctx ctx = {.arena = m->arena, .step_options.optimizer = DL_OPT_NONE, .err = &err};
    CHECK(dl_run_passes(m, "autodiff", &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}),
          "%s", err.message);
    dl_graph *g = m->graphs.at[0];
    dl_interp *run = dl_interp_new(g, false);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        for (int64_t k = 0; k < dl_type_count(&v->type); k++) dl_interp_data(run, v)[k] = 1;
    }
    eval_loss(run, g, &err);
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        for (int64_t k = 0; r->role == DL_RESULT_GRAD && k < dl_type_count(&r->value->type); k++)
            CHECK_NEAR(dl_interp_data(run, r->value)[k], want, 1e-12);
    }
    dl_interp_free(run);
    dl_arena_free(m->arena);
}

/* A parameter after an op without a rule: the place and the op. */
static void check_faults(void) {
    dl_module *m = dl_module_new(NULL);
    dl_graph *g = dl_graph_new(m, "train");
    dl_builder b = {.graph = g, .loc = {dl_intern("model.dl"), 7, 3}};
    dl_value *p =
        &dl_graph_var(g, DL_VAR_PARAM, "p", parse_type("N=2 C=3 W=4", DL_F32), (dl_init){0}, b.loc)
             ->value;
    dl_value *y =
        dl_build1(&b, DL_OP_gelu, p); /* a composite: without `lower`, nobody takes it apart */
    dl_graph_result(g, DL_RESULT_LOSS, "loss", dl_build_reduce(&b, DL_OP_sum, y, 0, NULL), NULL);
    dl_error err = {0};
    dl_pass_ctx ctx = {.arena = m->arena, .err = &err};
    CHECK(!dl_run_passes(m, "autodiff", &ctx, (dl_pass_options){0}) && err.code == DL_INPUT, "%s",
          err.message);
    CHECK_STR(err.message, "model.dl:7:3: error: 'gelu' is checked, but this version cannot "
                           "compile it yet [DL-E0801]");
    dl_arena_free(m->arena);
}

int main(void) {
    check_coverage();
    for (int i = 0; i < NCASES; i++) {
        check_case(&cases[i], "lower,autodiff");
        check_case(&cases[i], "lower,simplify,autodiff,simplify");
    }
    check_windows("lower,autodiff");
    check_windows("lower,simplify,autodiff,simplify");
    check_ties(DL_OP_max, apply, (const char *const[]){ONE, ONE}, 0.5);
    check_ties(DL_OP_min, apply, (const char *const[]){ONE, ONE}, 0.5);
    check_ties(DL_OP_reduce_max, reduce_all, (const char *const[]){ONE, NULL}, exp(1) / 6);
    check_ties(DL_OP_stop_gradient, stop, (const char *const[]){ONE, NULL}, 1);
    check_faults();
    return dl_test_end();
}

/* Answers the oracle over the op table (oracle/check_table.py).
 *
 *   op_run table
 *       ops.def, an op a line: name, arity, class, infer, grad, lower, attributes
 *   op_run types FILE.dlir
 *       each node's fault by its shape rule: "%ID CODE: MESSAGE"
 *   op_run run FILE.dlir DIR ENGINE N...
 *       graph @train and its gradients, once for each number: reads DIR/in.N, writes DIR/ENGINE.N
 *
 * An engine is `interp` (in double), `rounded` (kernels, which round what they store) or a target.
 * Files hold doubles, row-major: of all variables in order, and of all outputs and gradients in the
 * order that `run` prints ("output NAME", "grad NAME"). Compiled code runs with one thread and with
 * three, which must agree to the last bit. */
#include <stdio.h>
#include <stdlib.h>

#include "compiler/compile.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/infer.h"
#include "ir/interp/interp.h"
#include "ir/text/text.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"

static const struct {
    const char *class, *infer, *grad, *lower;
} rules[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr)                    \
    {#class, #infer, #grad, #lower},
#include "ir/ops.def"
#undef OP
};

static void print_table(void) {
    for (int i = 0; i < DL_NOPS; i++) {
        const dl_op_info *o = &dl_ops[i];
        printf("%s %d %s %s%s %s %s", o->name, o->arity, rules[i].class, rules[i].infer,
               dl_op_wants_float((dl_op)i) ? "_float" : "", rules[i].grad, rules[i].lower);
        for (int a = 0; a < o->nattrs; a++) printf(" %s", dl_attrs[o->attrs[a]].name);
        printf("\n");
    }
}

static dl_module *read_module(dl_arena *arena, const char *path, dl_error *err) {
    size_t n;
    char *text = dl_read_file(arena, path, (size_t)1 << 26, &n, err);
    return text ? dl_parse_module(arena, text, n, path, err) : NULL;
}

static bool print_faults(dl_arena *arena, const char *path, dl_error *err) {
    const dl_module *m = read_module(arena, path, err);
    for (int i = 0; m && i < m->graphs.at[0]->nodes.n; i++) {
        const dl_node *n = m->graphs.at[0]->nodes.at[i];
        dl_shape_fault fault = {0};
        dl_type t;
        if (!dl_infer(n, &t, &fault))
            printf("%%%u %s: %s\n", n->out[0].id, fault.code, fault.message);
        else if (!dl_type_same(&t, &n->out[0].type))
            printf("%%%u differs: it is %s\n", n->out[0].id, dl_type_text(&t));
    }
    return m != NULL;
}

/* Values of all variables or results, one after the other. */
typedef struct {
    double *at;
    int64_t n;
} values;

static values read_values(dl_arena *arena, const char *dir, const char *number, int64_t want,
                          dl_error *err) {
    size_t n;
    char *data =
        dl_read_file(arena, dl_format(arena, "%s/in.%s", dir, number), (size_t)1 << 30, &n, err);
    values v = {NULL, want};
    if (data && (int64_t)n != want * (int64_t)sizeof(double))
        dl_fail(err, DL_INPUT, "in.%s holds %zu bytes, not %lld doubles", number, n,
                (long long)want);
    else if (data && n)
        v.at = memcpy(DL_NEWS(arena, double, want), data, n);
    return v;
}

static bool write_values(dl_arena *arena, const char *dir, const char *engine, const char *number,
                         values v, dl_error *err) {
    return dl_write_file(dl_format(arena, "%s/%s.%s", dir, engine, number), v.at,
                         sizeof(double) * (size_t)v.n, err);
}

static bool is_asked(const dl_result *r) {
    return r->role == DL_RESULT_OUTPUT || r->role == DL_RESULT_GRAD;
}

static bool run_interp(dl_arena *arena, const char *path, const char *dir, const char *engine,
                       int n, char **number, dl_error *err) {
    dl_module *m = read_module(arena, path, err);
    dl_pass_ctx ctx = {.arena = arena, .err = err, .weights = {.kind = DL_PANEL, .width = 16}};
    bool rounds = strcmp(engine, "rounded") == 0;
    const char *passes = rounds ? "lower,simplify,autodiff,simplify,layout,fuse" : "lower,autodiff";
    if (!m || !dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}))
        return false;
    const dl_graph *g = m->graphs.at[0];
    int64_t ins = 0, outs = 0;
    for (int i = 0; i < g->vars.n; i++) ins += dl_type_count(&g->vars.at[i]->value.type);
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if (!is_asked(r)) continue;
        outs += dl_type_count(&r->value->type);
        printf("%s %s\n", r->role == DL_RESULT_GRAD ? "grad" : "output", r->name);
    }
    for (int k = 0; k < n; k++) {
        values in = read_values(arena, dir, number[k], ins, err),
               out = {DL_NEWS(arena, double, outs + 1), 0};
        if (err->code != DL_OK) return false;
        dl_interp *run = dl_interp_new(g, rounds);
        for (int i = 0; i < g->vars.n; i++) {
            const dl_value *v = &g->vars.at[i]->value;
            size_t count = (size_t)dl_type_count(&v->type);
            if (count)
                memcpy(dl_interp_data(run, v), in.at, sizeof(double) * count), in.at += count;
        }
        bool ok = dl_interp_run(run, err);
        for (int i = 0; i < g->results.n && ok; i++) {
            const dl_result *r = &g->results.at[i];
            int64_t count = is_asked(r) ? dl_type_count(&r->value->type) : 0;
            if (count)
                memcpy(out.at + out.n, dl_interp_data(run, r->value),
                       sizeof(double) * (size_t)count);
            out.n += count;
        }
        dl_interp_free(run);
        if (!ok || !write_values(arena, dir, engine, number[k], out, err)) return false;
    }
    return true;
}

static dl_plan *compile(dl_arena *arena, const char *path, const char *target, dl_error *err) {
    dl_compile_times times = {0};
    dl_compile_options opt = {.target = dl_target_find(arena, target, err),
                              .step_options.optimizer = DL_OPT_NONE,
                              .keep_gradients = true,
                              .model = "table",
                              .batch = 1,
                              .link = true};
    dl_module *m = opt.target ? read_module(arena, path, err) : NULL;
    return m ? dl_compile(arena, m, &opt, &times, err) : NULL;
}

/* All outputs, then all gradients of variables, as the graph has them: the order in which autodiff
 * adds them. */
static values read_results(dl_arena *arena, dlr_exec *exec, const dl_graph *g) {
    values v = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        int64_t n = 0;
        for (int i = 0; i < g->results.n + g->vars.n; i++) {
            bool grad = i >= g->results.n;
            if (!grad && g->results.at[i].role != DL_RESULT_OUTPUT) continue;
            const char *name = grad ? g->vars.at[i - g->results.n]->name : g->results.at[i].name;
            dlr_view view =
                dlr_exec_result(exec, 0, grad ? DL_RESULT_GRAD : DL_RESULT_OUTPUT, name);
            if (!view.type) continue;
            if (pass) dlr_state_read(exec, view, DL_F64, v.at + n);
            n += dl_type_count(view.type);
        }
        if (!pass) v = (values){DL_NEWS(arena, double, n + 1), n};
    }
    return v;
}

static bool run_compiled(dl_arena *arena, const char *path, const char *dir, const char *engine,
                         int n, char **number, dl_error *err) {
    static const int threads[] = {1, 3};
    dl_module *m = read_module(arena, path, err);
    const dl_plan *plan = m ? compile(arena, path, engine, err) : NULL;
    if (!plan) return false;
    const dl_graph *g = m->graphs.at[0];
    int64_t ins = 0;
    for (int i = 0; i < g->vars.n; i++) ins += dl_type_count(&g->vars.at[i]->value.type);
    for (int k = 0; k < n; k++) {
        values first = {0};
        for (int t = 0; t < 2; t++) {
            values in = read_values(arena, dir, number[k], ins, err);
            dlr_exec *exec =
                err->code == DL_OK
                    ? dlr_exec_open(plan, (dlr_exec_options){.threads = threads[t]}, err)
                    : NULL;
            if (!exec) return false;
            for (int i = 0; i < g->vars.n; i++) {
                dlr_view view = dlr_exec_variable(exec, g->vars.at[i]->name);
                if (view.type) dlr_state_write(exec, view, DL_F64, in.at);
                if (in.at) in.at += dl_type_count(&g->vars.at[i]->value.type);
            }
            dlr_exec_run(exec, 0, NULL);
            values out = read_results(arena, exec, g);
            dlr_exec_close(exec);
            if (t == 0) first = out;
            if (t &&
                (out.n != first.n || memcmp(out.at, first.at, sizeof(double) * (size_t)out.n) != 0))
                return dl_fail(err, DL_INTERNAL, "%s: %d threads make other bits than one", engine,
                               threads[t]);
        }
        if (!write_values(arena, dir, engine, number[k], first, err)) return false;
    }
    return true;
}

int main(int argc, char **argv) {
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    bool ok = false;
    if (argc == 2 && strcmp(argv[1], "table") == 0)
        print_table(), ok = true;
    else if (argc == 3 && strcmp(argv[1], "types") == 0)
        ok = print_faults(arena, argv[2], &err);
    else if (argc > 5 && strcmp(argv[1], "run") == 0 &&
             (strcmp(argv[4], "interp") == 0 || strcmp(argv[4], "rounded") == 0))
        ok = run_interp(arena, argv[2], argv[3], argv[4], argc - 5, argv + 5, &err);
    else if (argc > 5 && strcmp(argv[1], "run") == 0)
        ok = run_compiled(arena, argv[2], argv[3], argv[4], argc - 5, argv + 5, &err);
    else
        dl_fail(&err, DL_USAGE, "usage: op_run table | types FILE | run FILE DIR ENGINE N...");
    dl_arena_free(arena);
    if (!ok) fprintf(stderr, "op_run: %s\n", err.message);
    return ok ? 0 : (int)err.code;
}

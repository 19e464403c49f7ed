/* Two steps of training of models in the model language, for an oracle in Python.
 *
 *   text_run ENGINE DIR N...
 *       models DIR/N.dl with the numbers of DIR/N.in; writes DIR/N.out, or DIR/N.err: a message
 *
 * An engine is `meaning` (the interpreter, after composites, gradients and the optimiser were
 * written out), `passes` (the interpreter, after all passes), both in double precision, or a target
 * (one plan of all the models, compiled). A file of numbers is a list of entries: the length of the
 * name in 4 bytes, the name, the count in 8 bytes, and that many doubles. DIR/N.in has the batch
 * "N", "adam" (1 or 0: SGD with momentum), the optimiser's numbers, and every input, parameter and
 * statistic of the model. DIR/N.out has "loss 1", "loss 2", "grad NAME", "next NAME" (what a step
 * leaves in the variable) and "op NAME": how often the model's graphs have that op. */
#include <stdio.h>
#include <stdlib.h>

#include "compiler/compile.h"
#include "frontends/dl/front.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/interp/interp.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "tests/cache.h"
#include "tests/targets.h"

typedef struct {
    const char *name;
    double *at;
    int64_t n;
} entry;
typedef struct {
    entry at[400];
    int n;
} entries;

/* A model of the batch. */
typedef struct {
    const char *number, *text;
    entries in;
    dl_module *module;
    dl_graph *graph;
    dl_buf out;
    long made[DL_NOPS];
    dl_error err;
} sample;

static bool read_entries(dl_arena *arena, const char *path, entries *to, dl_error *err) {
    size_t n, at = 0;
    const char *data = dl_read_file(arena, path, (size_t)1 << 28, &n, err);
    while (data && at + 4 <= n && to->n < (int)(sizeof to->at / sizeof *to->at)) {
        uint32_t length;
        uint64_t count;
        memcpy(&length, data + at, 4), at += 4;
        const char *name = dl_strndup(arena, data + at, length);
        at += length;
        memcpy(&count, data + at, 8), at += 8;
        entry *e = &to->at[to->n++];
        *e = (entry){dl_intern(name), DL_NEWS(arena, double, (int64_t)count + 1), (int64_t)count};
        memcpy(e->at, data + at, sizeof(double) * count), at += sizeof(double) * count;
    }
    return data && (at == n || dl_fail(err, DL_INPUT, "%s is no list of numbers", path));
}

static void put_entry(dl_buf *to, const char *what, const char *name, const double *at, int64_t n) {
    uint32_t length = (uint32_t)(strlen(what) + strlen(name));
    uint64_t count = (uint64_t)n;
    dl_putn(to, (const char *)&length, 4);
    dl_puts(to, what), dl_puts(to, name);
    dl_putn(to, (const char *)&count, 8);
    dl_putn(to, (const char *)at, sizeof(double) * count);
}

static const entry *find(const entries *in, const char *name) {
    for (int i = 0; i < in->n; i++)
        if (!strcmp(in->at[i].name, name)) return &in->at[i];
    return NULL;
}

static double number(const sample *s, const char *name, double fallback) {
    const entry *e = find(&s->in, name);
    return e ? e->at[0] : fallback;
}

static void count_ops(sample *s, const dl_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) s->made[g->nodes.at[i]->op]++;
}

/* Every variable of the model has its numbers, and all numbers have a variable. */
static bool check_names(const sample *s, const dl_graph *g, dl_error *err) {
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        const entry *e = find(&s->in, v->name);
        int64_t n = dl_type_count(&v->value.type);
        if (v->role == DL_VAR_TABLE || strstr(v->name, "num_batches_tracked")) continue;
        if (!e) return dl_fail(err, DL_INPUT, "the oracle has no variable %s", v->name);
        if (e->n != n)
            return dl_fail(err, DL_INPUT, "%s has %lld numbers, the oracle's %lld", v->name,
                           (long long)n, (long long)e->n);
    }
    for (int i = 0; i < s->in.n; i++) {
        const char *name = s->in.at[i].name;
        bool own = !strcmp(name, "N") || !strcmp(name, "adam") || !strncmp(name, "optimizer.", 10);
        if (!own && !dl_graph_find_var(g, name))
            return dl_fail(err, DL_INPUT, "the model has no variable %s", name);
    }
    return true;
}

/* From text to the graph of a training step. */
static bool build(dl_arena *arena, sample *s, dl_error *err) {
    dl_source *source = dl_source_new(arena, "model.dl", s->text, strlen(s->text));
    dl_diags *diags = dl_diags_new(arena, source);
    dl_model *model = dl_model_parse(arena, source, diags);
    dl_axis_size size = {"N", (int64_t)number(s, "N", 1)};
    dl_model_config config = {.sizes = &size, .nsizes = 1};
    s->module = model ? dl_model_build(arena, model, &config, diags) : NULL;
    if (!s->module) {
        dl_buf b = {0};
        dl_diags_print(&b, diags, false);
        dl_fail(err, DL_INPUT, "%.900s", b.at ? b.at : "");
        dl_buf_free(&b);
        return false;
    }
    s->graph = dl_module_graph(s->module, "train");
    s->module->graphs.at[0] = s->graph, s->module->graphs.n = 1;
    count_ops(s, s->graph);
    return check_names(s, s->graph, err);
}

static dl_step_options step_options(const sample *s) {
    return (dl_step_options){.optimizer = number(s, "adam", 0) != 0 ? DL_OPT_adam : DL_OPT_sgd,
                             .momentum = true,
                             .schedule = DL_SCHEDULE_constant};
}

/* Ops as gradients have them, and those of the passes that change what stands in a graph. */
static void count_after(void *user, int pass_number, const dl_pass *pass, const dl_module *m) {
    (void)pass_number;
    static const char *const names[] = {"autodiff", "layout", "fuse"};
    bool counts = false;
    for (int i = 0; i < 3 && pass; i++) counts |= !strcmp(pass->name, names[i]);
    if (counts) count_ops(user, m->graphs.at[0]);
}

static bool run_passes(dl_arena *arena, sample *s, const char *passes, dl_layout weights,
                       dl_error *err) {
    dl_pass_ctx ctx = {.arena = arena,
                       .weights = weights,
                       .keep_gradients = true,
                       .step_options = step_options(s),
                       .err = err};
    return dl_run_passes(
        s->module, passes, &ctx,
        (dl_pass_options){.validate = DL_VALIDATE_STAGES, .observe = count_after, .user = s});
}

static bool is_kept(const dl_result *r) {
    return r->role == DL_RESULT_UPDATE && !strstr(r->name, "optimizer.") && r->var &&
           (r->var->role == DL_VAR_PARAM || strstr(r->name, "running_"));
}

static bool interpret(dl_arena *arena, sample *s, bool all, dl_error *err) {
    const char *passes = all ? dl_pipeline : "lower,autodiff,optimizer";
    if (!run_passes(arena, s, passes, (dl_layout){.kind = DL_PANEL, .width = 8}, err)) return false;
    const dl_graph *g = s->graph;
    dl_interp *run = dl_interp_new(g, false);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        const entry *e = find(&s->in, v->role == DL_VAR_COPY ? v->of : v->name);
        double *to = dl_interp_data(run, &v->value);
        if (e)
            memcpy(to, e->at, sizeof(double) * (size_t)e->n);
        else if (v->init.kind == DL_INIT_CONST)
            for (int64_t k = 0; k < dl_type_count(&v->value.type); k++) to[k] = v->init.a;
    }
    bool ok = true;
    for (int step = 1; step <= 2 && ok; step++) {
        ok = dl_interp_run(run, err);
        for (int i = 0; i < g->results.n && ok; i++) {
            const dl_result *r = &g->results.at[i];
            const double *at = dl_interp_data(run, r->value);
            int64_t n = dl_type_count(&r->value->type);
            if (r->role == DL_RESULT_LOSS)
                put_entry(&s->out, "loss ", step == 1 ? "1" : "2", at, 1);
            if (step == 1 && r->role == DL_RESULT_GRAD)
                put_entry(&s->out, "grad ", r->var->name, at, n);
            if (step == 1 && is_kept(r))
                put_entry(&s->out, "next ", r->var->name, dl_interp_data(run, &r->var->value), n);
        }
    }
    dl_interp_free(run);
    return ok;
}

/* ---- compiled: graphs of all models in one plan ---- */

static const char *own_name(const char *number, const char *name) {
    bool shared = !strncmp(name, "optimizer.", 10) && !strchr(name + 10, '@');
    return shared ? name : dl_internf("m%s.%s", number, name);
}

static bool prepare(dl_arena *arena, sample *s, const dl_target *t, dl_error *err) {
    if (!run_passes(arena, s, "lower,simplify,contractions,autodiff,optimizer", t->weights, err))
        return false;
    s->graph->name = dl_internf("m%s", s->number);
    for (int i = 0; i < s->graph->vars.n; i++) {
        dl_var *v = s->graph->vars.at[i];
        v->name = own_name(s->number, v->name);
        if (v->of) v->of = own_name(s->number, v->of);
    }
    return true;
}

static void put_view(dl_arena *arena, const dlr_exec *exec, sample *s, const char *what,
                     const char *name, dlr_view view) {
    int64_t n = dl_type_count(view.type);
    double *at = DL_NEWS(arena, double, n + 1);
    dlr_state_read(exec, view, DL_F64, at);
    put_entry(&s->out, what, name, at, n);
}

static bool run_program(dl_arena *arena, dlr_exec *exec, sample *s, dl_error *err) {
    double zero = 0;
    dlr_view count = dlr_exec_variable(exec, "optimizer.step");
    if (count.type) dlr_state_write(exec, count, DL_F64, &zero);
    for (int i = 0; i < s->in.n; i++) {
        dlr_view view = dlr_exec_variable(exec, own_name(s->number, s->in.at[i].name));
        if (view.type) dlr_state_write(exec, view, DL_F64, s->in.at[i].at);
    }
    int program = dlr_exec_program(exec, s->graph->name);
    for (int step = 1; step <= 2; step++) {
        dlr_exec_run(exec, program, NULL);
        put_view(arena, exec, s, "loss ", step == 1 ? "1" : "2",
                 dlr_exec_result(exec, program, DL_RESULT_LOSS, "loss"));
        for (int i = 0; i < s->in.n && step == 1; i++) {
            const char *name = s->in.at[i].name, *own = own_name(s->number, name);
            dlr_view grad = dlr_exec_result(exec, program, DL_RESULT_GRAD, name);
            dlr_view next = dlr_exec_variable(exec, own);
            if (grad.type) put_view(arena, exec, s, "grad ", name, grad);
            if (grad.type || strstr(name, "running_"))
                put_view(arena, exec, s, "next ", name, next);
        }
    }
    return dlr_exec_check(exec, err);
}

static bool run_compiled(dl_arena *arena, const char *target, int n, sample *samples,
                         dl_error *err) {
    dl_compile_times times = {0};
    dl_compile_options opt = {.target = dl_target_find(arena, test_target_here(target), err),
                              .keep_gradients = true,
                              .model = "text",
                              .batch = 1,
                              .validate = DL_VALIDATE_STAGES,
                              .link = true};
    if (!opt.target) return false;
    dl_module *all = dl_module_new(arena);
    int left = 0;
    for (int i = 0; i < n; i++) {
        if (samples[i].err.code || !prepare(arena, &samples[i], opt.target, &samples[i].err))
            continue;
        samples[i].graph->module = all;
        dl_push(all->arena, &all->graphs, samples[i].graph);
        left++;
    }
    if (!left) return true;
    const dl_plan *plan = dl_compile(arena, all, &opt, &times, err);
    dlr_exec *exec = plan ? dlr_exec_open(plan, (dlr_exec_options){.threads = 2}, err) : NULL;
    bool ok = exec && dlr_state_init(exec, 1, err);
    for (int i = 0; i < n && ok; i++)
        if (!samples[i].err.code) run_program(arena, exec, &samples[i], &samples[i].err);
    dlr_exec_close(exec);
    return ok;
}

static bool write_sample(dl_arena *arena, const char *dir, sample *s, dl_error *err) {
    for (int op = 0; op < DL_NOPS; op++) {
        double made = (double)s->made[op];
        if (made > 0) put_entry(&s->out, "op ", dl_ops[op].name, &made, 1);
    }
    if (s->err.code)
        return dl_write_file(dl_format(arena, "%s/%s.err", dir, s->number), s->err.message,
                             strlen(s->err.message), err);
    return dl_write_file(dl_format(arena, "%s/%s.out", dir, s->number), s->out.at, s->out.n, err);
}

static bool run(dl_arena *arena, const char *engine, const char *dir, int n, char **numbers,
                dl_error *err) {
    bool meaning = !strcmp(engine, "meaning"), passes = !strcmp(engine, "passes"), ok = true;
    sample *samples = DL_NEWS(arena, sample, n);
    for (int i = 0; i < n && ok; i++) {
        sample *s = &samples[i];
        s->number = numbers[i];
        s->text =
            dl_read_file(arena, dl_format(arena, "%s/%s.dl", dir, s->number), 1 << 20, NULL, err);
        ok = s->text &&
             read_entries(arena, dl_format(arena, "%s/%s.in", dir, s->number), &s->in, err);
        if (ok && build(arena, s, &s->err) && (meaning || passes))
            interpret(arena, s, passes, &s->err);
        if (ok && (meaning || passes)) { /* one by one: a later one may end the process */
            ok = write_sample(arena, dir, s, err);
            if (s->module) dl_arena_free(s->module->arena);
        }
    }
    if (ok && !meaning && !passes) {
        ok = run_compiled(arena, engine, n, samples, err);
        for (int i = 0; i < n && ok; i++) ok = write_sample(arena, dir, &samples[i], err);
    }
    for (int i = 0; i < n; i++) dl_buf_free(&samples[i].out);
    return ok;
}

int main(int argc, char **argv) {
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    char dir[] = "/tmp/dl_text_XXXXXX";
    bool ok = false;
    if (argc > 3) {
        ok = test_cache(dir) && run(arena, argv[1], argv[2], argc - 3, argv + 3, &err);
        char command[64];
        snprintf(command, sizeof command, "rm -rf %s", dir);
        if (system(command)) ok = false;
    } else {
        dl_fail(&err, DL_USAGE, "usage: text_run ENGINE DIR N...");
    }
    dl_arena_free(arena);
    if (!ok) fprintf(stderr, "text_run: %s\n", err.message);
    return ok ? 0 : err.code ? (int)err.code : DL_IO;
}

/* Cases: references by the interpreter, and runs of what passes and compiler made of them, each in
 * a process of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/cpu/cpu.h"
#include "ir/base/hash.h"
#include "ir/text/text.h"
#include "runtime/exec/exec.h"
#include "tests/tools/fuzz.h"
#include "tests/unit/random_numbers.h"

static dl_pass_ctx context(dl_arena *arena, const fuzz_way *way, dl_dtype low, dl_layout weights,
                           dl_error *err) {
    return (dl_pass_ctx){
        .arena = arena,
        .weights = weights,
        .half_gemms = way->half_gemms ? 1u << DL_F16 | 1u << DL_BF16 : 0,
        .expanded = way->expanded ? 1u << DL_F64 : 0,
        .keep_gradients = way->keep_gradients,
        .step_options = {.optimizer = way->no_updates ? DL_OPT_NONE : DL_OPT_adam, .low = low},
        .err = err};
}

/* ---- numbers in, numbers out ---- */

/* Element k of a variable but a table, by seed and name alone; of every fourth seed multiples of
 * 1/2, for ties. */
static void draw(const dl_var *v, const char *name, uint64_t seed, double *to) {
    static const struct {
        const char *name;
        double value;
    } fixed[] = {{"optimizer.step", 3},
                 {"optimizer.lr.init", 0.5},
                 {"optimizer.lr.end", 0.25},
                 {"optimizer.lr.warmup", 0},
                 {"optimizer.lr.total", 64}};
    rng r = {dl_hash_str(name, seed)};
    dl_dtype d = v->value.type.dtype;
    if (v->role == DL_VAR_TABLE) return;
    for (int64_t k = 0; k < dl_type_count(&v->value.type); k++) {
        double x = uniform(&r, -1.5, 1.5);
        if (strncmp(name, "exp_avg_sq.", 11) == 0 || strstr(name, ".running_var"))
            x = 0.5 + fabs(x);
        if (seed % 4 == 0) x = rint(2 * x) / 2;
        if (!dl_dtype_is_float(d)) x = floor(3 * x);
        if (d == DL_BOOL) x = x > 0;
        if (d == DL_F32) x = (double)(float)x;
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
            if (strcmp(name, fixed[i].name) == 0) x = fixed[i].value;
        to[k] = x;
    }
}

static void put(void *data, dl_dtype d, int64_t at, double v) {
    switch (d) {
    case DL_F64: ((double *)data)[at] = v; break;
    case DL_I64: ((int64_t *)data)[at] = (int64_t)v; break;
    case DL_I32: ((int32_t *)data)[at] = (int32_t)v; break;
    case DL_BOOL: ((unsigned char *)data)[at] = v != 0; break;
    default: ((float *)data)[at] = (float)v;
    }
}
static double get(const void *data, dl_dtype d, int64_t at) {
    switch (d) {
    case DL_F64: return ((const double *)data)[at];
    case DL_I64: return (double)((const int64_t *)data)[at];
    case DL_I32: return ((const int32_t *)data)[at];
    case DL_BOOL: return ((const unsigned char *)data)[at];
    default: return (double)((const float *)data)[at];
    }
}

static bounded_run *reference(const dl_graph *g, uint64_t seed, dl_error *err) {
    bounded_run *r = bounded_new(g);
    for (int i = 0; i < g->vars.n; i++)
        draw(g->vars.at[i], g->vars.at[i]->name, seed,
             dl_interp_data(r->value, &g->vars.at[i]->value));
    if (bounded_run_all(r, err)) return r;
    bounded_free(r);
    return NULL;
}

bool fuzz_open(fuzz_case *c, const char *text, uint64_t seed, dl_dtype low, dl_error *err) {
    *c = (fuzz_case){.text = text,
                     .seed = seed,
                     .low = low,
                     .written = dl_parse_module(NULL, text, strlen(text), "random", err)};
    if (!c->written) return false;
    fuzz_write_out_attention(c->written->graphs.at[0], c->written->arena);
    dl_pass_ctx ctx = context(c->written->arena, &(fuzz_way){.keep_gradients = true}, low,
                              (dl_layout){.kind = DL_PANEL, .width = 8}, err);
    if (dl_run_passes(c->written, "amp,lower,autodiff,optimizer", &ctx,
                      (dl_pass_options){.validate = DL_VALIDATE_PASSES})) {
        c->want = reference(c->written->graphs.at[0], seed, err);
    }
    if (c->want) return true;
    fuzz_close(c);
    return false;
}

void fuzz_close(fuzz_case *c) {
    if (c->want) bounded_free(c->want);
    if (c->written) dl_arena_free(c->written->arena);
    *c = (fuzz_case){0};
}

/* ---- comparing ---- */

/* One element: false when it is further from what it should be than the bound. */
static bool compare(double got, double want, double bound, fuzz_verdict *v) {
    bool open = !(bound < INFINITY) || isnan(want);
    v->open += open, v->checked += !open;
    return open || fabs(got - want) <= bound;
}

static void say_wrong(fuzz_verdict *v, const dl_result *r, const int64_t *at, double got,
                      double want, double bound) {
    dl_buf place = {0};
    for (int i = 0; i < r->value->type.rank; i++)
        dl_putf(&place, "%s%lld", i ? ", " : "", (long long)at[i]);
    v->state = FUZZ_WRONG;
    snprintf(v->why, sizeof v->why, "%s \"%s\"[%s] is %.9g, should be %.9g within %.2g",
             dl_result_roles[r->role], r->name, place.at ? place.at : "", got, want, bound);
    dl_buf_free(&place);
}

/* Where a run left a result's elements: memory in its layout, or rows of doubles. */
typedef struct {
    const dl_type *type;
    const void *memory;
    const double *row;
} found;

/* Is there a gradient that is not zero, of the parameter that variable `v` belongs to, or (the step
 * count) of any? A parameter from which simplify finds no way to the loss has neither gradient nor
 * update. */
static bool is_trained(const bounded_run *want, const dl_var *v) {
    const char *param = !v ? NULL : v->of ? v->of : v->role == DL_VAR_PARAM ? v->name : NULL;
    for (int i = 0; i < want->graph->results.n; i++) {
        const dl_result *r = &want->graph->results.at[i];
        if (r->role != DL_RESULT_GRAD || (param && strcmp(r->var->name, param) != 0)) continue;
        const double *g = dl_interp_data(want->value, r->value);
        for (int64_t k = 0; k < dl_type_count(&r->value->type); k++)
            if (g[k] != 0) return true;
    }
    return false;
}

static void compare_result(const bounded_run *want, const dl_result *r, found f, fuzz_verdict *v) {
    if (!f.type && (r->var || r->role == DL_RESULT_METRIC) && !is_trained(want, r->var)) return;
    const double *value = dl_interp_data(want->value, r->value),
                 *bound = dl_interp_data(want->bound, r->value);
    int64_t at[DL_MAX_RANK] = {0}, n = dl_type_count(&r->value->type);
    if (!f.type || !dl_type_same(f.type, &r->value->type)) {
        v->state = FUZZ_WRONG;
        snprintf(v->why, sizeof v->why, "%s \"%s\" is %s", dl_result_roles[r->role], r->name,
                 f.type ? dl_type_text(f.type) : "not there");
        return;
    }
    for (int64_t i = 0; i < n && v->state != FUZZ_WRONG; i++, step_on(&r->value->type, at)) {
        double got = f.row ? f.row[i] : get(f.memory, f.type->dtype, dl_type_offset(f.type, at));
        if (!compare(got, value[i], bound[i], v)) say_wrong(v, r, at, got, value[i], bound[i]);
    }
}

static bool is_compared(const dl_result *r, const fuzz_way *way) {
    bool by_adam = r->role == DL_RESULT_UPDATE || strcmp(r->name, "Learning Rate") == 0;
    return by_adam ? !way->no_updates : r->role != DL_RESULT_GRAD || way->keep_gradients;
}

/* ---- by the interpreter ---- */

/* A pass may say that it cannot be left out; nothing else may be refused. */
static void refuse(fuzz_verdict *v, const dl_error *err) {
    v->state = err->code == DL_USAGE && strstr(err->message, "DLC_SKIP") ? FUZZ_NONE : FUZZ_REFUSED;
    snprintf(v->why, sizeof v->why, "%s", err->message);
}

static void try_passes(const fuzz_case *c, const fuzz_way *way, fuzz_verdict *v) {
    dl_error err = {0};
    dl_module *m = dl_parse_module(NULL, c->text, strlen(c->text), "random", &err);
    dl_pass_ctx ctx =
        context(m->arena, way, c->low, (dl_layout){.kind = DL_PANEL, .width = 8}, &err);
    dl_pass_options opt = {.validate = DL_VALIDATE_PASSES, .skip = way->skip};
    ctx.memory = (int64_t)(c->seed % 2); /* a byte: as many kernels as possible run again */
    dl_interp *in = NULL;
    const dl_graph *g = m->graphs.at[0];
    if (dl_run_passes(m, dl_pipeline, &ctx, opt)) {
        in = dl_interp_new(g, false);
        for (int i = 0; i < g->vars.n; i++) {
            const dl_var *var = g->vars.at[i];
            draw(var, var->role == DL_VAR_COPY ? var->of : var->name, c->seed,
                 dl_interp_data(in, &var->value));
        }
        for (int i = 0; i < g->nodes.n && err.code == DL_OK; i++)
            dl_interp_node(in, g->nodes.at[i], &err);
    }
    const dl_graph *w = c->written->graphs.at[0];
    for (int i = 0; i < w->results.n && err.code == DL_OK && v->state != FUZZ_WRONG; i++) {
        const dl_result *r = &w->results.at[i], *mine = dl_graph_find_result(g, r->role, r->name);
        if (!is_compared(r, way)) continue;
        found f = {.type = mine ? &mine->value->type : NULL,
                   .row = mine ? dl_interp_data(in, mine->value) : NULL};
        compare_result(c->want, r, f, v);
    }
    if (err.code != DL_OK) refuse(v, &err);
    if (v->state == FUZZ_NOT_RUN) v->state = FUZZ_FINE;
    dl_interp_free(in);
    dl_arena_free(m->arena);
}

/* ---- compiled ---- */

/* The graph of a case, with its gradients and updates, under another name: "train" is but one in a
 * plan. */
static dl_graph *make_step(const fuzz_case *c, int number, const fuzz_way *way, dl_arena *arena,
                           dl_layout weights, dl_error *err) {
    dl_module *m = dl_parse_module(arena, c->text, strlen(c->text), "random", err);
    dl_pass_ctx ctx = context(arena, way, c->low, weights, err);
    dl_pass_options opt = {.validate = DL_VALIDATE_PASSES, .skip = way->skip};
    if (!m || !dl_run_passes(m, "amp,lower,simplify,autodiff,optimizer", &ctx, opt)) return NULL;
    dl_graph *g = m->graphs.at[0];
    g->name = dl_internf("g%d", number);
    for (int i = 0; i < g->vars.n; i++) {
        dl_var *v = g->vars.at[i];
        if (v->role == DL_VAR_HYPER || strcmp(v->name, "optimizer.step") == 0)
            continue; /* these are shared */
        v->name = dl_internf("%s.%s", g->name, v->name);
        if (v->of) v->of = dl_internf("%s.%s", g->name, v->of);
    }
    return g;
}

const char *const fuzz_faults[] = {"operand", "element", "extent", "offset"};
const int fuzz_nfaults = sizeof fuzz_faults / sizeof *fuzz_faults;

/* Puts the fault into the first place of a kernel where it fits. */
static bool spoil(dl_kernel *k, const char *fault) {
    for (int i = 0; i < k->instrs.n; i++) {
        dl_kinstr *in = &k->instrs.at[i];
        bool two = in->kind == DL_K_ELEM && in->nargs == 2 && in->args[0] != in->args[1];
        if (!strcmp(fault, "operand") && two && (in->op == DL_OP_sub || in->op == DL_OP_mul)) {
            in->args[1] = in->args[0]; /* the first one twice */
            return true;
        }
        if (in->kind == DL_K_REDUCE && in->op == DL_OP_sum && !strcmp(fault, "extent") &&
            dl_kernel_anchor(k) < 0)
            for (int a = 0; a < k->nspace; a++)
                if (in->over >> a & 1 && k->space[a].size > 1) {
                    k->space[a].size--; /* the last one left out */
                    return true;
                }
        if (in->kind != DL_K_LOAD) continue;
        const dl_type *t = &k->params.at[in->param].type;
        for (int a = 0; a < t->rank; a++) {
            bool one = in->index[a].axis < 0 || in->index[a].nterms,
                 moved = !one && in->index[a].offset;
            if (!strcmp(fault, one ? "element" : "offset") && (one || moved) &&
                t->axis[a].size > 1) {
                in->index[a].offset += in->index[a].offset + 1 < t->axis[a].size ? 1 : -1;
                return true;
            }
        }
    }
    return false;
}

typedef struct {
    const fuzz_way *way;
    bool *spoilt; /* by graph */
} spoiler;

static void spoil_all(void *user, int number, const dl_pass *pass, const dl_module *m) {
    spoiler *s = user;
    (void)number;
    if (!s->way->fault || !pass || strcmp(pass->name, "plan_memory")) return;
    for (int i = 0; i < m->graphs.n; i++)
        for (int k = 0; k < m->graphs.at[i]->kernels.n && !s->spoilt[i]; k++)
            s->spoilt[i] = spoil(m->graphs.at[i]->kernels.at[k], s->way->fault);
}

static const dl_target *find_target(const fuzz_way *way, dl_error *err) {
    const dl_target *any = way->emitted ? dl_cpu_target(way->target) : NULL;
    return any ? any : dl_target_find(NULL, way->target, err);
}

/* Lowers and, if asked to, compiles the graphs of all cases not refused yet. */
static dl_plan *compile(const fuzz_case *cases, int n, const fuzz_way *way, dl_arena *arena,
                        bool *spoilt, bool link, const fuzz_verdict *verdicts, dl_error *err) {
    spoiler s = {way, spoilt};
    dl_compile_options opt = {
        .target = find_target(way, err),
        .step_options = {.optimizer =
                             way->no_updates ? DL_OPT_NONE : DL_OPT_adam}, /* the casts are there */
        .keep_gradients = way->keep_gradients,
        .model = "random",
        .batch = 1,
        .skip = way->skip,
        .validate = !way->fault,
        .observe = spoil_all,
        .user = &s,
        .link = link};
    dl_compile_times times;
    dl_module *m = dl_module_new(arena);
    for (int i = 0; i < n && opt.target && err->code == DL_OK; i++) {
        if (verdicts[i].state != FUZZ_NOT_RUN) continue;
        dl_graph *g = make_step(&cases[i], i, way, m->arena, opt.target->weights, err);
        if (!g) break;
        g->module = m;
        dl_push(m->arena, &m->graphs, g);
    }
    return err->code == DL_OK ? dl_compile(arena, m, &opt, &times, err) : NULL;
}

static void run_case(const fuzz_case *c, int number, const fuzz_way *way, dlr_exec *exec,
                     fuzz_verdict *v) {
    const dl_plan *p = dlr_exec_plan(exec);
    const char *name = dl_internf("g%d", number);
    int program = dlr_exec_program(exec, name);
    const dl_graph *w = c->written->graphs.at[0];
    int64_t end = 0;
    for (int i = 0; i < p->vars.n; i++)
        if (p->vars.at[i].offset + dl_type_bytes(&p->vars.at[i].type) > end)
            end = p->vars.at[i].offset + dl_type_bytes(&p->vars.at[i].type);
    if (dlr_exec_arena(exec)) /* what nobody wrote is no number */
        memset(dlr_exec_arena(exec) + end, 0xff, (size_t)(p->arena_bytes - end));
    for (int i = 0; i < w->vars.n; i++) {
        const dl_var *var = w->vars.at[i];
        if (var->role == DL_VAR_TABLE) continue;
        dlr_view view = dlr_exec_variable(exec, dl_internf("%s.%s", name, var->name));
        if (!view.type) view = dlr_exec_variable(exec, var->name);
        int64_t at[DL_MAX_RANK] = {0}, count = dl_type_count(&var->value.type);
        const double *x = dl_interp_data(c->want->value, &var->value);
        void *to = view.type ? dlr_exec_host(exec, view, DLR_UPDATE) : NULL;
        for (int64_t k = 0; view.type && k < count; k++, step_on(view.type, at))
            put(to, view.type->dtype, dl_type_offset(view.type, at), x[k]);
    }
    dlr_exec_run(exec, program, NULL);
    for (int i = 0; i < w->results.n && v->state != FUZZ_WRONG; i++) {
        const dl_result *r = &w->results.at[i];
        if (!is_compared(r, way)) continue;
        dlr_view view = dlr_exec_result(exec, program, r->role, r->name);
        const void *memory = view.type ? dlr_exec_host(exec, view, DLR_READ) : NULL;
        compare_result(c->want, r, (found){.type = view.type, .memory = memory}, v);
    }
    dl_error err = {0};
    if (!dlr_exec_check(exec, &err))
        v->state = FUZZ_WRONG, snprintf(v->why, sizeof v->why, "%s", err.message);
    if (v->state == FUZZ_NOT_RUN) v->state = FUZZ_FINE;
}

/* The text of all graphs at once; where something is wrong with it, nothing is known of any, but of
 * one. */
static void try_emitted(const fuzz_case *cases, int n, const fuzz_way *way,
                        fuzz_verdict *verdicts) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    bool *spoilt = calloc((size_t)n + 1, sizeof *spoilt);
    const dl_target *t = find_target(way, &err);
    bool device = t && t->backend != &dl_backend_cpu && !t->emulated; /* NVRTC compiles */
    dl_plan *p = t ? compile(cases, n, way, arena, spoilt, device, verdicts, &err) : NULL;
    bool ok = p && (device || fuzz_check_sources(arena, p, t, &err));
    for (int i = 0; i < n && ok; i++)
        if (verdicts[i].state == FUZZ_NOT_RUN) verdicts[i].state = FUZZ_FINE;
    if (!ok && n == 1) refuse(&verdicts[0], &err);
    dl_arena_free(arena);
    free(spoilt);
}

static void try_compiled(const fuzz_case *cases, int n, const fuzz_way *way,
                         fuzz_verdict *verdicts) {
    dl_arena *arena = dl_arena_new(NULL);
    bool *spoilt = calloc((size_t)n + 1, sizeof *spoilt);
    for (int i = 0; i < n;
         i++) { /* alone first, without the C compiler: a fault of one is not all theirs */
        dl_error err = {0};
        dl_arena *scratch = dl_arena_new(NULL);
        spoilt[0] = false;
        if (!compile(&cases[i], 1, way, scratch, spoilt, false, &(fuzz_verdict){0}, &err))
            refuse(&verdicts[i], &err);
        if (way->fault && !spoilt[0]) verdicts[i].state = FUZZ_NONE;
        dl_arena_free(scratch);
    }
    dl_error err = {0};
    spoilt[0] = false;
    dl_plan *p = compile(cases, n, way, arena, spoilt, true, verdicts, &err);
    dlr_exec *exec = p ? dlr_exec_open(p, (dlr_exec_options){.threads = way->threads}, &err) : NULL;
    for (int i = 0; i < n; i++)
        if (verdicts[i].state == FUZZ_NOT_RUN) {
            if (exec) run_case(&cases[i], i, way, exec, &verdicts[i]);
            if (!exec && n == 1) refuse(&verdicts[i], &err);
        }
    dlr_exec_close(exec);
    dl_arena_free(arena);
    free(spoilt);
}

/* ---- in a process of its own ---- */

/* Its status; what it says goes to `errors`. */
static int in_child(void (*work)(void *), void *of, FILE *errors) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(errors), 2);
        work(of);
        fflush(NULL);
        _exit(0);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0) {
    }
    return status;
}

static void say_died(fuzz_verdict *v, int status, FILE *errors) {
    char text[400] = "";
    long end = lseek(fileno(errors), 0, SEEK_END), from = end > 390 ? end - 390 : 0;
    ssize_t got = pread(fileno(errors), text, sizeof text - 1, from);
    v->state = FUZZ_DIED;
    snprintf(v->why, sizeof v->why, "died (status 0x%x): %.*s", status, got > 0 ? (int)got : 0,
             text);
}

static void open_and_close(void *of) {
    const fuzz_case *c = of;
    fuzz_case opened;
    dl_error err = {0};
    if (fuzz_open(&opened, c->text, c->seed, c->low, &err)) fuzz_close(&opened);
}

bool fuzz_opens(const char *text, uint64_t seed, dl_dtype low, fuzz_verdict *v) {
    FILE *errors = tmpfile();
    DL_CHECK(errors);
    int status =
        in_child(open_and_close, &(fuzz_case){.text = text, .seed = seed, .low = low}, errors);
    if (status) say_died(v, status, errors);
    fclose(errors);
    return !status;
}

typedef struct {
    const fuzz_case *cases;
    int n;
    const fuzz_way *way;
    fuzz_verdict *verdicts;
} trial;

static void try_all(void *of) {
    const trial *t = of;
    if (t->way->emitted)
        try_emitted(t->cases, t->n, t->way, t->verdicts);
    else if (t->way->target)
        try_compiled(t->cases, t->n, t->way, t->verdicts);
    else
        for (int i = 0; i < t->n; i++) try_passes(&t->cases[i], t->way, &t->verdicts[i]);
}

void fuzz_try(const fuzz_case *cases, int n, const fuzz_way *way, fuzz_verdict *verdicts) {
    if (n == 0) return;
    size_t bytes = sizeof *verdicts * (size_t)n;
    fuzz_verdict *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *errors = tmpfile();
    DL_CHECK(shared != MAP_FAILED && errors);
    int status = in_child(try_all, &(trial){cases, n, way, shared}, errors);
    if (n == 1 && shared->state == FUZZ_NOT_RUN) say_died(shared, status, errors);
    memcpy(verdicts, shared, bytes);
    munmap(shared, bytes);
    fclose(errors);
    int left = 0;
    for (int i = 0; i < n; i++) left += verdicts[i].state == FUZZ_NOT_RUN;
    if (!left) return;
    fuzz_try(cases, n / 2, way, verdicts);
    fuzz_try(cases + n / 2, n - n / 2, way, verdicts + n / 2);
}

/* Kernels whose results have no value in common, as CUDA parts (compiler/cuda/emit_fused_parts.c,
 * merge_fused_parts.c): how many functions serve kernels of other sizes and numbers of parts,
 * what stays as it was, what a plan's file keeps; emulated compared with the interpreter, with and
 * without guards; and through NVRTC without a frame. Exit 77 (skip) without a C++ compiler. */
#include <math.h>

#include "compiler/cuda/cuda.h"
#include "ir/interp/interp.h"
#include "ir/plan/cubin.h"
#include "tests/unit/compiled.h"
#include "tests/unit/cuda_text.h"
#include "tests/unit/random_numbers.h"

/* `n` averages of what comes in, each by a number of its own, all by one scalar and what is made of
 * it (%2); *next: of the first value that is made. */
static void put_averages(dl_buf *b, const char *name, int64_t size, int n, int *next) {
    for (int i = 0; i < n; i++) {
        int v = *next + 2;
        long long c = size;
        dl_putf(
            b,
            "  input $%sx%d = %%%d : f32[C=%lld]\n  state $%ss%d = %%%d : f32[C=%lld] init zero\n",
            name, i, v - 2, c, name, i, v - 1, c);
        dl_putf(b, "  %%%d = mul $%ss%d, $keep : f32[C=%lld]\n", v, name, i, c);
        dl_putf(b, "  %%%d = const {value=0.%d} : f32[]\n  %%%d = mul $%sx%d, %%%d : f32[C=%lld]\n",
                v + 1, i + 1, v + 2, name, i, v + 1, c);
        dl_putf(b, "  %%%d = mul %%%d, %%2 : f32[C=%lld]\n", v + 3, v + 2, c);
        dl_putf(b, "  %%%d = add %%%d, %%%d : f32[C=%lld]\n  update $%ss%d = %%%d\n", v + 4, v,
                v + 3, c, name, i, v + 4);
        *next += 7;
    }
}

/* A value that is told by nothing of the others; two that swap. */
static void put_others(dl_buf *b, int64_t size, int *next) {
    int v = *next + 3;
    long long c = size;
    dl_putf(b, "  input $o%d = %%%d : f32[C=%lld]\n  state $p%d = %%%d : f32[C=%lld] init zero\n",
            v, v - 3, c, v, v - 2, c);
    dl_putf(b, "  state $q%d = %%%d : f32[C=%lld] init zero\n  %%%d = exp $o%d : f32[C=%lld]\n", v,
            v - 1, c, v, v, c);
    dl_putf(b, "  output \"y%lld\" = %%%d\n  %%%d = const {value=2} : f32[]\n", c, v, v + 1);
    dl_putf(b, "  %%%d = mul $q%d, %%%d : f32[C=%lld]\n  %%%d = mul $p%d, %%%d : f32[C=%lld]\n",
            v + 2, v, v + 1, c, v + 3, v, v + 1, c);
    dl_putf(b, "  update $p%d = %%%d\n  update $q%d = %%%d\n", v, v + 2, v, v + 3);
    *next += 7;
}

typedef struct {
    int64_t size;
    int averages;
    bool others;
} part;

static const char *text_of(dl_arena *arena, int n, const part *parts) {
    dl_buf b = {0};
    int next = 3;
    dl_puts(&b, "graph @train {\n  input $keep = %0 : f32[]\n  %1 = const {value=1} : f32[]\n"
                "  %2 = sub %1, $keep : f32[]\n");
    for (int i = 0; i < n; i++) {
        put_averages(&b, dl_format(arena, "g%d", i), parts[i].size, parts[i].averages, &next);
        if (parts[i].others) put_others(&b, parts[i].size, &next);
    }
    dl_puts(&b, "}\n");
    const char *text = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return text;
}

static const part two[] = {{40, 3, true}, {300, 5, false}};

static int count_text(const dl_plan *p, const char *text) {
    int n = 0;
    for (int i = 0; i < p->objects.n; i++)
        for (const char *at = p->objects.at[i].source; (at = strstr(at, text)); at++) n++;
    return n;
}
static int count_functions(const dl_plan *p) {
    return count_text(p, "fused_part own = fused_part_of(");
}

/* Without machine code. */
static dl_plan *plan_of(dl_arena *arena, int n, const part *parts) {
    dl_error err = {0};
    dl_compile_times times = {0};
    dl_compile_options opt = {
        .target = dl_target_find(NULL, "cuda:sm_90a", &err), .model = "text", .batch = 1};
    const char *text = text_of(arena, n, parts);
    opt.step_options.optimizer = DL_OPT_NONE;
    dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    dl_plan *p = m && opt.target ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(p != NULL, "%s", err.message);
    return p;
}

static dl_plan_entry *table_of(const dl_plan *p, int number) {
    for (int i = 0; i < p->kernels.n; i++)
        for (int j = 0; j < p->kernels.at[i].entries.n; j++)
            if (p->kernels.at[i].entries.at[j].table.numbers && number-- == 0)
                return &p->kernels.at[i].entries.at[j];
    return NULL;
}

/* Two kernels, of 3 and 5 averages and two others: one function, with a text for each kind. */
static void test_functions(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *p = plan_of(arena, 2, two);
    if (!p) return;
    const dl_plan_entry *a = table_of(p, 0), *b = table_of(p, 1);
    CHECK(a && b && !table_of(p, 2) && strcmp(a->symbol, b->symbol) == 0 && a->object == b->object,
          "two kernels, one function");
    CHECK(count_functions(p) == 1 && count_text(p, "INLINE void train_") == 3,
          "%d functions of %d kinds", count_functions(p), count_text(p, "INLINE void train_"));
    if (!a || !b) return;
    CHECK(a->numbers.at[0] + b->numbers.at[0] == 3 + 2 + 5, "%lld and %lld parts",
          (long long)a->numbers.at[0], (long long)b->numbers.at[0]);
    dl_arena_free(arena);
}

/* Strands that are all unlike, and one alone, stay as they are. */
static void test_others(void) {
    static const part none[] = {{40, 1, true}, {300, 1, false}};
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *p = plan_of(arena, 2, none);
    if (p) CHECK(count_functions(p) == 0 && !table_of(p, 0), "%d functions", count_functions(p));
    dl_arena_free(arena);
}

/* How many parts a kernel has whose points are so many times as many. */
static int parts_of(dl_arena *arena, const dl_kernel *of, int64_t times) {
    dl_error err = {0};
    dl_buf text = {0};
    dl_emitted code;
    dl_kernel k = *of;
    k.params.at = DL_NEWS(arena, dl_kparam, k.params.n);
    for (int i = 0; i < k.params.n; i++) {
        k.params.at[i] = of->params.at[i];
        for (int a = 0; a < k.params.at[i].type.rank; a++)
            k.params.at[i].type.axis[a].size *= times;
    }
    for (int a = 0; a < k.nspace; a++) k.space[a].size *= times;
    const dl_target *t = dl_target_find(NULL, "cuda:sm_90a", &err);
    CHECK(t && emit_cuda_text(&text, &k, t, NULL, &code, &err), "%s", err.message);
    dl_buf_free(&text);
    return code.fused_parts;
}

/* Long ones do, too. */
static void test_long(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_module *m = NULL;
    if (!compile_text_module(arena, text_of(arena, 1, two), "cuda:sm_90a", NULL, &m)) return;
    int found = 0;
    for (int i = 0; i < m->graphs.n; i++)
        for (int j = 0; j < m->graphs.at[i]->kernels.n; j++) {
            const dl_kernel *k = m->graphs.at[i]->kernels.at[j];
            int parts = parts_of(arena, k, 1), more = parts_of(arena, k, 100),
                most = parts_of(arena, k, 1000);
            CHECK(more == parts && most == 0, "%s: %d, %d and %d parts", k->name, parts, more,
                  most);
            found += parts;
        }
    CHECK(found == 5, "%d parts", found);
    dl_arena_free(arena);
}

/* The plan from its file; and that one which gives more than its table has room for is none. */
static dl_plan *through_file(dl_arena *arena, const dl_plan *from, const char *dir) {
    dl_error err = {0};
    const char *file = dl_format(arena, "%s/parts.dlp", dir);
    CHECK(dl_plan_write(from, file, &err), "%s", err.message);
    dl_plan *p = dl_plan_read(arena, file, &err);
    CHECK(p != NULL, "%s", err.message);
    unlink(file);
    for (int i = 0; p && i < 3; i++) {
        dl_plan_entry *e = table_of(p, 0), good = *e;
        if (i == 0) e->table.pointers = e->args.n - 1;
        if (i == 1) e->table.numbers = e->numbers.n - 1;
        if (i == 2) e->table.pointers = DL_ENTRY_MOST;
        CHECK(!dl_plan_check(p, &err) && strstr(err.message, "entry"), "%d: %s", i, err.message);
        *e = good;
    }
    return p;
}

static bool same(const double *a, const double *b, int64_t n) {
    bool ok = true;
    for (int64_t i = 0; i < n; i++) ok &= fabs(a[i] - b[i]) <= 1e-6 * fmax(1, fabs(b[i]));
    return ok;
}

/* A step, from any state. */
static void test_run(const char *dir, bool guarded) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *text = text_of(arena, 2, two);
    setenv("DLR_DEBUG", guarded ? "guard" : "", 1);
    dl_plan *p = compile_text(arena, text, "cuda:sm_90a:emulated", NULL);
    p = p ? through_file(arena, p, dir) : NULL;
    dl_module *m = dl_parse_module(arena, text, strlen(text), "text", &err);
    dlr_exec *exec = open_plan(p, 1);
    if (!exec || !m) return;
    CHECK(table_of(p, 0) && dl_plan_check_code(p, &err), "%s", err.message);
    const dl_graph *g = m->graphs.at[0];
    dl_interp *in = dl_interp_new(g, false);
    rng r = {5};
    for (int v = 0; v < g->vars.n; v++) {
        double *x = dl_interp_data(in, &g->vars.at[v]->value);
        for (int64_t k = 0; k < dl_type_count(&g->vars.at[v]->value.type); k++)
            x[k] = uniform(&r, -1, 1);
        dlr_state_write(exec, dlr_exec_variable(exec, g->vars.at[v]->name), DL_F64, x);
    }
    CHECK(dl_interp_run(in, &err), "%s", err.message);
    dlr_exec_run(exec, 0, NULL);
    CHECK(dlr_exec_check(exec, &err), "%s", err.message);
    for (int v = 0; v < g->vars.n; v++) {
        double got[300];
        dlr_state_read(exec, dlr_exec_variable(exec, g->vars.at[v]->name), DL_F64, got);
        CHECK(same(got, dl_interp_data(in, &g->vars.at[v]->value),
                   dl_type_count(&g->vars.at[v]->value.type)),
              "%s is off", g->vars.at[v]->name);
    }
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *result = &g->results.at[i];
        if (result->role != DL_RESULT_OUTPUT) continue;
        double *y = read_output(exec, 0, result->name, DL_F64);
        CHECK(y && same(y, dl_interp_data(in, result->value), dl_type_count(&result->value->type)),
              "%s is off", result->name);
        free(y);
    }
    dl_interp_free(in);
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

/* For a GPU: what the table takes, nothing of it or of registers in a thread's memory. */
static void test_code(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_plan *p = compile_text(arena, text_of(arena, 2, two), "cuda:sm_90a", NULL);
    dl_plan_entry *e = p ? table_of(p, 0) : NULL;
    if (e) {
        const dl_plan_object *o = &p->objects.at[e->object];
        dl_cubin c = {0};
        CHECK(dl_cubin_read(arena, o->image, o->bytes, &c, &err), "%s", err.message);
        const dl_cubin_kernel *k = dl_cubin_find(&c, e->symbol);
        CHECK(k && !k->frame_bytes && !k->spill_stores, "%s has a frame of %d bytes", e->symbol,
              k ? k->frame_bytes : -1);
        CHECK(dl_plan_check_code(p, &err), "%s", err.message);
        e->table.pointers++;
        CHECK(!dl_plan_check_code(p, &err) && strstr(err.message, "takes 1 arguments"), "%s",
              err.message);
    }
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_parts_XXXXXX";
    dl_error err = {0};
    if (!test_cache(dir)) return 1;
    test_functions();
    test_others();
    if (dl_target_find(NULL, "cuda:sm_90a", &err)) test_long(), test_code();
    if (!dl_target_find(NULL, "cuda:sm_90a:emulated", &err))
        return dl_test_skip("%s", err.message), 77;
    test_run(dir, false), test_run(dir, true);
    return dl_test_end();
}

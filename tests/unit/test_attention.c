/* Attention's kernels beside the interpreter, on every target: sizes around those of blocks, tiles and
 * vectors, scores that grow from block to block, masks, dropout; the same bits on any number of threads. */
#include "runtime/rng.h"
#include "tests/unit/compiled.h"
#include "verify/verify.h"

typedef struct {
    int batch, queries, keys, heads, size, causal;
    double rate, scale; /* scale: of the normal numbers that everything is made of */
    int64_t part;       /* of all samples; 0: all that there are */
    /* Of a larger attention, where whole[0] is not 0: heads, queries, keys. */
    int first[3], whole[3];
} attention_case;

static const attention_case cases[] = {
    {1, 1, 1, 1, 1, 0, 0, 1, 0, {0}, {0}},
    {2, 5, 7, 3, 2, 0, 0, 1, 0, {0}, {0}},
    {1, 64, 96, 1, 48, 0, 0, 1, 0, {0}, {0}},
    {1, 65, 97, 2, 48, 0, 0, 1, 0, {0}, {0}},
    {2, 33, 193, 1, 16, 0, 0, 1, 0, {0}, {0}},
    {1, 130, 300, 1, 17, 0, 0, 1, 0, {0}, {0}},
    {1, 70, 290, 2, 33, 0, 0, 8, 0, {0}, {0}},
    {1, 129, 49, 1, 64, 0, 0, 30, 0, {0}, {0}},
    {1, 66, 200, 1, 31, 1, 0, 1, 0, {0}, {0}},
    {2, 200, 200, 1, 8, 1, 0, 3, 0, {0}, {0}},
    {1, 200, 66, 2, 5, 1, 0, 1, 0, {0}, {0}},
    {1, 67, 101, 2, 12, 0, 0.3, 1, 0, {0}, {0}},
    {1, 101, 101, 1, 20, 1, 0.9, 2, 0, {0}, {0}},
    {1, 9, 130, 1, 4, 0, 1, 1, 0, {0}, {0}},
    {3, 0, 5, 1, 4, 0, 0, 1, 0, {0}, {0}},
    {2, 70, 132, 1, 16, 1, 0.5, 1, 0, {0}, {0}},
    {1, 66, 40, 1, 192, 0, 0, 1, 0, {0}, {0}},
    {1, 67, 101, 2, 12, 0, 0.3, 1, 3, {0}, {0}},
    {2, 70, 132, 1, 16, 1, 0.5, 1, 1, {0}, {0}},
    {3, 5, 7, 1, 4, 0, 0.6, 1, (int64_t)1 << 33, {0}, {0}},
    {2, 67, 101, 2, 12, 0, 0.3, 1, 3, {4, 66, 0}, {6, 133, 101}},   /* some heads and queries, */
    {2, 65, 68, 1, 16, 0, 0.5, 1, 0, {1, 3, 64}, {2, 70, 132}},     /* and some keys */
    {1, 66, 300, 2, 8, 1, 0, 1, 0, {0, 100, 0}, {2, 300, 300}},     /* who look back a long way */
    {2, 70, 90, 1, 16, 1, 0.2, 1, 2, {3, 131, 130}, {4, 260, 260}}, /* a little */
    {1, 130, 40, 1, 20, 1, 0.4, 1, 0, {0, 200, 30}, {1, 400, 400}}, /* and over all of these keys */
};
enum { NCASES = sizeof cases / sizeof *cases };

/* y and the gradients of q, k and v for a gradient of y that is an input. */
static char *text_of(dl_arena *arena, const attention_case *c, dl_dtype dtype) {
    int features = c->heads * c->size;
    const char *type = dl_dtype_name(dtype);
    char *q = dl_format(arena, "%s[N=%d, T=%d, E=%d]", type, c->batch, c->queries, features);
    char *k = dl_format(arena, "%s[N=%d, S=%d, E=%d]", type, c->batch, c->keys, features);
    const char *of = "";
    if (c->whole[0])
        of = dl_format(arena, ", first=[%d, %d, %d], whole=[%d, %d, %d]", c->first[0], c->first[1],
                       c->first[2], c->whole[0], c->whole[1], c->whole[2]);
    if (c->part || c->whole[0])
        return dl_format(
            arena,
            "graph @train {\n  param $q = %%0 : %s init zero\n  param $k = %%1 : %s init zero\n"
            "  param $v = %%2 : %s init zero\n  input $dy = %%3 : %s\n  hyper $seed = %%4 : i64[]\n"
            "  hyper $part = %%5 : i64[]\n"
            "  %%6, %%7 = flash_attention $q, $k, $v%s {rate=%g, number=3, heads=%d, "
            "causal=%d%s} : %s, f32[N=%d, head=%d, T=%d]\n"
            "  %%8 = mul %%6, $dy : %s\n  %%9 = sum %%8 {over=[N, T, E]} : %s[]\n"
            "  output \"y\" = %%6\n  loss \"loss\" = %%9\n}\n",
            q, k, k, q, c->rate > 0 ? ", $seed, $seed, $part" : "", c->rate, c->heads, c->causal, of, q,
            c->batch, c->heads, c->queries, q, type);
    return dl_format(arena,
                     "graph @train {\n  param $q = %%0 : %s init zero\n  param $k = %%1 : %s init zero\n"
                     "  param $v = %%2 : %s init zero\n  input $dy = %%3 : %s\n"
                     "  %%4 = attention $q, $k, $v {rate=%g, heads=%d, causal=%d} : %s\n"
                     "  %%5 = mul %%4, $dy : %s\n  %%6 = sum %%5 {over=[N, T, E]} : %s[]\n"
                     "  output \"y\" = %%4\n  loss \"loss\" = %%6\n}\n",
                     q, k, k, q, c->rate, c->heads, c->causal, q, q, type);
}

static bool fill(dlr_exec *exec, void *user, dl_error *err) {
    const attention_case *c = user;
    const dl_plan *p = dlr_exec_plan(exec);
    if (!dlr_state_init(exec, 1, err)) return false;
    if (c->part) dlr_state_write(exec, dlr_exec_variable(exec, "part"), DL_I64, &c->part);
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (!dl_dtype_is_float(v->type.dtype)) continue;
        size_t n = (size_t)dl_type_count(&v->type);
        float *noise = calloc(n + 1, sizeof *noise);
        dlr_normals((dlr_rng_place){.seed = 5, .stream = DLR_STREAM_NOISE, .item = (uint32_t)i}, 0, n, 0,
                    (float)c->scale, noise);
        dlr_state_write(exec, dlr_exec_variable(exec, v->name), DL_F32, noise);
        free(noise);
    }
    return true;
}

/* The bytes of every result of a run on so many threads. */
static dl_buf run_on(const dl_plan *p, const attention_case *c, int threads) {
    dl_error err = {0};
    dl_buf bytes = {0};
    dlr_exec *exec = open_plan(p, threads);
    CHECK(exec && fill(exec, (void *)(uintptr_t)c, &err), "%s", err.message);
    if (!exec) return bytes;
    dlr_exec_run(exec, 0, NULL);
    for (int i = 0; i < p->programs.at[0].results.n; i++) {
        const dl_plan_result *r = &p->programs.at[0].results.at[i];
        dlr_view v = dlr_exec_result(exec, 0, r->role, r->name);
        dl_putn(&bytes, dlr_exec_host(exec, v, DLR_READ), (size_t)dl_type_bytes(v.type));
    }
    dlr_exec_close(exec);
    return bytes;
}

static void test_case(const attention_case *c, dl_dtype dtype, const char *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    char *name = dl_format(arena, "%s, %s, [%d, %d x %d, %d of %d], causal %d, rate %g, part %lld, from %d",
                           target, dl_dtype_name(dtype), c->batch, c->queries, c->keys, c->heads, c->size,
                           c->causal, c->rate, (long long)c->part, c->first[1]);
    dl_module *m = NULL;
    dl_plan *p = compile_text_module(arena, text_of(arena, c, dtype), target, NULL, &m);
    if (p) {
        dl_verdict v = {0};
        dl_verify_run run = {{.threads = 2}, fill, (void *)(uintptr_t)c};
        CHECK(dl_verify_kernels(arena, m->graphs.at[0], p, &run, &v, &err), "%s: %s", name, err.message);
        CHECK(v.faults.n == 0, "%s: %s", name, v.faults.n ? v.faults.at[0] : "");
        CHECK(v.compared >= 6, "%s: %d compared", name, v.compared);
        dl_buf one = run_on(p, c, 1), three = run_on(p, c, 3);
        CHECK(one.n == three.n && !memcmp(one.at, three.at, one.n), "%s: other bits on three threads", name);
        dl_buf_free(&one), dl_buf_free(&three);
    }
    dl_arena_free(arena);
}

/* A NaN stays in its row and its head. */
static void test_nan(const char *target) {
    const attention_case c = {1, 70, 100, 2, 8, 0, 0, 1, 0, {0}, {0}};
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_plan *p = compile_text(arena, text_of(arena, &c, DL_F32), target, NULL);
    dlr_exec *exec = open_plan(p, 1);
    if (exec && fill(exec, (void *)(uintptr_t)&c, &err)) {
        dlr_view q = dlr_exec_variable(exec, "q");
        ((float *)dlr_exec_host(exec, q, DLR_UPDATE))[66 * 16 + 3] = __builtin_nanf("");
        dlr_exec_written(exec, q);
        dlr_exec_run(exec, 0, NULL);
        const float *y = dlr_exec_host(exec, dlr_exec_result(exec, 0, DL_RESULT_OUTPUT, "y"), DLR_READ);
        for (int i = 0; i < 70 * 16; i++)
            CHECK((y[i] != y[i]) == (i / 16 == 66 && i % 16 < 8), "%s: y[%d] is %g", target, i, (double)y[i]);
    }
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

int main(void) {
    static const dl_dtype types[] = {DL_F32, DL_BF16, DL_F16};
    char dir[] = "/tmp/dl_attention_XXXXXX";
    if (!compiled_cache(dir)) return 1;
    for (int t = 0; t < COMPILED_TARGETS; t++) {
        int kinds = t < COMPILED_CPUS ? 3 : 1; /* emulated kernels take seconds to compile: a type a case */
        for (int i = 0; i < NCASES; i++)
            for (int d = 0; d < kinds; d++) {
                dl_dtype type = types[(i + d) % 3];
                if (t >= COMPILED_LOW || type == DL_BF16) test_case(&cases[i], type, compiled_targets[t]);
            }
        test_nan(compiled_targets[t]);
    }
    return dl_test_end();
}

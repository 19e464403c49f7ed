/* Attention's kernels compared with the interpreter, on every target: sizes around those of blocks,
 * tiles and vectors, scores that grow from block to block, masks, dropout; the same bits on any
 * number of threads. */
#include "runtime/base/rng.h"
#include "tests/unit/compiled.h"
#include "verify/verify.h"

typedef struct {
    int batch, queries, keys, heads, size, causal;
    double rate, scale; /* scale: of the normal numbers that everything is made of */
    int64_t part;       /* of all samples; 0: all that there are */
    /* The sizes of a larger attention, where whole[0] is not 0: heads, queries, keys. */
    int first[3], whole[3];
    int adds; /* MASKED: by sample and key, BIASED: by head, query and key */
} attention_case;
enum { BIASED = 1, MASKED = 2 };

static const attention_case cases[] = {
    {1, 1, 1, 1, 1, 0, 0, 1, 0, {0}, {0}, 0},
    {2, 5, 7, 3, 2, 0, 0, 1, 0, {0}, {0}, 0},
    {1, 64, 96, 1, 48, 0, 0, 1, 0, {0}, {0}, 0},
    {1, 65, 97, 2, 48, 0, 0, 1, 0, {0}, {0}, 0},
    {2, 33, 193, 1, 16, 0, 0, 1, 0, {0}, {0}, 0},
    {1, 130, 300, 1, 17, 0, 0, 1, 0, {0}, {0}, 0},
    {1, 70, 290, 2, 33, 0, 0, 8, 0, {0}, {0}, 0},
    {1, 129, 49, 1, 64, 0, 0, 30, 0, {0}, {0}, 0},
    {1, 66, 200, 1, 31, 1, 0, 1, 0, {0}, {0}, 0},
    {2, 200, 200, 1, 8, 1, 0, 3, 0, {0}, {0}, 0},
    {1, 200, 66, 2, 5, 1, 0, 1, 0, {0}, {0}, 0},
    {1, 67, 101, 2, 12, 0, 0.3, 1, 0, {0}, {0}, 0},
    {1, 101, 101, 1, 20, 1, 0.9, 2, 0, {0}, {0}, 0},
    {1, 9, 130, 1, 4, 0, 1, 1, 0, {0}, {0}, 0},
    {3, 0, 5, 1, 4, 0, 0, 1, 0, {0}, {0}, 0},
    {2, 70, 132, 1, 16, 1, 0.5, 1, 0, {0}, {0}, 0},
    {1, 66, 40, 1, 192, 0, 0, 1, 0, {0}, {0}, 0},
    {1, 67, 101, 2, 12, 0, 0.3, 1, 3, {0}, {0}, 0},
    {2, 70, 132, 1, 16, 1, 0.5, 1, 1, {0}, {0}, 0},
    {3, 5, 7, 1, 4, 0, 0.6, 1, (int64_t)1 << 33, {0}, {0}, 0},
    {2, 67, 101, 2, 12, 0, 0.3, 1, 3, {4, 66, 0}, {6, 133, 101}, 0}, /* some heads and queries, */
    {2, 65, 68, 1, 16, 0, 0.5, 1, 0, {1, 3, 64}, {2, 70, 132}, 0},   /* and some keys */
    {1, 66, 300, 2, 8, 1, 0, 1, 0, {0, 100, 0}, {2, 300, 300}, 0},   /* who look back a long way */
    {2, 70, 90, 1, 16, 1, 0.2, 1, 2, {3, 131, 130}, {4, 260, 260}, 0}, /* a little */
    {1, 130, 40, 1, 20, 1, 0.4, 1, 0, {0, 200, 30}, {1, 400, 400}, 0}, /* and over all of these keys
                                                                        */
    {4, 65, 97, 8, 5, 0, 0, 1, 0, {0}, {0}, 0}, /* many heads: an item each */
    {11, 70, 70, 3, 18, 1, 0.3, 1, 0, {0}, {0}, 0},
    {16, 3, 200, 2, 6, 0, 0.2, 1, 3, {0}, {0}, 0},
    {2, 70, 100, 2, 12, 0, 0, 1, 0, {0}, {0}, BIASED},
    {3, 5, 130, 2, 16, 0, 0, 1, 0, {0}, {0}, MASKED},
    {2, 66, 97, 3, 8, 1, 0, 2, 0, {0}, {0}, BIASED | MASKED},
    {2, 65, 101, 1, 20, 0, 0.3, 1, 0, {0}, {0}, BIASED | MASKED},
    {16, 3, 200, 2, 6, 0, 0, 1, 0, {0}, {0}, BIASED | MASKED},
    {1, 290, 330, 1, 40, 1, 0, 1, 0, {0}, {0}, 0},  /* blocks of keys that wait for each other */
    {1, 130, 70, 2, 64, 0, 0.2, 2, 0, {0}, {0}, 0}, /* from here on wide heads */
    {1, 66, 100, 1, 72, 1, 0, 8, 0, {0}, {0}, 0},
    {1, 70, 66, 1, 96, 0, 0.3, 1, 0, {0}, {0}, 0},
    {2, 65, 130, 1, 100, 0, 0, 1, 0, {0}, {0}, 0},
    {1, 130, 67, 1, 128, 1, 0.1, 2, 0, {0}, {0}, 0},
    {1, 67, 70, 2, 80, 0, 0, 1, 0, {0}, {0}, BIASED | MASKED},
    {1, 66, 68, 1, 50, 1, 0.2, 1, 0, {0}, {0}, BIASED},
    {1, 70, 100, 2, 9, 0, 0, 1, 0, {0}, {0}, 0},
};
enum { NCASES = sizeof cases / sizeof *cases, OF_NANS = NCASES - 1 };

/* Cases that are compiled together: a case's variables and output bear its number. */
typedef struct {
    int n, at[NCASES];
    dl_dtype dtype;
} group;

/* For each case, y and the gradients of q, k and v, for a gradient of y that is an input. */
static char *text_of(dl_arena *arena, const group *g) {
    const char *type = dl_dtype_name(g->dtype);
    dl_buf vars = {0}, nodes = {0}, outputs = {0};
    int v = 2, total = -1; /* numbers of values; of the losses so far */
    dl_puts(&vars, "graph @train {\n  hyper $seed = %0 : i64[]\n  hyper $part = %1 : i64[]\n");
    for (int i = 0; i < g->n; i++) {
        const attention_case *c = &cases[g->at[i]];
        int n = g->at[i], features = c->heads * c->size;
        char *q = dl_format(arena, "%s[N=%d, T=%d, E=%d]", type, c->batch, c->queries, features);
        char *k = dl_format(arena, "%s[N=%d, S=%d, E=%d]", type, c->batch, c->keys, features);
        dl_putf(&vars, "  param $q%d = %%%d : %s init zero\n  param $k%d = %%%d : %s init zero\n",
                n, v, q, n, v + 1, k);
        dl_putf(&vars, "  param $v%d = %%%d : %s init zero\n  input $dy%d = %%%d : %s\n", n, v + 2,
                k, n, v + 3, q);
        v += 4;
        char *added = "";
        if (c->adds & BIASED) {
            dl_putf(&vars, "  param $b%d = %%%d : %s[1, h=%d, T=%d, S=%d] init zero\n", n, v++,
                    type, c->heads, c->queries, c->keys);
            added = dl_format(arena, ", $b%d", n);
        }
        if (c->adds & MASKED) {
            char *t = dl_format(arena, "[N=%d, h=1, T=1, S=%d]", c->batch, c->keys);
            dl_putf(&vars, "  input $m%d = %%%d : %s%s\n", n, v++, type, t);
            dl_putf(&nodes, "  %%%d = const {value=-0.5} : %s[]\n", v, type);
            dl_putf(&nodes, "  %%%d = gt $m%d, %%%d : bool%s\n", v + 1, n, v, t);
            added = dl_format(arena, "%s, %%%d", added, v + 1), v += 2;
        }
        int y = v++;
        if (c->part || c->whole[0]) {
            dl_putf(
                &nodes,
                "  %%%d, %%%d = flash_attention $q%d, $k%d, $v%d%s {rate=%g, number=3, heads=%d, ",
                y, v++, n, n, n, c->rate > 0 ? ", $seed, $seed, $part" : "", c->rate, c->heads);
            dl_putf(&nodes, "causal=%d", c->causal);
            if (c->whole[0])
                dl_putf(&nodes, ", first=[%d, %d, %d], whole=[%d, %d, %d]", c->first[0],
                        c->first[1], c->first[2], c->whole[0], c->whole[1], c->whole[2]);
            dl_putf(&nodes, "} : %s, f32[N=%d, head=%d, T=%d]\n", q, c->batch, c->heads,
                    c->queries);
        } else
            dl_putf(&nodes,
                    "  %%%d = attention $q%d, $k%d, $v%d%s {rate=%g, heads=%d, causal=%d} : %s\n",
                    y, n, n, n, added, c->rate, c->heads, c->causal, q);
        dl_putf(&nodes, "  %%%d = mul %%%d, $dy%d : %s\n", v, y, n, q);
        dl_putf(&nodes, "  %%%d = sum %%%d {over=[N, T, E]} : %s[]\n", v + 1, v, type);
        if (total >= 0)
            dl_putf(&nodes, "  %%%d = add %%%d, %%%d : %s[]\n", v + 2, total, v + 1, type);
        total = total < 0 ? v + 1 : v + 2, v += 3;
        dl_putf(&outputs, "  output \"y%d\" = %%%d\n", n, y);
    }
    char *text =
        dl_format(arena, "%s%s  loss \"loss\" = %%%d\n%s}\n", vars.at, nodes.at, total, outputs.at);
    dl_buf_free(&vars), dl_buf_free(&nodes), dl_buf_free(&outputs);
    return text;
}

static bool fill(dlr_exec *exec, void *user, dl_error *err) {
    const group *g = user;
    const dl_plan *p = dlr_exec_plan(exec);
    if (!dlr_state_init(exec, 1, err)) return false;
    dlr_state_write(exec, dlr_exec_variable(exec, "part"), DL_I64, &cases[g->at[0]].part);
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (!dl_dtype_is_float(v->type.dtype)) continue;
        size_t n = (size_t)dl_type_count(&v->type);
        float *noise = calloc(n + 1, sizeof *noise);
        const attention_case *c = &cases[atoi(v->name + strcspn(v->name, "0123456789"))];
        dlr_normals((dlr_rng_place){.seed = 5, .stream = DLR_STREAM_NOISE, .item = (uint32_t)i}, 0,
                    n, 0, (float)c->scale, noise);
        dlr_state_write(exec, dlr_exec_variable(exec, v->name), DL_F32, noise);
        free(noise);
    }
    return true;
}

/* The bytes of every result of a run on so many threads. */
static dl_buf run_on(const dl_plan *p, const group *g, int threads) {
    dl_error err = {0};
    dl_buf bytes = {0};
    dlr_exec *exec = open_plan(p, threads);
    CHECK(exec && fill(exec, (void *)(uintptr_t)g, &err), "%s", err.message);
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

static void test_group(const group *g, const char *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    char *name = dl_format(arena, "%s, %s, part %lld", target, dl_dtype_name(g->dtype),
                           (long long)cases[g->at[0]].part);
    dl_module *m = NULL;
    dl_plan *p = compile_text_module(arena, text_of(arena, g), target, NULL, &m);
    if (p) {
        dl_verdict v = {0};
        dl_verify_run run = {{.threads = 2}, fill, NULL, (void *)(uintptr_t)g};
        CHECK(dl_verify_kernels(arena, m->graphs.at[0], p, &run, &v, &err), "%s: %s", name,
              err.message);
        CHECK(v.faults.n == 0, "%s: %s", name, v.faults.n ? v.faults.at[0] : "");
        CHECK(v.compared >= 6 * g->n, "%s: %d compared", name, v.compared);
        dl_buf one = run_on(p, g, 1), three = run_on(p, g, 3);
        CHECK(one.n == three.n && !memcmp(one.at, three.at, one.n),
              "%s: other bits on three threads", name);
        dl_buf_free(&one), dl_buf_free(&three);
    }
    dl_arena_free(arena);
}

/* Cases i with i % every == first, those of one part of all samples together; of these groups some.
 */
static void test_cases(const char *target, dl_dtype dtype, int first, int every) {
    static unsigned cell, number;
    bool done[NCASES] = {0};
    group groups[NCASES];
    unsigned n = 0;
    for (int i = first; i < NCASES; i += every) {
        if (done[i]) continue;
        group g = {.dtype = dtype};
        for (int j = i; j < NCASES; j += every)
            if (cases[j].part == cases[i].part) g.at[g.n++] = j, done[j] = true;
        groups[n++] = g;
    }
    for (unsigned i = 0; i < n; i++)
        if (dl_test_takes_of(cell, i, n, number++)) test_group(&groups[i], target);
    cell++;
}

/* A NaN stays in its row and its head: it is the first after an odd number of the other's
 * features. */
static void test_nan(const char *target, dl_dtype dtype) {
    enum { SIZE = 9, ROW = 2 * SIZE, QUERIES = 70, AT = 66 };
    const group g = {.n = 1, .at = {OF_NANS}, .dtype = dtype};
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_plan *p = compile_text(arena, text_of(arena, &g), target, NULL);
    dlr_exec *exec = open_plan(p, 1);
    if (exec && fill(exec, (void *)(uintptr_t)&g, &err)) {
        dlr_view q = dlr_exec_variable(exec, dl_format(arena, "q%d", OF_NANS));
        float numbers[QUERIES * ROW];
        dlr_state_read(exec, q, DL_F32, numbers);
        numbers[AT * ROW + SIZE] = __builtin_nanf("");
        dlr_state_write(exec, q, DL_F32, numbers);
        dlr_exec_run(exec, 0, NULL);
        dlr_view y = dlr_exec_result(exec, 0, DL_RESULT_OUTPUT, dl_format(arena, "y%d", OF_NANS));
        dlr_state_read(exec, y, DL_F32, numbers);
        for (int i = 0; i < QUERIES * ROW; i++)
            CHECK((numbers[i] != numbers[i]) == (i / ROW == AT && i % ROW >= SIZE),
                  "%s, %s: y[%d] is %g", target, dl_dtype_name(dtype), i, (double)numbers[i]);
    }
    dlr_exec_close(exec);
    dl_arena_free(arena);
}

/* How kernels by wgmma are made: their ways in turn, there and back; or backward in the one of this
 * name. */
typedef struct {
    int number[2]; /* made so far, there and back */
    const char *named;
} ways_taken;

static bool choose_groups(void *user, int n, dl_kernel *const *kernels, dl_error *err) {
    ways_taken *taken = user;
    const dl_target *t = dl_target_find(NULL, "cuda:sm_90a:emulated", err);
    for (int i = 0; i < n; i++) {
        const char *names[DL_MOST_VARIANTS];
        const dl_node *call = dl_kernel_call(kernels[i]);
        int ways = call ? t->backend->variants(kernels[i], t, names) : 1;
        bool back = call && call->op == DL_OP_flash_attention_grad;
        if (ways < 2 || (taken->named && !back)) continue;
        int way = taken->number[back]++ % (ways - 1);
        for (int v = 0; v < ways && taken->named; v++)
            if (strcmp(names[v], taken->named) == 0) way = v;
        CHECK(!taken->named || strcmp(names[way], taken->named) == 0, "no %s", taken->named);
        kernels[i]->schedule.variant = names[way];
    }
    return true;
}

static void test_groups(void) {
    enum { WIDE = OF_NANS - 7, IN_PASS = WIDE - 1 };
    /* odd numbers of tokens and features, masks, dropout, addends; bf16 and f16 in turn */
    static const int of[] = {3,        6,        8,        5,        15,       24,
                             18,       WIDE,     WIDE + 1, WIDE + 2, WIDE + 3, WIDE + 4,
                             WIDE + 5, WIDE + 6, WIDE + 2, WIDE + 3, WIDE + 4, WIDE};
    static const int pass[] = {5, 7, IN_PASS, IN_PASS};
    static const char *const names[] = {"128x64 by wgmma in one pass, 1 ahead, 1 CTAs per SM",
                                        "128x64 by wgmma in one pass, 2 ahead, 1 CTAs per SM"};
    ways_taken taken = {0};
    const dl_tuner tuner = {.choose = choose_groups, .user = &taken};
    compiled_by = &tuner;
    enum { N = sizeof of / sizeof *of, M = sizeof pass / sizeof *pass };
    for (unsigned i = 0; i < N; i++) {
        if (!dl_test_takes_of(0, i, N, i)) continue;
        const group g = {.n = 1, .at = {of[i]}, .dtype = i % 2 ? DL_F16 : DL_BF16};
        test_group(&g, "cuda:sm_90a:emulated");
    }
    CHECK(dl_test_share() > 1 || (taken.number[0] >= N && taken.number[1] >= N),
          "%d and %d kernels by wgmma", taken.number[0], taken.number[1]);
    for (unsigned i = 0; i < M; i++) {
        if (!dl_test_takes_of(1, i, M, i)) continue;
        const group g = {.n = 1, .at = {pass[i]}, .dtype = DL_BF16};
        taken.named = names[i % 2];
        test_group(&g, "cuda:sm_90a:emulated");
    }
    compiled_by = NULL;
}

int main(void) {
    static const dl_dtype types[] = {DL_F32, DL_BF16, DL_F16};
    char dir[] = "/tmp/dl_attention_XXXXXX";
    if (!test_cache(dir)) return 1;
    for (int t = 0; t < COMPILED_TARGETS; t++) {
        for (int d = 0; d < 3; d++)
            if (t >= COMPILED_CPUS) /* emulated kernels take seconds to compile: a type a case */
                test_cases(compiled_targets[t], types[d], d, 3);
            else if (t >= COMPILED_LOW || types[d] == DL_BF16)
                test_cases(compiled_targets[t], types[d], 0, 1);
        test_nan(compiled_targets[t], t < COMPILED_LOW ? DL_BF16 : DL_F32);
    }
    test_groups();
    return dl_test_end();
}

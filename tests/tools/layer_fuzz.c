/* Do models compile? Random ones as people write them (layers.h), from text through the front end,
 * all passes and emission to the C compiler: forward, backward and optimizer, and their evaluation.
 *
 *   layer_fuzz [--models=N] [--from=SEED] [--run=R] [--cuda=R] [--reduce=DIR] [--print=SEED]
 * [FILE.dl...]
 *
 *   --run      one model in R is small, compiled for real, run, and held against the interpreter
 * (pass_fuzz.c); 8
 *   --cuda     the first models of one batch in R are compiled by NVRTC, too; 0: none
 *   --reduce   where failing graphs go, made small
 *   --print    writes the model of that seed, and ends
 *
 * FILEs are such models, too, of which the text of every target and type is looked at; they are run
 * as well.
 *
 * The text of each batch is that of one target in turn, and of one type of mixed precision. A
 * failing model is printed with its seed, which --from and --models=1 repeat. The models are others
 * for each DLC_TEST_DRAW. */
#include <stdlib.h>
#include <unistd.h>

#include "frontends/dl/front.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/text/text.h"
#include "tests/cache.h"
#include "tests/check.h"
#include "tests/targets.h"
#include "tests/tools/fuzz.h"
#include "tests/tools/layers.h"

enum { BATCH = 30, ON_DEVICES = 4 /* graphs */, MOST_REDUCED = 5 };

typedef struct {
    int models, run, cuda;
    uint64_t from;
    const char *reduce;
    int nfiles;
    char **files; /* instead of random models; number i has seed i */
} options;

static long states[FUZZ_DIED + 1], compared, open_ones, reduced, run_models;

/* The target whose text is looked at, and the one that runs: a target of that kind, emulated where
 * this CPU is another one. */
static const struct {
    const char *target, *runs;
    dl_dtype low;
} turns[] = {{"cpu:avx2", "cpu:avx2", DL_F32},
             {"cpu:generic", "cpu:avx512", DL_F32},
             {"cuda:sm_90a:emulated", "cpu:generic", DL_F32},
             {"cpu:avx512", "cpu:avx512", DL_F32},
             {"cpu:avx2", "cpu:avx2", DL_BF16},
             {"cpu:amx_bf16", "cpu:avx512_bf16", DL_BF16},
             {"cuda:sm_80:emulated", "cpu:amx_bf16", DL_BF16},
             {"cpu:generic", "cpu:generic", DL_F16},
             {"cpu:avx512_bf16", "cpu:avx512_bf16", DL_BF16},
             {"cpu:avx2", "cpu:avx2", DL_F16}};
enum { NTURNS = sizeof turns / sizeof *turns };

static bool is_run(const options *o, uint64_t seed) {
    return o->nfiles || (o->run && seed % (uint64_t)o->run == 0);
}

/* The model of that seed, or file, as text. */
static const char *model_text(dl_arena *arena, uint64_t seed, const options *o) {
    dl_error err = {0};
    if (!o->nfiles) return layer_model(arena, seed, is_run(o, seed));
    const char *text = dl_read_file(arena, o->files[seed], 1 << 20, NULL, &err);
    CHECK(text, "%s", err.message);
    return text ? text : "";
}

static const char *text_of(const dl_module *m, const dl_graph *g, dl_arena *arena) {
    dl_module alone = *m;
    dl_graph *one = (dl_graph *)(uintptr_t)g;
    alone.graphs.at = &one, alone.graphs.n = 1;
    dl_buf b = {0};
    dl_print_module(&b, &alone, (dl_print_options){0});
    const char *text = dl_strdup(arena, b.at);
    dl_buf_free(&b);
    return text;
}

/* The graphs of a model's text, as text: to train, and to evaluate. False: the front end refuses
 * it. */
static bool read_model(dl_arena *arena, const char *text, uint64_t seed, const char **train,
                       const char **eval) {
    dl_source *s = dl_source_new(arena, dl_format(arena, "model%llu.dl", (unsigned long long)seed),
                                 text, strlen(text));
    dl_diags *diags = dl_diags_new(arena, s);
    dl_model *model = dl_model_parse(arena, s, diags);
    dl_module *m = model ? dl_model_build(arena, model, &(dl_model_config){0}, diags) : NULL;
    CHECK(m, "model %llu is refused by the front end", (unsigned long long)seed);
    if (!m) {
        dl_buf b = {0};
        dl_diags_print(&b, diags, false);
        printf("%s\n%s\n", b.at ? b.at : "", text);
        dl_buf_free(&b);
        return false;
    }
    *train = text_of(m, dl_module_graph(m, "train"), arena),
    *eval = text_of(m, dl_module_graph(m, "eval"), arena);
    return true;
}

static void report(const fuzz_case *c, const fuzz_way *way, const fuzz_verdict *v,
                   const options *o) {
    static const char *const names[] = {"not run", "fine", "none", "refused", "wrong", "died"};
    dl_arena *arena = dl_arena_new(NULL);
    printf("model %llu, %s, %s%s: %s: %s\n%s\n", (unsigned long long)c->seed, way->target,
           dl_dtype_name(c->low), way->emitted ? ", text alone" : "", names[v->state], v->why,
           model_text(arena, c->seed, o));
    if (o->reduce && reduced++ < MOST_REDUCED) {
        const char *small = fuzz_reduce(arena, c, way, v->state);
        const char *path =
            dl_format(arena, "%s/model%llu.dlir", o->reduce, (unsigned long long)c->seed);
        dl_error err = {0};
        printf("%s", small);
        if (!dl_write_file(path, small, strlen(small), &err)) printf("%s\n", err.message);
    }
    dl_arena_free(arena);
}

static void try_way(const fuzz_case *cases, int n, const fuzz_way *way, const options *o) {
    fuzz_verdict *v = calloc((size_t)n + 1, sizeof *v);
    fuzz_try(cases, n, way, v);
    for (int i = 0; i < n; i++) {
        states[v[i].state]++, compared += v[i].checked, open_ones += v[i].open;
        CHECK(v[i].state == FUZZ_FINE, "model %llu", (unsigned long long)cases[i].seed);
        if (v[i].state != FUZZ_FINE) report(&cases[i], way, &v[i], o);
    }
    free(v);
    fflush(stdout);
}

/* The small models of a batch, run: for their gradients, or their updates. */
static void run_small(const fuzz_case *cases, int n, int batch, const options *o) {
    fuzz_case small[2 * BATCH];
    int k = 0;
    for (int i = 0; i < n; i++) {
        dl_error err = {0};
        fuzz_verdict v = {0};
        if (!is_run(o, cases[i].seed)) continue;
        bool lives = fuzz_opens(cases[i].text, cases[i].seed, cases[i].low, &v);
        bool ok = lives && fuzz_open(&small[k], cases[i].text, cases[i].seed, cases[i].low, &err);
        CHECK(ok, "model %llu: %s%s", (unsigned long long)cases[i].seed, err.message, v.why);
        k += ok;
    }
    bool gradients = batch % 2;
    run_models += k;
    try_way(small, k,
            &(fuzz_way){.target = test_target_here(turns[batch % NTURNS].runs),
                        .skip = "",
                        .keep_gradients = gradients,
                        .no_updates = gradients && turns[batch % NTURNS].low != DL_F16,
                        .threads = 1 + 2 * (batch / 2 % 2)},
            o);
    for (int i = 0; i < k; i++) fuzz_close(&small[i]);
}

/* n models from this seed on, of which the text is made for the batch's target. */
static void try_batch(uint64_t seed, int n, int batch, const options *o) {
    dl_arena *arena = dl_arena_new(NULL);
    fuzz_case cases[2 * BATCH];
    int k = 0, turn = batch % NTURNS;
    for (int i = 0; i < n; i++, seed++) {
        const char *train, *eval;
        if (!read_model(arena, model_text(arena, seed, o), seed, &train, &eval)) continue;
        cases[k++] = (fuzz_case){.text = train, .seed = seed, .low = turns[turn].low};
        cases[k++] = (fuzz_case){.text = eval, .seed = seed, .low = turns[turn].low};
    }
    fuzz_way way = {.target = turns[turn].target, .skip = "", .emitted = true};
    try_way(cases, k, &way, o);
    if (o->cuda && batch % o->cuda == 0) {
        way.target = batch / o->cuda % 2 ? "cuda:sm_80" : "cuda:sm_90a";
        try_way(cases, k < ON_DEVICES ? k : ON_DEVICES, &way, o);
    }
    if (!o->nfiles || turn < 2) run_small(cases, k, batch, o);
    dl_arena_free(arena);
}

static void run(const options *o) {
    int all = o->nfiles ? o->nfiles * NTURNS : o->models, each = o->nfiles ? o->nfiles : BATCH;
    for (int first = 0, batch = 0; first < all; first += each, batch++)
        try_batch(o->nfiles ? 0 : o->from + (uint64_t)first,
                  first + each < all ? each : all - first, batch, o);
    printf(
        "%d models; runs: %ld fine, %ld refused, %ld wrong, %ld died; %ld graphs run, %ld numbers "
        "compared, %.2f%% open\n",
        all, states[FUZZ_FINE], states[FUZZ_REFUSED], states[FUZZ_WRONG], states[FUZZ_DIED],
        run_models, compared,
        100.0 * (double)open_ones / (double)(compared + open_ones ? compared + open_ones : 1));
}

static bool read_option(char *arg, options *o) {
    if (!strncmp(arg, "--models=", 9)) return (o->models = atoi(arg + 9)) > 0;
    if (!strncmp(arg, "--from=", 7)) return o->from = strtoull(arg + 7, NULL, 10), true;
    if (!strncmp(arg, "--run=", 6)) return (o->run = atoi(arg + 6)) >= 0;
    if (!strncmp(arg, "--cuda=", 7)) return (o->cuda = atoi(arg + 7)) >= 0;
    if (!strncmp(arg, "--reduce=", 9)) return o->reduce = arg + 9, true;
    return *arg != '-' && o->nfiles < BATCH && (o->files[o->nfiles++] = arg, true);
}

int main(int argc, char **argv) {
    char *files[BATCH];
    options o = {.models = 40, .from = 1, .run = 8, .files = files};
    const char *print = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--print=", 8)) {
            print = argv[i] + 8;
        } else if (!read_option(argv[i], &o)) {
            fprintf(stderr,
                    "layer_fuzz: unknown option '%s'; tests/tools/layer_fuzz.c tells them\n",
                    argv[i]);
            return DL_USAGE;
        }
    }
    if (print) {
        dl_arena *arena = dl_arena_new(NULL);
        uint64_t seed = strtoull(print, NULL, 10);
        fputs(layer_model(arena, seed, is_run(&o, seed)), stdout);
        dl_arena_free(arena);
        return 0;
    }
    char dir[] = "/tmp/dl_layers_XXXXXX";
    if (!test_cache(dir)) return DL_IO;
    o.from += dl_test_draw() * UINT64_C(1000000);
    if (!o.nfiles) printf("models from %llu on\n", (unsigned long long)o.from);
    run(&o);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) != 0 || dl_test_end();
}

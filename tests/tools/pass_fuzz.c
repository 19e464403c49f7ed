/* Do passes and compiler keep the meaning? Random graphs (tests/unit/random_nodes.h) as training
 * steps, with gradients and Adam, compared with the interpreter in double precision, within the
 * bounds of tests/unit/error_bound.h.
 *
 *   pass_fuzz [--graphs=N] [--from=SEED] [--passes] [--targets] [--skips] [--faults] [--reduce=DIR]
 * [--hour] pass_fuzz FILE.dlir [--from=SEED] ...
 *
 *   --passes   after the passes: all of them, each left out alone, and as many as possible left
 * out
 *   --targets  compiled for each target that this machine runs (a share's graphs for the best, and
 * for one of the others each); --targets=NAME: for that one (a GPU's, emulated:
 * cuda:sm_90a:emulated)
 *   --skips    compiled with each pass left out alone, and as many as possible, in turn from batch
 * to batch
 *   --low=TYPE with mixed precision in bf16 or f16
 *   --faults   the other way round: faults put into the kernels must be found
 *   --reduce   where failing graphs go, made small (each is also printed)
 *   --hour     as many graphs as FUZZ_SECONDS (3600) have room for
 *
 * A FILE is one such graph: `--from` is the seed in its first line. Where DLC_TEST_SHARE asks for
 * one case in so many, those are the first ones of N. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/text/text.h"
#include "tests/cache.h"
#include "tests/check.h"
#include "tests/tools/fuzz.h"
#include "tests/unit/random_graph.h"

enum { BATCH = 125, STEPS = 10, MOST_REDUCED = 5 };

typedef struct {
    int graphs;
    uint64_t from;
    bool passes, targets, skips, faults, hour;
    dl_dtype low;
    const char *reduce, *file;
} options;
static const char *only; /* --targets=NAME */

static long states[FUZZ_DIED + 1], compared, open_ones, reduced;
static random_counts counts;
static long trained[DL_NOPS];
static double nodes;

static const char *text_of(const dl_module *m, dl_arena *arena) {
    dl_buf b = {0};
    dl_print_module(&b, m, (dl_print_options){0});
    const char *text = dl_strdup(arena, b.at);
    dl_buf_free(&b);
    return text;
}

/* Counts each op once for every node of it that stands between a parameter and the loss, in floats.
 */
static void count_trained(const dl_graph *g, dl_arena *arena) {
    bool *learns = DL_NEWS(arena, bool, g->next_id + 1),
         *matters = DL_NEWS(arena, bool, g->next_id + 1);
    for (int i = 0; i < g->vars.n; i++)
        learns[g->vars.at[i]->value.id] = g->vars.at[i]->role == DL_VAR_PARAM;
    for (int i = 0; i < g->results.n; i++)
        matters[g->results.at[i].value->id] |= g->results.at[i].role == DL_RESULT_LOSS;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nin; k++)
            learns[g->nodes.at[i]->out[0].id] |=
                dl_dtype_is_float(g->nodes.at[i]->out[0].type.dtype) &&
                learns[g->nodes.at[i]->in[k]->id];
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        if (!learns[n->out[0].id] || !matters[n->out[0].id]) continue;
        trained[n->op]++;
        for (int k = 0; k < n->nin; k++) matters[n->in[k]->id] = true;
    }
}

/* In f64 where passes alone are looked at: doubles are close enough to show every slip. */
static const char *generate(uint64_t seed, bool doubles, dl_arena *arena) {
    dl_module *m = dl_module_new(arena);
    const dl_graph *g = random_graph(m, "train", seed, STEPS, doubles ? DL_F64 : DL_F32, &counts);
    nodes += g->nodes.n;
    count_trained(g, arena);
    return text_of(m, arena);
}

static void report(const fuzz_case *c, const fuzz_way *way, const fuzz_verdict *v,
                   const options *o) {
    static const char *const names[] = {"not run", "fine", "none", "refused", "wrong", "died"};
    printf("graph %llu, %s, skip '%s', %d threads%s: %s: %s\n", (unsigned long long)c->seed,
           way->target ? way->target : "passes", way->skip, way->threads,
           way->no_updates       ? ", gradients"
           : way->keep_gradients ? ", gradients and updates"
                                 : ", updates",
           names[v->state], v->why);
    if (!o->reduce || reduced++ >= MOST_REDUCED) return;
    dl_arena *arena = dl_arena_new(NULL);
    const char *small = fuzz_reduce(arena, c, way, v->state);
    const char *text =
        dl_format(arena, "# seed %llu, %s, skip '%s'%s: %s: %s\n%s", (unsigned long long)c->seed,
                  way->target ? way->target : "passes", way->skip,
                  way->no_updates       ? ", gradients"
                  : way->keep_gradients ? ", gradients and updates"
                                        : ", updates",
                  names[v->state], v->why, small);
    const char *path =
        dl_format(arena, "%s/graph%llu.dlir", o->reduce, (unsigned long long)c->seed);
    dl_error err = {0};
    printf("%s", text);
    if (!dl_write_file(path, text, strlen(text), &err)) printf("%s\n", err.message);
    dl_arena_free(arena);
}

/* Opens the graph as a case. False: it is no graph, or gradients and reference cannot be made of
 * it. */
static bool open_case(fuzz_case *c, const char *text, uint64_t seed, const options *o) {
    dl_error err = {0};
    fuzz_verdict v = {0};
    bool lives = fuzz_opens(text, seed, o->low, &v),
         ok = lives && fuzz_open(c, text, seed, o->low, &err);
    CHECK(ok, "graph %llu: %s\n%s", (unsigned long long)seed, err.message, text);
    if (lives) return ok;
    states[FUZZ_DIED]++;
    report(&(fuzz_case){.text = text, .seed = seed, .low = o->low}, &(fuzz_way){.skip = ""}, &v, o);
    return false;
}

static void try_way(const fuzz_case *cases, int n, const fuzz_way *way, const options *o) {
    fuzz_verdict v[BATCH] = {0};
    fuzz_try(cases, n, way, v);
    for (int i = 0; i < n; i++) {
        states[v[i].state]++, compared += v[i].checked, open_ones += v[i].open;
        bool fine = v[i].state == FUZZ_FINE || v[i].state == FUZZ_NONE;
        CHECK(fine, "graph %llu", (unsigned long long)cases[i].seed);
        if (!fine) report(&cases[i], way, &v[i], o);
    }
    fflush(stdout);
}

/* Ways to leave passes out: none, each alone, and as many as possible. Without composites,
 * gradients and updates it would be another program. */
static const char *skip_of(int i) { /* NULL after the last */
    if (i == 0) return "";
    for (int k = 0; k < dl_npasses; k++) {
        bool meaning = !strcmp(dl_passes[k].name, "amp") || !strcmp(dl_passes[k].name, "lower") ||
                       !strcmp(dl_passes[k].name, "autodiff") ||
                       !strcmp(dl_passes[k].name, "optimizer");
        if (!meaning && --i == 0) return dl_passes[k].name;
    }
    return i == 1 ? "simplify,fuse,schedule" : NULL;
}
static int count_skips(void) {
    int n = 0;
    while (skip_of(n)) n++;
    return n;
}

static const char *const targets[] = {"cpu:amx_bf16", "cpu:avx512_bf16", "cpu:avx512", "cpu:avx2",
                                      "cpu:generic"};

/* The i-th that runs here, or NULL. The first LOW are of use to bf16 alone. */
static const char *best_target(const options *o, int i) {
    if (only) return i ? NULL : only;
    enum { LOW = 2 };
    for (size_t k = o->low == DL_BF16 ? 0 : LOW; k < sizeof targets / sizeof *targets; k++) {
        dl_error err = {0};
        if (dl_target_find(NULL, targets[k], &err) && i-- == 0) return targets[k];
    }
    return NULL;
}

static void try_batch(const fuzz_case *cases, int n, int batch, const options *o) {
    for (int s = 0; o->passes && skip_of(s); s++)
        try_way(cases, n,
                &(fuzz_way){.skip = skip_of(s),
                            .keep_gradients = (batch + s) % 2,
                            .half_gemms = batch / 2 % 2,
                            .expanded = (batch + s) / 2 % 2},
                o);
    /* Compiled, half of them for their gradients and half for their updates, which is half the code
     * each; in f16 for both, since the optimiser's scale is in the gradients. */
    bool scales = o->low == DL_F16;
    int others = -1; /* targets next to the best */
    while (o->targets && best_target(o, others + 1)) others++;
    for (int t = 0; t <= others; t++) {
        bool gradients = (batch + t) % 2, some = t > 0 && dl_test_share() > 1 && !o->file;
        int from = some ? n * (t - 1) / others : 0, to = some ? n * t / others : n;
        try_way(cases + from, to - from,
                &(fuzz_way){.target = best_target(o, t),
                            .skip = "",
                            .keep_gradients = gradients,
                            .no_updates = gradients && !scales,
                            .threads = 1 + 2 * (batch / 2 % 2)},
                o);
    }
    int skips = count_skips() - 1;
    const char *skip = skip_of(1 + batch % skips), *target = best_target(o, batch % 2);
    bool gradients = batch / skips % 2;
    fuzz_way way = {.target = target ? target : best_target(o, 0),
                    .skip = skip,
                    .keep_gradients = gradients,
                    .no_updates = gradients && !scales,
                    .threads = 1};
    if (o->skips) try_way(cases, n, &way, o);
}

/* Counts, among the graphs in which there is room for it, how many show each fault? Not all can:
 * what is spoilt may be zero, or after a kink. */
static int had[8], found[8];

static void try_faults(const fuzz_case *cases, int n, const options *o) {
    for (int f = 0; f < fuzz_nfaults; f++) {
        fuzz_verdict v[BATCH] = {0};
        fuzz_way way = {.target = best_target(o, 0),
                        .skip = "",
                        .keep_gradients = true,
                        .threads = 1,
                        .fault = fuzz_faults[f]};
        fuzz_try(cases, n, &way, v);
        for (int i = 0; i < n; i++) {
            had[f] += v[i].state != FUZZ_NONE && v[i].state != FUZZ_REFUSED;
            found[f] += v[i].state == FUZZ_WRONG;
        }
    }
}

static void check_faults(const options *o) {
    for (int f = 0; f < fuzz_nfaults; f++) {
        printf("fault '%s': in %d of %d graphs, found in %d\n", fuzz_faults[f], had[f], o->graphs,
               found[f]);
        CHECK(4 * had[f] >= o->graphs && 3 * found[f] >= 2 * had[f], "%s", fuzz_faults[f]);
    }
}

static const char *const gradients[DL_NOPS] = {
#define OP(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr) #grad,
#include "ir/ops.def"
#undef OP
};

/* Every op is drawn, and where it has a gradient on the way to a loss; or it is named as one that
 * cannot be. */
static void check_cover(void) {
    for (int op = 0; op < DL_NOPS; op++) {
        CHECK(trained[op] > 0 || !random_makes((dl_op)op) || !strcmp(gradients[op], "zero"),
              "no gradient of op '%s' was drawn", dl_ops[op].name);
        CHECK((counts.made[op] > 0) == random_makes((dl_op)op), "op '%s' was drawn %ld times",
              dl_ops[op].name, counts.made[op]);
        CHECK(bounded_op((dl_op)op) || !random_makes((dl_op)op),
              "op '%s' has no bound (error_bound.h)", dl_ops[op].name);
    }
}

static bool has_time(const options *o) {
    const char *seconds = getenv("FUZZ_SECONDS");
    static double end;
    if (end == 0) end = dl_clock_seconds() + (seconds ? atoi(seconds) : 3600);
    return !o->hour || dl_clock_seconds() < end;
}

static void run(options *o) {
    int opened = 0;
    for (int first = 0, batch = 0; first < o->graphs; first += BATCH, batch++) {
        if (!has_time(o)) {
            o->graphs = first;
            break;
        }
        dl_arena *arena = dl_arena_new(NULL);
        fuzz_case cases[BATCH];
        int n = 0;
        for (int i = first; i < o->graphs && i < first + BATCH; i++) {
            dl_error err = {0};
            uint64_t seed = o->from + (uint64_t)i;
            const char *text = o->file ? dl_read_file(arena, o->file, 1 << 20, NULL, &err)
                                       : generate(seed, o->passes && o->low == DL_F32, arena);
            CHECK(text, "%s", err.message);
            bool ok = text && open_case(&cases[n], text, seed, o);
            n += ok, opened += ok;
        }
        if (o->faults)
            try_faults(cases, n, o);
        else
            try_batch(cases, n, batch, o);
        for (int i = 0; i < n; i++) fuzz_close(&cases[i]);
        dl_arena_free(arena);
    }
    printf(
        "%d graphs of %.0f nodes, %.2f%% of them legal; %.1f%% of the nodes asked for were legal\n",
        o->graphs, nodes / o->graphs, 100.0 * opened / o->graphs,
        100.0 * (double)(counts.tries - counts.refused) /
            (double)(counts.tries ? counts.tries : 1));
    printf("runs: %ld fine, %ld without a pass that is needed, %ld refused, %ld wrong, %ld died; "
           "%ld numbers "
           "compared, %.2f%% open (ties, beyond f32)\n",
           states[FUZZ_FINE], states[FUZZ_NONE], states[FUZZ_REFUSED], states[FUZZ_WRONG],
           states[FUZZ_DIED], compared,
           100.0 * (double)open_ones / (double)(compared + open_ones ? compared + open_ones : 1));
    if (o->graphs >= 200) check_cover();
    if (o->faults) check_faults(o);
}

static bool read_option(const char *arg, options *o) {
    if (!strncmp(arg, "--graphs=", 9)) return (o->graphs = atoi(arg + 9)) > 0;
    if (!strncmp(arg, "--from=", 7)) return o->from = strtoull(arg + 7, NULL, 10), true;
    if (!strncmp(arg, "--reduce=", 9)) return o->reduce = arg + 9, true;
    if (!strcmp(arg, "--low=bf16")) return o->low = DL_BF16, true;
    if (!strcmp(arg, "--low=f16")) return o->low = DL_F16, true;
    if (!strcmp(arg, "--passes")) return o->passes = true;
    if (!strcmp(arg, "--targets")) return o->targets = true;
    if (!strncmp(arg, "--targets=", 10)) return only = arg + 10, o->targets = true;
    if (!strcmp(arg, "--skips")) return o->skips = true;
    if (!strcmp(arg, "--faults")) return o->faults = true;
    if (!strcmp(arg, "--hour")) return o->graphs = INT_MAX - BATCH, o->hour = true;
    return *arg != '-' && (o->file = arg, true);
}

int main(int argc, char **argv) {
    options o = {.graphs = 40, .from = 1};
    for (int i = 1; i < argc; i++)
        if (!read_option(argv[i], &o)) {
            fprintf(stderr, "pass_fuzz: unknown option '%s'; tests/tools/pass_fuzz.c tells them\n",
                    argv[i]);
            return DL_USAGE;
        }
    if (o.file)
        o.graphs = 1;
    else if (!o.hour)
        o.graphs = (o.graphs - 1) / (int)dl_test_share() + 1;
    char dir[] = "/tmp/dl_fuzz_XXXXXX";
    if (!test_cache(dir)) return DL_IO;
    run(&o);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) != 0 || dl_test_end();
}

/* The time of a call of dlc_predict, and of the kernels in it, for bench/latency.
 *
 *   latency_run MODEL THREADS SAMPLES CALLS PAUSE_US DUMP [KEY=VALUE...]
 *
 * PAUSE_US: a busy wait before each call, in which a solver would compute; after 100 us the pool's
 * threads sleep. DUMP: a file for inputs, parameters and outputs, float32 in this order; "-": none.
 * Prints medians in microseconds: "call", of dlc_predict; "kernels", of its launches' sum, and
 * "beyond", of the rest, both of other calls, whose launches are timed. Then "launches", their
 * number; "handed", how many loops a call hands to the pool; "bits", a hash of the outputs;
 * "parameters", their names and shapes in the dump's order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "ir/base/hash.h"
#include "library/model.h"

enum { BLOCK = 100, MOST_SETTINGS = 30 };

typedef struct {
    dlc_model *m;
    int64_t samples, pause_ns;
    void *in[DLC_MAX_ARRAYS], *out[DLC_MAX_ARRAYS];
    int launches;
    dlr_timeline times;
} job;

typedef struct {
    int64_t *call, *kernels, *beyond;
} figures;

static dlc_model *open_model(char **v, int n, dlc_status *status) {
    const char *settings[MOST_SETTINGS + 1] = {0};
    for (int i = 6; i < n && i - 6 < MOST_SETTINGS; i++) settings[i - 6] = v[i];
    const dlc_options o = {.size = sizeof o,
                           .device = "cpu",
                           .threads = atoi(v[1]),
                           .batch = atoi(v[2]),
                           .settings = settings,
                           .raw = 1};
    return dlc_open(v[0], &o, status);
}

static int64_t count_of(const dlc_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

/* Arrays of a role, with numbers in -1 .. 1. */
static bool make_arrays(const dlc_model *m, dlc_role role, void **at) {
    uint32_t bits = 1;
    dlc_tensor t;
    for (int i = 0; dlc_describe(m, role, i, &t); i++) {
        int64_t n = count_of(&t);
        float *x = at[i] = t.dtype == DLC_F32 ? malloc((size_t)n * sizeof *x) : NULL;
        for (int64_t j = 0; x && j < n; j++) {
            bits = bits * 1664525u + 1013904223u;
            x[j] = (float)(int32_t)bits * 0x1p-31f;
        }
        if (!x) return false;
    }
    return true;
}

/* ---- times ---- */

/* Nanoseconds of a call; with `kernels`, of its launches, too. */
static int64_t call(job *j, int64_t *kernels) {
    int64_t begin = dl_clock_ns();
    while (dl_clock_ns() < begin + j->pause_ns) continue;
    if (kernels) dlr_exec_time(j->m->exec, &j->times);
    begin = dl_clock_ns();
    dlc_predict(j->m, j->samples, (const void *const *)j->in, j->out, NULL);
    int64_t took = dl_clock_ns() - begin;
    if (kernels) *kernels = 0;
    for (int i = 0; kernels && i < j->launches; i++)
        *kernels += j->times.launches[i].ended - j->times.launches[i].began;
    return took;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median(int64_t *ns, int n) {
    qsort(ns, (size_t)n, sizeof *ns, compare);
    return (double)ns[n / 2] * 1e-3;
}

static void measure(job *j, int calls, figures *f) {
    for (int i = 0; i < BLOCK; i++) call(j, NULL);
    for (int first = 0; first < calls; first += BLOCK) {
        for (int i = first; i < first + BLOCK; i++) f->call[i] = call(j, NULL);
        for (int i = first; i < first + BLOCK; i++)
            f->beyond[i] = call(j, &f->kernels[i]) - f->kernels[i];
    }
}

/* ---- what is reported ---- */

static uint64_t hash_outputs(const job *j) {
    uint64_t hash = 0;
    dlc_tensor t;
    for (int i = 0; dlc_describe(j->m, DLC_OUTPUT, i, &t); i++)
        hash = dl_hash(j->out[i], (size_t)count_of(&t) * sizeof(float), hash);
    return hash;
}

static void print_parameters(const dlc_model *m) {
    dlc_tensor t;
    for (int i = 0; dlc_describe(m, DLC_PARAMETER, i, &t); i++) {
        printf("%s[\"%s\", [", i ? ", " : "", t.name);
        for (int k = 0; k < t.rank; k++) printf("%s%lld", k ? ", " : "", (long long)t.shape[k]);
        printf("]]");
    }
}

static void dump_arrays(const dlc_model *m, dlc_role role, void *const *at, FILE *to) {
    dlc_tensor t;
    for (int i = 0; dlc_describe(m, role, i, &t); i++)
        fwrite(at[i], sizeof(float), (size_t)count_of(&t), to);
}

static bool dump(const job *j, const char *path) {
    FILE *to = strcmp(path, "-") == 0 ? NULL : fopen(path, "wb");
    dlc_tensor t;
    if (!to) return strcmp(path, "-") == 0;
    dump_arrays(j->m, DLC_INPUT, j->in, to);
    bool ok = true;
    for (int i = 0; ok && dlc_describe(j->m, DLC_PARAMETER, i, &t); i++) {
        size_t n = (size_t)count_of(&t);
        float *x = malloc(n * sizeof *x);
        ok = x && dlc_get(j->m, t.name, x, n * sizeof *x, NULL) && fwrite(x, 4, n, to) == n;
        free(x);
    }
    dump_arrays(j->m, DLC_OUTPUT, j->out, to);
    return fclose(to) == 0 && ok;
}

static bool run(job *j, int calls, const char *path) {
    calls = (calls + BLOCK - 1) / BLOCK * BLOCK;
    int64_t *all = calloc((size_t)calls * 3, sizeof *all);
    if (!all) return false;
    figures f = {all, all + calls, all + 2 * (size_t)calls};
    measure(j, calls, &f);
    const dlr_pool *pool = dlr_exec_pool(j->m->exec);
    uint32_t before = dlr_pool_handed(pool);
    call(j, NULL);
    printf("{\"call\": %.3f, \"kernels\": %.3f, \"beyond\": %.3f, \"launches\": %d, "
           "\"handed\": %u, \"bits\": \"%016llx\", \"parameters\": [",
           median(f.call, calls), median(f.kernels, calls), median(f.beyond, calls), j->launches,
           dlr_pool_handed(pool) - before, (unsigned long long)hash_outputs(j));
    print_parameters(j->m);
    printf("]}\n");
    free(all);
    return dump(j, path);
}

int main(int argc, char **argv) {
    dlc_status status = {0};
    if (argc < 7) return fprintf(stderr, "latency_run: see the head of its source\n"), 2;
    job j = {.m = open_model(argv + 1, argc - 1, &status),
             .samples = atoi(argv[3]),
             .pause_ns = atoi(argv[5]) * (int64_t)1000};
    if (!j.m) return fprintf(stderr, "latency_run: %s\n", status.message), 1;
    j.launches = j.m->plan->programs.at[j.m->predict].launches.n;
    j.times.launches = calloc((size_t)j.launches + 1, sizeof *j.times.launches);
    bool ok = j.times.launches && make_arrays(j.m, DLC_INPUT, j.in) &&
              make_arrays(j.m, DLC_OUTPUT, j.out) && run(&j, atoi(argv[4]), argv[6]);
    for (int i = 0; i < DLC_MAX_ARRAYS; i++) free(j.in[i]), free(j.out[i]);
    free(j.times.launches);
    dlc_close(j.m);
    return !ok;
}

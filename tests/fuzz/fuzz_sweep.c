/* A sweep's file, the values and names of its trials; and the journal of what became of them. */
#include "frontends/yaml/sweep_file.h"
#include "runtime/sweep/sweep_trials.h"
#include "tests/fuzz/fuzz.h"

static void read_file(dl_arena *arena, const dl_yaml *top) {
    dl_error err = {0};
    const dl_sweep_file *f = dl_sweep_parse(arena, top, "fuzz.yaml", &err);
    FUZZ_CHECK(f || err.code == DL_INPUT);
    if (!f) return;
    FUZZ_CHECK(f->n > 0 && (f->trials > 0 || (f->trials == -1 && !f->method->is_grid)));
    int64_t some[] = {0, 1, f->trials - 1};
    for (int i = 0; i < 3; i++) {
        if (some[i] < 0 || (f->trials >= 0 && some[i] >= f->trials)) continue;
        const dl_yaml *values = dl_sweep_values(arena, f, some[i], NULL);
        const char *name = dl_sweep_name(arena, f, values);
        FUZZ_CHECK(values->entries.n == f->n && dl_is_file_name(name));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const dl_yaml *top = dl_yaml_read(arena, (const char *)data, n, "fuzz.yaml", &err);
    if (top) read_file(arena, top);
    dlr_trials all = {0};
    size_t end;
    err = (dl_error){0};
    const char *text = dl_strndup(arena, (const char *)data, n);
    bool ok = dlr_trials_parse(arena, text, strlen(text), "fuzz.jsonl", &all, &end, &err);
    FUZZ_CHECK((ok || err.code == DL_INPUT) && end <= n);
    for (int i = 0; i < all.list.n; i++) {
        const dlr_trial *t = &all.list.at[i];
        FUZZ_CHECK(t->name && dl_is_file_name(t->run) && t->values && t->taken > 0);
        FUZZ_CHECK(i == 0 || all.list.at[i - 1].number < t->number);
    }
    dl_arena_free(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[] = {"method: ",
                                        "random",
                                        "bayes",
                                        "early_terminate: {type: hyperband, min_iter: 3}",
                                        "max_iter: ",
                                        "metric: {name: a, goal: maximize}",
                                        "parameters: ",
                                        "values: [",
                                        "value: ",
                                        "min: ",
                                        "max: ",
                                        "q: ",
                                        "mu: ",
                                        "sigma: ",
                                        "distribution: ",
                                        "q_log_uniform_values",
                                        "normal",
                                        "probabilities: [0.5, 0.5]",
                                        "run_cap: ",
                                        "\"trial\": ",
                                        "\"event\": \"returned\"",
                                        "\"event\": \"taken\"",
                                        "\"values\": {",
                                        "1e300",
                                        NULL};
    fuzz_random r = {seed};
    return fuzz_mutate_text((char *)data, n, max, words, &r);
}

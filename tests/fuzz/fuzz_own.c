/* Data of one's own: the section of a configuration, and the statistics that are kept next to the
 * data. */
#include <math.h>
#include <stdlib.h>

#include "runtime/data/array_dataset_statistics.h"
#include "runtime/setup/array_options.h"
#include "tests/fuzz/fuzz.h"

static void check_variable(const dlr_array_dataset_variable *v,
                           const dlr_array_dataset_split *split) {
    FUZZ_CHECK(v->files.n > 0 || split->kind == DLR_SPLIT_FILES);
    for (int i = 0; i < v->n_channels; i++) FUZZ_CHECK(v->channels[i] >= 0);
    FUZZ_CHECK(!v->level_axis || (v->levels.n > 0 && !v->levels.path && !v->channels));
}

static void read_section(const dl_yaml *section) {
    static const char *const names[] = {"x", "mask", "label"};
    dlr_arrays arrays = {0};
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    for (int k = 0; k < 3; k++) {
        dl_type t = dl_scalar(k == 2 ? DL_I64 : DL_F32);
        dl_type_push(&t, "N", 2), dl_type_push(&t, "H", 5), dl_type_push(&t, "W", 7);
        FUZZ_CHECK(dlr_arrays_add(&arrays, names[k], k == 2, &t, &err));
    }
    dlr_array_dataset_options o;
    bool ok = dl_own_data_options(arena, section, &arrays, &o, &err);
    FUZZ_CHECK(ok || err.code == DL_INPUT);
    for (int k = 0; ok && k < 3; k++) {
        const dlr_array_dataset_source *s = &o.source[k];
        FUZZ_CHECK(s->key && s->n_variables > 0 && s->mean.n >= 0);
        for (int i = 0; i < s->std.n; i++) FUZZ_CHECK(s->std.at[i] > 0);
        for (int j = 0; j < s->n_variables; j++) check_variable(&s->variables[j], &o.split);
    }
    for (int i = 0; ok && i < o.step_axes.n; i++) FUZZ_CHECK(o.steps[i] >= 1);
    dl_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const dl_yaml *section = dl_yaml_read(arena, (const char *)data, n, "fuzz.yaml", &err);
    if (section) read_section(section);
    dlr_array_dataset_channel channels[2] = {{0}};
    if (dlr_array_dataset_statistics_parse(dl_strndup(arena, (const char *)data, n), 7, channels,
                                           2))
        for (int c = 0; c < 2; c++)
            FUZZ_CHECK(isfinite(channels[c].mean) && isfinite(channels[c].std) &&
                       isfinite(channels[c].most));
    dl_arena_free(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[] = {"inputs: ",   "targets: ",   "split: ",
                                        "valid: ",    "train: ",     "axis: ",
                                        "crop: ",     "step: ",      "augment: ",
                                        "flip: ",     "rotate: ",    "shift: ",
                                        "file: ",     "array: ",     "axes: ",
                                        "channels: ", "level: ",     "[a, b, {c: {z: [1, 2]}}]",
                                        "offset: ",   "mean: ",      "std: ",
                                        "nan: ",      "normalize: ", "random",
                                        "minmax",     "x: ",         "mask: ",
                                        "label: ",    "[0, 5]",      "0.1",
                                        "-1",         "1e400",       "{",
                                        "}",          "[",           "]",
                                        ":",          "identity ",   "channels 2\n",
                                        "nan",        "inf",         "9223372036854775807",
                                        NULL};
    fuzz_random r = {seed};
    return fuzz_mutate_text((char *)data, n, max, words, &r);
}

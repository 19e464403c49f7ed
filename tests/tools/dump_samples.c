/* Writes the samples of a configuration's data set to standard output, each array as its numbers lie in
 * memory.
 *
 * dump_samples train|valid EPOCH MODEL.dl [FILE.yaml] [--key=value...]: first a line "SAMPLES name type;
 * ...", then sample after sample. */
#include <stdio.h>
#include <stdlib.h>

#include "programs/samples.h"

static int fail(const dl_error *err) {
    fprintf(stderr, "%s\n", err->message);
    return err->code;
}

static bool write_samples(const dlr_dataset *d, int64_t epoch, dl_error *err) {
    const dlr_arrays *arrays = dlr_dataset_arrays(d);
    void *out[DLR_MAX_ARRAYS] = {NULL},
         *scratch = aligned_alloc(64, (dlr_dataset_scratch(d) + 63) / 64 * 64 + 64);
    printf("%lld", (long long)dlr_dataset_samples(d));
    for (int k = 0; k < arrays->n; k++) {
        out[k] = malloc(dlr_array_bytes(&arrays->at[k]) + 1);
        printf("%s%s %s", k ? ";" : " ", arrays->at[k].name, dl_type_text(&arrays->at[k].type));
    }
    printf("\n");
    bool ok = true;
    for (int64_t i = 0; ok && i < dlr_dataset_samples(d); i++) {
        ok = dlr_dataset_sample(d, epoch, i, out, scratch, err);
        for (int k = 0; ok && k < arrays->n; k++) fwrite(out[k], 1, dlr_array_bytes(&arrays->at[k]), stdout);
    }
    for (int k = 0; k < arrays->n; k++) free(out[k]);
    free(scratch);
    return ok;
}

int main(int argc, char **argv) {
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    if (argc < 4) return DL_USAGE;
    dlr_split split = strcmp(argv[1], "train") == 0 ? DLR_TRAIN : DLR_VALID;
    dl_config *c = dl_config_open(arena, argc - 2, argv + 2, NULL, &err);
    if (!c || !dl_config_take_model(c, &err)) return fail(&err);
    dl_session *s = dl_session_open(arena, c, 1, NULL, &err);
    if (!s || !dl_samples_settle(c, &err)) return fail(&err);
    dlr_dataset *d = dl_samples_open(arena, s, split, DLR_OPEN_FOR_USE, &err);
    if (!d || !write_samples(d, atoll(argv[2]), &err)) return fail(&err);
    dlr_dataset_close(d);
    dl_session_close(s);
    dl_arena_free(arena);
    return 0;
}

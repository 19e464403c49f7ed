#include "runtime/setup/data_notes.h"

#include "runtime/data/array_dataset_labels.h"
#include "runtime/formats/log.h"
#include "runtime/setup/classes.h"

static void note_left_out(const dlr_dataset *valid, int64_t global_batch) {
    int64_t samples = dlr_dataset_samples(valid), rest = samples % global_batch;
    if (rest)
        dlr_log_info(
            "Validation leaves out the last %lld of its %lld samples: they fill no batch of %lld",
            (long long)rest, (long long)samples, (long long)global_batch);
}

static void warn_unseen(const char *name, const dlr_array_dataset_unseen *u) {
    if (u->n)
        dlr_log_warning(
            "'%s': training has no sample of %lld of the %lld classes that validation has, class "
            "%lld "
            "first: if the file is sorted by class, shuffle it, or split it by files (data.split)",
            name, (long long)u->n, (long long)u->of, (long long)u->first);
}

bool dl_data_notes(const dl_session *s, const dlr_dataset *train, const dlr_dataset *valid,
                   int64_t global_batch, dl_error *err) {
    note_left_out(valid, global_batch);
    const dlr_arrays *arrays = dlr_dataset_arrays(train);
    for (int k = 0; k < arrays->n; k++) {
        const dlr_array *a = &arrays->at[k];
        const dl_var *v = dl_graph_find_var(s->module->graphs.at[0], a->name);
        int64_t classes = a->is_target && v ? dl_classes_count(s->module, v) : 0;
        dlr_array_dataset_unseen unseen;
        if (!dlr_array_dataset_unseen_classes(train, valid, k, classes, &unseen, err)) return false;
        warn_unseen(a->name, &unseen);
    }
    return true;
}

#include "runtime/setup/data_notes.h"

#include "runtime/data/array_dataset_labels.h"
#include "runtime/formats/log.h"
#include "runtime/setup/classes.h"

static void note_classes(const char *name, const dlr_array_dataset_unseen *u) {
    if (u->part[0].classes && u->part[1].classes)
        dlr_log_info("'%s': training has %lld classes of %lld to %lld samples each, validation "
                     "%lld of %lld to %lld",
                     name, (long long)u->part[0].classes, (long long)u->part[0].least,
                     (long long)u->part[0].most, (long long)u->part[1].classes,
                     (long long)u->part[1].least, (long long)u->part[1].most);
    if (u->n)
        dlr_log_warning(
            "'%s': training has no sample of %lld of the %lld classes that validation has, class "
            "%lld "
            "first: if the file is sorted by class, split it at random "
            "(data.split: {valid: 0.1, shuffle: true})",
            name, (long long)u->n, (long long)u->of, (long long)u->first);
}

bool dl_data_notes(const dl_session *s, const dlr_dataset *train, const dlr_dataset *valid,
                   dl_error *err) {
    const dlr_arrays *arrays = dlr_dataset_arrays(train);
    for (int k = 0; k < arrays->n; k++) {
        const dlr_array *a = &arrays->at[k];
        const dl_var *v = dl_graph_find_var(s->module->graphs.at[0], a->name);
        int64_t classes = a->is_target && v ? dl_classes_count(s->module, v) : 0;
        dlr_array_dataset_unseen unseen;
        if (!dlr_array_dataset_unseen_classes(train, valid, k, classes, &unseen, err)) return false;
        note_classes(a->name, &unseen);
    }
    return true;
}

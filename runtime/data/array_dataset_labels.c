/* Finds the classes that labels of an array have in the samples of a part. */
#include <stdlib.h>

#include "runtime/data/array_dataset_labels.h"
#include "runtime/data/array_dataset_private.h"

enum { AT_ONCE = 65536, MOST_CLASSES = 1 << 20 };

/* Whether the array has one whole number per sample, along an axis N. */
static bool is_label(const dataset_array *a) {
    return !a->is_static && a->variables.at[0].has_samples &&
           !dl_dtype_is_float(a->to.type.dtype) && dl_type_count(&a->to.type) == 1;
}

static int64_t number_at(const dataset_variable *v, const void *numbers, int64_t i) {
    switch (v->of->to.type.dtype) {
    case DL_I64: return ((const int64_t *)numbers)[i];
    case DL_I32: return ((const int32_t *)numbers)[i];
    default: return ((const unsigned char *)numbers)[i];
    }
}

/* Counts the classes of indices [from, from + n) of N, which lie in one file. */
static bool count_block(const dataset_variable *v, const dataset_file *f, int64_t from, int64_t n,
                        void *numbers, int64_t *counts, int64_t classes, dl_error *err) {
    dlr_block b = {0};
    for (int j = 0; j < v->rank; j++) {
        bool samples = v->axis[j] == DATASET_SAMPLES;
        b.start[j] = samples                             ? from % f->times
                     : v->axis[j] == DATASET_SIMULATIONS ? from / f->times
                                                         : 0;
        b.count[j] = samples ? n : 1, b.stride[j] = 1;
    }
    if (!dataset_read(v, f, &b, 0, numbers, err)) return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t label = number_at(v, numbers, i);
        if (label >= 0 && label < classes) counts[label]++;
    }
    return true;
}

static bool count(const array_dataset *w, const dataset_array *a, int64_t *counts, int64_t classes,
                  dl_error *err) {
    const dataset_variable *v = a->variables.at;
    void *numbers = malloc(AT_ONCE * sizeof(int64_t));
    if (!numbers) return dl_fail(err, DL_RESOURCE, "no memory for labels");
    bool ok = true;
    for (int r = 0; r < w->runs.n && ok; r++) {
        int64_t at = w->runs.at[r].begin + a->from.offset, end = at + w->runs.at[r].n;
        while (at < end && ok) {
            const dataset_file *f = dataset_find_file(v, at);
            int64_t n = f->first + f->n - at;
            if (n > end - at) n = end - at;
            if (n > AT_ONCE) n = AT_ONCE;
            ok = count_block(v, f, at - f->first, n, numbers, counts, classes, err);
            at += n;
        }
    }
    free(numbers);
    return ok;
}

bool dlr_array_dataset_unseen_classes(const dlr_dataset *train, const dlr_dataset *valid, int k,
                                      int64_t classes, dlr_array_dataset_unseen *found,
                                      dl_error *err) {
    *found = (dlr_array_dataset_unseen){0};
    if (train->loader != &dlr_array_dataset_loader || valid->loader != &dlr_array_dataset_loader)
        return true;
    const array_dataset *w[2] = {train->state, valid->state};
    if (!is_label(&w[0]->at[k]) || !is_label(&w[1]->at[k]) || classes <= 0 ||
        classes > MOST_CLASSES)
        return true;
    int64_t *counts = calloc(2 * (size_t)classes, sizeof *counts);
    if (!counts) return dl_fail(err, DL_RESOURCE, "no memory for labels");
    bool ok = count(w[0], &w[0]->at[k], counts, classes, err) &&
              count(w[1], &w[1]->at[k], counts + classes, classes, err);
    for (int64_t c = 0; c < 2 * classes && ok; c++) {
        const int part = c >= classes;
        if (!counts[c]) continue;
        if (!found->part[part].classes++ || counts[c] < found->part[part].least)
            found->part[part].least = counts[c];
        if (counts[c] > found->part[part].most) found->part[part].most = counts[c];
        if (part && !counts[c - classes] && !found->n++) found->first = c - classes;
    }
    found->of = found->part[1].classes;
    free(counts);
    return ok;
}

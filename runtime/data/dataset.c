#include "runtime/data/dataset.h"

#include "runtime/data/loader.h"

#include <stdlib.h>
#include <string.h>

bool dlr_arrays_add(dlr_arrays *arrays, const char *name, bool is_target, const dl_type *type,
                    dl_error *err) {
    if (!dl_type_has_samples(type))
        return dl_fail(err, DL_INPUT,
                       "the model's '%s' is %s: samples of a data set want N as its first axis",
                       name, dl_type_text(type));
    if (arrays->n == DLR_MAX_ARRAYS)
        return dl_fail(err, DL_INPUT, "the model takes more than %d inputs and targets",
                       DLR_MAX_ARRAYS);
    dlr_array *a = &arrays->at[arrays->n++];
    *a = (dlr_array){.name = name,
                     .is_target = is_target,
                     .type = dl_scalar(dl_dtype_is_float(type->dtype) ? DL_F32 : type->dtype)};
    for (int i = 1; i < type->rank; i++)
        dl_type_push(&a->type, type->axis[i].name, type->axis[i].size);
    return true;
}

size_t dlr_array_bytes(const dlr_array *a) { return (size_t)dl_type_bytes(&a->type); }

dlr_dataset *dlr_dataset_open(const dlr_loader *loader, const void *options,
                              const dlr_dataset_options *o, dl_error *err) {
    dlr_dataset *d = calloc(1, sizeof *d);
    if (!d) return dl_fail(err, DL_RESOURCE, "no memory for a data set"), NULL;
    *d = (dlr_dataset){.loader = loader,
                       .arrays = *o->arrays,
                       .split = o->split,
                       .seed = o->seed,
                       .mapped = o->mapped,
                       .probe = o->opening != DLR_OPEN_FOR_USE,
                       .on_paper = o->opening == DLR_OPEN_ON_PAPER};
    if (loader->open(d, options, err)) return d;
    dlr_dataset_close(d);
    return NULL;
}

void dlr_dataset_close(dlr_dataset *d) {
    if (!d) return;
    d->loader->close(d);
    free(d);
}

bool dlr_dataset_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                        void *scratch, dl_error *err) {
    return d->loader->sample(d, epoch, sample, out, scratch, err);
}

bool dlr_dataset_raw(const dlr_dataset *d, dlr_raw raw[DLR_MAX_ARRAYS]) {
    for (int k = 0; k < DLR_MAX_ARRAYS; k++) raw[k] = (dlr_raw){.type = DLR_EL_F32};
    return d->loader->raw && d->loader->raw(d, raw);
}

const char *dlr_dataset_host(const dlr_dataset *d) {
    return d->loader->host ? d->loader->host : "reads them";
}

bool dlr_dataset_numbers(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                         void *scratch, dlr_layout_map *how, dl_error *err) {
    return d->loader->numbers(d, epoch, sample, out, scratch, how, err);
}

bool dlr_dataset_store(const dlr_dataset *d, dlr_store *store) {
    *store = (dlr_store){0};
    if (d->loader->store) d->loader->store(d, store);
    return store->bytes > 0;
}

bool dlr_dataset_piece(const dlr_dataset *d, int64_t i, void *out, void *scratch, int64_t *at,
                       int64_t *bytes, dl_error *err) {
    return d->loader->piece(d, i, out, scratch, at, bytes, err);
}

void dlr_dataset_locate(const dlr_dataset *d, int64_t epoch, int64_t sample, dlr_layout_map *how) {
    d->loader->locate(d, epoch, sample, how);
}

const dlr_arrays *dlr_dataset_arrays(const dlr_dataset *d) { return &d->arrays; }
dlr_split dlr_dataset_split(const dlr_dataset *d) { return d->split; }

int64_t dlr_dataset_samples(const dlr_dataset *d) { return d->samples; }
size_t dlr_dataset_scratch(const dlr_dataset *d) { return d->scratch; }
bool dlr_dataset_whole(const dlr_dataset *d) { return !d->left_out; }
bool dlr_dataset_in_memory(const dlr_dataset *d) { return d->in_memory; }
int64_t dlr_dataset_held(const dlr_dataset *d) { return d->held; }

bool dlr_loader_pair(const dlr_dataset *d, dl_error *err) {
    int targets = 0;
    for (int i = 0; i < d->arrays.n; i++) targets += d->arrays.at[i].is_target;
    if (d->arrays.n == 2 && targets == 1) return true;
    return dl_fail(err, DL_INPUT,
                   "the model takes %d input%s and %d target%s; the loader '%s' gives one of each "
                   "(synthetic, and "
                   "--replay, give any number)",
                   d->arrays.n - targets, d->arrays.n - targets == 1 ? "" : "s", targets,
                   targets == 1 ? "" : "s", d->loader->name);
}

/* The checksums of a PyTorch file. An entry, which holds one storage, is read whole and checked
 * before its first tensor is returned, once while the file is open; the second read is served by
 * the page cache. Entries that are not loaded are not read. */
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/formats/torch_internal.h"

struct dlr_torch_sums {
    dlr_zip_entry *entries; /* by offset */
    atomic_bool *checked;   /* two threads may check the same entry, with the same result */
    int n;
};

static int by_place(const void *a, const void *b) {
    const dlr_zip_entry *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

void dlr_torch_keep_sums(dlr_st_file *f, const dlr_zip *zip) {
    struct dlr_st_private *p = f->private;
    if (zip->unsummed) return;
    p->sums = DL_NEW(p->arena, struct dlr_torch_sums);
    p->sums->n = zip->n;
    p->sums->entries = DL_NEWS(p->arena, dlr_zip_entry, zip->n);
    p->sums->checked = DL_NEWS(p->arena, atomic_bool, zip->n);
    memcpy(p->sums->entries, zip->entries, (size_t)zip->n * sizeof *zip->entries);
    qsort(p->sums->entries, (size_t)zip->n, sizeof *zip->entries, by_place);
    for (int i = 0; i < zip->n; i++) atomic_init(&p->sums->checked[i], false);
}

bool dlr_torch_check(const dlr_st_file *f, int64_t at, dl_error *err) {
    struct dlr_torch_sums *s = f->private->sums;
    if (!s) return true;
    int low = 0, high = s->n; /* the last entry that begins at `at` or before it */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (s->entries[middle].at <= (uint64_t)at)
            low = middle;
        else
            high = middle;
    }
    if (atomic_load(&s->checked[low])) return true;
    if (!dlr_zip_check_stored(f->private->fd, f->path, &s->entries[low], err)) return false;
    atomic_store(&s->checked[low], true);
    return true;
}

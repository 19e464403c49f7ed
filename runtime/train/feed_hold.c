/* Device-resident data sets: read once, before the first batch. */
#include <stdlib.h>

#include "runtime/formats/log.h"
#include "runtime/train/feed.h"

int64_t dlr_feed_store(const dlr_dataset *const data[2]) {
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        dlr_store s;
        if (!data[i]) continue;
        if (!dlr_dataset_store(data[i], &s)) return 0;
        bytes += (s.bytes + 63) & ~63LL;
    }
    return bytes;
}

static bool bring(const dlr_feed *f, const dlr_dataset *d, int64_t begin, dl_error *why) {
    dlr_store s;
    dlr_dataset_store(d, &s);
    size_t room = ((size_t)s.most + 63) & ~(size_t)63;
    char *memory = aligned_alloc(64, 2 * room);
    bool ok = memory || dl_fail(why, DL_RESOURCE, "no memory to read a data set by");
    for (int64_t i = 0; ok && i < s.pieces; i++) {
        int64_t at, bytes;
        ok = dlr_dataset_piece(d, i, memory, memory + room, &at, &bytes, why);
        if (ok) dlr_exec_upload(f->exec, begin + at, memory, bytes);
    }
    free(memory);
    return ok;
}

bool dlr_feed_hold(dlr_feed *f, const dlr_dataset *const data[2], dl_error *why) {
    int64_t at = 0, bytes = dlr_feed_store(data);
    dlr_device_memory m = {0};
    f->n_held = 0;
    if (!bytes) return dl_fail(why, DL_USAGE, "the loader reads it so alone");
    dlr_exec_memory(f->exec, &m);
    const double size = (double)bytes / 0x1p20, left = (double)dlr_device_left(&m) / 0x1p20;
    if (bytes > dlr_device_left(&m))
        return dl_fail(why, DL_RESOURCE, "it is %.1f MiB, and the device has %.1f MiB left for it",
                       size, left);
    if (!dlr_exec_allocate_dataset(f->exec, bytes, why)) return false;
    for (int i = 0; i < 2; i++) {
        dlr_store s;
        if (!data[i]) continue;
        if (!bring(f, data[i], at, why)) return dlr_exec_allocate_dataset(f->exec, 0, NULL), false;
        f->held[f->n_held].of = dlr_dataset_arrays(data[i]), f->held[f->n_held++].at = at;
        dlr_dataset_store(data[i], &s);
        at += (s.bytes + 63) & ~63LL;
    }
    dlr_exec_upload(f->exec, 0, NULL, 0);
    if (!dlr_exec_check(f->exec, why)) return false;
    dlr_log_info(
        "the device holds the data set, %.1f MiB of the %.1f MiB left for it; it was read once",
        size, left);
    return true;
}

int64_t dlr_feed_held_at(const dlr_feed *f, const dlr_batch *batch) {
    int i = 0;
    while (f->held[i].of != batch->arrays) i++;
    return f->held[i].at;
}

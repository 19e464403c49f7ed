#include "runtime/setup/device_choice.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/target/backend.h"
#include "runtime/device/device.h"

bool dl_device_begins(const char *name, const char *with) {
    return strncmp(name, with, strlen(with)) == 0;
}

const char *dl_device_of_target(dl_arena *arena, const char *target) {
    bool emulated = dl_target_is_gpu(target) && dl_target_is_emulated(target);
    return dl_format(arena, "%.*s%s", (int)strcspn(target, ":"), target,
                     emulated ? ":emulated" : "");
}

/* By compute capability: the newest of our targets whose code such a device runs; for its own
 * number of multiprocessors, where that is another than the row's. */
static const char *target_of(const char *device, dl_error *err) {
    int major, minor, n;
    dl_error none = {0};
    if (!dlr_cuda_capability(device, &major, &minor, err) ||
        !dlr_cuda_multiprocessors(device, &n, err))
        return NULL;
    const dl_target *t = dl_target_of_gpu(major, minor, &none);
    if (!t)
        dl_fail(err, none.code, "--device=%s: %s: run on the CPU with --device=cpu", device,
                none.message);
    if (!t) return NULL;
    return n > 0 && n != t->multiprocessors ? dl_internf("%s/%d", t->name, n) : t->name;
}

const char *dl_device_of_rank(dl_arena *arena, const char *device, const dlr_world *world,
                              dl_error *err) {
    dlr_world_said said;
    if (strncmp(device, "cuda", 4) != 0 || strcmp(device, "cuda:emulated") == 0) return device;
    if (device[4]) {
        bool alone = world->local_size <= 1;
        if (!alone)
            dl_fail(err, DL_USAGE,
                    "--device=%s is one device, and this machine has %d ranks: with --device=cuda "
                    "each takes the "
                    "one of its number",
                    device, world->local_size);
        return alone ? device : NULL;
    }
    if (world->size == 1) return device;
    int count = dlr_cuda_count(err), rank = world->local_rank;
    if (!count || !dlr_world_read(&said, err)) return NULL;
    /* ranks in containers of their own do not see each other, but their launcher has counted them
     */
    if (said.world.local_rank > rank) rank = said.world.local_rank;
    if (count == 1) rank = 0; /* the launcher gave each its own */
    if (rank < count) return dl_format(arena, "cuda:%d", rank);
    dl_fail(
        err, DL_RESOURCE,
        "this is rank %d of its machine, counted from 0, where the driver finds %d devices "
        "(CUDA_VISIBLE_DEVICES may hide some): start as many ranks there, or run on the CPU with "
        "--device=cpu",
        rank, count);
    return NULL;
}

const dlr_driver *dl_device_driver(const char *device, int *ordinal, dl_error *err) {
    bool emulated = strcmp(device, "cuda:emulated") == 0;
    *ordinal = !emulated && device[4] ? atoi(device + 5) : 0;
    return emulated ? dlr_driver_emulated(err) : dlr_driver_open(err);
}

static bool mismatch(const char *target, const char *device, dl_error *err) {
    return dl_fail(err, DL_USAGE, "--target=%s is not for --device=%s", target, device);
}

/* Is there a compiler for it? */
static bool compiles(dl_arena *arena, const char *target, dl_error *err) {
    const dl_target *t = dl_target_find(arena, target, err);
    uint64_t key;
    return t && t->backend->toolchain(arena, t, &key, err);
}

static void choose_auto(dl_arena *arena, const char *target, dl_device_choice *c) {
    dl_error none = {0}, why = {0};
    int major, minor;
    if (target || !dlr_cuda_capability("cuda", &major, &minor, &none)) return;
    const char *found = target_of("cuda", &why);
    if (found && compiles(arena, found, &why))
        c->target = found, c->device = "cuda";
    else
        c->warning = dl_format(arena, "a GPU is there, and not used: %s", why.message);
}

bool dl_device_choose(dl_arena *arena, const char *device, const char *target, dl_device_choice *c,
                      dl_error *err) {
    *c = (dl_device_choice){.target = target, .device = device};
    if (strcmp(device, "auto") == 0) {
        c->device = NULL;
        choose_auto(arena, target, c);
        return true;
    }
    if (dl_device_begins(device, "cpu:")) {
        if (target && strcmp(target, device) != 0) return mismatch(target, device, err);
        c->target = device, c->device = "cpu";
        return dl_target_find(arena, device, err) != NULL;
    }
    if (strcmp(device, "cpu") == 0)
        return !target || !dl_target_is_gpu(target) || mismatch(target, device, err);
    if (target && !dl_device_begins(target, "cuda:")) return mismatch(target, device, err);
    if (strcmp(device, "cuda:emulated") == 0) {
        if (!target) target = "cuda:sm_90a";
        c->target =
            dl_target_is_emulated(target) ? target : dl_format(arena, "%s:emulated", target);
        return true;
    }
    if (target && dl_target_is_emulated(target)) return mismatch(target, device, err);
    const char *own =
        target_of(device, err); /* with a target, too: whether there is such a device */
    if (!own) return false;
    if (!target) c->target = own;
    return true;
}

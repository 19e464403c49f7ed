/* Which device a program runs its plan on, and what the plan is compiled for. */
#ifndef DL_DEVICE_CHOICE_H
#define DL_DEVICE_CHOICE_H
#include "ir/base/arena.h"
#include "runtime/base/world.h"
#include "runtime/driver/driver.h"

typedef struct {
    const char *target;  /* for dl_session_options; NULL: the best CPU that this machine is */
    const char *device;  /* for dlr_exec_options; NULL: what the target asks for */
    const char *warning; /* why a GPU that is there is not used, or NULL */
} dl_device_choice;

/* Whether the name of a device or target begins so: "cuda:". */
bool dl_device_begins(const char *name, const char *with);
/* device: the key's value, cpu, cpu:NAME (a target), cuda, cuda:N, cuda:emulated or auto; target:
 * what was asked for, or NULL. auto is where the target runs, and without one cuda where there is a
 * driver, a device that we have a target for, and what compiles for it; else the CPU. Errors:
 * DL_RESOURCE (no driver, no such device), DL_USAGE (a target that is not of the device). */
bool dl_device_choose(dl_arena *arena, const char *device, const char *target,
                      dl_device_choice *choice, dl_error *err);
/* Several ranks on a machine: each takes a device: that of its number there, or the only one that
 * it sees. `device` as it was chosen ("cuda"; others stay as they are). Errors: DL_USAGE (one
 * device, by number, for several ranks), DL_RESOURCE (no driver, fewer devices than ranks). */
const char *dl_device_of_rank(dl_arena *arena, const char *device, const dlr_world *world,
                              dl_error *err);
/* The driver of a device "cuda", "cuda:N" or "cuda:emulated", and which of its devices that is.
 * Errors: DL_RESOURCE. */
const dlr_driver *dl_device_driver(const char *device, int *ordinal, dl_error *err);
#endif

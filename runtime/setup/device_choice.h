/* The device on which a program runs its plan, and the target for which the plan is compiled. */
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

/* The device that runs a target's code: "cpu", "cuda", "cuda:emulated". */
const char *dl_device_of_target(dl_arena *arena, const char *target);
/* Whether the name of a device or target begins with `with`, such as "cuda:". */
bool dl_device_begins(const char *name, const char *with);
/* Chooses a device. device: the key's value, which is cpu, cpu:NAME (a target), cuda, cuda:N,
 * cuda:emulated or auto. target: the requested target, or NULL. auto is the device of the target;
 * without a target it is cuda where a driver, a device with a supported architecture and a compiler
 * for it are present, otherwise the CPU. Errors: DL_RESOURCE (no driver, no such device), DL_USAGE
 * (a target of another device). */
bool dl_device_choose(dl_arena *arena, const char *device, const char *target,
                      dl_device_choice *choice, dl_error *err);
/* The device of one of several ranks on a machine: the device with the rank's number on its
 * machine, or the only one that is visible to it. device: as dl_device_choose returned it ("cuda";
 * other values are returned unchanged). Errors: DL_USAGE (one numbered device for several ranks),
 * DL_RESOURCE (no driver, fewer devices than ranks). */
const char *dl_device_of_rank(dl_arena *arena, const char *device, const dlr_world *world,
                              dl_error *err);
/* The driver of a device "cuda", "cuda:N" or "cuda:emulated"; *ordinal: the device's number in it.
 * Errors: DL_RESOURCE. */
const dlr_driver *dl_device_driver(const char *device, int *ordinal, dl_error *err);
#endif

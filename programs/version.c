#include "programs/version.h"

#include <stdio.h>

#include "compiler/cuda/nvrtc.h"
#include "runtime/comm/comm_device.h"
#include "runtime/cuda/library.h"
#include "runtime/device/device.h"

void dl_version_print(dl_arena *arena, const char *program) {
    printf("%s %s\n%s\n%s\n%s%s", program, DL_VERSION, dl_nvrtc_text(arena), dlr_nccl_text(arena),
           dlr_libraries_text(arena), dlr_devices_text(arena));
}

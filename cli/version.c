/* `--version`. */
#include <stdio.h>

#include "cli/cli.h"
#include "compiler/cuda/nvrtc.h"
#include "runtime/comm/comm_device.h"
#include "runtime/cuda/library.h"
#include "runtime/device/device.h"

void cli_print_version(const char *program) {
    dl_arena *arena = dl_arena_new(NULL);
    printf("%s %s\n%s\n%s\n%s%s", program, DL_VERSION, dl_nvrtc_text(arena), dlr_nccl_text(arena),
           dlr_libraries_text(arena), dlr_devices_text(arena));
    dl_arena_free(arena);
}

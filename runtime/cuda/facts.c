/* The available devices as text, and the memory that a run will take on one. */
#include <string.h>

#include "ir/base/foreign.h"
#include "runtime/cuda/cuda.h"

static void put_device(dl_buf *b, const dlr_driver *v, int ordinal) {
    dlr_cu_device device = 0;
    char name[80] = "";
    size_t bytes = 0;
    int major = 0, minor = 0;
    dl_putf(b, "device cuda:%d: ", ordinal);
    dlr_cu_result r = v->DeviceGet(&device, ordinal);
    if (r == 0) r = v->DeviceGetName(name, sizeof name, device);
    if (r == 0) r = v->DeviceGetAttribute(&major, DLR_CU_COMPUTE_MAJOR, device);
    if (r == 0) r = v->DeviceGetAttribute(&minor, DLR_CU_COMPUTE_MINOR, device);
    if (r == 0) r = v->DeviceTotalMem(&bytes, device);
    if (r) {
        char said[700];
        dlr_driver_say(v, r, said, sizeof said);
        dl_putf(b, "does not answer: %s\n", said);
        return;
    }
    dl_put_foreign(b, DL_IN_LINE, name);
    dl_putf(b, ", compute capability %d.%d, %.0f MiB\n", major, minor, (double)bytes / 0x1p20);
}

const char *dlr_cuda_text(dl_arena *arena, const dlr_driver *v, const dl_error *why) {
    dl_buf b = {0};
    int version = 0, count = 0;
    if (!v) {
        bool none = strstr(why->message, "cannot load") != NULL;
        dl_puts(&b, none ? "no driver (libcuda.so.1)" : "no GPU: ");
        if (!none) dl_put_foreign(&b, DL_IN_LINE, why->message);
        dl_puts(&b, "\n");
    } else {
        dlr_cu_result r = v->DriverGetVersion(&version);
        if (r == 0) r = v->DeviceGetCount(&count);
        dl_putf(&b, "driver of CUDA %d.%d, %d device%s\n", version / 1000, version % 1000 / 10,
                count, count == 1 ? "" : "s");
        for (int i = 0; i < count; i++) put_device(&b, v, i);
    }
    const char *text = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return text;
}

int dlr_cuda_count(dl_error *err) {
    int count = 0;
    const dlr_driver *v = dlr_driver_open(err);
    return v && v->DeviceGetCount(&count) == 0 ? count : 0;
}

const char *dlr_devices_text(dl_arena *arena) {
    dl_error why = {0};
    const dlr_driver *v = dlr_driver_open(&why);
    return dlr_cuda_text(arena, v, &why);
}

/* Failures on a device: opening it, kernels, wrong requests, values that are not finite. */
#include "tests/unit/cuda_device.h"

#include "tests/check.h"

#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/not_finite.h"
#include "tests/emulator/cuda_emulator.h"

/* ---- faults ---- */

static void expect_open(const dl_plan *p, const char *device, dl_code code, const char *text) {
    dl_error err = {0};
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 1, .device = device}, &err);
    CHECK(!e && err.code == code && strstr(err.message, text), "want '%s', got %d '%s'", text,
          err.code, err.message);
    dlr_exec_close(e);
}

void test_opening(dl_plan *p) {
    emulator()->set((cuda_emulator_options){.memory = 10000});
    expect_open(p, NULL, DL_RESOURCE, "weights");
    expect_open(p, NULL, DL_RESOURCE, "most at once touches kernel 'scale' (m.dl:1)");
    emulator()->set((cuda_emulator_options){0});
    expect_open(p, "cpu", DL_USAGE, "does not run on the device cpu");
    expect_open(p, "cuda:0", DL_USAGE, "does not run on the device cuda:0");
    const char *named = getenv(DLR_CUDA_EMULATOR);
    char library[4096];
    snprintf(library, sizeof library, "%s", named ? named : "");
    setenv(DLR_CUDA_EMULATOR, "/nonexistent.so", 1);
    expect_open(p, NULL, DL_RESOURCE, "names no CUDA emulator: /nonexistent.so");
    unsetenv(DLR_CUDA_EMULATOR);
    expect_open(p, NULL, DL_RESOURCE, "set DLR_CUDA_EMULATOR=BUILD/tests/emulator");
    setenv(DLR_CUDA_EMULATOR, library, 1);
    static const struct {
        const char *target;
        int major, minor;
        bool runs;
    } devices[] = {{"cuda:sm_80:emulated", 8, 0, true},    {"cuda:sm_80:emulated", 8, 9, true},
                   {"cuda:sm_80:emulated", 9, 0, false},   {"cuda:sm_90:emulated", 9, 0, true},
                   {"cuda:sm_90a:emulated", 9, 0, true},   {"cuda:sm_90a:emulated", 9, 1, false},
                   {"cuda:sm_90a:emulated", 10, 0, false}, {"cuda:sm_100:emulated", 10, 3, true},
                   {"cuda:sm_100:emulated", 9, 0, false},  {"cuda:sm_100:emulated", 0, 0, true},
                   {"cuda:sm_103:emulated", 10, 3, true},  {"cuda:sm_103:emulated", 10, 0, false},
                   {"cuda:sm_86:emulated", 8, 6, true},    {"cuda:sm_86:emulated", 8, 0, false},
                   {"cuda:sm_89:emulated", 8, 9, true},    {"cuda:sm_89:emulated", 8, 6, false},
                   {"cuda:sm_120:emulated", 12, 1, true},  {"cuda:sm_120:emulated", 11, 0, false}};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        p->target = devices[i].target;
        emulator()->set(
            (cuda_emulator_options){.major = devices[i].major, .minor = devices[i].minor});
        if (devices[i].runs)
            dlr_exec_close(open_exec(p));
        else
            expect_open(p, NULL, DL_RESOURCE, "compute capability");
    }
    emulator()->set((cuda_emulator_options){0});
    p->target = "cuda:sm_90a:emulated";
    emulator()->set((cuda_emulator_options){.fail_load = DLR_CU_INVALID_IMAGE});
    expect_open(
        p, NULL, DL_INPUT,
        "its driver is of CUDA 12.4, and takes code of NVRTC 12 or older (scripts/install-nvrtc");
    emulator()->set((cuda_emulator_options){.fail_load = DLR_CU_OUT_OF_MEMORY});
    expect_open(p, NULL, DL_RESOURCE, "no memory for the plan's object 0");
    emulator()->set((cuda_emulator_options){0});
    p->kernels.at[0].symbol = "another";
    expect_open(p, NULL, DL_INPUT, "no function another_0");
    p->kernels.at[0].symbol = "scale";
    p->kernels.at[2].nargs = p->programs.at[0].launches.at[1].nargs = 0;
    expect_open(p, NULL, DL_INPUT, "kernel 'check': check_0: another number of arguments");
    p->kernels.at[2].nargs = p->programs.at[0].launches.at[1].nargs = 1;
    p->kernels.at[1].shared[0] = 250 << 10;
    expect_open(p, NULL, DL_RESOURCE, "shared memory");
    emulator()->set((cuda_emulator_options){.major = 8, .minor = 6, .shared = 99});
    p->target = "cuda:sm_86:emulated";
    p->kernels.at[1].shared[0] = (99 << 10) + 16;
    expect_open(p, NULL, DL_RESOURCE, "has 101376 a block");
    p->kernels.at[1].shared[0] = 99 << 10;
    dlr_exec_close(open_exec(p));
    emulator()->set((cuda_emulator_options){0});
    p->target = "cuda:sm_90a:emulated";
    p->kernels.at[1].shared[0] = 0;
    size_t bytes = p->objects.at[0].bytes;
    const unsigned char *image = p->objects.at[0].image;
    p->objects.at[0].image =
        (const unsigned char *)"no object of anybody's, but long enough to look at";
    p->objects.at[0].bytes = 50;
    expect_open(p, NULL, DL_INPUT, "object 0");
    p->objects.at[0].image = image, p->objects.at[0].bytes = bytes;
    dlr_exec_close(open_exec(p));
}

void test_fault(const dl_plan *p) {
    dlr_exec *e = open_exec(p);
    if (!e) return;
    dl_error err = {0};
    put(e, 1);
    dlr_exec_run(e, 0, NULL);
    put(e, 1000);
    dlr_exec_run(e, 0, NULL);
    CHECK(isnan(dlr_scalar(e, dlr_exec_result(e, 0, DL_RESULT_LOSS, NULL))));
    CHECK(!dlr_exec_check(e, &err) && err.code == DL_RESOURCE && strstr(err.message, "check_0") &&
              strstr(err.message, "an address outside of x"),
          "%s", err.message);
    float got[N] = {0};
    dlr_state_read(e, dlr_exec_variable(e, "y"), DL_F32, got);
    CHECK(isnan(got[0]) && isnan(got[N - 1]));
    put(e, 1);
    dlr_exec_run(e, 0, NULL); /* does nothing */
    dlr_exec_close(e);

    expect_open(p, NULL, DL_RESOURCE,
                "no context: "); /* the device is of no use to this process any more */
    emulator()->set((cuda_emulator_options){0}); /* as in another one */
    e = open_exec(p);
    if (!e) return;
    put(e, 1000);
    dlr_exec_run_launch(e, 0, 0), dlr_exec_run_launch(e, 0, 1);
    dlr_state_read(e, dlr_exec_variable(e, "y"), DL_F32, got);
    err = (dl_error){0};
    CHECK(!dlr_exec_check(e, &err) && strstr(err.message, "check_0"), "%s", err.message);
    dlr_exec_close(e);

    emulator()->set((cuda_emulator_options){0});
    e = open_exec(p);
    if (!e) return;
    put(e, 1), dlr_exec_run(e, 2, NULL);
    dlr_state_read(e, dlr_exec_variable(e, "y"), DL_F32, got);
    err = (dl_error){0};
    CHECK(!dlr_exec_check(e, &err) && strstr(err.message, "in the program 'broken'; run again") &&
              strstr(err.message, "a barrier that not all"),
          "%s", err.message);
    CHECK(isnan(got[7]));
    dlr_exec_close(e);
    CHECK(emulator()->driver()->DevicePrimaryCtxRelease(0) == DLR_CU_INVALID_CONTEXT,
          "a device that failed holds no context");
    emulator()->set((cuda_emulator_options){0});

    setenv("DLR_DEBUG", "launches", 1);
    e = open_exec(p);
    unsetenv("DLR_DEBUG");
    if (!e) return;
    put(e, 1000);
    dlr_exec_run(e, 0, NULL);
    err = (dl_error){0};
    CHECK(!dlr_exec_check(e, &err) && strstr(err.message, "kernel 'check' (m.dl:1)"), "%s",
          err.message);
    dlr_exec_close(e);

    emulator()->set((cuda_emulator_options){.fail_copy = 3});
    e = open_exec(p);
    if (e) put(e, 1), dlr_exec_run(e, 0, NULL), put(e, 1), dlr_exec_run(e, 0, NULL);
    err = (dl_error){0};
    CHECK(e && isnan(dlr_scalar(e, dlr_exec_result(e, 0, DL_RESULT_LOSS, NULL))));
    CHECK(e && !dlr_exec_check(e, &err) && strstr(err.message, "ECC"), "%s", err.message);
    dlr_exec_close(e);
    emulator()->set((cuda_emulator_options){0});
}

void test_asked_wrongly(const dl_plan *p) {
    dlr_exec *e = open_exec(p);
    if (!e) return;
    dl_error err = {0};
    char memory[64];
    put(e, 1), dlr_exec_run(e, 0, NULL);
    dlr_exec_unpin(e, memory);
    CHECK(!dlr_exec_check(e, &err) && strstr(err.message, "NOT_REGISTERED") &&
              !strstr(err.message, "program"),
          "%s", err.message);
    dlr_exec_close(e);
}

void test_not_finite(const dl_plan *p) {
    dlr_exec *e = open_exec(p);
    if (!e) return;
    put(e, 1);
    float inf = INFINITY, large[] = {3e38f, 3e38f};
    dlr_state_write_range(e, dlr_exec_variable(e, "x"), (dlr_range){3, 2}, DL_F32, large);
    const char *made = dlr_not_finite_text(p->arena, e, 1);
    CHECK(strstr(made, "is made by 'sum' (m.dl:2), or before"), "%s", made);
    dlr_state_write_range(e, dlr_exec_variable(e, "x"), (dlr_range){3, 1}, DL_F32, &inf);
    const char *fed = dlr_not_finite_text(p->arena, e, 1);
    CHECK(strcmp(fed, ". Not finite is the input 'x', at [N=3]") == 0, "%s", fed);
    dlr_exec_close(e);
}

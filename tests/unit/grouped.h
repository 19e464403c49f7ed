/* Kernels by wgmma for tests, written by hand in a file of their own: emulated, with mistakes in
 * them, and by NVRTC. What test_cuda_wgmma.c and test_cuda_windows.c share. */
#ifndef DL_TEST_GROUPED_H
#define DL_TEST_GROUPED_H
#include "compiler/cuda/gemm_problem.h"
#include "ir/plan/cubin.h"
#include "tests/unit/emulated.h"
#include "tests/unit/nvrtc_kept.h"

extern const char dl_cuda_kernels_contract[], dl_cuda_kernels_contract_wgmma[],
    dl_cuda_kernels_emulated_wgmma[], dl_cuda_kernels_warpgroup[];

/* The file's kernels after their preludes: of the device, or of its emulation. */
static inline char *grouped_source(const char *file, bool emulated) {
    dl_error err = {0};
    const char *text = dl_read_file(arena, file, 1 << 20, NULL, &err);
    CHECK(text, "%s", err.message);
    return dl_format(arena, "%s%s%s%s%s%s",
                     emulated ? dl_cuda_kernels_emulated : dl_cuda_kernels_device,
                     dl_cuda_kernels_prelude, dl_cuda_kernels_contract,
                     emulated ? dl_cuda_kernels_emulated_wgmma : dl_cuda_kernels_warpgroup,
                     dl_cuda_kernels_contract_wgmma, text ? text : "");
}

typedef struct {
    const char *text, *fault;
    int kernel;
    const char *says; /* "": sums are wrong */
} grouped_fault;

/* The file's emulated kernels with `fault` in place of `text`, the first after `after`; NULL, a
 * failed check: there is none. */
static inline char *grouped_with(const char *file, const char *after, const char *text,
                                 const char *fault) {
    char *all = grouped_source(file, true), *from = strstr(all, after),
         *at = from ? strstr(from, text) : NULL;
    CHECK(at, "no '%s' to put a fault in", text);
    return at ? dl_format(arena, "%.*s%s%s", (int)(at - all), all, fault, at + strlen(text)) : NULL;
}

/* Each fault has its place, and those of the share show; wrong_of(kernel, seed): how many sums are
 * wrong, -1: the launch fails. */
static inline void grouped_faults(const char *file, const char *after, const grouped_fault *faults,
                                  size_t n, int (*wrong_of)(int, unsigned)) {
    for (size_t i = 0; i < n; i++) {
        const char *source = grouped_with(file, after, faults[i].text, faults[i].fault);
        if (!source || !dl_test_takes((unsigned)i) || !load(source)) continue;
        error[0] = 0;
        int wrong = wrong_of(faults[i].kernel, 1);
        bool found = *faults[i].says ? wrong < 0 && strstr(error, faults[i].says) : wrong > 0;
        CHECK(found, "fault %zu (%s) is not seen: %d %s", i, faults[i].fault, wrong, error);
        dl_object_unload(&object);
    }
}

/* Its n kernels, `name`_0 and so on, by NVRTC for sm_90a: no spill, and no word of ptxas. */
static inline void grouped_machine_code(const char *file, const char *name, int n) {
    dl_nvrtc nvrtc = {0};
    dl_error err = {0};
    dl_buf cubin = {0}, log = {0};
    dl_cubin c;
    if (!dl_nvrtc_find(arena, &nvrtc, &err) || !dl_nvrtc_load(&nvrtc, &err)) {
        dl_test_skip("%s", err.message);
        return;
    }
    bool ok =
        nvrtc_compile_kept(&nvrtc, grouped_source(file, false), "sm_90a", &cubin, &log, &err) &&
        dl_cubin_read(arena, (const unsigned char *)cubin.at, cubin.n, &c, &err);
    CHECK(ok && c.n == n, "%s", err.message);
    CHECK(!log.n || strspn(log.at, " \n") == log.n, "%s", log.at);
    for (int i = 0; ok && i < n; i++) {
        const dl_cubin_kernel *k = dl_cubin_find(&c, dl_format(arena, "%s_%d", name, i));
        CHECK(k && k->spill_stores == 0 && k->spill_loads == 0 && k->frame_bytes == 0, "%s_%d",
              name, i);
        if (k && getenv("DL_TEST_SHOW"))
            printf("%s: %d registers, %lld bytes\n", k->name, k->registers,
                   (long long)k->code_bytes);
    }
    dl_buf_free(&cubin), dl_buf_free(&log);
}
#endif

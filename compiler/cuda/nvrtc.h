/* NVRTC, NVIDIA's compiler of CUDA C++ as a library, found at run time, so that one binary works
 * with and without CUDA. CUDA text -> cubin (machine code for one architecture), in this
 * process, without a driver or GPU.
 *
 * https://docs.nvidia.com/cuda/nvrtc/ describes its functions. It is never unloaded. */
#ifndef DL_CUDA_NVRTC_H
#define DL_CUDA_NVRTC_H
#include "ir/base/search.h"
#include "ir/base/str.h"

typedef int dl_nvrtc_result; /* nvrtcResult: 0 is success */
typedef struct {
    dl_nvrtc_result (*version)(int *major, int *minor);
    dl_nvrtc_result (*count_archs)(int *n);
    dl_nvrtc_result (*archs)(int *archs);
    dl_nvrtc_result (*create)(void **program, const char *source, const char *name, int nheaders,
                              const char *const *headers, const char *const *names);
    dl_nvrtc_result (*compile)(void *program, int noptions, const char *const *options);
    dl_nvrtc_result (*log_size)(void *program, size_t *bytes);
    dl_nvrtc_result (*log)(void *program, char *log);
    dl_nvrtc_result (*cubin_size)(void *program, size_t *bytes);
    dl_nvrtc_result (*cubin)(void *program, char *cubin);
    dl_nvrtc_result (*destroy)(void **program);
    const char *(*error_text)(dl_nvrtc_result result);
} dl_nvrtc_calls;

enum { DL_NVRTC_ARCHS = 64 };

typedef struct {
    dl_arena *arena;
    dl_candidates candidates;
    int candidate;    /* index of the library that `path` and `key` describe */
    const char *path; /* the library's file */
    uint64_t key;     /* of that file (path, size, time) and of our options: a part of its results'
                         cache keys */
    const char *rejected; /* rejected libraries, with reasons; "" */
    /* Set once the library is loaded; before, calls.compile is NULL. */
    dl_nvrtc_calls calls;
    int major, minor;
    int narchs,
        archs[DL_NVRTC_ARCHS]; /* compute capabilities times ten, ascending: 75, 80, ..., 121 */
} dl_nvrtc;

/* Finds the library without loading it, in less than a millisecond. Errors: DL_RESOURCE when
 * there is none, with the searched places and advice. */
bool dl_nvrtc_find(dl_arena *arena, dl_nvrtc *n, dl_error *err);
/* Loads the library that was found (10 to 100 ms), once. If it does not load, or lacks a
 * function, the next place is tried, and path and key change; not so for DLC_NVRTC. Errors:
 * DL_RESOURCE. */
bool dl_nvrtc_load(dl_nvrtc *n, dl_error *err);
/* Whether it compiles for "sm_90a" and the like. Errors: DL_RESOURCE, with the architectures
 * that it supports. */
bool dl_nvrtc_knows(const dl_nvrtc *n, const char *arch, dl_error *err);
/* The newest architecture that it knows, 121 for sm_121. */
int dl_nvrtc_newest(const dl_nvrtc *n);
/* The library for --version: "NVRTC 13.0 (/usr/local/cuda/lib64/libnvrtc.so.13)" or "no NVRTC". */
const char *dl_nvrtc_text(dl_arena *arena);

/* Compiles one source for one architecture; appends the machine code to `cubin` and the
 * compiler's messages to `log`. Thread-safe. Products and sums are contracted to fused
 * multiply-adds as on the CPU (text that needs both roundings calls __fmul_rn, __fadd_rn);
 * denormals are kept, divisions and square roots round correctly. Errors: DL_RESOURCE, with the
 * first errors in the text. */
bool dl_nvrtc_compile(const dl_nvrtc *n, const char *source, const char *arch, dl_buf *cubin,
                      dl_buf *log, dl_error *err);
#endif

/* For test_cuda_device.c's sources: a plan with kernels of its own, and runs of it. */
#ifndef DL_CUDA_DEVICE_H
#define DL_CUDA_DEVICE_H
#include "runtime/exec/state.h"

enum { N = 1024, X = 0, Y = 4096, LOSS = 8192, RATE = 8256, COPY = 8320, ARENA = 10368 };

dlr_exec *open_exec(const dl_plan *p);
void put(dlr_exec *e, float value);
void test_opening(dl_plan *p);

/* A kernel that fails inside of a graph is found, and said with its line; nothing that is read
 * afterwards looks like a number. */
void test_fault(const dl_plan *p);

/* A wrong request of the host is no kernel's fault, and the device is not begun anew to look
 * for one. */
void test_asked_wrongly(const dl_plan *p);

/* Where a step first makes what is not finite, on a device as on the CPU. */
void test_not_finite(const dl_plan *p);

/* Code that is compiled after the first step. */
void test_late(const dl_plan *p);
void test_contexts(void);
void test_emulator(void);

/* Blocks that lie side by side, as the system hands them out: each address is its own block's. */
void test_neighbours(void);
void test_drivers(dl_arena *arena);
#endif

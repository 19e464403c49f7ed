/* CUDA sources on the CPU: the objects of a target "...:emulated". */
#ifndef DL_CUDA_EMULATE_H
#define DL_CUDA_EMULATE_H
#include "ir/base/arena.h"
#include "ir/base/console.h"
#include "ir/plan/plan.h"

/* Compiles sources that begin with kernels/emulated.cc by the system's C++ compiler ($CXX, c++, g++
 * or clang++) into shared objects, as dl_jit_compile does C (jit_cc.h: cache, warnings, errors). An
 * object exports its kernels and int dl_emulated_launch(const char *kernel, int nargs, void *const
 * *args, unsigned grid, unsigned block, unsigned shared, unsigned seed, char *error, size_t size);
 * which runs one of them: its name; where its arguments stand, as cuLaunchKernel takes them;
 * blocks, threads of a block, bytes of dynamic shared memory; what draws the order of threads and
 * blocks (0: they begin as they are numbered). 0: done; 1: error[size] says what went wrong. One
 * launch of an object at a time. And int dl_emulated_arguments(const char *kernel, int *maps, int
 * *pointers, int table[2]); which tells how many arguments a kernel takes, and how many of them,
 * the first ones, are tensor maps (dl_emulated_map, in DL_MAP_BYTES), and how many after them
 * pointers; where its only one is a table (ir/plan/plan.h), for how many numbers and pointers it
 * has room, else 0; -1: there is no such kernel. Where DLR_EMULATE is "address", objects are made
 * with -fsanitize=address; who loads one must run under that, too. */
bool dl_cuda_emulate(dl_arena *arena, int n, dl_plan_object *objects, const dl_console *out,
                     int *compiled, dl_error *err);
/* A key of the compiler and all that it is told (dl_backend.toolchain). Errors: DL_RESOURCE. */
bool dl_cuda_emulate_toolchain(dl_arena *arena, uint64_t *key, dl_error *err);
#endif

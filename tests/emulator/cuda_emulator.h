/* The CUDA emulator for tests: a library with a CUDA driver over this machine's CPU.
 *
 * It has one device of every compute capability (0.0), whose modules are shared objects that run
 * blocks on the CPU (ir/plan/plan.h). Device memory lies at addresses that the host cannot use by
 * mistake. Streams do their work in order, when the host or another stream waits for them; a
 * captured graph is a list. A launch whose arguments lie outside of the device's memory fails as an
 * illegal address would.
 *
 * The library is that of the environment variable DLR_CUDA_EMULATOR (runtime/driver/driver.h):
 * tests and the runtime of one process share its state. */
#ifndef TESTS_EMULATOR_CUDA_EMULATOR_H
#define TESTS_EMULATOR_CUDA_EMULATOR_H
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/driver/driver.h"

/* The emulated device's memory and future faults. */
typedef struct {
    size_t memory;     /* bytes for allocations; 0: 2^36, for context and code, too */
    size_t others;     /* bytes of it that other programs hold */
    int major, minor;  /* compute capability; 0.0: all of them */
    int shared;        /* KiB of shared memory of a block; 0: 227 */
    int64_t fail_copy; /* that copy, counted from 1, fails like a lost device; 0: none */
    unsigned seed;     /* of the order in which threads run */
    bool no_maps;      /* the table lacks TensorMapEncodeTiled, as an older driver's */
    bool no_images;    /* nor has it TensorMapEncodeIm2col */
    int fail_load;     /* the error of loading modules, as for a newer compiler's; 0: none */
    bool no_register;  /* MemHostRegister fails, as where a process may lock little memory */
    bool hasty;        /* streams run ahead as far as their waits allow, before the one that is
                          waited for; otherwise each does only what is waited for */
    /* not NULL: the time of a launch by events; all other work then takes no time */
    int64_t (*launch_ns)(const char *function, unsigned grid);
} cuda_emulator_options;

/* The library's functions; it exports this table as `cuda_emulator_table`. */
typedef struct {
    const dlr_driver *(*driver)(void);
    /* The address in this process of so many bytes of device memory, for stand-ins of libraries;
     * NULL: they are not all the device's. */
    void *(*memory)(dlr_cu_memory at, size_t bytes);
    void (*set)(cuda_emulator_options options); /* clears faults, too */
    /* The number of streams, events, modules, graphs and blocks of memory that a context without
     * faults still held when it ended. */
    int (*lost)(void);
    /* A stream's priority: 0, or below for one that goes before others. */
    int (*priority)(const struct CUstream_st *stream);
    /* The device's work since `set`, in the order in which it was done, a letter each: 'i' a copy
     * from the host; 'o' one to the host; 'w' one within the device; 'g' a graph, whose launches
     * are not listed; 'l' a launch. The first few hundred. */
    const char *(*journal)(void);
} cuda_emulator;

/* The emulator, or NULL where DLR_CUDA_EMULATOR is not set. */
static inline const cuda_emulator *find_emulator(void) {
    static const cuda_emulator *found;
    const char *path = getenv(DLR_CUDA_EMULATOR);
    void *library = !found && path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library) found = dlsym(library, "cuda_emulator_table");
    return found;
}
/* The same; ends the test where there is none. */
static inline const cuda_emulator *emulator(void) {
    const cuda_emulator *found = find_emulator();
    if (found) return found;
    fprintf(stderr, "set " DLR_CUDA_EMULATOR " to BUILD/tests/emulator/libcuda_emulator.so\n");
    exit(1);
}
#endif

/* The CUDA driver as a table of functions: the system's libcuda.so.1, or a fake of it on the CPU (fake.c).
 *
 * The declarations are our own, of what is used here, as the driver's interface (docs.nvidia.com/cuda/
 * cuda-driver-api) has it: no CUDA header is needed to build. Names are the driver's without `cu`. Every
 * function returns 0 or a CUresult. */
#ifndef DLR_CUDA_DRIVER_H
#define DLR_CUDA_DRIVER_H
#include <stddef.h>
#include <stdint.h>

#include "ir/base/status.h"

typedef int dlr_cu_result, dlr_cu_device;
typedef uint64_t dlr_cu_memory; /* an address on the device */
typedef struct CUctx_st *dlr_cu_context;
typedef struct CUmod_st *dlr_cu_module;
typedef struct CUfunc_st *dlr_cu_function;
typedef struct CUstream_st *dlr_cu_stream;
typedef struct CUevent_st *dlr_cu_event;
typedef struct CUgraph_st *dlr_cu_graph;
typedef struct CUgraphExec_st *dlr_cu_graph_exec;

enum {
    DLR_CU_INVALID_VALUE = 1,
    DLR_CU_OUT_OF_MEMORY = 2,
    DLR_CU_NOT_INITIALIZED = 3,
    DLR_CU_NO_DEVICE = 100,
    DLR_CU_INVALID_DEVICE = 101,
    DLR_CU_INVALID_IMAGE = 200,
    DLR_CU_INVALID_CONTEXT = 201,
    DLR_CU_NO_BINARY_FOR_GPU = 209,
    DLR_CU_ECC_UNCORRECTABLE = 214,
    DLR_CU_INVALID_HANDLE = 400,
    DLR_CU_NOT_FOUND = 500,
    DLR_CU_NOT_READY = 600,
    DLR_CU_ILLEGAL_ADDRESS = 700,
    DLR_CU_LAUNCH_OUT_OF_RESOURCES = 701,
    DLR_CU_MISALIGNED_ADDRESS = 716,
    DLR_CU_LAUNCH_FAILED = 719,
    DLR_CU_STREAM_CAPTURE_UNSUPPORTED = 900,
    DLR_CU_STREAM_CAPTURE_INVALIDATED = 901,
    DLR_CU_STREAM_CAPTURE_UNJOINED = 904,
    DLR_CU_STREAM_CAPTURE_ISOLATION = 905,
    DLR_CU_CAPTURED_EVENT = 907,

    /* attributes of a device */
    DLR_CU_COMPUTE_MAJOR = 75,
    DLR_CU_COMPUTE_MINOR = 76,
    DLR_CU_SHARED_OPTIN = 97, /* most bytes of shared memory of a block */
    /* attributes of a function */
    DLR_CU_SHARED_STATIC = 1,
    DLR_CU_SHARED_DYNAMIC_MOST = 8,
    /* flags */
    DLR_CU_STREAM_NON_BLOCKING = 1,
    DLR_CU_EVENT_DISABLE_TIMING = 2,
    DLR_CU_CAPTURE_THREAD_LOCAL = 1,
    DLR_CU_MEMORY_DEVICE = 2,
    /* of tensor maps: types, how lines are turned, what is fetched at a time, what lies outside */
    DLR_CU_MAP_F16 = 6,
    DLR_CU_MAP_F32 = 7,
    DLR_CU_MAP_BF16 = 9,
    DLR_CU_MAP_INTERLEAVE_NONE = 0,
    DLR_CU_MAP_SWIZZLE_64 = 2,
    DLR_CU_MAP_SWIZZLE_128 = 3,
    DLR_CU_MAP_PROMOTION_128 = 2,
    DLR_CU_MAP_OUTSIDE_ZERO = 0,
};

/* One side of a copy of rows, and the whole of it, as the driver has them. */
typedef struct {
    size_t x, y; /* bytes into a row; rows */
    unsigned type;
    const void *host;
    dlr_cu_memory device;
    void *array;
    size_t pitch; /* bytes from row to row */
} dlr_cu_side;
typedef struct {
    dlr_cu_side from, to;
    size_t width, height; /* bytes of a row; rows */
} dlr_cu_rows;
typedef void dlr_cu_host_fn(void *data);

typedef struct dlr_driver {
    dlr_cu_result (*Init)(unsigned flags);
    dlr_cu_result (*DriverGetVersion)(int *version); /* 12040: 12.4 */
    dlr_cu_result (*GetErrorName)(dlr_cu_result result, const char **name);
    dlr_cu_result (*GetErrorString)(dlr_cu_result result, const char **text);
    dlr_cu_result (*DeviceGetCount)(int *count);
    dlr_cu_result (*DeviceGet)(dlr_cu_device *device, int ordinal);
    dlr_cu_result (*DeviceGetName)(char *name, int size, dlr_cu_device device);
    dlr_cu_result (*DeviceTotalMem)(size_t *bytes, dlr_cu_device device);
    dlr_cu_result (*DeviceGetAttribute)(int *value, int attribute, dlr_cu_device device);
    dlr_cu_result (*DevicePrimaryCtxRetain)(dlr_cu_context *context, dlr_cu_device device);
    dlr_cu_result (*DevicePrimaryCtxRelease)(dlr_cu_device device);
    dlr_cu_result (*DevicePrimaryCtxReset)(dlr_cu_device device);
    dlr_cu_result (*CtxSetCurrent)(dlr_cu_context context);
    dlr_cu_result (*MemGetInfo)(size_t *free, size_t *total);
    dlr_cu_result (*MemAlloc)(dlr_cu_memory *memory, size_t bytes);
    dlr_cu_result (*MemFree)(dlr_cu_memory memory);
    dlr_cu_result (*MemAllocHost)(void **memory, size_t bytes); /* of the host, pinned */
    dlr_cu_result (*MemFreeHost)(void *memory);
    dlr_cu_result (*MemHostRegister)(void *memory, size_t bytes, unsigned flags); /* pins what is there */
    dlr_cu_result (*MemHostUnregister)(void *memory);
    dlr_cu_result (*MemsetD8Async)(dlr_cu_memory to, unsigned char value, size_t bytes, dlr_cu_stream s);
    dlr_cu_result (*MemcpyHtoDAsync)(dlr_cu_memory to, const void *from, size_t bytes, dlr_cu_stream s);
    dlr_cu_result (*MemcpyDtoHAsync)(void *to, dlr_cu_memory from, size_t bytes, dlr_cu_stream s);
    dlr_cu_result (*MemcpyDtoDAsync)(dlr_cu_memory to, dlr_cu_memory from, size_t bytes, dlr_cu_stream s);
    dlr_cu_result (*Memcpy2DAsync)(const dlr_cu_rows *rows, dlr_cu_stream s);
    dlr_cu_result (*StreamCreate)(dlr_cu_stream *stream, unsigned flags);
    dlr_cu_result (*StreamDestroy)(dlr_cu_stream stream);
    dlr_cu_result (*StreamSynchronize)(dlr_cu_stream stream);
    /* What follows in the stream waits for the event as it was recorded last; for none, if it never was. */
    dlr_cu_result (*StreamWaitEvent)(dlr_cu_stream stream, dlr_cu_event event, unsigned flags);
    dlr_cu_result (*StreamBeginCapture)(dlr_cu_stream stream, int mode);
    dlr_cu_result (*StreamEndCapture)(dlr_cu_stream stream, dlr_cu_graph *graph);
    dlr_cu_result (*EventCreate)(dlr_cu_event *event, unsigned flags);
    dlr_cu_result (*EventDestroy)(dlr_cu_event event);
    dlr_cu_result (*EventRecord)(dlr_cu_event event, dlr_cu_stream stream);
    dlr_cu_result (*EventSynchronize)(dlr_cu_event event);
    dlr_cu_result (*EventQuery)(dlr_cu_event event); /* NOT_READY: it has not happened */
    dlr_cu_result (*EventElapsedTime)(float *ms, dlr_cu_event from, dlr_cu_event to);
    dlr_cu_result (*ModuleLoadData)(dlr_cu_module *module, const void *image);
    dlr_cu_result (*ModuleUnload)(dlr_cu_module module);
    dlr_cu_result (*ModuleGetFunction)(dlr_cu_function *function, dlr_cu_module module, const char *name);
    dlr_cu_result (*FuncSetAttribute)(dlr_cu_function function, int attribute, int value);
    dlr_cu_result (*FuncGetAttribute)(int *value, int attribute, dlr_cu_function function);
    /* params: where each argument stands, which the driver puts where the code wants it; behind them NULL,
     * for the fake. */
    dlr_cu_result (*LaunchKernel)(dlr_cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                  dlr_cu_stream stream, void **params, void **extra);
    /* A function of the host in a stream's order; it calls nothing of the driver. */
    dlr_cu_result (*LaunchHostFunc)(dlr_cu_stream stream, dlr_cu_host_fn *function, void *data);
    dlr_cu_result (*GraphInstantiateWithFlags)(dlr_cu_graph_exec *exec, dlr_cu_graph graph, uint64_t flags);
    dlr_cu_result (*GraphUpload)(dlr_cu_graph_exec exec, dlr_cu_stream stream);
    dlr_cu_result (*GraphLaunch)(dlr_cu_graph_exec exec, dlr_cu_stream stream);
    dlr_cu_result (*GraphExecDestroy)(dlr_cu_graph_exec exec);
    dlr_cu_result (*GraphDestroy)(dlr_cu_graph graph);
    /* Writes a tensor map of 128 bytes at a multiple of 64; steps of memory in bytes, without the first axis,
     * whose elements are neighbours. NULL: the driver has no such function. */
    dlr_cu_result (*TensorMapEncodeTiled)(void *map, int type, unsigned axes, void *address,
                                          const uint64_t *size, const uint64_t *step, const uint32_t *box,
                                          const uint32_t *each, int interleave, int swizzle, int promotion,
                                          int outside);
    /* The same of images (ir/tensor_map.h: windows); corners from W on, as sizes are. */
    dlr_cu_result (*TensorMapEncodeIm2col)(void *map, int type, unsigned axes, void *address,
                                           const uint64_t *size, const uint64_t *step, const int *low,
                                           const int *high, uint32_t channels, uint32_t pixels,
                                           const uint32_t *each, int interleave, int swizzle, int promotion,
                                           int outside);
    /* What the last fault said beyond its name; "": nothing. The driver never does, the fake does. */
    const char *(*Detail)(void);
} dlr_driver;

/* The system's driver, loaded once and never unloaded; initialised. Errors (DL_RESOURCE): no libcuda.so.1, a
 * driver older than 12.0, no device. */
const dlr_driver *dlr_driver_open(dl_error *err);
/* The same of a library of that path, for tests; minimum: as above. */
const dlr_driver *dlr_driver_load(const char *library, dl_error *err);

/* The CPU's fake: one device of every compute capability (0.0), whose modules are shared objects that run
 * blocks here (ir/plan.h); memory of its own, at addresses that the host cannot use by mistake; streams that
 * do their work in order, when they are waited for, by the host or by another; capture as a list. A launch
 * whose arguments lie outside its memory fails as an illegal address would. */
const dlr_driver *dlr_driver_fake(void);
/* Where so many bytes of its memory lie in this process, for what stands in for a library's kernels; NULL:
 * not all of them are the device's. */
void *dlr_fake_memory(dlr_cu_memory at, size_t bytes);
/* For tests: what the fake has of memory, and faults to come. */
typedef struct {
    size_t memory;     /* bytes that there are for what is allocated; 0: 2^36, also for context and code */
    int major, minor;  /* compute capability; 0.0: all of them */
    int64_t fail_copy; /* that copy, counted from 1, fails as a lost device does; 0: none */
    unsigned seed;     /* of the order in which threads run */
    bool no_maps;      /* the table has no TensorMapEncodeTiled, as an older driver's */
    bool no_images;    /* nor TensorMapEncodeIm2col */
    bool no_register;  /* MemHostRegister fails, as where a process may lock little memory */
    bool hasty;        /* streams that nobody waits for run ahead as far as their waits let them, before the
                        * one that is waited for; else each does only what is waited for */
    int64_t (*launch_ns)(const char *function, unsigned grid); /* not NULL: what a launch takes by events, and
                                                                  all else takes nothing */
} dlr_fake_options;
void dlr_fake_set(dlr_fake_options options);
/* What the device did since then, in the order in which it did it, a letter each: 'i' a copy in, from the
 * host; 'o' one out, to the host; 'w' one within the device; 'g' a graph, whose launches are not told; 'l' a
 * launch. The first few hundred. */
const char *dlr_fake_journal(void);

/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)", and what Detail says. */
void dlr_driver_say(const dlr_driver *driver, dlr_cu_result result, char *text, size_t size);
#endif

/* The CUDA driver as a table of functions: the system's libcuda.so.1, or an emulator of it that
 * tests load.
 *
 * The header declares the functions that are used here with the prototypes of the driver's
 * documentation (docs.nvidia.com/cuda/cuda-driver-api). The build needs no CUDA header. Names are
 * the driver's without `cu`. Every function returns 0 or a CUresult. */
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
    DLR_CU_STUB_LIBRARY = 34,
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
    DLR_CU_LAUNCH_TIMEOUT = 702,
    DLR_CU_ASSERT = 710,
    DLR_CU_ALREADY_REGISTERED = 712,
    DLR_CU_NOT_REGISTERED = 713,
    DLR_CU_HARDWARE_STACK = 714,
    DLR_CU_MISALIGNED_ADDRESS = 716,
    DLR_CU_LAUNCH_FAILED = 719,
    DLR_CU_STREAM_CAPTURE_UNSUPPORTED = 900,
    DLR_CU_STREAM_CAPTURE_INVALIDATED = 901,
    DLR_CU_STREAM_CAPTURE_UNJOINED = 904,
    DLR_CU_STREAM_CAPTURE_ISOLATION = 905,
    DLR_CU_CAPTURED_EVENT = 907,

    /* attributes of a device */
    DLR_CU_MULTIPROCESSORS = 16, /* of a MIG instance: its own */
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
    DLR_CU_GRAPH_NODE_PRIORITY = 8, /* of a graph: kernels keep the priorities of the streams that
                                       they were captured in */
    DLR_CU_MEMORY_DEVICE = 2,
    /* tensor maps: element types, swizzles, L2 promotion, fill of elements outside */
    DLR_CU_MAP_F16 = 6,
    DLR_CU_MAP_F32 = 7,
    DLR_CU_MAP_BF16 = 9,
    DLR_CU_MAP_INTERLEAVE_NONE = 0,
    DLR_CU_MAP_SWIZZLE_64 = 2,
    DLR_CU_MAP_SWIZZLE_128 = 3,
    DLR_CU_MAP_PROMOTION_128 = 2,
    DLR_CU_MAP_OUTSIDE_ZERO = 0,
};

/* One side of a 2-D copy, and the whole of it, with the driver's layout. */
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

/* X(name, version, arguments): the functions. version: the CUDA version of the prototype, times
 * 1000. MAYBE: a function that a driver may lack, NULL then. tests/cuda/driver_header.c compares
 * the prototypes with a CUDA header where one is found. */
#define DLR_DRIVER_FUNCTIONS(X, MAYBE)                                                             \
    X(Init, 2000, (unsigned flags))                                                                \
    /* 12040: 12.4 */                                                                              \
    X(DriverGetVersion, 2020, (int *version))                                                      \
    X(GetErrorName, 6000, (dlr_cu_result result, const char **name))                               \
    X(GetErrorString, 6000, (dlr_cu_result result, const char **text))                             \
    X(DeviceGetCount, 2000, (int *count))                                                          \
    X(DeviceGet, 2000, (dlr_cu_device * device, int ordinal))                                      \
    X(DeviceGetName, 2000, (char *name, int size, dlr_cu_device device))                           \
    X(DeviceTotalMem, 3020, (size_t * bytes, dlr_cu_device device))                                \
    X(DeviceGetAttribute, 2000, (int *value, int attribute, dlr_cu_device device))                 \
    X(DevicePrimaryCtxRetain, 7000, (dlr_cu_context * context, dlr_cu_device device))              \
    X(DevicePrimaryCtxRelease, 11000, (dlr_cu_device device))                                      \
    X(CtxSetCurrent, 4000, (dlr_cu_context context))                                               \
    X(MemGetInfo, 3020, (size_t * free, size_t * total))                                           \
    X(MemAlloc, 3020, (dlr_cu_memory * memory, size_t bytes))                                      \
    X(MemFree, 3020, (dlr_cu_memory memory))                                                       \
    /* host memory, pinned */                                                                      \
    X(MemAllocHost, 3020, (void **memory, size_t bytes))                                           \
    X(MemFreeHost, 2000, (void *memory))                                                           \
    /* pins existing                                                                               \
     * memory */                                                                                   \
    X(MemHostRegister, 6050, (void *memory, size_t bytes, unsigned flags))                         \
    X(MemHostUnregister, 4000, (void *memory))                                                     \
    X(MemsetD8Async, 3020, (dlr_cu_memory to, unsigned char value, size_t bytes, dlr_cu_stream s)) \
    X(MemcpyHtoDAsync, 3020, (dlr_cu_memory to, const void *from, size_t bytes, dlr_cu_stream s))  \
    X(MemcpyDtoHAsync, 3020, (void *to, dlr_cu_memory from, size_t bytes, dlr_cu_stream s))        \
    X(MemcpyDtoDAsync, 3020,                                                                       \
      (dlr_cu_memory to, dlr_cu_memory from, size_t bytes, dlr_cu_stream s))                       \
    X(Memcpy2DAsync, 3020, (const dlr_cu_rows *rows, dlr_cu_stream s))                             \
    X(StreamCreate, 2000, (dlr_cu_stream * stream, unsigned flags))                                \
    /* lower numbers go first, where blocks of several kernels wait for a multiprocessor */        \
    X(StreamCreateWithPriority, 5050, (dlr_cu_stream * stream, unsigned flags, int priority))      \
    X(CtxGetStreamPriorityRange, 5050, (int *least, int *greatest))                                \
    X(StreamDestroy, 4000, (dlr_cu_stream stream))                                                 \
    X(StreamSynchronize, 2000, (dlr_cu_stream stream))                                             \
    /* Later work in the stream waits for the event as it was recorded last; for none, if it never \
     * was. */                                                                                     \
    X(StreamWaitEvent, 3020, (dlr_cu_stream stream, dlr_cu_event event, unsigned flags))           \
    X(StreamBeginCapture, 10010, (dlr_cu_stream stream, int mode))                                 \
    X(StreamEndCapture, 10000, (dlr_cu_stream stream, dlr_cu_graph * graph))                       \
    X(EventCreate, 2000, (dlr_cu_event * event, unsigned flags))                                   \
    X(EventDestroy, 4000, (dlr_cu_event event))                                                    \
    X(EventRecord, 2000, (dlr_cu_event event, dlr_cu_stream stream))                               \
    X(EventSynchronize, 2000, (dlr_cu_event event))                                                \
    /* NOT_READY: it has not happened */                                                           \
    X(EventQuery, 2000, (dlr_cu_event event))                                                      \
    X(EventElapsedTime, 2000, (float *ms, dlr_cu_event from, dlr_cu_event to))                     \
    X(ModuleLoadData, 2000, (dlr_cu_module * module, const void *image))                           \
    X(ModuleUnload, 2000, (dlr_cu_module module))                                                  \
    X(ModuleGetFunction, 2000,                                                                     \
      (dlr_cu_function * function, dlr_cu_module module, const char *name))                        \
    X(FuncSetAttribute, 9000, (dlr_cu_function function, int attribute, int value))                \
    X(FuncGetAttribute, 2020, (int *value, int attribute, dlr_cu_function function))               \
    /* params: pointers to the arguments, which the driver copies to where the code expects them;  \
     * a NULL follows them, for the emulated driver. */                                            \
    X(LaunchKernel, 4000,                                                                          \
      (dlr_cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
       unsigned block_y, unsigned block_z, unsigned shared, dlr_cu_stream stream, void **params,   \
       void **extra))                                                                              \
    /* A function of the host in a stream's order; it calls nothing of the driver. */              \
    X(LaunchHostFunc, 10000, (dlr_cu_stream stream, dlr_cu_host_fn * function, void *data))        \
    X(GraphInstantiateWithFlags, 11040,                                                            \
      (dlr_cu_graph_exec * exec, dlr_cu_graph graph, uint64_t flags))                              \
    X(GraphUpload, 11010, (dlr_cu_graph_exec exec, dlr_cu_stream stream))                          \
    X(GraphLaunch, 10000, (dlr_cu_graph_exec exec, dlr_cu_stream stream))                          \
    X(GraphExecDestroy, 10000, (dlr_cu_graph_exec exec))                                           \
    X(GraphDestroy, 10000, (dlr_cu_graph graph))                                                   \
    /* Writes a tensor map of 128 bytes, aligned to 128. Strides are in bytes, without the first   \
     * axis, whose elements are contiguous. NULL: the driver lacks the function. */                \
    MAYBE(TensorMapEncodeTiled, 12000,                                                             \
          (void *map, int type, unsigned axes, void *address, const uint64_t *size,                \
           const uint64_t *step, const uint32_t *box, const uint32_t *each, int interleave,        \
           int swizzle, int promotion, int outside))                                               \
    /* The same for im2col tensor maps (ir/kernel/tensor_map.h: windows); corners from W on, as    \
     * sizes are. */                                                                               \
    MAYBE(TensorMapEncodeIm2col, 12000,                                                            \
          (void *map, int type, unsigned axes, void *address, const uint64_t *size,                \
           const uint64_t *step, const int *low, const int *high, uint32_t channels,               \
           uint32_t pixels, const uint32_t *each, int interleave, int swizzle, int promotion,      \
           int outside))

typedef struct dlr_driver {
#define FIELD(name, version, arguments) dlr_cu_result(*name) arguments;
    DLR_DRIVER_FUNCTIONS(FIELD, FIELD)
#undef FIELD
    /* Details of the last fault in addition to its name; "": none, as always with the real driver.
     */
    const char *(*Detail)(void);
} dlr_driver;

/* The system's driver, loaded once and never unloaded; initialised. Errors (DL_RESOURCE): no
 * libcuda.so.1, a driver older than 12.0, no device. */
const dlr_driver *dlr_driver_open(dl_error *err);
/* The same of a library of that path, for tests; minimum: as above. */
const dlr_driver *dlr_driver_load(const char *library, dl_error *err);

/* An emulated driver: a table that the library named by the environment variable DLR_CUDA_EMULATOR
 * returns by its function `const dlr_driver *dlr_emulated_driver(void)`. Tests have such a library
 * (tests/emulator). Errors (DL_RESOURCE): the variable is not set, or names no such library. */
#define DLR_CUDA_EMULATOR "DLR_CUDA_EMULATOR"
const dlr_driver *dlr_driver_emulated(dl_error *err);

/* A stream of the greatest priority, which does not block the default stream: its kernels' blocks
 * go before those of other streams that have not started yet. */
dlr_cu_result dlr_driver_urgent_stream(const dlr_driver *driver, dlr_cu_stream *stream);

/* "CUDA_ERROR_OUT_OF_MEMORY (out of memory)", and what Detail says. */
void dlr_driver_say(const dlr_driver *driver, dlr_cu_result result, char *text, size_t size);
#endif

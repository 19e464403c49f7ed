/* The runtime's own declarations of the CUDA driver (runtime/driver/driver.h) compared with its
 * headers, for check_driver.py: values and places are equal, and each function, in the version that
 * is asked of cuGetProcAddress, takes what the runtime gives it. Compiled only, never linked. */
#include <cudaTypedefs.h>

#include "ir/kernel/tensor_map.h"
#include "runtime/driver/driver.h"

#define EQUAL(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours)
EQUAL(DLR_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
EQUAL(DLR_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
EQUAL(DLR_CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
EQUAL(DLR_CU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
EQUAL(DLR_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
EQUAL(DLR_CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE);
EQUAL(DLR_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
EQUAL(DLR_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
EQUAL(DLR_CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
EQUAL(DLR_CU_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE);
EQUAL(DLR_CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
EQUAL(DLR_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
EQUAL(DLR_CU_NOT_READY, CUDA_ERROR_NOT_READY);
EQUAL(DLR_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
EQUAL(DLR_CU_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
EQUAL(DLR_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
EQUAL(DLR_CU_ASSERT, CUDA_ERROR_ASSERT);
EQUAL(DLR_CU_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
EQUAL(DLR_CU_NOT_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
EQUAL(DLR_CU_HARDWARE_STACK, CUDA_ERROR_HARDWARE_STACK_ERROR);
EQUAL(DLR_CU_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS);
EQUAL(DLR_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
EQUAL(DLR_CU_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
EQUAL(DLR_CU_STREAM_CAPTURE_INVALIDATED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
EQUAL(DLR_CU_STREAM_CAPTURE_UNJOINED, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
EQUAL(DLR_CU_STREAM_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
EQUAL(DLR_CU_CAPTURED_EVENT, CUDA_ERROR_CAPTURED_EVENT);
EQUAL(DLR_CU_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
EQUAL(DLR_CU_COMPUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
EQUAL(DLR_CU_COMPUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
EQUAL(DLR_CU_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
EQUAL(DLR_CU_SHARED_STATIC, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
EQUAL(DLR_CU_SHARED_DYNAMIC_MOST, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
EQUAL(DLR_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
EQUAL(DLR_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
EQUAL(DLR_CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
EQUAL(DLR_CU_GRAPH_NODE_PRIORITY, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
EQUAL(DLR_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
EQUAL(DLR_CU_MAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
EQUAL(DLR_CU_MAP_F32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
EQUAL(DLR_CU_MAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
EQUAL(DLR_CU_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_NONE);
EQUAL(DLR_CU_MAP_SWIZZLE_64, CU_TENSOR_MAP_SWIZZLE_64B);
EQUAL(DLR_CU_MAP_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B);
EQUAL(DLR_CU_MAP_PROMOTION_128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
EQUAL(DLR_CU_MAP_OUTSIDE_ZERO, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
EQUAL(DL_MAP_BYTES, sizeof(CUtensorMap));
EQUAL(DL_MAP_ALIGN % _Alignof(CUtensorMap), 0); /* 64 in CUDA 12 */
EQUAL(sizeof(dlr_cu_result), sizeof(CUresult));
EQUAL(sizeof(dlr_cu_device), sizeof(CUdevice));
EQUAL(sizeof(dlr_cu_memory), sizeof(CUdeviceptr));
EQUAL(sizeof(int), sizeof(CUtensorMapSwizzle));

#define SAME_PLACE(ours, theirs) EQUAL(offsetof(dlr_cu_rows, ours), offsetof(CUDA_MEMCPY2D, theirs))
EQUAL(sizeof(dlr_cu_rows), sizeof(CUDA_MEMCPY2D));
SAME_PLACE(from.x, srcXInBytes);
SAME_PLACE(from.y, srcY);
SAME_PLACE(from.type, srcMemoryType);
SAME_PLACE(from.host, srcHost);
SAME_PLACE(from.device, srcDevice);
SAME_PLACE(from.array, srcArray);
SAME_PLACE(from.pitch, srcPitch);
SAME_PLACE(to.x, dstXInBytes);
SAME_PLACE(to.y, dstY);
SAME_PLACE(to.type, dstMemoryType);
SAME_PLACE(to.host, dstHost);
SAME_PLACE(to.device, dstDevice);
SAME_PLACE(to.array, dstArray);
SAME_PLACE(to.pitch, dstPitch);
SAME_PLACE(width, WidthInBytes);
SAME_PLACE(height, Height);

/* Each function of the table as a call of the driver's with the same arguments; that of a table's
 * row without one is not used, which is an error. Handles have the driver's tags; a pointer to
 * words of another name points to as many bytes. */
#define DECLARE(name, version, arguments)                                                          \
    static PFN_cu##name##_v##version real_##name;                                                  \
    dlr_cu_result call_##name arguments;
DLR_DRIVER_FUNCTIONS(DECLARE, DECLARE)
#define CALL(name, arguments, passed)                                                              \
    dlr_cu_result call_##name arguments { return (dlr_cu_result)real_##name passed; }
#define AS(type, p) ((type *)(p) + 0 * sizeof(char[sizeof *(p) == sizeof(type) ? 1 : -1]))

typedef dlr_cu_memory at;
typedef dlr_cu_stream stream;
typedef dlr_cu_event event;
typedef dlr_cu_graph_exec exec;
CALL(Init, (unsigned flags), (flags))
CALL(DriverGetVersion, (int *v), (v))
CALL(GetErrorName, (dlr_cu_result r, const char **name), ((CUresult)r, name))
CALL(GetErrorString, (dlr_cu_result r, const char **text), ((CUresult)r, text))
CALL(DeviceGetCount, (int *n), (n))
CALL(DeviceGet, (dlr_cu_device * d, int i), (d, i))
CALL(DeviceGetName, (char *name, int size, dlr_cu_device d), (name, size, d))
CALL(DeviceTotalMem, (size_t * n, dlr_cu_device d), (n, d))
CALL(DeviceGetAttribute, (int *v, int what, dlr_cu_device d), (v, (CUdevice_attribute)what, d))
CALL(DevicePrimaryCtxRetain, (dlr_cu_context * c, dlr_cu_device d), (c, d))
CALL(DevicePrimaryCtxRelease, (dlr_cu_device d), (d))
CALL(CtxSetCurrent, (dlr_cu_context c), (c))
CALL(MemGetInfo, (size_t * free, size_t *total), (free, total))
CALL(MemAlloc, (at * to, size_t n), (AS(CUdeviceptr, to), n))
CALL(MemFree, (at a), (a))
CALL(MemAllocHost, (void **to, size_t n), (to, n))
CALL(MemFreeHost, (void *p), (p))
CALL(MemHostRegister, (void *p, size_t n, unsigned flags), (p, n, flags))
CALL(MemHostUnregister, (void *p), (p))
CALL(MemsetD8Async, (at to, unsigned char v, size_t n, stream s), (to, v, n, s))
CALL(MemcpyHtoDAsync, (at to, const void *from, size_t n, stream s), (to, from, n, s))
CALL(MemcpyDtoHAsync, (void *to, at from, size_t n, stream s), (to, from, n, s))
CALL(MemcpyDtoDAsync, (at to, at from, size_t n, stream s), (to, from, n, s))
CALL(Memcpy2DAsync, (const dlr_cu_rows *r, stream s), (AS(const CUDA_MEMCPY2D, r), s))
CALL(StreamCreate, (stream * s, unsigned flags), (s, flags))
CALL(StreamCreateWithPriority, (stream * s, unsigned flags, int priority), (s, flags, priority))
CALL(CtxGetStreamPriorityRange, (int *least, int *greatest), (least, greatest))
CALL(StreamDestroy, (stream s), (s))
CALL(StreamSynchronize, (stream s), (s))
CALL(StreamWaitEvent, (stream s, event e, unsigned flags), (s, e, flags))
CALL(StreamBeginCapture, (stream s, int mode), (s, (CUstreamCaptureMode)mode))
CALL(StreamEndCapture, (stream s, dlr_cu_graph *g), (s, g))
CALL(EventCreate, (event * e, unsigned flags), (e, flags))
CALL(EventDestroy, (event e), (e))
CALL(EventRecord, (event e, stream s), (e, s))
CALL(EventSynchronize, (event e), (e))
CALL(EventQuery, (event e), (e))
CALL(EventElapsedTime, (float *ms, event from, event to), (ms, from, to))
CALL(ModuleLoadData, (dlr_cu_module * m, const void *image), (m, image))
CALL(ModuleUnload, (dlr_cu_module m), (m))
CALL(ModuleGetFunction, (dlr_cu_function * f, dlr_cu_module m, const char *name), (f, m, name))
CALL(FuncSetAttribute, (dlr_cu_function f, int what, int v), (f, (CUfunction_attribute)what, v))
CALL(FuncGetAttribute, (int *v, int what, dlr_cu_function f), (v, (CUfunction_attribute)what, f))
CALL(LaunchKernel,
     (dlr_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
      unsigned bz, unsigned shared, stream s, void **params, void **extra),
     (f, gx, gy, gz, bx, by, bz, shared, s, params, extra))
CALL(LaunchHostFunc, (stream s, dlr_cu_host_fn *f, void *data), (s, f, data))
CALL(GraphInstantiateWithFlags, (exec * e, dlr_cu_graph g, uint64_t flags), (e, g, flags))
CALL(GraphUpload, (exec e, stream s), (e, s))
CALL(GraphLaunch, (exec e, stream s), (e, s))
CALL(GraphExecDestroy, (exec e), (e))
CALL(GraphDestroy, (dlr_cu_graph g), (g))
#define WORDS(p)  AS(const cuuint64_t, p)
#define HALVES(p) AS(const cuuint32_t, p)
#define TURNS                                                                                      \
    (CUtensorMapInterleave) interleave, (CUtensorMapSwizzle)swizzle,                               \
        (CUtensorMapL2promotion)promotion, (CUtensorMapFloatOOBfill)outside
CALL(TensorMapEncodeTiled,
     (void *map, int type, unsigned axes, void *address, const uint64_t *size, const uint64_t *step,
      const uint32_t *box, const uint32_t *each, int interleave, int swizzle, int promotion,
      int outside),
     (map, (CUtensorMapDataType)type, axes, address, WORDS(size), WORDS(step), HALVES(box),
      HALVES(each), TURNS))
CALL(TensorMapEncodeIm2col,
     (void *map, int type, unsigned axes, void *address, const uint64_t *size, const uint64_t *step,
      const int *low, const int *high, uint32_t channels, uint32_t pixels, const uint32_t *each,
      int interleave, int swizzle, int promotion, int outside),
     (map, (CUtensorMapDataType)type, axes, address, WORDS(size), WORDS(step), low, high, channels,
      pixels, HALVES(each), TURNS))

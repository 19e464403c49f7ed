/* The runtime's own declarations of NCCL (runtime/comm/nccl.h) next to NCCL's header, for
 * check_nccl.py: values and places are equal, and each function takes what the runtime gives it.
 * Compiled only, never linked. */
#include <nccl.h>
#include <string.h>

#include "runtime/comm/nccl.h"

#define EQUAL(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours)
EQUAL(DLR_NCCL_SUCCESS, ncclSuccess);
EQUAL(DLR_NCCL_CUDA_ERROR, ncclUnhandledCudaError);
EQUAL(DLR_NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
EQUAL(DLR_NCCL_INVALID_USAGE, ncclInvalidUsage);
EQUAL(DLR_NCCL_REMOTE_ERROR, ncclRemoteError);
EQUAL(DLR_NCCL_IN_PROGRESS, ncclInProgress);
EQUAL(DLR_NCCL_SUM, ncclSum);
EQUAL(DLR_NCCL_MAX, ncclMax);
EQUAL(DLR_NCCL_INT32, ncclInt32);
EQUAL(DLR_NCCL_INT64, ncclInt64);
EQUAL(DLR_NCCL_FLOAT16, ncclFloat16);
EQUAL(DLR_NCCL_FLOAT32, ncclFloat32);
EQUAL(DLR_NCCL_FLOAT64, ncclFloat64);
EQUAL(DLR_NCCL_BFLOAT16, ncclBfloat16);
EQUAL(DLR_NCCL_NO_COLOR, NCCL_SPLIT_NOCOLOR);
EQUAL(DLR_NCCL_UNDEFINED, NCCL_CONFIG_UNDEF_INT);
EQUAL(sizeof(dlr_nccl_id), sizeof(ncclUniqueId));
EQUAL(sizeof(ncclResult_t), sizeof(int));
EQUAL(sizeof(ncclDataType_t), sizeof(int));
EQUAL(sizeof(ncclRedOp_t), sizeof(int));

#define SAME_PLACE(ours, theirs)                                                                   \
    EQUAL(offsetof(dlr_nccl_config, ours), offsetof(ncclConfig_t, theirs))
SAME_PLACE(size, size);
SAME_PLACE(magic, magic);
SAME_PLACE(version, version);
SAME_PLACE(blocking, blocking);
SAME_PLACE(cga_cluster_size, cgaClusterSize);
SAME_PLACE(min_ctas, minCTAs);
SAME_PLACE(max_ctas, maxCTAs);
SAME_PLACE(net_name, netName);
SAME_PLACE(split_share, splitShare);
_Static_assert(sizeof(dlr_nccl_config) <= sizeof(ncclConfig_t),
               "an older header's is a part of it");

/* Each function of the table as a call of NCCL's with the same arguments, only handles and enums
 * renamed. */
#define DECLARE(name, result, arguments) result call_##name arguments;
DLR_NCCL_FUNCTIONS(DECLARE)
#define THEIRS(c) ((ncclComm_t)(c))

int call_GetVersion(int *version) { return ncclGetVersion(version); }
int call_GetUniqueId(dlr_nccl_id *id) { return ncclGetUniqueId((ncclUniqueId *)id); }
int call_CommInitRankConfig(dlr_nccl_comm *comm, int ranks, dlr_nccl_id id, int rank,
                            dlr_nccl_config *config) {
    ncclUniqueId theirs;
    memcpy(&theirs, &id, sizeof theirs);
    return ncclCommInitRankConfig((ncclComm_t *)comm, ranks, theirs, rank, (ncclConfig_t *)config);
}
int call_CommSplit(dlr_nccl_comm comm, int color, int key, dlr_nccl_comm *to,
                   dlr_nccl_config *config) {
    return ncclCommSplit(THEIRS(comm), color, key, (ncclComm_t *)to, (ncclConfig_t *)config);
}
int call_CommDestroy(dlr_nccl_comm comm) { return ncclCommDestroy(THEIRS(comm)); }
int call_CommFinalize(dlr_nccl_comm comm) { return ncclCommFinalize(THEIRS(comm)); }
int call_CommAbort(dlr_nccl_comm comm) { return ncclCommAbort(THEIRS(comm)); }
int call_CommGetAsyncError(dlr_nccl_comm comm, int *error) {
    return ncclCommGetAsyncError(THEIRS(comm), (ncclResult_t *)error);
}
const char *call_GetErrorString(int result) { return ncclGetErrorString((ncclResult_t)result); }
const char *call_GetLastError(dlr_nccl_comm comm) { return ncclGetLastError(THEIRS(comm)); }

#define TAIL THEIRS(comm), (cudaStream_t)s
#define TYPE ((ncclDataType_t)type)
#define OP   ((ncclRedOp_t)op)
int call_AllReduce(const void *from, void *to, size_t count, int type, int op, dlr_nccl_comm comm,
                   dlr_cu_stream s) {
    return ncclAllReduce(from, to, count, TYPE, OP, TAIL);
}
int call_Broadcast(const void *from, void *to, size_t count, int type, int root, dlr_nccl_comm comm,
                   dlr_cu_stream s) {
    return ncclBroadcast(from, to, count, TYPE, root, TAIL);
}
int call_Reduce(const void *from, void *to, size_t count, int type, int op, int root,
                dlr_nccl_comm comm, dlr_cu_stream s) {
    return ncclReduce(from, to, count, TYPE, OP, root, TAIL);
}
int call_AllGather(const void *from, void *to, size_t own, int type, dlr_nccl_comm comm,
                   dlr_cu_stream s) {
    return ncclAllGather(from, to, own, TYPE, TAIL);
}
int call_ReduceScatter(const void *from, void *to, size_t own, int type, int op, dlr_nccl_comm comm,
                       dlr_cu_stream s) {
    return ncclReduceScatter(from, to, own, TYPE, OP, TAIL);
}
int call_Send(const void *from, size_t count, int type, int peer, dlr_nccl_comm comm,
              dlr_cu_stream s) {
    return ncclSend(from, count, TYPE, peer, TAIL);
}
int call_Recv(void *to, size_t count, int type, int peer, dlr_nccl_comm comm, dlr_cu_stream s) {
    return ncclRecv(to, count, TYPE, peer, TAIL);
}
int call_GroupStart(void) { return ncclGroupStart(); }
int call_GroupEnd(void) { return ncclGroupEnd(); }

/* SPDX-License-Identifier: Apache-2.0 */
/* What of NCCL's stand-in needs no communicator. */
#include "tests/support/cuda_host/nccl.h"

#include <cstdlib>

ncclResult_t ncclGetVersion(int *version)
{
    const char *told = getenv("CADRE_HOST_NCCL_VERSION");
    if (!version)
        return ncclInvalidArgument;
    *version = told && *told ? atoi(told) : NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess:
        return "no error";
    case ncclUnhandledCudaError:
        return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
        return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
        return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
        return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
        return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    case ncclInProgress:
        return "NCCL operation in progress";
    default:
        return "unknown result code";
    }
}

/* ---- to come: refused, so that what links against it builds -------------------- */

const char *ncclGetLastError(ncclComm_t)
{
    return "the stand-in has no communicators yet";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *)
{
    return ncclInternalError;
}
ncclResult_t ncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int)
{
    return ncclInternalError;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *)
{
    return ncclInternalError;
}
ncclResult_t ncclCommSplit(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *)
{
    return ncclInternalError;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *)
{
    return ncclInternalError;
}
ncclResult_t ncclCommFinalize(ncclComm_t)
{
    return ncclInternalError;
}
ncclResult_t ncclCommDestroy(ncclComm_t)
{
    return ncclInternalError;
}
ncclResult_t ncclCommAbort(ncclComm_t)
{
    return ncclInternalError;
}
ncclResult_t ncclCommCount(ncclComm_t, int *)
{
    return ncclInternalError;
}
ncclResult_t ncclCommUserRank(ncclComm_t, int *)
{
    return ncclInternalError;
}
ncclResult_t ncclCommCuDevice(ncclComm_t, int *)
{
    return ncclInternalError;
}
ncclResult_t ncclGroupStart(void)
{
    return ncclInternalError;
}
ncclResult_t ncclGroupEnd(void)
{
    return ncclInternalError;
}
ncclResult_t ncclAllReduce(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                           ncclComm_t, cudaStream_t)
{
    return ncclInternalError;
}
ncclResult_t ncclReduce(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int,
                        ncclComm_t, cudaStream_t)
{
    return ncclInternalError;
}
ncclResult_t ncclReduceScatter(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                               ncclComm_t, cudaStream_t)
{
    return ncclInternalError;
}
ncclResult_t ncclAllGather(const void *, void *, size_t, ncclDataType_t, ncclComm_t,
                           cudaStream_t)
{
    return ncclInternalError;
}
ncclResult_t ncclBroadcast(const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
                           cudaStream_t)
{
    return ncclInternalError;
}
ncclResult_t ncclSend(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)
{
    return ncclInternalError;
}
ncclResult_t ncclRecv(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)
{
    return ncclInternalError;
}

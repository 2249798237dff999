/* SPDX-License-Identifier: Apache-2.0 */
/* The part of NCCL's stand-in that needs no communicator. */
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

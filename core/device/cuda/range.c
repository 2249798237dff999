/* SPDX-License-Identifier: Apache-2.0 */
/* Named ranges for Nsight: NVTX 3 is headers alone; nothing without them. */
#include "core/device/cuda/cuda.h"

#if defined(__has_include)
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAS_NVTX 1
#endif
#endif
#ifndef HAS_NVTX
#define nvtxRangePushA(name) ((void)(name))
#define nvtxRangePop() ((void)0)
#endif

void cadre_cuda_op_range_begin(struct cadre_device *device, const char *name)
{
    (void)device;
    (void)nvtxRangePushA(name);
}

void cadre_cuda_op_range_end(struct cadre_device *device)
{
    (void)device;
    (void)nvtxRangePop();
}

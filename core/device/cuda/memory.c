/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the GPU and pinned memory of the host, and copies between them. */
#include "core/device/cuda/cuda.h"

cadre_status cadre_cuda_check(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return CADRE_OK;
    cudaGetLastError();
    cadre_log(CADRE_LOG_ERROR, "device", "cuda: %s: %s (%s)", what,
              cudaGetErrorName(code), cudaGetErrorString(code));
    return code == cudaErrorMemoryAllocation ? CADRE_E_RESOURCE : CADRE_E_DEVICE;
}

cadre_status cadre_cuda_use(const struct cadre_cuda *cuda)
{
    return cadre_cuda_check(cudaSetDevice(cuda->index), "cudaSetDevice");
}

/* cudaMalloc aligns to 256 bytes. The caller logs what it lacked memory for. */
void *cadre_cuda_op_alloc(struct cadre_device *device, size_t bytes)
{
    void *ptr = NULL;
    if (cadre_cuda_use(cadre_cuda_of(device)) != CADRE_OK)
        return NULL;
    cudaError_t code = cudaMalloc(&ptr, bytes ? bytes : 64);
    if (code == cudaSuccess)
        return ptr;
    if (code == cudaErrorMemoryAllocation)
        cudaGetLastError();
    else
        cadre_cuda_check(code, "cudaMalloc");
    return NULL;
}

void cadre_cuda_op_free(struct cadre_device *device, void *ptr)
{
    if (ptr && cadre_cuda_use(cadre_cuda_of(device)) == CADRE_OK)
        cadre_cuda_check(cudaFree(ptr), "cudaFree");
}

void *cadre_cuda_op_alloc_pinned(struct cadre_device *device, size_t bytes)
{
    void *ptr = NULL;
    if (cadre_cuda_use(cadre_cuda_of(device)) != CADRE_OK)
        return NULL;
    cudaError_t code = cudaHostAlloc(&ptr, bytes ? bytes : 64, cudaHostAllocDefault);
    if (code == cudaSuccess)
        return ptr;
    if (code == cudaErrorMemoryAllocation)
        cudaGetLastError();
    else
        cadre_cuda_check(code, "cudaHostAlloc");
    return NULL;
}

void cadre_cuda_op_free_pinned(struct cadre_device *device, void *ptr)
{
    if (ptr && cadre_cuda_use(cadre_cuda_of(device)) == CADRE_OK)
        cadre_cuda_check(cudaFreeHost(ptr), "cudaFreeHost");
}

bool cadre_cuda_op_memory(struct cadre_device *device, uint64_t *available,
                          uint64_t *total)
{
    size_t left, all;
    if (cadre_cuda_use(cadre_cuda_of(device)) != CADRE_OK)
        return false;
    if (cudaMemGetInfo(&left, &all) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    *available = left;
    *total = all;
    return true;
}

bool cadre_cuda_op_host_reaches(struct cadre_device *device, const void *ptr)
{
    struct cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, ptr) != cudaSuccess) {
        cudaGetLastError();
        return true; /* unknown to CUDA */
    }
    return attributes.type != cudaMemoryTypeDevice;
}

static cadre_status copy(struct cadre_device *device, void *dst, const void *src,
                         size_t bytes, enum cudaMemcpyKind kind, const char *what)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    if (bytes == 0)
        return CADRE_OK;
    CADRE_TRY(cadre_cuda_use(cuda));
    return cadre_cuda_check(
        cudaMemcpyAsync(dst, src, bytes, kind, cadre_cuda_current(cuda)), what);
}

static cadre_status wait(struct cadre_device *device, const char *what)
{
    return cadre_cuda_check(
        cudaStreamSynchronize(cadre_cuda_current(cadre_cuda_of(device))), what);
}

cadre_status cadre_cuda_op_copy(struct cadre_device *device, void *dst, const void *src,
                                size_t bytes)
{
    return copy(device, dst, src, bytes, cudaMemcpyDeviceToDevice,
                "a copy in device memory");
}

cadre_status cadre_cuda_op_upload(struct cadre_device *device, void *dst,
                                  const void *pinned, size_t bytes)
{
    return copy(device, dst, pinned, bytes, cudaMemcpyHostToDevice,
                "a copy to device memory");
}

cadre_status cadre_cuda_op_download(struct cadre_device *device, void *pinned,
                                    const void *src, size_t bytes)
{
    return copy(device, pinned, src, bytes, cudaMemcpyDeviceToHost,
                "a copy from device memory");
}

cadre_status cadre_cuda_op_to_device(struct cadre_device *device, void *dst,
                                     const void *host, size_t bytes)
{
    cadre_status rc = cadre_cuda_op_upload(device, dst, host, bytes);
    return rc != CADRE_OK ? rc : wait(device, "a copy to device memory");
}

cadre_status cadre_cuda_op_to_host(struct cadre_device *device, void *host,
                                   const void *src, size_t bytes)
{
    cadre_status rc = cadre_cuda_op_download(device, host, src, bytes);
    return rc != CADRE_OK ? rc : wait(device, "a copy from device memory");
}

cadre_status cadre_cuda_op_zero(struct cadre_device *device, void *dst, size_t bytes)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    cadre_status rc = cadre_cuda_use(cuda);
    if (rc != CADRE_OK || bytes == 0)
        return rc;
    return cadre_cuda_check(cudaMemsetAsync(dst, 0, bytes, cadre_cuda_current(cuda)),
                            "cudaMemsetAsync");
}

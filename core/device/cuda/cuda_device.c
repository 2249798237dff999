/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a CUDA device, or reporting why not; worker streams. */
#include "core/base/memory.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/gemm.h"
#include "core/device/cuda/kernels.h"
#include "core/device/module.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSED "device.kind = cuda: "

/* ---- why not ---- */

/* The first file of the CUDA runtime that was found, and another one. */
struct runtimes {
    char first[PATH_MAX], other[PATH_MAX];
};

static int note_runtime(struct dl_phdr_info *info, size_t size, void *to)
{
    struct runtimes *seen = to;
    const char *slash = strrchr(info->dlpi_name, '/');
    (void)size;
    if (strncmp(slash ? slash + 1 : info->dlpi_name, "libcudart.so", 12) != 0)
        return 0;
    char *place = seen->first[0] ? seen->other : seen->first;
    snprintf(place, PATH_MAX, "%s", info->dlpi_name);
    return seen->other[0] != 0;
}

/* Two copies of the runtime do not share streams and errors. */
static cadre_status check_one_runtime(struct cadre_error *err)
{
    struct runtimes *seen = cadre_calloc(1, sizeof *seen);
    cadre_status rc = CADRE_OK;
    if (!seen)
        return cadre_no_memory(err, "the CUDA device");
    dl_iterate_phdr(note_runtime, seen);
    if (seen->other[0])
        rc = cadre_fail(err, CADRE_E_UNSUPPORTED,
                        REFUSED "two CUDA runtimes are loaded, '%s' and '%s': build "
                                "all modules with one toolkit, and look at "
                                "LD_LIBRARY_PATH",
                        seen->first, seen->other);
    free(seen);
    return rc;
}

static int major(int version)
{
    return version / 1000;
}

static int minor(int version)
{
    return version / 10 % 100;
}

cadre_status cadre_cuda_find(int *count, struct cadre_error *err)
{
    int driver = 0, runtime = 0;
    CADRE_TRY(check_one_runtime(err));
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    cudaError_t code = cudaGetDeviceCount(count);
    cudaGetLastError();
    if (code == cudaSuccess && *count > 0)
        return CADRE_OK;
    if (driver == 0)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          REFUSED "there is no NVIDIA driver (libcuda.so.1) on this "
                                  "machine: use device.kind = cpu");
    if (code == cudaErrorInsufficientDriver)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          REFUSED "the driver is too old: it is for CUDA %d.%d, this "
                                  "build needs %d.%d; update the driver",
                          major(driver), minor(driver), major(runtime), minor(runtime));
    if (code == cudaErrorNoDevice || code == cudaSuccess)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          REFUSED "no GPU is visible (CUDA_VISIBLE_DEVICES = %s)",
                          getenv("CUDA_VISIBLE_DEVICES")
                              ? getenv("CUDA_VISIBLE_DEVICES")
                              : "not set");
    return cadre_fail(err, CADRE_E_UNSUPPORTED, REFUSED "%s (%s)",
                      cudaGetErrorName(code), cudaGetErrorString(code));
}

/* A first launch: is there code for this architecture? */
static cadre_status probe(struct cadre_cuda *cuda, const struct cudaDeviceProp *gpu,
                          struct cadre_error *err)
{
    float *memory = gpu->major >= 8 ? cadre_cuda_scratch(cuda, 64) : NULL;
    if (memory &&
        cadre_cuda_cast(CADRE_F64, memory + 8, CADRE_F32, memory, 1,
                        cadre_cuda_current(cuda)) == CADRE_OK &&
        cudaStreamSynchronize(cadre_cuda_current(cuda)) == cudaSuccess)
        return CADRE_OK;
    cudaGetLastError();
    if (gpu->major >= 8 && !memory)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          REFUSED "the GPU (%s) has no memory left", gpu->name);
    return cadre_fail(err, CADRE_E_UNSUPPORTED,
                      REFUSED "this build has no kernels for the GPU (%s, compute "
                              "capability %d.%d): expected 8.0 or newer, or configure "
                              "with NVCC_GENCODE for it",
                      gpu->name, gpu->major, gpu->minor);
}

/* ---- opening ---- */

void cadre_cuda_op_destroy(struct cadre_device *device)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    cadre_cuda_use(cuda);
    if (cuda->streams[0].stream)
        cadre_cuda_op_synchronize(device);
    cadre_cuda_graphs_close(cuda);
    cadre_cuda_gemms_close(cuda);
    cadre_cuda_streams_close(cuda);
    if (cuda->root == cuda)
        cadre_cuda_events_destroy(cuda->events);
    free(cuda);
}

static cadre_status finish_open(struct cadre_cuda *cuda, struct cadre_error *err)
{
    struct cudaDeviceProp gpu;
    cadre_status rc;
    cudaError_t code = cudaSetDevice(cuda->index);
    if (code == cudaSuccess)
        code = cudaGetDeviceProperties(&gpu, cuda->index);
    if (code != cudaSuccess) {
        cudaGetLastError();
        return cadre_fail(err, CADRE_E_UNSUPPORTED, REFUSED "GPU %d: %s (%s)",
                          cuda->index, cudaGetErrorName(code),
                          cudaGetErrorString(code));
    }
    if (cadre_cuda_events_create(&cuda->events) != CADRE_OK ||
        cadre_cuda_streams_open(cuda) != CADRE_OK)
        return cadre_fail(err, CADRE_E_UNSUPPORTED,
                          REFUSED "GPU %d (%s) gives no stream", cuda->index, gpu.name);
    if ((rc = probe(cuda, &gpu, err)) != CADRE_OK)
        return rc;
    return cadre_cuda_gemms_open(cuda, gpu.name, err);
}

cadre_status cadre_cuda_open(const struct cadre_device_config *config,
                             struct cadre_device **out, struct cadre_error *err)
{
    int count = 0;
    CADRE_TRY(cadre_cuda_find(&count, err));
    struct cadre_cuda *cuda = cadre_calloc(1, sizeof *cuda);
    if (!cuda)
        return cadre_no_memory(err, "the CUDA device");
    cuda->base.ops = &cadre_cuda_ops;
    cuda->root = cuda;
    cuda->index = (config->index % count + count) % count;
    cuda->exact = config->exact;
    cuda->no_fused_epilogue = config->no_fused_epilogue;
    cadre_status rc = finish_open(cuda, err);
    if (rc != CADRE_OK)
        cadre_cuda_op_destroy(&cuda->base);
    else
        *out = &cuda->base;
    return rc;
}

cadre_status cadre_cuda_op_worker_stream_open(struct cadre_device *device,
                                              struct cadre_device **out)
{
    const struct cadre_cuda *root = cadre_cuda_of(device)->root;
    struct cadre_cuda *worker = cadre_calloc(1, sizeof *worker);
    if (!worker) {
        cadre_log(CADRE_LOG_ERROR, "device", "cuda: no memory for a worker stream");
        return CADRE_E_RESOURCE;
    }
    worker->base.ops = &cadre_cuda_ops;
    worker->root = cadre_cuda_of(device)->root;
    worker->index = root->index;
    worker->exact = root->exact;
    worker->events = root->events;
    cadre_status rc = cadre_cuda_use(worker);
    if (rc == CADRE_OK)
        rc = cadre_cuda_streams_open(worker);
    if (rc != CADRE_OK)
        free(worker);
    else
        *out = &worker->base;
    return rc;
}

void cadre_cuda_op_worker_stream_close(struct cadre_device *worker)
{
    if (worker)
        cadre_cuda_op_destroy(worker);
}

/* ---- doctor ---- */

cadre_status cadre_cuda_identify(int index, struct cadre_device_identity *out)
{
    struct cudaDeviceProp gpu;
    int count = 0;
    CADRE_TRY(cadre_cuda_find(&count, NULL));
    index = (index % count + count) % count;
    if (cudaGetDeviceProperties(&gpu, index) != cudaSuccess ||
        cudaDeviceGetPCIBusId(out->pci, sizeof out->pci, index) != cudaSuccess) {
        cudaGetLastError();
        out->pci[0] = '\0';
        return CADRE_E_UNSUPPORTED;
    }
    snprintf(out->name, sizeof out->name, "%.95s", gpu.name);
    return CADRE_OK;
}

void cadre_cuda_describe(struct cadre_text *out)
{
    struct cadre_error err = {0};
    int driver = 0, runtime = 0, count = 0;
    size_t lt = cublasLtGetVersion();
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (driver > 0) /* else the line below says that there is none */
        cadre_text_printf(out, "driver for CUDA %d.%d, ", major(driver), minor(driver));
    cadre_text_printf(out, "runtime %d.%d, cublasLt %zu.%zu.%zu\n", major(runtime),
                      minor(runtime), lt / 10000, lt / 100 % 100, lt % 100);
    if (cadre_cuda_find(&count, &err) != CADRE_OK) {
        cadre_text_printf(out, "no: %s\n", err.text);
        return;
    }
    for (int i = 0; i < count; i++) {
        struct cudaDeviceProp gpu;
        if (cudaGetDeviceProperties(&gpu, i) != cudaSuccess) {
            cadre_text_printf(out, "no: GPU %d does not answer\n", i);
            cudaGetLastError();
            continue;
        }
        cadre_text_printf(out,
                          "%sGPU %d: %s, %.1f GiB, compute capability %d.%d, %d "
                          "multiprocessors\n",
                          gpu.major < 8 ? "no: kernels need 8.0 or newer: " : "", i,
                          gpu.name, (double)gpu.totalGlobalMem / 1073741824.0,
                          gpu.major, gpu.minor, gpu.multiProcessorCount);
    }
}

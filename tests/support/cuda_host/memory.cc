/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory, copies and the device's description. Blocks are allocated from one
 * region that is inaccessible while no device work runs. Blocks are separated by gaps;
 * gaps and freed blocks are poisoned for AddressSanitizer. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <time.h>
#include <vector>

#include "tests/support/cuda_host/runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(ptr, bytes) ((void)(ptr), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(ptr, bytes) ((void)(ptr), (void)(bytes))
#endif

using cadre_host::fail;
using cadre_host::locked;
using cadre_host::open_memory;

namespace
{

constexpr size_t region_bytes = (size_t)2 << 30, gap = 256;

/* Larger blocks (the workspace of cublasLt) are not filled: untouched pages cost
 * nothing when access to the region changes. */
constexpr size_t most_filled = (size_t)16 << 20;

struct region {
    std::recursive_mutex lock;
    int held = 0; /* how often the thread that holds the lock took it */
    char *base = nullptr;
    int opened = 0;
    std::map<char *, size_t> used, free; /* by address; free ones are never adjacent */
    std::map<char *, size_t> pinned;
    std::map<char *, int> device; /* of used ones */
};

region &all()
{
    static region *r = new region; /* lives as long as any thread */
    return *r;
}

bool prepare(region &r)
{
    if (r.base)
        return true;
    void *base = mmap(nullptr, region_bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    r.base = (char *)base;
    r.free[r.base] = region_bytes;
    return true;
}

void give_back(region &r, char *at, size_t bytes)
{
    auto next = r.free.lower_bound(at);
    if (next != r.free.end() && at + bytes == next->first) {
        bytes += next->second;
        next = r.free.erase(next);
    }
    if (next != r.free.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == at) {
            before->second += bytes;
            return;
        }
    }
    r.free[at] = bytes;
}

bool within(const std::map<char *, size_t> &blocks, const void *ptr, size_t bytes)
{
    char *p = (char *)ptr;
    auto after = blocks.upper_bound(p);
    if (after == blocks.begin())
        return false;
    auto block = std::prev(after);
    size_t at = (size_t)(p - block->first);
    return at < (block->second ? block->second : 1) && bytes <= block->second - at;
}

bool in_region(const void *ptr)
{
    const region &r = all();
    return r.base && (char *)ptr >= r.base && (char *)ptr < r.base + region_bytes;
}

size_t padded(size_t bytes)
{
    return (bytes + gap - 1) / gap * gap + gap;
}

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

} // namespace

locked::locked()
{
    all().lock.lock();
    all().held++;
}

locked::~locked()
{
    all().held--;
    all().lock.unlock();
}

void cadre_host::relax(unsigned turn)
{
    region &r = all();
    const int held = r.held;
    const timespec moment = {0, 20000L << (turn < 6 ? turn : 6)};
    r.held = 0;
    for (int i = 0; i < held; i++)
        r.lock.unlock();
    nanosleep(&moment, nullptr);
    for (int i = 0; i < held; i++)
        r.lock.lock();
    r.held = held;
}

open_memory::open_memory()
{
    region &r = all();
    if (r.opened++ == 0 && r.base)
        mprotect(r.base, region_bytes, PROT_READ | PROT_WRITE);
}

open_memory::~open_memory()
{
    region &r = all();
    if (--r.opened == 0 && r.base)
        mprotect(r.base, region_bytes, PROT_NONE);
}

cudaError_t cadre_host::fail(cudaError_t error)
{
    return last_error = error;
}

bool cadre_host::is_device(const void *ptr, size_t bytes)
{
    locked hold;
    return within(all().used, ptr, bytes);
}

bool cadre_host::is_reachable(const void *ptr, size_t bytes)
{
    locked hold;
    return within(all().used, ptr, bytes) || within(all().pinned, ptr, bytes);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
    locked hold;
    region &r = all();
    if (cadre_host::any_capture())
        return fail(cudaErrorStreamCaptureUnsupported);
    if (!prepare(r) || bytes > region_bytes)
        return fail(cudaErrorMemoryAllocation);
    size_t need = padded(bytes);
    for (auto &block : r.free)
        if (block.second >= need) {
            char *at = block.first;
            size_t rest = block.second - need;
            r.free.erase(at);
            if (rest)
                r.free[at + need] = rest;
            r.used[at] = bytes;
            r.device[at] = current_device;
            open_memory open;
            ASAN_UNPOISON_MEMORY_REGION(at, bytes);
            memset(at, 0xff, bytes <= most_filled ? bytes : 0);
            ASAN_POISON_MEMORY_REGION(at + bytes, need - bytes);
            *ptr = at;
            return cudaSuccess;
        }
    return fail(cudaErrorMemoryAllocation);
}

/* Under the lock. */
static void release(region &r, void *ptr)
{
    auto block = r.used.find((char *)ptr);
    size_t bytes = padded(block->second);
    {
        open_memory open;
        memset(block->first, 0xff, block->second <= most_filled ? block->second : 0);
    }
    ASAN_POISON_MEMORY_REGION(block->first, bytes);
    r.used.erase(block);
    r.device.erase((char *)ptr);
    give_back(r, (char *)ptr, bytes);
}

/* Like CUDA's, it waits for the whole device, but not for others. */
cudaError_t cudaFree(void *ptr)
{
    locked hold;
    region &r = all();
    if (!ptr)
        return cudaSuccess;
    if (!r.used.count((char *)ptr))
        return fail(cudaErrorInvalidValue);
    if (cadre_host::any_capture())
        return fail(cudaErrorStreamCaptureUnsupported);
    cadre_host::run_all(r.device[(char *)ptr]);
    release(r, ptr);
    return cudaSuccess;
}

/* From the device's pool: no wait, and freed in stream order. */
cudaError_t cudaMallocAsync(void **ptr, size_t bytes, cudaStream_t stream)
{
    return cudaMalloc(ptr, bytes);
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream)
{
    locked hold;
    if (!ptr || !all().used.count((char *)ptr))
        return fail(cudaErrorInvalidValue);
    cadre_host_enqueue(stream, [ptr] {
        locked inner;
        release(all(), ptr);
    });
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
    locked hold;
    void *at = nullptr;
    if (cadre_host::any_capture())
        return fail(cudaErrorStreamCaptureUnsupported);
    if (posix_memalign(&at, 4096, bytes ? bytes : 1) != 0)
        return fail(cudaErrorMemoryAllocation);
    memset(at, 0xff, bytes);
    all().pinned[(char *)at] = bytes;
    *ptr = at;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *ptr)
{
    locked hold;
    if (!ptr)
        return cudaSuccess;
    if (!all().pinned.count((char *)ptr))
        return fail(cudaErrorInvalidValue);
    cadre_host::run_all(current_device);
    all().pinned.erase((char *)ptr);
    free(ptr);
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *ptr)
{
    locked hold;
    memset(out, 0, sizeof *out);
    if (cadre_host::is_device(ptr, 0))
        out->type = cudaMemoryTypeDevice;
    else if (within(all().pinned, ptr, 0))
        out->type = cudaMemoryTypeHost;
    else
        out->type = cudaMemoryTypeUnregistered;
    return cudaSuccess;
}

/* Do the pointers fit the kind? */
static bool fits(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind)
{
    bool to = cadre_host::is_device(dst, bytes);
    bool from = cadre_host::is_device(src, bytes);
    if ((!to && in_region(dst)) || (!from && in_region(src)))
        return false;
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !to && !from;
    case cudaMemcpyHostToDevice:
        return to && !from;
    case cudaMemcpyDeviceToHost:
        return !to && from;
    case cudaMemcpyDeviceToDevice:
        return to && from;
    default:
        return true;
    }
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream)
{
    locked hold;
    if (bytes == 0)
        return cudaSuccess;
    if (!fits(dst, src, bytes, kind))
        return fail(cudaErrorInvalidValue);
    auto plain = [](const void *p, size_t n) {
        return !cadre_host::is_device(p, n) && !within(all().pinned, p, n);
    };
    bool waits = plain(dst, bytes), staged = plain(src, bytes);
    if ((waits || staged) && cadre_host::capturing(stream))
        return fail(cudaErrorStreamCaptureUnsupported);
    if (staged) { /* pageable memory is read before the call returns */
        std::vector<char> kept((const char *)src, (const char *)src + bytes);
        cadre_host_enqueue(stream,
                           [dst, kept] { memcpy(dst, kept.data(), kept.size()); });
    } else
        cadre_host_enqueue(stream, [dst, src, bytes] { memmove(dst, src, bytes); });
    return waits ? cudaStreamSynchronize(stream) : cudaSuccess;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind)
{
    cudaError_t error = cudaMemcpyAsync(dst, src, bytes, kind, nullptr);
    return error ? error : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream)
{
    if (bytes == 0)
        return cudaSuccess;
    if (!cadre_host::is_device(dst, bytes))
        return fail(cudaErrorInvalidValue);
    cadre_host_enqueue(stream, [dst, value, bytes] { memset(dst, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    locked hold;
    *total = *available = region_bytes;
    for (const auto &block : all().used)
        *available -= padded(block.second);
    return cudaSuccess;
}

/* ---- the device ---- */

/* An integer of the environment, for tests of failures. */
static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = setting("CADRE_STANDIN_DRIVER", CUDART_VERSION);
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    int driver;
    cudaDriverGetVersion(&driver);
    *count = 0;
    if (driver < CUDART_VERSION)
        return fail(cudaErrorInsufficientDriver);
    *count = setting("CADRE_STANDIN_DEVICES", 1);
    return *count > 0 ? cudaSuccess : fail(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    int count;
    cudaGetDeviceCount(&count);
    if (device < 0 || device >= count)
        return fail(cudaErrorInvalidDevice);
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int device)
{
    memset(prop, 0, sizeof *prop);
    strcpy(prop->name, "stand-in on the host");
    prop->totalGlobalMem = region_bytes;
    prop->sharedMemPerBlockOptin = 227 * 1024;
    prop->major = setting("CADRE_STANDIN_MAJOR", 9);
    prop->multiProcessorCount = 4;
    return cudaSuccess;
}

/* As the stand-in of NVML numbers its GPUs. */
cudaError_t cudaDeviceGetPCIBusId(char *address, int bytes, int device)
{
    snprintf(address, (size_t)bytes, "0000:%02x:00.0", device + 1);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device)
{
    switch (attr) {
    case cudaDevAttrMultiProcessorCount:
        *value = 4;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = setting("CADRE_STANDIN_MAJOR", 9);
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 227 * 1024;
        return cudaSuccess;
    }
    return fail(cudaErrorInvalidValue);
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attr, int value)
{
    return value <= 227 * 1024 ? cudaSuccess : fail(cudaErrorInvalidValue);
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
     "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
};

const char *cudaGetErrorName(cudaError_t error)
{
    for (const auto &known : errors)
        if (known.error == error)
            return known.name;
    return "unknown error";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (const auto &known : errors)
        if (known.error == error)
            return known.text;
    return "unknown error";
}

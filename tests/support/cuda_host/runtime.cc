/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, graphs and errors of the stand-in; memory is in memory.cc. One lock
 * holds everything: correctness is what is wanted here, not speed. */
#include "tests/support/cuda_host/runtime.h"

#include <cstring>
#include <deque>
#include <memory>
#include <time.h>
#include <utility>
#include <vector>

using cadre_host::capturing;
using cadre_host::fail;
using cadre_host::locked;
using cadre_host::open_memory;

/* What an event stands for once recorded; a later recording makes another one. */
struct mark {
    cudaStream_t stream;
    bool done = false;
    double at = 0; /* ms */
};

struct item {
    std::function<void()> work; /* or */
    std::shared_ptr<mark> record, wait;
};

struct CUstream_st {
    std::deque<item> queue;
    CUgraph_st *capture = nullptr;
    bool running = false;
};
struct CUevent_st {
    std::shared_ptr<mark> now; /* none: never recorded */
};
struct CUgraph_st {
    std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
    std::vector<std::function<void()>> work;
};

namespace
{

/* Every stream, for those who wait for all. */
struct all_streams {
    std::vector<cudaStream_t> list;
    CUstream_st legacy;
};
all_streams &streams()
{
    static all_streams *all = new all_streams; /* lives as long as any thread */
    return *all;
}

cudaStream_t real(cudaStream_t stream)
{
    return stream ? stream : &streams().legacy;
}

double now_ms()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Run the stream until it is empty, or until `until` has happened. */
void run(cudaStream_t stream, const mark *until = nullptr)
{
    open_memory open;
    while (!stream->queue.empty() && !(until && until->done)) {
        item next = std::move(stream->queue.front());
        stream->queue.pop_front();
        if (next.wait && !next.wait->done)
            run(next.wait->stream, next.wait.get());
        if (next.work)
            next.work();
        if (next.record) {
            next.record->done = true;
            next.record->at = now_ms();
        }
    }
}

void push(cudaStream_t stream, item next)
{
    if (stream->capture)
        stream->capture->work.push_back(std::move(next.work));
    else
        stream->queue.push_back(std::move(next));
}

} // namespace

void cadre_host::run_all()
{
    run(&streams().legacy);
    for (cudaStream_t stream : streams().list)
        run(stream);
}

bool cadre_host::any_capture()
{
    for (cudaStream_t stream : streams().list)
        if (stream->capture)
            return true;
    return false;
}

bool cadre_host::capturing(cudaStream_t stream)
{
    return real(stream)->capture != nullptr;
}

void cadre_host_enqueue(cudaStream_t stream, std::function<void()> work)
{
    locked hold;
    push(real(stream), {std::move(work), nullptr, nullptr});
}

cudaError_t cudaDeviceSynchronize(void)
{
    locked hold;
    if (cadre_host::any_capture())
        return fail(cudaErrorStreamCaptureUnsupported);
    cadre_host::run_all();
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    locked hold;
    *stream = new CUstream_st;
    streams().list.push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    locked hold;
    auto &list = streams().list;
    for (size_t i = 0; i < list.size(); i++)
        if (list[i] == stream) {
            run(stream);
            delete stream->capture;
            list.erase(list.begin() + (long)i);
            delete stream;
            return cudaSuccess;
        }
    return fail(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    locked hold;
    if (capturing(stream))
        return fail(cudaErrorStreamCaptureUnsupported);
    run(real(stream));
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    locked hold;
    if (!event)
        return fail(cudaErrorInvalidResourceHandle);
    if (capturing(stream))
        return fail(cudaErrorStreamCaptureIsolation);
    if (event->now && !event->now->done)
        push(real(stream), {nullptr, nullptr, event->now});
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    locked hold;
    if (!stream || stream->capture)
        return fail(cudaErrorStreamCaptureUnsupported);
    stream->capture = new CUgraph_st;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    locked hold;
    if (!stream || !stream->capture)
        return fail(cudaErrorInvalidValue);
    *graph = std::exchange(stream->capture, nullptr);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    locked hold;
    *status =
        capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *data)
{
    if (!fn)
        return fail(cudaErrorInvalidValue);
    cadre_host_enqueue(stream, [fn, data] { fn(data); });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = new CUevent_st;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    locked hold;
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    locked hold;
    if (!event)
        return fail(cudaErrorInvalidResourceHandle);
    if (capturing(stream))
        return fail(cudaErrorStreamCaptureUnsupported);
    event->now = std::make_shared<mark>();
    event->now->stream = real(stream);
    push(real(stream), {nullptr, event->now, nullptr});
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    locked hold;
    return event->now && !event->now->done ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    locked hold;
    if (!event)
        return fail(cudaErrorInvalidResourceHandle);
    if (event->now && !event->now->done)
        run(event->now->stream, event->now.get());
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    locked hold;
    if (!begin->now || !end->now || !begin->now->done || !end->now->done)
        return fail(cudaErrorNotReady);
    *ms = (float)(end->now->at - begin->now->at);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    *exec = new CUgraphExec_st{graph->work};
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    locked hold;
    for (const auto &work : exec->work)
        push(real(stream), {work, nullptr, nullptr});
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

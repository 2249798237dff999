/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, graphs and errors of the stand-in; memory is in memory.cc. One lock
 * guards everything: the aim is correctness, not speed. */
#include "tests/support/cuda_host/runtime.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <time.h>
#include <utility>
#include <vector>

using cadre_host::capturing;
using cadre_host::fail;
using cadre_host::locked;
using cadre_host::open_memory;

/* The state of a recorded event; a later recording makes another one. */
struct mark {
    cudaStream_t stream;
    bool done = false, asked = false;
    double at = 0; /* ms */
};

/* One of them. */
struct item {
    std::function<void()> work;
    std::function<bool()> steps;
    std::shared_ptr<mark> record, wait;
};

struct CUstream_st {
    std::deque<item> queue;
    CUgraph_st *capture = nullptr;
    int device = 0;
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
    std::map<int, CUstream_st> legacy; /* by device */
};
all_streams &streams()
{
    static all_streams *all = new all_streams; /* lives as long as any thread */
    return *all;
}

cudaStream_t real(cudaStream_t stream)
{
    int device = 0;
    if (stream)
        return stream;
    cudaGetDevice(&device);
    CUstream_st *legacy = &streams().legacy[device];
    legacy->device = device;
    return legacy;
}

double &pretended_ms()
{
    static double ms = 0;
    return ms;
}

double now_ms()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6 + pretended_ms();
}

/* Run the stream until it is empty or `until` has happened, and return true; or until
 * its work has to wait for another thread. */
bool advance(cudaStream_t stream, const mark *until)
{
    std::unique_ptr<open_memory> open; /* while there is work for it */
    while (!stream->queue.empty() && !(until && until->done)) {
        item &first = stream->queue.front();
        if (first.wait && !first.wait->done) {
            std::shared_ptr<mark> wait = first.wait;
            if (!advance(wait->stream, wait.get()))
                return false;
        }
        if (first.steps && !first.steps())
            return false;
        item next = std::move(first);
        stream->queue.pop_front();
        if (next.work && !open)
            open = std::make_unique<open_memory>();
        if (next.work)
            next.work();
        if (next.record) {
            next.record->done = true;
            next.record->at = now_ms();
        }
    }
    return true;
}

std::shared_ptr<mark> record(cudaStream_t stream)
{
    auto end = std::make_shared<mark>();
    end->stream = stream;
    stream->queue.push_back({nullptr, nullptr, end, nullptr});
    return end;
}

/* Wait until all of them have happened; others get the lock meanwhile. */
void wait_for(const std::vector<std::shared_ptr<mark>> &ends)
{
    for (unsigned turn = 0;; turn++) {
        bool all = true;
        for (const auto &end : ends)
            if (!end->done && !advance(end->stream, end.get()))
                all = false;
        if (all)
            return;
        cadre_host::relax(turn);
    }
}

void run(cudaStream_t stream)
{
    if (!stream->queue.empty())
        wait_for({record(stream)});
}

void push(cudaStream_t stream, item next)
{
    if (stream->capture)
        stream->capture->work.push_back(std::move(next.work));
    else
        stream->queue.push_back(std::move(next));
}

} // namespace

void cadre_host::take_longer(double ms)
{
    pretended_ms() += ms;
}

void cadre_host::run_all(int device)
{
    std::vector<std::shared_ptr<mark>> ends;
    for (auto &legacy : streams().legacy)
        if (legacy.first == device)
            ends.push_back(record(&legacy.second));
    for (cudaStream_t stream : streams().list)
        if (stream->device == device)
            ends.push_back(record(stream));
    wait_for(ends);
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
    push(real(stream), {std::move(work), nullptr, nullptr, nullptr});
}

void cadre_host::enqueue_steps(cudaStream_t stream, std::function<bool()> steps)
{
    locked hold;
    push(real(stream), {nullptr, std::move(steps), nullptr, nullptr});
}

void cadre_host::advance_to(cudaEvent_t event)
{
    locked hold;
    std::shared_ptr<mark> now = event->now;
    if (now && !now->done)
        advance(now->stream, now.get());
}

cudaError_t cudaDeviceSynchronize(void)
{
    locked hold;
    int device;
    if (cadre_host::any_capture())
        return fail(cudaErrorStreamCaptureUnsupported);
    cudaGetDevice(&device);
    cadre_host::run_all(device);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    locked hold;
    *stream = new CUstream_st;
    cudaGetDevice(&(*stream)->device);
    streams().list.push_back(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    locked hold;
    auto &list = streams().list;
    if (std::find(list.begin(), list.end(), stream) == list.end())
        return fail(cudaErrorInvalidResourceHandle);
    run(stream);
    list.erase(std::find(list.begin(), list.end(), stream));
    delete stream->capture;
    delete stream;
    return cudaSuccess;
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
        push(real(stream), {nullptr, nullptr, nullptr, event->now});
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
    event->now = record(real(stream));
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    locked hold;
    std::shared_ptr<mark> now = event->now;
    if (!now || now->done)
        return cudaSuccess;
    if (now->asked)
        advance(now->stream, now.get());
    now->asked = true;
    return now->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    locked hold;
    if (!event)
        return fail(cudaErrorInvalidResourceHandle);
    if (event->now)
        wait_for({event->now});
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
        push(real(stream), {work, nullptr, nullptr, nullptr});
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

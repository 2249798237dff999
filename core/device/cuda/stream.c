/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, the scratch of each, and events: a ring of CUDA's behind ids that only grow.
 * Events older than the ring have happened, because a slot is reused only after its
 * event has. */
#include "core/base/memory.h"
#include "core/device/cuda/cuda.h"

#include <stdlib.h>

/* ---- streams ---- */

static cadre_status make_stream(struct cadre_cuda_stream *slot)
{
    return cadre_cuda_check(
        cudaStreamCreateWithFlags(&slot->stream, cudaStreamNonBlocking),
        "cudaStreamCreateWithFlags");
}

static void drop_stream(struct cadre_cuda_stream *slot)
{
    if (!slot->stream)
        return;
    cadre_cuda_check(cudaStreamSynchronize(slot->stream), "cudaStreamSynchronize");
    cadre_cuda_check(cudaStreamDestroy(slot->stream), "cudaStreamDestroy");
    cadre_cuda_check(cudaFree(slot->scratch), "cudaFree");
    *slot = (struct cadre_cuda_stream){0};
}

cadre_status cadre_cuda_streams_open(struct cadre_cuda *cuda)
{
    return make_stream(&cuda->streams[0]);
}

void cadre_cuda_streams_close(struct cadre_cuda *cuda)
{
    for (size_t i = 0; i < CADRE_CUDA_STREAMS; i++)
        drop_stream(&cuda->streams[i]);
    for (size_t i = 0; i < cuda->n_retired; i++)
        cadre_cuda_check(cudaFree(cuda->retired[i]), "cudaFree");
    free(cuda->retired);
    cuda->retired = NULL;
    cuda->n_retired = 0;
}

cadre_status cadre_cuda_op_stream_create(struct cadre_device *device,
                                         cadre_stream_id *out)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    cadre_status rc = cadre_cuda_use(cuda);
    if (rc != CADRE_OK)
        return rc;
    for (size_t i = 1; i < CADRE_CUDA_STREAMS; i++)
        if (!cuda->streams[i].stream) {
            rc = make_stream(&cuda->streams[i]);
            if (rc == CADRE_OK)
                *out = i;
            return rc;
        }
    cadre_log(CADRE_LOG_ERROR, "device", "cuda: more than %d streams",
              CADRE_CUDA_STREAMS - 1);
    return CADRE_E_RESOURCE;
}

void cadre_cuda_op_stream_destroy(struct cadre_device *device, cadre_stream_id id)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    if (id == 0 || id >= CADRE_CUDA_STREAMS || cadre_cuda_use(cuda) != CADRE_OK)
        return;
    if (cuda->current == id)
        cuda->current = 0;
    drop_stream(&cuda->streams[id]);
}

cadre_status cadre_cuda_op_set_stream(struct cadre_device *device, cadre_stream_id id)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    if (id >= CADRE_CUDA_STREAMS || !cuda->streams[id].stream) {
        cadre_log(CADRE_LOG_ERROR, "device", "cuda: there is no stream %llu",
                  (unsigned long long)id);
        return CADRE_E_INVALID;
    }
    cuda->current = id;
    return CADRE_OK;
}

void *cadre_cuda_op_native_stream(struct cadre_device *device)
{
    return cadre_cuda_current(cadre_cuda_of(device));
}

/* Only the streams of this device or worker stream: others on the same GPU continue. */
cadre_status cadre_cuda_op_synchronize(struct cadre_device *device)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    cadre_status rc = cadre_cuda_use(cuda);
    for (size_t i = 0; i < CADRE_CUDA_STREAMS && rc == CADRE_OK; i++)
        if (cuda->streams[i].stream)
            rc = cadre_cuda_check(cudaStreamSynchronize(cuda->streams[i].stream),
                                  "cudaStreamSynchronize");
    return rc;
}

/* ---- scratch ---- */

bool cadre_cuda_is_recording(const struct cadre_cuda *cuda)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(cadre_cuda_current(cuda), &status) != cudaSuccess)
        cudaGetLastError();
    return status != cudaStreamCaptureStatusNone;
}

/* Keep the slot's memory until the device is closed: graphs may use it, and cudaFree
 * would wait for the whole device, including transfers that other ranks start only
 * after this one continues. */
static cadre_status retire(struct cadre_cuda *cuda, struct cadre_cuda_stream *slot)
{
    void *old = slot->scratch;
    slot->scratch = NULL;
    slot->scratch_bytes = 0;
    if (!old)
        return CADRE_OK;
    void **grown = cadre_realloc(cuda->retired, cuda->n_retired + 1, sizeof *grown);
    if (!grown) {
        cadre_log(CADRE_LOG_ERROR, "device", "cuda: no memory to note scratch");
        return CADRE_E_RESOURCE;
    }
    cuda->retired = grown;
    grown[cuda->n_retired++] = old;
    return CADRE_OK;
}

void *cadre_cuda_scratch(struct cadre_cuda *cuda, size_t bytes)
{
    struct cadre_cuda_stream *slot = &cuda->streams[cuda->current];
    if (slot->scratch && bytes <= slot->scratch_bytes)
        return slot->scratch;
    if (cadre_cuda_is_recording(cuda)) {
        cadre_log(CADRE_LOG_ERROR, "device",
                  "cuda: a recorded step needs %zu bytes of scratch, more than the "
                  "step before it",
                  bytes);
        return NULL;
    }
    /* Growth by half its size keeps the number of blocks small. */
    size_t grown = slot->scratch_bytes + slot->scratch_bytes / 2;
    bytes = bytes > grown ? bytes : grown;
    bytes = (bytes + 65536) / 65536 * 65536; /* never none */
    if (retire(cuda, slot) != CADRE_OK)
        return NULL;
    if (cadre_cuda_check(cudaMalloc(&slot->scratch, bytes), "scratch") != CADRE_OK)
        return slot->scratch = NULL;
    slot->scratch_bytes = bytes;
    return slot->scratch;
}

/* ---- events ---- */

cadre_status cadre_cuda_events_create(struct cadre_cuda_events **out)
{
    struct cadre_cuda_events *events = cadre_calloc(1, sizeof *events);
    if (!events)
        return CADRE_E_RESOURCE;
    pthread_mutex_init(&events->lock, NULL);
    *out = events;
    return CADRE_OK;
}

void cadre_cuda_events_destroy(struct cadre_cuda_events *events)
{
    if (!events)
        return;
    for (size_t i = 0; i < CADRE_CUDA_RING; i++)
        if (events->ring[i].event)
            cadre_cuda_check(cudaEventDestroy(events->ring[i].event),
                             "cudaEventDestroy");
    pthread_mutex_destroy(&events->lock);
    free(events);
}

/* Under the lock: the next id whose slot no thread waits for; the slot's old event has
 * happened on return. The wait is without the lock: another thread may have to complete
 * what it comes after. */
static cadre_status take_slot(struct cadre_cuda_events *events,
                              struct cadre_cuda_slot **out, uint64_t *id)
{
    for (;;) {
        *id = ++events->next;
        struct cadre_cuda_slot *slot = *out = &events->ring[*id % CADRE_CUDA_RING];
        if (slot->pins > 0)
            continue;
        if (!slot->event)
            return cadre_cuda_check(
                cudaEventCreateWithFlags(&slot->event, cudaEventDisableTiming),
                "cudaEventCreateWithFlags");
        cudaError_t code = cudaEventQuery(slot->event);
        if (code == cudaSuccess)
            return CADRE_OK;
        if (code != cudaErrorNotReady)
            return cadre_cuda_check(code, "cudaEventQuery");
        cudaGetLastError();
        slot->pins++;
        pthread_mutex_unlock(&events->lock);
        code = cudaEventSynchronize(slot->event);
        pthread_mutex_lock(&events->lock);
        slot->pins--;
        if (code != cudaSuccess)
            return cadre_cuda_check(code, "cudaEventSynchronize");
        if (slot->pins == 0 && slot->id + CADRE_CUDA_RING <= *id)
            return CADRE_OK;
    }
}

cadre_status cadre_cuda_op_event_record(struct cadre_device *device,
                                        cadre_device_event *event)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    struct cadre_cuda_events *events = cuda->events;
    struct cadre_cuda_slot *slot;
    uint64_t id;
    CADRE_TRY(cadre_cuda_use(cuda));
    pthread_mutex_lock(&events->lock);
    cadre_status rc = take_slot(events, &slot, &id);
    if (rc == CADRE_OK)
        rc = cadre_cuda_check(cudaEventRecord(slot->event, cadre_cuda_current(cuda)),
                              "cudaEventRecord");
    if (rc == CADRE_OK) {
        slot->id = id;
        *event = CADRE_DEVICE_EVENT | id;
    }
    pthread_mutex_unlock(&events->lock);
    return rc;
}

/* Under the lock: the event's slot, NULL where it has happened and was replaced. */
static struct cadre_cuda_slot *find_slot(struct cadre_cuda_events *events,
                                         cadre_device_event event)
{
    uint64_t id = event & ~CADRE_DEVICE_EVENT;
    struct cadre_cuda_slot *slot = &events->ring[id % CADRE_CUDA_RING];
    return id != 0 && slot->id == id ? slot : NULL;
}

/* Under the lock while CUDA uses the event, so that its slot is not reused. */
cadre_status cadre_cuda_op_event_wait(struct cadre_device *device,
                                      cadre_device_event event)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    cadre_status rc = cadre_cuda_use(cuda);
    if (event == 0 || rc != CADRE_OK)
        return rc;
    pthread_mutex_lock(&cuda->events->lock);
    const struct cadre_cuda_slot *slot = find_slot(cuda->events, event);
    if (slot)
        rc = cadre_cuda_check(
            cudaStreamWaitEvent(cadre_cuda_current(cuda), slot->event, 0),
            "cudaStreamWaitEvent");
    pthread_mutex_unlock(&cuda->events->lock);
    return rc;
}

/* Not under the lock: another thread may have to record what this event waits for. */
cadre_status cadre_cuda_op_event_sync(struct cadre_device *device,
                                      cadre_device_event event)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    cadre_status rc = cadre_cuda_use(cuda);
    if (event == 0 || rc != CADRE_OK)
        return rc;
    pthread_mutex_lock(&cuda->events->lock);
    struct cadre_cuda_slot *slot = find_slot(cuda->events, event);
    if (slot)
        slot->pins++;
    pthread_mutex_unlock(&cuda->events->lock);
    if (!slot)
        return CADRE_OK;
    rc = cadre_cuda_check(cudaEventSynchronize(slot->event), "cudaEventSynchronize");
    pthread_mutex_lock(&cuda->events->lock);
    slot->pins--;
    pthread_mutex_unlock(&cuda->events->lock);
    return rc;
}

/* Under the lock, so that the slot is not reused meanwhile. */
cadre_status cadre_cuda_op_event_query(struct cadre_device *device,
                                       cadre_device_event event, bool *happened)
{
    struct cadre_cuda *cuda = cadre_cuda_of(device);
    CADRE_TRY(cadre_cuda_use(cuda));
    pthread_mutex_lock(&cuda->events->lock);
    const struct cadre_cuda_slot *slot = event ? find_slot(cuda->events, event) : NULL;
    cudaError_t code = slot ? cudaEventQuery(slot->event) : cudaSuccess;
    pthread_mutex_unlock(&cuda->events->lock);
    *happened = code == cudaSuccess;
    if (code != cudaErrorNotReady)
        return cadre_cuda_check(code, "cudaEventQuery");
    cudaGetLastError();
    return CADRE_OK;
}

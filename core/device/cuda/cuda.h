/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a CUDA device, between the C files of the module. The entries of the
 * table are declared here as cadre_cuda_op_<entry>; their contract is
 * core/device/device.h. */
#ifndef CADRE_DEVICE_CUDA_CUDA_H
#define CADRE_DEVICE_CUDA_CUDA_H

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "core/base/log.h"
#include "core/device/device.h"

struct cadre_cuda_gemms; /* gemm.h */

#define CADRE_CUDA_STREAMS 32
#define CADRE_CUDA_RING 4096 /* distinct events; older ones have happened */
#define CADRE_CUDA_WORKSPACE ((size_t)32 << 20)

/* A stream and memory for the kernels on it; slot 0 is the device's own. */
struct cadre_cuda_stream {
    cudaStream_t stream;
    void *scratch;
    size_t scratch_bytes;
};

struct cadre_cuda_slot {
    cudaEvent_t event;
    uint64_t id; /* 0: never recorded */
    int pins; /* threads of the host that wait for it */
};

/* Shared by a device and its worker streams. */
struct cadre_cuda_events {
    pthread_mutex_t lock;
    uint64_t next;
    struct cadre_cuda_slot ring[CADRE_CUDA_RING];
};

struct cadre_cuda_graph {
    uint64_t key;
    cudaGraphExec_t exec;
};

struct cadre_cuda {
    struct cadre_device base; /* first */
    struct cadre_cuda *root; /* of a worker stream: the device; else itself */
    int index;
    bool exact, no_fused_epilogue; /* of struct cadre_device_config */
    size_t current; /* slot of the current stream */
    struct cadre_cuda_stream streams[CADRE_CUDA_STREAMS];
    struct cadre_cuda_events *events;
    struct cadre_cuda_graph *graphs;
    size_t n_graphs;
    void **retired; /* outgrown scratch that queued work may still use */
    size_t n_retired;
    struct cadre_cuda_gemms *gemms; /* NULL in a worker stream */
};

static inline struct cadre_cuda *cadre_cuda_of(struct cadre_device *device)
{
    return (struct cadre_cuda *)device;
}

/* The stream of the device's next work. */
static inline cudaStream_t cadre_cuda_current(const struct cadre_cuda *cuda)
{
    return cuda->streams[cuda->current].stream;
}

/* CADRE_OK, or one log line "cuda: WHAT: NAME (text)" and CADRE_E_DEVICE
 * (CADRE_E_RESOURCE where there is no memory). The thread's last error is cleared. */
cadre_status cadre_cuda_check(cudaError_t code, const char *what);

/* Make the device the calling thread's. */
cadre_status cadre_cuda_use(const struct cadre_cuda *cuda);

/* At least `bytes` of memory for kernels on the current stream, aligned to 256 bytes;
 * its contents are lost. A recorded graph may keep using it. NULL (logged) where there
 * is none, or where it would have to grow while a graph is recorded. */
void *cadre_cuda_scratch(struct cadre_cuda *cuda, size_t bytes);

/* Is the current stream's work being recorded into a graph? */
bool cadre_cuda_is_recording(const struct cadre_cuda *cuda);

struct cadre_device_identity;

/* core/device/module.h: open, describe and identify */
cadre_status cadre_cuda_open(const struct cadre_device_config *config,
                             struct cadre_device **out, struct cadre_error *err);
void cadre_cuda_describe(struct cadre_text *out);
cadre_status cadre_cuda_identify(int index, struct cadre_device_identity *out);

/* Why this process cannot use CUDA: CADRE_OK, or CADRE_E_UNSUPPORTED with the reason.
 * *count is the number of devices. */
cadre_status cadre_cuda_find(int *count, struct cadre_error *err);

/* cuda_device.c */
void cadre_cuda_op_destroy(struct cadre_device *);
cadre_status cadre_cuda_op_worker_stream_open(struct cadre_device *,
                                              struct cadre_device **);
void cadre_cuda_op_worker_stream_close(struct cadre_device *);

/* memory.c */
void *cadre_cuda_op_alloc(struct cadre_device *, size_t bytes);
void cadre_cuda_op_free(struct cadre_device *, void *);
void *cadre_cuda_op_alloc_pinned(struct cadre_device *, size_t bytes);
void cadre_cuda_op_free_pinned(struct cadre_device *, void *);
bool cadre_cuda_op_memory(struct cadre_device *, uint64_t *available, uint64_t *total);
bool cadre_cuda_op_host_reaches(struct cadre_device *, const void *ptr);
cadre_status cadre_cuda_op_copy(struct cadre_device *, void *, const void *, size_t);
cadre_status cadre_cuda_op_to_device(struct cadre_device *, void *, const void *,
                                     size_t);
cadre_status cadre_cuda_op_to_host(struct cadre_device *, void *, const void *, size_t);
cadre_status cadre_cuda_op_zero(struct cadre_device *, void *, size_t);
cadre_status cadre_cuda_op_upload(struct cadre_device *, void *, const void *, size_t);
cadre_status cadre_cuda_op_download(struct cadre_device *, void *, const void *,
                                    size_t);

/* stream.c */
cadre_status cadre_cuda_op_stream_create(struct cadre_device *, cadre_stream_id *);
void cadre_cuda_op_stream_destroy(struct cadre_device *, cadre_stream_id);
cadre_status cadre_cuda_op_set_stream(struct cadre_device *, cadre_stream_id);
void *cadre_cuda_op_native_stream(struct cadre_device *);
cadre_status cadre_cuda_op_synchronize(struct cadre_device *);
cadre_status cadre_cuda_op_event_record(struct cadre_device *, cadre_device_event *);
cadre_status cadre_cuda_op_event_wait(struct cadre_device *, cadre_device_event);
cadre_status cadre_cuda_op_event_sync(struct cadre_device *, cadre_device_event);
cadre_status cadre_cuda_op_event_query(struct cadre_device *, cadre_device_event,
                                       bool *happened);
cadre_status cadre_cuda_events_create(struct cadre_cuda_events **out);
void cadre_cuda_events_destroy(struct cadre_cuda_events *events);
/* Make slot 0; destroy all slots, after the work in them. */
cadre_status cadre_cuda_streams_open(struct cadre_cuda *cuda);
void cadre_cuda_streams_close(struct cadre_cuda *cuda);

/* graph.c */
cadre_status cadre_cuda_op_graph_begin(struct cadre_device *, uint64_t key);
cadre_status cadre_cuda_op_graph_end(struct cadre_device *, uint64_t key);
cadre_status cadre_cuda_op_graph_launch(struct cadre_device *, uint64_t key);
void cadre_cuda_graphs_close(struct cadre_cuda *cuda);

/* range.c */
void cadre_cuda_op_range_begin(struct cadre_device *, const char *name);
void cadre_cuda_op_range_end(struct cadre_device *);

/* The table, of devices and of worker streams. */
extern const struct cadre_device_ops cadre_cuda_ops;

#endif

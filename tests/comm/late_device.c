/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/comm/late_device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm/reduce.h"
#include "core/tensor/dtype.h"
#include "tests/comm/comm_cases.h"

#define MAX_STREAMS 256
#define POSITION_BITS 40

enum work_kind { COPY, ZERO, PAIR, WAIT };

struct work {
    struct work *next;
    enum work_kind kind;
    void *dst;
    const void *a, *b;
    uint64_t n; /* bytes, or elements of a pair */
    uint32_t dtype, red;
    cadre_device_event event;
};

struct stream {
    pthread_mutex_t lock;
    struct work *head, *tail;
    uint64_t given, done;
};

struct block {
    struct block *next;
    size_t bytes;
    _Alignas(64) char data[];
};

/* Shared by a device and its worker streams. */
struct root {
    pthread_mutex_t lock;
    struct stream *streams[MAX_STREAMS];
    int n;
    struct block *blocks;
    _Atomic bool broken;
};

struct late {
    struct cadre_device device;
    struct cadre_device_ops table;
    struct root *root;
    int stream;
};

static struct late *late_of(struct cadre_device *device)
{
    return (struct late *)device;
}

static struct stream *stream_at(struct root *root, int index)
{
    pthread_mutex_lock(&root->lock);
    struct stream *s = root->streams[index];
    pthread_mutex_unlock(&root->lock);
    return s;
}

static void run_until(struct root *root, int index, uint64_t position);

static void pair(const struct work *w)
{
    _Alignas(64) char block[CADRE_REDUCE_BLOCK_BYTES];
    size_t element = cadre_dtype_bytes(w->dtype);
    uint64_t most = CADRE_REDUCE_BLOCK_BYTES / element;
    for (uint64_t at = 0; at < w->n; at += most) {
        uint64_t n = w->n - at < most ? w->n - at : most;
        const void *srcs[] = {(const char *)w->a + at * element,
                              (const char *)w->b + at * element};
        cadre_reduce_block(block, srcs, 2, n, w->dtype, w->red);
        memcpy((char *)w->dst + at * element, block, n * element);
    }
}

static void run(struct root *root, const struct work *w)
{
    switch (w->kind) {
    case COPY:
        memmove(w->dst, w->a, w->n);
        break;
    case ZERO:
        memset(w->dst, 0, w->n);
        break;
    case PAIR:
        pair(w);
        break;
    default:
        run_until(root, (int)(w->event >> POSITION_BITS & (MAX_STREAMS - 1)),
                  w->event & ((UINT64_C(1) << POSITION_BITS) - 1));
    }
}

static void run_until(struct root *root, int index, uint64_t position)
{
    struct stream *s = stream_at(root, index);
    pthread_mutex_lock(&s->lock);
    while (s->done < position && s->head) {
        struct work *w = s->head;
        run(root, w);
        s->head = w->next;
        s->done++;
        free(w);
    }
    pthread_mutex_unlock(&s->lock);
}

static cadre_status give(struct cadre_device *device, const struct work *from)
{
    struct root *root = late_of(device)->root;
    struct stream *s = stream_at(root, late_of(device)->stream);
    struct work *w = malloc(sizeof *w);
    if (!w || atomic_load(&root->broken)) {
        free(w);
        return CADRE_E_DEVICE;
    }
    *w = *from;
    w->next = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->head)
        s->tail->next = w;
    else
        s->head = w;
    s->tail = w;
    s->given++;
    pthread_mutex_unlock(&s->lock);
    return CADRE_OK;
}

static cadre_status synchronize(struct cadre_device *device)
{
    run_until(late_of(device)->root, late_of(device)->stream, UINT64_MAX);
    return CADRE_OK;
}

static void *late_alloc(struct cadre_device *device, size_t bytes)
{
    struct root *root = late_of(device)->root;
    struct block *b = aligned_alloc(64, (sizeof *b + bytes + 127) / 64 * 64);
    if (!b)
        return NULL;
    b->bytes = bytes;
    memset(b->data, 0xa5, bytes); /* NaN, and no zero */
    pthread_mutex_lock(&root->lock);
    b->next = root->blocks;
    root->blocks = b;
    pthread_mutex_unlock(&root->lock);
    return b->data;
}

static void late_free(struct cadre_device *device, void *data)
{
    struct root *root = late_of(device)->root;
    struct block *found = NULL;
    synchronize(device);
    pthread_mutex_lock(&root->lock);
    for (struct block **b = &root->blocks; *b && !found; b = &(*b)->next)
        if ((*b)->data == data) {
            found = *b;
            *b = found->next;
            break;
        }
    pthread_mutex_unlock(&root->lock);
    free(found);
}

static void *pinned(struct cadre_device *device, size_t bytes)
{
    (void)device;
    return malloc(bytes);
}

static void free_pinned(struct cadre_device *device, void *data)
{
    (void)device;
    free(data);
}

static bool host_reaches(struct cadre_device *device, const void *ptr)
{
    struct root *root = late_of(device)->root;
    const char *p = ptr;
    bool ours = false;
    pthread_mutex_lock(&root->lock);
    for (const struct block *b = root->blocks; b && !ours; b = b->next)
        ours = p >= b->data && p <= b->data + b->bytes;
    pthread_mutex_unlock(&root->lock);
    return !ours;
}

static cadre_status copy(struct cadre_device *device, void *dst, const void *src,
                         size_t bytes)
{
    return give(device, &(struct work){.kind = COPY, .dst = dst, .a = src, .n = bytes});
}

static cadre_status copy_now(struct cadre_device *device, void *dst, const void *src,
                             size_t bytes)
{
    cadre_status rc = copy(device, dst, src, bytes);
    return rc == CADRE_OK ? synchronize(device) : rc;
}

static cadre_status zero(struct cadre_device *device, void *dst, size_t bytes)
{
    return give(device, &(struct work){.kind = ZERO, .dst = dst, .n = bytes});
}

static cadre_status tree_add(struct cadre_device *device, uint32_t dtype, void *out,
                             const void *a, const void *b, int64_t count)
{
    return give(device, &(struct work){.kind = PAIR,
                                       .dst = out,
                                       .a = a,
                                       .b = b,
                                       .n = (uint64_t)count,
                                       .dtype = dtype,
                                       .red = CADRE_SUM});
}

static cadre_status maximum(struct cadre_device *device, uint32_t dtype, void *out,
                            const void *a, const void *b, int64_t count)
{
    return give(device, &(struct work){.kind = PAIR,
                                       .dst = out,
                                       .a = a,
                                       .b = b,
                                       .n = (uint64_t)count,
                                       .dtype = dtype,
                                       .red = CADRE_MAX});
}

static cadre_status event_record(struct cadre_device *device, cadre_device_event *event)
{
    struct late *late = late_of(device);
    struct stream *s = stream_at(late->root, late->stream);
    pthread_mutex_lock(&s->lock);
    *event = CADRE_DEVICE_EVENT | (uint64_t)late->stream << POSITION_BITS | s->given;
    pthread_mutex_unlock(&s->lock);
    return CADRE_OK;
}

static cadre_status event_wait(struct cadre_device *device, cadre_device_event event)
{
    bool own = (int)(event >> POSITION_BITS & (MAX_STREAMS - 1)) ==
               late_of(device)->stream; /* a stream is ordered already */
    return !event || own ? CADRE_OK
                         : give(device, &(struct work){.kind = WAIT, .event = event});
}

static cadre_status event_sync(struct cadre_device *device, cadre_device_event event)
{
    struct work wait = {.kind = WAIT, .event = event};
    struct root *root = late_of(device)->root;
    if (event && !stream_at(root, (int)(event >> POSITION_BITS & (MAX_STREAMS - 1))))
        return CADRE_E_INVALID;
    if (event)
        run(root, &wait);
    return atomic_load(&root->broken) ? CADRE_E_DEVICE : CADRE_OK;
}

static bool stream_add(struct late *late)
{
    struct root *root = late->root;
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return false;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_lock(&root->lock);
    bool room = root->n < MAX_STREAMS;
    if (room) {
        late->stream = root->n;
        root->streams[root->n++] = s;
    }
    pthread_mutex_unlock(&root->lock);
    if (!room)
        free(s);
    return room;
}

static cadre_status worker_stream_open(struct cadre_device *device,
                                       struct cadre_device **out)
{
    struct late *worker = malloc(sizeof *worker);
    if (!worker)
        return CADRE_E_RESOURCE;
    *worker = *late_of(device);
    worker->device.ops = &worker->table;
    if (!stream_add(worker)) {
        free(worker);
        return CADRE_E_RESOURCE;
    }
    *out = &worker->device;
    return CADRE_OK;
}

static void worker_stream_close(struct cadre_device *worker)
{
    synchronize(worker);
    free(worker);
}

static void destroy(struct cadre_device *device)
{
    struct root *root = late_of(device)->root;
    for (int i = 0; i < root->n; i++)
        run_until(root, i, UINT64_MAX);
    while (root->blocks)
        late_free(device, root->blocks->data);
    for (int i = 0; i < root->n; i++) {
        pthread_mutex_destroy(&root->streams[i]->lock);
        free(root->streams[i]);
    }
    pthread_mutex_destroy(&root->lock);
    free(root);
    free(device);
}

struct cadre_device *late_device_open(void)
{
    struct late *late = calloc(1, sizeof *late);
    struct root *root = calloc(1, sizeof *root);
    if (!late || !root) {
        free(late);
        free(root);
        return NULL;
    }
    pthread_mutex_init(&root->lock, NULL);
    late->root = root;
    late->table = (struct cadre_device_ops){
        .name = "late",
        .async = true,
        .destroy = destroy,
        .alloc = late_alloc,
        .free = late_free,
        .host_reaches = host_reaches,
        .alloc_pinned = pinned,
        .free_pinned = free_pinned,
        .copy = copy,
        .upload = copy,
        .to_device = copy_now,
        .to_host = copy_now,
        .zero = zero,
        .event_record = event_record,
        .event_wait = event_wait,
        .event_sync = event_sync,
        .synchronize = synchronize,
        .worker_stream_open = worker_stream_open,
        .worker_stream_close = worker_stream_close,
        .tree_add = tree_add,
        .maximum = maximum,
    };
    late->device.ops = &late->table;
    if (!stream_add(late)) {
        free(late);
        free(root);
        return NULL;
    }
    return &late->device;
}

void late_device_break(struct cadre_device *device)
{
    atomic_store(&late_of(device)->root->broken, true);
}

struct cadre_device *comm_device(void)
{
    return late_device_open();
}

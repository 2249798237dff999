/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, copies, streams and events of the simulated device. */
#include "core/simulate/simulated_device.h"

#include <stdlib.h>
#include <string.h>

static struct cadre_simulated_device *of(struct cadre_device *device)
{
    return (struct cadre_simulated_device *)device;
}

void cadre_simulated_spend(struct cadre_simulated_device *d, double seconds,
                           struct cadre_op_work work)
{
    const double *now_s = cadre_turns_clock(d->turns, d->turn), begin_s = *now_s;
    cadre_turns_spend(d->turns, d->turn, seconds);
    cadre_step_graph_compute(d->graph, begin_s, *now_s, work.flops, work.bytes);
}

cadre_status cadre_simulated_pass(struct cadre_device *device, double bytes)
{
    struct cadre_simulated_device *d = of(device);
    cadre_simulated_spend(d, cadre_op_cost_bytes(d->hw, bytes),
                          (struct cadre_op_work){.bytes = bytes});
    return CADRE_OK;
}

/* ---- memory ---- */

static void *take(struct cadre_device *device, size_t bytes)
{
    return cadre_reserve_alloc(of(device)->memory, bytes);
}

static void let_go(struct cadre_device *device, void *block)
{
    cadre_reserve_free(of(device)->memory, block);
}

static void *take_pinned(struct cadre_device *device, size_t bytes)
{
    return cadre_reserve_alloc(of(device)->pinned, bytes);
}

static void let_go_pinned(struct cadre_device *device, void *block)
{
    cadre_reserve_free(of(device)->pinned, block);
}

/* Of this machine it takes none. */
static bool memory(struct cadre_device *device, uint64_t *available, uint64_t *total)
{
    *total = *available = (uint64_t)(of(device)->hw->device.memory_gib * 1073741824.0);
    return true;
}

static bool host_reaches(struct cadre_device *device, const void *address)
{
    (void)device;
    (void)address;
    return true;
}

/* What is read as zeros is written as zeros into the host's memory, and nowhere else.
 */
static void deliver(struct cadre_device *device, void *to, size_t bytes)
{
    if (bytes == 0)
        return;
    if (cadre_reserve_holds(of(device)->memory, to))
        return;
    if (cadre_reserve_holds(of(device)->pinned, to))
        cadre_reserve_clear(of(device)->pinned, to, bytes);
    else
        cadre_reserve_zero(to, bytes);
}

static cadre_status copy(struct cadre_device *device, void *to, const void *from,
                         size_t bytes)
{
    struct cadre_simulated_device *d = of(device);
    if (bytes && cadre_reserve_holds(d->memory, from))
        deliver(device, to, bytes);
    else if (bytes && !cadre_reserve_holds(d->memory, to) &&
             !cadre_reserve_holds(d->pinned, to))
        memmove(to, from, bytes);
    return cadre_simulated_pass(device, 2 * (double)bytes);
}

static cadre_status zero(struct cadre_device *device, void *to, size_t bytes)
{
    struct cadre_simulated_device *d = of(device);
    if (bytes && cadre_reserve_holds(d->memory, to))
        cadre_reserve_clear(d->memory, to, bytes);
    else
        deliver(device, to, bytes);
    return cadre_simulated_pass(device, (double)bytes);
}

/* ---- streams and events: as on the CPU ---- */

static cadre_status stream_create(struct cadre_device *device, cadre_stream_id *out)
{
    (void)device;
    *out = 1;
    return CADRE_OK;
}

static void stream_destroy(struct cadre_device *device, cadre_stream_id stream)
{
    (void)device;
    (void)stream;
}

static cadre_status set_stream(struct cadre_device *device, cadre_stream_id stream)
{
    (void)device;
    (void)stream;
    return CADRE_OK;
}

static void *native_stream(struct cadre_device *device)
{
    (void)device;
    return NULL;
}

static cadre_status event_record(struct cadre_device *device, cadre_device_event *event)
{
    (void)device;
    *event = 0;
    return CADRE_OK;
}

static cadre_status event_pass(struct cadre_device *device, cadre_device_event event)
{
    (void)device;
    (void)event;
    return CADRE_OK;
}

static cadre_status event_query(struct cadre_device *device, cadre_device_event event,
                                bool *happened)
{
    (void)device;
    (void)event;
    *happened = true;
    return CADRE_OK;
}

static cadre_status synchronize(struct cadre_device *device)
{
    (void)device;
    return CADRE_OK;
}

static cadre_status worker_stream_open(struct cadre_device *device,
                                       struct cadre_device **out)
{
    *out = device;
    return CADRE_OK;
}

static void worker_stream_close(struct cadre_device *worker)
{
    (void)worker;
}

static cadre_status no_graph(struct cadre_device *device, uint64_t key)
{
    (void)device;
    (void)key;
    return CADRE_E_UNSUPPORTED;
}

/* ---- tuning: there is nothing to choose ---- */

static cadre_status tuning_export(struct cadre_device *device, struct cadre_text *out)
{
    (void)device;
    (void)out;
    return CADRE_OK;
}

static cadre_status tuning_import(struct cadre_device *device, const char *text)
{
    (void)device;
    (void)text;
    return CADRE_OK;
}

static void tuning_library(struct cadre_device *device, struct cadre_text *out)
{
    cadre_text_printf(out, "simulated %s", of(device)->hw->name);
}

static void range_begin(struct cadre_device *device, const char *name)
{
    (void)device;
    (void)name;
}

static void range_end(struct cadre_device *device)
{
    (void)device;
}

/* ---- opening ---- */

static void destroy(struct cadre_device *device)
{
    cadre_simulated_device_close(of(device));
}

static const struct cadre_device_ops simulated_memory = {
    .name = "simulated",
    .simulated = true,
    .destroy = destroy,
    .alloc = take,
    .free = let_go,
    .alloc_pinned = take_pinned,
    .free_pinned = let_go_pinned,
    .memory = memory,
    .host_reaches = host_reaches,
    .copy = copy,
    .to_device = copy,
    .to_host = copy,
    .zero = zero,
    .upload = copy,
    .download = copy,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .set_stream = set_stream,
    .native_stream = native_stream,
    .event_record = event_record,
    .event_wait = event_pass,
    .event_sync = event_pass,
    .event_query = event_query,
    .synchronize = synchronize,
    .worker_stream_open = worker_stream_open,
    .worker_stream_close = worker_stream_close,
    .graph_begin = no_graph,
    .graph_end = no_graph,
    .graph_launch = no_graph,
    .tuning_export = tuning_export,
    .tuning_import = tuning_import,
    .tuning_library = tuning_library,
    .range_begin = range_begin,
    .range_end = range_end,
};

cadre_status cadre_simulated_device_open(const struct cadre_hardware *hw,
                                         struct cadre_turns *turns, int turn,
                                         size_t bytes,
                                         struct cadre_simulated_device **out,
                                         struct cadre_error *err)
{
    struct cadre_simulated_device *d = calloc(1, sizeof *d);
    struct cadre_device_ops *ops = malloc(sizeof *ops);
    cadre_status rc = d && ops ? CADRE_OK : cadre_no_memory(err, "a simulated device");
    if (rc == CADRE_OK)
        rc = cadre_reserve_open(bytes, &d->memory, err);
    if (rc == CADRE_OK)
        rc = cadre_reserve_open(bytes, &d->pinned, err);
    if (rc != CADRE_OK) {
        if (d)
            cadre_reserve_close(d->memory);
        free(ops);
        free(d);
        return rc;
    }
    *ops = simulated_memory;
    cadre_simulated_fill_ops(ops);
    d->device.ops = ops;
    d->hw = hw;
    d->turns = turns;
    d->turn = turn;
    *out = d;
    return CADRE_OK;
}

void cadre_simulated_device_close(struct cadre_simulated_device *device)
{
    if (!device)
        return;
    cadre_reserve_close(device->memory);
    cadre_reserve_close(device->pinned);
    free((void *)(uintptr_t)device->device.ops);
    free(device);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/engine/strategy/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/engine/strategy/host_private.h"
#include "core/tensor/dtype.h"

static uint64_t bytes_of(const struct cadre_wire *wire, uint32_t kind, uint32_t dtype,
                         uint64_t n)
{
    struct cadre_ctx *codec = wire->codec;
    struct cadre_call call = cadre_call_begin(codec, CADRE_IN_WIRE);
    uint64_t bytes = codec->plugin->ops.wire_bytes(codec->self, kind, dtype, n);
    cadre_call_end(&call, CADRE_OK);
    return bytes;
}

bool cadre_wire_encodes(const struct cadre_axis *axis, uint32_t kind, uint32_t dtype)
{
    const struct cadre_wire *wire = axis->services->wire;
    return wire && wire->axis == axis && bytes_of(wire, kind, dtype, 1) > 0;
}

/* Free the jobs that are not in flight. */
static void drop_unused(struct cadre_wire *wire)
{
    for (struct cadre_wire_job **at = &wire->jobs; *at;) {
        struct cadre_wire_job *job = *at;
        if (job->done != 0) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        cadre_ledger_free(wire->codec->services->ledger, job->codes);
        free(job->offsets);
        free(job);
    }
}

/* A job with space for `bytes` of codes: an unused one of that size, or a new one in
 * the place of all unused ones: codes take no more than what is in flight at most. */
static struct cadre_wire_job *take_job(struct cadre_wire *wire, uint64_t bytes)
{
    size_t n = (size_t)wire->axis->size + 1;
    char tag[64];
    for (struct cadre_wire_job *job = wire->jobs; job; job = job->next)
        if (job->done == 0 && job->room == bytes)
            return job;
    drop_unused(wire);
    struct cadre_wire_job *job = cadre_calloc(1, sizeof *job);
    uint64_t *offsets = cadre_calloc(2 * n, sizeof *offsets);
    snprintf(tag, sizeof tag, "%.31s: codes", wire->codec->name);
    void *codes = cadre_ledger_alloc(wire->codec->services->ledger, CADRE_SPACE_DEVICE,
                                     bytes, tag);
    if (!job || !offsets || !codes) {
        free(job);
        free(offsets);
        return NULL;
    }
    *job = (struct cadre_wire_job){
        .next = wire->jobs,
        .offsets = offsets,
        .coded = offsets + n,
        .codes = codes,
        .room = bytes,
    };
    wire->jobs = job;
    return job;
}

/* Encode or decode rank r's slice of a job; `plain` is the elements. */
static cadre_status convert(const struct cadre_wire *wire,
                            const struct cadre_wire_job *job, int r, bool encode,
                            const struct cadre_buf *plain)
{
    struct cadre_ctx *codec = wire->codec;
    const struct cadre_buf codes = {
        .data = (char *)job->codes + job->coded[r],
        .count = job->coded[r + 1] - job->coded[r],
        .dtype = CADRE_U8,
    };
    const struct cadre_wire_ev ev = {
        .struct_size = sizeof ev,
        .kind = job->kind,
        .encode = encode,
        .in = encode ? plain : &codes,
        .out = encode ? &codes : plain,
    };
    if (plain->count == 0)
        return CADRE_OK;
    struct cadre_call call = cadre_call_begin(codec, CADRE_IN_WIRE);
    return cadre_call_end(&call, codec->plugin->ops.wire(codec->self, &ev));
}

static bool overlap(const struct cadre_buf *in, const struct cadre_buf *out)
{
    size_t size = cadre_dtype_bytes(in->dtype);
    const char *a = in->data, *b = out->data;
    return a < b + out->count * size && b < a + in->count * size;
}

static cadre_status start(struct cadre_axis *axis, struct cadre_wire_job *job,
                          const struct cadre_buf *in, struct cadre_post *post,
                          cadre_event after)
{
    struct cadre_services *s = axis->services;
    struct cadre_device *device = s->device;
    cadre_event encoded = 0;
    CADRE_TRY(cadre_services_await(s, after, axis->name));
    CADRE_TRY(convert(s->wire, job, axis->index, true, in));
    if (device->ops->async)
        CADRE_TRY(device->ops->event_record(device, &encoded));
    CADRE_TRY(cadre_comm_all_gather(
        axis->comm, post->label, (char *)job->codes + job->coded[axis->index],
        job->codes, job->coded, CADRE_U8, encoded, &post->done));
    job->done = post->done;
    return CADRE_OK;
}

cadre_status cadre_wire_all_gather(struct cadre_axis *axis, const struct cadre_buf *in,
                                   const struct cadre_buf *out, const uint64_t *offsets,
                                   struct cadre_post *post, cadre_event after)
{
    struct cadre_wire *wire = axis->services->wire;
    struct cadre_buf own = *in;
    uint64_t bytes = 0;
    own.count = offsets[axis->index + 1] - offsets[axis->index];
    if (overlap(&own, out))
        return cadre_guard_refuse(wire->codec, CADRE_E_UNSUPPORTED,
                                  "all_gather of cadre.comm",
                                  "values that are gathered in place cannot travel "
                                  "encoded: the owner's would be rounded too; keep "
                                  "shards apart (zero.stage = 3)");
    for (int r = 0; r < axis->size; r++)
        bytes += bytes_of(wire, post->kind, in->dtype, offsets[r + 1] - offsets[r]);
    struct cadre_wire_job *job = take_job(wire, bytes);
    if (!job)
        return CADRE_E_RESOURCE;
    job->kind = post->kind;
    job->out = *out;
    memcpy(job->offsets, offsets, ((size_t)axis->size + 1) * sizeof *offsets);
    for (int r = 0; r < axis->size; r++)
        job->coded[r + 1] = job->coded[r] + bytes_of(wire, post->kind, in->dtype,
                                                     offsets[r + 1] - offsets[r]);
    return start(axis, job, &own, post, after);
}

cadre_status cadre_wire_finish(struct cadre_services *services, cadre_event event)
{
    struct cadre_wire *wire = services->wire;
    for (struct cadre_wire_job *job = wire ? wire->jobs : NULL; job; job = job->next) {
        if (event == 0 || job->done != event)
            continue;
        job->done = 0;
        size_t size = cadre_dtype_bytes(job->out.dtype);
        for (int r = 0; r < wire->axis->size; r++) {
            struct cadre_buf plain = job->out;
            plain.data = (char *)job->out.data + job->offsets[r] * size;
            plain.count = job->offsets[r + 1] - job->offsets[r];
            CADRE_TRY(convert(wire, job, r, false, &plain));
        }
    }
    return CADRE_OK;
}

void cadre_wire_fini(struct cadre_wire *wire)
{
    while (wire->jobs) {
        struct cadre_wire_job *job = wire->jobs;
        wire->jobs = job->next;
        free(job->offsets);
        free(job);
    }
    *wire = (struct cadre_wire){0};
}

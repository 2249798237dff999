/* SPDX-License-Identifier: Apache-2.0 */
#include "core/export/tfevents.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/path.h"
#include "core/base/protobuf.h"

enum { MOST = 16, NAME = 32, TRIES = 1000 };

struct cadre_tfevents {
    char *path;
    FILE *file;
    struct cadre_text event, summary, value; /* messages while they are made */
};

/* ---- events ---- */

/* Summary.Value: tag = 1, simple_value = 2. */
static void put_scalar(struct cadre_tfevents *events, const struct cadre_scalar *scalar)
{
    struct cadre_text *value = &events->value;
    cadre_text_reset(value);
    cadre_protobuf_put_bytes(value, 1, scalar->name, strnlen(scalar->name, NAME));
    cadre_protobuf_put_f32(value, 2, (float)scalar->value);
    cadre_protobuf_put_message(&events->summary, 1, value);
}

/* Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7. */
static void begin_event(struct cadre_tfevents *events, int64_t step)
{
    cadre_text_reset(&events->event);
    cadre_protobuf_put_f64(&events->event, 1, cadre_wall_clock_s());
    cadre_protobuf_put_i64(&events->event, 2, step);
}

/* ---- records ---- */

/* CRC-32C, four bits at a time (Castagnoli 1993; RFC 3720 B.4). */
static uint32_t crc32c(const unsigned char *data, size_t n)
{
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                       0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                       0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc = crc >> 4 ^ table[(crc ^ data[i]) & 15];
        crc = crc >> 4 ^ table[(crc ^ data[i] >> 4) & 15];
    }
    return ~crc;
}

/* Into `out`, the lowest byte first. */
static void put_fixed(unsigned char *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        out[i] = (unsigned char)value;
}

static void put_masked(unsigned char *out, const void *data, size_t n)
{
    uint32_t crc = crc32c(data, n);
    put_fixed(out, (crc >> 15 | crc << 17) + 0xa282ead8, 4);
}

/* The one that was made last. */
static cadre_status write_event(struct cadre_tfevents *events, struct cadre_error *err)
{
    const struct cadre_text *event = &events->event;
    unsigned char head[12], tail[4];
    if (event->failed)
        return cadre_no_memory(err, "an event of '%s'", events->path);
    put_fixed(head, event->len, 8);
    put_masked(head + 8, head, 8);
    put_masked(tail, event->data, event->len);
    if (fwrite(head, 1, sizeof head, events->file) == sizeof head &&
        fwrite(event->data, 1, event->len, events->file) == event->len &&
        fwrite(tail, 1, sizeof tail, events->file) == sizeof tail &&
        fflush(events->file) == 0)
        return CADRE_OK;
    return cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write '%s'", events->path);
}

/* ---- the file ---- */

/* The wall time in the name tells the files of a folder apart and orders them; one that
 * is there already is of the same second. */
static cadre_status make_file(struct cadre_tfevents *events, const char *dir,
                              struct cadre_error *err)
{
    char host[256] = "localhost", name[400];
    int file = -1;
    gethostname(host, sizeof host - 1);
    for (int i = 0; file < 0 && i < TRIES; i++) {
        snprintf(name, sizeof name, "events.out.tfevents.%lld.%s.%ld.%d",
                 (long long)time(NULL), host, (long)getpid(), i);
        free(events->path);
        events->path = cadre_path_join(dir, name);
        if (!events->path)
            return cadre_no_memory(err, "a path");
        file = open(events->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST)
            break;
    }
    events->file = file < 0 ? NULL : fdopen(file, "w");
    if (events->file)
        return CADRE_OK;
    cadre_fail_errno(err, CADRE_E_IO, errno, "cannot write '%s'", events->path);
    if (file >= 0)
        close(file);
    return CADRE_E_IO;
}

cadre_status cadre_tfevents_open(const char *dir, int64_t first,
                                 struct cadre_tfevents **out, struct cadre_error *err)
{
    struct cadre_tfevents *events = calloc(1, sizeof *events);
    if (!events)
        return cadre_no_memory(err, "events");
    cadre_status rc = CADRE_OK;
    CADRE_TRY_OR(make_file(events, dir, err), fail);
    begin_event(events, 0);
    cadre_protobuf_put_string(&events->event, 3, "brain.Event:2");
    CADRE_TRY_OR(write_event(events, err), fail);
    begin_event(events, first);
    cadre_protobuf_put_u64(&events->value, 1, 1); /* status = START */
    cadre_protobuf_put_message(&events->event, 7, &events->value);
    CADRE_TRY_OR(write_event(events, err), fail);
    *out = events;
    return CADRE_OK;
fail:
    cadre_tfevents_close(events);
    return rc;
}

cadre_status cadre_tfevents_step(struct cadre_tfevents *events, int64_t step,
                                 const struct cadre_scalar *scalar, size_t n,
                                 struct cadre_error *err)
{
    assert(n <= MOST);
    cadre_text_reset(&events->summary);
    for (size_t i = 0; i < n; i++)
        if (isfinite(scalar[i].value))
            put_scalar(events, &scalar[i]);
    begin_event(events, step);
    cadre_protobuf_put_message(&events->event, 5, &events->summary);
    return write_event(events, err);
}

void cadre_tfevents_close(struct cadre_tfevents *events)
{
    if (!events)
        return;
    if (events->file)
        fclose(events->file);
    cadre_text_fini(&events->event);
    cadre_text_fini(&events->summary);
    cadre_text_fini(&events->value);
    free(events->path);
    free(events);
}

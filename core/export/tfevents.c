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

enum { MOST = 16, ROOM = 1024, NAME = 32, TRIES = 1000 };

struct cadre_tfevents {
    char *path;
    FILE *file;
};

/* ---- protobuf: a field's key is its number and the type of its value ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

struct message {
    unsigned char data[ROOM];
    size_t n;
};

static void put_bytes(struct message *m, const void *bytes, size_t n)
{
    assert(n <= sizeof m->data - m->n && "MOST scalars of NAME fit");
    memcpy(m->data + m->n, bytes, n);
    m->n += n;
}

static void put_varint(struct message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_bytes(m, &(unsigned char){(unsigned char)(value | 0x80)}, 1);
    put_bytes(m, &(unsigned char){(unsigned char)value}, 1);
}

static void put_key(struct message *m, unsigned field, unsigned type)
{
    put_varint(m, field << 3 | type);
}

static void put_text(struct message *m, unsigned field, const void *bytes, size_t n)
{
    put_key(m, field, BYTES);
    put_varint(m, n);
    put_bytes(m, bytes, n);
}

/* `bytes` low bytes of value, the lowest first. */
static void put_fixed(struct message *m, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        put_bytes(m, &(unsigned char){(unsigned char)value}, 1);
}

/* Summary.Value: tag = 1, simple_value = 2. */
static void put_scalar(struct message *summary, const struct cadre_scalar *scalar)
{
    struct message value = {.n = 0};
    float rounded = (float)scalar->value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    put_text(&value, 1, scalar->name, strnlen(scalar->name, NAME));
    put_key(&value, 2, FIXED32);
    put_fixed(&value, bits, 4);
    put_text(summary, 1, value.data, value.n);
}

/* Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7. */
static void begin_event(struct message *event, int64_t step)
{
    uint64_t bits;
    double wall_s = cadre_wall_clock_s();
    memcpy(&bits, &wall_s, sizeof bits);
    event->n = 0;
    put_key(event, 1, FIXED64);
    put_fixed(event, bits, 8);
    put_key(event, 2, VARINT);
    put_varint(event, (uint64_t)step);
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

static uint32_t masked(const unsigned char *data, size_t n)
{
    uint32_t crc = crc32c(data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static cadre_status write_event(struct cadre_tfevents *events,
                                const struct message *event, struct cadre_error *err)
{
    struct message head = {.n = 0}, tail = {.n = 0};
    put_fixed(&head, event->n, 8);
    put_fixed(&head, masked(head.data, 8), 4);
    put_fixed(&tail, masked(event->data, event->n), 4);
    if (fwrite(head.data, 1, head.n, events->file) == head.n &&
        fwrite(event->data, 1, event->n, events->file) == event->n &&
        fwrite(tail.data, 1, tail.n, events->file) == tail.n &&
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
    static const char version[] = "brain.Event:2";
    static const unsigned char start[] = {1 << 3 | VARINT, 1}; /* status = START */
    struct message event;
    struct cadre_tfevents *events = calloc(1, sizeof *events);
    if (!events)
        return cadre_no_memory(err, "events");
    cadre_status rc = CADRE_OK;
    CADRE_TRY_OR(make_file(events, dir, err), fail);
    begin_event(&event, 0);
    put_text(&event, 3, version, sizeof version - 1);
    CADRE_TRY_OR(write_event(events, &event, err), fail);
    begin_event(&event, first);
    put_text(&event, 7, start, sizeof start);
    CADRE_TRY_OR(write_event(events, &event, err), fail);
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
    struct message event, summary = {.n = 0};
    assert(n <= MOST);
    for (size_t i = 0; i < n; i++)
        if (isfinite(scalar[i].value))
            put_scalar(&summary, &scalar[i]);
    begin_event(&event, step);
    put_text(&event, 5, summary.data, summary.n);
    return write_event(events, &event, err);
}

void cadre_tfevents_close(struct cadre_tfevents *events)
{
    if (!events)
        return;
    if (events->file)
        fclose(events->file);
    free(events->path);
    free(events);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/rank_events.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/memory.h"

#define BEGIN offsetof(struct cadre_rank_page_shared, event)

/* The recorder's part of the file, read twice: what is equal in both was not being
 * written. */
struct recording {
    uint64_t ended_ns, sequence, turn;
    struct cadre_rank_page_op op;
};

_Static_assert(sizeof(struct recording) ==
                   sizeof(((struct cadre_rank_page_shared *)0)->event[0]),
               "an event lies in the file as it is read");

static void end_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

static bool take(const struct recording *r, struct cadre_rank_event *event)
{
    if (r->turn == 0 || r->turn % 2 != 0 || r->op.number == 0)
        return false;
    *event = (struct cadre_rank_event){
        .op = r->op,
        .sequence = r->sequence,
        .state = r->ended_ns == 0                         ? CADRE_RANK_EVENT_PENDING
                 : r->ended_ns == CADRE_RANK_PAGE_REFUSED ? CADRE_RANK_EVENT_REFUSED
                                                          : CADRE_RANK_EVENT_ENDED,
        .ended_s =
            r->ended_ns > CADRE_RANK_PAGE_REFUSED ? 1e-9 * (double)r->ended_ns : NAN,
    };
    if (event->op.phase >= CADRE_PHASES)
        event->op.phase = CADRE_PHASE_OTHER;
    end_text(event->op.kind, sizeof event->op.kind);
    end_text(event->op.label, sizeof event->op.label);
    end_text(event->op.comm, sizeof event->op.comm);
    end_text(event->op.plugin, sizeof event->op.plugin);
    return isfinite(event->op.posted_s);
}

static int by_number(const void *a, const void *b)
{
    const struct cadre_rank_event *x = a, *y = b;
    return (x->op.number > y->op.number) - (x->op.number < y->op.number);
}

cadre_status cadre_rank_events_read(const char *path, struct cadre_rank_event *event,
                                    size_t *n, struct cadre_error *err)
{
    const size_t bytes = CADRE_RANK_PAGE_EVENTS * sizeof(struct recording);
    struct recording *one = cadre_calloc(2, bytes), *two;
    int fd = one ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    cadre_status rc = CADRE_OK;
    *n = 0;
    if (!one)
        return cadre_no_memory(err, "the events of a rank");
    two = one + CADRE_RANK_PAGE_EVENTS;
    if (fd < 0)
        rc = cadre_fail_errno(err, CADRE_E_IO, errno, "cannot read '%s'", path);
    else if (pread(fd, one, bytes, (off_t)BEGIN) != (ssize_t)bytes ||
             pread(fd, two, bytes, (off_t)BEGIN) != (ssize_t)bytes)
        rc = cadre_fail(err, CADRE_E_INVALID, "the status page '%s' is cut", path);
    for (size_t i = 0; rc == CADRE_OK && i < CADRE_RANK_PAGE_EVENTS; i++)
        if (one[i].turn == two[i].turn &&
            memcmp(&one[i].op, &two[i].op, sizeof one[i].op) == 0)
            *n += take(&two[i], &event[*n]);
    qsort(event, *n, sizeof *event, by_number);
    if (fd >= 0)
        close(fd);
    free(one);
    return rc;
}

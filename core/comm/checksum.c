/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/checksum.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/memory.h"
#include "core/comm/backend.h"
#include "core/tensor/dtype.h"

/* A sum does not depend on the order of what it is made of, and `n` says whether both
 * sides speak of the same operations: those of a class end in one order, but for sends
 * of several directions. */
enum class { COLLECTIVE, REDUCED, DIRECT, CLASSES };
enum side { GIVEN, TAKEN, SIDES };

struct entry {
    uint64_t sum, n;
};

/* Entry (class, side, rank of the group). */
static struct entry *entry_of(struct entry *all, int size, int class, int side,
                              int rank)
{
    return &all[((size_t) class * SIDES + (size_t)side) * (size_t)size + (size_t)rank];
}

static size_t entries(int size)
{
    return (size_t)CLASSES * SIDES * (size_t)size;
}

/* ---- an operation that has ended ---- */

struct message {
    struct cadre_comm *comm;
    const struct cadre_comm_op *op;
    enum class class;
};

/* `peer` -1: all others. */
static void add(const struct message *m, enum side side, int peer, uint64_t hash)
{
    struct cadre_comm *comm = m->comm;
    pthread_mutex_lock(&comm->context->lock);
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank || (peer >= 0 && r != peer))
            continue;
        struct entry *e = entry_of(comm->checksums, comm->size, m->class, side, r);
        e->sum += hash;
        e->n++;
    }
    pthread_mutex_unlock(&comm->context->lock);
}

/* The hash of elements [first, first + count) of a buffer. */
static uint64_t hash_of(const struct message *m, const void *buffer, uint64_t first,
                        uint64_t count)
{
    const size_t element = cadre_dtype_bytes(m->op->dtype);
    const char *at = count > 0 ? (const char *)buffer + first * element : NULL;
    return cadre_hash_of(at, count * element, 0);
}

/* What rank r of the group has in offsets[r] to offsets[r + 1] of `buffer`. */
static void add_slices(const struct message *m, enum side side, const void *buffer)
{
    const uint64_t *offsets = m->op->offsets;
    for (int r = 0; r < m->comm->size; r++)
        if (r != m->comm->rank)
            add(m, side, r,
                hash_of(m, buffer, offsets[r], offsets[r + 1] - offsets[r]));
}

static void note(struct cadre_comm *comm, const struct cadre_comm_op *op)
{
    struct message m = {.comm = comm, .op = op, .class = COLLECTIVE};
    const int root = op->root;
    if (op->memory != CADRE_COMM_HOST_MEMORY)
        return;
    if (op->kind == CADRE_COMM_ALL_REDUCE) {
        m.class = REDUCED;
        const uint64_t hash = hash_of(&m, op->out, 0, op->count);
        add(&m, GIVEN, -1, hash);
        add(&m, TAKEN, -1, hash);
    } else if (op->kind == CADRE_COMM_ALL_GATHER) {
        const uint64_t *own = op->offsets + comm->rank;
        add(&m, GIVEN, -1, hash_of(&m, op->in, 0, own[1] - own[0]));
        add_slices(&m, TAKEN, op->out);
    } else if (op->kind == CADRE_COMM_ALL_TO_ALL) {
        add_slices(&m, GIVEN, op->in);
        add_slices(&m, TAKEN, op->out);
    } else if (op->kind == CADRE_COMM_BROADCAST) {
        const bool gives = comm->rank == root;
        add(&m, gives ? GIVEN : TAKEN, gives ? -1 : root,
            hash_of(&m, gives ? op->in : op->out, 0, op->count));
    } else if (op->kind == CADRE_COMM_SEND || op->kind == CADRE_COMM_RECV) {
        const bool gives = op->kind == CADRE_COMM_SEND;
        m.class = DIRECT;
        add(&m, gives ? GIVEN : TAKEN, root,
            hash_of(&m, gives ? op->in : op->out, 0, op->count));
    }
}

/* ---- the sums of a group ---- */

cadre_status cadre_checksum_keep(struct cadre_comm *comm, struct cadre_error *err)
{
    struct entry *all;
    if (comm->size < 2 || comm->checksums || comm->backend->progress)
        return CADRE_OK;
    all = cadre_calloc(entries(comm->size), sizeof *all);
    if (!all)
        return cadre_no_memory(err, "checksums of %d ranks", comm->size);
    pthread_mutex_lock(&comm->context->lock);
    comm->context->note = note;
    comm->checksums = all;
    pthread_mutex_unlock(&comm->context->lock);
    return CADRE_OK;
}

/* `all`: the entries of each rank, one after the other. */
static bool agree(struct entry *all, int size, int class, int from, int to)
{
    struct entry *given = all + (size_t)from * entries(size),
                 *taken = all + (size_t)to * entries(size);
    given = entry_of(given, size, class, GIVEN, to);
    taken = entry_of(taken, size, class, TAKEN, from);
    return given->n != taken->n || given->sum == taken->sum;
}

static void find_odd(struct entry *all, int size, struct cadre_checksum_odd *odd)
{
    for (int class = 0; class < CLASSES; class ++)
        for (int from = 0; from < size; from++)
            for (int to = 0; to < size; to++)
                if (to != from && odd->from < 0 && !agree(all, size, class, from, to))
                    *odd = (struct cadre_checksum_odd){from, to, class == REDUCED};
}

cadre_status cadre_checksum_compare(struct cadre_comm *comm,
                                    struct cadre_checksum_odd *odd)
{
    const size_t n = entries(comm->size), bytes = n * sizeof(struct entry);
    cadre_event done;
    *odd = (struct cadre_checksum_odd){.from = -1, .to = -1};
    if (!comm->checksums)
        return CADRE_OK;
    /* behind it nothing is pending in the queue of collectives */
    CADRE_TRY(cadre_comm_barrier(comm, "checksums", 0, &done));
    CADRE_TRY(cadre_comm_wait(comm, done));
    struct entry *all = cadre_calloc((size_t)comm->size + 1, bytes);
    if (!all)
        return CADRE_E_RESOURCE;
    struct entry *own = all + (size_t)comm->size * n;
    pthread_mutex_lock(&comm->context->lock);
    memcpy(own, comm->checksums, bytes);
    pthread_mutex_unlock(&comm->context->lock);
    cadre_status rc = cadre_comm_gather_records(comm, "checksums", own, all, bytes);
    if (rc == CADRE_OK)
        find_odd(all, comm->size, odd);
    free(all);
    return rc;
}

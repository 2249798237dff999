/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of messages: operations of every kind agree; then one bit of what a rank
 * took is flipped as the operation ends, and all ranks name the two. */
#include <stdio.h>
#include <string.h>

#include "core/comm/checksum.h"
#include "tests/comm/comm_cases.h"

enum { RANKS = 3, EACH = 7, WHOLE = RANKS * EACH, PER = 16 };

struct data {
    float in[WHOLE], out[WHOLE];
};

static const uint64_t offsets[RANKS + 1] = {0, EACH, 2 * EACH, WHOLE};

/* One operation of each kind: everybody calls it. */
typedef cadre_status (*operation)(struct cadre_comm *comm, struct data *data);

static cadre_status all_reduce(struct cadre_comm *comm, struct data *data)
{
    cadre_event done = 0;
    CADRE_TRY(cadre_comm_all_reduce(comm, "flip", data->in, data->out, WHOLE, CADRE_F32,
                                    CADRE_SUM, 0, &done));
    return cadre_comm_wait(comm, done);
}

static cadre_status reduce_scatter(struct cadre_comm *comm, struct data *data)
{
    cadre_event done = 0;
    CADRE_TRY(cadre_comm_reduce_scatter(comm, "scatter", data->in, data->out, offsets,
                                        CADRE_F32, CADRE_SUM, 0, &done));
    return cadre_comm_wait(comm, done);
}

static cadre_status all_gather(struct cadre_comm *comm, struct data *data)
{
    cadre_event done = 0;
    CADRE_TRY(cadre_comm_all_gather(comm, "flip", data->in, data->out, offsets,
                                    CADRE_F32, 0, &done));
    return cadre_comm_wait(comm, done);
}

static cadre_status all_to_all(struct cadre_comm *comm, struct data *data)
{
    cadre_event done = 0;
    CADRE_TRY(cadre_comm_all_to_all(comm, "flip", data->in, data->out, WHOLE, CADRE_F32,
                                    0, &done));
    return cadre_comm_wait(comm, done);
}

static cadre_status broadcast(struct cadre_comm *comm, struct data *data)
{
    cadre_event done = 0;
    CADRE_TRY(
        cadre_comm_broadcast(comm, "flip", data->out, WHOLE, CADRE_F32, 1, 0, &done));
    return cadre_comm_wait(comm, done);
}

/* From each rank to the next one. */
static cadre_status pass_on(struct cadre_comm *comm, struct data *data)
{
    const int to = (comm->rank + 1) % comm->size,
              from = (comm->rank + comm->size - 1) % comm->size;
    cadre_event sent = 0, came = 0;
    CADRE_TRY(cadre_comm_send(comm, "sent", data->in, WHOLE, CADRE_F32, to, 0, &sent));
    CADRE_TRY(
        cadre_comm_recv(comm, "flip", data->out, WHOLE, CADRE_F32, from, 0, &came));
    CADRE_TRY(cadre_comm_wait(comm, came));
    return cadre_comm_wait(comm, sent);
}

static const struct flip {
    operation run;
    int rank, element; /* of whose out */
    struct cadre_checksum_odd odd;
} flips[] = {
    {all_gather, 0, 2 * EACH + 3, {2, 0, false}},
    {all_gather, 2, 1, {0, 2, false}},
    {all_to_all, 1, 4, {0, 1, false}},
    {broadcast, 2, 0, {1, 2, false}},
    {pass_on, 0, WHOLE - 1, {2, 0, false}},
    {all_reduce, 0, 5, {0, 1, true}},
};

/* As an operation ends; its buffer is not yet the caller's. */
static void turn_a_bit(void *arg, const struct cadre_comm_done *done)
{
    if (strcmp(done->label, "flip") == 0)
        *(unsigned char *)arg ^= 1;
}

static void fill(struct data *data, int rank)
{
    for (int i = 0; i < WHOLE; i++) {
        data->in[i] = (float)(100 * rank + i) / 7;
        data->out[i] = rank == 1 ? data->in[i] : 0;
    }
}

/* A group of its own, since a sum that is wrong once stays so. */
static cadre_status try_flip(struct world *w, const struct flip *flip)
{
    struct cadre_checksum_odd odd;
    struct cadre_comm *group;
    struct cadre_error err;
    struct data data;
    fill(&data, w->rank);
    CHECK(w, cadre_comm_split(w->comm, 0, w->rank, &group, &err) == CADRE_OK);
    CHECK(w, cadre_checksum_keep(group, &err) == CADRE_OK);
    for (int i = 0; i < PER; i++)
        CHECK(w, flip->run(group, &data) == CADRE_OK);
    CHECK(w, cadre_checksum_compare(group, &odd) == CADRE_OK && odd.from == -1);
    if (w->rank == flip->rank)
        cadre_comm_observe(w->comm, turn_a_bit, data.out + flip->element);
    CHECK(w, flip->run(group, &data) == CADRE_OK);
    cadre_comm_observe(w->comm, NULL, NULL);
    CHECK(w, cadre_checksum_compare(group, &odd) == CADRE_OK);
    CHECK(w, odd.from == flip->odd.from && odd.to == flip->odd.to &&
                 odd.reduced == flip->odd.reduced);
    cadre_comm_destroy(group);
    return CADRE_OK;
}

static cadre_status checksums(struct world *w, const char *arg)
{
    static const operation all[] = {all_reduce, reduce_scatter, all_gather,
                                    all_to_all, broadcast,      pass_on};
    struct cadre_checksum_odd odd = {.from = 5};
    struct cadre_error err;
    struct data data;
    (void)arg;
    CHECK(w, w->size == RANKS);
    if (w->device)
        return CADRE_OK; /* its memory is left out */
    CHECK(w, cadre_checksum_compare(w->comm, &odd) == CADRE_OK && odd.from == -1);
    CHECK(w, cadre_checksum_keep(w->comm, &err) == CADRE_OK);
    for (int i = 0; i < 3 * PER; i++) {
        fill(&data, w->rank + i);
        CHECK(w, all[i % 6](w->comm, &data) == CADRE_OK);
        if (i % PER == 0)
            CHECK(w, cadre_checksum_compare(w->comm, &odd) == CADRE_OK);
        CHECK(w, odd.from == -1);
    }
    for (size_t i = 0; i < sizeof flips / sizeof *flips; i++)
        CADRE_TRY(try_flip(w, &flips[i]));
    return CADRE_OK;
}

cadre_status case_checksums(void *arg, int rank, struct cadre_local_segment *segment)
{
    return comm_with_world(checksums, arg, rank, segment);
}

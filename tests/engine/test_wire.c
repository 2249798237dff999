/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers that travel encoded, by a codec that keeps the upper half of each float. */
#include "core/engine/strategy/wire.h"

#include <stdio.h>
#include <string.h>

#include <cadre/helpers.h>

#include "core/launch/launch.h"
#include "tests/engine/comm_pair.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;
static const struct cadre_comm_svc *comm = &cadre_comm_service;

static void setup(void)
{
    rank_fixture_open(&f);
    rank_fixture_start(&f);
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

static uint64_t half_bytes(struct cadre_self *self, uint32_t kind, uint32_t dtype,
                           uint64_t n)
{
    (void)self;
    return kind == CADRE_TRAFFIC_PARAM && dtype == CADRE_F32 ? 2 * n : 0;
}

static cadre_status half(struct cadre_self *self, const struct cadre_wire_ev *ev)
{
    (void)self;
    const struct cadre_buf *plain = ev->encode ? ev->in : ev->out;
    char *codes = ev->encode ? ev->out->data : ev->in->data;
    float *values = plain->data;
    for (uint64_t i = 0; i < plain->count; i++) {
        if (!ev->encode)
            values[i] = 0;
        char *upper = (char *)&values[i] + 2;
        memcpy(ev->encode ? codes + 2 * i : upper, ev->encode ? upper : codes + 2 * i,
               2);
    }
    return CADRE_OK;
}

static bool gather(struct comm_pair *p, uint32_t kind, const struct cadre_buf *in,
                   const struct cadre_buf *out)
{
    static const uint64_t offsets[] = {0, 3, 4};
    struct cadre_post post = cadre_post("codes", kind, 0);
    return comm->all_gather(&p->axis, in, out, offsets, &post) == CADRE_OK &&
           comm->stream_wait(&p->axis, post.done) == CADRE_OK;
}

/* Bytes of codes that are held. */
static uint64_t codes_taken(struct comm_pair *p)
{
    char tag[64];
    snprintf(tag, sizeof tag, "%.31s: codes", p->ctx.name);
    return cadre_ledger_used(&p->ledger, CADRE_SPACE_DEVICE, tag);
}

/* Codes take what is in flight at most: those of another size go, whether they were
 * smaller or larger. */
static bool takes_what_is_in_flight(struct comm_pair *p, int rank)
{
    static const uint64_t larger[] = {0, 5, 7}, smaller[] = {0, 1, 3};
    float own[5] = {1, 2, 3, 4, 5}, all[7], few[3];
    struct cadre_buf in = cadre_buf_of(own, rank ? 2 : 5, CADRE_F32, 0);
    struct cadre_buf out = cadre_buf_of(all, 7, CADRE_F32, 0);
    struct cadre_buf one = cadre_buf_of(own, rank ? 2 : 1, CADRE_F32, 0);
    struct cadre_buf three = cadre_buf_of(few, 3, CADRE_F32, 0);
    struct cadre_post first = cadre_post("codes", CADRE_TRAFFIC_PARAM, 0);
    struct cadre_post second = first, third = first;
    bool good =
        comm->all_gather(&p->axis, &in, &out, larger, &first) == CADRE_OK &&
        codes_taken(p) == 14 &&
        comm->all_gather(&p->axis, &one, &three, smaller, &second) == CADRE_OK &&
        codes_taken(p) == 14 + 6 &&
        comm->stream_wait(&p->axis, first.done) == CADRE_OK &&
        comm->stream_wait(&p->axis, second.done) == CADRE_OK;
    return good &&
           comm->all_gather(&p->axis, &one, &three, smaller, &third) == CADRE_OK &&
           codes_taken(p) == 14 + 6 && /* one of that size is there */
           comm->stream_wait(&p->axis, third.done) == CADRE_OK && few[0] == 1 &&
           few[1] == 1 && few[2] == 2 && all[6] == 2;
}

/* Rank 0 has three values and rank 1 one; 1 + 2^-20 does not survive the codec. */
static bool gathers(struct comm_pair *p, int rank)
{
    float own[3] = {1 + 0x1p-20F, 2, 3}, all[4] = {0}, plain[4] = {0};
    struct cadre_buf in = cadre_buf_of(own, rank ? 1 : 3, CADRE_F32, 0);
    struct cadre_buf out = cadre_buf_of(all, 4, CADRE_F32, 0);
    struct cadre_buf other = cadre_buf_of(plain, 4, CADRE_F32, 0);
    bool good = true;
    for (int twice = 0; twice < 2; twice++)
        good &= gather(p, CADRE_TRAFFIC_PARAM, &in, &out) && all[0] == 1 &&
                all[1] == 2 && all[2] == 3 && all[3] == 1;
    good &= p->services.wire->jobs && !p->services.wire->jobs->next;
    good &= codes_taken(p) == 8;
    return good && gather(p, CADRE_TRAFFIC_OTHER, &in, &other) && plain[0] == own[0];
}

static bool refuses_in_place(struct comm_pair *p, int rank)
{
    float all[4] = {1, 2, 3, 4};
    struct cadre_buf out = cadre_buf_of(all, 4, CADRE_F32, 0);
    struct cadre_buf in = cadre_buf_slice(&out, rank ? 3 : 0, rank ? 1 : 3);
    return !gather(p, CADRE_TRAFFIC_PARAM, &in, &out) &&
           strstr(p->failure.text, "gathered in place cannot travel encoded") != NULL;
}

static cadre_status two_ranks(void *arg, int rank, struct cadre_local_segment *segment)
{
    (void)arg;
    struct cadre_comm *world = NULL;
    struct comm_pair p;
    CADRE_TRY(cadre_local_open(segment, rank, &world, NULL));
    bool good = comm_pair_open(&p, rank, world) == CADRE_OK;
    p.plugin.ops.wire_bytes = half_bytes;
    p.plugin.ops.wire = half;
    struct cadre_wire wire = {.codec = &p.ctx, .axis = &p.axis};
    p.services.wire = &wire;
    good = good && gathers(&p, rank) && takes_what_is_in_flight(&p, rank) &&
           refuses_in_place(&p, rank);
    cadre_wire_fini(&wire);
    cadre_ledger_fini(&p.ledger);
    cadre_comm_destroy(world);
    comm_pair_close(&p);
    return good ? CADRE_OK : CADRE_E_INTERNAL;
}

START_TEST(values_travel_encoded)
{
    const struct cadre_local_config config = {.size = 2, .timeout_s = 60};
    struct cadre_error err = {0};
    cadre_status rc = cadre_launch_threads(&config, NULL, two_ranks, NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("wire");
    TCase *tc = tcase_create("wire");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, values_travel_encoded);
    suite_add_tcase(s, tc);
    return s;
}

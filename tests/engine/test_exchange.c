/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange of three ranks. */
#include "core/engine/exchange.h"

#include <string.h>

#include "core/launch/launch.h"
#include "tests/support/check_main.h"

#define RANKS 3

/* What each rank has afterwards. */
static struct {
    double losses[RANKS];
    struct cadre_exchange_outcome outcome;
    double data_s[RANKS];
} seen[RANKS];
static bool votes;

/* Rank r has the loss of micro-batch r; rank 1 wants to stop, rank 2 saves. */
static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    const struct cadre_mesh mesh = {.rank = index, .ranks = RANKS};
    struct cadre_timeline timeline = {0};
    struct cadre_exchange exchange = {
        .mesh = &mesh,
        .timeline = &timeline,
        .n_losses = RANKS,
        .votes = {.stop = index == 1, .saving = index == 2},
    };
    double losses[RANKS] = {0};
    struct cadre_error err = {0};
    (void)arg;
    losses[index] = index + 1;
    CADRE_TRY(cadre_local_open(segment, index, &exchange.world, &err));
    cadre_status rc = cadre_exchange_init(&exchange);
    if (rc == CADRE_OK) /* rank 0 has none to add */
        rc = cadre_exchange_losses(&exchange, index ? losses : NULL, 1,
                                   votes ? &seen[index].outcome : NULL);
    if (rc == CADRE_OK)
        memcpy(seen[index].losses, exchange.values, sizeof losses);
    cadre_exchange_fini(&exchange);
    cadre_comm_destroy(exchange.world);
    return rc;
}

START_TEST(losses_and_votes_are_those_of_all)
{
    const struct cadre_local_config config = {.size = RANKS, .timeout_s = 60};
    struct cadre_error err = {0};
    memset(seen, 0, sizeof seen);
    votes = _i;
    cadre_status rc = cadre_launch_threads(&config, NULL, rank_main, NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_double_eq(seen[r].losses[0], 0);
        ck_assert_double_eq(seen[r].losses[1], 2);
        ck_assert_double_eq(seen[r].losses[2], 3);
        ck_assert_int_eq(seen[r].outcome.votes.stop, votes);
        ck_assert_int_eq(seen[r].outcome.votes.saving, votes);
        ck_assert(!seen[r].outcome.votes.save_failed);
        ck_assert_double_eq(seen[r].outcome.span_s, 0); /* no schedule */
    }
}
END_TEST

/* Rank r takes r + 1 s for a micro-batch. With ranks that share samples, or each with
 * its own. */
static cadre_status speeds_main(void *arg, int index,
                                struct cadre_local_segment *segment)
{
    const struct cadre_axis_request axis = {"dp", RANKS, "ddp"};
    const bool *splits = arg;
    struct cadre_mesh mesh;
    struct cadre_timeline timeline = {0};
    struct cadre_exchange exchange = {.mesh = &mesh,
                                      .timeline = &timeline,
                                      .n_losses = 1,
                                      .data_s = seen[index].data_s,
                                      .micro_s = index + 1};
    struct cadre_error err = {0};
    CADRE_TRY(cadre_mesh_init(&mesh, &axis, 1, index, &err));
    mesh.axis[0].split_batch = *splits;
    CADRE_TRY(cadre_local_open(segment, index, &exchange.world, &err));
    cadre_status rc = cadre_exchange_init(&exchange);
    if (rc == CADRE_OK)
        rc = cadre_exchange_losses(&exchange, NULL, 1, &seen[index].outcome);
    cadre_exchange_fini(&exchange);
    cadre_comm_destroy(exchange.world);
    return rc;
}

START_TEST(speeds_are_those_of_the_slowest)
{
    const struct cadre_local_config config = {.size = RANKS, .timeout_s = 60};
    struct cadre_error err = {0};
    bool splits = _i;
    memset(seen, 0, sizeof seen);
    cadre_status rc = cadre_launch_threads(&config, NULL, speeds_main, &splits, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < RANKS; i++)
            ck_assert_double_eq(seen[r].data_s[i], splits ? i + 1 : i == 0 ? RANKS : 0);
}
END_TEST

START_TEST(one_rank_has_what_it_says)
{
    const struct cadre_mesh mesh = {.ranks = 1};
    struct cadre_timeline timeline = {0};
    struct cadre_exchange exchange = {.mesh = &mesh,
                                      .timeline = &timeline,
                                      .n_losses = 2,
                                      .votes = {.save_failed = true}};
    struct cadre_exchange_outcome outcome;
    const double losses[2] = {5, 7};
    ck_assert_int_eq(cadre_exchange_init(&exchange), CADRE_OK);
    ck_assert_int_eq(cadre_exchange_losses(&exchange, losses, 1, &outcome), CADRE_OK);
    ck_assert_double_eq(exchange.values[1], 7);
    ck_assert(outcome.votes.save_failed && !outcome.votes.stop);
    cadre_exchange_fini(&exchange);
    ck_assert_ptr_null(exchange.values);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("exchange");
    TCase *tc = tcase_create("exchange");
    tcase_add_loop_test(tc, losses_and_votes_are_those_of_all, 0, 2);
    tcase_add_loop_test(tc, speeds_are_those_of_the_slowest, 0, 2);
    tcase_add_test(tc, one_rank_has_what_it_says);
    suite_add_tcase(suite, tc);
    return suite;
}

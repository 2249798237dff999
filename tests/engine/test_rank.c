/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/launch/launch.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

static struct rank_fixture f;

static void setup(void)
{
    rank_fixture_open(&f);
}

static void teardown(void)
{
    rank_fixture_close(&f);
}

START_TEST(training_lowers_the_loss_and_repeats)
{
    double first = 0, last = 0;
    uint64_t hash = 0;
    for (int run = 0; run < 2; run++) {
        rank_fixture_start(&f);
        first = rank_fixture_step(&f, 1).loss;
        for (uint64_t step = 2; step <= 30; step++)
            last = rank_fixture_step(&f, step).loss;
        ck_assert_int_eq(cadre_rank_drain(&f.rank), CADRE_OK);
        uint64_t now = rank_fixture_params(&f);
        ck_assert(run == 0 || now == hash);
        hash = now;
        rank_fixture_stop(&f);
    }
    ck_assert_double_lt(last, 0.7 * first);
}
END_TEST

START_TEST(a_batch_that_does_not_divide_names_both_keys)
{
    f.spec.micro_batch = _i ? 3 : 0;
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 0, &f.err);
    ck_assert_int_eq(rc, CADRE_E_INVALID);
    ck_assert_ptr_nonnull(strstr(f.err.text, "train.global_batch = 8"));
    ck_assert_ptr_nonnull(strstr(f.err.text, "train.micro_batch = "));
    cadre_rank_fini(&f.rank);
}
END_TEST

/* A rank may be freed at every stage, and a zeroed one too. */
START_TEST(ends_at_every_stage)
{
    cadre_rank_fini(&f.rank);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    rank_fixture_stop(&f);
    f.spec.device.kind = "nonsense";
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    ck_assert_int_ne(cadre_rank_bind(&f.rank, NULL, 0, &f.err), CADRE_OK);
    rank_fixture_stop(&f);
    f.spec.device.kind = "cpu";
    rank_fixture_start(&f);
}
END_TEST

static cadre_status off_the_chunk(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    return abi->place_range(abi->h, 0, CADRE_KIND_OPT, 1, 5, 0);
}

START_TEST(an_optimizer_range_begins_on_a_chunk)
{
    const struct cadre_strategy_ops ops = {.plan = off_the_chunk};
    rank_fixture_plug(&f, "odd", CADRE_ROLE_DATA, 1, &ops);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(f.err.text, "[1, +5)"));
    ck_assert_ptr_nonnull(strstr(f.err.text, "expected whole units of 4096"));
}
END_TEST

static cadre_status claim_sums(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    return abi->claim(abi->h, "act.complete", "sums", 0);
}

static cadre_status claim_rows(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    return abi->claim(abi->h, "seq.shard", "sums", 0);
}

static cadre_status complete(struct cadre_self *self,
                             const struct cadre_redistribute_ev *ev)
{
    (void)self;
    (void)ev;
    return CADRE_OK;
}

static void refuses_to_plan(const char *text)
{
    cadre_status rc = cadre_rank_plan(&f.rank, &f.spec, 0, &f.err);
    ck_assert_int_eq(rc, CADRE_E_UNSUPPORTED);
    ck_assert_msg(strstr(f.err.text, text), "%s", f.err.text);
    rank_fixture_stop(&f);
    f.err = (struct cadre_error){0};
}

START_TEST(a_plugin_completes_sharded_activations)
{
    const struct cadre_strategy_ops none = {.struct_size = sizeof none};
    const struct cadre_strategy_ops mute = {.plan = claim_sums};
    const struct cadre_strategy_ops sums = {.plan = claim_sums,
                                            .on_redistribute = complete};
    const struct cadre_strategy_ops rows = {.plan = claim_rows};
    const struct cadre_strategy_ops *intra[] = {&none, &mute, &sums};
    const char *says[] = {
        "sharded over 2 ranks, but no plugin claims act.complete",
        "plugin 'sums' claims act.complete, but has no on_redistribute",
        "'rows' claims seq.shard, but 'sums' claims act.complete"};
    rank_fixture_plug(&f, "sums", CADRE_ROLE_INTRA, 2, intra[_i]);
    if (_i == 2)
        rank_fixture_plug(&f, "rows", CADRE_ROLE_OBSERVER, 1, &rows);
    refuses_to_plan(says[_i]);
}
END_TEST

static cadre_status split_batch(struct cadre_self *self, const struct cadre_plan *abi)
{
    (void)self;
    cadre_status rc = abi->use_axis(abi->h, "data", CADRE_BATCH_SPLIT);
    return rc == CADRE_OK ? abi->claim(abi->h, "grad.reduce", "data", 0) : rc;
}

START_TEST(the_print_shows_placement_and_memory)
{
    const struct cadre_strategy_ops ops = {.plan = split_batch};
    char *text = NULL, total[64];
    size_t size;
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &ops);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 1, &f.err), CADRE_OK);
    FILE *out = open_memstream(&text, &size);
    uint64_t bytes = cadre_rank_print(&f.rank, out);
    fclose(out);
    snprintf(total, sizeof total, " %.3f MiB\n", (double)bytes / 1048576.0);
    ck_assert_ptr_nonnull(strstr(strstr(text, "total"), total));
    ck_assert_ptr_nonnull(strstr(text, "rank 1 of 2  data 1/2"));
    ck_assert_msg(!strstr(text, "claims"), "claims are printed for rank 0 alone");
    ck_assert_ptr_nonnull(strstr(text, "micro-batches: 2 of 4, from 2, every 1"));
    ck_assert_ptr_nonnull(strstr(text, "optimizer states"));
    free(text);
}
END_TEST

START_TEST(the_print_of_rank_0_shows_claims)
{
    const struct cadre_strategy_ops ops = {.plan = split_batch};
    char *text = NULL;
    size_t size;
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &ops);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    FILE *out = open_memstream(&text, &size);
    ck_assert_uint_gt(cadre_rank_print(&f.rank, out), 0);
    fclose(out);
    ck_assert_ptr_nonnull(strstr(text, "claims grad.reduce@data"));
    free(text);
}
END_TEST

/* ---- two ranks ---- */

static struct cadre_run_spec specs[2];
static char said[2][1024];
static bool is_owner[2];
static double sums[2];
static bool differ; /* the ranks' runs differ */
static double norms[2], own_norms[2];

static double norm_of_own_grads(const struct cadre_rank *rank)
{
    double sum = 0;
    for (uint32_t i = 0; i < rank->model->n_params; i++) {
        const float *grad = rank->store.param[i].grad;
        for (uint64_t e = 0; e < rank->store.param[i].count; e++)
            if (rank->model->params[i].tied_to < 0)
                sum += (double)grad[e] * grad[e];
    }
    return sqrt(sum);
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    (void)arg;
    struct cadre_rank rank;
    struct cadre_comm *world = NULL;
    struct cadre_error err = {0};
    struct cadre_step_report report;
    CADRE_TRY(cadre_local_open(segment, index, &world, &err));
    cadre_status rc = cadre_rank_plan(&rank, &specs[index], index, &err);
    if (rc == CADRE_OK) {
        rc = cadre_rank_bind(&rank, world, 0, &err);
        if (rc == CADRE_OK) {
            rank.exchange.votes.stop = index == 1;
            rc = cadre_rank_step(&rank, 1, &report);
            is_owner[index] = cadre_rank_is_primary_owner(&rank, 0);
            norms[index] = report.grad_norm;
            own_norms[index] = norm_of_own_grads(&rank);
            sums[index] = rc == CADRE_OK && report.stop ? report.loss : -1;
        }
        cadre_rank_fini(&rank);
    }
    snprintf(said[index], sizeof said[index], "%s", err.text);
    cadre_comm_destroy(world);
    return rc;
}

static cadre_status run_two(cadre_status (*plan)(struct cadre_self *,
                                                 const struct cadre_plan *),
                            struct cadre_error *err)
{
    const struct cadre_local_config config = {.size = 2, .timeout_s = 60};
    const struct cadre_strategy_ops ops = {.plan = plan};
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &ops);
    specs[0] = f.spec;
    specs[1] = f.spec;
    specs[1].fingerprint += differ;
    return cadre_launch_threads(&config, NULL, rank_main, NULL, err);
}

START_TEST(two_ranks_share_loss_and_votes)
{
    struct cadre_error err = {0};
    cadre_status rc = run_two(split_batch, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_double_gt(sums[0], 0);
    ck_assert_double_eq(sums[0], sums[1]);
    ck_assert(is_owner[0] && !is_owner[1]);
}
END_TEST

static cadre_status train_sweep(struct cadre_self *self, const struct cadre_plan *plan)
{
    cadre_status rc = split_batch(self, plan);
    if (rc == CADRE_OK)
        rc = plan->claim(plan->h, "param.diverges", "data", 0);
    return rc == CADRE_OK ? plan->claim(plan->h, "train.changed", NULL, 1) : rc;
}

/* Also where parts of the norm are on other ranks and are summed. */
static cadre_status train_parts_differing(struct cadre_self *self,
                                          const struct cadre_plan *plan)
{
    cadre_status rc = train_sweep(self, plan);
    return rc == CADRE_OK ? plan->claim(plan->h, "schedule.order", "elsewhere", 0) : rc;
}

START_TEST(diverging_replicas_have_their_own_norm)
{
    struct cadre_error err = {0};
    cadre_status rc = run_two(_i ? train_parts_differing : train_sweep, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    ck_assert_double_ne(own_norms[0], own_norms[1]);
    for (int r = 0; r < 2; r++)
        ck_assert_double_eq_tol(norms[r], own_norms[r], 1e-6 * own_norms[r]);
    ck_assert(is_owner[0] && !is_owner[1]);
}
END_TEST

START_TEST(changes_of_training_are_told)
{
    const struct cadre_strategy_ops ops = {.plan = train_sweep};
    struct cadre_changes changes;
    rank_fixture_start(&f);
    cadre_rank_changes(&f.rank, &changes);
    ck_assert(!changes.diverging && !*changes.by);
    rank_fixture_stop(&f);
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &ops);
    ck_assert_int_eq(cadre_rank_plan(&f.rank, &f.spec, 0, &f.err), CADRE_OK);
    cadre_rank_changes(&f.rank, &changes);
    ck_assert(changes.diverging);
    ck_assert_str_eq(changes.by, "data");
}
END_TEST

START_TEST(ranks_that_differ_are_found)
{
    struct cadre_error err = {0};
    differ = true;
    ck_assert_int_eq(run_two(split_batch, &err), CADRE_E_INVALID);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(strstr(said[r], "rank 1 does not run what rank 0 runs") != NULL,
                      "%s", said[r]);
}
END_TEST

static cadre_status run_independent(struct cadre_self *self,
                                    const struct cadre_plan *plan)
{
    (void)self;
    return plan->use_axis(plan->h, "data", CADRE_BATCH_INDEPENDENT);
}

START_TEST(independent_runs_make_no_world)
{
    struct cadre_error err = {0};
    ck_assert_int_eq(run_two(run_independent, &err), CADRE_E_INVALID);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(strstr(said[r], "its axis 'data' are independent runs"), "%s",
                      said[r]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("rank");
    TCase *tc = tcase_create("rank");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, training_lowers_the_loss_and_repeats);
    tcase_add_loop_test(tc, a_batch_that_does_not_divide_names_both_keys, 0, 2);
    tcase_add_test(tc, ends_at_every_stage);
    tcase_add_loop_test(tc, a_plugin_completes_sharded_activations, 0, 3);
    tcase_add_test(tc, an_optimizer_range_begins_on_a_chunk);
    tcase_add_test(tc, the_print_shows_placement_and_memory);
    tcase_add_test(tc, the_print_of_rank_0_shows_claims);
    tcase_add_test(tc, two_ranks_share_loss_and_votes);
    tcase_add_loop_test(tc, diverging_replicas_have_their_own_norm, 0, 2);
    tcase_add_test(tc, changes_of_training_are_told);
    tcase_add_test(tc, ranks_that_differ_are_found);
    tcase_add_test(tc, independent_runs_make_no_world);
    suite_add_tcase(s, tc);
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin, one rank of it, against a host that plays the others. */
#include <stdlib.h>
#include <string.h>

#include "core/plugin/plugin.h"
#include "tests/plugins/fake_stage.h"
#include "tests/support/check_main.h"

static const struct cadre_plugin_handle *plugin;
static struct fake_stage stage;

static void set_stage(uint32_t schedule, uint32_t stages, uint32_t chunks,
                      uint32_t microbatches, uint32_t rank)
{
    struct pipeline_shape shape = {schedule, stages, chunks, microbatches};
    fake_stage_set(&stage, &shape, rank);
}

static cadre_status start(void)
{
    cadre_status rc = plugin->ops.create(&stage.host, &stage.values, &stage.self);
    if (rc)
        return rc;
    rc = plugin->ops.plan(stage.self, &stage.plan);
    if (!rc)
        rc = plugin->ops.bind(stage.self);
    return rc;
}

static void stop(void)
{
    if (stage.self)
        plugin->ops.destroy(stage.self);
    for (uint32_t i = 0; i < stage.n_held; i++)
        free(stage.held[i].data);
    pipeline_list_fini(&stage.list);
}

static cadre_status run_step(void)
{
    struct cadre_step step = {.struct_size = sizeof step,
                              .n_microbatches = stage.shape.microbatches};
    stage.at = stage.n_recv = stage.n_send = 0;
    return plugin->ops.step(stage.self, &step, NULL);
}

static void load(void)
{
    struct cadre_error err = {0};
    cadre_status rc = cadre_plugin_load("pipeline", NULL, &plugin, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

/* ---- tests ---- */

/* Blocks kept at once at most; of the units the first and the last are none. */
static uint32_t most_blocks(void)
{
    uint32_t n = 0, most = 0;
    for (uint32_t i = 0; i < stage.list.n; i++) {
        const struct pipeline_action *a = &stage.list.action[i];
        for (uint32_t u = stage.begin[a->chunk]; u < stage.end[a->chunk]; u++)
            if (u > 0 && u + 1 < FAKE_UNITS)
                n += a->kind == PIPELINE_FORWARD ? 1u : -1u;
        most = n > most ? n : most;
    }
    return most;
}

static void check_rank(uint32_t schedule, uint32_t p, uint32_t v, uint32_t m,
                       uint32_t rank)
{
    set_stage(schedule, p, v, m, rank);
    ck_assert_msg(start() == CADRE_OK, "%s", stage.failure);
    ck_assert_int_eq(pipeline_list_init(&stage.list, &stage.shape, rank), 0);
    ck_assert_uint_eq(stage.planned, stage.taken);
    for (uint32_t c = 0; c < v; c++) {
        ck_assert_uint_eq(stage.live[c], pipeline_list_live(&stage.list, c));
        ck_assert_uint_eq(stage.flags[c],
                          schedule == PIPELINE_ZB_H1 ? CADRE_LIVE_SPLIT : 0);
    }
    ck_assert_uint_eq(stage.live_blocks, v > 1 ? most_blocks() : 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(run_step() == CADRE_OK, "%s", stage.failure);
        ck_assert_uint_eq(stage.at, stage.list.n);
        ck_assert_int_eq(plugin->ops.sync(stage.self, CADRE_SYNC_GRADS), CADRE_OK);
        for (uint32_t b = 0; b < stage.n_held; b++)
            ck_assert(stage.held[b].send == 0 && stage.held[b].recv == 0);
    }
    stop();
}

START_TEST(each_pass_gets_what_belongs_to_it)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 8, 13};
    for (uint32_t schedule = PIPELINE_GPIPE; schedule <= PIPELINE_ZB_H1; schedule++)
        for (uint32_t p = 2; p <= 5; p++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (uint32_t rank = 0; rank < p; rank++)
                    check_rank(schedule, p, schedule == PIPELINE_INTERLEAVED ? 2 : 1,
                               sizes[i], rank);
    for (uint32_t rank = 0; rank < 4; rank++)
        check_rank(PIPELINE_INTERLEAVED, 4, 5, 6, rank);
}
END_TEST

START_TEST(one_rank_needs_no_others)
{
    for (uint32_t schedule = PIPELINE_GPIPE; schedule <= PIPELINE_ZB_H1; schedule++)
        check_rank(schedule, 1, 1, 3, 0);
}
END_TEST

START_TEST(a_second_plan_replaces_the_first)
{
    set_stage(PIPELINE_1F1B, 3, 1, 2, 0);
    ck_assert_int_eq(start(), CADRE_OK);
    stage.n_chunks = 0;
    stage.plan.rank_microbatches = 9;
    ck_assert_int_eq(plugin->ops.plan(stage.self, &stage.plan), CADRE_OK);
    ck_assert_uint_eq(stage.live[0], 3);
    stop();
    /* a host of before: all micro-batches of the step */
    set_stage(PIPELINE_GPIPE, 3, 1, 2, 0);
    stage.plan.struct_size = offsetof(struct cadre_plan, rank_microbatches);
    ck_assert_int_eq(start(), CADRE_OK);
    ck_assert_uint_eq(stage.live[0], 4);
    stop();
}
END_TEST

START_TEST(measured_seconds_move_the_cut)
{
    set_stage(PIPELINE_1F1B, 2, 1, 2, 0);
    stage.balance = "measured";
    ck_assert_int_eq(start(), CADRE_OK); /* not measured yet: counted */
    ck_assert_uint_eq(stage.end[0], 24);
    stop();
    set_stage(PIPELINE_1F1B, 2, 1, 2, 0);
    stage.balance = "measured";
    stage.seconds = 0.001;
    ck_assert_int_eq(start(), CADRE_OK);
    ck_assert_uint_eq(stage.end[0], 1);
    stop();
}
END_TEST

START_TEST(failures_come_back)
{
    set_stage(PIPELINE_1F1B, 2, 1, 4, 0);
    stage.fail_alloc = 2;
    ck_assert_int_eq(start(), CADRE_E_RESOURCE);
    ck_assert_ptr_nonnull(strstr(stage.failure, "no memory for activations"));
    stop();
    for (int i = 1; i <= 8; i++) {
        set_stage(PIPELINE_1F1B, 2, 1, 4, 0);
        ck_assert_int_eq(start(), CADRE_OK);
        ck_assert_int_eq(pipeline_list_init(&stage.list, &stage.shape, 0), 0);
        stage.fail_pass = i;
        ck_assert_int_eq(run_step(), CADRE_E_DEVICE);
        stage.fail_pass = 0;
        stage.fail_post = stage.posts + i;
        for (uint32_t b = 0; b < stage.n_held; b++)
            stage.held[b].send = stage.held[b].recv = 0;
        ck_assert_int_eq(run_step(), CADRE_E_COMM);
        stop();
    }
}
END_TEST

START_TEST(another_number_of_micro_batches_is_refused)
{
    set_stage(PIPELINE_1F1B, 2, 1, 4, 0);
    ck_assert_int_eq(start(), CADRE_OK);
    stage.shape.microbatches = 5;
    ck_assert_int_eq(run_step(), CADRE_E_INTERNAL);
    stop();
}
END_TEST

START_TEST(refusals_say_why)
{
    static const struct {
        uint32_t schedule, stages;
        int64_t chunks;
        const char *balance, *text;
    } cases[] = {
        {PIPELINE_1F1B, 41, 0, "counted",
         "strategy.stack has 41 stages and pipeline.chunks is 1: 41 pieces, but the "
         "model has 40 units (embedding, model.layers = 38, head); use fewer stages or "
         "chunks, or more layers"},
        {PIPELINE_1F1B, 2, 2, "counted",
         "pipeline.chunks = 2 with pipeline.schedule = 1f1b: expected 1, or schedule = "
         "interleaved"},
        {PIPELINE_INTERLEAVED, 2, 1, "counted",
         "pipeline.chunks = 1 with pipeline.schedule = interleaved: expected 2 or "
         "more, or schedule = 1f1b"},
        {PIPELINE_GPIPE, 2, 0, "20, 20",
         "pipeline.balance: expected counted, measured, or the number of units of each "
         "piece as in '3 2 2 3', found '20, 20'"},
        {PIPELINE_GPIPE, 2, 0, "20 21",
         "pipeline.balance = 20 21 is 2 pieces of 41 units, expected 2 pieces "
         "(strategy.stack x pipeline.chunks) of 40 units (embedding, model.layers = "
         "38, head)"},
        {PIPELINE_INTERLEAVED, 1, 2, "20 20",
         "pipeline.balance = 20 20 is 2 pieces of 40 units, expected 1 pieces "
         "(a single stage has no chunks) of 40 units (embedding, model.layers = 38, "
         "head)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_stage(cases[i].schedule, cases[i].stages, 1, 4, 0);
        stage.chunks = cases[i].chunks;
        stage.balance = cases[i].balance;
        ck_assert_int_lt(start(), 0);
        ck_assert_str_eq(stage.failure, cases[i].text);
        stop();
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("pipeline");
    TCase *tc = tcase_create("plugin");
    tcase_add_checked_fixture(tc, load, NULL);
    tcase_add_test(tc, each_pass_gets_what_belongs_to_it);
    tcase_add_test(tc, one_rank_needs_no_others);
    tcase_add_test(tc, a_second_plan_replaces_the_first);
    tcase_add_test(tc, measured_seconds_move_the_cut);
    tcase_add_test(tc, failures_come_back);
    tcase_add_test(tc, another_number_of_micro_batches_is_refused);
    tcase_add_test(tc, refusals_say_why);
    suite_add_tcase(s, tc);
    return s;
}

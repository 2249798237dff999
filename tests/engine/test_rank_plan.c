/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a rank, and the calls on axes, micro-batches and chunks that make it. */
#include <stdlib.h>
#include <string.h>

#include "core/engine/execute/accumulation.h"
#include "tests/engine/plan_fixture.h"
#include "tests/support/check_main.h"

static struct plan_fixture f;
static const struct cadre_plan *one, *two, *schedule;

static void plug(void)
{
    one = plan_fixture_plugin(&f, "ddp", "dp", CADRE_ROLE_DATA);
    two = plan_fixture_plugin(&f, "zero", "dp", CADRE_ROLE_DATA);
    schedule = plan_fixture_plugin(&f, "pipeline", "pp", CADRE_ROLE_SCHEDULE);
}

/* Rank 2 of dp:4 with eight micro-batches. */
static void setup(void)
{
    const struct cadre_axis_request axes[] = {{"dp", 4, "ddp"}};
    plan_fixture_open(&f, axes, 1, 2);
    plug();
}

static void teardown(void)
{
    plan_fixture_close(&f);
}

/* Another mesh for the same plugins. */
static void reopen(const struct cadre_axis_request *axes, int n, int rank)
{
    plan_fixture_close(&f);
    plan_fixture_open(&f, axes, n, rank);
    plug();
}

/* ---- what a plugin is told ---- */

START_TEST(the_abi_says_what_the_run_is)
{
    ck_assert_uint_eq(one->struct_size, sizeof *one);
    ck_assert_uint_eq(one->rank, 2);
    ck_assert_uint_eq(one->ranks, 4);
    ck_assert_uint_eq(one->n_units, 4);
    ck_assert_uint_eq(one->microbatches, 8);
    ck_assert_uint_eq(one->rank_microbatches, 8);
    ck_assert_uint_eq(one->channels, 8);
    ck_assert_uint_eq(one->dtype, CADRE_F32);
    ck_assert_uint_eq(one->grad_dtype, CADRE_F32);
    ck_assert_uint_eq(one->range_unit, CADRE_NORM_CHUNK);
    ck_assert_str_eq(one->axis, "dp");
    ck_assert_ptr_null(
        plan_fixture_plugin(&f, "watch", NULL, CADRE_ROLE_OBSERVER)->axis);
    f.request.data_ranks = 4;
    const struct cadre_plan *later = plan_fixture_plugin(&f, "a", "dp", 4);
    ck_assert_uint_eq(later->rank_microbatches, 2);
    f.request.rank_microbatches = 3;
    later = plan_fixture_plugin(&f, "b", "dp", 4);
    ck_assert_uint_eq(later->rank_microbatches, 3);
    ck_assert_int_eq(f.plan.n_members, 6);
    ck_assert_str_eq(f.plan.member[1], "zero");
}
END_TEST

/* A plugin that keeps the plan gets an answer, as long as the memory is there. */
START_TEST(a_plan_that_has_ended_refuses)
{
    cadre_plan_session_end(&f.session[0]);
    const char *text = "of struct cadre_plan is called after plan has returned";
    plan_fixture_refused(&f, one->use_axis(one->h, "dp", CADRE_BATCH_SPLIT), text);
    plan_fixture_refused(&f, one->claim(one->h, "opt.shard", "dp", 0), text);
    plan_fixture_refused(&f, one->reduces(one->h, "dp", 0), text);
    plan_fixture_refused(&f, one->by_design(one->h, "a=1"), text);
    plan_fixture_refused(&f, one->microbatch_map(one->h, 1, NULL), text);
    plan_fixture_refused(&f, one->period(one->h, 1), text);
    plan_fixture_refused(&f, one->chunk(one->h, 0, 1, 1, 0), text);
    plan_fixture_refused(&f, one->live_blocks(one->h, 1), text);
    plan_fixture_refused(&f, one->place_range(one->h, 1, 1, 0, 0, 0), text);
    plan_fixture_refused(&f, one->memory(one->h, 0, 1, "x"), text);
    plan_fixture_refused(&f, one->train(one->h, 1, 0), text);
    plan_fixture_refused(&f, one->store(one->h, 1, 0), text);
    plan_fixture_refused(&f, one->product_axis(one->h, "a*b"), text);
    plan_fixture_refused(&f, one->split_axis(one->h, "dp", 2), text);
    plan_fixture_refused(&f, one->opt_state(one->h, NULL), text);
    plan_fixture_refused(&f, one->opt_matrix(one->h, 1), text);
    ck_assert_int_eq(one->use_axis(NULL, "dp", CADRE_BATCH_SPLIT), CADRE_E_INVALID);
    ck_assert_int_eq(f.said.code, CADRE_OK);
}
END_TEST

START_TEST(the_first_refusal_counts)
{
    one->use_axis(one->h, "tp", CADRE_BATCH_SAME);
    two->use_axis(two->h, "pp", CADRE_BATCH_SAME);
    plan_fixture_refused(&f, CADRE_E_INVALID,
                         "plugin 'ddp' in plan: use_axis uses the "
                         "axis 'tp'");
}
END_TEST

/* ---- axes ---- */

START_TEST(axes_are_those_of_the_run)
{
    plan_fixture_refused(&f, one->use_axis(one->h, "tp", CADRE_BATCH_SAME),
                         "use_axis uses the axis 'tp', which this run does not have; "
                         "the plugin's own is 'dp' (plan->axis)");
    plan_fixture_refused(&f, one->use_axis(one->h, NULL, CADRE_BATCH_SAME),
                         "use_axis: the axis is NULL");
    plan_fixture_refused(&f, one->use_axis(one->h, "dp", 7),
                         "expected CADRE_BATCH_SPLIT");
    plan_fixture_refused(&f, one->use_axis(one->h, "dp", 0),
                         "expected CADRE_BATCH_SPLIT");
    plan_fixture_refused(&f, one->use_axis(one->h, "dp", CADRE_BATCH_FREE),
                         "use_axis('dp', CADRE_BATCH_FREE): ranks that meet in DRAIN "
                         "only are reserved");
    ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
    ck_assert_int_eq(cadre_mesh_data_size(&f.mesh), 4);
    ck_assert_str_eq(f.mesh.axis[0].user, "ddp");
}
END_TEST

START_TEST(runs_of_their_own_see_the_whole_batch)
{
    const struct cadre_axis_request axes[] = {{"dp", 4, "ddp"}, {"mig", 2, "mig"}};
    reopen(axes, 2, 5);
    ck_assert_int_eq(one->use_axis(one->h, "mig", CADRE_BATCH_INDEPENDENT), CADRE_OK);
    ck_assert_ptr_eq(cadre_mesh_own_runs(&f.mesh), cadre_mesh_axis(&f.mesh, "mig"));
    ck_assert_int_eq(cadre_mesh_data_size(&f.mesh), 1);
    plan_fixture_refused(&f, two->use_axis(two->h, "dp", CADRE_BATCH_INDEPENDENT),
                         "'zero' makes independent runs along the axis 'dp', and "
                         "another plugin along 'mig'");
    ck_assert_int_eq(one->use_axis(one->h, "mig", CADRE_BATCH_SAME), CADRE_OK);
    ck_assert_ptr_null(cadre_mesh_own_runs(&f.mesh));
}
END_TEST

START_TEST(an_axis_is_used_in_one_way)
{
    ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_SAME), CADRE_OK);
    plan_fixture_refused(
        &f, two->use_axis(two->h, "dp", CADRE_BATCH_SPLIT),
        "strategy.stack: 'ddp' uses the axis 'dp' as CADRE_BATCH_SAME, "
        "and 'zero' as CADRE_BATCH_SPLIT");
    ck_assert_int_eq(two->use_axis(two->h, "dp", CADRE_BATCH_SAME), CADRE_OK);
}
END_TEST

START_TEST(time_is_split_and_samples_are_not)
{
    ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_TIME), CADRE_OK);
    ck_assert(f.mesh.axis[0].split_time && !f.mesh.axis[0].split_batch);
    ck_assert_int_eq(cadre_mesh_time_size(&f.mesh), 4);
    ck_assert_int_eq(cadre_mesh_time_index(&f.mesh), 2);
    ck_assert_int_eq(cadre_mesh_data_size(&f.mesh), 1);
    ck_assert_int_eq(cadre_mesh_data_index(&f.mesh), 0);
}
END_TEST

/* They are there after the call, for claims and for the mesh. */
START_TEST(axes_are_made_of_axes)
{
    const struct cadre_axis_request axes[] = {{"rep", 2, "hsdp"}, {"dp", 4, "zero"}};
    reopen(axes, 2, 6);
    plan_fixture_refused(&f, one->reduces(one->h, "rep*dp", 0), "the axis 'rep*dp'");
    ck_assert_int_eq(one->product_axis(one->h, "rep*dp"), CADRE_OK);
    ck_assert_int_eq(two->product_axis(two->h, "rep*dp"), CADRE_OK);
    ck_assert_int_eq(one->reduces(one->h, "rep*dp", 0), CADRE_OK);
    ck_assert_int_eq(two->split_axis(two->h, "dp", 2), CADRE_OK);
    ck_assert_int_eq(f.mesh.n_derived, 3);
    ck_assert_str_eq(f.mesh.derived[0].user, "ddp");
    plan_fixture_refused(&f, one->split_axis(one->h, "dp", 4),
                         "plugin 'ddp' in plan: split_axis: the axis 'dp.outer' has 2 "
                         "ranks already");
    plan_fixture_refused(&f, one->split_axis(one->h, "dp", 3), "do not divide it");
    plan_fixture_refused(&f, one->split_axis(one->h, NULL, 2), "the axis is NULL");
    plan_fixture_refused(&f, one->product_axis(one->h, NULL), "the product is NULL");
    plan_fixture_refused(&f, one->product_axis(one->h, "rep*tp"),
                         "product_axis: 'rep*tp' is to be made of the axis 'tp'");
    plan_fixture_refused(&f, one->use_axis(one->h, "dp.inner", CADRE_BATCH_SPLIT),
                         "it is made of other axes");
    plan_fixture_again(&f);
    ck_assert_int_eq(f.mesh.n_derived, 0);
}
END_TEST

/* ---- micro-batches ---- */

START_TEST(block_and_cyclic_maps)
{
    ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
    ck_assert_int_eq(one->reduces(one->h, "dp", 0), CADRE_OK);
    if (_i)
        ck_assert_int_eq(one->microbatch_map(one->h, CADRE_MICROBATCHES_CYCLIC, NULL),
                         CADRE_OK);
    plan_fixture_finish(&f);
    ck_assert_int_eq(f.plan.n_microbatches, 2);
    ck_assert_int_eq(f.plan.first_microbatch, _i ? 2 : 4);
    ck_assert_int_eq(f.plan.microbatch_stride, _i ? 4 : 1);
    ck_assert_int_eq(cadre_rank_plan_data_rank(&f.plan, 5), _i ? 1 : 2);
    ck_assert_int_eq(f.plan.cyclic, _i);
    ck_assert_uint_eq(f.plan.map,
                      _i ? CADRE_MICROBATCHES_CYCLIC : CADRE_MICROBATCHES_BLOCK);
}
END_TEST

START_TEST(without_a_split_every_rank_has_all_microbatches)
{
    ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_SAME), CADRE_OK);
    plan_fixture_finish(&f);
    ck_assert_int_eq(f.plan.n_microbatches, 8);
    ck_assert_int_eq(f.plan.first_microbatch, 0);
}
END_TEST

START_TEST(two_microbatch_maps_conflict)
{
    static const uint64_t ranges[] = {0, 1, 2, 3, 8}, others[] = {0, 1, 2, 4, 8};
    ck_assert_int_eq(one->microbatch_map(one->h, CADRE_MICROBATCHES_BLOCK, NULL),
                     CADRE_OK);
    ck_assert_int_eq(two->microbatch_map(two->h, CADRE_MICROBATCHES_BLOCK, NULL),
                     CADRE_OK);
    plan_fixture_refused(&f,
                         two->microbatch_map(two->h, CADRE_MICROBATCHES_CYCLIC, NULL),
                         "'ddp' and 'zero' want different maps of micro-batches to "
                         "ranks (block and cyclic)");
    ck_assert_int_eq(one->microbatch_map(one->h, CADRE_MICROBATCHES_RANGES, ranges),
                     CADRE_OK);
    ck_assert_int_eq(two->microbatch_map(two->h, CADRE_MICROBATCHES_RANGES, ranges),
                     CADRE_OK);
    plan_fixture_refused(&f,
                         two->microbatch_map(two->h, CADRE_MICROBATCHES_RANGES, others),
                         "(ranges and ranges)");
}
END_TEST

static cadre_status finish(int64_t microbatches, int ranks, bool exact, uint32_t map)
{
    const struct cadre_axis_request axes[] = {{"dp", ranks, "ddp"}};
    reopen(axes, 1, 0);
    f.request.microbatches = microbatches;
    f.request.exact = exact;
    ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
    ck_assert_int_eq(one->reduces(one->h, "dp", 0), CADRE_OK);
    ck_assert_int_eq(one->microbatch_map(one->h, map, NULL), CADRE_OK);
    return cadre_rank_plan_finish(&f.plan, &f.request, &f.err);
}

START_TEST(a_remainder_names_both_keys)
{
    ck_assert_int_eq(finish(8, 3, false, CADRE_MICROBATCHES_BLOCK), CADRE_E_INVALID);
    static const char *const parts[] = {"train.global_batch", "train.micro_batch",
                                        "strategy.stack", "8 micro-batches",
                                        "3 data ranks"};
    for (size_t i = 0; i < 5; i++)
        ck_assert_msg(strstr(f.err.text, parts[i]) != NULL, "%s", f.err.text);
}
END_TEST

START_TEST(exact_needs_powers_of_two)
{
    static const struct {
        int64_t m;
        int n;
        uint32_t map;
        bool good;
    } cases[] = {
        {12, 4, CADRE_MICROBATCHES_BLOCK, false},
        {12, 3, CADRE_MICROBATCHES_BLOCK, true},
        {24, 3, CADRE_MICROBATCHES_BLOCK, true},
        {16, 4, CADRE_MICROBATCHES_BLOCK, true},
        {12, 4, CADRE_MICROBATCHES_CYCLIC, true},
        {12, 3, CADRE_MICROBATCHES_CYCLIC, false},
        {7, 1, CADRE_MICROBATCHES_BLOCK, true},
        {7, 1, CADRE_MICROBATCHES_CYCLIC, true},
    };
    ck_assert_int_eq(finish(cases[_i].m, cases[_i].n, false, cases[_i].map), CADRE_OK);
    cadre_status rc = finish(cases[_i].m, cases[_i].n, true, cases[_i].map);
    if (cases[_i].good) {
        ck_assert_msg(rc == CADRE_OK, "%s", f.err.text);
    } else {
        ck_assert_int_ne(rc, CADRE_OK);
        ck_assert_msg(strstr(f.err.text, "run.exact") != NULL, "%s", f.err.text);
    }
}
END_TEST

/* Any count of consecutive ones a rank, in exact mode too. */
START_TEST(ranges_of_microbatches)
{
    static const uint64_t first[] = {0, 1, 4, 5, 8};
    const struct cadre_axis_request axes[] = {{"dp", 4, "ddp"}};
    for (int r = 0; r < 4; r++) {
        reopen(axes, 1, r);
        f.request.exact = _i;
        ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
        ck_assert_int_eq(one->reduces(one->h, "dp", 0), CADRE_OK);
        ck_assert_int_eq(one->microbatch_map(one->h, CADRE_MICROBATCHES_RANGES, first),
                         CADRE_OK);
        plan_fixture_finish(&f);
        ck_assert_int_eq(f.plan.first_microbatch, (int64_t)first[r]);
        ck_assert_int_eq(f.plan.n_microbatches, (int64_t)(first[r + 1] - first[r]));
        ck_assert_int_eq(f.plan.microbatch_stride, 1);
        ck_assert_uint_eq(f.plan.map, CADRE_MICROBATCHES_RANGES);
        for (int i = 0; i < 8; i++)
            ck_assert_int_eq(cadre_rank_plan_data_rank(&f.plan, i), i == 0  ? 0
                                                                    : i < 4 ? 1
                                                                    : i < 5 ? 2
                                                                            : 3);
        for (int other = 0; other < 4; other++) {
            int64_t begin, end;
            cadre_rank_plan_microbatches(&f.plan, &f.mesh.axis[0], other, &begin, &end);
            ck_assert_int_eq(begin, (int64_t)first[other]);
            ck_assert_int_eq(end, (int64_t)first[other + 1]);
        }
    }
}
END_TEST

/* Two levels would have to sum nodes of the tree; without run.exact any sum will do. A
 * level along one rank sums nothing. */
START_TEST(exact_ranges_have_one_reducer)
{
    static const uint64_t first[] = {0, 1, 4, 5, 8};
    for (int size = 1; size <= 2; size++) {
        const struct cadre_axis_request axes[] = {{"dp", 4 / size, "ddp"},
                                                  {"rep", size, "hsdp"}};
        reopen(axes, 2, 0);
        f.request.exact = _i;
        const struct cadre_plan *outer =
            plan_fixture_plugin(&f, "hsdp", "rep", CADRE_ROLE_DATA);
        ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
        ck_assert_int_eq(one->reduces(one->h, "dp", 0), CADRE_OK);
        ck_assert_int_eq(outer->use_axis(outer->h, "rep", CADRE_BATCH_SPLIT), CADRE_OK);
        ck_assert_int_eq(outer->reduces(outer->h, "rep", 16), CADRE_OK);
        ck_assert_int_eq(one->microbatch_map(one->h, CADRE_MICROBATCHES_RANGES, first),
                         CADRE_OK);
        if (size == 2 && _i)
            plan_fixture_cannot(&f, "run.exact with ranges of micro-batches "
                                    "(microbatch_map of plugin 'ddp') takes one plugin "
                                    "that reduces gradients, found 'ddp' and 'hsdp'");
        else
            plan_fixture_finish(&f);
    }
}
END_TEST

START_TEST(wrong_ranges_are_refused)
{
    static const uint64_t wrong[][6] = {
        {1, 2, 3, 4, 8}, {0, 2, 2, 4, 8},    {0, 4, 2, 6, 8},
        {0, 2, 4, 6, 9}, {0, 1, 2, 3, 4, 8}, {0, 2, 4, 6, 7, 7},
    };
    plan_fixture_refused(
        &f, one->microbatch_map(one->h, CADRE_MICROBATCHES_RANGES, wrong[_i]),
        "does not ascend from 0 to 8 in at most 5 entries");
    ck_assert_ptr_null(f.plan.first);
}
END_TEST

START_TEST(maps_are_of_a_kind)
{
    static const uint64_t first[] = {0, 8};
    plan_fixture_refused(&f, one->microbatch_map(one->h, 0, NULL),
                         "microbatch_map(0): expected CADRE_MICROBATCHES_BLOCK");
    plan_fixture_refused(&f, one->microbatch_map(one->h, 4, first),
                         "microbatch_map(4): expected");
    plan_fixture_refused(&f,
                         one->microbatch_map(one->h, CADRE_MICROBATCHES_RANGES, NULL),
                         "`first` is NULL");
    plan_fixture_refused(&f,
                         one->microbatch_map(one->h, CADRE_MICROBATCHES_BLOCK, first),
                         "`first` is given");
}
END_TEST

/* A plan that was made before the number of data ranks was known is made again. */
START_TEST(ranges_are_for_all_data_ranks)
{
    static const uint64_t two_ranks[] = {0, 3, 8};
    for (int known = 0; known < 2; known++) {
        plan_fixture_again(&f);
        plug();
        f.request.data_ranks = known ? 4 : 0;
        ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
        ck_assert_int_eq(one->reduces(one->h, "dp", 0), CADRE_OK);
        ck_assert_int_eq(
            one->microbatch_map(one->h, CADRE_MICROBATCHES_RANGES, two_ranks),
            CADRE_OK);
        if (known)
            plan_fixture_cannot(&f, "plugin 'ddp' in plan: microbatch_map with ranges "
                                    "for 2 data ranks, expected them for 4");
        else
            plan_fixture_finish(&f);
    }
}
END_TEST

START_TEST(plans_settle)
{
    static const uint64_t first[] = {0, 1, 2, 7, 8};
    for (int pass = 0; pass < 3; pass++) {
        plan_fixture_again(&f);
        plug();
        ck_assert_uint_eq(one->rank_microbatches, pass ? 5 : 8);
        ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
        ck_assert_int_eq(one->reduces(one->h, "dp", 0), CADRE_OK);
        ck_assert_int_eq(one->microbatch_map(one->h, CADRE_MICROBATCHES_RANGES, first),
                         CADRE_OK);
        plan_fixture_finish(&f);
        ck_assert_int_eq(cadre_rank_plan_settled(&f.plan, &f.request), pass > 0);
    }
}
END_TEST

/* ---- periods ---- */

START_TEST(periods_have_a_common_multiple)
{
    ck_assert_uint_eq(cadre_rank_plan_period(&f.plan), 1);
    ck_assert_int_eq(one->period(one->h, 4), CADRE_OK);
    ck_assert_int_eq(two->period(two->h, 6), CADRE_OK);
    ck_assert_uint_eq(cadre_rank_plan_period(&f.plan), 12);
    ck_assert_int_eq(two->period(two->h, 5), CADRE_OK); /* it says another */
    ck_assert_uint_eq(cadre_rank_plan_period(&f.plan), 20);
    plan_fixture_refused(&f, one->period(one->h, 0),
                         "period(0): expected 1 to 1000000");
    plan_fixture_refused(&f, one->period(one->h, 1000001), "period(1000001)");
}
END_TEST

/* ---- chunks ---- */

START_TEST(chunks_are_checked)
{
    static const uint32_t bad[][3] = {{0, 0, 1}, {2, 1, 1}, {0, 5, 1}, {0, 4, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        plan_fixture_refused(
            &f, schedule->chunk(schedule->h, bad[i][0], bad[i][1], bad[i][2], 0),
            "expected 0 <= begin < end <= 4");
    plan_fixture_refused(&f, schedule->chunk(schedule->h, 0, 1, 1, 6),
                         "chunk with the flags 0x6");
    for (int i = 0; i < CADRE_MAX_CHUNKS; i++)
        ck_assert_int_eq(schedule->chunk(schedule->h, 1, 2, 1, 0), CADRE_OK);
    plan_fixture_refused(&f, schedule->chunk(schedule->h, 1, 2, 1, 0),
                         "more than 64 chunks on one rank");
}
END_TEST

START_TEST(only_a_schedule_distributes_units)
{
    plan_fixture_refused(&f, one->chunk(one->h, 0, 4, 1, 0),
                         "plugin 'ddp' in plan: chunk: only a plugin of the role "
                         "CADRE_ROLE_SCHEDULE");
    plan_fixture_refused(&f, one->live_blocks(one->h, 4), "live_blocks: only a plugin");
    ck_assert_int_eq(schedule->live_blocks(schedule->h, 4), CADRE_OK);
    ck_assert_uint_eq(f.plan.live_blocks, 4);
}
END_TEST

START_TEST(presence_follows_the_chunks)
{
    ck_assert_int_eq(schedule->chunk(schedule->h, 1, 2, 3, CADRE_LIVE_SPLIT), CADRE_OK);
    plan_fixture_finish(&f);
    ck_assert(f.plan.chunk[0].split);
    ck_assert_uint_eq(f.plan.chunk[0].live, 3);
    for (uint32_t i = 0; i < f.model->n_params; i++)
        ck_assert_int_eq(f.plan.param[i].present, f.model->params[i].unit == 1);
}
END_TEST

/* Stage 0 owns the weight and waits for the head's gradient, stage 1 keeps a copy. */
START_TEST(a_tied_head_on_another_stage)
{
    uint32_t end = f.model->n_units, head = f.model->n_params - 1;
    ck_assert_int_eq(f.model->params[head].tied_to, 0);
    ck_assert_int_eq(schedule->chunk(schedule->h, _i ? 2 : 0, _i ? end : 2, 1, 0),
                     CADRE_OK);
    plan_fixture_finish(&f);
    ck_assert_int_eq(f.plan.param[0].copied, _i);
    ck_assert_int_eq(f.plan.param[head].elsewhere, !_i);
    ck_assert_int_eq(f.plan.param[0].present, !_i);
}
END_TEST

/* ---- who counts ---- */

/* Of the ranks that hold the same optimizer range, the first does. */
START_TEST(primary_owners)
{
    const struct cadre_axis_request axes[] = {{"rep", 2, "hsdp"}, {"dp", 4, "zero"}};
    for (int r = 0; r < 8; r++) {
        reopen(axes, 2, r);
        ck_assert_int_eq(two->split_axis(two->h, "dp", 2), CADRE_OK);
        ck_assert_int_eq(two->claim(two->h, "opt.shard", "dp.inner", 0), CADRE_OK);
        ck_assert_int_eq(two->place_range(two->h, 1, CADRE_KIND_OPT, 0, 0, 0),
                         CADRE_OK);
        const struct cadre_axis *rep = cadre_mesh_axis(&f.mesh, "rep");
        ck_assert_int_eq(cadre_rank_plan_is_primary_owner(&f.plan, 0, NULL), r == 0);
        ck_assert_int_eq(cadre_rank_plan_is_primary_owner(&f.plan, 1, NULL), r < 2);
        ck_assert_int_eq(cadre_rank_plan_is_primary_owner(&f.plan, 1, rep), r % 4 < 2);
        ck_assert(!cadre_rank_plan_replicated(&f.plan));
    }
}
END_TEST

START_TEST(loss_owners)
{
    const struct cadre_axis_request axes[] = {{"pp", 2, "pipeline"},
                                              {"tp", 2, "tensor"},
                                              {"cp", 2, "context"},
                                              {"dp", 2, "ddp"}};
    for (int r = 0; r < 16; r++) {
        reopen(axes, 4, r);
        ck_assert_int_eq(one->use_axis(one->h, "dp", CADRE_BATCH_SPLIT), CADRE_OK);
        ck_assert_int_eq(one->use_axis(one->h, "cp", CADRE_BATCH_TIME), CADRE_OK);
        ck_assert_int_eq(one->claim(one->h, "schedule.order", "pp", 0), CADRE_OK);
        bool first_part = cadre_mesh_axis(&f.mesh, "tp")->index == 0;
        ck_assert_int_eq(cadre_rank_plan_is_loss_owner(&f.plan), first_part);
    }
}
END_TEST

START_TEST(levels_of_the_accumulation)
{
    static const int levels[] = {0, 0, 1, 2, 2, 3, 3, 3, 3, 4};
    for (int n = 1; n < 10; n++)
        ck_assert_int_eq(cadre_accumulation_levels(n), levels[n]);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("rank_plan");
    TCase *tc = tcase_create("plan");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_abi_says_what_the_run_is);
    tcase_add_test(tc, a_plan_that_has_ended_refuses);
    tcase_add_test(tc, the_first_refusal_counts);
    tcase_add_test(tc, axes_are_those_of_the_run);
    tcase_add_test(tc, runs_of_their_own_see_the_whole_batch);
    tcase_add_test(tc, an_axis_is_used_in_one_way);
    tcase_add_test(tc, time_is_split_and_samples_are_not);
    tcase_add_test(tc, axes_are_made_of_axes);
    tcase_add_loop_test(tc, block_and_cyclic_maps, 0, 2);
    tcase_add_test(tc, without_a_split_every_rank_has_all_microbatches);
    tcase_add_test(tc, two_microbatch_maps_conflict);
    tcase_add_test(tc, a_remainder_names_both_keys);
    tcase_add_loop_test(tc, exact_needs_powers_of_two, 0, 8);
    tcase_add_loop_test(tc, ranges_of_microbatches, 0, 2);
    tcase_add_loop_test(tc, exact_ranges_have_one_reducer, 0, 2);
    tcase_add_loop_test(tc, wrong_ranges_are_refused, 0, 6);
    tcase_add_test(tc, maps_are_of_a_kind);
    tcase_add_test(tc, ranges_are_for_all_data_ranks);
    tcase_add_test(tc, plans_settle);
    tcase_add_test(tc, periods_have_a_common_multiple);
    tcase_add_test(tc, chunks_are_checked);
    tcase_add_test(tc, only_a_schedule_distributes_units);
    tcase_add_test(tc, presence_follows_the_chunks);
    tcase_add_loop_test(tc, a_tied_head_on_another_stage, 0, 2);
    tcase_add_test(tc, primary_owners);
    tcase_add_test(tc, loss_owners);
    tcase_add_test(tc, levels_of_the_accumulation);
    suite_add_tcase(s, tc);
    return s;
}

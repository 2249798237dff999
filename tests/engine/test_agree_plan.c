/* SPDX-License-Identifier: Apache-2.0 */
/* Four ranks, rep:2 x dp:2, whose plans may differ. */
#include <stdio.h>
#include <string.h>

#include "core/engine/layout/agree.h"
#include "core/launch/launch.h"
#include "tests/engine/plan_fixture.h"
#include "tests/support/check_main.h"

#define RANKS 4

/* What the test lets a plugin say on a rank. */
typedef void say_fn(struct plan_fixture *f, const struct cadre_plan *one,
                    const struct cadre_plan *two, int rank);

static say_fn *say;
static struct plan_fixture fixtures[RANKS];
static struct cadre_error errors[RANKS];
static cadre_status results[RANKS];

static cadre_status compare(struct cadre_comm *world, struct plan_fixture *f,
                            struct cadre_error *why)
{
    CADRE_TRY(cadre_agree_plan(world, &f->plan, why));
    CADRE_TRY(cadre_mesh_connect(&f->mesh, world, why));
    return cadre_agree_ranges(&f->plan, why);
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    const struct cadre_axis_request axes[] = {{"rep", 2, "hsdp"}, {"dp", 2, "zero"}};
    struct plan_fixture *f = &fixtures[index];
    struct cadre_comm *world = NULL;
    struct cadre_error err = {0};
    cadre_event done;
    (void)arg;
    CADRE_TRY(cadre_local_open(segment, index, &world, &err));
    plan_fixture_open(f, axes, 2, index);
    const struct cadre_plan *one =
        plan_fixture_plugin(f, "hsdp", "rep", CADRE_ROLE_SCHEDULE);
    const struct cadre_plan *two =
        plan_fixture_plugin(f, "zero", "dp", CADRE_ROLE_DATA);
    one->use_axis(one->h, "rep", CADRE_BATCH_SPLIT);
    one->reduces(one->h, "rep", 16);
    two->use_axis(two->h, "dp", CADRE_BATCH_SPLIT);
    two->reduces(two->h, "dp", 0);
    two->claim(two->h, "opt.shard", "dp", 0);
    say(f, one, two, index);
    plan_fixture_finish(f);
    results[index] = compare(world, f, &errors[index]);
    /* a refused rank leaves only when all have what they wait for */
    cadre_status rc = cadre_comm_barrier(world, "end", 0, &done);
    if (rc == CADRE_OK)
        rc = cadre_comm_wait(world, done);
    cadre_mesh_fini(&f->mesh);
    plan_fixture_close(f);
    cadre_comm_destroy(world);
    return rc;
}

static void run_all(say_fn *what)
{
    const struct cadre_local_config config = {.size = RANKS, .timeout_s = 60};
    struct cadre_error err = {0};
    memset(errors, 0, sizeof errors);
    say = what;
    cadre_status rc = cadre_launch_threads(&config, NULL, rank_main, NULL, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
}

/* Every rank refuses with this text. */
static void differ(say_fn *what, const char *text)
{
    run_all(what);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(results[r], CADRE_E_UNSUPPORTED);
        ck_assert_msg(strstr(errors[r].text, text) != NULL, "'%s' lacks '%s'",
                      errors[r].text, text);
    }
}

static void agree(say_fn *what)
{
    run_all(what);
    for (int r = 0; r < RANKS; r++)
        ck_assert_msg(results[r] == CADRE_OK, "%s", errors[r].text);
}

/* ---- what all share ---- */

static void say_the_same(struct plan_fixture *f, const struct cadre_plan *one,
                         const struct cadre_plan *two, int rank)
{
    static const uint64_t first[] = {0, 1, 3, 4, 8};
    uint64_t size = cadre_shape_count(&f->model->params[1].local);
    one->claim(one->h, "com.x.y", NULL, CADRE_CLAIM_SHARED);
    one->microbatch_map(one->h, CADRE_MICROBATCHES_RANGES, first);
    one->by_design(one->h, "period=1");
    one->period(one->h, 4);
    one->product_axis(one->h, "rep*dp");
    two->split_axis(two->h, "dp", 2);
    two->train(two->h, 2, 0);
    two->store(two->h, 2, CADRE_FORM_INT8);
    two->memory(two->h, 0, 100 + (uint64_t)rank, "of a rank's own size");
    two->place_range(two->h, 1, CADRE_KIND_OPT, rank % 2 ? size : 0,
                     rank % 2 ? 0 : size, 0);
}

START_TEST(equal_plans_agree)
{
    agree(say_the_same);
}
END_TEST

static void claim_on_one(struct plan_fixture *f, const struct cadre_plan *one,
                         const struct cadre_plan *two, int rank)
{
    two->claim(two->h, rank == 2 ? "com.x.z" : "com.x.y", NULL, 0);
}

static void another_level(struct plan_fixture *f, const struct cadre_plan *one,
                          const struct cadre_plan *two, int rank)
{
    f->plan.reducer[1].level = rank == 1 ? 3 : 0;
}

static void another_map(struct plan_fixture *f, const struct cadre_plan *one,
                        const struct cadre_plan *two, int rank)
{
    static const uint64_t first[2][5] = {{0, 1, 3, 4, 8}, {0, 2, 3, 4, 8}};
    one->microbatch_map(one->h, CADRE_MICROBATCHES_RANGES, first[rank == 3]);
}

static void another_design(struct plan_fixture *f, const struct cadre_plan *one,
                           const struct cadre_plan *two, int rank)
{
    one->by_design(one->h, rank == 3 ? "period=2" : "period=1");
}

static void another_period(struct plan_fixture *f, const struct cadre_plan *one,
                           const struct cadre_plan *two, int rank)
{
    one->period(one->h, rank == 3 ? 2 : 1);
}

static void another_axis(struct plan_fixture *f, const struct cadre_plan *one,
                         const struct cadre_plan *two, int rank)
{
    one->split_axis(one->h, "dp", rank == 1 ? 2 : 1);
}

static void frozen_on_one(struct plan_fixture *f, const struct cadre_plan *one,
                          const struct cadre_plan *two, int rank)
{
    two->train(two->h, 3, rank != 1);
}

static void stored_on_one(struct plan_fixture *f, const struct cadre_plan *one,
                          const struct cadre_plan *two, int rank)
{
    two->train(two->h, 3, 0);
    two->store(two->h, 3, rank == 1 ? CADRE_FORM_INT8 : CADRE_FORM_PLAIN);
}

static void another_plugin(struct plan_fixture *f, const struct cadre_plan *one,
                           const struct cadre_plan *two, int rank)
{
    plan_fixture_plugin(f, rank == 1 ? "watch" : "look", NULL, CADRE_ROLE_OBSERVER);
}

static const struct {
    say_fn *what;
    const char *text;
} differences[] = {
    {claim_on_one, "plugin 'zero' in plan: its claims on rank 2 differ from those on "
                   "rank 0; a plan must follow from options and services alone"},
    {another_level, "'zero' in plan: its reductions on rank 1 differ"},
    {another_map, "'hsdp' in plan: its maps of micro-batches on rank 3 differ"},
    {another_design, "'hsdp' in plan: its settings of by_design on rank 3 differ"},
    {another_period, "'hsdp' in plan: its periods on rank 3 differ"},
    {another_axis, "'hsdp' in plan: its uses of axes on rank 1 differ"},
    {frozen_on_one, "'zero' in plan: its frozen or stored parameters on rank 1 differ"},
    {stored_on_one, "'zero' in plan: its frozen or stored parameters on rank 1 differ"},
    {another_plugin, "rank 1 plans with other plugins than rank 0"},
};

START_TEST(plans_that_differ_are_refused_by_all)
{
    differ(differences[_i].what, differences[_i].text);
}
END_TEST

/* A stage may freeze what it runs: ranks of one stage are compared. */
static void freeze_own_units(struct plan_fixture *f, const struct cadre_plan *one,
                             const struct cadre_plan *two, int rank)
{
    one->chunk(one->h, rank / 2 ? 2 : 0, rank / 2 ? 4 : 2, 1, 0);
    for (uint32_t i = 1; i < f->model->n_params - 1; i++)
        if (f->model->params[i].unit / 2 == (uint32_t)rank / 2)
            two->train(two->h, i, 0);
}

static void freeze_less(struct plan_fixture *f, const struct cadre_plan *one,
                        const struct cadre_plan *two, int rank)
{
    freeze_own_units(f, one, two, rank);
    if (rank == 3)
        two->train(two->h, f->model->n_params - 2, 1);
}

START_TEST(stages_freeze_their_own)
{
    agree(freeze_own_units);
    differ(freeze_less, "stored parameters on rank 3 differ from those on rank 2");
}
END_TEST

/* ---- optimizer ranges ---- */

/* The embedding (16, 8) is smaller than a unit of ranges: one rank has it. */
static void cover_once(struct plan_fixture *f, const struct cadre_plan *one,
                       const struct cadre_plan *two, int rank)
{
    two->place_range(two->h, 0, CADRE_KIND_OPT, 0, rank % 2 ? 128 : 0, 0);
}

static void cover_twice(struct plan_fixture *f, const struct cadre_plan *one,
                        const struct cadre_plan *two, int rank)
{
    two->place_range(two->h, 0, CADRE_KIND_OPT, 0, 128, 0);
}

static void leave_a_gap(struct plan_fixture *f, const struct cadre_plan *one,
                        const struct cadre_plan *two, int rank)
{
    two->place_range(two->h, 0, CADRE_KIND_OPT, 0, 0, 0);
}

static void place_on_one(struct plan_fixture *f, const struct cadre_plan *one,
                         const struct cadre_plan *two, int rank)
{
    if (rank % 2)
        two->place_range(two->h, 0, CADRE_KIND_OPT, 0, 128, 0);
}

static void gap_of_a_frozen_one(struct plan_fixture *f, const struct cadre_plan *one,
                                const struct cadre_plan *two, int rank)
{
    leave_a_gap(f, one, two, rank);
    two->train(two->h, 0, 0);
}

START_TEST(optimizer_ranges_cover_once)
{
    agree(cover_once);
    agree(gap_of_a_frozen_one);
    differ(cover_twice, "plugin 'zero' in plan: the OPT ranges of ranks 0 and 1 along "
                        "'dp' overlap from element 0 of 'transformer.wte.weight' on");
    differ(leave_a_gap, "plugin 'zero' in plan: no rank along 'dp' has element 0 of "
                        "'transformer.wte.weight' (of 128) in its OPT range");
    differ(place_on_one, "plugin 'zero' in plan: it places an OPT range of "
                         "'transformer.wte.weight' on rank 1 along 'dp', and none on "
                         "rank 0");
}
END_TEST

/* Without a world a rank is alone, and must have everything. */
START_TEST(one_rank_has_everything)
{
    const struct cadre_axis_request axes[] = {{"dp", 1, "zero"}};
    struct plan_fixture f;
    struct cadre_error err = {0};
    for (int whole = 0; whole < 2; whole++) {
        plan_fixture_open(&f, axes, 1, 0);
        const struct cadre_plan *zero =
            plan_fixture_plugin(&f, "zero", "dp", CADRE_ROLE_DATA);
        zero->claim(zero->h, "opt.shard", "dp", 0);
        zero->place_range(zero->h, 0, CADRE_KIND_OPT, 0, whole ? 128 : 0, 0);
        plan_fixture_finish(&f);
        ck_assert_int_eq(cadre_agree_plan(NULL, &f.plan, &err), CADRE_OK);
        ck_assert_int_eq(cadre_agree_ranges(&f.plan, &err),
                         whole ? CADRE_OK : CADRE_E_UNSUPPORTED);
        plan_fixture_close(&f);
    }
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("agree_plan");
    TCase *tc = tcase_create("agree_plan");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, equal_plans_agree);
    tcase_add_loop_test(tc, plans_that_differ_are_refused_by_all, 0,
                        (int)(sizeof differences / sizeof *differences));
    tcase_add_test(tc, stages_freeze_their_own);
    tcase_add_test(tc, optimizer_ranges_cover_once);
    tcase_add_test(tc, one_rank_has_everything);
    suite_add_tcase(suite, tc);
    return suite;
}

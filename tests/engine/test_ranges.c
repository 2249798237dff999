/* SPDX-License-Identifier: Apache-2.0 */
/* What a profiler is shown of a step: ranges of step, micro-batch, unit and collective,
 * each inside the one that it is part of, and all of them ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/strategy/host_private.h"
#include "core/launch/launch.h"
#include "tests/engine/rank_fixture.h"
#include "tests/support/check_main.h"

#define MOST 512
#define DEEP 8

/* The ranges of a rank in the order they began, with those around them: "step 1/forward
 * of micro-batch 0". */
struct view {
    struct cadre_device_ops ops;
    char open[DEEP][48];
    int depth;
    char seen[MOST][DEEP * 48];
    size_t n;
    bool wrong; /* an end without a begin, or too much of anything */
};

static struct view views[2];
static struct rank_fixture f;
static struct cadre_error errors[2];
static bool fail_step;

static struct view *view_of(const struct cadre_device *device)
{
    return &views[device->ops == &views[1].ops];
}

static void range_begin(struct cadre_device *device, const char *name)
{
    struct view *view = view_of(device);
    if (view->depth == DEEP || view->n == MOST) {
        view->wrong = true;
        return;
    }
    snprintf(view->open[view->depth++], 48, "%.47s", name);
    char path[sizeof view->seen[0]];
    size_t len = 0;
    for (int i = 0; i < view->depth; i++)
        len += (size_t)snprintf(path + len, sizeof path - len, "%s%s", i ? "/" : "",
                                view->open[i]);
    memcpy(view->seen[view->n++], path, len + 1);
}

static void range_end(struct cadre_device *device)
{
    struct view *view = view_of(device);
    view->wrong = view->wrong || view->depth == 0;
    view->depth -= view->depth > 0;
}

/* The CPU's ops, declared as queued: a device that computes inline shows no ranges. */
static void watch(struct view *view, struct cadre_device *device)
{
    *view = (struct view){.ops = *device->ops};
    view->ops.async = true;
    view->ops.range_begin = range_begin;
    view->ops.range_end = range_end;
    device->ops = &view->ops;
}

static size_t count(const struct view *view, const char *path)
{
    size_t n = 0;
    for (size_t i = 0; i < view->n; i++)
        n += strcmp(view->seen[i], path) == 0;
    return n;
}

static size_t count_ends(const struct view *view, const char *name)
{
    size_t n = 0, length = strlen(name);
    for (size_t i = 0; i < view->n; i++) {
        size_t all = strlen(view->seen[i]);
        n += all > length && view->seen[i][all - length - 1] == '/' &&
             strcmp(view->seen[i] + all - length, name) == 0;
    }
    return n;
}

static void print(const struct view *view)
{
    for (size_t i = 0; i < view->n; i++)
        printf("%s\n", view->seen[i]);
}

static cadre_status refuse(struct cadre_self *self, const struct cadre_block_ev *ev)
{
    (void)self;
    return fail_step && ev->microbatch == 1 ? CADRE_E_DEVICE : CADRE_OK;
}

/* Two steps of four micro-batches over four units (embedding, two blocks, head). */
START_TEST(units_lie_in_micro_batches_and_those_in_steps)
{
    rank_fixture_open(&f);
    rank_fixture_start(&f);
    watch(&views[0], f.rank.device);
    rank_fixture_step(&f, 1);
    rank_fixture_step(&f, 2);
    print(&views[0]);
    ck_assert(!views[0].wrong);
    ck_assert_int_eq(views[0].depth, 0);
    ck_assert_uint_eq(count(&views[0], "step 1"), 1);
    ck_assert_uint_eq(count(&views[0], "step 2"), 1);
    for (int m = 0; m < 4; m++)
        for (int way = 0; way < 2; way++)
            for (int u = -1; u < 4; u++) {
                char path[200];
                const char *what = way ? "backward" : "forward";
                int n =
                    snprintf(path, sizeof path, "step 2/%s of micro-batch %d", what, m);
                if (u >= 0)
                    snprintf(path + n, sizeof path - (size_t)n, "/%s of unit %d", what,
                             u);
                ck_assert_msg(count(&views[0], path) == 1, "%s: %zu", path,
                              count(&views[0], path));
            }
    rank_fixture_close(&f);
}
END_TEST

/* A step that fails leaves no range open. */
START_TEST(a_failed_step_ends_its_ranges)
{
    const struct cadre_strategy_ops ops = {.on_block = refuse};
    struct cadre_step_report report;
    rank_fixture_open(&f);
    rank_fixture_plug(&f, "probe", CADRE_ROLE_DATA, 1, &ops);
    rank_fixture_start(&f);
    watch(&views[0], f.rank.device);
    fail_step = true;
    ck_assert_int_ne(cadre_rank_step(&f.rank, 1, &report), CADRE_OK);
    print(&views[0]);
    ck_assert(!views[0].wrong);
    ck_assert_int_eq(views[0].depth, 0);
    ck_assert_uint_eq(count(&views[0], "step 1"), 1);
    rank_fixture_close(&f);
}
END_TEST

/* ---- two ranks ---- */

/* The fixture's plugin is its host. */
static cadre_status meet(struct cadre_self *self, const struct cadre_sync *sync)
{
    const struct cadre_host *host = (const struct cadre_host *)self;
    const struct cadre_comm_svc *comm = host->service(host->ctx, CADRE_SERVICE_COMM);
    const struct cadre_mesh_svc *mesh = host->service(host->ctx, CADRE_SERVICE_MESH);
    struct cadre_axis *axis = mesh->axis(host->ctx, "data");
    struct cadre_post post = {.struct_size = sizeof post, .label = "gradients"};
    if (sync->what != CADRE_SYNC_GRADS)
        return CADRE_OK;
    CADRE_TRY(comm->barrier(axis, &post));
    return comm->stream_wait(axis, post.done);
}

static cadre_status rank_main(void *arg, int index, struct cadre_local_segment *segment)
{
    const struct cadre_run_spec *spec = arg;
    struct cadre_rank rank;
    struct cadre_comm *world = NULL;
    struct cadre_step_report report;
    CADRE_TRY(cadre_local_open(segment, index, &world, &errors[index]));
    cadre_status rc = cadre_rank_plan(&rank, spec, index, &errors[index]);
    if (rc == CADRE_OK) {
        rc = cadre_rank_bind(&rank, world, 0, &errors[index]);
        if (rc == CADRE_OK) {
            watch(&views[index], rank.device);
            rc = cadre_rank_step(&rank, 1, &report);
        }
        cadre_rank_fini(&rank);
    }
    cadre_comm_destroy(world);
    return rc;
}

START_TEST(collectives_lie_in_steps)
{
    const struct cadre_local_config config = {.size = 2, .timeout_s = 60};
    const struct cadre_strategy_ops ops = {
        .plan = rank_fixture_split, .on_grad = rank_fixture_reduce, .sync = meet};
    struct cadre_error err = {0};
    rank_fixture_open(&f);
    rank_fixture_plug(&f, "data", CADRE_ROLE_DATA, 2, &ops);
    cadre_status rc = cadre_launch_threads(&config, NULL, rank_main, &f.spec, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    for (int r = 0; r < 2; r++) {
        print(&views[r]);
        ck_assert(!views[r].wrong);
        ck_assert_int_eq(views[r].depth, 0);
        ck_assert_uint_eq(count(&views[r], "step 1/gradients"), 1);
        ck_assert_uint_ge(count_ends(&views[r], "forward of unit 1"), 2);
    }
    rank_fixture_close(&f);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("ranges");
    TCase *tc = tcase_create("ranges");
    tcase_add_test(tc, units_lie_in_micro_batches_and_those_in_steps);
    tcase_add_test(tc, a_failed_step_ends_its_ranges);
    tcase_add_test(tc, collectives_lie_in_steps);
    suite_add_tcase(suite, tc);
    return suite;
}

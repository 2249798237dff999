/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin against a fake host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plugin/plugin.h"
#include "tests/plugins/fake_host.h"
#include "tests/support/check_main.h"

static const struct cadre_plugin_handle *ddp;
static struct fake_host fake;

static void setup(void)
{
    struct cadre_error err = {0};
    cadre_status rc = cadre_plugin_load("ddp", NULL, &ddp, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    fake_init(&fake, &ddp->ops, 40);
}

static void teardown(void)
{
    fake_fini(&fake);
}

static cadre_status sync_grads(void)
{
    return ddp->ops.sync(fake.self, CADRE_SYNC_GRADS);
}

static void start(void)
{
    cadre_status rc = fake_start(&fake);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, fake.failure);
}

static void run_step(void)
{
    cadre_status rc = fake_step(&fake);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, fake.failure);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    ck_assert_int_eq(fake.early, 0);
}

/* Each gradient was summed exactly once, each absent one left alone. */
static void all_summed(void)
{
    for (uint32_t i = 0; i < fake.n_entries; i++)
        ck_assert_msg(fake_wrong(&fake, i, fake.absent[i] ? 1.0f : 2.0f) == 0,
                      "entry %u", i);
}

/* ---- the file ---- */

static void output_is(const char *command, const char *want)
{
    char text[256] = "";
    setenv("PLUGIN", ddp->path, 1);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    size_t n = fread(text, 1, sizeof text - 1, pipe);
    text[n] = 0;
    ck_assert_int_eq(pclose(pipe), 0);
    ck_assert_str_eq(text, want);
}

START_TEST(exports_one_symbol)
{
    if (system("nm --version > /dev/null 2>&1"))
        test_skip("no nm");
    output_is("nm -D --defined-only \"$PLUGIN\" | sed 's/.* //'",
              "cadre_plugin_entry_1\n");
}
END_TEST

START_TEST(needs_libc_alone)
{
    if (system("readelf --version > /dev/null 2>&1"))
        test_skip("no readelf");
    output_is("readelf -d \"$PLUGIN\" | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p' | "
              "grep -v -e '^libasan' -e '^libubsan' -e '^libtsan'",
              "libc.so.6\n");
}
END_TEST

START_TEST(describes_itself)
{
    ck_assert_str_eq(ddp->desc.id, "org.cadre.ddp");
    ck_assert_str_eq(ddp->desc.axis, "dp");
    ck_assert_uint_eq(ddp->desc.role, CADRE_ROLE_DATA);
}
END_TEST

/* ---- plan and set-up ---- */

START_TEST(claims_the_reduction_for_itself)
{
    start();
    ck_assert_str_eq(fake.claim, "grad.reduce@dp/0");
    ck_assert_int_eq(fake.plans, 3);
    ck_assert_int_eq(ddp->ops.plan(fake.self, &fake.plan), CADRE_OK);
    ck_assert_int_eq(fake.plans, 6);
    ck_assert_int_eq(fake.posts, 0);
    ddp->ops.destroy(fake.self);
}
END_TEST

START_TEST(a_missing_service_is_refused)
{
    for (int n = 1; n <= 5; n++) { /* the fifth: this host has no ops */
        fake.services = 0;
        fake.fail_service = n;
        fake.compress = n < 5 ? "none" : "int8";
        ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
        ck_assert_ptr_eq(strstr(fake.failure, "the host has no service cadre."),
                         fake.failure);
    }
}
END_TEST

START_TEST(an_older_host_is_refused)
{
    const struct cadre_param_svc *found =
        fake.host.service(fake.host.ctx, CADRE_SERVICE_PARAM);
    struct cadre_param_svc *param = (struct cadre_param_svc *)(uintptr_t)found;
    param->struct_size = offsetof(struct cadre_param_svc, grad_span);
    ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fake.failure, "lacks a function that ddp needs"));
    param->struct_size = sizeof *param + 64; /* a newer one is not */
    start();
    ddp->ops.destroy(fake.self);
}
END_TEST

START_TEST(a_refused_plan_is_passed_on)
{
    for (int n = 1; n <= 3; n++) {
        fake.plans = 0;
        fake.fail_plan = n;
        ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    }
}
END_TEST

START_TEST(a_failed_bind_is_passed_on)
{
    start();
    int calls = fake.params;
    ddp->ops.destroy(fake.self);
    for (int n = 1; n <= calls; n++) {
        fake.params = 0;
        fake.fail_param = n;
        ck_assert_int_eq(fake_start(&fake), CADRE_E_INTERNAL);
    }
}
END_TEST

START_TEST(storage_apart_is_a_bucket_of_its_own)
{
    fake.apart[20] = true;
    fake.bucket_mb = 64;
    start();
    run_step();
    ck_assert_int_eq(fake.posts, 3);
    ck_assert_ptr_eq(fake.post[1].data, fake.grad + fake.offset[20]);
    all_summed();
    ddp->ops.destroy(fake.self);
    fake.detached[7] = true;
    ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    ck_assert_str_eq(fake.failure, "gradient entry 7 has no storage of its own");
}
END_TEST

START_TEST(may_be_destroyed_at_every_stage)
{
    const struct cadre_strategy_ops *ops = &ddp->ops;
    for (int stage = 0; stage < 4; stage++) {
        ck_assert_int_eq(ops->create(&fake.host, &fake.values, &fake.self), CADRE_OK);
        if (stage > 0)
            ck_assert_int_eq(ops->plan(fake.self, &fake.plan), CADRE_OK);
        if (stage > 1)
            ck_assert_int_eq(ops->bind(fake.self), CADRE_OK);
        if (stage > 2)
            ck_assert_int_eq(fake_step(&fake), CADRE_OK);
        ops->destroy(fake.self);
    }
}
END_TEST

/* ---- buckets ---- */

START_TEST(buckets_cover_everything_once_from_the_end)
{
    static const double sizes[] = {0.001, 0.003, 0.01, 0.02, 25};
    const float *end = fake.grad + fake.offset[fake.n_entries];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        fake.bucket_mb = sizes[s];
        fake.posts = fake.joins = 0;
        start();
        run_step();
        all_summed();
        const float *above = end;
        for (int i = 0; i < fake.posts; i++) {
            ck_assert(fake.post[i].data < above);
            above = fake.post[i].data;
            bool small = (double)fake.post[i].count * 4 <= sizes[s] * 1048576;
            ck_assert(small || fake.post[i].count <= 401);
        }
        ck_assert_ptr_eq(above, fake.grad);
        ck_assert_int_eq(fake.joins, fake.posts);
        ck_assert_int_eq(fake.posts == 1, s == 4);
        ddp->ops.destroy(fake.self);
    }
}
END_TEST

START_TEST(labels_name_the_bucket)
{
    fake_fini(&fake);
    fake_init(&fake, &ddp->ops, 130);
    for (int i = 0; i < 130; i++)
        fake.apart[i] = true;
    start();
    run_step();
    ck_assert_int_eq(fake.posts, 130);
    ck_assert_str_eq(fake.post[0].label, "ddp bucket 0");
    ck_assert_str_eq(fake.post[9].label, "ddp bucket 9");
    ck_assert_str_eq(fake.post[42].label, "ddp bucket 42");
    ck_assert_str_eq(fake.post[99].label, "ddp bucket 99");
    ck_assert_str_eq(fake.post[129].label, "ddp bucket 100 or later");
    ddp->ops.destroy(fake.self);
    ck_assert_str_eq(fake.post[42].label, "ddp bucket 42");
}
END_TEST

START_TEST(what_is_on_other_ranks_is_left_alone)
{
    for (int i = 10; i < 30; i++)
        fake.absent[i] = true;
    fake.bucket_mb = 25;
    start();
    run_step();
    ck_assert_int_eq(fake.posts, 2);
    all_summed();
    ddp->ops.destroy(fake.self);
}
END_TEST

/* ---- one step ---- */

START_TEST(one_reduction_per_step_under_accumulation)
{
    fake.micro_batches = 4;
    start();
    run_step();
    int posts = fake.posts;
    ck_assert_int_eq(fake.posts_at_final, 0);
    ck_assert_int_gt(posts, 3);
    all_summed();
    for (int k = 2; k <= 5; k++) {
        run_step();
        ck_assert_int_eq(fake.posts, k * posts);
        all_summed();
    }
    ddp->ops.destroy(fake.self);
}
END_TEST

/* The bucket of entry `id`: the post that covers its first element. */
static int post_of(cadre_param_id id)
{
    const float *at = fake.grad + fake.offset[id];
    for (int i = 0; i < fake.posts; i++)
        if (at >= fake.post[i].data && at < fake.post[i].data + fake.post[i].count)
            return i;
    return -1;
}

START_TEST(a_bucket_leaves_with_its_last_gradient)
{
    start();
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    int posts = fake.posts;
    ck_assert_int_gt(posts, 3);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    ck_assert_int_eq(fake.posts, posts);
    for (uint32_t id = fake.n_entries; id-- > 0;) {
        int post = post_of(id);
        bool last = id == 0 || post_of(id - 1) != post;
        ck_assert_int_eq(fake.posts_at_grad[id], last ? post + 1 : post);
        if (last) {
            ck_assert_uint_eq(fake.post[post].after, fake.ready[id]);
            ck_assert_uint_eq(fake.ready_after[id], 1001u + (unsigned)post);
        } else {
            ck_assert_uint_eq(fake.ready_after[id], fake.ready[id]);
        }
    }
    ddp->ops.destroy(fake.self);
}
END_TEST

START_TEST(without_overlap_everything_leaves_at_the_end)
{
    fake.overlap = false;
    start();
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_eq(fake.posts, 0);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    ck_assert_int_gt(fake.posts, 3);
    all_summed();
    ddp->ops.destroy(fake.self);
}
END_TEST

/* Ranks that finish their gradients in other orders still post the same. */
START_TEST(posts_are_in_bucket_order_whatever_is_ready_first)
{
    float *at[FAKE_POSTS];
    start();
    run_step();
    int posts = fake.posts;
    for (int i = 0; i < posts; i++)
        at[i] = fake.post[i].data;
    for (uint32_t turn = 0; turn < 50; turn++) {
        for (uint32_t i = fake.n_entries - 1; i > 0; i--) {
            uint32_t k = (turn * 7919u + i * 104729u) % (i + 1);
            cadre_param_id keep = fake.order[i];
            fake.order[i] = fake.order[k];
            fake.order[k] = keep;
        }
        fake.posts = 0;
        run_step();
        ck_assert_int_eq(fake.posts, posts);
        for (int i = 0; i < posts; i++)
            ck_assert_ptr_eq(fake.post[i].data, at[i]);
        all_summed();
    }
    ddp->ops.destroy(fake.self);
}
END_TEST

START_TEST(a_gradient_that_never_comes_does_not_hold_the_step)
{
    start();
    for (uint32_t i = 0; i < fake.n_entries; i++) {
        fake.silent[i] = true;
        fake.posts = 0;
        run_step();
        all_summed();
        fake.silent[i] = false;
    }
    memset(fake.silent, 1, sizeof fake.silent);
    run_step();
    all_summed();
    ddp->ops.destroy(fake.self);
}
END_TEST

START_TEST(sync_may_come_twice_or_for_nothing)
{
    start();
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    ck_assert_int_eq(fake.posts, 0);
    run_step();
    int posts = fake.posts;
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    for (uint32_t what = CADRE_SYNC_PARAMS; what < 9; what++)
        ck_assert_int_eq(ddp->ops.sync(fake.self, what), CADRE_OK);
    ck_assert_int_eq(fake.posts, posts);
    ck_assert_int_eq(fake.joins, posts);
    all_summed();
    ddp->ops.destroy(fake.self);
}
END_TEST

START_TEST(quiesce_waits_for_what_is_under_way)
{
    start();
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_gt(fake.posts, 0);
    ck_assert_int_eq(fake.joins, 0);
    ck_assert_int_eq(ddp->ops.sync(fake.self, CADRE_SYNC_QUIESCE), CADRE_OK);
    ck_assert_int_eq(fake.joins, fake.posts);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    ck_assert_int_eq(fake.joins, fake.posts);
    all_summed();
    ddp->ops.destroy(fake.self);
}
END_TEST

START_TEST(one_rank_does_nothing)
{
    for (fake.ranks = 0; fake.ranks < 2; fake.ranks++) {
        start();
        run_step();
        ck_assert_int_eq(fake.posts + fake.joins, 0);
        for (uint32_t i = 0; i < fake.n_entries; i++)
            ck_assert_uint_eq(fake_wrong(&fake, i, 1), 0);
        ddp->ops.destroy(fake.self);
    }
}
END_TEST

/* ---- failures ---- */

START_TEST(every_failed_collective_is_passed_on)
{
    fake.overlap = _i != 0;
    start();
    run_step();
    int posts = fake.posts;
    ddp->ops.destroy(fake.self);
    for (int n = 1; n <= posts; n++) {
        fake.posts = fake.joins = 0;
        fake.fail_post = n;
        start();
        cadre_status rc = fake_step(&fake);
        ck_assert_int_eq(rc, fake.overlap ? CADRE_E_COMM : CADRE_OK);
        if (!fake.overlap)
            ck_assert_int_eq(sync_grads(), CADRE_E_COMM);
        ck_assert_int_eq(fake.posts, n - 1);
        ddp->ops.destroy(fake.self);
    }
    fake.fail_post = 0;
    for (int n = 1; n <= posts; n++) {
        fake.posts = fake.joins = 0;
        fake.fail_join = n;
        start();
        ck_assert_int_eq(fake_step(&fake), CADRE_OK);
        ck_assert_int_eq(sync_grads(), CADRE_E_ABORTED);
        ck_assert_int_eq(fake.joins, n);
        ddp->ops.destroy(fake.self);
    }
}
END_TEST

static cadre_status stray_status;

/* A schedule that breaks the contract of on_grad in the way of case _i. */
static cadre_status stray(void *h, const struct cadre_step *step)
{
    struct cadre_grad_ev ev = {.struct_size = sizeof ev, .flags = CADRE_GRAD_FINAL};
    int way = *(int *)h;
    ev.param = way == 0 ? fake.n_entries : way == 1 ? 5 : 3;
    stray_status = ddp->ops.on_grad(fake.self, &ev);
    if (way >= 2) {
        ck_assert_int_eq(stray_status, CADRE_OK);
        ev.flags = way == 2 ? CADRE_GRAD_FINAL : 0;
        stray_status = ddp->ops.on_grad(fake.self, &ev);
    }
    return stray_status;
}

START_TEST(a_stray_gradient_is_refused)
{
    struct cadre_next next = {sizeof next, 0, &_i, stray};
    struct cadre_step step = {.struct_size = sizeof step, .n_microbatches = 1};
    fake.absent[5] = true;
    start();
    ck_assert_int_eq(ddp->ops.step(fake.self, &step, &next), CADRE_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(fake.failure, "a gradient of entry"));
    ddp->ops.destroy(fake.self);
}
END_TEST

START_TEST(a_gradient_outside_a_step_is_refused)
{
    struct cadre_grad_ev ev = {.struct_size = sizeof ev, .flags = CADRE_GRAD_FINAL};
    start();
    ck_assert_int_eq(ddp->ops.on_grad(fake.self, &ev), CADRE_E_INTERNAL);
    fake.silent[3] = true;
    run_step();
    ck_assert_int_eq(ddp->ops.on_grad(fake.self, &ev), CADRE_E_INTERNAL);
    ev.param = 3; /* was still to come, but the step has ended */
    ck_assert_int_eq(ddp->ops.on_grad(fake.self, &ev), CADRE_E_INTERNAL);
    ddp->ops.destroy(fake.self);
}
END_TEST

START_TEST(instances_do_not_know_each_other)
{
    struct fake_host other;
    fake_init(&other, &ddp->ops, 11);
    other.bucket_mb = 25;
    start();
    ck_assert_int_eq(fake_start(&other), CADRE_OK);
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_eq(fake_step(&other), CADRE_OK);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    ck_assert_int_eq(other.joins, 0);
    ck_assert_int_eq(ddp->ops.sync(other.self, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(other.posts, 1);
    all_summed();
    ddp->ops.destroy(fake.self);
    ck_assert_int_eq(fake_step(&other), CADRE_OK);
    ddp->ops.destroy(other.self);
    fake_fini(&other);
}
END_TEST

static void add_set_up_tests(TCase *tc)
{
    tcase_add_test(tc, exports_one_symbol);
    tcase_add_test(tc, needs_libc_alone);
    tcase_add_test(tc, describes_itself);
    tcase_add_test(tc, claims_the_reduction_for_itself);
    tcase_add_test(tc, a_missing_service_is_refused);
    tcase_add_test(tc, an_older_host_is_refused);
    tcase_add_test(tc, a_refused_plan_is_passed_on);
    tcase_add_test(tc, a_failed_bind_is_passed_on);
    tcase_add_test(tc, storage_apart_is_a_bucket_of_its_own);
    tcase_add_test(tc, may_be_destroyed_at_every_stage);
}

static void add_step_tests(TCase *tc)
{
    tcase_add_test(tc, buckets_cover_everything_once_from_the_end);
    tcase_add_test(tc, labels_name_the_bucket);
    tcase_add_test(tc, what_is_on_other_ranks_is_left_alone);
    tcase_add_test(tc, one_reduction_per_step_under_accumulation);
    tcase_add_test(tc, a_bucket_leaves_with_its_last_gradient);
    tcase_add_test(tc, without_overlap_everything_leaves_at_the_end);
    tcase_add_test(tc, posts_are_in_bucket_order_whatever_is_ready_first);
    tcase_add_test(tc, a_gradient_that_never_comes_does_not_hold_the_step);
    tcase_add_test(tc, sync_may_come_twice_or_for_nothing);
    tcase_add_test(tc, quiesce_waits_for_what_is_under_way);
    tcase_add_test(tc, one_rank_does_nothing);
    tcase_add_loop_test(tc, every_failed_collective_is_passed_on, 0, 2);
    tcase_add_loop_test(tc, a_stray_gradient_is_refused, 0, 4);
    tcase_add_test(tc, a_gradient_outside_a_step_is_refused);
    tcase_add_test(tc, instances_do_not_know_each_other);
}

Suite *test_suite(void)
{
    Suite *s = suite_create("ddp");
    TCase *tc = tcase_create("ddp");
    tcase_add_checked_fixture(tc, setup, teardown);
    add_set_up_tests(tc);
    add_step_tests(tc);
    suite_add_tcase(s, tc);
    return s;
}

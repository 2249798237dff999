/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin against a fake host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

static const struct cadre_plugin_handle *ddp;
static struct fake_host fake;

static void set_up_host(struct fake_host *host, uint32_t n_entries)
{
    fake_init(host, &ddp->ops, n_entries);
    host->singly = true;
    fake_set(host, "bucket_mb", "0.004");
    fake_set(host, "overlap", "yes");
    fake_set(host, "compress", "none");
    fake_set(host, "level", "0");
    fake_set(host, "node", "0");
}

static void setup(void)
{
    ddp = built_plugin_load("ddp");
    set_up_host(&fake, 40);
}

static void teardown(void)
{
    ck_assert_int_eq(fake.bad_sums, 0);
    fake_fini(&fake);
}

static cadre_status sync_grads(void)
{
    return fake_sync(&fake, CADRE_SYNC_GRADS);
}

static void start(void)
{
    cadre_status rc = fake_start(&fake);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, fake.failure);
    ck_assert_uint_eq(fake.batch, CADRE_BATCH_SPLIT);
    ck_assert_uint_eq(fake.map, CADRE_MICROBATCHES_BLOCK);
}

static void run_step(void)
{
    cadre_status rc = fake_step(&fake);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, fake.failure);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    ck_assert_int_eq(fake.bad_sums, 0);
}

/* Each gradient was summed exactly once, each absent one left alone. */
static void all_summed(void)
{
    for (uint32_t i = 0; i < fake.n_entries; i++) {
        const struct fake_entry *entry = &fake.entry[i];
        uint32_t sum = 2 * (entry->silent ? 1 : fake.micro_batches);
        ck_assert_msg(fake_wrong(&fake, i, entry->absent ? 1 : (float)sum) == 0,
                      "entry %u", i);
    }
}

/* ---- the file ---- */

START_TEST(exports_one_symbol)
{
    built_plugin_exports_its_entry(ddp);
}
END_TEST

START_TEST(needs_libc_alone)
{
    if (system("readelf --version > /dev/null 2>&1"))
        test_skip("no readelf");
    built_plugin_says(
        ddp,
        "readelf -d \"$PLUGIN\" | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p' | "
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
    ck_assert_str_eq(fake.claims, "reduces@dp/0");
    ck_assert_str_eq(fake.by_design, "");
    ck_assert_int_eq(fake.plans, 2);
    ck_assert_int_eq(fake_plan(&fake), CADRE_OK);
    ck_assert_int_eq(fake.plans, 4);
    ck_assert_int_eq(fake.posts, 0);
    fake_stop(&fake);
}
END_TEST

/* As `ddp@site` with another level; whatever map another plugin asks for. */
START_TEST(takes_the_axis_and_level_it_is_given)
{
    snprintf(fake.axis.name, sizeof fake.axis.name, "site");
    fake_set(&fake, "level", "7");
    fake.other_map = (uint32_t)_i;
    cadre_status rc = fake_start(&fake);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, fake.failure);
    ck_assert_str_eq(fake.claims, "reduces@site/7");
    fake_stop(&fake);
}
END_TEST

START_TEST(a_missing_service_is_refused)
{
    for (int n = 1; n <= 5; n++) { /* the fifth: this host has no ops */
        fake.fail_service = n;
        fake_set(&fake, "compress", "%s", n < 5 ? "none" : "int8");
        ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
        ck_assert_ptr_eq(strstr(fake.failure, "the host has no service cadre."),
                         fake.failure);
    }
}
END_TEST

START_TEST(an_older_host_is_refused)
{
    struct cadre_param_svc param;
    memcpy(&param, fake_service(&fake, CADRE_SERVICE_PARAM), sizeof param);
    fake_set_service(&fake, CADRE_SERVICE_PARAM, &param);
    param.struct_size = offsetof(struct cadre_param_svc, grad_span);
    ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(
        strstr(fake.failure, "lacks a function that this plugin needs"));
    param.struct_size = sizeof param + 64; /* a newer one is not */
    start();
    fake_stop(&fake);
}
END_TEST

START_TEST(a_refused_plan_is_passed_on)
{
    for (int n = 1; n <= 2; n++) {
        fake.fail_plan = n;
        ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    }
    fake_set_service(&fake, CADRE_SERVICE_OPS, &fake_ops);
    fake_set(&fake, "compress", "int8");
    for (int n = 1; n <= 6; n++) { /* by_design, and three sorts of memory */
        fake.fail_plan = n;
        ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    }
}
END_TEST

START_TEST(a_failed_bind_is_passed_on)
{
    start();
    int calls = fake.params;
    fake_stop(&fake);
    for (int n = 1; n <= calls; n++) {
        fake.fail_param = n;
        ck_assert_int_eq(fake_start(&fake), CADRE_E_INTERNAL);
    }
}
END_TEST

START_TEST(separate_storage_is_a_bucket_of_its_own)
{
    fake.entry[20].separate = true;
    fake_set(&fake, "bucket_mb", "64");
    start();
    run_step();
    ck_assert_int_eq(fake.posts, 3);
    ck_assert_ptr_eq(fake.post[1].in.data, fake.entry[20].grad);
    all_summed();
    fake_stop(&fake);
    fake.entry[7].detached = true;
    ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    ck_assert_str_eq(fake.failure, "gradient entry 7 has no storage of its own");
}
END_TEST

START_TEST(may_be_destroyed_at_every_stage)
{
    for (int stage = 0; stage < 4; stage++) {
        ck_assert_int_eq(fake_create(&fake), CADRE_OK);
        if (stage > 0)
            ck_assert_int_eq(fake_plan(&fake), CADRE_OK);
        if (stage > 1)
            ck_assert_int_eq(fake_bind(&fake), CADRE_OK);
        if (stage > 2)
            ck_assert_int_eq(fake_step(&fake), CADRE_OK);
        fake_stop(&fake);
    }
}
END_TEST

/* ---- buckets ---- */

START_TEST(buckets_cover_everything_once_from_the_end)
{
    static const double sizes[] = {0.001, 0.003, 0.01, 0.02, 25};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        fake_set(&fake, "bucket_mb", "%g", sizes[s]);
        start();
        run_step();
        all_summed();
        const char *above = fake.grads + fake.grads_bytes;
        for (int i = 0; i < fake.posts; i++) {
            const struct cadre_buf *in = &fake.post[i].in;
            ck_assert((const char *)in->data < above);
            above = in->data;
            ck_assert((double)in->count * 4 <= sizes[s] * 1048576 || in->count <= 401);
        }
        ck_assert_ptr_eq(above, fake.grads);
        ck_assert_int_eq(fake.joins, fake.posts);
        ck_assert_int_eq(fake.posts == 1, s == 4);
        fake_stop(&fake);
    }
}
END_TEST

START_TEST(labels_name_the_bucket)
{
    fake_fini(&fake);
    set_up_host(&fake, 130);
    for (int i = 0; i < 130; i++)
        fake.entry[i].separate = true;
    start();
    run_step();
    ck_assert_int_eq(fake.posts, 130);
    ck_assert_str_eq(fake.post[0].label, "ddp bucket 0");
    ck_assert_str_eq(fake.post[9].label, "ddp bucket 9");
    ck_assert_str_eq(fake.post[42].label, "ddp bucket 42");
    ck_assert_str_eq(fake.post[99].label, "ddp bucket 99");
    ck_assert_str_eq(fake.post[129].label, "ddp bucket 100 or later");
    fake_stop(&fake);
    ck_assert_str_eq(fake.post[42].label, "ddp bucket 42");
}
END_TEST

START_TEST(what_is_on_other_ranks_is_left_alone)
{
    for (int i = 10; i < 30; i++)
        fake.entry[i].absent = true;
    fake_set(&fake, "bucket_mb", "25");
    start();
    run_step();
    ck_assert_int_eq(fake.posts, 2);
    all_summed();
    fake_stop(&fake);
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
    fake_stop(&fake);
}
END_TEST

/* The bucket of entry `id`: the post that covers its first element. */
static int post_of(cadre_param_id id)
{
    const float *at = fake.entry[id].grad;
    for (int i = 0; i < fake.posts; i++) {
        const float *begin = fake.post[i].in.data;
        if (at >= begin && at < begin + fake.post[i].in.count)
            return i;
    }
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
        const struct fake_entry *entry = &fake.entry[id];
        int post = post_of(id);
        bool last = id == 0 || post_of(id - 1) != post;
        ck_assert_int_eq(entry->posts, last ? post + 1 : post);
        if (last) {
            ck_assert_uint_eq(fake.post[post].after, entry->ready);
            ck_assert_uint_eq(entry->ready_after, FAKE_EVENT + 1 + (unsigned)post);
        } else {
            ck_assert_uint_eq(entry->ready_after, entry->ready);
        }
    }
    fake_stop(&fake);
}
END_TEST

START_TEST(without_overlap_everything_leaves_at_the_end)
{
    fake_set(&fake, "overlap", "no");
    start();
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_eq(fake.posts, 0);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    ck_assert_int_gt(fake.posts, 3);
    all_summed();
    fake_stop(&fake);
}
END_TEST

/* Ranks that finish their gradients in other orders still post the same. */
START_TEST(posts_are_in_bucket_order_whatever_is_ready_first)
{
    const void *at[FAKE_ENTRIES];
    start();
    run_step();
    int posts = fake.posts;
    for (int i = 0; i < posts; i++)
        at[i] = fake.post[i].in.data;
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
            ck_assert_ptr_eq(fake.post[i].in.data, at[i]);
        all_summed();
    }
    fake_stop(&fake);
}
END_TEST

START_TEST(a_gradient_that_never_comes_does_not_hold_the_step)
{
    start();
    for (uint32_t i = 0; i < fake.n_entries; i++) {
        fake.entry[i].silent = true;
        fake.posts = 0;
        run_step();
        all_summed();
        fake.entry[i].silent = false;
    }
    for (uint32_t i = 0; i < fake.n_entries; i++)
        fake.entry[i].silent = true;
    run_step();
    all_summed();
    fake_stop(&fake);
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
        ck_assert_int_eq(fake_sync(&fake, what), CADRE_OK);
    ck_assert_int_eq(fake.posts, posts);
    ck_assert_int_eq(fake.joins, posts);
    all_summed();
    fake_stop(&fake);
}
END_TEST

START_TEST(drain_waits_for_what_is_under_way)
{
    start();
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_gt(fake.posts, 0);
    ck_assert_int_eq(fake.joins, 0);
    ck_assert_int_eq(fake_sync(&fake, CADRE_SYNC_DRAIN), CADRE_OK);
    ck_assert_int_eq(fake.joins, fake.posts);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    ck_assert_int_eq(fake.joins, fake.posts);
    all_summed();
    fake_stop(&fake);
}
END_TEST

START_TEST(one_rank_does_nothing)
{
    fake.axis.size = 1;
    start();
    run_step();
    ck_assert_int_eq(fake.posts + fake.joins + fake.reports, 0);
    for (uint32_t i = 0; i < fake.n_entries; i++)
        ck_assert_uint_eq(fake_wrong(&fake, i, 1), 0);
    fake_stop(&fake);
    fake.axis.size = 0; /* an instance without an axis */
    ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
}
END_TEST

START_TEST(forward_steps_change_nothing)
{
    start();
    ck_assert_int_eq(fake_forward_step(&fake), CADRE_OK);
    ck_assert_int_eq(fake_sync(&fake, CADRE_SYNC_DRAIN), CADRE_OK);
    ck_assert_int_eq(fake.posts + fake.joins, 0);
    ck_assert_int_eq(sync_grads(), CADRE_OK); /* no step to end */
    ck_assert_int_eq(fake.posts, 0);
    run_step();
    all_summed();
    fake_stop(&fake);
}
END_TEST

/* ---- failures ---- */

START_TEST(every_failed_collective_is_passed_on)
{
    fake_set(&fake, "overlap", _i ? "yes" : "no");
    start();
    run_step();
    int posts = fake.posts;
    fake_stop(&fake);
    for (int n = 1; n <= posts; n++) {
        fake.fail_post = n;
        start();
        cadre_status rc = fake_step(&fake);
        ck_assert_int_eq(rc, _i ? CADRE_E_COMM : CADRE_OK);
        if (!_i)
            ck_assert_int_eq(sync_grads(), CADRE_E_COMM);
        ck_assert_int_eq(fake.posts, n - 1);
        fake_stop(&fake);
    }
    fake.fail_post = 0;
    for (int n = 1; n <= posts; n++) {
        fake.fail_stream_wait = n;
        start();
        ck_assert_int_eq(fake_step(&fake), CADRE_OK);
        ck_assert_int_eq(sync_grads(), CADRE_E_ABORTED);
        ck_assert_int_eq(fake.joins, n);
        fake_stop(&fake);
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
    fake.entry[5].absent = true;
    start();
    ck_assert_int_eq(ddp->ops.step(fake.self, &step, &next), CADRE_E_INTERNAL);
    ck_assert_ptr_nonnull(strstr(fake.failure, "a gradient of entry"));
    fake_stop(&fake);
}
END_TEST

START_TEST(a_gradient_outside_a_step_is_refused)
{
    struct cadre_grad_ev ev = {.struct_size = sizeof ev, .flags = CADRE_GRAD_FINAL};
    start();
    ck_assert_int_eq(ddp->ops.on_grad(fake.self, &ev), CADRE_E_INTERNAL);
    fake.entry[3].silent = true;
    run_step();
    ck_assert_int_eq(ddp->ops.on_grad(fake.self, &ev), CADRE_E_INTERNAL);
    ev.param = 3; /* was still to come, but the step has ended */
    ck_assert_int_eq(ddp->ops.on_grad(fake.self, &ev), CADRE_E_INTERNAL);
    fake_stop(&fake);
}
END_TEST

START_TEST(instances_do_not_know_each_other)
{
    static struct fake_host other;
    set_up_host(&other, 11);
    fake_set(&other, "bucket_mb", "25");
    start();
    ck_assert_int_eq(fake_start(&other), CADRE_OK);
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_eq(fake_step(&other), CADRE_OK);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    ck_assert_int_eq(other.joins, 0);
    ck_assert_int_eq(fake_sync(&other, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(other.posts, 1);
    all_summed();
    fake_stop(&fake);
    ck_assert_int_eq(fake_step(&other), CADRE_OK);
    fake_stop(&other);
    fake_fini(&other);
}
END_TEST

static void add_set_up_tests(TCase *tc)
{
    tcase_add_test(tc, exports_one_symbol);
    tcase_add_test(tc, needs_libc_alone);
    tcase_add_test(tc, describes_itself);
    tcase_add_test(tc, claims_the_reduction_for_itself);
    tcase_add_loop_test(tc, takes_the_axis_and_level_it_is_given, 0,
                        CADRE_MICROBATCHES_RANGES + 1);
    tcase_add_test(tc, a_missing_service_is_refused);
    tcase_add_test(tc, an_older_host_is_refused);
    tcase_add_test(tc, a_refused_plan_is_passed_on);
    tcase_add_test(tc, a_failed_bind_is_passed_on);
    tcase_add_test(tc, separate_storage_is_a_bucket_of_its_own);
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
    tcase_add_test(tc, drain_waits_for_what_is_under_way);
    tcase_add_test(tc, one_rank_does_nothing);
    tcase_add_test(tc, forward_steps_change_nothing);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* What ddp reports of its sums, to the core and to the next level, and gradients that
 * have no bucket: the built plugin against a fake host. */
#include <string.h>

#include "tests/support/built_plugin.h"
#include "tests/support/check_main.h"
#include "tests/support/fake_host.h"

static const struct cadre_plugin_handle *ddp;
static struct fake_host fake;

static void setup(void)
{
    ddp = built_plugin_load("ddp");
    fake_init(&fake, &ddp->ops, 40);
    fake.singly = true;
    fake_set(&fake, "bucket_mb", "0.004");
    fake_set(&fake, "overlap", "yes");
    fake_set(&fake, "compress", "none");
    fake_set(&fake, "level", "0");
    fake_set(&fake, "node", "0");
}

static void teardown(void)
{
    ck_assert_int_eq(fake.bad_sums, 0);
    fake_fini(&fake);
}

static void start(void)
{
    cadre_status rc = fake_start(&fake);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, fake.failure);
}

static cadre_status sync_grads(void)
{
    return fake_sync(&fake, CADRE_SYNC_GRADS);
}

static void run_step(void)
{
    cadre_status rc = fake_step(&fake);
    ck_assert_msg(rc == CADRE_OK, "%d %s", rc, fake.failure);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
}

/* The bucket of each sum is posted, and the sum complete after it. */
static void check_report(struct fake_host *host, cadre_param_id id, cadre_event ready)
{
    const float *at = host->entry[id].sum.data;
    ck_assert_uint_gt(ready, FAKE_EVENT);
    const struct fake_post *post = &host->post[ready - FAKE_EVENT - 1];
    const float *begin = post->out.data;
    ck_assert(at >= begin && at < begin + post->out.count);
    ck_assert_uint_eq(host->entry[id].sum.count, host->entry[id].count);
}

/* Whoever reduces next can post behind the event, before it has happened. */
START_TEST(sums_are_reported_when_their_bucket_leaves)
{
    fake_set(&fake, "overlap", "%s", _i ? "yes" : "no");
    fake.on_reduced = check_report;
    fake.micro_batches = 2;
    start();
    for (uint32_t step = 1; step <= 3; step++) {
        ck_assert_int_eq(fake_step(&fake), CADRE_OK);
        ck_assert_int_eq(fake.reports == (int)((step - 1) * fake.n_entries), !_i);
        ck_assert_int_eq(sync_grads(), CADRE_OK);
        for (uint32_t i = 0; i < fake.n_entries; i++)
            ck_assert_uint_eq(fake.entry[i].reports, step);
    }
    fake_stop(&fake);
}
END_TEST

START_TEST(a_refused_report_is_passed_on)
{
    for (int n = 1; n <= (int)fake.n_entries; n++) {
        fake.fail_reduced = n;
        start();
        cadre_status rc = fake_step(&fake);
        ck_assert_int_eq(rc ? rc : sync_grads(), CADRE_E_INTERNAL);
        fake_stop(&fake);
    }
}
END_TEST

/* A bucket goes on behind a frozen parameter, of which nothing is known here. */
START_TEST(frozen_parameters_have_no_bucket)
{
    fake_set(&fake, "bucket_mb", "64");
    fake.entry[0].frozen = fake.entry[7].frozen = fake.entry[8].frozen = true;
    fake.entry[39].frozen = true;
    start();
    run_step();
    ck_assert_int_eq(fake.posts, 1);
    ck_assert_ptr_eq(fake.post[0].in.data, fake.entry[1].grad);
    for (uint32_t i = 0; i < fake.n_entries; i++) {
        ck_assert_uint_eq(fake.entry[i].reports, !fake.entry[i].frozen);
        ck_assert(fake.entry[i].frozen || fake_wrong(&fake, i, 2) == 0);
    }
    struct cadre_grad_ev ev = {.struct_size = sizeof ev, .param = 7};
    ck_assert_int_eq(ddp->ops.on_grad(fake.self, &ev), CADRE_E_INTERNAL);
    fake_stop(&fake);
}
END_TEST

/* ---- gradients that are reduced alone ---- */

/* On return from the report the buffer is the host's again. */
static void check_lent(struct fake_host *host, cadre_param_id id, cadre_event ready)
{
    const float *sum = host->entry[id].sum.data;
    ck_assert_uint_gt(ready, FAKE_EVENT);
    ck_assert(host->post[ready - FAKE_EVENT - 1].done);
    for (uint64_t i = 0; i < host->entry[id].count; i++)
        ck_assert(sum[i] == 2);
}

START_TEST(single_micro_batches_are_reduced_at_once)
{
    fake_set(&fake, "overlap", "%s", _i ? "yes" : "no");
    fake.other_map = CADRE_MICROBATCHES_CYCLIC;
    fake.micro_batches = 3;
    fake.on_reduced = check_lent;
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    for (int step = 1; step <= 2; step++) {
        ck_assert_int_eq(fake_step(&fake), CADRE_OK);
        ck_assert_int_eq(fake.posts, step * 3 * (int)fake.n_entries);
        ck_assert_int_eq(sync_grads(), CADRE_OK);
        ck_assert_int_eq(fake.posts, step * 3 * (int)fake.n_entries);
        for (uint32_t i = 0; i < fake.n_entries; i++)
            ck_assert_uint_eq(fake.entry[i].parts, 3 * (unsigned)step);
    }
    fake_stop(&fake);
}
END_TEST

/* As the outer level of a plugin that keeps a range of each gradient. */
START_TEST(ranges_of_a_lower_level_are_reduced_alone)
{
    fake.outer = true;
    fake.other_map = _i ? CADRE_MICROBATCHES_CYCLIC : 0;
    ck_assert_int_eq(fake_create(&fake), CADRE_OK);
    for (uint32_t i = 0; i < fake.n_entries; i += 2) {
        struct fake_entry *entry = &fake.entry[i];
        uint64_t begin = i % 4 && entry->count > FAKE_PAD ? FAKE_PAD : 0;
        entry->range[CADRE_KIND_GRAD] =
            (struct fake_range){true, begin, i % 8 ? entry->count - begin : 0, 0};
    }
    ck_assert_int_eq(fake_plan(&fake), CADRE_OK);
    ck_assert_int_eq(fake_bind(&fake), CADRE_OK);
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_eq(sync_grads(), CADRE_OK);
    for (uint32_t i = 0; i < fake.n_entries; i++) {
        const struct fake_entry *entry = &fake.entry[i];
        const struct fake_range *range = &entry->range[CADRE_KIND_GRAD];
        const float *sum = entry->shard[CADRE_KIND_GRAD];
        ck_assert_uint_eq(entry->reports, 1);
        if (!range->placed)
            ck_assert_uint_eq(fake_wrong(&fake, i, 2), 0);
        else
            ck_assert_uint_eq(entry->sum.count, range->count);
        /* in CYCLIC the host adds the sum to the buffer that it gave */
        for (uint64_t k = 0; range->placed && k < range->count; k++)
            ck_assert(sum[k] == (_i ? 4 : 2));
    }
    for (int p = 0; p < fake.posts; p++)
        ck_assert(fake.post[p].done);
    fake_stop(&fake);
}
END_TEST

START_TEST(compression_takes_whole_sums_only)
{
    fake_set_service(&fake, CADRE_SERVICE_OPS, &fake_ops);
    fake_set(&fake, "compress", "bf16");
    ck_assert_int_eq(fake_create(&fake), CADRE_OK);
    fake.entry[3].range[CADRE_KIND_GRAD] = (struct fake_range){true, 0, 0, 0};
    ck_assert_int_eq(fake_plan(&fake), CADRE_OK);
    ck_assert_int_eq(fake_bind(&fake), CADRE_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(fake.failure, "set ddp.compress = none"));
    fake_stop(&fake);
}
END_TEST

Suite *test_suite(void)
{
    Suite *s = suite_create("ddp reports");
    TCase *tc = tcase_create("reports");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, sums_are_reported_when_their_bucket_leaves, 0, 2);
    tcase_add_test(tc, a_refused_report_is_passed_on);
    tcase_add_test(tc, frozen_parameters_have_no_bucket);
    tcase_add_loop_test(tc, single_micro_batches_are_reduced_at_once, 0, 2);
    tcase_add_loop_test(tc, ranges_of_a_lower_level_are_reduced_alone, 0, 2);
    tcase_add_test(tc, compression_takes_whole_sums_only);
    suite_add_tcase(s, tc);
    return s;
}

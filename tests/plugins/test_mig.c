/* SPDX-License-Identifier: Apache-2.0 */
/* The built plugin against a fake host and a fake place. Training with it is in
 * tests/cli/test_train_mig.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plugin/plugin.h"
#include "tests/plugins/fake_host.h"
#include "tests/support/check_main.h"

#define MOST 32

static const struct cadre_plugin_handle *mig;
static struct fake_host fake;
static struct cadre_place place;
static uint32_t cpus[MOST];

/* What the plugin wished. */
static struct {
    uint32_t n, cpu[MOST];
    char env[256];
} wish;

static cadre_status wish_env(void *h, const char *name, const char *value)
{
    (void)h;
    snprintf(wish.env, sizeof wish.env, "%s=%s", name, value);
    return CADRE_OK;
}

static cadre_status wish_cpus(void *h, const uint32_t *cpu, uint32_t n)
{
    (void)h;
    ck_assert_uint_le(n, MOST);
    wish.n = n;
    memcpy(wish.cpu, cpu, n * sizeof *cpu);
    return CADRE_OK;
}

static const char *const average[] = {"mode",  "average", "profile", "",    "instances",
                                      "",      "sweep",   "",        "pin", "yes",
                                      "share", "no",      NULL};

static void setup(void)
{
    struct cadre_error err = {0};
    cadre_status rc = cadre_plugin_load("mig", NULL, &mig, &err);
    ck_assert_msg(rc == CADRE_OK, "%s", err.text);
    fake_init(&fake, &mig->ops, 40);
    fake.axis = "mig";
    fake.option = average;
    for (uint32_t i = 0; i < MOST; i++)
        cpus[i] = 1000 + 2 * i; /* no such CPUs: their topology is unknown */
    place = (struct cadre_place){
        .struct_size = sizeof place,
        .env = wish_env,
        .cpus = wish_cpus,
        .ranks = 2,
        .local_ranks = 2,
        .cpu = cpus,
        .n_cpus = 8,
        .threads = 1,
    };
    memset(&wish, 0, sizeof wish);
}

static void teardown(void)
{
    fake_fini(&fake);
}

/* Make rank `index` of `size` along the axis and ask for its place. */
static cadre_status ask(int index, int size)
{
    fake.ranks = size;
    fake.index = index;
    memset(&wish, 0, sizeof wish);
    ck_assert_msg(fake_start(&fake) == CADRE_OK, "%s", fake.failure);
    cadre_status rc = mig->ops.place(fake.self, &place);
    mig->ops.destroy(fake.self);
    return rc;
}

static void refused(cadre_status rc, const char *text)
{
    ck_assert_int_ne(rc, CADRE_OK);
    ck_assert_msg(strstr(fake.failure, text), "'%s' lacks '%s'", fake.failure, text);
    ck_assert_uint_eq(wish.n, 0);
    ck_assert_str_eq(wish.env, "");
}

/* ---- what it says in plan ---- */

START_TEST(average_splits_the_batch_and_owns_the_sum)
{
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    ck_assert_uint_eq(fake.batch, CADRE_BATCH_SPLIT);
    ck_assert_str_eq(fake.claim, "grad.reduce@dp/0"); /* so ddp and zero are refused */
    mig->ops.destroy(fake.self);
}
END_TEST

START_TEST(independent_runs_claim_and_sum_nothing)
{
    static const char *const options[] = {"mode", "independent", "sweep",
                                          "optim.lr: 1e-3 3e-4", NULL};
    fake.option = options;
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    ck_assert_uint_eq(fake.batch, CADRE_BATCH_APART);
    ck_assert_str_eq(fake.claim, "");
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_eq(mig->ops.sync(fake.self, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(fake.posts, 0);
    mig->ops.destroy(fake.self);
}
END_TEST

START_TEST(a_sweep_needs_independent_runs)
{
    static const char *const options[] = {"mode", "average", "sweep",
                                          "optim.lr: 1e-3 3e-4", NULL};
    fake.option = options;
    refused(fake_start(&fake), "mig.sweep = optim.lr: 1e-3 3e-4 gives instances "
                               "different options, but mig.mode = average");
}
END_TEST

START_TEST(refusals_of_the_host_are_passed_on)
{
    for (int i = 1; i <= 3; i++) {
        fake.plans = 0;
        fake.fail_plan = i;
        ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
    }
    fake.fail_plan = 0;
    for (int i = 1; i <= 4; i++) {
        fake.services = 0;
        fake.fail_service = i;
        ck_assert_int_eq(fake_start(&fake), CADRE_E_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(fake.failure, "the host has no service"));
    }
}
END_TEST

/* ---- core sets ---- */

START_TEST(core_sets_follow_the_axis)
{
    for (int size = 1; size <= 8; size++)
        for (int index = 0; index < size; index++) {
            ck_assert_int_eq(ask(index, size), CADRE_OK);
            ck_assert_uint_eq(wish.n, 8u / (uint32_t)size);
            for (uint32_t i = 0; i < wish.n; i++)
                ck_assert_uint_eq(wish.cpu[i], cpus[(uint32_t)index * wish.n + i]);
            ck_assert_str_eq(wish.env, "");
        }
}
END_TEST

START_TEST(more_sets_than_cpus_are_refused)
{
    place.n_cpus = 3;
    refused(ask(0, 4), "4 core sets, but there are 3 CPUs to cut; take mig:3, or "
                       "mig.pin = no");
}
END_TEST

START_TEST(without_pin_nothing_is_wished)
{
    static const char *const options[] = {"mode", "average", "pin", "no", NULL};
    fake.option = options;
    place.n_cpus = 3;
    ck_assert_int_eq(ask(3, 4), CADRE_OK);
    place.gpu = 1;
    ck_assert_int_eq(ask(3, 4), CADRE_OK);
    ck_assert_uint_eq(wish.n, 0);
    ck_assert_str_eq(wish.env, "");
}
END_TEST

/* Sets are of one machine: of 8 instances on two machines each has 4. */
START_TEST(each_machine_has_its_share)
{
    place.ranks = 16;
    place.local_ranks = 8;
    ck_assert_int_eq(ask(5, 8), CADRE_OK);
    ck_assert_uint_eq(wish.n, 2);
    ck_assert_uint_eq(wish.cpu[0], cpus[2]);
    place.local_ranks = 0; /* not known: taken as one */
    ck_assert_int_eq(ask(5, 8), CADRE_OK);
    ck_assert_uint_eq(wish.n, 1);
}
END_TEST

/* ---- MIG instances ---- */

/* The machine has GPUs that these words describe (tests/support/fake_nvml). */
static void show_gpus(const char *words)
{
    char path[1024];
    const char *build = getenv("CADRE_BUILD");
    snprintf(path, sizeof path, "%s/tests/support/fake_nvml/.libs/fake_nvml.so",
             build ? build : ".");
    setenv("CADRE_NVML", path, 1);
    setenv("CADRE_FAKE_NVML", words, 1);
    unsetenv("CADRE_FAKE_NVML_STATE");
    unsetenv("CUDA_VISIBLE_DEVICES");
    place.gpu = 1;
}

START_TEST(instances_follow_the_axis)
{
    char first[256];
    show_gpus("h200 0@0 0@2 2@4");
    ck_assert_int_eq(ask(0, 2), CADRE_OK);
    ck_assert_msg(strncmp(wish.env, "CUDA_VISIBLE_DEVICES=MIG-", 25) == 0, "%s",
                  wish.env);
    memcpy(first, wish.env, sizeof first);
    ck_assert_int_eq(ask(1, 2), CADRE_OK);
    ck_assert_str_ne(wish.env, first);
    ck_assert_int_eq(ask(0, 2), CADRE_OK);
    ck_assert_str_eq(wish.env, first);
    ck_assert_uint_eq(wish.n, 0);
    place.ranks = place.local_ranks = 4;
    refused(ask(0, 4), "needs 4 MIG instances, found 3");
}
END_TEST

START_TEST(options_choose_instances)
{
    static const char *const options[] = {
        "mode", "average", "profile", "1g", "instances", "0:1 0:0", "pin", "yes", NULL};
    show_gpus("h200 0@0 0@2 2@4");
    fake.option = options;
    ck_assert_int_eq(ask(0, 2), CADRE_OK);
    const char end = wish.env[strlen(wish.env) - 1];
    ck_assert_int_eq(ask(1, 2), CADRE_OK);
    ck_assert_int_ne(wish.env[strlen(wish.env) - 1], end);
    place.ranks = place.local_ranks = 3;
    refused(ask(0, 3), "found 2 in mig.instances of mig.profile = 1g");
}
END_TEST

START_TEST(gpus_without_instances_say_why)
{
    show_gpus("h200 off");
    refused(ask(0, 2), "MIG is off");
    ck_assert_ptr_nonnull(strstr(fake.failure, "`cadre mig plan`"));
    ck_assert_ptr_nonnull(strstr(fake.failure, "mig.pin = no"));
    show_gpus("h200 nomig");
    refused(ask(0, 2), "MIG");
    show_gpus("h200");
    refused(ask(0, 2), "no instances yet");
    setenv("CADRE_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    refused(ask(0, 2), "/nowhere/libnvidia-ml.so.1");
}
END_TEST

START_TEST(ranks_share_an_instance_only_where_asked)
{
    static const char *const options[] = {"mode",  "average", "pin", "yes",
                                          "share", "yes",     NULL};
    show_gpus("h200 0@0 0@2");
    place.ranks = place.local_ranks = 4;
    refused(ask(1, 2), "puts 2 ranks on each of 2 MIG instances: set mig.share = yes");
    fake.option = options;
    ck_assert_int_eq(ask(1, 2), CADRE_OK);
    ck_assert_int_eq(ask(3, 4),
                     CADRE_OK); /* more ranks along the axis than instances */
}
END_TEST

START_TEST(nccl_does_not_reach_instances)
{
    place.gpu = place.nccl = 1;
    refused(ask(0, 2), "set comm.backend = local");
}
END_TEST

START_TEST(an_older_host_is_refused)
{
    place.struct_size = offsetof(struct cadre_place, gpu);
    refused(ask(0, 2), "the host does not say which CPUs");
}
END_TEST

/* ---- sums ---- */

static void run_step(void)
{
    ck_assert_msg(fake_step(&fake) == CADRE_OK, "%s", fake.failure);
    ck_assert_int_eq(mig->ops.sync(fake.self, CADRE_SYNC_GRADS), CADRE_OK);
    ck_assert_int_eq(fake.early, 0);
}

START_TEST(every_gradient_is_summed_once)
{
    fake.absent[7] = fake.absent[8] = true;
    fake.silent[3] = true; /* no gradient comes: it is zero, and travels */
    fake.apart[20] = true;
    fake.micro_batches = 3;
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    for (int step = 0; step < 2; step++) {
        run_step();
        for (uint32_t i = 0; i < fake.n_entries; i++)
            ck_assert_msg(fake_wrong(&fake, i, fake.absent[i] ? 1.0f : 2.0f) == 0,
                          "entry %u", i);
    }
    mig->ops.destroy(fake.self);
}
END_TEST

/* Two buckets or more, the first of them on its way while backward goes on. */
START_TEST(sums_begin_during_backward)
{
    fake.apart[20] = true;
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    run_step();
    ck_assert_int_ge(fake.posts, 2);
    ck_assert_int_ge(fake.posts_at_grad[0], fake.posts - 1);
    ck_assert_int_ge(fake.posts_at_grad[20], 1);
    for (int i = 1; i < fake.posts; i++)
        ck_assert(fake.post[i].data < fake.post[i - 1].data); /* one order */
    mig->ops.destroy(fake.self);
}
END_TEST

START_TEST(one_instance_sums_nothing)
{
    fake.ranks = 1;
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    run_step();
    ck_assert_int_eq(fake.posts, 0);
    mig->ops.destroy(fake.self);
}
END_TEST

START_TEST(failures_are_passed_on)
{
    fake.fail_post = 1;
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    cadre_status rc = fake_step(&fake);
    if (rc == CADRE_OK)
        rc = mig->ops.sync(fake.self, CADRE_SYNC_GRADS);
    ck_assert_int_eq(rc, CADRE_E_COMM);
    mig->ops.destroy(fake.self);
    fake.fail_post = 0;
    fake.fail_join = 1;
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    ck_assert_int_eq(fake_step(&fake), CADRE_OK);
    ck_assert_int_eq(mig->ops.sync(fake.self, CADRE_SYNC_GRADS), CADRE_E_ABORTED);
    mig->ops.destroy(fake.self);
}
END_TEST

START_TEST(a_stray_gradient_is_refused)
{
    struct cadre_grad_ev ev = {.struct_size = sizeof ev, .param = 1};
    ck_assert_int_eq(fake_start(&fake), CADRE_OK);
    ck_assert_int_eq(mig->ops.on_grad(fake.self, &ev), CADRE_E_INTERNAL);
    run_step();
    ev.param = 4000;
    ck_assert_int_eq(mig->ops.on_grad(fake.self, &ev), CADRE_E_INTERNAL);
    mig->ops.destroy(fake.self);
}
END_TEST

START_TEST(a_bind_that_fails_is_passed_on)
{
    fake.detached[5] = true;
    refused(fake_start(&fake), "gradient entry 5 has no storage of its own");
    fake.detached[5] = false;
    fake.params = 0;
    fake.fail_param = 3;
    ck_assert_int_eq(fake_start(&fake), CADRE_E_INTERNAL);
}
END_TEST

Suite *test_suite(void)
{
    Suite *suite = suite_create("mig");
    TCase *tc = tcase_create("mig");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, average_splits_the_batch_and_owns_the_sum);
    tcase_add_test(tc, independent_runs_claim_and_sum_nothing);
    tcase_add_test(tc, a_sweep_needs_independent_runs);
    tcase_add_test(tc, refusals_of_the_host_are_passed_on);
    tcase_add_test(tc, core_sets_follow_the_axis);
    tcase_add_test(tc, more_sets_than_cpus_are_refused);
    tcase_add_test(tc, without_pin_nothing_is_wished);
    tcase_add_test(tc, each_machine_has_its_share);
    tcase_add_test(tc, instances_follow_the_axis);
    tcase_add_test(tc, options_choose_instances);
    tcase_add_test(tc, gpus_without_instances_say_why);
    tcase_add_test(tc, ranks_share_an_instance_only_where_asked);
    tcase_add_test(tc, nccl_does_not_reach_instances);
    tcase_add_test(tc, an_older_host_is_refused);
    tcase_add_test(tc, every_gradient_is_summed_once);
    tcase_add_test(tc, sums_begin_during_backward);
    tcase_add_test(tc, one_instance_sums_nothing);
    tcase_add_test(tc, failures_are_passed_on);
    tcase_add_test(tc, a_stray_gradient_is_refused);
    tcase_add_test(tc, a_bind_that_fails_is_passed_on);
    suite_add_tcase(suite, tc);
    return suite;
}
